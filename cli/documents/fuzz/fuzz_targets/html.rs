//! Converts arbitrary pages, as HTML and as XML.
#![no_main]

use documents::{Kind, Limits, convert_in_process};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|page: &[u8]| {
    let limits = Limits { bytes: 1 << 20, ..Limits::default() };
    for page in [page, &[b"<?xml version='1.0'?>", page].concat()] {
        if let Ok(converted) = convert_in_process(Kind::Html, page, &limits) {
            // Nothing is written that is not in the page, besides marks and gaps.
            assert!(converted.text.len() <= 64 + 32 * page.len());
        }
    }
});
