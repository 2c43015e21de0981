//! Models to begin with, for a machine that has none: well-known files of Hugging Face that fit its memory by the
//! planner's arithmetic. Nothing is downloaded or looked up.

use longhand::setup::{Context, Forecast};
use longhand::{EngineError, Observer, SessionOptions, SetupOptions};
use models::shapes::{FileType, ModelShape};

/// Tokens of the context that must fit.
pub const CONTEXT: usize = 32_768;
/// The file type that is suggested.
pub const FILE_TYPE: &str = "Q4_K_M";
/// How many are suggested.
const SHOWN: usize = 3;

/// A file of Hugging Face that has the file type.
struct Known {
    shape: &'static str,
    family: &'static str,
    repository: &'static str,
}

const fn known(shape: &'static str, family: &'static str, repository: &'static str) -> Known {
    Known { shape, family, repository }
}

/// The files, the largest first.
const KNOWN: &[Known] = &[
    known("llama-3.1-70b", "Llama", "bartowski/Meta-Llama-3.1-70B-Instruct-GGUF"),
    known("qwen3-32b", "Qwen", "Qwen/Qwen3-32B-GGUF"),
    known("qwen3-14b", "Qwen", "Qwen/Qwen3-14B-GGUF"),
    known("gemma-3-12b", "Gemma", "ggml-org/gemma-3-12b-it-GGUF"),
    known("qwen3-8b", "Qwen", "Qwen/Qwen3-8B-GGUF"),
    known("llama-3.1-8b", "Llama", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF"),
    known("qwen3-4b", "Qwen", "Qwen/Qwen3-4B-GGUF"),
    known("gemma-3-4b", "Gemma", "ggml-org/gemma-3-4b-it-GGUF"),
    known("llama-3.2-3b", "Llama", "bartowski/Llama-3.2-3B-Instruct-GGUF"),
    known("qwen2.5-1.5b", "Qwen", "Qwen/Qwen2.5-1.5B-Instruct-GGUF"),
    known("llama-3.2-1b", "Llama", "bartowski/Llama-3.2-1B-Instruct-GGUF"),
    known("gemma-3-1b", "Gemma", "ggml-org/gemma-3-1b-it-GGUF"),
    known("qwen2.5-0.5b", "Qwen", "Qwen/Qwen2.5-0.5B-Instruct-GGUF"),
];

/// A model to begin with.
pub struct Suggestion {
    /// `OWNER/REPOSITORY`.
    pub repository: &'static str,
    /// Bytes of the weights.
    pub weights: usize,
    /// Bytes of weights, cache and computation with [`CONTEXT`] tokens.
    pub needed: usize,
    /// Whether that fits the memory; `None` where the memory is not known.
    pub fits: Option<bool>,
}

/// Three models of different families, from large to small. They fit the memory where three do: then the others are
/// smaller by half, because they read faster.
///
/// # Errors
/// The interrupt flag is set.
pub fn suggestions(
    options: &SetupOptions,
    observer: &mut dyn Observer,
) -> Result<Vec<Suggestion>, EngineError> {
    let options = SetupOptions { context: Context::Tokens(CONTEXT), ..options.clone() };
    let mut suggestions: Vec<Suggestion> = Vec::new();
    let mut families = Vec::new();
    for known in KNOWN {
        let Ok((shape, file_type)) = ModelShape::parse(&format!("{}:{FILE_TYPE}", known.shape)) else {
            continue;
        };
        let weights = shape.weight_bytes(file_type) as usize;
        let is_small = suggestions.last().is_none_or(|last| weights <= last.weights / 2);
        if suggestions.len() == SHOWN || families.contains(&known.family) || !is_small {
            continue;
        }
        let suggestion = plan(known, &shape, file_type, &options, observer)?;
        if suggestion.fits != Some(false) {
            families.push(known.family);
            suggestions.push(suggestion);
        }
    }
    // Little memory: the smallest ones.
    for known in KNOWN.iter().rev() {
        if suggestions.len() < SHOWN && suggestions.iter().all(|other| other.repository != known.repository) {
            let Ok((shape, file_type)) = ModelShape::parse(&format!("{}:{FILE_TYPE}", known.shape)) else {
                continue;
            };
            suggestions.push(plan(known, &shape, file_type, &options, observer)?);
        }
    }
    Ok(suggestions)
}

fn plan(
    known: &Known,
    shape: &ModelShape,
    file_type: FileType,
    options: &SetupOptions,
    observer: &mut dyn Observer,
) -> Result<Suggestion, EngineError> {
    let forecast = Forecast::of_shape(shape, file_type, options)?;
    let SessionOptions { policy, types, .. } = SessionOptions::default();
    let session = forecast.sessions(&policy, None, &[types], observer)?.remove(0)?;
    Ok(Suggestion {
        repository: known.repository,
        weights: shape.weight_bytes(file_type) as usize,
        needed: forecast.target().total(session.plan()),
        fits: forecast.target().fits(session.plan(), session.placement(), shape.n_layers),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_models_have_shapes_and_are_sorted() {
        let mut last = u64::MAX;
        for known in KNOWN {
            let (shape, file_type) = ModelShape::parse(known.shape).expect(known.shape);
            let weights = shape.weight_bytes(file_type);
            assert!(weights <= last, "{} is larger than the one before", known.shape);
            last = weights;
            assert!(hub::parse(&format!("{}:{FILE_TYPE}", known.repository)).is_ok());
        }
    }
}
