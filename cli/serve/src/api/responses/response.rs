//! What a response looks like at a moment, and the items of its output.

use longhand::generation::SamplerOptions;
use longhand::tools::ToolCall;
use serde_json::{Map, Value, json};

use crate::api::tools;
use crate::api::whole::{Whole, now, sources, with};
use crate::service::Answer;

/// What a response is about.
pub(in crate::api) struct Head {
    pub(super) id: String,
    /// Of the message, and of what the model has thought.
    pub(super) item: String,
    pub(super) thinking: String,
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) prompt: usize,
    pub(super) instructions: Option<String>,
    pub(super) limit: Option<usize>,
    /// As it was asked for.
    pub(super) shape: Value,
    pub(super) tools: Value,
    pub(super) choice: Value,
    /// Whether several functions may be called at once.
    pub(super) parallel: bool,
    pub(super) sampling: SamplerOptions,
    /// Fields of the request that cannot change an answer.
    pub(super) repeated: Map<String, Value>,
    /// The response that this one continues.
    pub(super) previous: Option<String>,
}

impl Head {
    #[cfg(test)]
    pub(in crate::api) fn of_test() -> Head {
        Head {
            id: "resp_1".to_owned(),
            item: "msg_1".to_owned(),
            thinking: "rs_1".to_owned(),
            created: now(),
            model: "needle".to_owned(),
            prompt: 25,
            instructions: None,
            limit: None,
            shape: json!({"type": "text"}),
            tools: json!([]),
            choice: "auto".into(),
            parallel: true,
            sampling: SamplerOptions::greedy(),
            repeated: Map::new(),
            previous: None,
        }
    }

    /// A response at a moment.
    pub(super) fn response(&self, status: &str, output: Value) -> Value {
        let SamplerOptions { temperature, top_p, presence_penalty, frequency_penalty, .. } = &self.sampling;
        let response = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": null,
            "status": status,
            "incomplete_details": null,
            "model": self.model,
            "previous_response_id": self.previous,
            "instructions": self.instructions,
            "output": output,
            "error": null,
            "tools": self.tools,
            "tool_choice": self.choice,
            "truncation": "disabled",
            "parallel_tool_calls": self.parallel,
            "text": {"format": self.shape},
            "top_p": top_p,
            "presence_penalty": presence_penalty,
            "frequency_penalty": frequency_penalty,
            "top_logprobs": 0,
            "temperature": temperature,
            "reasoning": {"effort": null, "summary": null},
            "usage": null,
            "max_output_tokens": self.limit,
            "max_tool_calls": null,
            "store": false,
            "background": false,
            "service_tier": "default",
            "metadata": {},
            "safety_identifier": null,
            "prompt_cache_key": null,
        });
        with(response, Value::Object(self.repeated.clone()))
    }

    /// A response whose answer has ended.
    pub(super) fn ended(&self, output: Value, cached: usize, answer: &Answer) -> Value {
        let mut response = self.response(status(answer), output);
        match answer.is_whole() {
            true => response["completed_at"] = now().into(),
            false => response["incomplete_details"] = json!({"reason": "max_output_tokens"}),
        }
        response["usage"] = usage(self.prompt, cached, answer.tokens, answer.thinking);
        with(response, sources(answer))
    }

    /// A response to a conversation that was only read.
    pub(super) fn read(&self, cached: usize) -> Value {
        let mut response = self.response("completed", json!([]));
        response["completed_at"] = now().into();
        response["usage"] = usage(self.prompt, cached, 0, 0);
        response
    }

    pub(in crate::api) fn whole(&self, whole: &Whole) -> Value {
        let Some(answer) = whole.answers.first() else { return self.read(whole.cached) };
        let mut output = Vec::new();
        if !answer.thinking.is_empty() {
            output.push(self.item(Kind::Thinking, "completed", &answer.thinking));
        }
        if !answer.text.is_empty() || answer.calls.is_empty() {
            output.push(self.item(Kind::Message, status(&answer.result), &answer.text));
        }
        output.extend(answer.calls.iter().map(|call| self.call(call)));
        self.ended(json!(output), whole.cached, &answer.result)
    }

    pub(super) fn id(&self, kind: Kind) -> &str {
        match kind {
            Kind::Thinking => &self.thinking,
            Kind::Message => &self.item,
        }
    }

    /// An item of the output.
    pub(super) fn item(&self, kind: Kind, status: &str, text: &str) -> Value {
        let content =
            if text.is_empty() && status == "in_progress" { json!([]) } else { json!([kind.part(text)]) };
        match kind {
            Kind::Thinking => {
                json!({"type": "reasoning", "id": self.thinking, "summary": [], "content": content})
            }
            Kind::Message => json!({
                "type": "message", "id": self.item, "status": status, "role": "assistant", "content": content,
            }),
        }
    }

    /// A call as an item of the output.
    pub(super) fn call(&self, call: &ToolCall) -> Value {
        let mut item = json!({
            "type": "function_call",
            "id": format!("fc_{}", call.id),
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments(),
            "status": "completed",
        });
        if let Some((namespace, name)) = tools::namespace_of(&self.tools, &call.name) {
            (item["namespace"], item["name"]) = (namespace.into(), name.into());
        }
        item
    }
}

/// What is said of the tokens.
pub(super) fn usage(prompt: usize, cached: usize, answer: usize, thinking: usize) -> Value {
    json!({
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": thinking},
        "total_tokens": prompt + answer,
    })
}

pub(super) fn status(answer: &Answer) -> &'static str {
    if answer.is_whole() { "completed" } else { "incomplete" }
}

/// A kind of item of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Thinking,
    Message,
}

impl Kind {
    /// Its content.
    pub(super) fn part(self, text: &str) -> Value {
        match self {
            Kind::Thinking => json!({"type": "reasoning_text", "text": text}),
            Kind::Message => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
        }
    }

    /// The event of a piece of its text, and that of its end.
    pub(super) fn events(self) -> (&'static str, &'static str) {
        match self {
            Kind::Thinking => ("response.reasoning_text.delta", "response.reasoning_text.done"),
            Kind::Message => ("response.output_text.delta", "response.output_text.done"),
        }
    }
}
