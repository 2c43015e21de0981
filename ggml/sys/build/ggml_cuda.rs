//! ggml-cuda's files, as its CMake files list them for CUDA and for HIP, for the build scripts of both.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::objects::{digest_headers, files, stem};

const ATTENTION_TYPES: &[&str] = &["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "bf16", "f16"];

/// ggml-cuda's files, those of attention last, with vector kernels of attention for these pairs of K and V types alone.
pub fn sources(cuda: &Path, attention_pairs: &[&str]) -> Result<Vec<PathBuf>> {
    let mut sources = files(cuda, &["cu"])?;
    sources.extend(files(&cuda.join("template-instances"), &["cu"])?.into_iter().filter(|source| {
        stem(source).strip_prefix("fattn-vec-instance-").is_none_or(|pair| attention_pairs.contains(&pair))
    }));
    sources.sort_by_key(|source| is_attention(source));
    Ok(sources)
}

/// Whether a file is one of attention.
pub fn is_attention(source: &Path) -> bool {
    stem(source).starts_with("fattn")
}

/// What files of attention are told of the pairs of K and V types.
pub fn attention_flags(attention_pairs: &[&str]) -> Vec<String> {
    let pairs = ATTENTION_TYPES.iter().flat_map(|k| ATTENTION_TYPES.iter().map(move |v| format!("{k}-{v}")));
    pairs
        .map(|pair| {
            let compiled = attention_pairs.contains(&pair.as_str()) as u8;
            format!("-DGGML_CUDA_FA_{}={compiled}", pair.replace('-', "_").to_uppercase())
        })
        .collect()
}

/// Hash of all headers that ggml-cuda's files may include.
pub fn headers(ggml: &Path) -> Result<u128> {
    let cuda = ggml.join("src/ggml-cuda");
    digest_headers(&[&ggml.join("include"), &ggml.join("src"), &cuda, &cuda.join("vendors")], 0)
}
