//! The book played by hand, and under random orders of everything that can happen to it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::shown::tests::command;

fn asked(number: u32, likeness: &str, deadline: Instant) -> Asked {
    let origin = Origin { request: number.to_string(), ..command(&[]).origin };
    Asked { origin, identity: format!("request {number}"), likeness: likeness.into(), key: None, deadline }
}

fn person(verdict: Verdict) -> Proposal {
    Proposal { verdict, by: By::Person { name: "ada".into() } }
}

/// Plays a script, one step a line, and writes down what the book wants done after each.
fn check(script: &str, expect: &Expect) {
    let (mut book, start) = (Book::default(), Instant::now());
    let at = |seconds: &str| start + Duration::from_secs(seconds.parse().unwrap());
    let mut written = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        writeln!(written, "{line}").unwrap();
        match *line.split(' ').collect::<Vec<_>>() {
            ["ask", id, likeness, deadline] => book.handle_asked(id, asked(1, likeness, at(deadline))),
            ["load", id, likeness, deadline] => book.handle_loaded(id, asked(2, likeness, at(deadline))),
            ["recorded", id] => book.handle_recorded(id, None),
            ["ruled", id] => {
                book.handle_recorded(id, Some(Proposal { verdict: Verdict::Allow, by: By::Rule { number: 1 } }));
            }
            ["not_recorded", id] => book.handle_not_recorded(id),
            ["repeat", number] => {
                writeln!(written, "    {:?}", book.handle_repeated(&format!("request {number}"))).unwrap();
            }
            [verdict @ ("allow" | "deny" | "session"), id] => {
                let verdict = match verdict {
                    "allow" => Verdict::Allow,
                    "deny" => Verdict::deny("no"),
                    _ => Verdict::AllowForSession,
                };
                if let Err(refusal) = book.handle_decision(id, person(verdict)) {
                    writeln!(written, "    {refusal:?}").unwrap();
                }
            }
            ["committed", id] => book.handle_committed(id),
            ["not_committed", id] => book.handle_not_committed(id),
            ["withdraw", id] => book.handle_withdrawn(id, Withdrawal::TurnOver),
            ["all_repeated"] => drop(book.handle_all_repeated("main", "main-0")),
            ["at", seconds] => book.handle_deadline(at(seconds)),
            _ => panic!("{line}"),
        }
        while let Some(output) = book.poll_output() {
            match output {
                Output::Opened { id } => writeln!(written, "    opened {id}"),
                Output::Commit { id, proposal } => {
                    writeln!(written, "    commit {id}: {} by {}", proposal.verdict.name(), proposal.by)
                }
                Output::Decided { id, proposal } => {
                    writeln!(written, "    decided {id}: {} by {}", proposal.verdict.name(), proposal.by)
                }
            }
            .unwrap();
        }
    }
    expect.assert_eq(&written);
}

#[test]
fn one_key_has_a_quarter_of_the_room_and_leaves_the_rest_to_others() {
    let limits = Limits { pending_max: 8, ..Limits::default() };
    let (mut book, now) = (Book::default(), Instant::now());
    let mut ask = |key: Option<&str>| {
        let room = book.check_room(key, &limits);
        if room.is_ok() {
            let number = u32::try_from(book.len()).unwrap();
            let asked = Asked { key: key.map(Into::into), ..asked(number, "x", now) };
            book.handle_asked(&number.to_string(), asked);
        }
        room
    };
    for key in [Some("a"), Some("b"), None] {
        assert_eq!([ask(key), ask(key), ask(key)], [Ok(()), Ok(()), Err(NoRoom::ForKey)], "{key:?}");
    }
    assert_eq!([ask(Some("c")), ask(Some("d"))], [Ok(()), Ok(())]);
    assert_eq!([ask(Some("a")), ask(Some("e"))], [Err(NoRoom::ForAnyone); 2]);
    book.handle_not_recorded("0");
    assert_eq!(book.check_room(Some("a"), &limits), Ok(()), "what ends makes room for its key");
}

#[test]
fn the_first_decision_wins_once_it_is_durable() {
    check(
        "ask a x 10
         allow a
         recorded a
         allow a
         deny a
         at 11
         committed a
         deny a",
        &expect![[r#"
            ask a x 10
            allow a
                Unknown
            recorded a
                opened a
            allow a
                commit a: allow by person ada
            deny a
                BeingDecided
            at 11
            committed a
                decided a: allow by person ada
            deny a
                Unknown
        "#]],
    );
}

#[test]
fn a_failed_write_reopens_what_was_allowed_and_keeps_what_was_not() {
    check(
        "ask a x 10
         recorded a
         allow a
         not_committed a
         at 10
         not_committed a",
        &expect![[r#"
            ask a x 10
            recorded a
                opened a
            allow a
                commit a: allow by person ada
            not_committed a
            at 10
                commit a: deny by deadline
            not_committed a
                decided a: deny by deadline
        "#]],
    );
}

#[test]
fn one_grant_clears_queued_equals_and_nothing_else() {
    check(
        "ask a x 10
         recorded a
         ask b x 10
         recorded b
         ask c y 10
         recorded c
         ask d x 10
         load e x 10
         session a
         committed a
         recorded d
         committed b
         not_committed d",
        &expect![[r#"
            ask a x 10
            recorded a
                opened a
            ask b x 10
            recorded b
                opened b
            ask c y 10
            recorded c
                opened c
            ask d x 10
            load e x 10
            session a
                commit a: allow_for_session by person ada
            committed a
                decided a: allow_for_session by person ada
                commit b: allow by grant of a
            recorded d
                commit d: allow by grant of a
            committed b
                decided b: allow by grant of a
            not_committed d
        "#]],
    );
}

#[test]
fn what_an_earlier_run_left_is_claimed_or_orphaned() {
    check(
        "load a x 10
         repeat 2
         repeat 2
         repeat 3
         all_repeated
         allow a
         committed a
         load b x 10
         all_repeated
         committed b
         load c x 10
         deny c
         committed c
         repeat 2",
        &expect![[r#"
            load a x 10
            repeat 2
                Some("a")
                opened a
            repeat 2
                Some("a")
            repeat 3
                None
            all_repeated
            allow a
                commit a: allow by person ada
            committed a
                decided a: allow by person ada
            load b x 10
            all_repeated
                commit b: cancel by withdrawn: its worker is gone
            committed b
                decided b: cancel by withdrawn: its worker is gone
            load c x 10
            deny c
                commit c: deny by person ada
            committed c
                decided c: deny by person ada
            repeat 2
                None
        "#]],
    );
}

#[test]
fn a_withdrawal_waits_for_the_record_and_yields_to_a_decision() {
    check(
        "ask a x 10
         withdraw a
         recorded a
         committed a
         ask b x 10
         recorded b
         allow b
         withdraw b
         committed b
         ask c x 10
         ruled c
         ask d x 10
         not_recorded d
         recorded d",
        &expect![[r#"
            ask a x 10
            withdraw a
            recorded a
                commit a: cancel by withdrawn: its turn is over
            committed a
                decided a: cancel by withdrawn: its turn is over
            ask b x 10
            recorded b
                opened b
            allow b
                commit b: allow by person ada
            withdraw b
            committed b
                decided b: allow by person ada
            ask c x 10
            ruled c
                decided c: allow by rule 1
            ask d x 10
            not_recorded d
            recorded d
        "#]],
    );
}

#[derive(Clone, Debug)]
enum Step {
    Ask,
    Load,
    Recorded(bool),
    NotRecorded,
    Repeat(u32),
    Decide(u32, Verdict),
    Committed,
    NotCommitted,
    Withdraw(u32, Withdrawal),
    AllRepeated,
    Time(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = 0..12_u32;
    let verdict = prop_oneof![Just(Verdict::Allow), Just(Verdict::AllowForSession), Just(Verdict::deny("no"))];
    let why = prop_oneof![Just(Withdrawal::TurnOver), Just(Withdrawal::WorkerGone)];
    let step = prop_oneof![
        3 => Just(Step::Ask),
        1 => Just(Step::Load),
        4 => any::<bool>().prop_map(Step::Recorded),
        1 => Just(Step::NotRecorded),
        1 => which.clone().prop_map(Step::Repeat),
        4 => (which.clone(), verdict).prop_map(|(which, verdict)| Step::Decide(which, verdict)),
        4 => Just(Step::Committed),
        1 => Just(Step::NotCommitted),
        1 => (which, why).prop_map(|(which, why)| Step::Withdraw(which, why)),
        1 => Just(Step::AllRepeated),
        2 => (0..4_u64).prop_map(Step::Time),
    ];
    proptest::collection::vec(step, 0..120)
}

/// A world around a book: a store that is slow and sometimes full, and everybody who has heard of a decision.
struct World {
    book: Book,
    start: Instant,
    seconds: u64,
    asked: u32,
    recording: Vec<String>,
    committing: Vec<(String, Proposal)>,
    /// What the store holds, or has refused though it allows nothing.
    durable: BTreeSet<String>,
    open_once: BTreeSet<String>,
    decided: BTreeSet<String>,
    dropped: BTreeSet<String>,
}

impl World {
    fn new() -> Self {
        Self {
            book: Book::default(),
            start: Instant::now(),
            seconds: 0,
            asked: 0,
            recording: Vec::new(),
            committing: Vec::new(),
            durable: BTreeSet::new(),
            open_once: BTreeSet::new(),
            decided: BTreeSet::new(),
            dropped: BTreeSet::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ask | Step::Load => {
                let (id, deadline) = (self.asked.to_string(), self.now() + Duration::from_secs(5));
                let asked = asked(self.asked, ["x", "y"][self.asked as usize % 2], deadline);
                if matches!(step, Step::Load) {
                    self.open_once.insert(id.clone());
                    self.book.handle_loaded(&id, asked);
                } else {
                    self.book.handle_asked(&id, asked);
                    self.recording.push(id);
                }
                self.asked += 1;
            }
            Step::Recorded(ruled) => {
                if let Some(id) = self.recording.pop() {
                    let ruling = ruled.then_some(Proposal { verdict: Verdict::Allow, by: By::Rule { number: 1 } });
                    self.open_once.insert(id.clone());
                    if ruled {
                        self.durable.insert(id.clone());
                    }
                    self.book.handle_recorded(&id, ruling);
                }
            }
            Step::NotRecorded => {
                if let Some(id) = self.recording.pop() {
                    self.book.handle_not_recorded(&id);
                    self.dropped.insert(id);
                }
            }
            Step::Repeat(number) => drop(self.book.handle_repeated(&format!("request {number}"))),
            Step::Decide(which, verdict) => drop(self.book.handle_decision(&which.to_string(), person(verdict))),
            Step::Committed => {
                if let Some((id, _)) = self.committing.pop() {
                    self.durable.insert(id.clone());
                    self.book.handle_committed(&id);
                }
            }
            Step::NotCommitted => {
                if let Some((id, proposal)) = self.committing.pop() {
                    if !proposal.verdict.allows() {
                        self.durable.insert(id.clone());
                    }
                    self.book.handle_not_committed(&id);
                }
            }
            Step::Withdraw(which, why) => self.book.handle_withdrawn(&which.to_string(), why),
            Step::AllRepeated => drop(self.book.handle_all_repeated("main", "main-0")),
            Step::Time(seconds) => {
                self.seconds += seconds;
                self.book.handle_deadline(self.now());
            }
        }
        self.take_outputs();
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.book.poll_output() {
            match output {
                Output::Opened { id } => assert!(!self.decided.contains(&id), "{id} is opened after its decision"),
                Output::Commit { id, proposal } => {
                    assert!(self.open_once.contains(&id), "{id} is decided before it is recorded");
                    assert!(self.committing.iter().all(|(other, _)| *other != id), "{id} has two decisions at once");
                    self.committing.push((id, proposal));
                }
                Output::Decided { id, proposal } => {
                    let Proposal { verdict, by } = proposal;
                    let by_somebody = matches!(by, By::Person { .. } | By::Rule { .. } | By::Grant { .. });
                    assert!(!verdict.allows() || by_somebody, "{id} is allowed by {by}");
                    assert!(self.durable.contains(&id), "{id} is told before it is durable");
                    assert!(!self.dropped.contains(&id), "{id} was refused and is decided nonetheless");
                    assert!(self.decided.insert(id.clone()), "{id} is decided twice");
                }
            }
        }
    }

    /// The store works again, and the last deadline passes: nothing may be left.
    fn come_to_rest(&mut self) {
        while !self.recording.is_empty() {
            self.step(Step::Recorded(false));
        }
        while !self.committing.is_empty() {
            self.step(Step::Committed);
        }
        self.step(Step::Time(100));
        while !self.committing.is_empty() {
            self.step(Step::Committed);
        }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_secs(self.seconds)
    }
}

proptest! {
    #[test]
    fn everything_is_decided_exactly_once_and_never_allowed_by_itself(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.come_to_rest();
        prop_assert_eq!(world.book.len(), 0);
        prop_assert_eq!(world.decided.len() + world.dropped.len(), world.asked as usize);
    }
}
