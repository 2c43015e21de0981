//! `ask --each`: the questions are asked about each document on its own, in a session of its own. The weights stay
//! loaded as long as the next document fits the memory beside them as the largest one before did.

use std::sync::Arc;

use anyhow::{Error, Result};
use longhand::text::sanitize_for_terminal;
use longhand::{Engine, EngineError, Session, SetupOptions, setup};
use serde_json::{Value, json};

use crate::commands::ask::{Asked, Asking, CUT_OFF, cache_object, ended_by_signal};
use crate::failure::{self, Failure};
use crate::session::documents::Documents;

/// A model that was loaded for a document.
struct Loaded {
    engine: Arc<Engine>,
    /// Tokens of the longest session that it had room for, with the options as they were given.
    context: usize,
}

/// How many documents were asked about.
#[derive(Default)]
struct Count {
    answered: usize,
    failed: usize,
    /// Documents with an incomplete answer.
    cut_off: usize,
}

/// Asks about each document.
///
/// # Errors
/// No document is given, the user presses Ctrl-C, or a document could not be read or answered, which was printed.
pub fn run(asking: &Asking) -> Result<()> {
    if asking.args.files.is_empty() {
        return Err(Failure::usage(
            "--each is given, but no document",
            "for example: longhand ask --each 'reports/*.pdf' \"What does it cost?\"; - is stdin",
        )
        .into());
    }
    let app = asking.app;
    let mut count = Count::default();
    app.interrupt.end_in_order();
    let asked = app.interrupt.in_steps(|| ask_each(asking, &mut count));
    ended_by_signal(app, &asked)?;
    asked?;
    match count.failed {
        0 if count.cut_off > 0 && (asking.args.json || asking.constraint.is_some()) => {
            Err(Failure::silent(CUT_OFF).into())
        }
        0 => Ok(()),
        failed => {
            let total = count.answered + failed;
            Err(Failure::new(
                format!("{failed} of {total} documents could not be read or answered"),
                "the errors above say why",
            )
            .into())
        }
    }
}

fn ask_each(asking: &Asking, count: &mut Count) -> Result<()> {
    let app = asking.app;
    let mut loaded = None;
    let options = asking.args.documents.options()?;
    for path in &asking.args.files {
        let (documents, left_out) = Documents::each(path, &options);
        if let Some(left_out) = left_out {
            app.console.note(&format!("{}: {left_out}", path.display()));
        }
        for (name, document) in documents {
            if app.interrupt.is_pressed() {
                return Err(interrupted(count));
            }
            match document.and_then(|document| ask_about(asking, &name, &document, &mut loaded, count)) {
                Ok(()) => count.answered += 1,
                // The answers cannot be written.
                Err(error) if error.is::<std::io::Error>() => return Err(error),
                Err(_) if app.interrupt.is_pressed() => return Err(interrupted(count)),
                Err(error) => {
                    count.failed += 1;
                    report(asking, &name, &error)?;
                }
            }
        }
    }
    Ok(())
}

/// Asks about a document and prints its row.
fn ask_about(
    asking: &Asking,
    name: &str,
    document: &Documents,
    loaded: &mut Option<Loaded>,
    count: &mut Count,
) -> Result<()> {
    let (app, args) = (asking.app, asking.args);
    let mut start = || {
        let preamble = asking.preamble(document)?;
        asking.start(preamble, |options, prompt| session(asking, options, prompt, loaded))
    };
    let (mut chat, before) = start().map_err(|error| error.context(name.to_owned()))?;
    let shows = !args.json && app.console.stdout_terminal();
    if shows {
        let gap = if count.answered > 0 { "\n" } else { "" };
        let heading = app.console.paint(32, &sanitize_for_terminal(name));
        app.console.print(&format!("{gap}{heading}\n"))?;
    }
    let mut asked = Asked { collects: !shows, ..asking.asked() };
    let answered = asked.ask_all(app, &mut chat, &asking.questions);
    answered.map_err(|error| error.context(name.to_owned()))?;
    let answers = std::mem::take(&mut asked.collected);
    count.cut_off += usize::from(asked.is_cut_off);
    asked.end(app, &chat)?;
    if args.json {
        let mut object = json!({ "document": name });
        merge(&mut object, before);
        merge(&mut object, json!({ "answers": answers }));
        merge(&mut object, cache_object(&chat));
        app.console.print_json_text(&format!("{object}\n"))
    } else if shows {
        Ok(())
    } else {
        let answers = answers.iter().map(|answer| answer["answer"].as_str().unwrap_or_default());
        let cells: Vec<String> = [name].into_iter().chain(answers).map(one_line).collect();
        Ok(app.console.print_answer(&format!("{}\n", cells.join("\t")))?)
    }
}

/// A session for a first prompt of `prompt` tokens. The model is loaded again only where it may not fit beside it.
fn session(
    asking: &Asking,
    options: &SetupOptions,
    prompt: usize,
    loaded: &mut Option<Loaded>,
) -> Result<Session> {
    let app = asking.app;
    let context = options.context.tokens(prompt, asking.model.spec().n_ctx_train);
    if let Some(Loaded { engine, .. }) = loaded.as_ref().filter(|loaded| context <= loaded.context) {
        let prepare = || setup::prepare_session(engine, options, context, prompt, &mut app.reporter());
        match app.interrupt.computing(prepare) {
            Ok((prepared, _)) => return Ok(app.interrupt.new_session(engine, prepared)?),
            Err(EngineError::Memory { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Before the next one is loaded.
    *loaded = None;
    let session = app.start_within_memory(&asking.model, options, prompt)?;
    let (wanted, made) = (options.session(context), session.options());
    let is_as_wanted = wanted.types == made.types
        && wanted.prefill == made.prefill
        // A budget without a policy chooses one for each document.
        && (options.policy.is_some() || options.budget.is_none() && made.policy == wanted.policy);
    if is_as_wanted {
        *loaded = Some(Loaded { engine: session.engine().clone(), context });
    }
    Ok(session)
}

/// Says why a document has no answer; with --json also on stdout.
fn report(asking: &Asking, name: &str, error: &Error) -> Result<()> {
    let console = asking.app.console;
    let text = failure::report(error).text;
    console.note(text.trim_end());
    if !asking.args.json {
        return Ok(());
    }
    let mut object = json!({ "document": name });
    for line in text.lines() {
        if let Some((key @ ("error" | "hint"), what)) = line.split_once(": ") {
            object[key] = what.into();
        }
    }
    console.print_json_text(&format!("{object}\n"))
}

fn interrupted(count: &Count) -> Error {
    let Count { answered, failed, .. } = count;
    let failed = if *failed > 0 { format!(", {failed} could not be") } else { String::new() };
    Failure::interrupted_with(
        format!("interrupted; {answered} documents were answered{failed}"),
        "what was printed is complete; ask about the other documents in another run",
    )
    .into()
}

/// Adds the fields of an object to another one.
fn merge(object: &mut Value, more: Value) {
    if let (Some(fields), Value::Object(more)) = (object.as_object_mut(), more) {
        fields.extend(more);
    }
}

/// A text as a cell of a row: its lines and tabs become spaces. What has none, such as JSON on one line, stays as it is.
fn one_line(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.trim().to_owned();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
