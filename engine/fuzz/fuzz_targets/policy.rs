//! Parses arbitrary text as a policy with parameters. README.md has the command.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longhand::policy::PolicyChoice;

fuzz_target!(|text: &str| {
    match text.parse::<PolicyChoice>() {
        Ok(choice) => {
            let again: PolicyChoice = choice.to_string().parse().expect("what was written can be read");
            assert_eq!(again.to_string(), choice.to_string());
        }
        Err(error) => assert!(!error.to_string().is_empty() && error.hint().is_some()),
    }
});
