#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| models_fuzz::tokenizer(input));
