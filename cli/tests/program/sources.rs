//! Where text stands in the documents: `text --json`, `/show`, `/find`; where answers come from, and what of them stands in no
//! document.

use std::fs;

use serde_json::{Value, json};

use crate::common::{
    DOCUMENT, KEY, KEY_IS, NUMBER, Run, command, file, finished, longhand, longhand_with_input, scratch,
    talking_model,
};

/// A document of another program, see cli/documents/tests/fixtures/README.md.
fn fixture(name: &str) -> String {
    format!("{}/documents/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A chat about documents, with these messages.
fn chat(documents: &[&str], lines: &[&str]) -> Run {
    let mut args = vec!["chat", "--private"];
    documents.iter().for_each(|document| args.extend(["-f", document]));
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    longhand_with_input(&args, input.as_bytes())
}

/// A text of several sections.
fn sections(name: &str) -> String {
    let text =
        format!("# Boats\n\nThe old boat.\n\n## Numbers\n\n{DOCUMENT}\n# Résumé\n\nThe end of the <boat>.\n");
    file(name, text)
}

#[test]
fn text_says_where_its_parts_are() {
    let markdown = sections("sources-parts.md");
    let objects = longhand(&["text", "--json", &fixture("boat.pdf"), &markdown]).json();
    let pages: Vec<u64> = parts(&objects[0]).iter().filter_map(|part| part["page"].as_u64()).collect();
    assert_eq!(pages, [1, 2, 3]);
    for object in objects.as_array().expect("an array") {
        let text = object["text"].as_str().expect("a text");
        let whole: String = parts(object)
            .iter()
            .map(|part| {
                &text[part["start"].as_u64().expect("a start") as usize
                    ..part["end"].as_u64().expect("an end") as usize]
            })
            .collect();
        assert_eq!(whole, text, "{}", object["name"]);
    }
    let markdown_parts = parts(&objects[1]);
    let titles: Vec<&Value> = markdown_parts.iter().map(|part| &part["section"]).collect();
    assert_eq!(titles, ["Boats", "Numbers", "Résumé"]);
    assert!(
        parts(&objects[1])
            .iter()
            .all(|part| part["document"] == "sources-parts.md" && part["page"].is_null())
    );
    // What was printed before is printed still.
    let plain = longhand(&["text", &markdown]).ok();
    assert_eq!(plain, fs::read_to_string(&markdown).expect("a file"));
}

fn parts(object: &Value) -> Vec<Value> {
    object["parts"].as_array().expect("parts").clone()
}

#[test]
fn pages_and_sections_are_shown() {
    let (pdf, markdown) = (fixture("boat.pdf"), sections("sources-show.md"));
    let out = chat(&[&pdf, &markdown], &["/show"]).ok();
    assert!(out.contains("boat.pdf: 3 pages, ") && out.contains("\n    Numbers\n"), "{out}");
    let page = chat(&[&pdf, &markdown], &["/show 2"]).ok();
    let texts = longhand(&["text", "--json", &pdf]).json();
    let second = &parts(&texts[0])[1];
    let text = texts[0]["text"].as_str().expect("a text");
    let second = &text[second["start"].as_u64().expect("a start") as usize
        ..second["end"].as_u64().expect("an end") as usize];
    assert_eq!(page, format!("boat.pdf p. 2\n{}\n", second.trim()));
    assert_eq!(chat(&[&pdf, &markdown], &["/show boat.pdf p. 2"]).ok(), page);
    let section = chat(&[&pdf, &markdown], &["/show numbers"]).ok();
    assert_eq!(section, format!("sources-show.md, Numbers\n## Numbers\n\n{}\n", DOCUMENT.trim_end()));
    let run = chat(&[&pdf, &markdown], &["/show 9", "/show nowhere", "/show source"]);
    run.says(&[
        "error: no page, section or document is called 9\nhint: /show lists them",
        "error: no page, section or document is called nowhere",
        "error: the last answer has no source",
    ]);
    let both = chat(&[&pdf, &pdf], &["/show 1"]);
    both.says(&["error: 2 places are called 1: boat.pdf p. 1; boat.pdf p. 1"]);
    chat(&[], &["/show", "/find x"]).says(&[
        "error: there are no documents to show\nhint: /read FILE reads one",
        "error: there are no documents to search",
    ]);
}

#[test]
fn words_are_found_with_their_pages() {
    let (pdf, markdown) = (fixture("boat.pdf"), sections("sources-find.md"));
    let out = chat(&[&pdf, &markdown], &["/find PASS KEY is", "/find resume", "/find submarine"]).ok();
    assert!(out.contains("boat.pdf p. ") && out.contains("sources-find.md, Numbers: "), "{out}");
    assert!(out.contains("sources-find.md, Résumé: # Résumé\n1 place\n"), "{out}");
    assert!(out.ends_with("submarine is not in the documents\n"), "{out}");
    let many = file("sources-many.txt", "a boat\n".repeat(1000));
    let out = chat(&[&many], &["/find boat"]).ok();
    assert!(out.lines().count() == 31 && out.ends_with("the first 30 of 1,000 places\n"), "{out}");
    chat(&[&many], &["/find"]).says(&["error: no words are given\nhint: for example: /find notice period"]);
}

/// The answer is written by a grammar: the model itself answers in one sentence.
#[test]
fn each_sentence_of_an_answer_has_its_own_source() {
    let said = [
        "Mary's favorite number is 34251.",
        "Carol's favorite number is 91827.",
        "Here you are: all of that.",
    ];
    let document = file(
        "statements.txt",
        format!("The garden is green. {} It rained for a week. {} The boat sank.", said[1], said[0]),
    );
    let grammar =
        file("statements.lark", format!("start: \"{}\\n\\n1. {} {}\"\n", said[2], said[0], said[1]));
    let run = |flags: &[&str]| {
        longhand(&[&["ask", "-f", &document, "--grammar-file", &grammar, NUMBER], flags].concat())
    };
    let answer = run(&["--json"]).json()["answers"][0].clone();
    let sources = answer["sources"].as_array().expect("an array");
    for (text, statement) in [(said[0], format!("1. {}", said[0])), (said[1], said[1].to_owned())] {
        let source = sources.iter().find(|source| source["text"] == text).expect("a source");
        assert_eq!(source["statements"], json!([statement]), "{answer}");
    }
    let all: usize =
        sources.iter().map(|source| source["statements"].as_array().expect("an array").len()).sum();
    assert_eq!(all, 2, "{answer}");
    let listed = run(&["--sources"]).stderr;
    assert!(listed.contains(&format!("   {}\n   answer: “{}”\n", said[1], said[1])), "{listed}");
    // An answer of one sentence has a list of sources alone.
    let one = longhand(&["ask", "--json", "-f", &document, NUMBER]).json();
    assert_eq!(one["answers"][0]["sources"][0]["statements"], json!([]));
}

#[test]
fn answers_have_sources() {
    let pdf = fixture("boat.pdf");
    let page = chat(&[&pdf], &["/find pass key is"]).ok();
    let page = page.lines().next().expect("a line").split(':').next().expect("a location").to_owned();
    let asked = longhand(&["ask", "--json", "-f", &pdf, KEY]).json();
    let answer = &asked["answers"][0];
    let source = &answer["sources"][0];
    assert!(source["text"].as_str().expect("a text").contains("9078648"), "{answer}");
    assert_eq!(format!("{} p. {}", source["document"].as_str().expect("a name"), source["page"]), page);
    let text = longhand(&["text", "--json", &pdf]).json()[0]["text"].as_str().expect("a text").to_owned();
    let range =
        source["start"].as_u64().expect("a start") as usize..source["end"].as_u64().expect("an end") as usize;
    assert_eq!(source["text"], text[range]);
    assert!((0.0..=1.0).contains(&source["weight"].as_f64().expect("a weight")));
    assert_eq!(answer["not_in_documents"], Value::Array(Vec::new()));

    // The answers alone are on stdout.
    let run = longhand(&["ask", "--sources", "-f", &pdf, KEY]);
    run.says(&[&format!("1. {page} (")]);
    assert_eq!(run.ok(), format!("{KEY_IS}\n"));
    let plain = longhand(&["ask", "-f", &pdf, KEY]);
    assert!(!plain.stderr.contains(&page), "{}", plain.stderr);

    let off = longhand(&["ask", "--json", "--sources=off", "-f", &pdf, KEY]).json();
    assert_eq!(off["answers"][0]["sources"], Value::Null);
    let by_setting = finished(
        command(&["ask", "--json", "-f", &pdf, KEY])
            .env("LONGHAND_SOURCES", "off")
            .output()
            .expect("the program"),
    );
    assert_eq!(by_setting.json()["answers"][0]["sources"], Value::Null);
    longhand(&["ask", "--sources=maybe", "-f", &pdf, KEY]).assert_failed(2, "maybe");
    let none = longhand(&["ask", "--json", &format!("{DOCUMENT}\n{KEY}")]).json();
    assert_eq!(none["answers"][0]["sources"], Value::Array(Vec::new()));
    assert_eq!(none["answers"][0]["no_sources"], "there are no documents that the answer could come from");
    assert_eq!(none["answers"][0]["not_in_documents"], Value::Null);
}

#[test]
fn each_document_has_its_own_sources() {
    let (first, second) = (file("sources-a.txt", DOCUMENT), sections("sources-b.md"));
    let out = longhand(&["ask", "--each", "--json", &first, &second, "-p", KEY]).ok();
    for (line, name) in out.lines().zip(["sources-a.txt", "sources-b.md"]) {
        let object: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(object["answers"][0]["sources"][0]["document"], name, "{object}");
    }
}

#[test]
fn a_chat_shows_and_exports_sources() {
    let pdf = fixture("boat.pdf");
    let export = scratch("sources-export").join("talk.md");
    let _ = fs::remove_file(&export);
    let to = format!("/export {}", export.display());
    let run = chat(&[&pdf], &["/sources", KEY, "/sources", "/show source", &to, "/undo", "/sources"]);
    run.says(&["error: there is no answer yet"]);
    let out = run.ok();
    let list = out.split_once(&format!("{KEY_IS}\n")).expect("the answer").1;
    assert!(list.starts_with("1. boat.pdf p. ") && list.contains("9078648"), "{list}");
    let exported = fs::read_to_string(&export).expect("a file");
    assert!(exported.contains("\nFrom:\n\n- boat.pdf p. "), "{exported}");

    let mut off = command(&["chat", "--private", "--sources=off", "-f", &pdf, "-p", KEY]);
    let off = finished(off.output().expect("the program"));
    assert_eq!(off.ok(), format!("{KEY_IS}\n"));
}

#[test]
fn added_documents_and_resumed_chats_know_their_pages() {
    let (pdf, markdown) = (fixture("boat.pdf"), sections("sources-added.md"));
    let session = scratch("sources-sessions").join("talk.session");
    let _ = fs::remove_file(&session);
    let session = session.display().to_string();
    let read = format!("/read {markdown}");
    // A document before the first question, and one behind it, also after undo.
    let begin = ["chat", "--session", &session, "-f", &pdf];
    let lines = format!("{KEY}\n{read}\n{NUMBER}\n/sources\n/show numbers\n");
    let out = longhand_with_input(&begin, lines.as_bytes()).ok();
    assert!(out.contains("1. sources-added.md, Numbers (") || out.contains("1. boat.pdf p. "), "{out}");
    assert!(out.contains("sources-added.md, Numbers\n## Numbers\n"), "{out}");
    let again = ["chat", "--session", &session];
    let run = longhand_with_input(&again, b"/sources\n/show 2\n/show numbers\n/undo\n/undo\n/show numbers\n/show boat.pdf 3\n/find favorite number is\n");
    let out = run.ok();
    assert!(out.starts_with("1. ") && out.contains("\nboat.pdf p. 2\n"), "{out}");
    assert_eq!(out.matches("sources-added.md, Numbers\n## Numbers\n").count(), 2, "{out}");
    assert!(out.contains("\nboat.pdf p. 3\n"), "{out}");
    assert!(out.contains("sources-added.md, Numbers: ") && out.contains("boat.pdf p. "), "{out}");
}

#[test]
fn sources_of_earlier_answers_are_there_when_a_chat_is_resumed() {
    let (pdf, folder) = (fixture("boat.pdf"), scratch("sources-resumed"));
    let session = folder.join("talk.session").display().to_string();
    let [before, after] = ["before.md", "after.md"].map(|name| folder.join(name).display().to_string());
    for path in [&session, &before, &after] {
        let _ = fs::remove_file(path);
    }
    let begin = ["chat", "--session", &session, "-f", &pdf];
    let lines = format!("{KEY}\nWhat is the color of the boat?\n/export {before}\n");
    longhand_with_input(&begin, lines.as_bytes()).ok();
    let exported = fs::read_to_string(&before).expect("a file");
    assert!(exported.contains("\nFrom:\n\n- boat.pdf p. "), "{exported}");

    let shown = longhand(&["sessions", "export", &session]).ok();
    assert_eq!(shown, exported);
    let json = longhand(&["sessions", "export", "--json", &session]).json();
    let source = &json["turns"][0]["sources"][0];
    assert_eq!(source["document"], "boat.pdf", "{json}");
    assert!(source["text"].as_str().expect("a text").contains("9078648"), "{json}");
    let lines = format!("/export {after}\n/undo\n/sources\n/show source\n");
    let out = longhand_with_input(&["chat", "--session", &session], lines.as_bytes()).ok();
    assert_eq!(fs::read_to_string(&after).expect("a file"), exported);
    assert!(out.starts_with("1. boat.pdf p. ") && out.contains("9078648"), "{out}");
    // Without sources, nothing is kept that was found before.
    let lines = format!("/undo\n{KEY}\n/sources\n");
    let off = longhand_with_input(&["chat", "--session", &session, "--sources=off"], lines.as_bytes());
    off.says(&["error: sources are off"]);
}

#[test]
fn documents_of_the_same_name_are_told_apart() {
    let folder = scratch("sources-alike");
    let document = |name: &str, key: &str| {
        let path = folder.join(name);
        fs::create_dir_all(&path).expect("a folder");
        let path = path.join("notes.txt");
        fs::write(&path, format!("The old boat. The pass key of {name} is {key}. It rained."))
            .expect("a file");
        path.display().to_string()
    };
    let (first, second) = (document("first", "1111111"), document("second", "9078648"));
    let question = "What is the pass key of second?";
    let out = chat(&[&first, &second], &[question, "/sources", "/show source 1"]).ok();
    assert!(out.contains("1. notes.txt (2 of 2) ("), "{out}");
    assert!(
        out.ends_with("\nnotes.txt (2 of 2)\nThe old boat. The pass key of second is 9078648. It rained.\n"),
        "{out}"
    );
    let added = format!("/read {second}");
    let out = chat(&[&first], &["What is the pass key of first?", &added, question, "/sources"]).ok();
    assert!(out.contains("notes.txt (2 of 2) ("), "{out}");
}

#[test]
fn what_stands_in_no_document_is_listed() {
    let model = talking_model(
        "sources-invents.gguf",
        &[
            "The number is 34251",
            ", or 1,540",
            ", says Peter",
            " Anderson.",
            " Mary's key: \"the pass key is 9078648\".",
        ],
        None,
    );
    let document = file("sources-invents.txt", DOCUMENT);
    let asked =
        longhand(&["ask", "-m", &model, "--json", "-f", &document, "What is the number of the boat?"]).json();
    let answer = &asked["answers"][0];
    let text = answer["answer"].as_str().expect("an answer");
    let absent = answer["not_in_documents"].as_array().expect("an array");
    let named: Vec<(&str, &str)> = absent
        .iter()
        .map(|absent| (absent["kind"].as_str().expect("a kind"), absent["text"].as_str().expect("a text")))
        .collect();
    assert_eq!(named, [("number", "1,540"), ("name", "Peter Anderson")], "{answer}");
    for absent in absent {
        let range = absent["start"].as_u64().expect("a start") as usize
            ..absent["end"].as_u64().expect("an end") as usize;
        assert_eq!(absent["text"], text[range]);
    }
    // What stands in the question is known, too.
    let known =
        longhand(&["ask", "-m", &model, "--json", "-f", &document, "Is it 1540, Peter Anderson?"]).json();
    assert_eq!(known["answers"][0]["not_in_documents"], Value::Array(Vec::new()));
    let alone = longhand(&["ask", "-m", &model, "--json", "What is the number?"]).json();
    assert_eq!(alone["answers"][0]["not_in_documents"], Value::Null);
}
