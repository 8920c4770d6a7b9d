//! Real processes: what they are given at their start, what passes through their pipes, how they end, and that nothing
//! of them is left.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod adoption;
mod adversary;
mod detached;
mod end;
mod leaks;
mod ledger;
mod pipes;
mod start;
mod support;
mod tree;
