//! `longhand text`: documents as a model reads them. What a command answers from can be looked at before it is asked.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::app::App;
use crate::args::documents::DocumentArgs;
use crate::failure::Failure;
use crate::session::documents::{Documents, Part};

/// Print documents as a model reads them
///
/// Notes on stderr say what was left out, and what could not be read.
#[derive(Debug, Args)]
pub struct TextArgs {
    /// Documents: files (text, HTML, PDF, EPUB, office), folders, or patterns such as 'src/**/*.rs'. - is stdin
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a JSON array with an object for each FILE: name, count, notes, text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    documents: DocumentArgs,
}

/// Runs the command.
pub fn run(app: &App, args: &TextArgs) -> Result<()> {
    let documents = match args.files.is_empty() {
        true => Documents::piped(app)?,
        false => Documents::read(&args.files, &args.documents.options()?)?,
    };
    if documents.text().is_empty() {
        return Err(Failure::usage("no document is given", "name one: longhand text report.pdf").into());
    }
    if args.json {
        let object = |(part, text): (&Part, &str)| json!({ "name": part.name, "count": part.count, "notes": part.notes, "text": text });
        return app.console.print_json(&documents.parts().map(object).collect::<Vec<Value>>());
    }
    documents.parts().filter_map(|(part, _)| part.about()).for_each(|line| app.console.note(&line));
    // As an answer: on a terminal without control sequences.
    Ok(app.console.print_answer(&format!("{}\n", documents.text().trim_end()))?)
}
