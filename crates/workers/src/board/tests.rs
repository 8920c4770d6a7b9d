//! The board played by hand, line by line, and under random orders.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{Board, LeaseId, Place, Slot, SlotId, Standing, WaitId, Want};
use crate::refused::Refused;

/// A board, and the names that a script gives to its orders.
struct Play {
    board: Board,
    start: Instant,
    waits: BTreeMap<String, WaitId>,
    leases: HashMap<String, LeaseId>,
    told: String,
}

impl Play {
    fn new(slots: &[(usize, usize, usize)], queue_max: usize) -> Self {
        let slots = slots.iter().map(|(group, turns, threads)| Slot::new(*group, *turns, *threads));
        Self {
            board: Board::new(slots, queue_max),
            start: Instant::now(),
            waits: BTreeMap::new(),
            leases: HashMap::new(),
            told: String::new(),
        }
    }

    fn line(&mut self, line: &str) {
        let now = self.start;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["ready", slot] => self.board.ready(SlotId(slot.parse().unwrap()), now),
            ["retire", name] => self.board.retire(self.leases[name]),
            ["gone", slot] => self.board.gone(SlotId(slot.parse().unwrap()), Standing::Away, now),
            ["failed", slot] => {
                self.board.gone(SlotId(slot.parse().unwrap()), Standing::Failed("it broke".into()), now)
            }
            ["order", name, key, group] => self.order(name, key, group, None),
            ["order", name, key, group, thread] => self.order(name, key, group, Some(thread)),
            ["loaded", name, thread] => self.board.loaded(self.leases[name], thread),
            ["unloaded", name, thread] => self.board.unloaded(self.leases[name], thread, now),
            ["park", name] => _ = self.board.park(self.leases[name], now),
            ["unpark", name] => _ = self.board.unpark(self.leases[name]),
            ["free", name] => self.board.free(self.leases[name], now),
            ["cancel", name] => self.board.cancel(self.waits.remove(name).unwrap(), now),
            ["drain"] => self.board.drain(),
            _ => panic!("what is {line:?}?"),
        }
        self.look();
    }

    fn order(&mut self, name: &str, key: &str, group: &str, thread: Option<&str>) {
        let group = group.parse().unwrap();
        let want =
            Want { key: key.into(), group, thread: thread.map(Into::into), beside: None, decision_timeout: None };
        match self.board.order(want, self.start) {
            Ok(id) => _ = self.waits.insert(name.into(), id),
            Err(refused) => writeln!(self.told, "{name} refused: {refused}").unwrap(),
        }
    }

    /// What has come of the orders that wait.
    fn look(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let Self { board, waits, leases, told, .. } = self;
        waits.retain(|name, id| match board.poll_place(*id, &mut context) {
            Poll::Pending => true,
            Poll::Ready(Ok(Place { lease, slot, is_loaded, unload })) => {
                leases.insert(name.clone(), lease);
                let loaded = if is_loaded { ", loaded" } else { "" };
                let unload: String = unload.iter().map(|thread| format!(", unload {thread}")).collect();
                writeln!(told, "{name} on {}{loaded}{unload}", slot.0).unwrap();
                false
            }
            Poll::Ready(Err(refused)) => {
                writeln!(told, "{name} refused: {refused}").unwrap();
                false
            }
        });
    }
}

#[expect(clippy::needless_pass_by_value, reason = "an expected text stands in place")]
fn check(mut play: Play, script: &str, expected: Expect) {
    script.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| play.line(line));
    expected.assert_eq(&play.told);
}

#[test]
fn the_least_loaded_ready_worker_of_the_group_is_chosen() {
    check(
        Play::new(&[(0, 2, 9), (0, 2, 9), (1, 2, 9)], 9),
        "ready 0
         ready 2
         order a k 0
         ready 1
         order b k 0
         order c k 0
         order d k 1",
        expect![[r#"
            a on 0
            b on 1
            c on 0
            d on 2
        "#]],
    );
}

#[test]
fn a_thread_stays_where_it_is_and_has_one_turn_at_a_time() {
    check(
        Play::new(&[(0, 2, 9), (0, 2, 9)], 9),
        "ready 0
         ready 1
         order a k 0
         loaded a t
         order b k 0 t
         order c k 0
         free a
         order d k 0 t
         free b",
        expect![[r#"
            a on 0
            c on 1
            b on 0, loaded
            d on 0, loaded
        "#]],
    );
}

#[test]
fn whoever_waits_is_served_in_turn_by_key_and_the_queue_has_an_end() {
    check(
        Play::new(&[(0, 1, 9)], 4),
        "ready 0
         order a1 a 0
         order a2 a 0
         order a3 a 0
         order a4 a 0
         order b1 b 0
         order b2 b 0
         free a1
         free a2
         free b1",
        expect![[r#"
            a1 on 0
            a4 refused: all workers are busy: try again in 6 s
            a2 on 0
            b1 on 0
            a3 on 0
        "#]],
    );
}

#[test]
fn a_turn_that_waits_takes_no_place_and_goes_on_above_their_number() {
    check(
        Play::new(&[(0, 1, 9)], 9),
        "ready 0
         order a k 0
         order b k 0
         park a
         park a
         unpark a
         order c k 0
         unpark a
         free b
         free a",
        expect![[r#"
            a on 0
            b on 0
            c on 0
        "#]],
    );
}

#[test]
fn a_thread_of_a_worker_that_died_is_loaded_anew_wherever_there_is_room() {
    check(
        Play::new(&[(0, 2, 9), (0, 2, 9)], 9),
        "ready 0
         order a k 0
         loaded a t
         gone 0
         order b k 0 t
         ready 1
         free a
         loaded b t
         free b
         order c k 0 t",
        expect![[r#"
            a on 0
            b on 1
            c on 1, loaded
        "#]],
    );
}

#[test]
fn the_longest_unused_threads_make_room_and_are_nobodys_until_they_are_unloaded() {
    check(
        Play::new(&[(0, 9, 2)], 9),
        "ready 0
         order a k 0
         loaded a t1
         free a
         order b k 0
         loaded b t2
         free b
         order c k 0 t1
         free c
         order d k 0
         order e k 0 t2
         unloaded d t2
         free d",
        expect![[r#"
            a on 0
            b on 0
            c on 0, loaded
            d on 0, unload t2
            e on 0, unload t1
        "#]],
    );
}

#[test]
fn nobody_waits_for_a_group_that_has_failed_or_for_a_server_that_stops() {
    check(
        Play::new(&[(0, 1, 9), (0, 1, 9)], 9),
        "order a k 0
         failed 0
         failed 1
         order b k 0
         ready 0
         order c k 0
         order d k 0
         drain
         order e k 0",
        expect![[r#"
            a refused: no worker of the group runs: it broke
            b refused: no worker of the group runs: it broke
            c on 0
            d refused: this server is stopping and takes no new turns: try again when it is back
            e refused: this server is stopping and takes no new turns: try again when it is back
        "#]],
    );
}

#[test]
fn a_retiring_worker_keeps_its_turns_and_gets_no_more() {
    check(
        Play::new(&[(0, 9, 9)], 9),
        "ready 0
         order a k 0
         retire a
         order b k 0
         free a
         gone 0
         ready 0",
        expect![[r#"
            a on 0
            b on 0
        "#]],
    );
}

#[test]
fn an_order_that_is_given_up_frees_what_it_has_got() {
    let mut play = Play::new(&[(0, 1, 9)], 9);
    let want = |key: &str| Want { key: key.into(), group: 0, thread: None, beside: None, decision_timeout: None };
    play.board.ready(SlotId(0), play.start);
    let first = play.board.order(want("a"), play.start).unwrap();
    play.line("order b b 0");
    play.board.cancel(first, play.start);
    play.look();
    assert_eq!(play.told, "b on 0\n");
}

#[derive(Clone, Debug)]
enum Step {
    Order { key: u8, group: usize, thread: Option<u8> },
    Cancel(usize),
    Load(usize),
    Unload(usize),
    Park(usize),
    Unpark(usize),
    Free(usize),
    Ready(usize),
    Retire(usize),
    Gone(usize),
    Fail(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let order = (0..3u8, 0..2usize, prop::option::of(0..6u8));
    prop_oneof![
        6 => order.prop_map(|(key, group, thread)| Step::Order { key, group, thread }),
        1 => (0..8usize).prop_map(Step::Cancel),
        4 => (0..8usize).prop_map(Step::Load),
        2 => (0..8usize).prop_map(Step::Unload),
        2 => (0..8usize).prop_map(Step::Park),
        2 => (0..8usize).prop_map(Step::Unpark),
        4 => (0..8usize).prop_map(Step::Free),
        3 => (0..4usize).prop_map(Step::Ready),
        1 => (0..8usize).prop_map(Step::Retire),
        1 => (0..4usize).prop_map(Step::Gone),
        1 => (0..4usize).prop_map(Step::Fail),
    ]
}

/// A caller's place, and what it has still to do with it.
struct Held {
    place: Place,
    thread: Option<Box<str>>,
}

fn law(steps: &[Step]) -> Result<(), TestCaseError> {
    let now = Instant::now();
    let slots = [Slot::new(0, 2, 2), Slot::new(0, 1, 3), Slot::new(1, 2, 1), Slot::new(1, 3, 9)];
    let mut board = Board::new(slots, 5);
    let (mut waits, mut held, mut fresh) = (Vec::new(), Vec::<Held>::new(), 0);
    let mut context = Context::from_waker(Waker::noop());
    for step in steps {
        match step {
            Step::Order { key, group, thread } => {
                let thread: Option<Box<str>> = thread.map(|thread| format!("g{group}-{thread}").into());
                let want = Want {
                    key: key.to_string().into(),
                    group: *group,
                    thread: thread.clone(),
                    beside: None,
                    decision_timeout: Some(Duration::ZERO),
                };
                if let Ok(id) = board.order(want, now) {
                    waits.push((id, thread));
                }
            }
            Step::Cancel(at) if *at < waits.len() => board.cancel(waits.remove(*at).0, now),
            Step::Load(at) if *at < held.len() => {
                let of = &mut held[*at];
                let thread = of.thread.get_or_insert_with(|| {
                    fresh += 1;
                    format!("new-{fresh}").into()
                });
                board.loaded(of.place.lease, thread);
            }
            Step::Unload(at) if *at < held.len() => {
                if let Some(thread) = held[*at].place.unload.pop() {
                    board.unloaded(held[*at].place.lease, &thread, now);
                }
            }
            Step::Park(at) if *at < held.len() => _ = board.park(held[*at].place.lease, now),
            Step::Unpark(at) if *at < held.len() => _ = board.unpark(held[*at].place.lease),
            Step::Free(at) if *at < held.len() => board.free(held.remove(*at).place.lease, now),
            Step::Ready(slot) => board.ready(SlotId(*slot), now),
            Step::Retire(at) if *at < held.len() => board.retire(held[*at].place.lease),
            Step::Gone(slot) => board.gone(SlotId(*slot), Standing::Away, now),
            Step::Fail(slot) => board.gone(SlotId(*slot), Standing::Failed("broken".into()), now),
            _ => {}
        }
        waits.retain_mut(|(id, thread)| match board.poll_place(*id, &mut context) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                held.extend(outcome.map(|place| Held { place, thread: thread.take() }));
                false
            }
        });
        check_invariants(&board, waits.len())?;
    }
    while let Some(of) = held.pop() {
        board.free(of.place.lease, now);
    }
    waits.into_iter().for_each(|(id, _)| board.cancel(id, now));
    prop_assert!(board.leases.is_empty() && board.waits.is_empty() && board.queue.len() == 0);
    prop_assert!(board.slots.iter().all(|slot| slot.turns + slot.parked == 0));
    Ok(())
}

fn check_invariants(board: &Board, waiting: usize) -> Result<(), TestCaseError> {
    prop_assert_eq!(board.queue.len(), waiting);
    for (at, slot) in board.slots.iter().enumerate() {
        let here: Vec<_> =
            board.leases.values().filter(|lease| lease.slot.0 == at && lease.life == slot.life).collect();
        let parked = here.iter().filter(|lease| lease.is_parked()).count();
        prop_assert_eq!((slot.parked, slot.turns), (parked, here.len() - parked));
        let residents = board.threads.values().filter(|residence| residence.slot.0 == at).count();
        let unnamed = here.iter().filter(|lease| lease.thread.is_none()).count();
        prop_assert_eq!(slot.threads, residents + unnamed, "of slot {}", at);
        let used: HashSet<_> = here.iter().filter_map(|lease| lease.thread.as_ref()).collect();
        prop_assert_eq!(used.len() + unnamed, here.len(), "a thread has one turn at a time");
    }
    let is_stuck =
        board.waits.values().any(|wait| super::placement(&board.slots, &board.threads, &wait.want).is_some());
    prop_assert!(!is_stuck, "somebody waits although there is a place");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512 * testkit::scale()))]
    #[test]
    fn places_and_threads_add_up_whatever_happens(steps in prop::collection::vec(step(), 1..80)) {
        law(&steps)?;
    }
}

#[test]
fn refusals_say_whether_anything_ran() {
    assert!(!Refused::Draining.work_may_have_run());
    assert!(!Refused::Busy { retry_after: Duration::ZERO }.work_may_have_run());
}
