//! The book by itself: what stands for what, what goes at a bound, and that nothing else is ever lost or reordered.

use std::collections::BTreeMap;

use super::*;
use crate::rows::{AuditEntry, UsageAdded};

const MANY: usize = 1_000;

fn book(notes_max: usize) -> Book {
    Book::new(notes_max, usize::MAX)
}

fn gone(id: &str) -> Change {
    Change::ThreadGone { id: id.into() }
}

fn audit(step: &str) -> Change {
    let (approval, by, detail) = ("a".into(), String::new(), String::new());
    Change::Audit(AuditEntry { approval, at: 0, step: step.into(), by, detail })
}

fn usage(key: &str, input: i64) -> Change {
    let (thread, day) = ("t".into(), "2026-01-31".into());
    Change::Usage(UsageAdded {
        key: key.into(),
        thread,
        day,
        input,
        cached: 0,
        output: 0,
        reasoning: 0,
        turns: 1,
        estimated: 0,
    })
}

fn listed(notes: &[Noted]) -> String {
    let lines = notes.iter().map(|Noted { number, change }| match change {
        Change::ThreadGone { id } => format!("{number} {id}"),
        Change::Audit(entry) => format!("{number} audit {}", entry.step),
        Change::Usage(sum) => format!("{number} usage {} {} in {} turns", sum.key, sum.input, sum.turns),
        other => format!("{number} {other:?}"),
    });
    lines.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_last_value_of_a_row_stands_for_all_and_usage_is_summed() {
    let mut book = book(MANY);
    let changes = [gone("x"), usage("k", 5), audit("asked"), gone("y"), gone("x"), usage("k", 2), audit("allowed")];
    for (number, change) in (0..).zip(changes) {
        book.note(number, change);
    }
    let expected = "2 audit asked, 3 y, 4 x, 5 usage k 7 in 2 turns, 6 audit allowed";
    assert_eq!(listed(&book.take(MANY, u64::MAX)), expected);
    assert_eq!((book.len(), book.bytes), (0, 0));
}

#[test]
fn only_what_was_noted_before_is_taken_and_the_oldest_first() {
    let mut book = book(MANY);
    for number in 0..6 {
        book.note(number, gone(&format!("x{number}")));
    }
    assert_eq!(listed(&book.take(2, 4)), "0 x0, 1 x1");
    assert_eq!(listed(&book.take(MANY, 4)), "2 x2, 3 x3");
    assert_eq!(book.count_before(5), 1);
}

#[test]
fn what_comes_back_yields_to_what_was_noted_since() {
    let mut book = book(MANY);
    book.note(0, gone("x"));
    book.note(1, usage("k", 5));
    book.note(2, gone("y"));
    let failed = book.take(MANY, u64::MAX);
    book.note(3, usage("k", 2));
    book.note(4, gone("x"));
    book.take_back(failed);
    assert_eq!(listed(&book.take(MANY, u64::MAX)), "2 y, 3 usage k 7 in 2 turns, 4 x");
}

#[test]
fn at_the_bound_the_oldest_goes_and_evidence_goes_last() {
    let mut book = book(3);
    book.note(0, audit("asked"));
    for number in 1..5 {
        book.note(number, gone(&format!("x{number}")));
    }
    assert_eq!((book.dropped(), book.len()), (2, 3));
    for number in 5..8 {
        book.note(number, audit(&format!("step {number}")));
    }
    assert_eq!(listed(&book.take(MANY, u64::MAX)), "5 audit step 5, 6 audit step 6, 7 audit step 7");
    assert_eq!(book.dropped(), 5);
}

#[test]
fn bytes_are_bounded_too() {
    let mut book = Book::new(MANY, 2 * gone("x").bytes());
    for number in 0..10 {
        book.note(number, gone(&number.to_string()));
    }
    assert_eq!(listed(&book.take(MANY, u64::MAX)), "8 8, 9 9");
    book.note(10, gone(&"x".repeat(10_000)));
    assert!(book.is_empty(), "what alone is above the bound is dropped");
}

#[test]
fn a_commit_supersedes_only_what_was_noted_of_its_row_before_it() {
    let mut book = book(MANY);
    book.note(0, gone("x"));
    book.note(1, usage("k", 5));
    book.note(3, gone("y"));
    book.supersede(&gone("x"), 2);
    book.supersede(&gone("y"), 2);
    book.supersede(&usage("k", 1), 2);
    assert_eq!(listed(&book.take(MANY, u64::MAX)), "1 usage k 5 in 1 turns, 3 y");
}

/// Random notes, writes that succeed and writes that fail: what is written in the end is what a plain list would give.
#[test]
fn any_order_of_notes_and_failures_comes_to_the_same_as_none() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut book, mut plain, mut written) = (book(MANY), Sums::default(), Sums::default());
        for number in 0..200 {
            let row = random.u8(0..5).to_string();
            let change = match random.u8(0..3) {
                0 => usage(&row, random.i64(0..100)),
                1 => audit(&number.to_string()),
                _ => gone(&row),
            };
            plain.apply(number, &change);
            book.note(number, change);
            if random.u8(0..4) == 0 {
                let notes = book.take(random.usize(0..8), random.u64(0..=number + 1));
                assert!(notes.is_sorted_by_key(|noted| noted.number), "seed {seed}");
                if random.bool() {
                    book.take_back(notes);
                } else {
                    notes.iter().for_each(|noted| written.apply(noted.number, &noted.change));
                }
            }
        }
        book.take(MANY, u64::MAX).iter().for_each(|noted| written.apply(noted.number, &noted.change));
        assert_eq!(written, plain, "seed {seed}");
        assert_eq!((book.bytes, book.by_subject.len(), book.dropped()), (0, 0, 0), "seed {seed}");
    }
}

/// What a series of changes comes to: the last number of a row, the sum of usage, every entry of the audit.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    rows: BTreeMap<String, u64>,
    usage: BTreeMap<String, (i64, i64)>,
    audit: Vec<String>,
}

impl Sums {
    fn apply(&mut self, number: u64, change: &Change) {
        match change {
            Change::Audit(entry) => self.audit.push(entry.step.clone()),
            Change::Usage(added) => {
                let sum = self.usage.entry(added.key.clone()).or_default();
                *sum = (sum.0 + added.input, sum.1 + added.turns);
            }
            Change::ThreadGone { id } => drop(self.rows.insert(id.clone(), number)),
            other => panic!("never noted here: {other:?}"),
        }
    }
}
