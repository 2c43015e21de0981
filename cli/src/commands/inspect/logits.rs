//! `longhand logits`: the logits after every token of a text as a NumPy file, to compare with other programs.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use longhand::SetupOptions;
use longhand::files::atomic_file::{self, Access};
use longhand::policy::PolicyChoice;
use longhand::setup::Context;

use crate::app::App;
use crate::args::session::{ChunkArgs, TypeArgs};
use crate::failure::Failure;
use crate::models::args::{ModelArg, ModelArgs};

/// Write the logits after every token of a text to a NumPy file: float32 [tokens, vocabulary].
#[derive(Debug, Args)]
pub struct LogitsArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Token ids: comma-separated, or the JSON array that `longhand tokenize` prints
    #[arg(long, value_name = "IDS")]
    tokens: String,
    /// Output file
    #[arg(short = 'o', long, value_name = "FILE.npy")]
    out: PathBuf,
    #[command(flatten)]
    chunk: ChunkArgs,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs the command.
pub fn run(app: &App, args: &LogitsArgs) -> Result<()> {
    let tokens = parse_tokens(&args.tokens)?;
    let model = app.open(args.model.source(app, args.model_arg.path.as_deref())?)?;
    let (k_type, v_type) = args.types.types();
    let options = SetupOptions {
        context: Context::Tokens(tokens.len()),
        policy: Some(PolicyChoice::default()),
        k_type: Some(k_type),
        v_type: Some(v_type),
        chunk: Some(args.chunk.tokens()),
        ..args.model.setup_options(app)?
    };
    let mut session = app.start(&app.resolve(&model, &options, tokens.len())?)?;
    let logits = app.interrupt.computing(|| session.all_logits(&tokens))?;
    let n_vocab = model.spec().n_vocab;
    let written = atomic_file::write(&args.out, Access::Everyone, |out| {
        out.write_all(&npy_header(tokens.len(), n_vocab))?;
        logits.iter().try_for_each(|logit| out.write_all(&logit.to_le_bytes()))
    });
    written.map_err(|error| {
        Failure::new(
            format!("cannot write {}: {error}", args.out.display()),
            match error.kind() {
                std::io::ErrorKind::FileTooLarge => "raise the limit on the size of files (`ulimit -f`)",
                _ => "check that the folder exists, is writable and has free space",
            },
        )
    })?;
    app.console.note(&format!("{}: float32 [{}, {}]", args.out.display(), tokens.len(), n_vocab));
    Ok(())
}

fn parse_tokens(text: &str) -> Result<Vec<u32>, Failure> {
    let failure = |message: String| Failure::usage(message, "give token ids, for example --tokens 1,2,3");
    let list = text.trim().trim_start_matches('[').trim_end_matches(']');
    let tokens: Vec<u32> = list
        .split(',')
        .map(str::trim)
        .filter(|_| !list.trim().is_empty())
        .map(|token| token.parse().map_err(|_| failure(format!("--tokens: {token:?} is not a token id"))))
        .collect::<Result<_, _>>()?;
    if tokens.is_empty() { Err(failure("--tokens: no token id is given".into())) } else { Ok(tokens) }
}

/// The header of NumPy's format 1.0 for f32 `[rows, columns]`, padded such that the data begin at a multiple
/// of 64 bytes.
fn npy_header(rows: usize, columns: usize) -> Vec<u8> {
    const PREFIX_BYTES: usize = 10;
    let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let bytes = PREFIX_BYTES + text.len() + 1;
    text.push_str(&" ".repeat(bytes.next_multiple_of(64) - bytes));
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_lists_with_and_without_brackets_are_parsed() {
        assert_eq!(parse_tokens("[1, 2,3]\n").expect("tokens"), [1, 2, 3]);
        for bad in ["", "[]", "1,x", "-1", "4294967296", "1 2", "1,,2"] {
            assert!(parse_tokens(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_header_is_aligned_and_has_its_length() {
        let header = npy_header(3, 2048);
        assert_eq!(header.len() % 64, 0);
        assert!(header.ends_with(b"\n"));
        assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])) + 10, header.len());
    }
}
