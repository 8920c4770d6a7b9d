//! One worker as the board sees it: how many turns and threads it has, and whether it takes more.

use std::collections::BTreeMap;
use std::mem;

/// Turns that may wait on one worker; a real one needs some 2 MB for each.
const PARKED_MAX: usize = 10_000;

/// One worker as the board sees it.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The index of its group.
    pub(crate) group: usize,
    pub(crate) turns_max: usize,
    pub(crate) threads_loaded_max: usize,
    pub(super) standing: Standing,
    /// Counts its lives: what was leased in an earlier one frees nothing in this.
    pub(super) life: u64,
    /// Turns that run.
    pub(super) turns: usize,
    /// Turns that wait for a person or a caller: they cost next to nothing, and take no place.
    pub(super) parked: usize,
    /// Threads that are loaded, or about to be.
    pub(super) threads: usize,
    /// Loaded threads without a turn, the longest unused first.
    pub(super) idle: BTreeMap<u64, Box<str>>,
}

/// Whether a worker takes turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not now, but soon.
    Away,
    /// Yes.
    Ready,
    /// No more in this life: one of its turns never ends.
    Retiring,
    /// Not for minutes, unless somebody asks for it.
    Failed(Box<str>),
}

impl Slot {
    pub(crate) fn new(group: usize, turns_max: usize, threads_loaded_max: usize) -> Self {
        Self {
            group,
            turns_max,
            threads_loaded_max,
            standing: Standing::Away,
            life: 0,
            turns: 0,
            parked: 0,
            threads: 0,
            idle: BTreeMap::new(),
        }
    }

    pub(crate) fn turns(&self) -> usize {
        self.turns
    }

    pub(crate) fn parked(&self) -> usize {
        self.parked
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.standing == Standing::Ready
    }

    pub(super) fn has_room(&self) -> bool {
        self.is_ready() && self.turns < self.turns_max && self.parked < PARKED_MAX
    }

    /// The threads that are loaded above the limit, as far as they have no turn.
    pub(super) fn take_surplus(&mut self) -> Vec<Box<str>> {
        let surplus = self.threads.saturating_sub(self.threads_loaded_max).min(self.idle.len());
        let keep = self.idle.keys().nth(surplus).copied();
        let kept = keep.map_or_else(BTreeMap::new, |first| self.idle.split_off(&first));
        mem::replace(&mut self.idle, kept).into_values().collect()
    }
}
