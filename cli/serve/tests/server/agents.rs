//! What agents and other programs send, as it was seen on the wire.

use std::time::Duration;

use serde_json::{Value, json};
use serve::ServerOptions;

use crate::fixture::{FACT, Fixture, QUESTION, filler, question, with};

/// A template that lets user and assistant alternate, behind one system message, as those of Mistral and Gemma do.
const ALTERNATING: &str = "{% for m in messages %}\
    {% if loop.index0 > 0 and m.role == messages[loop.index0 - 1].role %}{{ raise_exception('roles must alternate') }}{% endif %}\
    <|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Claude Code 2.1.
#[test]
fn what_claude_code_asks_for_beside_the_answer_is_no_obstacle() {
    let server = Fixture::default().start();
    let mut asked = with(question(&format!("{FACT} {QUESTION}")), "max_tokens", 50);
    for (name, value) in [
        ("thinking", json!({"type": "adaptive"})),
        ("output_config", json!({"effort": "high"})),
        ("context_management", json!({"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})),
        ("metadata", json!({"user_id": "me"})),
    ] {
        asked[name] = value;
    }
    let message = server.post("/v1/messages?beta=true", &asked).json();
    assert_eq!(message["content"][0]["text"], FACT, "{message}");
    assert_eq!(server.post("/v1/messages/count_tokens", &asked).status, 200);
    // What would cut the conversation, or is not known, is refused.
    for (name, value, field) in [
        (
            "context_management",
            json!({"edits": [{"type": "clear_tool_uses_20250919"}]}),
            "context_management.edits[0].type",
        ),
        ("context_management", json!({"summary": true}), "context_management.summary"),
        ("output_config", json!({"effort": "some"}), "output_config.effort"),
        ("output_config", json!({"task_budget": {"total": 5}}), "output_config.task_budget"),
    ] {
        for path in ["/v1/messages", "/v1/messages/count_tokens"] {
            let response = server.post(path, &with(asked.clone(), name, value.clone()));
            let message = response.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
            assert!(response.status == 400 && message.starts_with(field), "{message}");
        }
    }
}

#[test]
fn a_message_has_the_shape_that_is_asked_for() {
    let server = Fixture::default().start();
    let schema = json!({"type": "object", "properties": {"a": {"enum": [5]}}, "required": ["a"], "additionalProperties": false});
    let config = json!({"format": {"type": "json_schema", "schema": schema}});
    let asked = with(with(question(QUESTION), "max_tokens", 50), "output_config", config);
    let message = server.post("/v1/messages", &asked).json();
    let text = message["content"][0]["text"].as_str().expect("a text");
    assert_eq!(serde_json::from_str::<Value>(text).ok(), Some(json!({"a": 5})), "{message}");
}

/// Codex 0.171 puts its functions for other agents into a namespace, and those of MCP servers.
#[test]
fn functions_of_a_namespace_are_called_by_both_names() {
    let template = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n\
        {{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n\
        {{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n\
        {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let server = Fixture { template: Some(template.to_owned()), ..Fixture::default() }.start();
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let function = json!({"type": "function", "name": "stop", "strict": false, "parameters": nothing});
    let namespace =
        json!({"type": "namespace", "name": "boats", "description": "Of boats.", "tools": [function]});
    let asked = |input: Value, stream: bool| {
        let body = json!({"input": input, "tools": [namespace], "tool_choice": "required", "stream": stream});
        server.post("/v1/responses", &body)
    };
    let user = json!({"role": "user", "content": "Stop it"});
    let called = asked(json!([user]), false).json()["output"][0].clone();
    assert_eq!((&called["namespace"], &called["name"]), (&json!("boats"), &json!("stop")), "{called}");
    for event in asked(json!([user]), true).events().iter().filter(|event| event["item"].is_object()) {
        assert_eq!((&event["item"]["namespace"], &event["item"]["name"]), (&json!("boats"), &json!("stop")));
    }
    let result =
        json!({"type": "function_call_output", "call_id": called["call_id"], "output": "It stands."});
    let again = asked(json!([user, called, result]), false);
    assert_eq!(again.status, 200, "{}", again.body);
    // Two functions of the same name are two, and what is no function is refused.
    let both = json!({"input": "?", "tools": [namespace, function], "tool_choice": "required"});
    let called = server.post("/v1/responses", &both).json()["output"][0].clone();
    assert_eq!(called["type"], "function_call", "{called}");
    for tools in [
        json!([{"type": "web_search", "external_web_access": false}]),
        json!([{"type": "namespace", "name": "a", "tools": []}]),
        json!([{"type": "namespace", "name": "a", "tools": [{"type": "custom", "name": "b"}]}]),
        json!([namespace, namespace]),
    ] {
        let response = server.post("/v1/responses", &json!({"input": "?", "tools": tools}));
        assert_eq!(response.status, 400, "{tools}: {}", response.body);
    }
}

/// Codex sends two messages of the developer and two of the user.
#[test]
fn a_template_that_wants_roles_to_alternate_gets_one_message_for_several() {
    let server = Fixture { template: Some(ALTERNATING.to_owned()), ..Fixture::default() }.start();
    let tokens = |messages: &[(&str, &str)]| {
        let message = |(role, text): &(&str, &str)| json!({"role": role, "content": text});
        let messages: Vec<Value> = messages.iter().map(message).collect();
        let response = server.chat(&json!({"messages": messages, "max_tokens": 1}));
        assert_eq!(response.status, 200, "{}", response.body);
        response.json()["usage"]["prompt_tokens"].clone()
    };
    let several = [("developer", "A"), ("system", "B"), ("user", "C"), ("user", "D")];
    assert_eq!(tokens(&several), tokens(&[("system", "A\n\nB"), ("user", "C\n\nD")]));
    // A template that takes them has them as they are.
    let usual = Fixture::default().start();
    let asked = |messages: Value| {
        let response = usual.chat(&json!({"messages": messages, "max_tokens": 1}));
        response.json()["usage"]["prompt_tokens"].as_u64()
    };
    let user = |text: &str| json!({"role": "user", "content": text});
    assert!(asked(json!([user("C"), user("D")])) > asked(json!([user("C\n\nD")])));
}

/// lm-eval's local-completions.
#[test]
fn a_prompt_may_be_a_list_with_one_list_of_tokens() {
    let server = Fixture::default().start();
    let tokens = server.post("/tokenize", &json!({"content": FACT})).json()["tokens"].clone();
    let asked = |prompt: Value| json!({"prompt": prompt, "max_tokens": 4, "temperature": 0});
    let one = server.post("/v1/completions", &asked(tokens.clone())).json();
    let nested = server.post("/v1/completions", &asked(json!([tokens]))).json();
    assert_eq!((&nested["choices"], one["choices"].is_array()), (&one["choices"], true));
}

/// Claude Code and Codex end a stream in which no event came for five minutes. They do not count comments.
#[test]
fn streams_of_agents_say_with_events_that_they_are_at_work() {
    let options = ServerOptions { ping: Duration::from_millis(1), ..ServerOptions::default() };
    let server = Fixture { options, ..Fixture::default() }.start();
    let text = filler(600);
    let asked = with(with(question(&text), "max_tokens", 2), "stream", true);
    let message = server.post("/v1/messages", &asked);
    assert!(message.body.contains("event: ping\ndata: {\"type\":\"ping\"}\n\n"), "{}", message.body);
    let asked = json!({"input": format!("Again: {text}"), "max_output_tokens": 2, "stream": true});
    let events = server.post("/v1/responses", &asked).events();
    let kinds: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds[..3], ["response.created", "response.in_progress", "response.in_progress"]);
    let numbers = events.iter().map(|event| event["sequence_number"].as_u64());
    assert!(numbers.eq((0..events.len() as u64).map(Some)), "{events:?}");
}
