//! Which file of a repository is meant. Names decide: files that help another model (projectors of images, statistics
//! of weights, drafts) are told from models by llama.cpp's conventions. A word in the middle of a name is none of them:
//! `needle-MTP-Q8_0.gguf` is a model, `mtp-needle-Q8_0.gguf` is a draft for it.

use std::cmp::Reverse;
use std::ops::Range;

/// Quantisations that are taken where none is asked for, the best first.
const PREFERRED: [&str; 2] = ["Q4_K_M", "Q8_0"];
/// Words that names of drafts for another model begin with.
const DRAFTS: [&str; 6] = ["mtp", "draft", "drafter", "eagle3", "dflash", "dspark"];
const EXTENSION: &str = ".gguf";
/// Most parts of a split model. The largest models have some hundred.
const MAX_PARTS: usize = 1000;

/// What a file is, by its name. The first is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Model,
    /// A draft for another model. It is a model itself: in a repository that has nothing else, it is the one.
    Draft,
    /// A projector of images, or statistics of weights. It is taken only by its whole name.
    NoModel,
}

/// The chosen file.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// All parts of a split model, in order, or the one file.
    pub parts: Vec<&'a str>,
    /// Other models that are called the same, of which this one is taken. They differ in more than the quantisation.
    pub others: Vec<&'a str>,
    /// Whether the file is a model, or is asked for by its name. Otherwise its name looks like that of a draft.
    pub is_sure: bool,
}

/// Why no file is chosen.
#[derive(Debug, PartialEq, Eq)]
pub enum NoChoice {
    /// There is no model in the repository.
    NoModels,
    /// There is no model of this quantisation; these are there.
    Unknown(Vec<String>),
    /// A split model of which this many parts are there, and this many belong to it.
    Parts(usize, usize),
    /// A split model of more parts than any has.
    TooManyParts(usize),
}

/// A GGUF file that is whole or the first part.
struct Candidate<'a> {
    path: &'a str,
    role: Role,
    /// Whether its name begins with that of the repository.
    is_named_so: bool,
    /// Whether it has layers that predict more tokens. Where there is a file without them, that one is taken.
    has_mtp: bool,
}

/// Chooses the file for a quantisation or a file's name from the paths in `OWNER/REPOSITORY`. Without `quant`, a common
/// quantisation or else the first model.
///
/// # Errors
/// There is no such model, or parts of it are missing.
pub fn choose<'a>(
    paths: &'a [String],
    repository: &str,
    quant: Option<&str>,
) -> Result<Choice<'a>, NoChoice> {
    let mut files: Vec<&str> = paths.iter().map(String::as_str).filter(|path| is_gguf(path)).collect();
    files.sort_unstable();
    let base = base_name(repository);
    let candidates: Vec<Candidate> =
        files.iter().filter(|path| is_first(path)).map(|path| candidate(path, &base)).collect();
    // A whole name is never another file's.
    if let Some(path) = quant.and_then(|name| files.iter().copied().find(|path| is_file(path, name))) {
        return Ok(Choice { parts: parts(&files, path)?, others: Vec::new(), is_sure: true });
    }
    let best = candidates.iter().map(|candidate| candidate.role).min().filter(|role| *role != Role::NoModel);
    let best = best.ok_or(NoChoice::NoModels)?;
    let models: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.role == best).collect();
    let called = |quant: &str| {
        let mut found: Vec<&Candidate> =
            models.iter().copied().filter(|model| is_called(model.path, quant)).collect();
        found.sort_by_key(|model| {
            (model.has_mtp, Reverse(model.is_named_so), stem(model.path).len(), model.path)
        });
        Some(found).filter(|found| !found.is_empty())
    };
    let found = match quant {
        Some(quant) => called(quant).ok_or_else(|| {
            NoChoice::Unknown(quants(&models.iter().map(|model| model.path).collect::<Vec<_>>()))
        })?,
        None => PREFERRED.into_iter().find_map(called).unwrap_or_else(|| models.clone()),
    };
    let chosen = found.first().ok_or(NoChoice::NoModels)?.path;
    let quant_of_all = quant.is_some() || is_preferred(chosen);
    let differ = |other: &&&Candidate| quant_of_all && kind(other.path) != kind(chosen);
    let mut others: Vec<&str> = found.iter().filter(differ).map(|other| other.path).collect();
    others.dedup_by_key(|other| kind(other));
    Ok(Choice { parts: parts(&files, chosen)?, others, is_sure: best == Role::Model })
}

/// Whether a path is that of a model, or of the first part of one.
pub fn is_first_of_model(path: &str) -> bool {
    is_gguf(path) && is_first(path) && candidate(path, "").role != Role::NoModel
}

/// All parts of the model that a file is, or is a part of.
fn parts<'a>(files: &[&'a str], chosen: &'a str) -> Result<Vec<&'a str>, NoChoice> {
    let Some((stem, _, count)) = part_of(chosen) else { return Ok(vec![chosen]) };
    if count > MAX_PARTS {
        return Err(NoChoice::TooManyParts(count));
    }
    let belongs = |path: &&str| {
        part_of(path)
            .is_some_and(|(other, part, of)| (other, of) == (stem, count) && (1..=count).contains(&part))
    };
    let parts: Vec<&str> = files.iter().copied().filter(belongs).collect();
    match parts.len() == count {
        true => Ok(parts),
        false => Err(NoChoice::Parts(parts.len(), count)),
    }
}

fn candidate<'a>(path: &'a str, base: &str) -> Candidate<'a> {
    let stem = stem(path).to_ascii_lowercase();
    let (folders, name) = stem.rsplit_once('/').unwrap_or(("", &stem));
    let after_base = name
        .strip_prefix(base)
        .filter(|rest| !base.is_empty() && !rest.starts_with(|c: char| c.is_alphanumeric()));
    // Words in the repository's name are not about the file.
    let words: Vec<&str> = words(after_base.unwrap_or(name)).collect();
    let begins_with = |words: &[&str], any: &[&str]| words.first().is_some_and(|word| any.contains(word));
    let folder_of = |any: &[&str]| {
        folders.split('/').any(|folder| begins_with(&self::words(folder).take(1).collect::<Vec<_>>(), any))
    };
    let is_draft = begins_with(&words, &DRAFTS[..1]) && after_base.is_none()
        || words.iter().any(|word| DRAFTS[1..].contains(word))
        || folder_of(&DRAFTS);
    let has_statistics = words.contains(&"imatrix");
    // A quantisation made with the statistics has a type: `needle-imatrix-Q4_K_M.gguf`.
    let is_statistics = has_statistics && quants_in(name).next().is_none();
    let role = if words.contains(&"mmproj") || is_statistics || folder_of(&["mmproj", "imatrix"]) {
        Role::NoModel
    } else if is_draft || (has_statistics && words.first() == Some(&"imatrix") && after_base.is_none()) {
        Role::Draft
    } else {
        Role::Model
    };
    Candidate { path, role, is_named_so: after_base.is_some(), has_mtp: words.contains(&"mtp") }
}

/// What the names of a repository's files usually begin with: `needle-mtp` of `acme/Needle-MTP-GGUF`.
fn base_name(repository: &str) -> String {
    let name = file_name(repository).to_ascii_lowercase();
    let base = name.find("gguf").map_or(&*name, |at| &name[..at]);
    base.trim_end_matches(['-', '_', '.']).to_owned()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn is_gguf(path: &str) -> bool {
    without_extension(path).is_some()
}

fn without_extension(path: &str) -> Option<&str> {
    let (stem, extension) = path.split_at_checked(path.len().checked_sub(EXTENSION.len())?)?;
    extension.eq_ignore_ascii_case(EXTENSION).then_some(stem)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The path without the extension and without the number of a part.
fn stem(path: &str) -> &str {
    part_of(path).map_or_else(|| without_extension(path).unwrap_or(path), |(stem, ..)| stem)
}

/// `STEM`, 2 and 3 of a path `STEM-00002-of-00003.gguf`.
fn part_of(path: &str) -> Option<(&str, usize, usize)> {
    let (rest, count) = without_extension(path)?.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let number = |text: &str| text.parse::<usize>().ok().filter(|_| text.len() == 5);
    Some((stem, number(part)?, number(count)?))
}

fn is_first(path: &str) -> bool {
    part_of(path).is_none_or(|(_, part, _)| part == 1)
}

/// Whether a path is, or ends in, this file's name, in upper or lower case.
fn is_file(path: &str, name: &str) -> bool {
    path.eq_ignore_ascii_case(name) || file_name(path).eq_ignore_ascii_case(name)
}

/// Whether a path is of this quantisation, in upper or lower case.
fn is_called(path: &str, quant: &str) -> bool {
    let (path, quant) = (path.to_ascii_lowercase(), quant.to_ascii_lowercase());
    let ends_word = |at: usize| !path[at..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let begins_word = |at: usize| !path[..at].ends_with(|c: char| c.is_alphanumeric());
    let is_word = |found: Range<usize>| begins_word(found.start) && ends_word(found.end);
    path.match_indices(&quant).any(|(at, found)| is_word(at..at + found.len()))
}

fn is_preferred(path: &str) -> bool {
    PREFERRED.iter().any(|quant| is_called(path, quant))
}

/// A model's name without its quantisation, in lower case: what files of one model have in common.
fn kind(path: &str) -> String {
    let name = file_name(stem(path)).to_ascii_lowercase();
    let mut kind = String::new();
    let mut end = 0;
    for quant in quants_in(&name) {
        kind += &name[end..quant.start];
        end = quant.end;
    }
    kind += &name[end..];
    words(&kind).filter(|word| *word != "ud").collect::<Vec<_>>().join("-")
}

/// Where names of quantisations are in a name in lower case: `q4_k_m`, `iq2_xs`, `bf16`.
fn quants_in(name: &str) -> impl Iterator<Item = Range<usize>> {
    let begins_word = |at: usize| !name[..at].ends_with(|c: char| c.is_alphanumeric());
    name.char_indices().filter_map(move |(at, _)| {
        let word = name[at..].split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let is_number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
        let is_quant = ["q", "iq", "tq"].iter().any(|kind| word.strip_prefix(kind).is_some_and(is_number))
            || ["f16", "f32", "bf16", "fp16", "fp32", "mxfp4", "nvfp4"].iter().any(|kind| {
                word.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
            });
        (is_quant && begins_word(at)).then(|| at..at + word.len())
    })
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
        choose(&paths, "acme/m-GGUF", quant).map(|choice| choice.parts.join(" "))
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

    /// A repository's files, what is asked for, and what is chosen.
    #[track_caller]
    fn check(repository: &str, paths: &[&str], quant: Option<&str>, expected: &str) {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let choice = choose(&paths, repository, quant).map(|choice| choice.parts.join(" "));
        assert_eq!(choice, Ok(expected.to_owned()), "{repository}:{quant:?}");
    }

    #[test]
    fn words_in_the_name_of_a_model_do_not_make_it_a_helper() {
        for (repository, file) in [
            ("acme/Needle-MTP-GGUF", "Needle-MTP-Q8_0.gguf"),
            ("acme/Needle-GGUF", "Needle-MTP-Q8_0.gguf"),
            ("acme/smtp-helper-GGUF", "smtp-helper-Q8_0.gguf"),
            ("acme/MTP-7B-GGUF", "MTP-7B-Q8_0.gguf"),
            ("acme/First-Draft-GGUF", "first-draft-Q8_0.gguf"),
            ("acme/Drafting-GGUF", "drafting-Q8_0.gguf"),
            ("acme/Imat-GGUF", "model-imatrix-Q8_0.gguf"),
            ("acme/Imat-GGUF", "model-Q8_0-imatrix.gguf"),
            ("acme/x-GGUF-IQ-Imatrix", "x-IQ3_M-imat-Q8_0.gguf"),
            ("acme/Case-GGUF", "NEEDLE.Q8_0.GGUF"),
            ("acme/Folders-GGUF", "Q8_0/needle-00001-of-00001.gguf"),
        ] {
            let others = ["model.imatrix.gguf", "imatrix_unsloth.gguf", "mmproj-Q8_0.gguf", "README.md"];
            check(repository, &[&others[..], &[file]].concat(), Some("q8_0"), file);
            check(repository, &[&others[..], &[file]].concat(), None, file);
        }
    }

    #[test]
    fn helpers_are_told_from_the_model() {
        let model = "needle-Q8_0.gguf";
        for helper in [
            "draft/a-Q8_0.gguf",
            "MTP/a-Q8_0.gguf",
            "mtp-needle-Q8_0.gguf",
            "MTP_needle-Q8_0.gguf",
            "draft-Q8_0.gguf",
            "a.draft-Q8_0.gguf",
            "dflash-a-Q8_0.gguf",
            "dspark-a-Q8_0.gguf",
            "eagle3-a-Q8_0.gguf",
            "mmproj-Q8_0.gguf",
            "a-mmproj-Q8_0.gguf",
            "a.mmproj-Q8_0.gguf",
            "needle-imatrix.gguf",
            "imatrix/a-Q8_0.gguf",
            "a-MTP-Q8_0.gguf",
        ] {
            for quant in [None, Some("Q8_0")] {
                check("acme/needle-GGUF", &[helper, model], quant, model);
            }
            // Its whole name asks for it.
            check("acme/needle-GGUF", &[helper, model], Some(helper), helper);
        }
        let only = ["mtp-needle-Q8_0.gguf".to_owned(), "mmproj-F16.gguf".to_owned()];
        let choice = choose(&only, "acme/needle-GGUF", None).expect("a choice");
        assert_eq!((&choice.parts[..], choice.is_sure), (&["mtp-needle-Q8_0.gguf"][..], false));
        // A draft is not taken for a quantisation that the model does not have.
        let paths = ["needle-Q4_K_M.gguf".to_owned(), "mtp-needle-Q8_0.gguf".to_owned()];
        let unknown = choose(&paths, "acme/needle-GGUF", Some("Q8_0"));
        assert_eq!(unknown, Err(NoChoice::Unknown(vec!["Q4_K_M".to_owned()])));
    }

    #[test]
    fn of_several_models_the_one_named_like_the_repository_is_taken() {
        let paths = ["a-7b-Q8_0.gguf", "needle-14B-Q8_0.gguf", "needle-Q8_0.gguf", "needle-UD-Q8_0.gguf"];
        let paths = paths.map(str::to_owned);
        let choice = choose(&paths, "acme/Needle-GGUF", Some("Q8_0")).expect("a choice");
        assert_eq!(choice.parts, ["needle-Q8_0.gguf"]);
        assert_eq!(choice.others, ["needle-14B-Q8_0.gguf", "a-7b-Q8_0.gguf"]);
        let one = choose(&paths[2..], "acme/Needle-GGUF", None).expect("a choice");
        assert!(one.others.is_empty(), "{one:?}");
    }

    #[test]
    fn a_list_of_many_parts_is_refused() {
        let part = |i| format!("m-Q8_0-{i:05}-of-99999.gguf");
        let paths: Vec<String> = (1..=99_999).map(part).collect();
        assert_eq!(choose(&paths, "acme/m", None), Err(NoChoice::TooManyParts(99_999)));
    }
}
