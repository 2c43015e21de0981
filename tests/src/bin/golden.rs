//! Runs a folder of golden cases and prints `N passed, N failed, N skipped`.
//!
//! Usage: `cargo run --release -p tests --bin golden -- DIR`; `LONGHAND_TEST_DEVICE` names the devices (see
//! `tests::devices`).

use std::path::Path;
use std::process::ExitCode;

use tests::golden;

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: golden DIR");
        return ExitCode::from(2);
    };
    match golden::run(Path::new(&dir), &tests::devices()) {
        Ok(counts) if counts.failed == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
