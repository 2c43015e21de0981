//! Answers of a given shape: `ask --json-schema` and `ask --grammar-file`.

use serde_json::{Value, json};

use crate::common::{DOCUMENT, NUMBER, file, longhand};

const SCHEMA: &str = r#"{"type": "object", "properties": {"known": {"type": "boolean"}, "number": {"type": "integer", "minimum": 0,
    "maximum": 99999}}, "required": ["known", "number"], "additionalProperties": false}"#;

fn is_right(answer: &Value) -> bool {
    answer.as_object().is_some_and(|members| {
        members.len() == 2
            && members["known"].is_boolean()
            && members["number"].as_u64().is_some_and(|number| number < 100_000)
    })
}

#[test]
fn answers_are_json_by_a_schema() {
    let (document, schema) = (file("shaped.txt", DOCUMENT), file("shape.json", SCHEMA));
    for flags in
        [["--json-schema", &schema], ["-jf", &schema], ["-j", SCHEMA], ["--json-schema-file", &schema]]
    {
        let out = longhand(&[&["ask", "-f", &document], &flags[..], &[NUMBER]].concat()).ok();
        assert_eq!(out.lines().count(), 1, "{out}");
        assert!(is_right(&serde_json::from_str(&out).expect("JSON")), "{out}");
    }
    let args = ["ask", "-f", &document, "--json", "-j", SCHEMA, NUMBER, NUMBER];
    let out: Value = serde_json::from_str(&longhand(&args).ok()).expect("JSON");
    for answer in out["answers"].as_array().expect("answers") {
        let text = answer["answer"].as_str().expect("a text");
        assert!(is_right(&serde_json::from_str(text).expect("JSON")), "{text}");
        assert_eq!(answer["stop"], "end");
    }
}

#[test]
fn each_document_has_an_answer_of_the_shape() {
    let documents = [file("each-shape-1.txt", DOCUMENT), file("each-shape-2.txt", DOCUMENT)];
    // Spaces within JSON stay as they are.
    let schema = json!({"const": "two  spaces"}).to_string();
    let args = ["ask", "--each", "-f", &documents[0], "-f", &documents[1], "-j", &schema, NUMBER];
    let out = longhand(&args).ok();
    assert_eq!(out.lines().filter(|line| line.ends_with("\t\"two  spaces\"")).count(), 2, "{out}");
}

#[test]
fn answers_follow_a_grammar() {
    let grammar = file("shape.lark", "start: \"It is \" number \".\"\nnumber: /[1-9][0-9]{4}/\n");
    let document = file("grammar.txt", DOCUMENT);
    let out = longhand(&["ask", "-f", &document, "--grammar-file", &grammar, NUMBER]).ok();
    assert!(
        out.len() == "It is 34251.\n".len() && out.starts_with("It is ") && out.ends_with(".\n"),
        "{out}"
    );
}

/// What has no shape yet is printed, and never passes for an answer.
#[test]
fn an_answer_that_is_cut_off_is_an_error() {
    let document = file("cut-shape.txt", DOCUMENT);
    let args = ["ask", "-f", &document, "-n", "3", "-j", SCHEMA, NUMBER];
    for more in [&[][..], &["--json"], &["--each"], &["--each", "--json"]] {
        let run = longhand(&[&args, more].concat());
        let words = "the answer was cut off after 3 tokens, before it had the shape that is asked for";
        assert!(run.code == Some(4) && run.stderr.contains(words), "{more:?}: {:?} {}", run.code, run.stderr);
    }
}

#[test]
fn shapes_that_cannot_be_used_are_errors_in_words() {
    let gbnf = file("shape.gbnf", "root ::= \"yes\"\n");
    let wrong = file("wrong.json", "{\"type\": \"array\", \"items\": {\"not\": {}}}");
    for (flags, words) in [
        (vec!["--json-schema", "no-such.json"], "no-such.json: "),
        (
            vec!["--json-schema", &wrong],
            "wrong.json: the JSON schema at #/items: the keyword \"not\" is not supported",
        ),
        (vec!["--json-schema", "{\"type\": 1}"], "--json-schema: the JSON schema at #: "),
        (vec!["--json-schema", "{\"type\": "], "--json-schema: the JSON schema is not JSON: "),
        (vec!["--grammar-file", &gbnf], "shape.gbnf: the grammar: this is GBNF, not Lark"),
        (vec!["--grammar-file", &gbnf, "-j", "{}"], "cannot be used with"),
    ] {
        longhand(&[&["ask"], &flags[..], &["Why?"]].concat()).assert_failed(2, words);
    }
}
