//! Reads arbitrary text as a head profile and as the maps that can be imported. README.md has the command.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longhand::heads::{HeadProfile, HeadShape, HeadsError, ImportOptions, import};

/// An error says what is wrong and what to do.
fn check<T>(result: Result<T, HeadsError>) -> Option<T> {
    result.map_err(|error| assert!(!error.to_string().is_empty() && error.hint().to_string().len() > 1)).ok()
}

fuzz_target!(|text: &str| {
    if let Some(profile) = check(HeadProfile::from_json(text)) {
        let again = HeadProfile::from_json(&profile.to_json()).expect("what was written can be read");
        assert_eq!(again.to_json(), profile.to_json());
    }
    let shape = HeadShape::new(2, 4, 2).expect("heads");
    let options = ImportOptions { shape, fingerprint: None, threshold: None };
    check(import::duo_attention(text, None, &options));
    check(import::duo_attention("1 0\n0 1", Some(text), &options));
    check(import::retrieval_head(text, &options));
});
