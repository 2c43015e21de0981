//! Parts of books, as tokens.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use longhand::gguf::Tokenizer;
use models::regular_file;
use tasks::{DataFile, SampleOptions};
use terminal::failure::Failure;
use twox_hash::XxHash3_64;

use crate::Lab;

/// Folders within folders that are looked into.
const DEPTH: usize = 4;
/// Largest book, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Different parts of the books below a folder, of the length that is wanted, or why there are none. Each book in turn
/// gives one; the seed says where it begins. Files that are no UTF-8 are left out, with a note.
///
/// # Errors
/// Where the folder cannot be read.
pub fn texts(
    lab: &Lab,
    folder: Option<&Path>,
    options: &SampleOptions,
    tokenizer: &Tokenizer,
) -> Result<Result<Vec<Vec<u32>>, String>> {
    let mut paths = Vec::new();
    if let Some(folder) = folder {
        find(folder, DEPTH, &mut paths).map_err(|error| {
            Failure::new(format!("{}: {error}", folder.display()), "give another folder with --data")
        })?;
    }
    paths.sort();
    let mut books = Vec::new();
    for path in &paths {
        match read_utf8(path) {
            Ok(text) => books.push(tokenizer.encode(&text, true, false)?),
            Err(problem) => lab.console.note(&format!("note: left out: {problem}")),
        }
    }
    books.retain(|book| book.len() >= options.tokens);
    let (mut texts, mut known) = (Vec::new(), HashSet::new());
    // A short book has few places.
    for round in 0..(2 * options.samples) {
        for (number, book) in books.iter().enumerate() {
            let begin = place(options.seed, round, number, book.len() - options.tokens + 1);
            if texts.len() < options.samples && known.insert((number, begin)) {
                texts.push(book[begin..begin + options.tokens].to_vec());
            }
        }
    }
    Ok(match texts.len() == options.samples {
        true => Ok(texts),
        false => Err(format!(
            "it needs books with {} different parts; give a folder with .txt files with --data",
            options.samples
        )),
    })
}

/// The text of a book, or why it is none.
fn read_utf8(path: &Path) -> Result<String, String> {
    let name = path.display();
    let bytes =
        regular_file::read(path, MAX_BYTES).map_err(|error| format!("cannot read {name}: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        format!("{name}: not UTF-8 text: byte {} is invalid", error.utf8_error().valid_up_to())
    })
}

/// A number below `places` that looks random.
fn place(seed: u64, round: usize, book: usize, places: usize) -> usize {
    let numbers = [seed, round as u64, book as u64];
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    (XxHash3_64::oneshot(&bytes) % places as u64) as usize
}

/// Adds the paths of all .txt files in a folder, except those of other tasks.
fn find(folder: &Path, depth: usize, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_other = DataFile::all().any(|file| path.ends_with(file.name()));
        if path.is_dir() && depth > 0 {
            find(&path, depth - 1, paths)?;
        } else if path.is_file() && path.extension().is_some_and(|extension| extension == "txt") && !is_other
        {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use longhand::{Model, ModelSource};
    use terminal::console::Console;
    use terminal::interrupt::Interrupt;

    use super::*;

    #[test]
    fn parts_differ_and_other_seeds_have_other_parts() {
        let model = Model::open(ModelSource::Embedded).expect("embedded model");
        let tokenizer = model.chat_format().expect("its chat format").tokenizer();
        let folder = tempfile::tempdir().expect("a folder");
        let book: String = (0..2000).map(|number| format!("{number} ")).collect();
        fs::write(folder.path().join("book.txt"), book).expect("written");
        fs::write(folder.path().join("nounlist.txt"), "word\n".repeat(5000)).expect("written");
        fs::write(folder.path().join("bytes.txt"), [0xff; 5000]).expect("written");
        let lab = Lab { console: Console::detect().with_quiet(true), interrupt: Interrupt::install() };
        let texts = |seed, tokens| {
            let options = SampleOptions { tokens, samples: 8, seed };
            texts(&lab, Some(folder.path()), &options, tokenizer).expect("texts")
        };
        let (one, two) = (texts(1, 300).expect("parts"), texts(2, 300).expect("parts"));
        let all: HashSet<&Vec<u32>> = one.iter().chain(&two).collect();
        assert_eq!((one.len(), all.len()), (8, 16));
        assert!(one.iter().all(|text| text.len() == 300));
        let whole =
            tokenizer.encode(&(0..2000).map(|number| format!("{number} ")).collect::<String>(), true, false);
        assert!(texts(1, whole.expect("tokens").len()).is_err(), "the whole book is one part");
    }
}
