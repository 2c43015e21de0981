//! Released templates against transformers. They are other people's texts, so that the repository has hashes only:
//! `tests/peer/templates.py` makes `released.json.br` and `released_tools.json.br`, and says where templates are.

use std::path::Path;

use brotli_decompressor::Decompressor;
use chrono::DateTime;
use serde_json::Value;

use super::*;
use crate::embedded;

/// FNV-1a.
fn hash(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    format!("{:016x}", text.bytes().fold(0xCBF2_9CE4_8422_2325, step))
}

struct Case {
    name: String,
    messages: Vec<Message>,
    generation: bool,
    flags: Vec<(String, bool)>,
}

fn case(value: &Value) -> Case {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let parts = |parts: &Value| {
        let thinking = parts.get(2).map(|thinking| format!("<seed:think>{}</seed:think>", text(thinking)));
        Message::new(text(&parts[0]), thinking.unwrap_or_default() + &text(&parts[1]))
    };
    let flags = value["flags"].as_object().expect("flags").iter();
    Case {
        name: text(&value["name"]),
        messages: value["messages"].as_array().expect("messages").iter().map(parts).collect(),
        generation: value["generation"].as_bool().expect("a flag"),
        flags: flags.map(|(name, on)| (name.clone(), on.as_bool().expect("a flag"))).collect(),
    }
}

/// A template of the version that was rendered, and the hashes of its texts, one for each case.
struct Released {
    name: String,
    template: ChatTemplate,
    texts: Vec<Value>,
}

/// The cases of a golden file, and the released templates that are there.
fn golden(compressed: &[u8]) -> Option<(Vec<Value>, Vec<Released>)> {
    let Some(folder) = std::env::var_os("LONGHAND_TEMPLATES") else {
        println!("skipped: LONGHAND_TEMPLATES names no folder");
        return None;
    };
    let golden: Value =
        serde_json::from_reader(Decompressor::new(compressed, 4096)).expect("the golden file");
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    let tokenizer = Tokenizer::from_gguf(&file).expect("the embedded vocabulary");
    let now = DateTime::parse_from_rfc3339("2026-07-06T08:09:10Z").expect("a date");
    let list = |name: &str| golden[name].as_array().expect("a list").clone();
    let mut released = Vec::new();
    for entry in list("templates") {
        let name = entry["name"].as_str().expect("a name");
        let Ok(source) = std::fs::read_to_string(Path::new(&folder).join(name)) else { continue };
        if entry["template"] != hash(&source).as_str() {
            println!("{name} is another version");
            continue;
        }
        let template =
            ChatTemplate::at(Some(&source), &tokenizer, now).unwrap_or_else(|e| panic!("{name}: {e}"));
        let texts = entry["texts"].as_array().expect("hashes").clone();
        released.push(Released { name: name.to_owned(), template, texts });
    }
    Some((list("cases"), released))
}

#[test]
fn released_templates_render_as_in_transformers() {
    let Some((cases, released)) = golden(include_bytes!("released.json.br")) else { return };
    let cases: Vec<Case> = cases.iter().map(case).collect();
    let (mut compared, mut wrong) = (0, Vec::new());
    for Released { name, template, texts } in released {
        for (case, want) in cases.iter().zip(&texts) {
            let mut template = template.clone();
            let flags = case.flags.iter().map(|(flag, on)| (flag.to_string(), Variable::Flag(*on)));
            template.variables.extend(flags);
            let rendered = template.render(&case.messages, case.generation);
            if want.as_str() == Some("") {
                continue; // it does not work in transformers
            }
            compared += 1;
            if rendered.as_ref().ok().map(|text| hash(text)).as_deref() != want.as_str() {
                wrong.push(format!("{name}, {}: {rendered:?}", case.name));
            }
        }
    }
    println!("{compared} texts compared");
    assert!(wrong.is_empty(), "{} of {compared} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A message of OpenAI's form.
fn message(value: &Value) -> Message {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let call = |call: &Value| {
        let (id, function) = (call["id"].as_str().expect("an id"), &call["function"]);
        let name = function["name"].as_str().expect("a name");
        ToolCall::new(id, name, &function["arguments"].to_string()).expect("arguments")
    };
    Message {
        tool_calls: value["tool_calls"].as_array().into_iter().flatten().map(call).collect(),
        tool_call_id: text("tool_call_id"),
        name: text("name"),
        ..Message::new(text("role").expect("a role"), text("content").expect("a content"))
    }
}

#[test]
fn released_templates_render_tools_as_in_transformers() {
    let Some((cases, released)) = golden(include_bytes!("released_tools.json.br")) else { return };
    let (mut compared, mut wrong) = (0, Vec::new());
    for Released { name, template, texts } in released {
        for (case, want) in cases.iter().zip(&texts) {
            let tools = Tools::new(case["tools"].as_array().expect("tools").clone()).expect("tools");
            let messages: Vec<Message> =
                case["messages"].as_array().expect("messages").iter().map(message).collect();
            let prompt = template.with_tools(&tools).and_then(|template| template.prompt(&messages, true));
            let (case, text) = (&case["name"], prompt.as_ref().ok().map(|prompt| hash(&prompt.text)));
            compared += 1;
            if text.as_deref() != want.as_str() {
                wrong.push(format!("{name}, {case}: {prompt:?}"));
            }
        }
    }
    println!("{compared} texts compared");
    assert!(wrong.is_empty(), "{} of {compared} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The calls that a stream reads in what a template writes for the last of these messages.
fn read_back(template: &ChatTemplate, format: &ToolFormat, messages: &[Message]) -> Vec<ToolCall> {
    let text =
        |messages: &[Message], generation| template.prompt(messages, generation).map(|prompt| prompt.text);
    let before = text(&messages[..messages.len() - 1], true).expect("renders");
    let all = text(messages, false).expect("renders");
    let same = before.char_indices().zip(all.chars()).take_while(|((_, a), b)| a == b);
    let behind = same.last().map_or(0, |((at, a), _)| at + a.len_utf8());
    // What the prompt ends with may have the first characters in common with the answer.
    let starts = (0..=8).rev().filter_map(|back| behind.checked_sub(back));
    let read = starts.filter_map(|start| {
        let mut stream = ToolStream::new(format, template.tools()?.clone());
        let mut pieces = stream.push(all.get(start..)?);
        pieces.extend(stream.finish());
        let calls = pieces.into_iter().filter_map(|piece| match piece {
            ToolPiece::Call(call) => Some(call),
            _ => None,
        });
        Some(calls.collect::<Vec<_>>())
    });
    read.max_by_key(Vec::len).unwrap_or_default()
}

#[test]
fn calls_that_released_templates_write_are_read_back() {
    let Some((cases, released)) = golden(include_bytes!("released_tools.json.br")) else { return };
    let (mut compared, mut wrong) = (0, Vec::new());
    for Released { name, template, texts } in released {
        let format = ToolFormat::of(&template).expect("no limit is exceeded");
        let writes_calls = !texts[2].is_null();
        println!("{name}: {}", format.as_ref().map_or("-".to_owned(), |format| format!("{format:?}")));
        let Some(format) = format.filter(|_| writes_calls) else { continue };
        for case in cases.iter().zip(&texts).filter(|(_, text)| !text.is_null()).map(|(case, _)| case) {
            let tools = Tools::new(case["tools"].as_array().expect("tools").clone()).expect("tools");
            let messages = case["messages"].as_array().expect("messages").iter().map(message);
            let messages: Vec<Message> = messages.collect();
            let Some(answer) = messages.iter().position(|message| !message.tool_calls.is_empty()) else {
                continue;
            };
            let template = template.with_tools(&tools).expect("knows tools");
            let read = read_back(&template, &format, &messages[..=answer]);
            let plain = |call: &ToolCall| (call.name.clone(), call.object());
            let same = read.iter().map(plain).eq(messages[answer].tool_calls.iter().map(plain));
            compared += 1;
            if !same {
                wrong.push(format!("{name}, {}: {read:?}", case["name"]));
            }
        }
    }
    println!("{compared} conversations compared");
    assert!(wrong.is_empty(), "{} of {compared} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
