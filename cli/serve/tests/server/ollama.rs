//! Ollama's interface: streams of lines, objects as arguments of calls, results without names.

use std::time::Duration;

use serde_json::{Value, json};
use serve::ServerOptions;

use crate::client::Response;
use crate::fixture::{FACT, Fixture, QUESTION, Running, filler, with};

/// The objects of a stream of lines.
fn lines(response: &Response) -> Vec<Value> {
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/x-ndjson")));
    response.body.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn chat(text: &str) -> Value {
    json!({"model": "any", "messages": [{"role": "user", "content": text}], "options": {"temperature": 0}})
}

fn answer(server: &Running, path: &str, body: &Value) -> Value {
    let response = server.post(path, &with(body.clone(), "stream", false));
    assert_eq!(response.status, 200, "{}", response.body);
    response.json()
}

#[test]
fn a_conversation_is_answered_whole_and_as_lines() {
    let server = Fixture { document: FACT.to_owned(), ..Fixture::default() }.start();
    let whole = answer(&server, "/api/chat", &chat(QUESTION));
    assert_eq!(whole["message"], json!({"role": "assistant", "content": FACT}));
    assert_eq!((&whole["done"], &whole["done_reason"]), (&json!(true), &json!("stop")));
    let lines = lines(&server.post("/api/chat", &chat(QUESTION)));
    let (last, pieces) = lines.split_last().expect("lines");
    let text: String = pieces.iter().filter_map(|piece| piece["message"]["content"].as_str()).collect();
    assert_eq!(text, FACT);
    assert!(pieces.iter().all(|piece| piece["done"] == false && piece["model"] == "needle"), "{pieces:?}");
    for name in ["prompt_eval_count", "eval_count"] {
        assert_eq!(last[name], whole[name], "{name}");
        assert!(last[name].as_u64() > Some(0), "{last}");
    }
    let times = ["eval_duration", "prompt_eval_duration"].map(|name| last[name].as_u64().expect("a time"));
    assert!(last["total_duration"].as_u64() >= Some(times[0]), "{last}");
}

#[test]
fn a_question_and_a_raw_text_are_answered() {
    let server = Fixture { document: FACT.to_owned(), ..Fixture::default() }.start();
    let asked = json!({"model": "any", "prompt": QUESTION, "options": {"temperature": 0}});
    assert_eq!(answer(&server, "/api/generate", &asked)["response"], FACT);
    let lines = lines(&server.post("/api/generate", &asked));
    let text: String = lines.iter().filter_map(|line| line["response"].as_str()).collect();
    assert_eq!(text, FACT);
    // A raw text is not about the documents, and has no template around it.
    let limit = json!({"temperature": 0, "num_predict": 3});
    let raw = with(with(json!({"prompt": FACT}), "raw", true), "options", limit);
    let continued = answer(&server, "/api/generate", &raw);
    let same = json!({"prompt": FACT, "temperature": 0, "max_tokens": 3});
    let wanted = server.post("/v1/completions", &same).json();
    assert_eq!(continued["response"], wanted["choices"][0]["text"]);
    assert_eq!((&continued["eval_count"], &continued["done_reason"]), (&json!(3), &json!("length")));
    assert_eq!(continued["prompt_eval_count"], wanted["usage"]["prompt_tokens"]);
    assert_eq!(server.post("/api/generate", &with(raw, "documents", json!(["doc_0"]))).status, 400);
}

#[test]
fn lines_are_objects_also_where_a_stream_was_quiet() {
    let options = ServerOptions { ping: Duration::from_millis(1), ..ServerOptions::default() };
    let server = Fixture { options, ..Fixture::default() }.start();
    let response = server.post("/api/chat", &with(chat(&filler(600)), "options", json!({"num_predict": 2})));
    assert!(response.body.starts_with(" "), "{}", response.body);
    assert_eq!(lines(&response).last().expect("lines")["eval_count"], 2);
}

#[test]
fn without_a_text_nothing_is_answered() {
    let server = Fixture::default().start();
    for path in ["/api/chat", "/api/generate"] {
        let loaded = server.post(path, &json!({"model": "any", "keep_alive": "5m"})).json();
        assert_eq!((&loaded["done"], &loaded["done_reason"]), (&json!(true), &json!("load")), "{path}");
    }
    assert_eq!(server.metric("prompt_tokens_total"), 0.0);
}

#[test]
fn shapes_are_kept_and_described_fields_are_taken() {
    let server = Fixture::default().start();
    let description = server.get("/openapi.json").json();
    let schemas = &description["components"]["schemas"];
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    for (path, schema) in [("/api/chat", "OllamaChatRequest"), ("/api/generate", "OllamaGenerateRequest")] {
        let least = with(chat("Where?"), "options", json!({"num_predict": 3}));
        let least = match path {
            "/api/chat" => least,
            _ => json!({"prompt": "Where?", "options": least["options"]}),
        };
        let shaped =
            with(with(least.clone(), "format", nothing.clone()), "options", json!({"temperature": 0}));
        let answer = answer(&server, path, &shaped);
        let text = answer["response"].as_str().or(answer["message"]["content"].as_str());
        assert_eq!(text.map(str::trim), Some("{}"), "{answer}");
        let own = schemas[schema]["allOf"][1]["properties"].as_object().expect("fields");
        let common = schemas["OllamaAsked"]["properties"].as_object().expect("fields");
        for (name, field) in own.iter().chain(common) {
            // The functions of a conversation need a template that knows them.
            if name == "tools" {
                continue;
            }
            for value in [&field["examples"][0], &Value::Null] {
                let mut body = with(least.clone(), name, value.clone());
                if name == "options" || (value.is_null() && ["messages", "prompt"].contains(&name.as_str())) {
                    body["options"] = json!({"num_predict": 3});
                }
                let response = server.post(path, &body);
                assert_eq!(response.status, 200, "{path} with {value} as {name}: {}", response.body);
            }
        }
    }
    let own = &schemas["OllamaOptions"]["allOf"][1]["properties"];
    let sampling = schemas["Sampling"]["properties"].as_object().expect("fields");
    for (name, field) in own.as_object().expect("fields").iter().chain(sampling) {
        let options = with(json!({"num_predict": 2}), name, field["examples"][0].clone());
        let response = server.post("/api/chat", &with(chat("Where?"), "options", options));
        assert_eq!(response.status, 200, "{name}: {}", response.body);
    }
}

#[test]
fn calls_have_objects_and_results_need_no_names() {
    let template = "{% if tools %}{{ tools | tojson }}{% endif %}\
        {% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\
        {% for c in m.tool_calls or [] %}<tool_call>\n{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\n\
        </tool_call>{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let server = Fixture { template: Some(template.to_owned()), ..Fixture::default() }.start();
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let tools: Vec<Value> = ["find_lamp", "stop"]
        .iter()
        .map(|name| json!({"type": "function", "function": {"name": name, "parameters": nothing}}))
        .collect();
    // Which one must be called is our own addition.
    let choice = json!({"type": "function", "function": {"name": "find_lamp"}});
    let asked = with(with(chat("Where is it?"), "tools", tools), "tool_choice", choice);
    let message = &answer(&server, "/api/chat", &asked)["message"];
    let function = json!({"index": 0, "name": "find_lamp", "arguments": {}});
    assert_eq!(message["tool_calls"][0]["function"], function);
    let lines = lines(&server.post("/api/chat", &asked));
    let called = lines.iter().filter_map(|line| line["message"]["tool_calls"].as_array()).flatten();
    let names: Vec<&Value> = called.map(|call| &call["function"]["name"]).collect();
    assert_eq!(names, ["find_lamp"]);

    let results = |ids: [&str; 2], results: Value| {
        let call = |index: usize, name: &str| {
            let function = json!({"index": index, "name": name, "arguments": {}});
            json!({"id": ids[index], "index": index, "function": function})
        };
        let calls = [call(0, "find_lamp"), call(1, "stop")];
        let mut messages = vec![
            json!({"role": "user", "content": "Where?"}),
            json!({"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": calls}),
        ];
        messages.extend(results.as_array().expect("messages").iter().cloned());
        let options = json!({"num_predict": 2});
        server.post("/api/chat", &with(with(asked.clone(), "messages", messages), "options", options))
    };
    let result = |fields: Value| with(with(fields, "role", "tool"), "content", "done");
    let both = [json!({}), json!({"tool_name": "find_lamp"})].map(result);
    let (none, named) = (["", ""], ["a", "b"]);
    for (ids, messages, status) in [
        (none, json!([result(json!({})), result(json!({}))]), 200),
        (none, json!([result(json!({"tool_name": "stop"})), result(json!({"name": "find_lamp"}))]), 200),
        (none, json!([result(json!({"tool_call_id": "other", "tool_name": "stop"}))]), 200),
        (named, json!([result(json!({"tool_call_id": "b"})), result(json!({"tool_call_id": "a"}))]), 200),
        // The first result is that of the first call.
        (none, json!(both), 400),
        (named, json!([result(json!({"tool_call_id": "other"}))]), 400),
    ] {
        let response = results(ids, messages.clone());
        assert_eq!(response.status, status, "{messages}: {}", response.body);
        assert!(status == 200 || response.body.contains("waits for a result"), "{}", response.body);
    }
}

#[test]
fn the_model_is_described() {
    let server = Fixture::default().start();
    let listed = &server.get("/api/tags").json()["models"][0];
    assert_eq!((&listed["name"], &listed["model"]), (&json!("needle"), &json!("needle")));
    assert!(listed["size"].as_u64() > Some(1 << 20), "{listed}");
    assert_eq!(&server.get("/api/ps").json()["models"][0]["digest"], &listed["digest"]);
    for request in [
        json!({"model": "needle", "verbose": false}),
        json!({"model": "Needle:latest", "options": {"num_ctx": 5}}),
        json!({"model": "", "name": "needle", "system": "", "template": "", "options": null}),
    ] {
        let shown = server.post("/api/show", &request).json();
        let arch = shown["model_info"]["general.architecture"].as_str().expect("a name");
        assert_eq!(shown["model_info"][format!("{arch}.context_length")], 1024);
        assert_eq!(shown["details"]["family"], *arch);
        assert_eq!(shown["capabilities"][0], "completion");
    }
    assert_eq!(server.post("/api/show", &json!({"model": "other"})).status, 404);
    assert!(server.get("/api/version").json()["version"].is_string());
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn errors_are_in_its_form() {
    let server = Fixture::default().start();
    for (path, body, word) in [
        ("/api/chat", with(chat("x"), "images", json!(["aGk="])), "images"),
        (
            "/api/chat",
            json!({"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}),
            "messages[0].images",
        ),
        ("/api/chat", with(chat("x"), "options", json!({"mirostat": 2})), "options.mirostat"),
        ("/api/chat", with(chat("x"), "options", json!({"tfs_z": 0.5})), "options.tfs_z"),
        ("/api/chat", with(chat("x"), "format", "yaml"), "format"),
        ("/api/chat", with(chat("x"), "options", json!({"temperature": -1})), "temperature"),
        ("/api/chat", chat(&"word ".repeat(5000)), "too long"),
        ("/api/generate", json!({"prompt": "x", "suffix": "y"}), "suffix"),
        ("/api/generate", json!({"prompt": "x", "raw": true, "system": "y"}), "system"),
        ("/api/generate", json!({"prompt": "x", "raw": true, "think": true}), "think"),
        ("/api/show", json!({}), "model"),
    ] {
        let response = server.post(path, &body);
        let error = response.json()["error"].as_str().map(str::to_owned);
        assert_eq!(response.status, 400, "{path}: {}", response.body);
        assert!(error.is_some_and(|error| error.contains(word)), "{word}: {}", response.body);
    }
    assert!(server.get("/api/nothing").json()["error"].is_string());
    let loading = Fixture::default().loading();
    let response = loading.post("/api/chat", &chat("x"));
    assert!(response.status == 503 && response.json()["error"].is_string(), "{}", response.body);
}
