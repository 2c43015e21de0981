//! Calls of functions in each interface. The embedded model makes none, so the events are made up.

use std::time::Duration;

use longhand::generation::Stop;
use longhand::text::Split;
use longhand::tools::ToolCall;
use serde_json::{Value, json};

use super::whole::{Whole, WholeAnswer};
use super::{anthropic, chat, responses};
use crate::http::stream::{Sent, Writer};
use crate::service::{Answer, Event};

fn calls() -> [ToolCall; 2] {
    [("one", "{\"city\": \"Paris\"}"), ("two", "")]
        .map(|(id, arguments)| ToolCall::new(id, "get_weather", arguments).expect("a call"))
}

fn answer() -> Answer {
    let (elapsed, reading) = (Duration::from_secs(1), Duration::from_secs(1));
    let (stop, sources, end) = (Stop::EndToken(0), None, None);
    Answer { stop, calls: 2, tokens: 9, thinking: 2, elapsed, read: 20, reading, sources, end }
}

fn whole() -> Whole {
    let text = String::new();
    let thinking = "Hm.".to_owned();
    let answer =
        WholeAnswer { thinking, text, calls: calls().to_vec(), logprobs: Vec::new(), result: answer() };
    Whole { cached: 5, scores: Vec::new(), answers: vec![answer] }
}

/// What a writer sends for an answer that thinks and calls twice.
fn written(mut writer: impl Writer) -> Vec<Value> {
    let split = Split { thinking: "Hm.".to_owned(), answer: String::new() };
    let calls = calls().map(|call| Event::Call { answer: 0, call });
    let events = [Event::Begun { cached: 5 }, Event::Text { answer: 0, split, logprobs: None }]
        .into_iter()
        .chain(calls)
        .chain([Event::Answered { answer: 0, result: answer() }, Event::Done]);
    let sent: Vec<Sent> = events.flat_map(|event| writer.write(event)).collect();
    let data = sent.iter().filter(|sent| sent.data != "[DONE]");
    data.map(|sent| serde_json::from_str(&sent.data).expect("JSON")).collect()
}

#[test]
fn a_chat_has_calls_with_their_numbers() {
    let message = chat::message(&whole().answers[0]);
    assert_eq!((&message["content"], &message["reasoning_content"]), (&Value::Null, &json!("Hm.")));
    assert_eq!(
        message["tool_calls"][0],
        json!({"id": "one", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}})
    );
    assert_eq!(message["tool_calls"][1]["function"]["arguments"], "{}");
    for number in 0..2 {
        let delta = chat::call_delta(number, &calls()[number]);
        assert_eq!(
            (&delta["tool_calls"][0]["index"], &delta["tool_calls"][0]["type"]),
            (&json!(number), &json!("function"))
        );
    }
}

#[test]
fn messages_have_calls_as_blocks() {
    let whole = anthropic::Head::of_test().whole(&whole());
    assert_eq!(whole["stop_reason"], "tool_use");
    assert_eq!(whole["content"][0]["type"], "thinking");
    assert_eq!(
        whole["content"][1],
        json!({"type": "tool_use", "id": "one", "name": "get_weather", "input": {"city": "Paris"}})
    );
    let events = written(anthropic::Stream::new(anthropic::Head::of_test()));
    let starts: Vec<&Value> = events.iter().filter(|event| event["type"] == "content_block_start").collect();
    assert_eq!(
        starts.iter().map(|event| event["index"].as_u64()).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2)]
    );
    assert_eq!(starts[2]["content_block"]["id"], "two");
    let json: Vec<&str> = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(json, ["{\"city\": \"Paris\"}", "{}"]);
    let end = events.iter().find(|event| event["type"] == "message_delta").expect("an end");
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
}

#[test]
fn responses_have_calls_as_items() {
    let whole = responses::Head::of_test().whole(&whole());
    let kinds = |output: &Value| {
        output.as_array().expect("items").iter().map(|item| item["type"].clone()).collect::<Vec<_>>()
    };
    let expected = ["reasoning", "function_call", "function_call"];
    assert_eq!(kinds(&whole["output"]), expected);
    assert_eq!((&whole["output"][1]["call_id"], &whole["status"]), (&json!("one"), &json!("completed")));
    let events = written(responses::Stream::new(responses::Head::of_test()));
    let last = events.last().expect("events");
    assert_eq!(
        (&last["type"], kinds(&last["response"]["output"])),
        (&json!("response.completed"), expected.map(Value::from).to_vec())
    );
    let arguments: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "response.function_call_arguments.done")
        .filter_map(|event| event["arguments"].as_str())
        .collect();
    assert_eq!(arguments, ["{\"city\": \"Paris\"}", "{}"]);
    assert!(events.iter().enumerate().all(|(number, event)| event["sequence_number"] == number));
}
