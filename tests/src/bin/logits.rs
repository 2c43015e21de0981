//! Compares logits with those of other programs. For each `NAME.gguf` of a folder, `NAME.tokens` has token ids
//! separated by commas, and `NAME.npy` float32 logits `[tokens, vocab]`.
//!
//! Usage: `cargo run --release -p tests --bin logits -- DIR`; `LONGHAND_TEST_DEVICE` names the device (see
//! `tests::device`).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use longhand::{Engine, ModelSource};
use tests::fixtures::{max_difference, options, session};
use tests::npy::Array;

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).context("usage: logits DIR")?;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "gguf"));
    files.sort();
    for file in files {
        let name = file.file_stem().unwrap_or_default().display();
        match difference(&file) {
            Ok((difference, largest)) => println!("{name:24} {difference:.2e} (logits up to {largest:.1})"),
            Err(error) => println!("{name:24} {error:#}"),
        }
    }
    Ok(())
}

/// The largest difference of a model's logits, and the largest logit.
fn difference(file: &Path) -> Result<(f32, f32)> {
    let engine = Engine::open(&ModelSource::File(file.into()), &tests::engine_options())?;
    let tokens = std::fs::read_to_string(file.with_extension("tokens"))?;
    let tokens = tokens.trim().split(',').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    let wanted = Array::read(&file.with_extension("npy"))?;
    ensure!(wanted.shape == [tokens.len(), engine.spec().n_vocab], "logits of shape {:?}", wanted.shape);
    let logits = session(&engine, options(tokens.len(), "full")).all_logits(&tokens)?;
    Ok((max_difference(&logits, &wanted.data), max_difference(&wanted.data, &vec![0.0; wanted.data.len()])))
}
