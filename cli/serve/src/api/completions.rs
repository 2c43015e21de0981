//! `POST /v1/completions`, OpenAI's: a text is continued, without a chat template.

use std::sync::Arc;

use axum::extract::{Request, State};
use longhand::generation::{GenerateOptions, LogProb, TokenLogProbs};
use longhand::text::Split;
use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::openai::{self, Form, HARMLESS, HARMLESS_HERE, Streaming};
use super::whole::WholeAnswer;
use super::{Answered, submit};
use crate::http::Shared;
use crate::http::error::ApiError;
use crate::service::{Service, Text, Wanted};

pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let prompt = Prompt::of(fields.need("prompt")?)?;
    let streaming = Streaming::of(&mut fields)?;
    let wanted = Wanted::of(&mut fields)?.with_openais(&mut fields, &["n_predict", "max_tokens"])?;
    let (echoes, logprobs) = (fields.take("echo")?.unwrap_or(false), logprobs(&mut fields)?);
    let scores = echoes && logprobs.is_some();
    if scores && wanted.answers > 1 {
        return Err(ApiError::field("n", "n: one answer at most goes with log-probabilities of the prompt"));
    }
    fields.end(&[&HARMLESS[..], &HARMLESS_HERE].concat())?;
    let text = match &prompt {
        Prompt::Text(text) => submit::encode(service, text.clone()).await?,
        Prompt::Tokens(tokens) => Text::of_tokens(service, tokens.clone())?,
    };
    let Some(first) = text.tokens.first().copied() else {
        return Err(ApiError::field("prompt", "prompt is empty: this model begins with no text of its own"));
    };
    let echo = || Echo { text: prompt.written(service), first: scores.then_some(first) };
    let form = Completion { service: service.clone(), echo: echoes.then(echo) };
    let options = GenerateOptions { logprobs, ..wanted.options };
    openai::respond(&shared, service, form, text, Wanted { options, scores, ..wanted }, streaming).await
}

/// How many of the most likely tokens are told beside each token, if anything is.
fn logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    /// OpenAI's limit here.
    const MOST: i64 = 5;
    match fields.get("logprobs") {
        // As in chat.
        Some(Value::Bool(false)) => Ok(None),
        _ => openai::top_logprobs(fields, "logprobs", MOST),
    }
}

/// A text that is to go on.
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

impl Prompt {
    /// A text or its tokens, perhaps in a list of one.
    fn of(mut value: Value) -> Result<Prompt, ApiError> {
        if let Value::Array(several) = &mut value
            && let [Value::String(_) | Value::Array(_)] = &several[..]
        {
            value = several.remove(0);
        }
        let token = |value: &Value| value.as_u64().and_then(|token| token.try_into().ok());
        let prompt = match value {
            Value::String(text) => Some(Prompt::Text(text)),
            Value::Array(tokens) => tokens.iter().map(token).collect::<Option<_>>().map(Prompt::Tokens),
            _ => None,
        };
        prompt.ok_or_else(|| {
            let message = "prompt must be one text, or a list of tokens; several texts are not supported";
            ApiError::field("prompt", message)
        })
    }

    /// The text.
    fn written(self, service: &Service) -> String {
        let tokens = match self {
            Prompt::Text(text) => return text,
            Prompt::Tokens(tokens) => tokens,
        };
        String::from_utf8_lossy(&service.format().tokenizer().decode(&tokens, true)).into_owned()
    }
}

/// Texts that go on.
struct Completion {
    service: Arc<Service>,
    echo: Option<Echo>,
}

/// The prompt that answers begin with.
struct Echo {
    text: String,
    /// The first of its tokens, which has no log-probability, if those of the others are wanted.
    first: Option<u32>,
}

impl Completion {
    /// What a token writes. Bytes that are no whole characters have a form of their own.
    fn name(&self, token: u32) -> String {
        let bytes = self.service.format().tokenizer().written_bytes(token).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                format!("bytes:{}", bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>())
            }
        }
    }

    /// Tokens and how likely the model found them, the first perhaps without that; `null` where there are none.
    fn logprobs<'a>(&self, first: Option<u32>, tokens: impl Iterator<Item = &'a TokenLogProbs>) -> Value {
        // A probability of 0, as OpenAI writes it: JSON has no infinity.
        let logprob = |one: &LogProb| one.logprob.max(-9999.0);
        let (mut names, mut own, mut top) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(first) = first {
            names.push(self.name(first));
            own.push(Value::Null);
            top.push(Value::Null);
        }
        for token in tokens {
            names.push(self.name(token.token.token));
            own.push(logprob(&token.token).into());
            let mut likely = Map::new();
            // The token itself is among them. Of tokens that write the same, the most likely one counts.
            for one in token.top.iter().chain([&token.token]) {
                likely.entry(self.name(one.token)).or_insert_with(|| logprob(one).into());
            }
            top.push(likely.into());
        }
        match names.is_empty() {
            true => Value::Null,
            false => json!({"tokens": names, "token_logprobs": own, "top_logprobs": top}),
        }
    }

    /// The prompt, in front of an answer.
    fn echo(&self) -> (&str, Option<u32>) {
        self.echo.as_ref().map_or(("", None), |echo| (&echo.text, echo.first))
    }
}

impl Form for Completion {
    const OBJECTS: (&str, &str) = ("text_completion", "text_completion");
    const ID: &str = "cmpl-";

    fn whole(&self, answer: &WholeAnswer, scores: &[TokenLogProbs]) -> Value {
        let (prompt, first) = self.echo();
        let tokens = scores.iter().chain(&answer.logprobs).chain(&answer.result.end);
        json!({"text": format!("{prompt}{}", answer.text), "logprobs": self.logprobs(first, tokens)})
    }

    fn piece(&self, split: Split, logprobs: Option<&TokenLogProbs>) -> Value {
        json!({"text": split.answer, "logprobs": self.logprobs(None, logprobs.into_iter())})
    }

    fn begin(&self) -> Option<Value> {
        let echo = self.echo.as_ref().filter(|echo| echo.first.is_none())?;
        Some(json!({"text": echo.text, "logprobs": null}))
    }

    fn scored(&self, scores: &[TokenLogProbs]) -> Option<Value> {
        let (prompt, first) = self.echo();
        Some(json!({"text": prompt, "logprobs": self.logprobs(first, scores.iter())}))
    }

    fn end(&self, token: Option<&TokenLogProbs>) -> Value {
        self.piece(Split::default(), token)
    }
}
