#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| longhand_fuzz::constraint(input));
