//! `POST /v1/responses/compact`: a summary takes the place of a long conversation. The model writes it. What the summary leaves
//! out is lost to what follows; the client still has it.

use std::sync::Arc;

use axum::extract::{Request, State};
use longhand::Message;
use longhand::generation::{GenerateOptions, SamplerOptions};
use serde_json::{Value, json};

use super::response::usage;
use super::{input, refuse_previous};
use crate::api::fields::Fields;
use crate::api::openai::HARMLESS;
use crate::api::submit::{self, Conversation};
use crate::api::whole::{Whole, WholeAnswer, new_id, now};
use crate::api::{Answered, documents, tools};
use crate::http::error::ApiError;
use crate::http::{Shared, json_response};
use crate::service::Wanted;

/// What the model is asked for.
const REQUEST: &str = "Write a summary of all messages above. Keep what the user wants, what was decided and found, all names, \
    numbers, files and code that are still needed, and what is left to do. Write only the summary.";
/// What our own summaries begin with. The specification has them encrypted; nothing here needs to be.
const MARK: &str = "longhand summary: ";
/// Longer ones are no summaries.
const MAX_TOKENS: usize = 4096;
/// There must be room for so many.
const MIN_TOKENS: usize = 256;
/// Fields of requests for responses that do not change a summary.
const HARMLESS_HERE: [&str; 9] = [
    "client_metadata",
    "include",
    "max_tool_calls",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "tool_choice",
    "tools",
    "truncation",
];

pub(in crate::api) async fn compact(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let _: String = fields.need("model")?;
    refuse_previous(&mut fields)?;
    let instructions: Option<String> = fields.take("instructions")?;
    let mut messages = Vec::new();
    input::read(&mut fields, &mut messages)?;
    let documents = documents::of_request(service, &mut fields).await?;
    fields.end(&[&HARMLESS[..], &HARMLESS_HERE].concat())?;
    // Rules stay.
    let rules: Vec<Value> = messages.iter().filter(|message| message.role == "system").map(rule).collect();
    messages.push(Message::user(REQUEST));
    let conversation = Conversation {
        messages: input::with_instructions(instructions.as_ref(), &messages),
        documents,
        thinks: Some(false),
        tools: tools::Wanted::default(),
        sources: false,
    };
    let text = submit::render(service, conversation).await?;
    let prompt = text.tokens.len();
    let room = service.context() - prompt;
    if room < MIN_TOKENS {
        let message = format!(
            "the conversation leaves room for {room} tokens, and a summary needs {MIN_TOKENS}: summarize it sooner, or start the \
             server with a larger context (-c)"
        );
        return Err(ApiError { code: Some("context_length_exceeded"), ..ApiError::bad(message) });
    }
    let wanted = Wanted {
        answers: 1,
        sampling: SamplerOptions::greedy(),
        options: GenerateOptions { limit: MAX_TOKENS, ..GenerateOptions::default() },
        scores: false,
    };
    let whole = Whole::collect(submit::submit(service, text, wanted)?).await?;
    let Some(WholeAnswer { text, result, .. }) = whole.answers.first() else { return Err(ApiError::lost()) };
    let text = text.trim();
    if text.is_empty() || !result.is_whole() {
        let message = match text {
            "" => "the model has written an empty summary".to_owned(),
            _ => format!(
                "the summary did not come to its end within {} tokens: there is no room for more, or it goes in circles",
                result.tokens
            ),
        };
        return Err(ApiError::bad(message));
    }
    let summary = json!({
        "type": "compaction",
        "id": new_id("cmp_"),
        "encrypted_content": format!("{MARK}{text}"),
    });
    Ok(json_response(&json!({
        "id": new_id("resp_"),
        "object": "response.compaction",
        "created_at": now(),
        "output": rules.into_iter().chain([summary]).collect::<Value>(),
        "usage": usage(prompt, whole.cached, result.tokens, result.thinking),
    })))
}

/// A system message as an item.
fn rule(message: &Message) -> Value {
    json!({
        "type": "message",
        "id": new_id("msg_"),
        "status": "completed",
        "role": "system",
        "content": [{"type": "input_text", "text": message.content}],
    })
}

/// The messages that stand for what a summary has taken the place of.
pub(super) fn expand(mut fields: Fields) -> Result<[Message; 2], ApiError> {
    let content: String = fields.need("encrypted_content")?;
    let wrong = |what| {
        let place = fields.place_of("encrypted_content");
        ApiError::field(place.clone(), format!("{place} {what}"))
    };
    let summary = content.strip_prefix(MARK).ok_or_else(|| wrong("is not a summary of this server"))?;
    if summary.is_empty() {
        return Err(wrong("is an empty summary"));
    }
    let messages = [Message::user(REQUEST), Message::assistant(summary)];
    fields.end(&["created_by", "id", "status", "type"])?;
    Ok(messages)
}
