//! Converts arbitrary PDFs. The interpreter is not ours: panics and endless loops in it are expected, and the child
//! process is what protects the program. README.md says how to look for errors of our own.
#![no_main]

use documents::{Limits, read_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pdf: &[u8]| {
    let pdf = [b"%PDF-1.7\n", pdf].concat();
    if let Err(error) = read_bytes("fuzz.pdf", &pdf, &Limits::default()) {
        assert!(!error.to_string().is_empty() && !error.hint().is_empty());
    }
});
