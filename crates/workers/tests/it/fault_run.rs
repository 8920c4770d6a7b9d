//! The faults of `docs/faults.md` that a pool must survive, with real processes. Every caller has words of its own, so that
//! a foreign one is seen; every round has a home of its own, so that what it leaves running is found.

mod callers;
mod disk;
mod garbage;
mod kills;
mod stops;

use std::time::Instant;

use codex::TurnEvent;
use rustix::process::{Pid, Signal};
use testkit::HANG_TIMEOUT;
use testkit::processes;
use workers::{Order, Turn};

use crate::support::{House, next, order, order_in};

/// The words that only this caller gets.
fn words_of(caller: usize, count: usize) -> String {
    (0..count).map(|number| format!("caller{caller}w{number} ")).collect()
}

/// A script in which each caller's prompt plays its own words, and then the step.
fn script_of(callers: usize, words: usize, step: &str) -> String {
    let entry = |caller| {
        let words = words_of(caller, words);
        format!("[[turns]]\nmatch = \"prompt of {caller};\"\nsteps = [\"say {words}\", \"{step}\"]\n")
    };
    (0..callers).map(entry).collect()
}

fn prompt_of(caller: usize) -> Order {
    order(&key_of(caller), &format!("prompt of {caller};"))
}

fn say_in(caller: usize, thread: &str, words: &str) -> Order {
    order_in(&key_of(caller), thread, &format!("[[say {words}]]"))
}

fn key_of(caller: usize) -> String {
    format!("key{caller}")
}

/// What a caller heard of a turn.
struct Heard {
    text: String,
    /// How it ended, with the kind of its error.
    status: String,
    error: String,
    ends: usize,
    ended_at: Instant,
    /// What the client says it left out.
    left_out: bool,
}

impl Heard {
    fn new() -> Self {
        let (text, status, error) = Default::default();
        Self { text, status, error, ends: 0, ended_at: Instant::now(), left_out: false }
    }

    /// Takes an event in; whether it was a delta.
    fn see(&mut self, event: TurnEvent) -> bool {
        match event {
            TurnEvent::Text { text, .. } => {
                self.text += &text.to_str();
                return true;
            }
            TurnEvent::Cut { .. } => self.left_out = true,
            TurnEvent::TurnEnded { status, error } => {
                self.ends += 1;
                self.ended_at = Instant::now();
                self.status = format!("{status:?}");
                self.error = error.map(|error| error.message.into()).unwrap_or_default();
            }
            _ => {}
        }
        false
    }

    /// Whether there was exactly one end, and no word of another caller.
    fn check(&self, caller: usize) {
        assert_eq!(self.ends, 1, "a turn ends exactly once: {} {}", self.status, self.error);
        let own = format!("caller{caller}w");
        let foreign = self.text.split_whitespace().find(|word| word.starts_with("caller") && !word.starts_with(&own));
        assert_eq!(foreign, None, "a word of another caller came to caller {caller}");
    }

    fn check_completed(&self, caller: usize, words: usize) {
        self.check(caller);
        assert_eq!(self.status, "Completed", "{}", self.error);
        assert!(self.text.starts_with(words_of(caller, words).trim_end()), "not all words came: {}", self.text);
    }
}

/// Reads a turn to its end. After each text it reports how many words there are so far: deltas that wait for a slow reader
/// come as one, so their number says nothing.
async fn hear(turn: &mut Turn, mut after_text: impl FnMut(usize)) -> Heard {
    let mut heard = Heard::new();
    while let Some(event) = next(turn).await {
        if heard.see(event) {
            after_text(heard.text.matches(' ').count());
        }
    }
    heard
}

fn signal(pid: u32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

fn pid_of(house: &House, worker: &str) -> u32 {
    let workers = house.pool.workers();
    workers.iter().find(|view| &*view.name == worker).and_then(|view| view.pid).expect("the worker runs")
}

/// Stops the pool, and sees that nothing of it is left running.
async fn close(house: House) {
    house.stop().await;
    let mark = format!("CODEX_HOME={}", house.path().join("home").display());
    let left = processes::until_gone(&processes::with(&mark), HANG_TIMEOUT).await;
    assert!(left.is_empty(), "processes are left: {left:?}");
}
