//! Commands after which the conversation may be read again: `/policy NAME`, `/system TEXT` and `/ctx TOKENS`. Until the
//! reading is done, the conversation stays as it is.

use anyhow::Result;
use longhand::heads::HeadProfile;
use longhand::policy::policies;
use longhand::reading::Reading;
use longhand::setup::{Context, HeadSource};
use longhand::{Chat, EngineError, Hint, Observer, Progress, Session, SessionOptions, SetupOptions, setup};
use terminal::prefill::PrefillArg;
use terminal::{format, values};

use crate::app::App;
use crate::args::session;
use crate::commands::chat::conversation::larger_context;
use crate::failure::{self, Failure};
use crate::session::{crash_save, speeds};

/// What `/policy` prints, in lines of at most `width` columns.
pub fn policy(session: &Session, width: usize) -> String {
    let SessionOptions { policy, context, types, prefill, .. } = session.options();
    let line = |label: &str, text: &str| format::labelled(&format!("{label:<9}"), text, width);
    let mut text = line("policy", &policy.to_string());
    for parameter in policy.entry().parameters() {
        let value = parameter.format_value(policy.value(parameter.name).unwrap_or_default());
        text += &line("", &format!("{}={value}: {}", parameter.name, parameter.description));
    }
    let budget = match policy.policy() {
        None => "none: every head keeps every row".to_owned(),
        Some(_) if policy.scope_options(session.engine().spec()).is_some() => {
            "each head's window follows from the model's weights".to_owned()
        }
        Some(rules) => {
            let (budget, slack) = (rules.budget(*context).min(*context), rules.slack(*context));
            let (budget, slack) = (format::count(budget), format::count(slack));
            format!("{budget} rows of a bounded head, and up to {slack} more until some are evicted")
        }
    };
    text += &line("budget", &budget);
    text += &line("types", &format!("{} keys, {} values", types.0.name(), types.1.name()));
    text += &line("prefill", PrefillArg::from(*prefill).name());
    let names: Vec<&str> = policies().map(|entry| entry.name).collect();
    let change = format!("/policy NAME reads the conversation again under another one: {}", names.join(", "));
    text + &format::labelled("", &change, width)
}

/// Does `/policy NAME:parameters BUDGET`: reads the conversation again under another policy. The types and the prefill
/// stay.
///
/// # Errors
/// Where the policy or the budget cannot be used, there is no memory for the old and the new KV cache at once, or the
/// reading is interrupted. Nothing has changed then.
pub fn change_policy(app: &App, chat: &mut Chat, given: &SetupOptions, text: &str) -> Result<Reading> {
    let (name, budget) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let policy = session::policy(name)?;
    let budget = match budget.trim() {
        "" => None,
        budget => Some(values::budget(budget)?),
    };
    let (engine, old) = (chat.session().engine().clone(), chat.session().options().clone());
    let spec = engine.spec();
    let has_what_is_needed =
        |profile: &HeadProfile| old.policy.scope_options(spec).is_none() && policy.gap_in(profile).is_none();
    let heads = match &old.profile {
        _ if !policy.uses_profile() || policy.scope_options(spec).is_some() => HeadSource::Auto,
        Some(profile) if has_what_is_needed(profile) => HeadSource::Profile(profile.clone()),
        _ => given.heads.clone(),
    };
    let options = SetupOptions {
        context: Context::Tokens(old.context),
        policy: Some(policy),
        budget,
        heads,
        k_type: Some(old.types.0),
        v_type: Some(old.types.1),
        prefill: Some(old.prefill),
        int8: old.int8,
        chunk: Some(old.chunk),
        ..given.clone()
    };
    let tokens = chat.tokens();
    let prepare = || setup::prepare_instead_of(chat.session(), &options, tokens, &mut app.reporter());
    let (new, _) = app.interrupt.computing(prepare)?;
    if new.policy == old.policy && new.profile == old.profile {
        let hint = "/policy shows its parameters";
        return Err(Failure::usage(format!("the policy is {} already", new.policy), hint).into());
    }
    let session = app.interrupt.new_session(&engine, new)?;
    announce(app, &session, tokens);
    read(app, |progress| chat.move_to(session, progress))
}

/// What `/system` prints.
pub fn system(chat: &Chat) -> String {
    match chat.system() {
        Some(text) => format!("{}\n", text.trim_end()),
        None => "there is no system message; /system TEXT sets one\n".to_owned(),
    }
}

/// Does `/system TEXT`. A text of `""` removes the system message.
///
/// # Errors
/// As for [`change_policy`], and where the chat template refuses a system message.
pub fn change_system(app: &App, chat: &mut Chat, text: &str) -> Result<Reading> {
    let text = Some(text).filter(|text| *text != "\"\"");
    announce(app, chat.session(), chat.tokens());
    let reading = read(app, |progress| chat.set_system(text, progress))?;
    crash_save::set_messages(chat.messages());
    Ok(reading)
}

/// Does `/ctx TOKENS`. What was read is kept, unless heads keep shares of the context.
///
/// # Errors
/// As for [`change_policy`], and where the conversation has more tokens.
pub fn change_context(app: &App, chat: &mut Chat, context: &str) -> Result<Reading> {
    if context.is_empty() {
        return Err(Failure::usage("no number of tokens is given", "for example: /ctx 32k").into());
    }
    let context = values::tokens(context)?;
    if chat.rereads_in(context) {
        announce(app, chat.session(), chat.tokens());
    }
    read(app, |progress| chat.set_context(context, progress))
}

/// Says how long the reading of so many tokens takes, where that is known.
fn announce(app: &App, session: &Session, tokens: usize) {
    if tokens == 0 {
        return;
    }
    let time = speeds::estimate(session, 0, tokens).or_else(|| speeds::guess(session, 0, tokens));
    let time = time.map_or_else(String::new, |time| format!(", about {}", format::duration(time)));
    let tokens = format::count(tokens);
    app.console
        .note(&format!("reading the conversation again: {tokens} tokens{time}; Ctrl-C leaves it as it is"));
}

/// Reads with a progress bar. Ctrl-C stops it.
fn read(
    app: &App,
    work: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<Reading, EngineError>,
) -> Result<Reading> {
    let mut reporter = app.reporter();
    Ok(app.interrupt.computing(|| work(&mut |progress| reporter.progress(progress)))?)
}

/// What is said of an error after which the conversation is as it was. Hints about context and memory name commands: it
/// is too late for flags.
pub fn report(error: anyhow::Error) -> String {
    let known = error.downcast_ref::<EngineError>();
    if known.is_some_and(EngineError::is_interrupt) {
        return "interrupted: nothing has changed".to_owned();
    }
    let hint = match known.and_then(EngineError::hint) {
        Some(Hint::LargerContext { tokens }) => {
            format!("/ctx {} has room for it and for more questions", larger_context(tokens))
        }
        Some(Hint::LessMemory { .. } | Hint::SmallerSession { .. }) => {
            "use a smaller context (/ctx) or a policy that keeps less (/policy)".to_owned()
        }
        _ => return failure::report(&error).text.trim_end().to_owned(),
    };
    format!("error: {}\nhint: {hint}", failure::message(error.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_commands_and_leave_room_for_a_question() {
        let full = EngineError::ContextFull { needed: 42, context: 10 };
        assert_eq!(
            report(full.into()),
            "error: 42 tokens do not fit a context of 10\nhint: /ctx 5000 has room for it and for more questions"
        );
        let memory = EngineError::Memory(longhand::error::Shortage {
            context: 1 << 30,
            needed: 2 << 30,
            free: 1 << 30,
            on_device: false,
            bound: None,
            reserved: 0,
        });
        let memory = report(memory.into());
        assert!(memory.starts_with("error: a context of 1,073,741,824 tokens needs 2.00 GiB"), "{memory}");
        assert!(memory.contains("(/ctx)") && !memory.contains(" -"), "{memory}");
        let interrupt = EngineError::from(ggml::Error::Interrupted);
        assert_eq!(report(interrupt.into()), "interrupted: nothing has changed");
    }
}
