//! Prints a document, a folder or the files of a pattern as text:
//! `cargo run --release -p documents --example text -- paper.pdf`

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use documents::Options;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: text PATH");
        return ExitCode::FAILURE;
    };
    match documents::read(Path::new(&path), &Options::default(), &AtomicBool::new(false)) {
        Ok(source) => {
            for document in &source.documents {
                let notes: Vec<String> = document.notes.iter().map(ToString::to_string).collect();
                eprintln!(
                    "{}: {:?}, pages: {:?}, {}",
                    document.name,
                    document.kind,
                    document.pages,
                    notes.join("; ")
                );
            }
            print!("{}", source.into_text().0);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}\nhint: {}", error.hint());
            ExitCode::FAILURE
        }
    }
}
