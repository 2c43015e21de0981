//! Which file of a repository is meant. The rules are llama.cpp's.

use std::ops::Range;

/// Quantisations that are taken where none is asked for, the best first.
const PREFERRED: [&str; 2] = ["Q4_K_M", "Q8_0"];
/// Names of files that are no models: projectors of images, statistics, and drafts for other models.
const NO_MODELS: [&str; 5] = ["mmproj", "imatrix", "mtp-", "eagle3-", "dflash-"];
const EXTENSION: &str = ".gguf";

/// Why no file is chosen.
#[derive(Debug, PartialEq, Eq)]
pub enum NoChoice {
    /// There is no model in the repository.
    NoModels,
    /// There is no model of this quantisation; these are there.
    Unknown(Vec<String>),
    /// A split model of which this many parts are there, and this many belong to it.
    Parts(usize, usize),
}

/// Chooses the file for a quantisation or a file's name from the paths in a repository. Returns all parts of a split
/// model, in order. Without `quant`, a common quantisation or else the first model.
///
/// # Errors
/// There is no such model, or parts of it are missing.
pub fn choose<'a>(paths: &'a [String], quant: Option<&str>) -> Result<Vec<&'a str>, NoChoice> {
    let mut models: Vec<&str> = paths.iter().map(String::as_str).filter(|path| is_model(path)).collect();
    models.sort_unstable();
    let firsts: Vec<&str> =
        models.iter().copied().filter(|path| part_of(path).is_none_or(|(_, part, _)| part == 1)).collect();
    let first = *firsts.first().ok_or(NoChoice::NoModels)?;
    let has = |quant: &str| firsts.iter().copied().find(|path| is_called(path, quant));
    let chosen = match quant {
        Some(quant) => has(quant).ok_or_else(|| NoChoice::Unknown(quants(&firsts)))?,
        None => PREFERRED.into_iter().find_map(has).unwrap_or(first),
    };
    let Some((stem, _, count)) = part_of(chosen) else { return Ok(vec![chosen]) };
    let belongs = |path: &&str| part_of(path).is_some_and(|(other, _, of)| (other, of) == (stem, count));
    let parts: Vec<&str> = models.iter().copied().filter(belongs).collect();
    match parts.len() == count {
        true => Ok(parts),
        false => Err(NoChoice::Parts(parts.len(), count)),
    }
}

fn is_model(path: &str) -> bool {
    let name = file_name(path).to_ascii_lowercase();
    name.ends_with(EXTENSION) && !NO_MODELS.iter().any(|other| name.contains(other))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The path without the extension and without the number of a part.
fn stem(path: &str) -> &str {
    part_of(path).map_or_else(|| path.get(..path.len() - EXTENSION.len()).unwrap_or(path), |(stem, ..)| stem)
}

/// `STEM`, 2 and 3 of a path `STEM-00002-of-00003.gguf`.
fn part_of(path: &str) -> Option<(&str, usize, usize)> {
    let (rest, count) = path.strip_suffix(EXTENSION)?.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let number = |text: &str| text.parse::<usize>().ok().filter(|_| text.len() == 5);
    Some((stem, number(part)?, number(count)?))
}

/// Whether a path is of this quantisation, or is this file, in upper or lower case.
fn is_called(path: &str, quant: &str) -> bool {
    let (path, quant) = (path.to_ascii_lowercase(), quant.to_ascii_lowercase());
    let ends_word = |at: usize| !path[at..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let begins_word = |at: usize| !path[..at].ends_with(|c: char| c.is_alphanumeric());
    let is_word = |found: Range<usize>| begins_word(found.start) && ends_word(found.end);
    let mut words = path.match_indices(&quant).map(|(at, found)| at..at + found.len());
    path == quant || file_name(&path) == quant || words.any(is_word)
}

/// The quantisations of models; the file's name where it names none.
fn quants(models: &[&str]) -> Vec<String> {
    let quant = |path: &&str| {
        let name = file_name(stem(path));
        let (before, last) = name.rsplit_once(['-', '.']).unwrap_or(("", name));
        match before.ends_with("-UD") {
            true => format!("UD-{last}"),
            false => last.to_owned(),
        }
    };
    let mut quants: Vec<String> = models.iter().map(quant).collect();
    quants.dedup();
    quants
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 8] = [
        "README.md",
        "mmproj-f16.gguf",
        "qwen-IQ4_K_M.gguf",
        "qwen-Q8_0.gguf",
        "qwen-UD-Q2_K_XL.gguf",
        "qwen-q4_k_m-00001-of-00002.gguf",
        "qwen-q4_k_m-00002-of-00002.gguf",
        "Q6_K/qwen.Q6_K.gguf",
    ];

    fn chosen(paths: &[&str], quant: Option<&str>) -> Result<String, NoChoice> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        choose(&paths, quant).map(|parts| parts.join(" "))
    }

    #[test]
    fn a_quantisation_is_a_whole_word_in_upper_or_lower_case() {
        let both = "qwen-q4_k_m-00001-of-00002.gguf qwen-q4_k_m-00002-of-00002.gguf";
        for (quant, file) in [
            (None, both),
            (Some("Q4_K_M"), both),
            (Some("iq4_k_m"), "qwen-IQ4_K_M.gguf"),
            (Some("Q8_0"), "qwen-Q8_0.gguf"),
            (Some("Q2_K_XL"), "qwen-UD-Q2_K_XL.gguf"),
            (Some("UD-Q2_K_XL"), "qwen-UD-Q2_K_XL.gguf"),
            (Some("q6_k"), "Q6_K/qwen.Q6_K.gguf"),
            (Some("qwen-q8_0.gguf"), "qwen-Q8_0.gguf"),
        ] {
            assert_eq!(chosen(&PATHS, quant), Ok(file.to_owned()), "{quant:?}");
        }
    }

    #[test]
    fn without_a_quantisation_a_common_one_or_the_first_is_taken() {
        assert_eq!(chosen(&["m-Q2_K.gguf", "m-Q8_0.gguf"], None), Ok("m-Q8_0.gguf".to_owned()));
        assert_eq!(chosen(&["m-Q5_0.gguf", "m-Q3_K.gguf"], None), Ok("m-Q3_K.gguf".to_owned()));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(chosen(&["README.md", "mmproj-Q8_0.gguf"], None), Err(NoChoice::NoModels));
        let known = ["Q6_K", "IQ4_K_M", "Q8_0", "UD-Q2_K_XL", "q4_k_m"].map(str::to_owned).to_vec();
        for quant in ["Q4_K", "8_0", "Q3_K_S", "\u{212a}"] {
            assert_eq!(chosen(&PATHS, Some(quant)), Err(NoChoice::Unknown(known.clone())), "{quant:?}");
        }
        assert_eq!(chosen(&["m-Q8_0-00001-of-00003.gguf"], None), Err(NoChoice::Parts(1, 3)));
    }
}
