//! Tips played by hand, line by line, and under random orders beside a plain list of them.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{Found, MovedOn, Place, Stage, State, Tips};

/// Tips, and what a script was told. A place is `THREAD at HISTORY after TURN`.
struct Play {
    tips: Tips,
    /// What was claimed last, to be given back.
    claimed: Option<(Box<str>, i64)>,
    told: String,
}

fn place(thread: &str, history: &str, last_turn: &str, stage: Stage) -> Place {
    Place { thread: thread.into(), history: history.into(), last_turn: last_turn.into(), stage }
}

fn said(found: &Found) -> String {
    match found {
        Found::Nothing => "nothing".into(),
        Found::Several => "several".into(),
        Found::Free(place, _) => format!("{} after {}", place.thread, place.last_turn),
        Found::Taken(place) => format!("taken, {} after {}", place.thread, place.last_turn),
    }
}

impl Play {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["load", ref kept @ ..] => {
                let places = kept.chunks(3).map(|kept| place(kept[0], kept[1], kept[2], Stage::Between));
                self.tips.load(places);
            }
            ["leave", thread, history, turn] => self.tips.leave(place(thread, history, turn, Stage::Between)),
            ["park", thread, history, turn] => self.tips.leave(place(thread, history, turn, Stage::Within)),
            ["claim", history] => {
                let found = self.tips.claim(history);
                writeln!(self.told, "{history}: {}", said(&found)).unwrap();
                if let Found::Free(place, number) = found {
                    self.claimed = Some((place.thread, number));
                }
            }
            ["back"] => {
                let (thread, number) = self.claimed.take().unwrap();
                self.tips.give_back(&thread, number);
            }
            ["take", thread] => self.take(thread, None),
            ["take", thread, turn] => self.take(thread, Some(turn)),
            ["restore", thread] => self.tips.restore(thread),
            ["remove", thread] => self.tips.remove(thread),
            _ => panic!("what is {line:?}?"),
        }
    }

    fn take(&mut self, thread: &str, after: Option<&str>) {
        match self.tips.take(thread, after) {
            Ok(_) => {}
            Err(MovedOn) => writeln!(self.told, "{thread} has moved on").unwrap(),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "an expected text stands in place")]
fn check(tips_max: u32, script: &str, expected: Expect) {
    let mut play = Play { tips: Tips::new(tips_max), claimed: None, told: String::new() };
    script.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| play.line(line));
    expected.assert_eq(&play.told);
}

#[test]
fn a_tip_is_claimed_once_and_free_again_if_nothing_comes_of_it() {
    check(
        9,
        "leave t h 1
         claim h
         claim h
         back
         claim h
         claim other",
        expect![[r#"
            h: t after 1
            h: taken, t after 1
            h: t after 1
            other: nothing
        "#]],
    );
}

#[test]
fn a_history_that_was_gone_on_with_is_a_fork_while_the_turn_runs_and_then_nothing() {
    check(
        9,
        "leave t h 1
         claim h
         take t 1
         back
         claim h
         remove t
         claim h
         leave t longer 2
         claim longer",
        expect![[r#"
            h: t after 1
            h: taken, t after 1
            h: nothing
            longer: t after 2
        "#]],
    );
}

#[test]
fn two_threads_with_one_history_are_nobodys() {
    check(
        9,
        "leave t h 1
         leave u h 2
         claim h
         remove u
         claim h",
        expect![[r#"
            h: several
            h: t after 1
        "#]],
    );
}

#[test]
fn nobody_else_begins_in_the_middle_of_a_turn() {
    check(
        9,
        "park t h 1
         claim h
         claim h
         take t
         claim h
         park t longer 1
         claim longer",
        expect![[r#"
            h: t after 1
            h: nothing
            h: nothing
            longer: t after 1
        "#]],
    );
}

#[test]
fn whoever_claimed_a_tip_is_told_if_somebody_else_went_on_there() {
    check(
        9,
        "leave t h 1
         claim h
         take t
         take t 1
         remove t
         take t 1
         leave t longer 2
         take t 1
         take t 2
         restore t
         claim longer",
        expect![[r#"
            h: t after 1
            t has moved on
            t has moved on
            t has moved on
            longer: t after 2
        "#]],
    );
}

#[test]
fn a_guard_of_an_earlier_tip_gives_nothing_back() {
    check(
        9,
        "leave t h 1
         claim h
         leave t longer 2
         claim longer
         claim longer",
        expect![[r#"
            h: t after 1
            longer: t after 2
            longer: taken, t after 2
        "#]],
    );
    let mut tips = Tips::new(9);
    tips.leave(place("t", "h", "1", Stage::Between));
    let Found::Free(_, early) = tips.claim("h") else { panic!("it is free") };
    tips.leave(place("t", "longer", "2", Stage::Between));
    assert!(matches!(tips.claim("longer"), Found::Free(..)));
    tips.give_back("t", early);
    assert!(matches!(tips.claim("longer"), Found::Taken(_)));
}

#[test]
fn the_newest_are_kept_and_what_was_kept_is_older_than_what_has_happened() {
    check(
        3,
        "leave a ha 1
         take b
         load a old 0 b hb 1 c hc 1 d hd 1 e he 1
         claim ha
         claim old
         claim hb
         claim hc
         claim hd
         claim he
         leave f hf 1
         claim hd
         claim hc",
        expect![[r#"
            ha: a after 1
            old: nothing
            hb: nothing
            hc: c after 1
            hd: d after 1
            he: nothing
            hd: nothing
            hc: taken, c after 1
        "#]],
    );
}

#[derive(Clone, Debug)]
enum Step {
    Leave { thread: u8, history: u8, stage: Stage },
    Claim { history: u8 },
    GiveBack { thread: u8 },
    Take { thread: u8, after: Option<u8> },
    Restore { thread: u8 },
    Remove { thread: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let stage = prop_oneof![Just(Stage::Between), Just(Stage::Within)];
    prop_oneof![
        3 => (0..5u8, 0..4u8, stage).prop_map(|(thread, history, stage)| Step::Leave { thread, history, stage }),
        3 => (0..4u8).prop_map(|history| Step::Claim { history }),
        1 => (0..5u8).prop_map(|thread| Step::GiveBack { thread }),
        2 => (0..5u8, prop::option::of(0..9u8)).prop_map(|(thread, after)| Step::Take { thread, after }),
        1 => (0..5u8).prop_map(|thread| Step::Restore { thread }),
        1 => (0..5u8).prop_map(|thread| Step::Remove { thread }),
    ]
}

/// The same as a list, the oldest first.
#[derive(Default)]
struct List(Vec<(Place, State, i64)>);

impl List {
    fn of(&mut self, thread: &str) -> Option<&mut (Place, State, i64)> {
        self.0.iter_mut().find(|(place, ..)| *place.thread == *thread)
    }

    fn claim(&mut self, history: &str) -> String {
        let mut at: Vec<_> = self.0.iter_mut().filter(|(place, ..)| *place.history == *history).collect();
        match &mut at[..] {
            [] => "nothing".into(),
            [(place, state @ State::Free, _)] => {
                *state = State::Claimed;
                format!("{} after {}", place.thread, place.last_turn)
            }
            [(place, ..)] if place.stage == Stage::Within => "nothing".into(),
            [(place, ..)] => format!("taken, {} after {}", place.thread, place.last_turn),
            _ => "several".into(),
        }
    }
}

proptest! {
    #[test]
    fn tips_are_what_a_plain_list_of_them_is(steps in prop::collection::vec(step(), 0..80), tips_max in 1..6u32) {
        let (mut tips, mut list) = (Tips::new(tips_max), List::default());
        tips.load([]);
        for (number, step) in (1..).zip(steps) {
            match step {
                Step::Leave { thread, history, stage } => {
                    let left = place(&thread.to_string(), &history.to_string(), &(number % 9).to_string(), stage);
                    list.0.retain(|(place, ..)| place.thread != left.thread);
                    tips.leave(left.clone());
                    list.0.push((left, State::Free, tips.newest));
                    if list.0.len() > tips_max as usize {
                        list.0.remove(0);
                    }
                }
                Step::Claim { history } => {
                    prop_assert_eq!(said(&tips.claim(&history.to_string())), list.claim(&history.to_string()));
                }
                Step::GiveBack { thread } => {
                    if let Some((place, state, number)) = list.of(&thread.to_string()) {
                        tips.give_back(&place.thread, *number);
                        *state = if *state == State::Claimed { State::Free } else { *state };
                    }
                }
                Step::Take { thread, after } => {
                    let (thread, after) = (thread.to_string(), after.map(|after| after.to_string()));
                    let taken = tips.take(&thread, after.as_deref());
                    let stands = list.of(&thread);
                    let is_refused = after.is_some_and(|after| {
                        stands.as_ref().is_none_or(|(place, state, _)| *state == State::Taken || *place.last_turn != *after)
                    });
                    prop_assert_eq!(taken.is_err(), is_refused);
                    if let (false, Some((_, state, _))) = (is_refused, stands) {
                        prop_assert_eq!(taken, Ok(true));
                        *state = State::Taken;
                    }
                }
                Step::Restore { thread } => {
                    tips.restore(&thread.to_string());
                    if let Some((_, state @ State::Taken, _)) = list.of(&thread.to_string()) {
                        *state = State::Free;
                    }
                }
                Step::Remove { thread } => {
                    tips.remove(&thread.to_string());
                    list.0.retain(|(place, ..)| *place.thread != thread.to_string());
                }
            }
            prop_assert_eq!(tips.tips.len(), list.0.len());
            prop_assert_eq!(tips.ages.len(), list.0.len());
            prop_assert_eq!(tips.threads.values().map(Vec::len).sum::<usize>(), list.0.len());
        }
    }
}
