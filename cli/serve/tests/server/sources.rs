//! Where in the documents answers come from.

use serde_json::{Value, json};

use crate::fixture::{FACT, Fixture, QUESTION, Running, filler, question, with};

/// A document with the fact among sentences that say nothing of it.
fn document() -> String {
    format!("{} {FACT} {}", filler(140), filler(70))
}

fn server() -> Running {
    Fixture { document: document(), sources: true, ..Fixture::default() }.start()
}

/// Checks that an answer comes from the fact, which stands in the document of the server.
fn check(answer: &Value) {
    let first = &answer["sources"][0];
    assert_eq!((&first["text"], &first["document"]), (&json!(FACT), &json!("boat.txt")), "{answer}");
    assert_eq!((&first["page"], &first["section"]), (&Value::Null, &Value::Null));
    let byte = |name: &str| first[name].as_u64().expect("a number") as usize;
    assert_eq!(document()[byte("start")..byte("end")], *FACT);
    assert!(first["weight"].as_f64().is_some_and(|weight| (0.5..=1.0).contains(&weight)), "{answer}");
    assert_eq!((&answer["not_in_documents"], answer.get("no_sources")), (&json!([]), None));
}

#[test]
fn sources_say_what_of_an_answer_comes_from_them() {
    let definition = format!("start: \"That is known. {FACT}\"");
    let shape = json!({"type": "grammar", "syntax": "lark", "definition": definition});
    let asked = with(with(question(QUESTION), "sources", true), "response_format", shape);
    let answer = server().chat(&asked).json()["choices"][0].clone();
    let sources = answer["sources"].as_array().expect("an array").iter();
    let found = sources.filter(|source| source["statements"] != json!([])).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{answer}");
    assert_eq!((&found[0]["text"], &found[0]["statements"]), (&json!(FACT), &json!([FACT])));
}

#[test]
fn each_interface_says_where_an_answer_comes_from() {
    let server = server();
    let asked = with(question(QUESTION), "sources", true);
    let whole = server.chat(&asked).json();
    assert_eq!(whole["choices"][0]["message"]["content"], FACT);
    check(&whole["choices"][0]);
    let chunks = server.chat(&with(asked.clone(), "stream", true)).events();
    let told: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0])
        .filter(|choice| choice.get("sources").is_some())
        .collect();
    assert_eq!((told.len(), &told[0]["finish_reason"]), (1, &json!("stop")));
    check(told[0]);

    let asked = json!({"input": QUESTION, "temperature": 0, "sources": true});
    check(&server.post("/v1/responses", &asked).json());
    let events = server.post("/v1/responses", &with(asked, "stream", true)).events();
    let last = events.last().expect("events");
    assert_eq!(last["type"], "response.completed");
    check(&last["response"]);

    let mut asked = with(question(QUESTION), "sources", true);
    asked["max_tokens"] = json!(50);
    check(&server.post("/v1/messages", &asked).json());
    let events = server.post("/v1/messages", &with(asked.clone(), "stream", true)).events();
    let end = events.iter().find(|event| event["type"] == "message_delta").expect("an end");
    check(&end["delta"]);
    assert_eq!(server.post("/v1/messages/count_tokens", &asked).status, 200);
}

#[test]
fn each_of_several_answers_has_its_own_sources() {
    let server = server();
    let asked = with(with(question(QUESTION), "sources", true), "n", 2);
    let choices = server.chat(&asked).json()["choices"].clone();
    check(&choices[0]);
    check(&choices[1]);
    // An answer with another number than the documents have. Its tokens are those of the fact, with others in between.
    let digits = server.post("/tokenize", &json!({"content": "34251"})).json()["tokens"].clone();
    let bias: serde_json::Map<String, Value> =
        digits.as_array().expect("tokens").iter().map(|token| (token.to_string(), json!(-100))).collect();
    let other = server.chat(&with(with(asked, "logit_bias", bias), "n", 1)).json()["choices"][0].clone();
    let text = other["message"]["content"].as_str().expect("a text");
    let absent = &other["not_in_documents"][0];
    let byte = |name: &str| absent[name].as_u64().unwrap_or_else(|| panic!("{other}")) as usize;
    assert_eq!(&text[byte("start")..byte("end")], absent["text"]);
    assert_eq!(absent["kind"], "number");
}

#[test]
fn documents_that_were_sent_are_named() {
    let server = Fixture { sources: true, ..Fixture::default() }.start();
    let send = |name: &str, text: &str| {
        let sent = server.post("/v1/documents", &json!({"name": name, "text": text})).json();
        sent["id"].as_str().expect("a name").to_owned()
    };
    let one = send("one.md", &format!("# Boats\n\n{}\n", filler(70)));
    let other = send("two.md", &format!("# Rivers\n\n{}\n\n## Numbers\n\n{FACT}\n", filler(35)));
    let asked = with(with(question(QUESTION), "sources", true), "documents", json!([one, other]));
    let answer = server.chat(&asked).json()["choices"][0].clone();
    let first = &answer["sources"][0];
    assert_eq!(
        (&first["text"], &first["document"], &first["section"]),
        (&json!(FACT), &json!("two.md"), &json!("Numbers")),
        "{answer}"
    );
    // Without documents there is nothing to come from.
    let none = with(question(&format!("{FACT} {QUESTION}")), "sources", true);
    let none = server.chat(&none).json()["choices"][0].clone();
    assert_eq!((&none["sources"], &none["not_in_documents"]), (&json!([]), &Value::Null));
    assert_eq!(none["no_sources"], "there are no documents that the answer could come from");
}

#[test]
fn sources_come_only_where_they_are_asked_for_and_recorded() {
    let server = server();
    assert_eq!(server.get("/props").json()["sources"], true);
    let plain = server.chat(&question(QUESTION)).json();
    for name in ["sources", "no_sources", "not_in_documents"] {
        assert_eq!(plain["choices"][0].get(name), None);
    }
    assert_eq!(
        server.post("/v1/completions", &json!({"prompt": FACT, "sources": true})).status,
        400,
        "there are no documents"
    );
    let without = Fixture { document: document(), ..Fixture::default() }.start();
    let asked = with(question(QUESTION), "sources", true);
    let refused = without.chat(&asked);
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("sources")));
    assert!(refused.body.contains("--sources"), "{}", refused.body);
    for (path, body) in [
        ("/v1/responses", json!({"input": QUESTION, "sources": true})),
        ("/v1/messages", with(asked.clone(), "max_tokens", 5)),
    ] {
        assert_eq!(without.post(path, &body).status, 400, "{path}");
    }
    // Answers are the same.
    assert_eq!(without.chat(&question(QUESTION)).json()["choices"], plain["choices"]);
    assert_eq!(without.chat(&with(asked, "sources", false)).status, 200);
}
