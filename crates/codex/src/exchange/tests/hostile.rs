//! Workers that lie, flood or fall silent, and callers who do not look: nothing waits for ever, and nothing grows for ever.

use super::*;
use crate::exchange::NotBegun;

const IDLE: &str =
    r#"{"method":"thread/status/changed","params":{"threadId":"t","status":{"type":"idle","activeFlags":[]}}}"#;
const RESOLVED: &str = r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":7}}"#;
const OVERLOADED: &str = r#"{"id":2,"error":{"code":-32001,"message":"Server overloaded; retry later."}}"#;

fn plain_start() -> Beginning {
    let start = line("turn/start", &json!({"threadId": "t"}));
    Beginning { naming: Naming::Answer, listen: None, start }
}

impl Play {
    fn is_free(&mut self) -> bool {
        match self.exchange.begin_turn("t", plain_start(), self.now + MINUTE) {
            Ok(_) => true,
            Err(NotBegun::Busy(_)) => false,
            Err(NotBegun::Refused(refused)) => panic!("{refused}"),
        }
    }

    fn poll_started(&mut self, turn: TurnKey) -> Poll<Result<Box<str>, wire::Outcome>> {
        self.exchange.poll_started(turn, &mut Context::from_waker(Waker::noop()))
    }

    /// A turn that its first event is to name.
    fn begin_unnamed(&mut self) -> TurnKey {
        let start = line("thread/compact/start", &json!({"threadId": "t"}));
        let beginning = Beginning { naming: Naming::FirstEvent, listen: None, start };
        let turn = self.exchange.begin_turn("t", beginning, self.now + MINUTE).unwrap();
        self.sent();
        turn
    }
}

#[test]
fn a_turn_whose_answer_names_nothing_gets_its_name_from_its_first_event() {
    let mut play = Play::new();
    let turn = play.begin_unnamed();
    play.hear(&[r#"{"id":1,"result":{}}"#]);
    assert!(play.poll_started(turn).is_pending());
    play.hear(&[STARTED, COMPLETED]);
    assert!(matches!(play.poll_started(turn), Poll::Ready(Ok(name)) if &*name == "u1"));
    assert_eq!(play.read(turn).lines().count(), 3);
}

#[test]
fn a_turn_that_is_never_named_is_given_up_and_leaves_its_thread_free() {
    let mut play = Play::new();
    let turn = play.begin_unnamed();
    play.hear(&[r#"{"id":1,"result":{}}"#]);
    play.wait(2 * MINUTE);
    assert!(matches!(play.poll_started(turn), Poll::Ready(Err(wire::Outcome::TimedOut(_)))));
    play.exchange.drop_turn(turn, play.now);
    assert!(!play.is_free(), "it may still begin");
    play.wait(2 * MINUTE);
    assert!(play.is_free());
}

#[test]
fn a_turn_that_is_dropped_and_never_named_leaves_its_thread_free() {
    let mut play = Play::new();
    let turn = play.begin_unnamed();
    play.hear(&[r#"{"id":1,"result":{}}"#]);
    play.exchange.drop_turn(turn, play.now);
    assert!(!play.is_free(), "it may still begin");
    play.wait(2 * MINUTE);
    assert!(play.is_free());
}

#[test]
fn a_turn_that_was_over_before_it_was_followed_leaves_its_thread_free_when_it_is_dropped() {
    let mut play = Play::new();
    let turn = play.exchange.follow_turn("t", "u0").unwrap();
    play.exchange.drop_turn(turn, play.now);
    play.sent();
    assert!(!play.is_free());
    play.hear(&[r#"{"id":1,"error":{"code":-32600,"message":"no active turn to interrupt"}}"#]);
    assert!(play.is_free());
}

#[test]
fn a_turn_that_is_followed_on_a_connection_that_is_over_is_lost() {
    let mut play = Play::new();
    play.exchange.connection.handle_eof();
    play.exchange.advance(17, play.now);
    play.exchange.end("the worker is gone");
    let turn = play.exchange.follow_turn("t", "u1").unwrap();
    assert!(play.read(turn).contains("the worker is gone"));
}

#[test]
fn a_start_that_timed_out_and_began_all_the_same_keeps_its_thread_busy() {
    let mut play = Play::new();
    let turn = play.begin("t");
    play.hear(&[STARTED]);
    play.wait(2 * MINUTE);
    assert!(matches!(play.poll_started(turn), Poll::Ready(Err(wire::Outcome::TimedOut(_)))));
    play.exchange.drop_turn(turn, play.now);
    assert!(!play.is_free(), "the worker would take a second one for more input to the first");
    play.hear(&[COMPLETED.replace("u1", "u0").as_str()]);
    assert!(!play.is_free(), "another one has ended");
    play.hear(&[COMPLETED]);
    assert!(play.is_free());
}

#[test]
fn a_thread_that_is_said_to_be_idle_is_free() {
    let mut play = Play::new();
    play.hear(&[STARTED]);
    assert!(!play.is_free());
    play.hear(&[IDLE]);
    assert!(play.is_free());
}

#[test]
fn an_overloaded_worker_is_asked_again_to_stop_a_turn_that_nobody_reads() {
    let mut play = Play::new();
    let turn = play.running();
    play.exchange.drop_turn(turn, play.now);
    play.sent();
    play.hear(&[OVERLOADED]);
    let again = play.exchange.poll_timeout().expect("it is asked again");
    play.wait(again - play.now);
    expect![[r#"
        {"id":3,"method":"turn/interrupt","params":{"threadId":"t","turnId":"u1"}}
    "#]]
    .assert_eq(&play.sent());
}

#[test]
fn a_worker_that_stays_overloaded_is_not_asked_for_ever() {
    let mut play = Play::new();
    let turn = play.running();
    play.exchange.drop_turn(turn, play.now);
    let mut asked = 0;
    while let Some(line) = play.exchange.connection.poll_transmit() {
        asked += 1;
        let id = String::from_utf8(line).unwrap()[6..].split(',').next().unwrap().to_owned();
        play.hear(&[OVERLOADED.replace("\"id\":2", &format!("\"id\":{id}")).as_str()]);
        if let Some(again) = play.exchange.poll_timeout() {
            play.wait(again - play.now);
        }
    }
    assert!((10..100).contains(&asked), "{asked}");
    assert_eq!(play.exchange.poll_timeout(), None);
}

#[test]
fn one_long_event_does_not_make_its_reader_slow() {
    let mut play = Play::with_limits(Limits { turn_bytes_max: 200, ..Limits::default() });
    let turn = play.running();
    play.hear(&[HELLO.replace("hello", &"x".repeat(300)).as_str()]);
    assert_eq!(play.sent(), "", "nobody is interrupted");
    assert!(play.read(turn).contains("xxx"));
}

/// What a worker can say without end, and what it costs whoever does not look.
#[test]
fn no_flood_fills_the_memory() {
    let usage = r#"{"method":"thread/tokenUsage/updated","params":{"threadId":"t","turnId":"u1","tokenUsage":{"last":{},"total":{}}}}"#;
    let nameless = HELLO.replace("\"i\"", &format!("\"{}\"", "i".repeat(1000))).replace("hello", "");
    let nothing_new = RESOLVED.replace("7", "\"eight\"");
    for line in [STARTED, usage, &nameless, &nothing_new, MESSAGE_STARTED] {
        let mut starting = Play::with_limits(Limits { turn_bytes_max: 10_000, ..Limits::default() });
        let mut running = Play::with_limits(Limits { turn_bytes_max: 10_000, ..Limits::default() });
        let mut dropped = Play::with_limits(Limits { turn_bytes_max: 10_000, ..Limits::default() });
        let turns = [starting.begin("t"), running.running(), dropped.running()];
        dropped.exchange.drop_turn(turns[2], dropped.now);
        for _ in 0..2000 {
            starting.hear(&[line]);
            running.hear(&[line]);
            dropped.hear(&[line]);
        }
        starting.hear(&[r#"{"id":1,"result":{"turn":{"id":"u1"}}}"#]);
        for (play, turn) in [(&mut starting, turns[0]), (&mut running, turns[1])] {
            play.hear(&[COMPLETED]);
            let read = play.read(turn);
            assert!(read.len() < 60_000, "{} bytes of {line}", read.len());
            assert!(read.ends_with("over\n") && read.matches("turn_ended").count() == 1, "{line}");
        }
    }
}

#[test]
fn requests_that_were_taken_back_leave_no_trace_with_a_reader_who_never_looks() {
    let mut play = Play::new();
    play.exchange.attach_requests();
    play.running();
    for _ in 0..2000 {
        play.hear(&[MAY_I]);
        for asked in play.exchange.take_asked() {
            play.exchange.leave_to_reader(&asked.id);
        }
        play.hear(&[RESOLVED]);
    }
    assert_eq!(play.exchange.requests.detach_reader().len(), 0);
}

#[test]
fn a_decision_may_take_for_ever() {
    let patience = Patience { decision_timeout: Duration::MAX, tool_call_timeout: Duration::MAX };
    let exchange = Exchange::new(Limits::default(), patience, Vec::new(), JsonRpcField::Omitted);
    let mut play = Play { exchange, now: Instant::now() };
    play.running();
    play.hear(&[MAY_I]);
    assert!(!play.exchange.take_asked().is_empty());
}
