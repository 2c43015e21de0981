//! Models split into several files `NAME-00001-of-0000N.gguf`. Finds the parts by name and checks that none
//! is missing, that they are in order and that they are of one model. Uses the keys that llama.cpp's splitter
//! writes: `split.no` (from 0), `split.count` and `split.tensors.count`.

use std::io;
use std::path::{Path, PathBuf};

use super::Shard;
use crate::error::LoadError;

/// How many parts a model has according to its file names.
pub(super) enum Named {
    /// One file that is not named as a part.
    Whole,
    /// This many files that are named as parts.
    Parts(usize),
}

impl Named {
    pub(super) fn from(paths: &[PathBuf]) -> Named {
        match paths {
            [one] if part_name(one).is_none() => Named::Whole,
            parts => Named::Parts(parts.len()),
        }
    }
}

/// All parts of the model if the file is named as one of them, otherwise the file alone.
pub(super) fn parts(path: &Path) -> Vec<PathBuf> {
    let Some((stem, count)) = part_name(path) else {
        return vec![path.to_owned()];
    };
    // As it is written, in upper or lower case.
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("gguf");
    (1..=count).map(|i| path.with_file_name(format!("{stem}-{i:05}-of-{count:05}.{extension}"))).collect()
}

/// `STEM` and the number of parts, from a name `STEM-00002-of-00003.gguf`.
fn part_name(path: &Path) -> Option<(&str, usize)> {
    let (name, extension) = path.file_name()?.to_str()?.rsplit_once('.')?;
    extension.eq_ignore_ascii_case("gguf").then_some(())?;
    let (rest, count) = name.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let parse =
        |s: &str| (s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse::<usize>().ok())?;
    let (number, count) = (parse(number)?, parse(count)?);
    (1..=count).contains(&number).then_some((stem, count))
}

/// Turns "file not found" into an error that names the missing part. `opened` is the path that the user gave,
/// `i` the index of the part and `count` the number of parts.
pub(super) fn explain_missing(error: LoadError, opened: &Path, i: usize, count: usize) -> LoadError {
    match error {
        LoadError::Io { path, source }
            if count > 1 && source.kind() == io::ErrorKind::NotFound && (i > 0 || path != opened) =>
        {
            LoadError::Split {
                problem: format!("part {} of {count} is missing: there is no {}", i + 1, path.display()),
            }
        }
        other => other,
    }
}

/// Checks the keys of the parts against their file names and against each other.
pub(super) fn check(shards: &[Shard], named: Named) -> Result<(), LoadError> {
    let wrong = |problem: String| Err(LoadError::Split { problem });
    let count = match named {
        Named::Parts(count) if count > 1 => count,
        _ => {
            // One file may have the keys, but must not be one of several parts.
            return match shards.first().map(|s| s.int("split.count")).transpose()?.flatten() {
                Some(n) if n > 1 => wrong(format!(
                    "this is one of {n} parts, but its name does not end in -00001-of-{n:05}.gguf"
                )),
                _ => Ok(()),
            };
        }
    };
    let total: usize = shards.iter().map(|s| s.tensors.len()).sum();
    for (i, shard) in shards.iter().enumerate() {
        let part = i + 1;
        match shard.int("split.count")? {
            None => return wrong(format!("part {part} of {count} has no key split.count")),
            Some(n) if n != count as i128 => {
                return wrong(format!("part {part} of {count} says that there are {n}"));
            }
            Some(_) => {}
        }
        match shard.int("split.no")? {
            None => return wrong(format!("part {part} of {count} has no key split.no")),
            Some(n) if n != i as i128 => {
                return wrong(format!("part {part} of {count} says that it is number {} of them", n + 1));
            }
            Some(_) => {}
        }
        match shard.int("split.tensors.count")? {
            Some(n) if n != total as i128 => {
                return wrong(format!("the parts have {total} tensors together, but part {part} says {n}"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_names_are_parsed_and_listed() {
        let parse = |s: &str| part_name(Path::new(s)).map(|(stem, n)| (stem.to_owned(), n));
        assert_eq!(parse("d/m-00002-of-00003.gguf"), Some(("m".into(), 3)));
        assert_eq!(parse("d/m-00002-of-00003.GGUF"), Some(("m".into(), 3)));
        assert_eq!(parts(Path::new("m-00001-of-00002.GGUF"))[1], Path::new("m-00002-of-00002.GGUF"));
        assert_eq!(parse("a-of-b-00001-of-00001.gguf"), Some(("a-of-b".into(), 1)));
        for whole in [
            "m.gguf",
            "m-00004-of-00003.gguf",
            "m-00000-of-00003.gguf",
            "m-2-of-3.gguf",
            "m-+0002-of-00003.gguf",
            "m-00002-of-00003.bin",
        ] {
            assert_eq!(parse(whole), None, "{whole}");
        }
        assert_eq!(
            parts(Path::new("d/m-00002-of-00002.gguf")),
            [Path::new("d/m-00001-of-00002.gguf"), Path::new("d/m-00002-of-00002.gguf")]
        );
    }
}
