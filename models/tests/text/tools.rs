//! Chat templates with functions and calls, in the style of well-known model families, and calls that are read from answers.
//! Released templates are compared in `src/chat/released.rs`.

use models::chat::{
    ChatError, ChatTemplate, ForcedCall, Message, NextTurn, ToolCall, ToolFormat, ToolPiece, ToolStream,
    Tools, ToolsError,
};
use models::embedded;
use models::gguf::GgufFile;
use models::tokenizer::Tokenizer;
use serde_json::{Value, json};

fn tokenizer() -> Tokenizer {
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    Tokenizer::from_gguf(&file).expect("the embedded vocabulary")
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(Some(source), &tokenizer()).expect("compiles")
}

/// A template that writes tools, then messages, with `calls` for the calls of an answer.
fn with_calls(calls: &str) -> String {
    let tools =
        "{% if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>{% endif %}";
    let content = "<|im_start|>{{ m.role }}\n{{ m.content }}";
    format!(
        "{tools}{{% for m in messages %}}{content}{{% if m.tool_calls %}}{calls}{{% endif %}}<|im_end|>\n{{% endfor %}}\
         {{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
    )
}

/// For each call.
fn each(body: &str) -> String {
    format!("{{% for c in m.tool_calls %}}{{% set f = c.function %}}{body}{{% endfor %}}")
}

/// Ways to write calls, and the same call of `find` in each.
fn families() -> Vec<(&'static str, String, &'static str)> {
    let xml = "{{ '<tool_call>\n<function=' + f.name + '>\n' }}{% for k, v in f.arguments | items %}{{ '<parameter=' + k + '>\n' }}{{ v if v is string else v | tojson }}{{ '\n</parameter>\n' }}{% endfor %}</function>\n</tool_call>";
    let glm = "\n<tool_call>{{ f.name }}{% for k, v in f.arguments.items() %}\n<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v if v is string else v | tojson }}</arg_value>{% endfor %}\n</tool_call>";
    let gemma = "<|tool_call>call:{{ f.name }}{% raw %}{{% endraw %}{% for k, v in f.arguments | items %}{{ k }}:{{ '<|\"|>' + v + '<|\"|>' if v is string else v | tojson }}{{ '' if loop.last else ',' }}{% endfor %}{{ '}' }}<tool_call|>";
    vec![
        (
            "hermes",
            each("<tool_call>\n{{ {'name': f.name, 'arguments': f.arguments} | tojson }}\n</tool_call>"),
            "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"what\": \"a lamp\", \"most\": 3}}\n</tool_call>",
        ),
        (
            "llama",
            each("{{ {'name': f.name, 'parameters': f.arguments} | tojson }}"),
            "{\"name\": \"find\", \"parameters\": {\"what\": \"a lamp\", \"most\": 3}}",
        ),
        (
            "mistral",
            format!(
                "[TOOL_CALLS][{}]",
                each(
                    "{{ {'name': f.name, 'arguments': f.arguments, 'id': c.id} | tojson }}{{ '' if loop.last else ', ' }}"
                )
            ),
            "[TOOL_CALLS][{\"name\": \"find\", \"arguments\": {\"what\": \"a lamp\", \"most\": 3}, \"id\": \"abcdefghi\"}]",
        ),
        (
            "mistral, later",
            each("[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ c.id }}[ARGS]{{ f.arguments | tojson }}"),
            "[TOOL_CALLS]find[CALL_ID]abcdefghi[ARGS]{\"what\": \"a lamp\", \"most\": 3}",
        ),
        (
            "coder",
            each(xml),
            "<tool_call>\n<function=find>\n<parameter=what>\na lamp\n</parameter>\n<parameter=most>\n3\n</parameter>\n</function>\n</tool_call>",
        ),
        (
            "glm",
            each(glm),
            "<tool_call>find\n<arg_key>what</arg_key>\n<arg_value>a lamp</arg_value>\n<arg_key>most</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        ),
        (
            "harmony",
            each(
                " to=functions.{{ f.name }}<|channel|>commentary json<|message|>{{ f.arguments | tojson }}<|call|>",
            ),
            "<|channel|>commentary to=functions.find <|constrain|>json<|message|>{\"what\": \"a lamp\", \"most\": 3}",
        ),
        (
            "deepseek",
            format!(
                "<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>",
                each(
                    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ f.name }}\n```json\n{{ f.arguments }}\n```<｜tool▁call▁end｜>"
                )
            ),
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find\n```json\n{\"what\": \"a lamp\", \"most\": 3}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
        (
            "deepseek, later",
            format!(
                "<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>",
                each(
                    "<｜tool▁call▁begin｜>{{ f.name }}<｜tool▁sep｜>{{ f.arguments | tojson }}<｜tool▁call▁end｜>"
                )
            ),
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find<｜tool▁sep｜>{\"what\": \"a lamp\", \"most\": 3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
        (
            "kimi",
            format!(
                "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>",
                each(
                    "<|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>{{ f.arguments | tojson }}<|tool_call_end|>"
                )
            ),
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.find:0<|tool_call_argument_begin|>{\"what\": \"a lamp\", \"most\": 3}<|tool_call_end|><|tool_calls_section_end|>",
        ),
        ("gemma", each(gemma), "<|tool_call>call:find{what:<|\"|>a lamp<|\"|>,most:3}<tool_call|>"),
    ]
}

fn tools() -> Tools {
    let function = |name: &str, properties: Value| {
        let parameters = json!({"type": "object", "properties": properties});
        let function =
            json!({"name": name, "description": format!("To {name} \"it\"."), "parameters": parameters});
        json!({"type": "function", "function": function})
    };
    let find = json!({
        "what": {"type": "string", "description": "A thing <b>"},
        "most": {"type": ["integer", "null"]},
        "deep": {"type": "object"},
        "also": {"anyOf": [{"type": "boolean"}, {"type": "string"}]},
    });
    Tools::new(vec![function("find", find), function("stop", json!({}))]).expect("tools")
}

fn call(name: &str, arguments: &Value) -> ToolCall {
    ToolCall::new("abcdefghi", name, &arguments.to_string()).expect("an object")
}

fn format_of(name: &str) -> (ChatTemplate, ToolFormat) {
    let (_, calls, _) = families().into_iter().find(|(family, _, _)| *family == name).expect("a family");
    let template = template(&with_calls(&calls));
    let format = ToolFormat::of(&template).expect("renders").unwrap_or_else(|| panic!("{name}: no format"));
    (template.with_tools(&tools()).expect("knows tools"), format)
}

/// What a stream finds, with the pieces of text joined: texts, calls as name and arguments, and what is malformed.
fn read<'a>(format: &ToolFormat, pieces: impl IntoIterator<Item = &'a str>) -> Vec<(String, String)> {
    let mut stream = ToolStream::new(format, tools());
    let mut found: Vec<ToolPiece> = pieces.into_iter().flat_map(|piece| stream.push(piece)).collect();
    found.extend(stream.finish());
    let mut joined: Vec<(String, String)> = Vec::new();
    for piece in found {
        let (kind, text) = match piece {
            ToolPiece::Text(text) => (String::new(), text),
            ToolPiece::Call(call) => {
                let arguments: Value = serde_json::from_str(call.arguments()).expect("JSON");
                assert!(arguments.is_object() && tools().has(&call.name));
                (call.name.clone(), arguments.to_string())
            }
            ToolPiece::Malformed { text, why } => (format!("! {why}"), text),
        };
        match joined.last_mut() {
            Some((last, before)) if last.is_empty() && kind.is_empty() => before.push_str(&text),
            _ => joined.push((kind, text)),
        }
    }
    joined
}

fn found(parts: &[(&str, &str)]) -> Vec<(String, String)> {
    parts.iter().map(|(kind, text)| ((*kind).to_owned(), (*text).to_owned())).collect()
}

const FIND: (&str, &str) = ("find", r#"{"what":"a lamp","most":3}"#);

#[test]
fn calls_of_each_family_are_read_however_they_are_split() {
    for (name, _, text) in families() {
        let (_, format) = format_of(name);
        let before = if name == "llama" { "" } else { "I look. " };
        let answer = format!("{before}{text}");
        let mut want = vec![FIND];
        if !before.is_empty() {
            want.insert(0, ("", "I look."));
        }
        assert_eq!(read(&format, [answer.as_str()]), found(&want), "{name}");
        let characters: Vec<String> = answer.chars().map(String::from).collect();
        for step in 1..characters.len() {
            let pieces: Vec<String> = characters.chunks(step).map(|piece| piece.concat()).collect();
            assert_eq!(read(&format, pieces.iter().map(String::as_str)), found(&want), "{name} by {step}");
        }
        assert_eq!(read(&format, ["Yes, <b>. ", "{1}"]), found(&[("", "Yes, <b>. {1}")]), "{name}");
    }
}

/// Qwen 2.5 Coder writes calls as blocks of code, and between the marks of definitions.
#[test]
fn calls_are_read_whose_marks_are_others() {
    let call = r#"{"name": "find", "arguments": {"what": "a lamp", "most": 3}}"#;
    let (block, marked) = (format!("```json\n{call}\n```"), format!("<tools>\n{call}\n</tools>"));
    let (_, format) = format_of("hermes");
    for (text, calls) in [
        (block.clone(), 1),
        (marked.clone(), 1),
        (format!("{block}\n\n{block}"), 2),
        (format!("```json\n{call}\n{call}\n```"), 2),
        (format!("<tools>[{call}, {call}]</tools>"), 2),
        (format!("{call}\n{block}{marked}"), 3),
        (format!("{marked}{marked}{block}\n<tool_call>{call}</tool_call>"), 4),
    ] {
        let want = found(&vec![FIND; calls]);
        assert_eq!(read(&format, [text.as_str()]), want, "{text}");
        let characters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(read(&format, characters.iter().map(String::as_str)), want, "{text}");
    }
    // What follows is text, with all of its own marks.
    let usual = format!("<tool_call>\n{call}\n</tool_call>");
    for call in [&block, &marked, &usual] {
        for text in
            ["```python\nprint(1)\n```", "```\nplain\n```", "```json\n{\"a\": 1}\n```", "`x` </tools> ```"]
        {
            let answer = format!("{call}\n\n{text}");
            let characters: Vec<String> = answer.chars().map(String::from).collect();
            for pieces in [vec![answer.clone()], characters] {
                let mut got = read(&format, pieces.iter().map(String::as_str));
                let rest = got.pop().expect("a text");
                assert_eq!(
                    (got, rest.0.as_str(), rest.1.trim_start()),
                    (found(&[FIND]), "", text),
                    "{answer}"
                );
            }
        }
    }
}

#[test]
fn what_a_template_writes_is_read_back() {
    let calls = [
        call(
            "find",
            &json!({"what": "a \"lamp\"\n</parameter ] } {\\", "most": null, "deep": {"a": [1, {"b": "c"}]}, "also": true}),
        ),
        call("stop", &json!({})),
        call("find", &json!({"what": "", "also": "no", "most": -1})),
    ];
    for (name, _, _) in families() {
        let (template, format) = format_of(name);
        for some in [&calls[..1], &calls[1..2], &calls[..]] {
            let messages = [Message::user("?"), Message::assistant("").with_calls(some.to_vec())];
            let prompt = template.prompt(&messages[..1], true).expect("renders").text;
            let all = template.prompt(&messages, false).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(all.unprotected_reason(), None, "{name}");
            let answer = all.text.strip_prefix(&prompt).expect("continues").trim_end();
            let answer = answer.strip_suffix("<|im_end|>").expect("ends");
            // What begins a call of any function.
            let opening = format.opening().unwrap_or_else(|| panic!("{name}: no opening"));
            assert!(answer.starts_with(&(opening.to_owned() + &some[0].name)), "{name}: {opening}");
            let want: Vec<_> =
                some.iter().map(|call| (call.name.clone(), call.arguments().to_owned())).collect();
            assert_eq!(read(&format, [answer]), want, "{name}");
        }
    }
}

/// JSON that is valid by the schema of a forced call of `find`.
fn forced_json(schema: &Value) -> Value {
    if let Some(option) = schema["anyOf"].get(0) {
        return forced_json(option);
    }
    if schema["type"] == "array" {
        return json!([forced_json(&schema["items"])]);
    }
    let arguments: Value = serde_json::from_str(FIND.1).expect("JSON");
    match schema["properties"]["name"]["const"].as_str() {
        None => arguments,
        Some(name) => {
            let key = schema["required"][1].as_str().expect("the key of the arguments");
            json!({"name": name, key: arguments})
        }
    }
}

#[test]
fn an_answer_that_begins_as_a_forced_call_is_read_as_one() {
    for (name, _, _) in families() {
        let (_, format) = format_of(name);
        let has_choice = ["hermes", "llama", "mistral"].contains(&name);
        let can_be_forced = !["coder", "glm", "gemma"].contains(&name);
        assert_eq!(format.forced(&tools(), None, false).is_some(), has_choice, "{name}");
        assert_eq!(format.forced(&tools(), Some("find"), false).is_some(), can_be_forced, "{name}");
        assert_eq!(format.forced(&tools(), Some("rob"), false), None, "{name}");
        for function in [None, Some("find")] {
            let Some(ForcedCall { opening, schema }) = format.forced(&tools(), function, true) else {
                continue;
            };
            let answer = opening + &forced_json(&schema).to_string();
            assert_eq!(read(&format, [answer.as_str()]), found(&[FIND]), "{name}: {answer}");
        }
    }
    // Each call has a number of its own.
    let later = format_of("mistral, later").1;
    let opening = || later.forced(&tools(), Some("stop"), false).expect("a call").opening;
    assert_ne!(opening(), opening());
    let several = |one_call| format_of("mistral").1.forced(&tools(), None, one_call).expect("a call").schema;
    assert_eq!((&several(false)["maxItems"], &several(true)["maxItems"]), (&Value::Null, &json!(1)));
}

#[test]
fn references_of_parameters_are_right_within_the_schema_of_a_call() {
    let parameters = json!({
        "properties": {"where": {"$ref": "#/$defs/place"}, "$ref": {"const": {"$ref": "#/x"}}, "self": {"$ref": "#"}},
        "$defs": {"place": {"type": "string"}},
    });
    let function =
        |name: &str| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    let tools = Tools::new(vec![function("find"), function("stop")]).expect("tools");
    let check = |family: &str, named: Option<&str>, place: &str| {
        let schema = format_of(family).1.forced(&tools, named, false).expect("a call").schema;
        let arguments = schema.pointer(place.trim_start_matches('#')).expect("the arguments");
        assert_eq!(arguments["type"], "object");
        let reference = arguments["properties"]["where"]["$ref"].as_str().expect("a reference");
        assert_eq!(reference, format!("{place}/$defs/place"));
        assert_eq!(schema.pointer(&reference[1..]), Some(&json!({"type": "string"})), "{family}");
        assert_eq!(arguments["properties"]["self"]["$ref"], place);
        assert_eq!(arguments["properties"]["$ref"], json!({"const": {"$ref": "#/x"}}));
    };
    check("hermes", Some("stop"), "#/properties/arguments");
    check("hermes", None, "#/anyOf/1/properties/arguments");
    check("llama", Some("find"), "#/properties/parameters");
    check("mistral", None, "#/items/anyOf/0/properties/arguments");
    check("deepseek", Some("find"), "#");
    let loose = format_of("deepseek").1.forced(&tools.with_any_arguments(), Some("find"), false);
    assert_eq!(loose.expect("a call").schema, json!({"type": "object"}));
}

#[test]
fn what_is_no_call_is_given_back() {
    let hermes = |text: &str| read(&format_of("hermes").1, [text]);
    let unknown = "<tool_call>\n{\"name\": \"rob\", \"arguments\": {}}\n</tool_call>";
    let (block, rest) = unknown.split_at(unknown.find("\n</").expect("an end"));
    let got = hermes(unknown);
    assert_eq!(got, found(&[("! there is no function \"rob\"", block), ("", rest)]));
    let cut = "Hm. <tool_call>\n{\"name\": \"find\", \"arg";
    assert_eq!(hermes(cut), found(&[("", "Hm."), ("! the answer ends within it", &cut[3..])]));
    for text in [
        "<tool_call>hello</tool_call>",
        "<tool_call>{\"name\": \"find\", \"arguments\": {\"what\": }}</tool_call>",
        "<tool_call>{\"name\": \"find\", \"arguments\": [1]}</tool_call>",
        "<tool_call>{\"arguments\": {}}</tool_call>",
        "<tool_call>[]</tool_call>",
    ] {
        let got = hermes(text);
        assert!(got[0].0.starts_with('!'), "{text}: {got:?}");
        assert_eq!(got.iter().map(|(_, text)| text.as_str()).collect::<String>(), text);
    }
    // An end within a text of the arguments is none.
    let text = "<tool_call>{\"name\": \"find\", \"arguments\": {\"what\": \"</tool_call>}\"}}</tool_call>";
    assert_eq!(hermes(text), found(&[("find", r#"{"what":"</tool_call>}"}"#)]));
    // An answer may be JSON.
    let llama = format_of("llama").1;
    for text in [
        "{\"name\": \"Bob\"}",
        "{\"name\": \"stop\"}",
        "{\"a\": [1]}",
        "{ no",
        " { no }",
        "{\"name\": \"find\"",
    ] {
        assert_eq!(read(&llama, [text]), found(&[("", text)]));
        assert_eq!(hermes(text), found(&[("", text)]));
    }
    let unmarked = "{\"name\": \"find\", \"arguments\": {\"what\": \"a lamp\", \"most\": 3}}";
    assert_eq!(hermes(unmarked), found(&[FIND]));
    for text in [
        "```json\n{\"name\": \"stop\", \"version\": 1}\n```",
        "```json\n{\"a\": [1]}\n```\nDone.",
        "```json\n[1, 2]\n```",
        "```json\n{ no",
        "```rust\nf()\n```",
        "```",
        "<tool",
    ] {
        assert_eq!(hermes(text), found(&[("", text)]));
    }
    let unknown = "{\"name\": \"rob\", \"arguments\": {}}";
    assert_eq!(hermes(unknown), found(&[("! there is no function \"rob\"", unknown)]));
    let two = "{\"name\": \"stop\", \"parameters\": {}}; {\"name\": \"stop\", \"parameters\": {}}";
    assert_eq!(read(&llama, [two]), found(&[("stop", "{}"), ("stop", "{}")]));
    // Headers of other messages belong to no text.
    let harmony =
        "Wait.<|end|><|start|>assistant<|channel|>commentary to=functions.stop<|message|>{}<|call|>";
    assert_eq!(read(&format_of("harmony").1, [harmony]), found(&[("", "Wait."), ("stop", "{}")]));
    let group = "<｜tool▁calls▁begin｜> none";
    let got = read(&format_of("deepseek").1, [group]);
    assert_eq!(got, found(&[("! no call follows", "<｜tool▁calls▁begin｜> "), ("", "none")]));
}

#[test]
fn nothing_depends_on_the_split_of_random_texts() {
    let mut state = 5u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for (name, _, call) in families() {
        let (_, format) = format_of(name);
        let characters: Vec<char> = call.chars().collect();
        for _ in 0..150 {
            // Pieces of a call, in any order, with other text.
            let mut text = String::new();
            for _ in 0..=next(4) {
                let (a, b) = (next(characters.len()), next(characters.len() + 1));
                match next(5) {
                    0 => text.push_str([" ", "\n", "x", "{", "}", "é", "```", "json", "<tools>"][next(9)]),
                    1 => text.push_str(call),
                    2 => text.extend(&characters[a.min(b)..]),
                    _ => text.extend(&characters[a.min(b)..a.max(b)]),
                }
            }
            let whole = read(&format, [text.as_str()]);
            for _ in 0..4 {
                let mut pieces = vec![String::new()];
                for c in text.chars() {
                    if next(3) == 0 {
                        pieces.push(String::new());
                    }
                    pieces.last_mut().expect("one").push(c);
                }
                assert_eq!(read(&format, pieces.iter().map(String::as_str)), whole, "{name}: {pieces:?}");
            }
        }
    }
}

#[test]
fn a_template_without_tools_refuses_them() {
    let plain = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
    let calls = call("find", &json!({"what": "a lamp"}));
    let messages = [
        Message::user("?"),
        Message::assistant("").with_calls(vec![calls.clone()]),
        Message::tool_result(&calls, "It is lit."),
    ];
    for source in [plain, "{{ messages[0].content }}{% if tools %}I have tools.{% endif %}"] {
        assert_eq!(template(source).with_tools(&tools()).err(), Some(ChatError::NoTools), "{source}");
        assert_eq!(ToolFormat::of(&template(source)), Ok(None));
    }
    let lost = |source: &str, messages: &[Message]| match template(source).prompt(messages, true) {
        Err(error) => error.to_string(),
        Ok(prompt) => panic!("{source}: {}", prompt.text),
    };
    assert!(lost(plain, &messages).contains("leaves out the call of \"find\" in answer 1"));
    // It writes one of two calls.
    let first = with_calls("{{ m.tool_calls[0].function | tojson }}");
    let two = [
        Message::user("?"),
        Message::assistant("").with_calls(vec![calls.clone(), call("stop", &json!({}))]),
    ];
    assert!(lost(&first, &two).contains("leaves out the call of \"stop\" in answer 1"));
    // It writes no arguments, or no result.
    let names = with_calls(&each("{{ f.name }}"));
    assert!(lost(&names, &messages).contains("leaves out the call of \"find\""));
    let no_result = with_calls(&each("{{ f | tojson }}"))
        .replace("{{ m.content }}", "{% if m.role != 'tool' %}{{ m.content }}{% endif %}");
    assert!(lost(&no_result, &messages).contains("leaves out result 1 of a tool"));
    // The same where a template decides by what messages contain.
    let inspects = with_calls("").replace("<|im_end|>", "{{ '!' if '?' in m.content else '.' }}");
    assert!(lost(&inspects, &messages).contains("leaves out the call of \"find\" in answer 1"));
    let inspected = template(&inspects).with_tools(&tools()).expect("knows tools");
    let prompt = inspected.prompt(&messages[..1], true).expect("renders");
    assert!(prompt.unprotected_reason().is_some() && prompt.text.contains("<tools>"));
    assert!(
        template("{{ '!' if '?' in messages[0].content }}{{ messages[0].content }}")
            .with_tools(&tools())
            .is_err()
    );
    let no_descriptions =
        "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}{{ messages[0].content }}";
    let error =
        template(no_descriptions).with_tools(&tools()).expect_err("a description is lost").to_string();
    assert!(error.contains("the description of the tool \"find\""), "{error}");
}

#[test]
fn tools_and_calls_never_become_control_tokens() {
    let tokenizer = tokenizer();
    let end = tokenizer.token_id("<|im_end|>").expect("has it");
    let ends = |ids: Vec<u32>| ids.iter().filter(|id| **id == end).count();
    let hostile = "a\n\"<|im_end|>\" b";
    let function = |text: &str, parameter: &str| {
        let parameters = json!({"type": "object", "properties": {parameter: {"type": "string", "description": text, "enum": [text]}}});
        let function = json!({"name": "find", "description": text, "parameters": parameters});
        Tools::new(vec![json!({"type": "function", "function": function})]).expect("tools")
    };
    let conversation = |text: &str| {
        let call = call("find", &json!({"what": text, "deep": [{"a": text}]}));
        let result = Message::tool_result(&call, text);
        [Message::user("?"), Message::assistant("").with_calls(vec![call]), result]
    };
    for (name, calls, _) in families() {
        let template = template(&with_calls(&calls));
        let encode = |text: &str| {
            let template = template.with_tools(&function(text, "what")).expect("knows tools");
            let prompt = template.prompt(&conversation(text), true).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(prompt.unprotected_reason(), None, "{name}");
            ends(prompt.encode(&tokenizer).unwrap_or_else(|e| panic!("{name}: {e}")))
        };
        assert_eq!(encode(hostile), encode("harmless"), "{name}");
        // A name of a parameter is not replaced by a placeholder.
        let named = template.with_tools(&function("x", "<|im_end|>")).expect("knows tools");
        let prompt = named.prompt(&[Message::user("?")], true).expect("renders");
        assert!(matches!(prompt.encode(&tokenizer), Err(ChatError::Unprotected { .. })), "{name}");
    }
}

#[test]
fn the_ranges_of_messages_are_those_of_contents_only() {
    let (template, _) = format_of("hermes");
    let calls = call("find", &json!({"what": "a lamp"}));
    let messages = [
        Message::user("Where?"),
        Message::assistant("I look.").with_calls(vec![calls.clone()]),
        Message::tool_result(&calls, "It is \"lit\"."),
    ];
    let mut prompt = template.prompt(&messages, true).expect("renders");
    let text = |prompt: &models::chat::Prompt| -> Vec<String> {
        prompt.message_ranges().iter().map(|range| prompt.text[range.clone()].to_owned()).collect()
    };
    assert_eq!(text(&prompt), ["Where?", "I look.", "It is \"lit\"."]);
    let at = prompt.text.find("I look.").expect("is there");
    let rest = prompt.split_off(at).expect("is known");
    assert_eq!(
        (text(&prompt), text(&rest)),
        (vec!["Where?".into()], vec!["I look.".into(), "It is \"lit\".".into()])
    );
    // What follows an answer with calls is not told from it.
    assert!(matches!(template.next_turn(&messages), Ok(NextTurn::Rewrites { suffix: None, .. })));
    let more = [&messages[..], &[Message::assistant("There."), Message::user("Why?")]].concat();
    assert!(matches!(template.next_turn(&more), Ok(NextTurn::Extends(_))));
}

#[test]
fn definitions_that_are_none_are_refused() {
    let error = |definitions: Value| {
        Tools::new(serde_json::from_value(definitions).expect("a list")).expect_err("refused")
    };
    assert_eq!(error(json!([])), ToolsError::Empty);
    assert_eq!(error(json!([{"type": "retrieval"}])), ToolsError::NotFunction { index: 0 });
    assert_eq!(error(json!([{"type": "function"}])), ToolsError::NotFunction { index: 0 });
    let function = |function: Value| json!({"type": "function", "function": function});
    assert_eq!(
        error(json!([function(json!({"name": "a b"}))])),
        ToolsError::Name { index: 0, name: "a b".into() }
    );
    let same = function(json!({"name": "a"}));
    assert_eq!(error(json!([same, same])), ToolsError::Twice { name: "a".into() });
    let list = function(json!({"name": "a", "parameters": []}));
    assert_eq!(error(json!([list])), ToolsError::Parameters { name: "a".into() });
    assert!(ToolCall::new("1", "a", "").is_ok_and(|call| call.arguments() == "{}"));
    assert!(ToolCall::new("1", "a", "[]").is_err() && ToolCall::new("1", "a", "{\"a\"").is_err());
}
