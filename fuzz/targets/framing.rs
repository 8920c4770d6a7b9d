#![no_main]

#[path = "../../crates/wire/tests/it/framing.rs"]
mod framing;
#[path = "../../crates/wire/tests/it/show.rs"]
mod show;

libfuzzer_sys::fuzz_target!(|input: &[u8]| framing::check(input));
