#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| documents_fuzz::layout(input));
