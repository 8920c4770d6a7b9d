//! The exchange, played by hand: lines of the worker in; lines to the worker, and what readers get, out.

mod hostile;
mod spoiled;

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};
use wire::JsonRpcField;

use super::{Beginning, Exchange, Limits, Naming, Patience, TurnKey};
use crate::dialect::Line;

struct Play {
    exchange: Exchange,
    now: Instant,
}

const MINUTE: Duration = Duration::from_secs(60);

impl Play {
    fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    fn with_limits(limits: Limits) -> Self {
        let exchange = Exchange::new(limits, Patience::default(), Vec::new(), JsonRpcField::Omitted);
        Self { exchange, now: Instant::now() }
    }

    /// The worker says these lines.
    fn hear(&mut self, lines: &[&str]) {
        for line in lines {
            let line = format!("{line}\n");
            assert_eq!(self.exchange.connection.handle_input(line.as_bytes()), line.len());
            self.exchange.advance(17, self.now);
        }
    }

    /// What the worker is sent.
    fn sent(&mut self) -> String {
        let mut sent = String::new();
        while let Some(line) = self.exchange.connection.poll_transmit() {
            sent += &String::from_utf8(line).unwrap();
        }
        sent
    }

    fn begin(&mut self, thread: &str) -> TurnKey {
        let start = line("turn/start", &json!({"threadId": thread}));
        let beginning = Beginning { naming: Naming::Answer, listen: None, start };
        let turn = self.exchange.begin_turn(thread, beginning, self.now + MINUTE).unwrap();
        assert_eq!(self.sent().lines().count(), 1);
        turn
    }

    /// A turn `u1` that runs in the thread `t`.
    fn running(&mut self) -> TurnKey {
        let turn = self.begin("t");
        self.hear(&[r#"{"id":1,"result":{"turn":{"id":"u1"}}}"#, STARTED]);
        assert_eq!(self.read(turn).lines().count(), 1);
        turn
    }

    /// What waits for the reader of a turn, a line each.
    fn read(&mut self, turn: TurnKey) -> String {
        let mut read = String::new();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match self.exchange.poll_turn(turn, &mut context) {
                Poll::Ready(Some(event)) => {
                    read += &serde_json::to_string(&event).unwrap();
                    read.push('\n');
                }
                Poll::Ready(None) => return read + "over\n",
                Poll::Pending => return read,
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.exchange.handle_timeout(self.now);
        self.exchange.advance(17, self.now);
    }
}

fn line(method: &str, params: &Value) -> Line {
    Line { method: method.into(), params: Some(crate::requests::written(params)) }
}

const STARTED: &str = r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u1"}}}"#;
const HELLO: &str =
    r#"{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u1","itemId":"i","delta":"hello"}}"#;
const OTHER: &str =
    r#"{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u0","itemId":"i","delta":"old"}}"#;
const MESSAGE_STARTED: &str =
    r#"{"method":"item/started","params":{"threadId":"t","turnId":"u1","item":{"type":"agentMessage","id":"i"}}}"#;
const COMPLETED: &str =
    r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u1","status":"completed"}}}"#;
const MAY_I: &str =
    r#"{"id":7,"method":"item/commandExecution/requestApproval","params":{"threadId":"t","turnId":"u1"}}"#;

#[test]
fn what_overtakes_the_answer_reaches_its_turn_and_no_other() {
    let mut play = Play::new();
    let turn = play.begin("t");
    play.hear(&[OTHER, STARTED, HELLO]);
    assert_eq!(play.read(turn), "", "nobody knows yet whose this is");
    play.hear(&[r#"{"id":1,"result":{"turn":{"id":"u1"}}}"#, OTHER, COMPLETED, HELLO]);
    expect![[r#"
        {"type":"turn_started","thread":"t","turn":"u1"}
        {"type":"text","item":"i","text":"hello"}
        {"type":"turn_ended","status":"completed","error":null}
        over
    "#]]
    .assert_eq(&play.read(turn));
}

#[test]
fn what_a_turn_has_begun_is_closed_before_its_end() {
    let mut play = Play::new();
    let turn = play.running();
    play.hear(&[MESSAGE_STARTED, COMPLETED, COMPLETED]);
    expect![[r#"
        {"type":"item_started","item":{"id":"i","kind":"agent_message","status":null,"raw":{"type":"agentMessage","id":"i"}}}
        {"type":"item_completed","item":{"id":"i","kind":"agent_message","status":"interrupted","raw":{"type":"agentMessage","id":"i"}}}
        {"type":"turn_ended","status":"completed","error":null}
        over
    "#]]
    .assert_eq(&play.read(turn));
}

#[test]
fn a_thread_has_one_turn_at_a_time() {
    let mut play = Play::new();
    let turn = play.running();
    let start = line("turn/start", &json!({}));
    let again = Beginning { naming: Naming::Answer, listen: None, start };
    let refusal = play.exchange.begin_turn("t", again.clone(), play.now + MINUTE).unwrap_err();
    assert_eq!(refusal.to_string(), "thread t is busy with turn u1: wait for its end, or steer it");
    play.hear(&[COMPLETED]);
    play.exchange.drop_turn(turn, play.now);
    assert!(play.exchange.begin_turn("t", again, play.now + MINUTE).is_ok());
}

#[test]
fn a_turn_of_somebody_else_makes_a_thread_busy_too_and_can_be_followed() {
    let mut play = Play::new();
    play.hear(&[STARTED]);
    let start = line("turn/start", &json!({}));
    let beginning = Beginning { naming: Naming::Answer, listen: None, start };
    assert!(play.exchange.begin_turn("t", beginning, play.now + MINUTE).is_err());
    let turn = play.exchange.follow_turn("t", "u1").unwrap();
    play.hear(&[HELLO, COMPLETED]);
    assert_eq!(play.read(turn).lines().count(), 3);
}

#[test]
fn a_dropped_turn_is_interrupted_once() {
    let mut play = Play::new();
    let turn = play.running();
    play.exchange.interrupt_turn(turn, play.now);
    play.exchange.drop_turn(turn, play.now);
    expect![[r#"
        {"id":2,"method":"turn/interrupt","params":{"threadId":"t","turnId":"u1"}}
    "#]]
    .assert_eq(&play.sent());
}

#[test]
fn an_interrupt_waits_for_the_turn_to_begin() {
    let mut play = Play::new();
    let turn = play.begin("t");
    play.hear(&[r#"{"id":1,"result":{"turn":{"id":"u1"}}}"#]);
    play.exchange.interrupt_turn(turn, play.now);
    assert_eq!(play.sent(), "", "the worker would say that there is no such turn");
    play.hear(&[STARTED, HELLO]);
    expect![[r#"
        {"id":2,"method":"turn/interrupt","params":{"threadId":"t","turnId":"u1"}}
    "#]]
    .assert_eq(&play.sent());
}

#[test]
fn a_thread_is_free_when_the_turn_that_was_dropped_is_over() {
    let mut play = Play::new();
    let turn = play.running();
    let mut context = Context::from_waker(Waker::noop());
    assert!(play.exchange.poll_free("t", &mut context).is_ready(), "somebody reads it: that is no reason to wait");
    play.exchange.drop_turn(turn, play.now);
    assert!(play.exchange.poll_free("t", &mut context).is_pending());
    play.hear(&[COMPLETED]);
    assert!(play.exchange.poll_free("t", &mut context).is_ready());
}

#[test]
fn a_turn_that_is_dropped_while_it_starts_is_interrupted_when_it_runs() {
    let mut play = Play::new();
    let turn = play.begin("t");
    play.exchange.drop_turn(turn, play.now);
    play.hear(&[r#"{"id":1,"result":{"turn":{"id":"u1"}}}"#]);
    assert_eq!(play.sent(), "", "the worker would say that there is no such turn");
    play.hear(&[STARTED]);
    expect![[r#"
        {"id":2,"method":"turn/interrupt","params":{"threadId":"t","turnId":"u1"}}
    "#]]
    .assert_eq(&play.sent());
    play.hear(&[COMPLETED]);
    play.begin("t");
}

#[test]
fn a_refused_turn_leaves_its_thread_free() {
    let mut play = Play::new();
    let turn = play.begin("t");
    play.hear(&[r#"{"id":1,"error":{"code":-32600,"message":"thread not found: t"}}"#]);
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(play.exchange.poll_started(turn, &mut context), Poll::Ready(Err(_))));
    play.exchange.drop_turn(turn, play.now);
    play.begin("t");
}

#[test]
fn a_reader_that_is_too_slow_is_told_so_and_its_turn_is_stopped() {
    let mut play = Play::with_limits(Limits { turn_bytes_max: 200, ..Limits::default() });
    let turn = play.running();
    let long = HELLO.replace("hello", &"x".repeat(300));
    play.hear(&[HELLO, &long, MAY_I, HELLO]);
    expect![[r#"
        {"id":2,"method":"turn/interrupt","params":{"threadId":"t","turnId":"u1"}}
    "#]]
    .assert_eq(&play.sent());
    play.hear(&[COMPLETED.replace("completed\"}", "interrupted\"}").as_str()]);
    expect![[r#"
        {"type":"text","item":"i","text":"hello"}
        {"type":"cut","events":1,"bytes":301}
        {"type":"approval_wanted","request":"7","kind":"command","item":null,"params":{"threadId":"t","turnId":"u1"}}
        {"type":"cut","events":1,"bytes":6}
        {"type":"turn_ended","status":"interrupted","error":{"message":"the reader was too slow: events were left out and the turn was interrupted","kind":"slow_consumer","http_status":null,"details":null}}
        over
    "#]]
    .assert_eq(&play.read(turn));
}

#[test]
fn when_the_connection_ends_every_turn_is_lost() {
    let mut play = Play::new();
    let (first, second) = (play.running(), play.begin("s"));
    play.hear(&[MESSAGE_STARTED]);
    play.exchange.connection.handle_eof();
    play.exchange.advance(17, play.now);
    play.exchange.end("the worker is gone");
    let lost = r#"{"type":"turn_ended","status":"lost","error":{"message":"the worker is gone","kind":null,"http_status":null,"details":null}}"#;
    let read = play.read(first);
    assert!(read.contains(r#""status":"lost","raw""#) && read.ends_with(&format!("{lost}\nover\n")), "{read}");
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(play.exchange.poll_started(second, &mut context), Poll::Ready(Err(_))));
}

#[test]
fn a_request_that_nobody_decides_is_declined_when_its_time_is_up() {
    let mut play = Play::new();
    play.exchange.attach_requests();
    play.running();
    play.hear(&[MAY_I]);
    let asked = play.exchange.take_asked().remove(0);
    play.exchange.leave_to_reader(&asked.id);
    play.wait(9 * MINUTE);
    assert_eq!(play.sent(), "");
    play.wait(2 * MINUTE);
    expect![[r#"
        {"id":7,"result":{"decision":"decline"}}
    "#]]
    .assert_eq(&play.sent());
    assert!(play.exchange.answer(&asked.id, Ok(&asked.params)).is_err(), "the first answer has won");
}

#[test]
fn a_request_without_anybody_to_decide_is_declined_at_once() {
    let mut play = Play::new();
    play.running();
    play.hear(&[MAY_I, r#"{"id":8,"method":"holo/deck"}"#, r#"{"id":9,"method":"currentTime/read"}"#]);
    let asked = play.exchange.take_asked().remove(0);
    play.exchange.leave_to_reader(&asked.id);
    expect![[r#"
        {"id":8,"error":{"code":-32601,"message":"unknown request"}}
        {"id":9,"result":{"currentTimeAt":17}}
        {"id":7,"result":{"decision":"decline"}}
    "#]]
    .assert_eq(&play.sent());
}

#[test]
fn what_somebody_else_has_answered_is_forgotten_without_a_word() {
    let mut play = Play::new();
    let turn = play.running();
    play.hear(&[MAY_I, r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":7}}"#]);
    assert!(play.exchange.take_asked().is_empty());
    assert_eq!(play.sent(), "");
    let read = play.read(turn);
    assert!(read.ends_with("{\"type\":\"approval_resolved\",\"request\":\"7\"}\n"), "{read}");
}

#[test]
fn what_a_turn_asked_is_moot_when_it_is_over() {
    let mut play = Play::new();
    play.running();
    play.hear(&[MAY_I, COMPLETED]);
    expect![[r#"
        {"id":7,"result":{"decision":"decline"}}
    "#]]
    .assert_eq(&play.sent());
    assert!(play.exchange.take_asked().is_empty());
}

#[test]
fn a_turn_whose_end_is_never_told_is_over_when_its_thread_stays_idle() {
    let mut play = Play::new();
    let turn = play.running();
    let status = |status: &str| {
        format!(r#"{{"method":"thread/status/changed","params":{{"threadId":"t","status":{{"type":"{status}"}}}}}}"#)
    };
    play.hear(&[&status("idle"), &status("active")]);
    play.wait(MINUTE);
    assert_eq!(play.read(turn), "", "it went on");
    play.hear(&[&status("idle")]);
    play.wait(Duration::from_secs(9));
    assert_eq!(play.read(turn), "", "its end may still come");
    play.wait(Duration::from_secs(2));
    expect![[r#"
        {"type":"turn_ended","status":"lost","error":{"message":"the thread is idle, and the worker has not told how the turn ended","kind":null,"http_status":null,"details":null}}
        over
    "#]]
    .assert_eq(&play.read(turn));
}

#[test]
fn a_turn_that_begins_after_its_start_was_given_up_is_stopped() {
    let mut play = Play::new();
    let turn = play.begin("t");
    play.wait(2 * MINUTE);
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(play.exchange.poll_started(turn, &mut context), Poll::Ready(Err(_))));
    play.exchange.drop_turn(turn, play.now);
    let again = Beginning { naming: Naming::Answer, listen: None, start: line("turn/start", &json!({})) };
    assert!(play.exchange.begin_turn("t", again.clone(), play.now + MINUTE).is_err(), "it may still begin");
    play.hear(&[STARTED]);
    expect![[r#"
        {"id":2,"method":"turn/interrupt","params":{"threadId":"t","turnId":"u1"}}
    "#]]
    .assert_eq(&play.sent());
    play.hear(&[COMPLETED]);
    assert!(play.exchange.begin_turn("t", again, play.now + MINUTE).is_ok());
}

#[test]
fn a_thread_whose_turn_never_begins_is_free_again_after_a_while() {
    let mut play = Play::new();
    let turn = play.begin("t");
    play.wait(2 * MINUTE);
    play.exchange.drop_turn(turn, play.now);
    play.wait(2 * MINUTE);
    play.begin("t");
}

#[test]
fn what_happens_in_turns_of_others_is_told_of_the_connection() {
    let mut play = Play::new();
    let key = play.exchange.attach_events();
    play.hear(&[HELLO]);
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(event)) = play.exchange.poll_events(key, &mut context) else {
        panic!("nothing was told");
    };
    assert_eq!(
        serde_json::to_string(&event).unwrap(),
        r#"{"type":"turn","thread":"t","turn":"u1","event":{"type":"text","item":"i","text":"hello"}}"#
    );
}

/// Any order of what can happen: a turn tells its end once and last, and nothing of it is left behind.
#[test]
fn a_turn_ends_exactly_once_whatever_happens() {
    let scale: u64 = std::env::var("SWITCHBOARD_TEST_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1);
    for seed in 0..500 * scale {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut play = Play::with_limits(Limits { turn_bytes_max: 400, ..Limits::default() });
        let turn = play.begin("t");
        let answer = r#"{"id":1,"result":{"turn":{"id":"u1"}}}"#;
        let mut lines = vec![answer, STARTED, HELLO, OTHER, MESSAGE_STARTED, MAY_I, COMPLETED, HELLO, COMPLETED];
        let shuffled = random.usize(1..9);
        random.shuffle(&mut lines[..shuffled]);
        let mut read = String::new();
        for line in &lines {
            play.hear(&[line]);
            if random.bool() {
                read += &play.read(turn);
            }
        }
        play.exchange.connection.handle_eof();
        play.exchange.advance(17, play.now);
        play.exchange.end("gone");
        read += &play.read(turn);
        let ends = read.matches("turn_ended").count();
        let events: Vec<&str> = read.lines().filter(|line| *line != "over").collect();
        assert!(ends == 1 && events.last().unwrap().contains("turn_ended"), "seed {seed}: {lines:#?}\n{read}");
        play.exchange.drop_turn(turn, play.now);
        assert!(play.exchange.turns.is_empty(), "seed {seed}");
    }
}
