#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| front::websocket_frames(input));
