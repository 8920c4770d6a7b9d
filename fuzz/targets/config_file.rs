#![no_main]
#![allow(dead_code, unused_imports, reason = "the modules of a binary, of which the target needs a part")]

#[path = "../../crates/switchboard/src"]
mod switchboard {
    pub(crate) mod config;
    pub(crate) mod worker;
}

// They know each other by these names.
use switchboard::{config, worker};

libfuzzer_sys::fuzz_target!(|input: &[u8]| config::fuzz::config_file(input));
