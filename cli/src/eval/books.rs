//! Parts of books, as tokens.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use models::tokenizer::Tokenizer;
use tasks::SampleOptions;

use crate::documents;
use crate::failure::Failure;

/// Folders within folders that are looked into.
const DEPTH: usize = 4;
/// More bytes than a token has on average.
const TOKEN_BYTES: usize = 8;

/// Parts of the books below a folder, of the length that is wanted, or why there are none. Each book in turn gives one; the
/// seed says where in the book it begins.
///
/// # Errors
/// Where the folder or a book cannot be read.
pub fn texts(
    folder: Option<&Path>,
    options: &SampleOptions,
    tokenizer: &Tokenizer,
) -> Result<Result<Vec<Vec<u32>>, String>> {
    let missing = || {
        let what = "it needs books of as many tokens; give a folder with .txt files with --data";
        Ok(Err(what.to_owned()))
    };
    let Some(folder) = folder else { return missing() };
    let mut paths = Vec::new();
    find(folder, DEPTH, &mut paths)?;
    paths.sort();
    let mut texts: Vec<Vec<u32>> = Vec::new();
    for round in 0.. {
        let before = texts.len();
        for path in &paths {
            if texts.len() == options.samples {
                return Ok(Ok(texts));
            }
            let book = documents::read_utf8(path)?;
            let part = part(&book, options.tokens * TOKEN_BYTES, place(options.seed.wrapping_add(round)));
            let mut tokens = tokenizer.encode(part, true, false).map_err(Failure::from)?;
            if tokens.len() >= options.tokens {
                tokens.truncate(options.tokens);
                texts.push(tokens);
            }
        }
        if texts.len() == before {
            break;
        }
    }
    missing()
}

/// A number from 0 to 1 that looks random.
fn place(seed: u64) -> f64 {
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

/// About `bytes` bytes of a text, or all of a shorter one; `place` is 0 for its beginning and 1 for its end.
fn part(text: &str, bytes: usize, place: f64) -> &str {
    let boundary = |at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let begin = boundary((text.len().saturating_sub(bytes) as f64 * place) as usize);
    &text[begin..boundary(begin.saturating_add(bytes).min(text.len()))]
}

/// Adds the paths of all .txt files in a folder.
fn find(folder: &Path, depth: usize, paths: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed =
        |error| Failure::new(format!("{}: {error}", folder.display()), "give another folder with --data");
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
        if kind.is_dir() && depth > 0 {
            find(&path, depth - 1, paths)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "txt") {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_between_characters_and_within_the_text() {
        let text = "äöü".repeat(10);
        for bytes in 0..70 {
            for place in [0.0, 0.3, 0.99, 1.0] {
                let part = part(&text, bytes, place);
                assert!(part.len() <= bytes && part.len() + 1 >= bytes.min(text.len()), "{bytes} {place}");
            }
        }
        assert!((0..1000).map(place).all(|place| (0.0..1.0).contains(&place)));
    }
}
