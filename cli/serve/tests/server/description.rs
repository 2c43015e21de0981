//! The description of the server, against what it answers.

use serde_json::{Value, json};

use crate::client::Connection;
use crate::fixture::{Fixture, Running, with};

/// The description, which needs no model.
fn description(server: &Running) -> Value {
    let response = server.get("/openapi.json");
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    response.json()
}

#[test]
fn methods_are_those_that_are_described() {
    let server = Fixture::default().loading();
    let description = description(&server);
    for (path, described) in description["paths"].as_object().expect("addresses") {
        let place = path.replace("{id}", "doc_0").replace("{name}", "x");
        for method in ["get", "post", "put", "patch", "delete"] {
            let asked = Connection::send(server.address, &method.to_uppercase(), &place, &[], "{}");
            let response = asked.response();
            let is_there = ![404, 405].contains(&response.status);
            assert_eq!(described.get(method).is_some(), is_there, "{method} {path}: {}", response.body);
        }
    }
}

#[test]
fn references_lead_somewhere() {
    fn check(value: &Value, description: &Value, found: &mut usize) {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    assert!(description.pointer(&reference[1..]).is_some(), "{reference}");
                    *found += 1;
                }
                fields.values().for_each(|value| check(value, description, found));
            }
            Value::Array(values) => values.iter().for_each(|value| check(value, description, found)),
            _ => {}
        }
    }
    let description = description(&Fixture::default().loading());
    let mut found = 0;
    check(&description, &description, &mut found);
    assert!(found > 20, "{found}");
}

/// Whether a schema takes null.
fn may_be_null(schema: &Value) -> bool {
    let has = |list: &Value, null: Value| list.as_array().is_some_and(|list| list.contains(&null));
    has(&schema["type"], json!("null"))
        || has(&schema["enum"], json!(null))
        || has(&schema["oneOf"], json!({"type": "null"}))
}

#[test]
fn streams_are_described_by_their_events() {
    let server = Fixture::default().start();
    let description = description(&server);
    let mut streams = 0;
    for (path, described) in description["paths"].as_object().expect("addresses") {
        let content = &described["post"]["responses"]["200"]["content"];
        if let Some(stream) = content.get("text/event-stream") {
            assert_eq!(stream["schema"]["$ref"], "#/components/schemas/Event", "{path}");
            streams += 1;
        }
    }
    assert_eq!(streams, 5);
    let event = &description["components"]["schemas"]["Event"];
    assert_eq!(event["required"], json!(["data"]));
    // Nothing but what is described, and comments.
    let body = json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 3, "stream": true});
    for path in ["/v1/chat/completions", "/v1/messages"] {
        for line in
            server.post(path, &body).body.lines().filter(|line| !line.is_empty() && !line.starts_with(':'))
        {
            let name = line.split(": ").next().expect("a name");
            assert!(event["properties"].get(name).is_some(), "{path}: {line}");
        }
    }
}

#[test]
fn fields_that_are_described_are_taken() {
    let template = "{% if tools %}{{ tools | tojson }}{% endif %}\
        {% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\
        {% for c in m.tool_calls or [] %}{{ {'name': c.function.name, 'parameters': c.function.arguments} | tojson }}{% endfor %}\
        <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let server = Fixture { template: Some(template.to_owned()), ..Fixture::default() }.start();
    let description = description(&server);
    let schemas = &description["components"]["schemas"];
    for (path, schema) in [
        ("/v1/chat/completions", "ChatRequest"),
        ("/v1/completions", "CompletionRequest"),
        ("/v1/responses", "ResponsesRequest"),
        ("/v1/messages", "MessagesRequest"),
    ] {
        let own = &schemas[schema]["allOf"][1];
        let fields = own["properties"].as_object().expect("fields").iter();
        let sampling = schemas["Sampling"]["properties"].as_object().expect("fields");
        let examples = || fields.clone().chain(sampling).map(|(name, field)| (name, &field["examples"][0]));
        let required = own["required"].as_array().expect("names");
        let needed = examples().filter(|(name, _)| required.iter().any(|required| required == *name));
        let mut least = needed.fold(json!({}), |body, (name, value)| with(body, name, value.clone()));
        // Answers of this model have no end.
        let limit = if path == "/v1/responses" { "max_output_tokens" } else { "max_tokens" };
        least[limit] = json!(3);
        for (name, value) in examples() {
            assert_ne!(value, &Value::Null, "{schema}: {name} has no example");
            let response = server.post(path, &with(least.clone(), name, value.clone()));
            assert_eq!(response.status, 200, "{path} with {name}: {}", response.body);
        }
        // Clients write null for what they leave out, and the description says that they may.
        for (name, field) in fields.clone().chain(sampling) {
            if required.iter().any(|required| required == name) {
                continue;
            }
            assert!(may_be_null(field), "{schema}: {name}: {field}");
            let response = server.post(path, &with(least.clone(), name, Value::Null));
            assert_eq!(response.status, 200, "{path} with null as {name}: {}", response.body);
        }
        // All are needed that are said to be.
        for name in required {
            let mut without = least.clone();
            without.as_object_mut().expect("an object").remove(name.as_str().expect("a name"));
            assert_eq!(server.post(path, &without).status, 400, "{path} without {name}");
        }
    }
}
