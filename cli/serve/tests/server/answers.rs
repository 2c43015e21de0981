//! What the interfaces answer.

use serde_json::{Value, json};

use crate::fixture::{FACT, Fixture, QUESTION, question, with};

fn asked() -> Value {
    question(&format!("{FACT} {QUESTION}"))
}

#[test]
fn a_conversation_is_answered_whole_and_as_a_stream() {
    let server = Fixture::default().start();
    let whole = server.chat(&asked());
    assert_eq!(whole.status, 200, "{}", whole.body);
    let whole = whole.json();
    let message = &whole["choices"][0]["message"];
    assert_eq!((&message["role"], &message["content"]), (&json!("assistant"), &json!(FACT)));
    assert_eq!((&whole["choices"][0]["finish_reason"], &whole["model"]), (&json!("stop"), &json!("needle")));
    let usage = &whole["usage"];
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);
    let (prompt, answer) = (usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64());
    assert_eq!(usage["total_tokens"].as_u64(), prompt.zip(answer).map(|(prompt, answer)| prompt + answer));

    let stream = with(with(asked(), "stream", true), "stream_options", json!({"include_usage": true}));
    let stream = server.chat(&stream);
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    assert!(stream.body.ends_with("data: [DONE]\n\n"), "{}", stream.body);
    let chunks = stream.events();
    let text =
        |chunk: &Value| chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
    assert_eq!(chunks.iter().map(text).collect::<String>(), FACT);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let reasons: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["finish_reason"])
        .filter(|reason| !reason.is_null())
        .collect();
    assert_eq!(reasons, ["stop"]);
    let usage = &chunks.last().expect("the usage")["usage"];
    // The same text was read before.
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"].as_u64(), prompt);
    assert_eq!(usage["completion_tokens"].as_u64(), answer);
}

#[test]
fn what_a_conversation_has_read_is_not_read_again() {
    let server = Fixture::default().start();
    let first = server.chat(&asked()).json();
    let tokens = first["usage"]["prompt_tokens"].as_u64().expect("a number");
    let answer = first["choices"][0]["message"].clone();
    let user = |text: &str| json!({"role": "user", "content": text});
    let messages = json!([asked()["messages"][0], answer, user(QUESTION)]);
    let second = server.chat(&json!({"messages": messages, "temperature": 0})).json();
    let cached = second["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("a number");
    assert!(cached >= tokens, "{cached} of {tokens}: {second}");
    // As if it had been read at once.
    let alone = Fixture::default().start().chat(&json!({"messages": messages, "temperature": 0})).json();
    assert_eq!(second["choices"], alone["choices"]);
}

#[test]
fn a_text_is_continued_as_often_as_is_asked_for() {
    let server = Fixture::default().start();
    let body = json!({"prompt": FACT, "max_tokens": 6, "n": 2, "temperature": 5.0, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 7});
    let first = server.post("/v1/completions", &body).json();
    let texts: Vec<&str> = first["choices"]
        .as_array()
        .expect("choices")
        .iter()
        .filter_map(|choice| choice["text"].as_str())
        .collect();
    assert_eq!(texts.len(), 2);
    assert_ne!(texts[0], texts[1]);
    assert_eq!(first["usage"]["completion_tokens"], 12);
    assert_eq!(first["choices"][1]["finish_reason"], "length");
    // The same seed gives the same answers.
    assert_eq!(server.post("/v1/completions", &body).json()["choices"], first["choices"]);
    let stream = server.post("/v1/completions", &with(body.clone(), "stream", true)).events();
    for (index, text) in texts.iter().enumerate() {
        let of_this =
            stream.iter().map(|chunk| &chunk["choices"][0]).filter(|choice| choice["index"] == index);
        let joined: String = of_this.filter_map(|choice| choice["text"].as_str()).collect();
        assert_eq!(joined, *text);
    }
    let tokens = server.post("/tokenize", &json!({"content": FACT})).json()["tokens"].clone();
    let by_tokens = server.post("/v1/completions", &with(body, "prompt", tokens.clone())).json();
    assert_eq!(by_tokens["choices"], first["choices"]);
    assert_eq!(server.post("/detokenize", &json!({"tokens": tokens})).json()["content"], FACT);
    // In vLLM's words.
    let same = server.post("/tokenize", &json!({"prompt": FACT, "add_special_tokens": false})).json();
    assert_eq!(same["tokens"], tokens);
    assert_eq!(server.post("/detokenize", &json!({"tokens": tokens})).json()["prompt"], FACT);
    assert_eq!(server.get("/tokenizer_info").json()["eos_token"], "<|im_end|>");
}

#[test]
fn a_stop_sequence_and_a_limit_end_an_answer() {
    let server = Fixture::default().start();
    let stopped = server.chat(&with(asked(), "stop", json!([" number"]))).json();
    assert_eq!(stopped["choices"][0]["message"]["content"], "Mary's favorite");
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    for name in ["max_tokens", "max_completion_tokens"] {
        let cut = server.chat(&with(asked(), name, 2)).json();
        assert_eq!(
            (&cut["choices"][0]["finish_reason"], &cut["usage"]["completion_tokens"]),
            (&json!("length"), &json!(2))
        );
    }
    // A bias that bans the first token of the answer.
    let tokens = server.post("/tokenize", &json!({"content": "Mary"})).json()["tokens"].clone();
    let biased = with(asked(), "logit_bias", json!({tokens[0].to_string(): -100}));
    let other = server.chat(&biased).json();
    assert!(!other["choices"][0]["message"]["content"].as_str().expect("a text").starts_with('M'), "{other}");
}

#[test]
fn log_probabilities_are_those_of_the_tokens_of_the_answer() {
    let server = Fixture::default().start();
    let body = with(with(asked(), "logprobs", true), "top_logprobs", 3);
    let whole = server.chat(&body).json();
    let tokens = whole["choices"][0]["logprobs"]["content"].as_array().expect("tokens").clone();
    let text: String = tokens.iter().filter_map(|token| token["token"].as_str()).collect();
    assert_eq!(text, FACT);
    for token in &tokens {
        let top = token["top_logprobs"].as_array().expect("alternatives");
        assert_eq!(
            (top.len(), &top[0]["token"], &top[0]["logprob"]),
            (3, &token["token"], &token["logprob"])
        );
        assert!(token["logprob"].as_f64().is_some_and(|logprob| logprob <= 0.0));
    }
    let chunks = server.chat(&with(body, "stream", true)).events();
    let streamed =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array()).flatten();
    assert_eq!(streamed.cloned().collect::<Vec<_>>(), tokens);
}

/// The lists of a choice's log-probabilities: tokens, their own, and the most likely ones.
fn lists(choice: &Value) -> [Vec<Value>; 3] {
    ["tokens", "token_logprobs", "top_logprobs"].map(|list| {
        choice["logprobs"][list].as_array().unwrap_or_else(|| panic!("no {list}: {choice}")).clone()
    })
}

#[test]
fn a_text_that_goes_on_has_log_probabilities_with_that_of_its_end() {
    let server = Fixture::default().start();
    let prompt = "<|im_start|>user\nMary's favorite number is 34251. What is Mary's favorite number?<|im_end|>\n<|im_start|>assistant\n";
    let body = json!({"prompt": prompt, "temperature": 0, "logprobs": 2});
    let choice = server.post("/v1/completions", &body).json()["choices"][0].clone();
    let [tokens, own, top] = lists(&choice);
    let joined = |tokens: &[Value]| tokens.iter().filter_map(Value::as_str).collect::<String>();
    assert_eq!((choice["text"].as_str(), joined(&tokens)), (Some(FACT), format!("{FACT}<|im_end|>")));
    for ((token, logprob), top) in tokens.iter().zip(&own).zip(&top) {
        assert_eq!(top.as_object().map(serde_json::Map::len), Some(2));
        assert_eq!((&top[token.as_str().expect("a text")], logprob.is_number()), (logprob, true));
    }
    // In a stream the same comes in parts.
    let chunks = server.post("/v1/completions", &with(body.clone(), "stream", true)).events();
    let parts = chunks.iter().map(|chunk| &chunk["choices"][0]["logprobs"]).filter(|part| !part.is_null());
    let streamed: Vec<Value> =
        parts.flat_map(|part| part["tokens"].as_array().expect("tokens").clone()).collect();
    assert_eq!(streamed, tokens);

    // What is likely in an answer is as likely in a prompt, where nothing is generated.
    let whole = format!("{prompt}{FACT}");
    let scored = json!({"prompt": whole, "temperature": 0, "logprobs": 2, "echo": true, "max_tokens": 1});
    let response = server.post("/v1/completions", &scored).json();
    let choice = &response["choices"][0];
    let [all, scores, _] = lists(choice);
    assert_eq!(choice["text"], whole, "an end token has no text");
    assert_eq!((joined(&all), &scores[0]), (format!("{whole}<|im_end|>"), &Value::Null));
    let begin = all.len() - tokens.len();
    assert_eq!(all[begin..], tokens);
    for (score, logprob) in scores[begin..].iter().zip(&own) {
        let distance = score.as_f64().expect("a number") - logprob.as_f64().expect("a number");
        assert!(distance.abs() < 0.02, "{score} and {logprob}");
    }
    // What was scored is not kept, and everything is scored each time.
    assert_eq!(response["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let again = server.post("/v1/completions", &scored).json();
    assert_eq!((&again["choices"], &again["usage"]), (&response["choices"], &response["usage"]));
    let chunks = server.post("/v1/completions", &with(scored.clone(), "stream", true)).events();
    assert_eq!(chunks[0]["choices"][0]["text"], whole);
    for (field, value) in [("n", json!(2)), ("logprobs", json!(6)), ("logprobs", json!(-1))] {
        let refused = server.post("/v1/completions", &with(scored.clone(), field, value));
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!(field)));
    }
    assert_eq!(lists(&chunks[0]["choices"][0])[0], all[..all.len() - 1]);
}

#[test]
fn a_prompt_is_repeated_in_front_of_each_answer() {
    let server = Fixture::default().start();
    let body = json!({"prompt": FACT, "max_tokens": 2, "n": 2, "echo": true});
    let whole = server.post("/v1/completions", &body).json();
    for choice in whole["choices"].as_array().expect("choices") {
        assert!(choice["text"].as_str().is_some_and(|text| text.starts_with(FACT)), "{choice}");
        assert!(choice["logprobs"].is_null());
    }
    let none = server.post("/v1/completions", &with(body.clone(), "max_tokens", 0)).json();
    assert_eq!(none["choices"][0]["text"], FACT);
    let chunks = server.post("/v1/completions", &with(body, "stream", true)).events();
    assert_eq!([0, 1].map(|chunk: usize| &chunks[chunk]["choices"][0]["text"]), [FACT, FACT]);
}

#[test]
fn messages_are_answered_in_anthropics_form() {
    let server = Fixture::default().start();
    let body = json!({
        "model": "any",
        "max_tokens": 50,
        "temperature": 0,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": format!("{FACT} {QUESTION}")}]}],
    });
    let whole = server.post("/v1/messages", &body).json();
    assert_eq!(whole["content"], json!([{"type": "text", "text": FACT}]));
    assert_eq!((&whole["type"], &whole["stop_reason"]), (&json!("message"), &json!("end_turn")));
    let mut counted = body.clone();
    counted.as_object_mut().expect("an object").retain(|name, _| name == "system" || name == "messages");
    let counted = server.post("/v1/messages/count_tokens", &counted).json();
    assert_eq!(counted["input_tokens"], whole["usage"]["input_tokens"]);

    let stream = server.post("/v1/messages", &with(body.clone(), "stream", true));
    let events = stream.events();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert!(kinds.starts_with(&["message_start", "content_block_start", "content_block_delta"]), "{kinds:?}");
    assert!(kinds.ends_with(&["content_block_stop", "message_delta", "message_stop"]), "{kinds:?}");
    let text: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(text, FACT);
    for kind in kinds {
        assert!(stream.body.contains(&format!("event: {kind}\ndata: {{\"type\":\"{kind}\"")), "{kind}");
    }
    // All of it was there.
    let usage = &events[0]["message"]["usage"];
    assert_eq!(usage["cache_read_input_tokens"], counted["input_tokens"]);
    assert_eq!(usage["input_tokens"], 0);

    let stopped = server.post("/v1/messages", &with(body, "stop_sequences", json!([" number"]))).json();
    assert_eq!(
        (&stopped["stop_reason"], &stopped["stop_sequence"]),
        (&json!("stop_sequence"), &json!(" number"))
    );
}

#[test]
fn responses_are_answered_whole_and_as_a_stream() {
    let server = Fixture::default().start();
    let content = json!([{"type": "input_text", "text": format!("{FACT} {QUESTION}")}]);
    let body = json!({
        "model": "any",
        "temperature": 0,
        "instructions": "Be brief.",
        "store": true,
        "reasoning": {"effort": "low"},
        "input": [{"type": "reasoning", "summary": []}, {"type": "message", "role": "user", "content": content}],
    });
    let whole = server.post("/v1/responses", &body).json();
    assert_eq!((&whole["status"], &whole["store"]), (&json!("completed"), &json!(false)));
    assert_eq!(whole["output"][0]["content"][0]["text"], FACT);
    let total = whole["usage"]["total_tokens"].as_u64().expect("a number");
    assert_eq!(
        whole["usage"]["input_tokens"].as_u64().map(|input| total - input),
        whole["usage"]["output_tokens"].as_u64()
    );

    let stream = server.post("/v1/responses", &with(body.clone(), "stream", true)).events();
    let numbers = stream.iter().map(|event| event["sequence_number"].as_u64());
    assert!(numbers.eq((0..stream.len() as u64).map(Some)));
    let kinds: Vec<&str> = stream.iter().filter_map(|event| event["type"].as_str()).collect();
    let begin = ["created", "in_progress", "output_item.added", "content_part.added", "output_text.delta"];
    let end = ["output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"];
    let names = |names: &[&str]| names.iter().map(|name| format!("response.{name}")).collect::<Vec<_>>();
    assert_eq!(kinds[..begin.len()], names(&begin)[..]);
    assert_eq!(kinds[kinds.len() - end.len()..], names(&end)[..]);
    let text: String = stream.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, FACT);
    let last = &stream.last().expect("events")["response"];
    assert_eq!(last["output"][0]["content"], whole["output"][0]["content"]);
    assert_eq!(last["usage"]["input_tokens_details"]["cached_tokens"], last["usage"]["input_tokens"]);

    let cut = server.post("/v1/responses", &with(body.clone(), "max_output_tokens", 2)).json();
    assert_eq!(
        (&cut["status"], &cut["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    for (name, value) in
        [("previous_response_id", json!("resp_1")), ("truncation", json!("auto")), ("input", json!([]))]
    {
        let refused = server.post("/v1/responses", &with(body.clone(), name, value));
        assert_eq!((refused.status, refused.json()["error"]["param"].as_str()), (400, Some(name)));
    }
}

#[test]
fn an_answer_has_the_shape_that_is_asked_for() {
    let server = Fixture::default().start();
    let schema = json!({
        "type": "object",
        "properties": {"name": {"enum": ["Mary", "John"]}, "number": {"type": "integer", "minimum": 0, "maximum": 99999}},
        "required": ["name", "number"],
        "additionalProperties": false,
    });
    let is_right = |text: &Value| {
        let answer: Value = serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
        assert!(
            answer["number"].is_i64() && answer.as_object().is_some_and(|fields| fields.len() == 2),
            "{answer}"
        );
    };
    let nested =
        json!({"type": "json_schema", "json_schema": {"name": "fact", "strict": true, "schema": schema}});
    let flat = json!({"type": "json_schema", "name": "fact", "schema": schema});
    let whole = server.chat(&with(asked(), "response_format", nested.clone())).json();
    is_right(&whole["choices"][0]["message"]["content"]);
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    let cut = server.chat(&with(with(asked(), "response_format", nested.clone()), "max_tokens", 3)).json();
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
    let response = json!({"input": "Who?", "text": {"format": flat}});
    let response = server.post("/v1/responses", &response).json();
    is_right(&response["output"][0]["content"][0]["text"]);
    assert_eq!(response["text"]["format"]["name"], "fact");
    let chunks = server.chat(&with(with(asked(), "response_format", nested), "stream", true)).events();
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    is_right(&json!(text));
    for (syntax, definition) in [("regex", "yes|no"), ("lark", "start: \"yes\" | \"no\"")] {
        let shape = json!({"type": "grammar", "syntax": syntax, "definition": definition});
        let answer = server.chat(&with(asked(), "response_format", shape.clone())).json();
        let text = answer["choices"][0]["message"]["content"].as_str().expect("a text");
        assert!(["yes", "no"].contains(&text), "{answer}");
        let wrong = with(with(shape, "syntax", "gbnf"), "definition", "root ::= \"yes\"");
        let error = server.chat(&with(asked(), "response_format", wrong)).json()["error"].clone();
        assert_eq!(error["param"], "response_format.syntax", "{error}");
    }
}

#[test]
fn a_reading_is_told_while_it_lasts() {
    let server = Fixture { context: 4096, ..Fixture::default() }.start();
    let long = format!("{FACT} {} {QUESTION}", crate::fixture::filler(2000));
    let chunks = server.chat(&with(with(question(&long), "stream", true), "return_progress", true)).events();
    let progress: Vec<&Value> =
        chunks.iter().map(|chunk| &chunk["prompt_progress"]).filter(|progress| !progress.is_null()).collect();
    assert!(progress.len() > 2, "{progress:?}");
    let numbers = |name: &str| progress.iter().map(|now| now[name].as_u64().expect(name)).collect::<Vec<_>>();
    assert!(numbers("processed").is_sorted());
    assert_eq!(numbers("processed").last(), numbers("total").last());
}

#[test]
fn every_conversation_is_about_the_documents_unless_it_says_otherwise() {
    let server = Fixture { document: format!("The boat was old.\n\n{FACT}\n"), ..Fixture::default() }.start();
    let content = |body: &Value| server.chat(body).json()["choices"][0]["message"]["content"].clone();
    assert_eq!(content(&question(QUESTION)), FACT);
    assert_ne!(content(&with(question(QUESTION), "documents", json!([]))), FACT);
    let system = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]);
    assert_eq!(content(&json!({"messages": system, "temperature": 0})), FACT);
    // Nothing is dropped where they have no place.
    let begun = json!([{"role": "assistant", "content": "Hello."}, {"role": "user", "content": QUESTION}]);
    assert_eq!(server.chat(&json!({"messages": begun})).status, 400);
    let named = server.chat(&with(question(QUESTION), "documents", json!(["a.txt"])));
    assert_eq!((named.status, named.json()["error"]["param"].as_str()), (400, Some("documents")));
}

#[test]
fn the_model_and_the_server_are_described() {
    let server = Fixture::default().start();
    let models = server.get("/v1/models").json();
    assert_eq!(
        (&models["data"][0]["id"], &models["data"][0]["meta"]["n_ctx"]),
        (&json!("needle"), &json!(1024))
    );
    assert_eq!(server.get("/v1/models/needle").json()["id"], "needle");
    assert_eq!(server.get("/v1/models/other").status, 404);
    assert_eq!(server.get("/props").json()["total_slots"], 1);
    assert_eq!(server.get("/health").json()["status"], "ok");
}
