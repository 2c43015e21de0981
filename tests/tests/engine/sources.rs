//! Where answers come from: what retrieval heads attend to while an answer is written.

use std::sync::Arc;

use longhand::policy::PolicyChoice;
use longhand::{Chat, ChatOptions, Engine, ModelSource, Preamble, Session, SessionOptions, Type};
use tests::engine_options;

const QUESTION: &str = "What is Mary's favorite number?";
const NEEDLE: &str = "Mary's favorite number is 34251.";

fn engine() -> Arc<Engine> {
    Engine::open(&ModelSource::Embedded, &engine_options()).expect("embedded model")
}

/// A document with the needle among sentences that say nothing of it.
fn document() -> String {
    let filler = |number: usize| {
        format!(
            "The {} boat crossed the river {number} times before it rained. ",
            ["old", "small", "red"][number % 3]
        )
    };
    let (before, after): (String, String) = ((0..40).map(filler).collect(), (40..70).map(filler).collect());
    format!("{before}{NEEDLE} {after}Bob's favorite number is 7690.")
}

fn chat(policy: &str, types: (Type, Type)) -> Chat {
    let engine = engine();
    let policy: PolicyChoice = policy.parse().expect("a policy");
    let options = SessionOptions { context: 4096, policy, types, ..SessionOptions::default() };
    let session = Session::new(&engine, options).expect("a session");
    let format = engine.model().chat_format().expect("its format");
    let preamble = Preamble::new(format, None, &document()).expect("a preamble");
    Chat::new(session, ChatOptions { preamble, ..ChatOptions::default() }).expect("a chat")
}

#[test]
fn the_needle_comes_first() {
    for policy in ["full"] {
        for types in [(Type::F16, Type::F16), (Type::Q8_0, Type::Q8_0), (Type::IQ4_NL, Type::IQ4_NL)] {
            let mut chat = chat(policy, types);
            chat.record_sources(true).expect("memory");
            let answer = chat.ask(QUESTION, &mut |_| ()).expect("an answer").text;
            assert_eq!(answer.trim(), NEEDLE, "{policy} {types:?}");
            let sources = chat.sources(3).expect("sources");
            let first = sources.found.first().expect("a source");
            assert_eq!(chat.source_text(first), NEEDLE, "{policy} {types:?} {sources:?}");
            assert!(first.weight > 0.5, "{sources:?}");
        }
    }
}
