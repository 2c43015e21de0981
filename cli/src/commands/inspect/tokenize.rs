//! `longhand tokenize`: the token ids of a text, to compare with other programs. Works with vocabulary-only
//! files.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use models::tokenizer::{Tokenizer, TokenizerError};

use crate::app::App;
use crate::failure::Failure;
use crate::models::args::ModelFileArgs;
use crate::session::documents;

/// Print the token ids of a text as a JSON array.
#[derive(Debug, Args)]
pub struct TokenizeArgs {
    #[command(flatten)]
    model: ModelFileArgs,
    /// UTF-8 text file, used unchanged; - is stdin
    #[arg(short = 'f', long, value_name = "FILE", required_unless_present = "prompt")]
    file: Option<PathBuf>,
    /// The text itself
    #[arg(short = 'p', long, value_name = "TEXT", conflicts_with = "file")]
    prompt: Option<String>,
    /// Add the beginning- and end-of-text tokens that the model uses
    #[arg(long)]
    add_special: bool,
    /// Turn text like <|im_end|> into control tokens
    #[arg(long)]
    parse_special: bool,
}

/// Runs the command.
pub fn run(app: &App, args: &TokenizeArgs) -> Result<()> {
    let text = match (&args.file, &args.prompt) {
        (Some(path), _) => documents::read_utf8(path)?,
        (None, prompt) => prompt.clone().unwrap_or_default(),
    };
    let file = args.model.source(app)?.open()?;
    let tokenizer = Tokenizer::from_gguf(&file);
    file.check_complete()?; // before errors in the vocabulary, which may be zeros
    let failed = |error: TokenizerError| {
        let failure = Failure::new(error.to_string(), error.hint());
        file.path().map_or(failure.clone(), |path| failure.found_in(&path.display().to_string()))
    };
    let ids = tokenizer.map_err(failed)?.encode(&text, args.add_special, args.parse_special)?;
    app.console.print(&(serde_json::to_string(&ids)? + "\n"))?;
    Ok(())
}
