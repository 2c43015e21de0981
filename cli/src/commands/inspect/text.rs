//! `longhand text`: documents as a model reads them. What a command answers from can be looked at before it is asked.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use longhand::outline;
use serde_json::{Value, json};

use crate::app::App;
use crate::args::documents::DocumentArgs;
use crate::failure::Failure;
use crate::session::documents::{Attachment, Documents};

/// Print documents as a model reads them
///
/// Notes on stderr say what was left out, and what could not be read.
#[derive(Debug, Args)]
pub struct TextArgs {
    /// Documents: files (text, HTML, PDF, EPUB, office), pages of one (book.pdf:10-40), https addresses, folders, or patterns such
    /// as 'src/**/*.rs'. - is stdin
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a JSON array with an object for each FILE: name, count, notes, text, and parts with document, page, section,
    /// start and end (bytes of the text)
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
        let parts = documents.outline().parts(documents.text());
        let objects: Vec<Value> =
            documents.attachments().map(|(attachment, text)| object(&parts, attachment, text)).collect();
        return app.console.print_json(&objects);
    }
    documents
        .attachments()
        .filter_map(|(attachment, _)| attachment.about())
        .for_each(|line| app.console.note(&line));
    // As an answer: on a terminal without control sequences.
    Ok(app.console.print_answer(&format!("{}\n", documents.text().trim_end()))?)
}

/// What a FILE has given, with its parts: offsets are bytes of its text.
fn object(parts: &[outline::OutlinePart], attachment: &Attachment, text: &str) -> Value {
    let begin = attachment.start();
    let parts = parts.iter().filter_map(|inner| {
        let start = inner.range.start.max(begin) - begin;
        let end = inner.range.end.min(begin + text.len()).checked_sub(begin)?;
        let location = inner.location;
        (start < end).then(|| {
            json!({
                "document": location.document,
                "page": location.page,
                "section": location.section,
                "start": start,
                "end": end,
            })
        })
    });
    let parts: Vec<Value> = parts.collect();
    json!({ "name": attachment.name, "count": attachment.count, "notes": attachment.notes, "parts": parts, "text": text })
}
