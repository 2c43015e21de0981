//! Answers that must be calls of functions. The model would write something else.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Running, question, with};

/// A server whose chat template writes calls like this, after functions.
fn server(call: &str) -> Running {
    let template = format!(
        "{{% if tools %}}<tools>{{{{ tools | tojson }}}}</tools>{{% endif %}}\
         {{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{{{ m.content }}}}\
         {{% for c in m.tool_calls or [] %}}{{% set f = c.function %}}{call}{{% endfor %}}<|im_end|>\n{{% endfor %}}\
         {{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
    );
    Fixture { template: Some(template), ..Fixture::default() }.start()
}

const HERMES: &str = "<tool_call>\n{{ {'name': f.name, 'arguments': f.arguments} | tojson }}\n</tool_call>";
const MISTRAL: &str = "[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}";
const ELEMENTS: &str = "<tool_call>\n<function={{ f.name }}>\n{% for k, v in f.arguments | items %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>";

/// Two functions whose arguments come to an end, in the form of OpenAI's chat.
fn functions() -> [Value; 2] {
    let places = json!({
        "type": "object",
        "properties": {"place": {"$ref": "#/$defs/place"}, "high": {"type": "boolean"}},
        "required": ["place", "high"],
        "additionalProperties": false,
        "$defs": {"place": {"enum": ["harbour", "river"]}},
    });
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    [("find_lamp", places), ("stop", nothing)].map(|(name, parameters)| {
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    })
}

fn asked(choice: impl Into<Value>) -> Value {
    with(with(question("Where is it?"), "tools", json!(functions())), "tool_choice", choice.into())
}

/// The only call of a message: its name and its arguments.
fn call(message: &Value) -> (String, Value) {
    let calls = message["tool_calls"].as_array().unwrap_or_else(|| panic!("no call: {message}"));
    assert_eq!((calls.len(), &message["content"]), (1, &Value::Null), "{message}");
    let function = &calls[0]["function"];
    let arguments = serde_json::from_str(function["arguments"].as_str().expect("a text")).expect("JSON");
    (function["name"].as_str().expect("a name").to_owned(), arguments)
}

/// Whether arguments are right for a function.
fn check((name, arguments): (String, Value)) {
    match name.as_str() {
        "stop" => assert_eq!(arguments, json!({})),
        "find_lamp" => {
            assert!(["harbour", "river"].map(Value::from).contains(&arguments["place"]), "{arguments}");
            assert!(arguments["high"].is_boolean(), "{arguments}");
        }
        other => panic!("a call of {other}"),
    }
}

#[test]
fn a_function_that_must_be_called_is_called() {
    for format in [HERMES, MISTRAL] {
        let server = server(format);
        for name in ["find_lamp", "stop"] {
            let asked = asked(json!({"type": "function", "function": {"name": name}}));
            let whole = server.chat(&asked);
            assert_eq!(whole.status, 200, "{}", whole.body);
            let choice = &whole.json()["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
            let called = call(&choice["message"]);
            assert_eq!(called.0, name);
            check(called);
            let chunks = server.chat(&with(asked, "stream", true)).events();
            let deltas: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
            let calls = deltas.iter().filter_map(|delta| delta["tool_calls"].as_array()).flatten();
            let names: Vec<&Value> = calls.map(|call| &call["function"]["name"]).collect();
            assert_eq!(names, [name]);
            let text: String = deltas.iter().filter_map(|delta| delta["content"].as_str()).collect();
            assert_eq!(text, "", "nothing of the call is text");
        }
    }
}

#[test]
fn each_interface_can_require_a_call() {
    let server = server(HERMES);
    check(call(&server.chat(&asked("required")).json()["choices"][0]["message"]));
    let only = |stop: Value| json!({"mode": "required", "tools": [stop]});
    let chats = json!({"type": "function", "function": {"name": "stop"}});
    let allowed = asked(json!({"type": "allowed_tools", "allowed_tools": only(chats)}));
    assert_eq!(call(&server.chat(&allowed).json()["choices"][0]["message"]), ("stop".to_owned(), json!({})));

    let tools = functions().map(|mut tool| {
        let mut function = tool["function"].take();
        function["type"] = "function".into();
        function
    });
    let response = |choice: Value| {
        let body = json!({"input": "Where is it?", "temperature": 0, "tools": tools, "tool_choice": choice});
        let response = server.post("/v1/responses", &body).json();
        assert_eq!(
            (&response["status"], &response["tool_choice"]),
            (&json!("completed"), &choice),
            "{response}"
        );
        let output = response["output"].as_array().expect("items").clone();
        assert_eq!((output.len(), &output[0]["type"]), (1, &json!("function_call")));
        let arguments = output[0]["arguments"].as_str().expect("a text");
        (
            output[0]["name"].as_str().expect("a name").to_owned(),
            serde_json::from_str(arguments).expect("JSON"),
        )
    };
    check(response(json!("required")));
    let stop = json!({"type": "function", "name": "stop"});
    assert_eq!(response(stop.clone()), ("stop".to_owned(), json!({})));
    let allowed = with(only(stop), "type", "allowed_tools");
    assert_eq!(response(allowed), ("stop".to_owned(), json!({})));

    let tools = functions().map(|tool| {
        let function = &tool["function"];
        json!({"name": function["name"], "input_schema": function["parameters"]})
    });
    let message = |choice: Value| {
        let mut body = with(question("Where is it?"), "tools", json!(tools));
        (body["tool_choice"], body["max_tokens"]) = (choice, json!(100));
        let message = server.post("/v1/messages", &body).json();
        assert_eq!(message["stop_reason"], "tool_use", "{message}");
        let content = message["content"].as_array().expect("blocks").clone();
        assert_eq!((content.len(), &content[0]["type"]), (1, &json!("tool_use")));
        (content[0]["name"].as_str().expect("a name").to_owned(), content[0]["input"].clone())
    };
    check(message(json!({"type": "any"})));
    assert_eq!(message(json!({"type": "tool", "name": "stop"})), ("stop".to_owned(), json!({})));
}

#[test]
fn a_call_that_cannot_be_forced_is_refused() {
    let refused = |server: &Running, body: &Value, words: &str| {
        let response = server.chat(body);
        let error = response.json()["error"].clone();
        assert_eq!((response.status, &error["param"]), (400, &json!("tool_choice")), "{}", response.body);
        assert!(error["message"].as_str().is_some_and(|message| message.contains(words)), "{error}");
    };
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    let hermes = server(HERMES);
    refused(&hermes, &asked(named("rob")), "there is no function \"rob\"");
    let allowed = |tools: Value| json!({"type": "allowed_tools", "mode": "required", "tools": tools});
    refused(&hermes, &asked(allowed(json!([named("rob")]))), "there is no function \"rob\"");
    refused(&hermes, &asked(allowed(json!([]))), "there are no tools");
    let unknown = with(
        with(question("?"), "tools", json!(functions())),
        "tool_choice",
        with(allowed(json!([])), "mode", "always"),
    );
    let error = hermes.chat(&unknown).json()["error"].clone();
    assert_eq!(
        (&error["param"], error["message"].is_string()),
        (&json!("tool_choice.mode"), true),
        "{error}"
    );
    refused(&hermes, &with(question("?"), "tool_choice", "required"), "there are no tools");
    refused(&hermes, &asked("always"), "\"always\" is not supported");
    // The name comes before the arguments: which arguments follow would depend on it.
    refused(&server(MISTRAL), &asked("required"), "name one");
    refused(&server(ELEMENTS), &asked(named("stop")), "cannot be enforced; use auto");
    // What cannot be enforced of the arguments is not: they are an object.
    let mut odd = asked(named("stop"));
    odd["tools"][1]["function"]["parameters"] = json!({"type": "object", "not": {"required": ["x"]}});
    odd["max_tokens"] = json!(20);
    assert_eq!(hermes.chat(&odd).status, 200);
    // Without a choice nothing is forced.
    let free = with(with(question("?"), "tools", json!(functions())), "max_tokens", 5);
    assert_eq!(hermes.chat(&free).json()["choices"][0]["message"].get("tool_calls"), None);
}
