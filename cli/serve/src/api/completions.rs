//! `POST /v1/completions`, OpenAI's: a text is continued, without a chat template.

use std::sync::Arc;

use axum::extract::{Request, State};
use longhand::TokenLogProbs;
use longhand::text::Split;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Answered;
use super::fields::Fields;
use super::openai::{self, Form, HARMLESS, Streaming};
use super::submit::{self, Text, Wanted};
use super::whole::WholeAnswer;
use crate::http::Shared;
use crate::http::error::ApiError;

/// A text, or its tokens.
#[derive(Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
    /// A list of one.
    Texts([String; 1]),
}

pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let prompt = fields.need("prompt")?;
    let streaming = Streaming::of(&mut fields)?;
    let wanted = Wanted::of(&mut fields, &["n_predict", "max_tokens"])?;
    fields.end(HARMLESS)?;
    let text = match prompt {
        Prompt::Text(text) | Prompt::Texts([text]) => submit::encode(service, text).await?,
        Prompt::Tokens(tokens) => Text::of_tokens(service, tokens)?,
    };
    if text.tokens.is_empty() {
        return Err(ApiError::field("prompt", "prompt is empty: this model begins with no text of its own"));
    }
    openai::respond(&shared, service, Completion, text, wanted, streaming).await
}

/// Texts that go on.
struct Completion;

impl Form for Completion {
    const OBJECTS: (&str, &str) = ("text_completion", "text_completion");
    const ID: &str = "cmpl-";

    fn whole(&self, answer: &WholeAnswer) -> Value {
        json!({"text": answer.text, "logprobs": null})
    }

    fn piece(&self, split: Split, _: Option<&TokenLogProbs>) -> Value {
        json!({"text": split.answer, "logprobs": null})
    }
}
