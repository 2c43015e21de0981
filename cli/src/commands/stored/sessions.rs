//! `longhand sessions`: the conversations that `chat` has kept, and session files in general.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use longhand::saved::{ChatFile, SavedChat};
use serde::Serialize;
use serde_json::{Value, json};
use terminal::console::visible;
use terminal::format;
use terminal::table::Table;

use crate::app::App;
use crate::commands::stored::ListArgs;
use crate::failure::{self, Failure};
use crate::session::kept::{KeptChat, KeptChats};
use crate::session::sources::AnswerSources;
use crate::session::transcript::Transcript;

/// What is said where there is no conversation.
const NONE_KEPT: &str = "no conversation is kept yet";

/// List, show, search, verify, export, rename, copy and remove the conversations that `chat` has kept.
#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List the kept conversations, the last one first
    List(ListArgs),
    /// Show a conversation: its model, documents, size, questions and answers
    Show(OneArgs),
    /// Search the questions and answers of all kept conversations
    Search(SearchArgs),
    /// Check that conversations are complete and undamaged
    Verify(SomeArgs),
    /// Write a conversation to stdout as Markdown
    Export(OneArgs),
    /// Give a kept conversation another name
    Rename(RenameArgs),
    /// Copy a conversation, with its KV cache, to a new one that goes on separately
    Fork(ForkArgs),
    /// Remove conversations
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
struct OneArgs {
    /// Its name, or the beginning of it, or a session file [default: the last one]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SearchArgs {
    /// What a question or an answer must contain: all words, in any order, in capitals or small letters
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RenameArgs {
    /// Its name, or the beginning of it
    #[arg(value_name = "OLD")]
    old: String,
    /// The new name: letters, digits, hyphens, dots and underscores
    #[arg(value_name = "NEW")]
    new: String,
}

#[derive(Debug, Args)]
struct ForkArgs {
    /// Its name, or the beginning of it, or a session file
    #[arg(value_name = "NAME")]
    name: String,
    /// The name of the copy [default: the same with a number]
    #[arg(value_name = "NEW")]
    new: Option<String>,
}

#[derive(Debug, Args)]
struct SomeArgs {
    /// Their names, or session files [default: all kept conversations]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// Their names, or session files
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// Remove all kept conversations
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

/// Runs the command.
pub fn run(app: &App, args: &SessionsArgs) -> Result<()> {
    let kept = KeptChats::find().ok_or_else(|| {
        Failure::new(
            "there is no folder for kept conversations",
            "set the environment variable HOME or XDG_STATE_HOME",
        )
    })?;
    kept.check()?;
    match &args.command {
        SessionsCommand::List(args) => list(app, &kept, args.json),
        SessionsCommand::Search(args) => search(app, &kept, args),
        SessionsCommand::Rename(args) => {
            kept.rename(&kept.file(Some(&args.old))?, &args.new)?;
            app.console.note(&format!("renamed: longhand chat --resume {}", args.new));
            Ok(())
        }
        SessionsCommand::Fork(args) => {
            let name = kept.fork(&kept.file(Some(&args.name))?, args.new.as_deref())?;
            app.console.note(&format!("kept: longhand chat --resume {name}"));
            Ok(())
        }
        SessionsCommand::Show(args) => {
            show(app, &SavedChat::open(&kept.file(args.name.as_deref())?)?, args.json)
        }
        SessionsCommand::Verify(args) => verify(app, &files(&kept, &args.names)?),
        SessionsCommand::Export(args) => {
            export(app, &SavedChat::open(&kept.file(args.name.as_deref())?)?, args.json)
        }
        SessionsCommand::Remove(args) => remove(app, &kept, &files(&kept, &args.names)?),
    }
}

/// The files of conversations; of all kept ones if none is named.
fn files(kept: &KeptChats, names: &[String]) -> Result<Vec<PathBuf>, Failure> {
    match names {
        [] => Ok(kept.list().into_iter().map(|kept| kept.path).collect()),
        names => names.iter().map(|name| kept.file(Some(name))).collect(),
    }
}

fn list(app: &App, kept: &KeptChats, json: bool) -> Result<()> {
    let list: Vec<(KeptChat, _)> = kept
        .list()
        .into_iter()
        .map(|kept| {
            let saved = SavedChat::open(&kept.path);
            (kept, saved)
        })
        .collect();
    if json {
        let entries: Vec<Value> = list
            .iter()
            .map(|(kept, saved)| {
                let mut entry = match saved {
                    Ok(saved) => description(saved),
                    Err(error) => json!({ "error": error.to_string() }),
                };
                entry["name"] = json!(kept.name);
                entry["path"] = json!(kept.path);
                entry["bytes"] = json!(kept.bytes);
                entry["age_seconds"] = json!(format::since(kept.modified).as_secs());
                entry
            })
            .collect();
        return app.console.print_json(&entries);
    }
    if list.is_empty() {
        app.console.note(NONE_KEPT);
        return Ok(());
    }
    let mut table = Table::new(["name", "model", "documents", ">questions", ">tokens", ">size", "last used"]);
    for (kept, saved) in &list {
        let size = format::file_size(kept.bytes);
        let used = format!("{} ago", format::age(format::since(kept.modified)));
        // Escapes take more columns than what they stand for.
        let name = visible(&kept.name);
        table.row(match saved {
            Ok(saved) => [
                name,
                visible(saved.model_name()),
                visible(&saved.document_names().join(", ")),
                saved.turns().len().to_string(),
                format::count(saved.tokens()),
                size,
                used,
            ],
            Err(_) => [name, "damaged".into(), "".into(), "".into(), "".into(), size, used],
        });
    }
    Ok(app.console.print_report(&table.fitted(app.console.width()))?)
}

/// Prints the lines of questions and answers that have the words, by conversation.
fn search(app: &App, kept: &KeptChats, args: &SearchArgs) -> Result<()> {
    let words: Vec<String> =
        args.words.iter().flat_map(|words| words.split_whitespace()).map(str::to_lowercase).collect();
    if words.is_empty() {
        return Err(Failure::usage("there is no word to search for", "give a word").into());
    }
    let (mut found, mut damaged) = (Vec::new(), 0);
    for kept in kept.list() {
        let Ok(saved) = SavedChat::open(&kept.path) else {
            damaged += 1;
            continue;
        };
        for (at, (question, answer)) in saved.turns().into_iter().enumerate() {
            for (role, text) in [("question", Some(question)), ("answer", answer)] {
                if let Some(line) = text.and_then(|text| matching_line(text, &words)) {
                    found.push(Match { name: kept.name.clone(), turn: at + 1, role, line: line.to_owned() });
                }
            }
        }
    }
    if damaged > 0 {
        app.console.note(&format!("note: {damaged} damaged conversations were not searched"));
    }
    if args.json {
        return app.console.print_json(&found);
    }
    if found.is_empty() {
        app.console.note(&format!("no kept conversation has {}", args.words.join(" ")));
        return Ok(());
    }
    let mut out = String::new();
    for of_one in found.chunk_by(|a, b| a.name == b.name) {
        out += &format!("{}\n", of_one[0].name);
        for Match { role, line, .. } in of_one {
            let mark = if *role == "question" { "> " } else { "" };
            out += &format!("    {mark}{line}\n");
        }
    }
    Ok(app.console.print_report(&out)?)
}

/// A question or an answer that was searched for.
#[derive(Serialize)]
struct Match {
    /// The name of the conversation.
    name: String,
    /// The number of the question, counted from 1.
    turn: usize,
    /// `question` or `answer`.
    role: &'static str,
    /// The line.
    line: String,
}

/// The line of a text that has most of the words, which are in small letters; `None` where the text lacks one of them.
fn matching_line<'a>(text: &'a str, words: &[String]) -> Option<&'a str> {
    let has = |text: &str| {
        let text = text.to_lowercase();
        words.iter().filter(|word| text.contains(word.as_str())).count()
    };
    let best = || text.lines().rev().max_by_key(|line| has(line)).map(str::trim);
    (has(text) == words.len()).then(best).flatten()
}

fn show(app: &App, saved: &SavedChat, json: bool) -> Result<()> {
    if json {
        return export(app, saved, true);
    }
    let options = saved.options();
    let cache = match saved.has_cache() {
        true => "saved",
        false if ChatFile::has_older_cache(saved) => {
            "saved some turns ago; the rest is read again when the chat goes on"
        }
        false => "not saved; the text is read again when the chat goes on",
    };
    app.console.print_report(&format!(
        "file       {}\nmodel      {}\ndocuments  {}\ntokens     {} of {}\npolicy     {}\nKV cache   {cache}\n",
        saved.path().display(),
        saved.model_name(),
        if saved.document_names().is_empty() { "none".into() } else { saved.document_names().join(", ") },
        format::count(saved.context_used()),
        format::count(options.context),
        options.policy,
    ))?;
    let mut out = String::new();
    for ((question, answer), model) in saved.turns().into_iter().zip(saved.answered_by()) {
        let model = model.map(|model| format!("({model})\n")).unwrap_or_default();
        let answer = answer.unwrap_or("(no answer)");
        out += &format!("\n> {}\n{model}{}\n", question.trim_end(), answer.trim_end());
    }
    Ok(app.console.print_answer(&out)?)
}

fn export(app: &App, saved: &SavedChat, json: bool) -> Result<()> {
    if json {
        let mut value = description(saved);
        let turns = saved.turns();
        value["system"] = json!(saved.system());
        value["turns"] = turns
            .iter()
            .enumerate()
            .map(|(turn, (question, answer))| {
                let sources = AnswerSources::of_saved_turn(saved, turn).map(|sources| sources.json());
                json!({ "question": question, "answer": answer, "sources": sources })
            })
            .collect();
        return app.console.print_json(&value);
    }
    Ok(app.console.print_answer(&Transcript::from(saved).markdown())?)
}

/// What is known of a conversation without its model.
fn description(saved: &SavedChat) -> Value {
    let options = saved.options();
    json!({
        "model": saved.model_name(),
        "documents": saved.document_names(),
        "questions": saved.turns().len(),
        "tokens": saved.tokens(),
        "context": options.context,
        "policy": options.policy.to_string(),
        "type_k": options.types.0.name(),
        "type_v": options.types.1.name(),
        "cache": saved.has_cache() || ChatFile::has_older_cache(saved),
    })
}

fn verify(app: &App, files: &[PathBuf]) -> Result<()> {
    if files.is_empty() {
        app.console.note(NONE_KEPT);
    }
    let mut damaged = 0;
    for path in files {
        let verified = SavedChat::open(path).and_then(|saved| saved.verify());
        match verified {
            Ok(()) => app.console.print_report(&format!("{}: complete\n", path.display()))?,
            Err(error) => {
                damaged += 1;
                app.console.note(failure::report(&error.into()).text.trim_end());
            }
        }
    }
    if damaged == 0 {
        return Ok(());
    }
    Err(Failure::new(
        format!("{damaged} of {} conversations are damaged", files.len()),
        "remove them with: longhand sessions remove NAME",
    )
    .into())
}

fn remove(app: &App, kept: &KeptChats, files: &[PathBuf]) -> Result<()> {
    for path in files {
        remove_one(kept, path)?;
        app.console.note(&format!("removed {}", path.display()));
    }
    Ok(())
}

/// Removes a conversation that nobody has open. A file that is no conversation is removed from among the kept ones
/// only.
fn remove_one(kept: &KeptChats, path: &Path) -> Result<()> {
    match ChatFile::open(path) {
        Ok((file, _)) => Ok(file.remove()?),
        Err(_) if kept.name(path).is_some() && SavedChat::open(path).is_err() => {
            let failed = |error| Failure::new(format!("{}: {error}", path.display()), "check the path");
            Ok(std::fs::remove_file(path).map_err(failed)?)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_with_most_of_the_words_is_found() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let text = "A boat.\n  The red Boat is old.\nÄpfel";
        for (sought, line) in [
            (&["boat"][..], Some("A boat.")),
            (&["boat", "old"], Some("The red Boat is old.")),
            (&["äpfel", "red", "boat"], Some("The red Boat is old.")),
            (&["boat", "new"], None),
        ] {
            assert_eq!(matching_line(text, &words(sought)), line, "{sought:?}");
        }
        assert_eq!(matching_line("", &words(&["a"])), None);
    }
}
