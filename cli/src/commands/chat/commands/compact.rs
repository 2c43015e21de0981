//! `/compact`: the model sums up the conversation, and the summary takes the place of all questions and answers.

use anyhow::Result;
use longhand::generation::{Generated, Stop};
use longhand::reading::Reading;
use longhand::saved::DocumentCache;
use longhand::text::split_thinking;
use longhand::{Chat, Observer};
use terminal::format;

use crate::app::App;
use crate::failure::Failure;
use crate::session::crash_save;

/// What the model is asked for its summary.
pub const REQUEST: &str = "Summarise our conversation so far in a few sentences: what I asked and what you answered, with \
                           every name, number and decision in it. Leave out what only the documents say. Write only the \
                           summary.";
/// The question whose answer the summary becomes.
const QUESTION: &str = "What have we talked about so far?";
/// Most tokens of a summary, and the share of the tokens of questions and answers.
const MAX_TOKENS: usize = 512;
const MAX_SHARE: usize = 2;
/// A summary of fewer tokens says little.
const MIN_TOKENS: usize = 48;
/// Fewer questions are not worth it.
const MIN_QUESTIONS: usize = 2;

/// Whether the last turn is a summary. Another answer to its question would be nonsense.
pub fn ends_with_summary(chat: &Chat) -> bool {
    matches!(&chat.conversation()[..], [(QUESTION, _)])
}

/// The first question that was asked; not the one that a summary answers.
pub fn first_question(chat: &Chat) -> Option<String> {
    let mut questions = chat.conversation().into_iter().map(|(question, _)| question);
    questions.find(|question| *question != QUESTION).map(str::to_owned)
}

/// How many tokens a summary may have.
///
/// # Errors
/// Where there is little to sum up, or no room for a summary.
pub fn limit(chat: &Chat) -> Result<usize> {
    let questions = chat.conversation().len();
    if questions < MIN_QUESTIONS || !chat.has_answers() {
        let count = match (questions, ends_with_summary(chat)) {
            (_, true) => "only a summary so far".to_owned(),
            (0, _) => "no question was asked yet".to_owned(),
            _ => "only one question was asked".to_owned(),
        };
        let hint = "/clear starts a new conversation about the same documents";
        return Err(Failure::new(format!("there is nothing to compact: {count}"), hint).into());
    }
    let context = chat.session().options().context;
    let format = chat.session().engine().model().chat_format()?;
    // With what the chat template writes around it.
    let request = format.count(REQUEST)? + 32;
    let room = context.saturating_sub(chat.tokens() + request);
    if room < MIN_TOKENS {
        let larger = (context + request + MAX_TOKENS).next_multiple_of(1000);
        let message =
            format!("the context has no room for a summary: {} tokens are left", format::count(room));
        return Err(
            Failure::new(message, format!("/ctx {larger} has room for one; or /undo, or /clear")).into()
        );
    }
    let texts = chat.conversation().into_iter().flat_map(|(question, answer)| [Some(question), answer]);
    let tokens: Result<Vec<usize>, _> = texts.flatten().map(|text| format.count(text)).collect();
    let most = (tokens?.into_iter().sum::<usize>() / MAX_SHARE).clamp(MIN_TOKENS, MAX_TOKENS);
    Ok(room.min(most))
}

/// The summary in an answer of the model.
///
/// # Errors
/// Where it is empty.
pub fn summary(answer: &Generated) -> Result<String, Failure> {
    let text = split_thinking(&answer.text).1.trim();
    match text {
        "" => Err(Failure::new("the model wrote no summary", "nothing has changed; /compact asks it again")),
        text => Ok(text.to_owned()),
    }
}

/// Puts the summary in the place of the conversation. Returns what that has cost, and what to say.
///
/// # Errors
/// Where the summary saves nothing, or reading fails or is interrupted. The conversation is as it was then.
pub fn replace(
    app: &App,
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
    answer: &Generated,
) -> Result<(Reading, String)> {
    let summary = summary(answer)?;
    let (questions, before) = (chat.conversation().len(), chat.tokens());
    let mut reporter = app.reporter();
    let mut on_progress = |progress| reporter.progress(progress);
    let reading = app.interrupt.computing(|| chat.compact(QUESTION, &summary, cache, &mut on_progress))?;
    drop(reporter);
    if chat.tokens() >= before {
        chat.undo();
        let message = "the summary is as long as the conversation";
        return Err(Failure::new(message, "nothing has changed; ask more questions first").into());
    }
    crash_save::set_messages(chat.messages());
    let cut_off = match answer.stop {
        Stop::Length | Stop::Context => " It was cut off at its end.",
        _ => "",
    };
    let done = format!(
        "{questions} questions and their answers are this summary now: {} tokens became {}.{cut_off} /undo brings them \
         back",
        format::count(before),
        format::count(chat.tokens())
    );
    Ok((reading, done))
}
