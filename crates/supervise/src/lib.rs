//! The only crate that spawns a process.
