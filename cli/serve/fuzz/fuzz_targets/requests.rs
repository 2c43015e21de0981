#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| serve_fuzz::requests(input));
