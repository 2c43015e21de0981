//! `longhand documents`: the documents that were read and are kept on the disk.

use anyhow::Result;
use clap::{Args, Subcommand};
use longhand::files::folders;
use longhand::saved::{CachedDocuments, DocumentCache};
use serde_json::{Value, json};
use terminal::console::visible;
use terminal::format;
use terminal::table::Table;

use crate::app::App;
use crate::args::disk;
use crate::commands::stored::ListArgs;
use crate::failure::Failure;

/// What is said where there is none.
const NONE_KEPT: &str = "no document that was read is kept";
/// What is shown in place of names: a server keeps long texts without documents, too.
const NO_NAME: &str = "(no name)";

/// List and remove the documents that were read and are kept on the disk.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DocumentsArgs {
    #[command(subcommand)]
    command: Option<DocumentsCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum DocumentsCommand {
    /// List them, the last one first; the same as `longhand documents` alone
    List(ListArgs),
    /// Remove documents. They are read again when somebody asks about them
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// Their names, with whatever model and policy they were read, or the beginnings of their ids. A name that different
    /// documents have is refused; their ids are shown then
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// Remove all of them
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

/// Runs the command.
pub fn run(app: &App, args: &DocumentsArgs) -> Result<()> {
    let folder = folders::cache().ok_or_else(|| {
        Failure::new(
            "there is no folder for documents that were read",
            "set the environment variable HOME or XDG_CACHE_HOME",
        )
    })?;
    let list = DocumentCache::new(&disk::documents_in(&folder), 0).list()?;
    match &args.command {
        None => print(app, &list, args.list.json),
        Some(DocumentsCommand::List(args)) => print(app, &list, args.json),
        Some(DocumentsCommand::Remove(args)) => {
            let chosen = match args.all {
                true => list.iter().collect(),
                false => {
                    let found = args.names.iter().map(|name| find(&list, name));
                    found.collect::<Result<Vec<_>, _>>()?.concat()
                }
            };
            remove(app, &chosen)
        }
    }
}

fn print(app: &App, list: &[CachedDocuments], json: bool) -> Result<()> {
    if json {
        return app.console.print_json(&list.iter().map(description).collect::<Vec<_>>());
    }
    if list.is_empty() {
        app.console.note(NONE_KEPT);
        return Ok(());
    }
    let mut table = Table::new(["id", "documents", "model", "policy", ">tokens", ">size", "read", "state"]);
    for documents in list {
        let size = format::file_size(documents.bytes);
        let read = format!("{} ago", format::age(format::since(documents.read)));
        // Escapes take more columns than what they stand for.
        let id = visible(&documents.id);
        table.row(match &documents.contents {
            Ok(contents) => [
                id,
                visible(&title(documents)),
                visible(&contents.model),
                visible(&contents.policy),
                format::count(contents.tokens),
                size,
                read,
                match contents.unfinished {
                    Some(share) => format!("{} read", format::whole_percent(share)),
                    None => "complete".to_owned(),
                },
            ],
            Err(_) => [id, "".into(), "".into(), "".into(), "".into(), size, read, "damaged".into()],
        });
    }
    Ok(app.console.print_report(&table.fitted(app.console.width()))?)
}

fn description(documents: &CachedDocuments) -> Value {
    let mut value = match &documents.contents {
        Ok(contents) => json!({
            "names": contents.names,
            "model": contents.model,
            "policy": contents.policy,
            "type_k": contents.types.0.name(),
            "type_v": contents.types.1.name(),
            "tokens": contents.tokens,
            "complete": contents.unfinished.is_none(),
            "share": contents.unfinished.unwrap_or(1.0),
        }),
        Err(error) => json!({ "error": error }),
    };
    value["id"] = json!(documents.id);
    value["path"] = json!(documents.path);
    value["bytes"] = json!(documents.bytes);
    value["age_seconds"] = json!(format::since(documents.read).as_secs());
    value["unused_seconds"] = json!(format::since(documents.used).as_secs());
    value
}

/// All readings of the documents of this name, which may have been read with several models and policies; otherwise those
/// whose id begins so.
///
/// # Errors
/// There is none, or the name or the beginning of an id may mean different ones. Names are kept without folders.
fn find<'a>(list: &'a [CachedDocuments], name: &str) -> Result<Vec<&'a CachedDocuments>, Failure> {
    const SHOW: &str = "`longhand documents` shows them";
    let is_named = |documents: &&CachedDocuments| {
        title(documents) == name
            || documents.contents.as_ref().is_ok_and(|contents| contents.names.iter().any(|of| of == name))
    };
    let named: Vec<&CachedDocuments> = list.iter().filter(is_named).collect();
    if !named.is_empty() {
        if are_alike(&named) {
            return Ok(named);
        }
        let of_one = |documents: &&CachedDocuments| {
            format!("{} ({}, {})", documents.id, title(documents), format::file_size(documents.bytes))
        };
        let list: Vec<String> = named.iter().map(of_one).collect();
        return Err(Failure::new(
            format!("{name} is the name of different documents: {}", list.join("; ")),
            format!("give the beginnings of ids; {SHOW}"),
        ));
    }
    let has_id = |documents: &&CachedDocuments| !name.is_empty() && documents.id.starts_with(name);
    let found: Vec<&CachedDocuments> = list.iter().filter(has_id).collect();
    match &found[..] {
        [_] => Ok(found),
        [] => Err(Failure::new(format!("no document named {name} is kept"), SHOW)),
        _ => {
            let ids: Vec<&str> = found.iter().map(|documents| documents.id.as_str()).collect();
            let message = format!("several ids begin with {name}: {}", ids.join(", "));
            Err(Failure::new(message, format!("give more of one; {SHOW}")))
        }
    }
}

/// Whether these may be readings of the same documents: all have the same names, and with one model as many tokens.
fn are_alike(found: &[&CachedDocuments]) -> bool {
    let contents: Vec<_> = found.iter().filter_map(|documents| documents.contents.as_ref().ok()).collect();
    contents.iter().enumerate().all(|(at, one)| {
        contents[..at]
            .iter()
            .all(|other| one.names == other.names && (one.model != other.model || one.tokens == other.tokens))
    })
}

fn remove(app: &App, chosen: &[&CachedDocuments]) -> Result<()> {
    if chosen.is_empty() {
        app.console.note(NONE_KEPT);
    }
    for documents in chosen {
        documents.remove()?;
        let (title, size) = (title(documents), format::file_size(documents.bytes));
        app.console.note(&format!("removed {title} ({}, {size})", documents.id));
    }
    Ok(())
}

fn title(documents: &CachedDocuments) -> String {
    match &documents.contents {
        Ok(contents) if contents.names.is_empty() => NO_NAME.to_owned(),
        Ok(contents) => contents.names.join(", "),
        Err(_) => "a damaged file".to_owned(),
    }
}
