//! `POST /v1/completions`, OpenAI's: a text is continued, without a chat template.

use std::sync::Arc;

use axum::extract::{Request, State};
use longhand::TokenLogProbs;
use longhand::text::Split;
use serde_json::{Value, json};

use super::Answered;
use super::fields::Fields;
use super::openai::{self, Form, HARMLESS, HARMLESS_HERE, Streaming};
use super::submit;
use super::whole::WholeAnswer;
use crate::http::Shared;
use crate::http::error::ApiError;
use crate::service::{Service, Text, Wanted};

pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let prompt: Value = fields.need("prompt")?;
    let streaming = Streaming::of(&mut fields)?;
    let wanted = Wanted::of(&mut fields)?.with_openais(&mut fields, &["n_predict", "max_tokens"])?;
    for name in ["echo", "logprobs"] {
        if fields.get(name).is_some_and(|value| ![json!(false), json!(null), json!(0)].contains(value)) {
            let message = "log-probabilities of a prompt or a text are not returned here; \
                           /v1/chat/completions returns those of its answer, and texts can be scored by what they generate";
            return Err(ApiError::field(name, format!("{name} is not supported: {message}")));
        }
    }
    fields.end(&[&HARMLESS[..], &HARMLESS_HERE].concat())?;
    let text = match prompt {
        Value::String(text) => submit::encode(service, text).await?,
        Value::Array(mut several) => match &mut several[..] {
            [Value::String(text)] => submit::encode(service, std::mem::take(text)).await?,
            [Value::Array(tokens)] => of_tokens(service, tokens)?,
            tokens => of_tokens(service, tokens)?,
        },
        _ => return Err(wrong_prompt()),
    };
    if text.tokens.is_empty() {
        return Err(ApiError::field("prompt", "prompt is empty: this model begins with no text of its own"));
    }
    openai::respond(&shared, service, Completion, text, wanted, streaming).await
}

fn of_tokens(service: &Service, tokens: &[Value]) -> Result<Text, ApiError> {
    let token = |value: &Value| value.as_u64().and_then(|token| token.try_into().ok());
    let tokens: Option<_> = tokens.iter().map(token).collect();
    Text::of_tokens(service, tokens.ok_or_else(wrong_prompt)?)
}

fn wrong_prompt() -> ApiError {
    ApiError::field("prompt", "prompt must be one text, or a list of tokens; several texts are not supported")
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
