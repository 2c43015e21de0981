//! Reads arbitrary bytes as text: valid UTF-8 is not changed, whatever it is.
#![no_main]

use documents::{Kind, Limits, convert_in_process};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let converted = convert_in_process(Kind::Text, bytes, &Limits::default());
    if let (Ok(text), Ok(converted)) = (std::str::from_utf8(bytes), converted) {
        let unchanged = converted.text == text.strip_prefix('\u{feff}').unwrap_or(text);
        assert!(unchanged || !converted.notes.is_empty());
    }
});
