//! Released templates against transformers. They are other people's texts, so that the repository has hashes only:
//! `tests/peer/templates.py` makes `released.json.br` and says where templates are.

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
    let message = |parts: &Value| {
        let thinking = parts.get(2).map(|thinking| format!("<seed:think>{}</seed:think>", text(thinking)));
        Message::new(text(&parts[0]), thinking.unwrap_or_default() + &text(&parts[1]))
    };
    let flags = value["flags"].as_object().expect("flags").iter();
    Case {
        name: text(&value["name"]),
        messages: value["messages"].as_array().expect("messages").iter().map(message).collect(),
        generation: value["generation"].as_bool().expect("a flag"),
        flags: flags.map(|(name, on)| (name.clone(), on.as_bool().expect("a flag"))).collect(),
    }
}

#[test]
fn released_templates_render_as_in_transformers() {
    let Some(folder) = std::env::var_os("LONGHAND_TEMPLATES") else {
        println!("skipped: LONGHAND_TEMPLATES names no folder");
        return;
    };
    let golden = Decompressor::new(&include_bytes!("released.json.br")[..], 4096);
    let golden: Value = serde_json::from_reader(golden).expect("the golden file");
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    let tokenizer = Tokenizer::from_gguf(&file).expect("the embedded vocabulary");
    let now = DateTime::parse_from_rfc3339("2026-07-06T08:09:10Z").expect("a date");
    let cases: Vec<Case> = golden["cases"].as_array().expect("cases").iter().map(case).collect();
    let (mut compared, mut wrong) = (0, Vec::new());
    for released in golden["templates"].as_array().expect("templates") {
        let name = released["name"].as_str().expect("a name");
        let Ok(source) = std::fs::read_to_string(Path::new(&folder).join(name)) else { continue };
        if released["template"] != hash(&source).as_str() {
            println!("{name} is another version");
            continue;
        }
        let template = ChatTemplate::at(Some(&source), &tokenizer, now);
        let Ok(template) = template.inspect_err(|e| wrong.push(format!("{name}: {e}"))) else { continue };
        for (case, want) in cases.iter().zip(released["texts"].as_array().expect("hashes")) {
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
