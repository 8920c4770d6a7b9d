//! The store as its users see it, on real files and beside real processes.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod adversary;
mod damaged;
mod disk;
mod full;
mod processes;
mod refused;
mod rows;
mod support;
mod swept;
mod tools;
