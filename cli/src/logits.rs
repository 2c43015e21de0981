//! `longhand logits`: the logits after every token of a text as a NumPy file, for checking against other programs.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use longhand::{Context, Model, SetupOptions};

use crate::app::App;
use crate::args::model::{ModelArg, ModelArgs};
use crate::args::session::{ChunkArgs, TypeArgs};
use crate::failure::Failure;

/// Write the logits after every token of a text to a NumPy file: float32 [tokens, vocabulary].
#[derive(Debug, Args)]
pub struct LogitsArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Comma-separated token ids, as `longhand tokenize` prints them
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
    let model = Model::open(args.model.source(args.model_arg.path.as_deref())?)?;
    let (k_type, v_type) = args.types.types();
    let asked = SetupOptions {
        context: Context::Tokens(tokens.len()),
        k_type: Some(k_type),
        v_type: Some(v_type),
        chunk: Some(args.chunk.tokens()),
        ..args.model.setup(app)
    };
    let setup = app.resolve(&model, &asked, tokens.len())?;
    let mut session = app.interrupt.reading(|| setup.start(&mut app.reporter()))?;
    let logits = app.interrupt.reading(|| session.all_logits(&tokens))?;
    let n_vocab = model.spec().n_vocab;
    write(&args.out, (tokens.len(), n_vocab), &logits).map_err(|error| {
        Failure::new(
            format!("cannot write {}: {error}", args.out.display()),
            "check that the folder exists, is writable and has free space",
        )
    })?;
    app.console.note(&format!("{}: float32 [{}, {}]", args.out.display(), tokens.len(), n_vocab));
    Ok(())
}

fn parse_tokens(text: &str) -> Result<Vec<u32>, Failure> {
    let wrong = |what: String| Failure::usage(what, "give token ids, for example --tokens 1,2,3");
    let list = text.trim().trim_start_matches('[').trim_end_matches(']');
    let tokens: Vec<u32> = list
        .split(',')
        .map(str::trim)
        .filter(|_| !list.trim().is_empty())
        .map(|token| token.parse().map_err(|_| wrong(format!("--tokens: {token:?} is not a token id"))))
        .collect::<Result<_, _>>()?;
    if tokens.is_empty() { Err(wrong("--tokens: no token id is given".into())) } else { Ok(tokens) }
}

/// Writes `[rows, columns]` f32 in NumPy's format 1.0. The file appears whole or not at all.
fn write(path: &Path, (rows, columns): (usize, usize), values: &[f32]) -> std::io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(std::io::Error::other("it exists and is not a regular file"));
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let whole = || {
        let mut file = BufWriter::new(File::create(&beside)?);
        file.write_all(&header(rows, columns))?;
        for value in values {
            file.write_all(&value.to_le_bytes())?;
        }
        file.into_inner()?.sync_all()?;
        fs::rename(&beside, path)
    };
    whole().inspect_err(|_| {
        // The half-written file is of no use; that it cannot be removed either is not news.
        let _ = fs::remove_file(&beside);
    })
}

/// The header is padded so that the data begin at a multiple of 64 bytes.
fn header(rows: usize, columns: usize) -> Vec<u8> {
    let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let fixed = 10;
    text.push_str(&" ".repeat((fixed + text.len() + 1).next_multiple_of(64) - (fixed + text.len() + 1)));
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
    fn tokens_as_typed_or_as_printed() {
        assert_eq!(parse_tokens("[1, 2,3]\n").expect("tokens"), [1, 2, 3]);
        for bad in ["", "[]", "1,x", "-1", "4294967296", "1 2", "1,,2"] {
            assert!(parse_tokens(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_header_is_numpys() {
        let header = header(3, 2048);
        assert_eq!(header.len() % 64, 0);
        assert!(header.ends_with(b"\n"));
        assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])) + 10, header.len());
    }
}
