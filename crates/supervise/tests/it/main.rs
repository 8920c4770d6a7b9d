//! Real processes: what they are given at their start, what passes through their pipes, and how they end.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod end;
mod leaks;
mod pipes;
mod start;
mod support;
