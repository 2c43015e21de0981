//! Documents of a conversation: read before the question is known, added later, read on after an interrupt.

use std::sync::Arc;

use longhand::generation::SamplerOptions;
use longhand::reading::Prefill;
use longhand::saved::SavedChat;
use longhand::{Chat, ChatOptions, Engine, EngineOptions, ModelSource, Preamble, Session, SessionOptions};

const BOAT: &str = "The old boat crossed the river. Mary's favorite number is 34251.";
const KEY: &str = "The gardens are green in May. The pass key is 9078648. The boat sleeps.\n";
const MARY: &str = "What is Mary's favorite number?";
const MARY_IS: &str = "Mary's favorite number is 34251.";
const PASS: &str = "What is the pass key?";
const PASS_IS: &str = "The pass key is 9078648.";

fn engine() -> Arc<Engine> {
    Engine::open(&ModelSource::Embedded, &EngineOptions { threads: Some(1), ..EngineOptions::default() })
        .expect("the embedded model")
}

/// A conversation about a document.
fn chat_about(engine: &Arc<Engine>, document: &str, options: SessionOptions) -> Chat {
    let format = engine.model().chat_format().expect("a chat format");
    let names = if document.is_empty() { vec![] } else { vec!["first.txt".to_owned()] };
    let preamble = Preamble::new(format, None, document).expect("a preamble").with_names(names);
    let session = Session::new(engine, options).expect("a session");
    Chat::new(session, ChatOptions { preamble, ..ChatOptions::default() }).expect("a chat")
}

fn policies() -> [SessionOptions; 3] {
    ["full", "streaming:sinks=4,window=200,slack=0", "snapkv:window=16,capacity=200"]
        .map(|policy| SessionOptions { policy: policy.parse().expect(policy), ..SessionOptions::default() })
}

/// Reads the documents; returns how many tokens were computed.
fn read(chat: &mut Chat) -> usize {
    let before = chat.session().tokens().len();
    chat.read_documents(None, &mut |_| ()).expect("read");
    assert!(!chat.has_unread_documents().expect("documents"));
    chat.session().tokens().len() - before
}

/// Asks, where only the question is left to read.
fn ask(chat: &mut Chat, question: &str) -> String {
    let reading = chat.read(question, &mut |_| ()).expect("read");
    assert!(reading.tokens < 40, "{} tokens of {question}", reading.tokens);
    chat.answer(&mut |_| std::ops::ControlFlow::Continue(())).expect("an answer").text
}

#[test]
fn a_document_is_added_before_the_first_question() {
    let engine = engine();
    for options in policies() {
        for begins_with in ["", BOAT] {
            let mut chat = chat_about(&engine, begins_with, options.clone());
            assert_eq!(chat.has_unread_documents().expect("documents"), !begins_with.is_empty());
            read(&mut chat);
            chat.attach("key.txt", KEY).expect("added");
            assert!(chat.has_unread_documents().expect("documents"));
            assert!(read(&mut chat) > 10);
            assert_eq!(chat.next_documents().last().map(String::as_str), Some("key.txt"));
            assert_eq!(ask(&mut chat, PASS), PASS_IS);
            if !begins_with.is_empty() {
                assert_eq!(ask(&mut chat, MARY), MARY_IS);
            }
        }
    }
}

#[test]
fn a_document_is_added_to_a_conversation_that_has_begun() {
    let engine = engine();
    for options in policies() {
        let mut chat = chat_about(&engine, BOAT, options);
        read(&mut chat);
        assert_eq!(ask(&mut chat, MARY), MARY_IS);
        chat.attach("key.txt", KEY).expect("added");
        assert_eq!(
            (chat.next_documents(), chat.read_document_names()),
            (vec!["key.txt".into()], vec!["first.txt".into()])
        );
        let tokens = chat.tokens_with_documents().expect("tokens");
        assert_eq!(read(&mut chat) + chat.tokens(), tokens);
        assert_eq!(ask(&mut chat, PASS), PASS_IS);
        assert_eq!(chat.read_document_names(), ["first.txt", "key.txt"]);
        assert_eq!(ask(&mut chat, MARY), MARY_IS);

        // An undone question leaves its document for the next one.
        assert!(chat.undo() && chat.undo());
        assert_eq!(chat.next_documents(), ["key.txt"]);
        assert_eq!(chat.ask(PASS, &mut |_| ()).expect("an answer").text, PASS_IS);
        chat.clear();
        assert_eq!(chat.next_documents(), ["first.txt", "key.txt"]);
        assert_eq!(chat.ask(PASS, &mut |_| ()).expect("an answer").text, PASS_IS);
    }
}

/// They are read with the next question only, but the context needs room for them.
#[test]
fn documents_behind_a_question_without_an_answer_are_counted() {
    let mut chat = chat_about(&engine(), BOAT, SessionOptions::default());
    chat.read(MARY, &mut |_| ()).expect("read");
    assert!(chat.awaits_answer());
    let tokens = chat.tokens();
    assert_eq!(chat.tokens_with_documents().expect("none"), 0);
    let mut counted = tokens;
    for name in ["key.txt", "again.txt"] {
        chat.attach(name, KEY).expect("added");
        assert!(!chat.has_unread_documents().expect("they cannot be read alone"));
        let more = chat.tokens_with_documents().expect("tokens");
        assert!(more > counted, "{name}: {more}");
        counted = more;
    }
}

#[test]
fn documents_that_are_given_up_leave_the_conversation_as_it_was() {
    let engine = engine();
    let mut chat = chat_about(&engine, BOAT, SessionOptions::default());
    read(&mut chat);
    assert_eq!(ask(&mut chat, MARY), MARY_IS);
    let tokens = chat.tokens();
    chat.attach("key.txt", KEY).expect("added");
    read(&mut chat);
    assert_eq!(chat.detach().expect("removed"), ["key.txt"]);
    assert!(!chat.has_unread_documents().expect("documents"));
    assert_eq!(chat.tokens(), tokens);
    assert_eq!(ask(&mut chat, MARY), MARY_IS);

    let mut chat = chat_about(&engine, BOAT, SessionOptions::default());
    assert_eq!(chat.detach().expect("removed"), ["first.txt"]);
    assert!(!chat.has_unread_documents().expect("documents") && chat.next_documents().is_empty());
}

/// Questions are undone after a document was added for the next one.
#[test]
fn undone_questions_leave_later_documents_for_the_next_one() {
    let engine = engine();
    let folder = tempfile::tempdir().expect("a folder");
    for (questions, read_ahead, undone) in [(1, false, 1), (2, false, 1), (2, true, 2), (1, true, 1)] {
        let case = format!("{undone} of {questions} undone");
        let mut chat = chat_about(&engine, BOAT, SessionOptions::default());
        for _ in 0..questions {
            assert_eq!(chat.ask(MARY, &mut |_| ()).expect("an answer").text, MARY_IS);
        }
        chat.attach("key.txt", KEY).expect("added");
        if read_ahead {
            read(&mut chat);
        }
        for _ in 0..undone {
            assert!(chat.undo());
        }
        assert_eq!(chat.next_documents().last().map(String::as_str), Some("key.txt"), "{case}");
        let path = folder.path().join(format!("{questions}{undone}{read_ahead}"));
        chat.save(&path).expect("saved");
        let saved = SavedChat::open(&path).expect("opened");
        let mut restored = saved.restore(&engine, ChatOptions::default()).expect("restored");
        for chat in [&mut chat, &mut restored] {
            assert_eq!(chat.ask(PASS, &mut |_| ()).expect("an answer").text, PASS_IS, "{case}");
            assert_eq!(chat.last_question(), Some(PASS), "{case}");
        }
    }
}

/// Another answer of the same length.
#[test]
fn documents_are_read_behind_the_answer_that_there_is() {
    let engine = engine();
    let mut chat = chat_about(&engine, BOAT, SessionOptions::default());
    chat.set_answer_limit(Some(4));
    chat.ask(MARY, &mut |_| ()).expect("an answer");
    chat.attach("key.txt", KEY).expect("added");
    chat.retract_answer(&mut |_| ()).expect("no answer");
    let sampling = SamplerOptions { temperature: 3.0, seed: 5, ..SamplerOptions::default() };
    chat.set_sampling(sampling).expect("sampling");
    chat.answer(&mut |_| std::ops::ControlFlow::Continue(())).expect("another answer");
    chat.set_sampling(SamplerOptions::greedy()).expect("sampling");
    chat.set_answer_limit(None);
    read(&mut chat);
    ask(&mut chat, PASS);
}

/// What is given up takes no memory, and is not counted.
#[test]
fn a_reading_that_is_given_up_leaves_nothing() {
    let engine = engine();
    let document = "The grass is green and the sky is blue. ".repeat(60);
    let options = SessionOptions { chunk: 32, ..SessionOptions::default() };
    let mut chat = chat_about(&engine, &document, options);
    let flag = chat.session().interrupt().clone();
    chat.read_documents(None, &mut |_| flag.set()).expect_err("interrupted");
    flag.clear();
    assert!(chat.session().first_text_share().is_some() && chat.session().kv_usage().bytes == 0);
    assert_eq!(chat.detach().expect("given up"), ["first.txt"]);
    assert_eq!(chat.session().first_text_share(), None);
}

#[test]
fn added_documents_are_saved_with_the_conversation() {
    let engine = engine();
    let folder = tempfile::tempdir().expect("a folder");
    let mut chat = chat_about(&engine, BOAT, SessionOptions::default());
    let save = |chat: &Chat, name: &str| {
        let path = folder.path().join(name);
        chat.save(&path).expect("saved");
        SavedChat::open(&path).expect("opened")
    };
    let restore = |saved: SavedChat| saved.restore(&engine, ChatOptions::default()).expect("restored");
    read(&mut chat);
    let mut unasked = restore(save(&chat, "unasked"));
    assert!(!unasked.has_unread_documents().expect("documents"), "they are read");
    assert_eq!(ask(&mut unasked, MARY), MARY_IS);

    assert_eq!(ask(&mut chat, MARY), MARY_IS);
    chat.attach("key.txt", KEY).expect("added");
    let mut pending = restore(save(&chat, "pending"));
    assert_eq!(pending.next_documents(), ["key.txt"]);
    assert_eq!(pending.ask(PASS, &mut |_| ()).expect("an answer").text, PASS_IS);

    read(&mut chat);
    assert_eq!(ask(&mut chat, PASS), PASS_IS);
    let saved = save(&chat, "asked");
    assert_eq!(saved.document_names(), ["first.txt", "key.txt"]);
    assert_eq!(saved.turns(), [(MARY, Some(MARY_IS)), (PASS, Some(PASS_IS))]);
    assert_eq!(restore(saved).read_document_names(), ["first.txt", "key.txt"]);
}

/// Interrupted in every chunk, and at the end as if it had never been.
#[test]
fn an_interrupted_reading_goes_on_and_says_how_far_it_is() {
    let engine = engine();
    let document = format!("{}{BOAT}", "The grass is green and the sky is blue. ".repeat(30));
    for prefill in [Prefill::Exact, Prefill::Streaming] {
        let options = SessionOptions { prefill, chunk: 32, ..SessionOptions::default() };
        let mut fresh = chat_about(&engine, &document, options.clone());
        read(&mut fresh);
        let mut chat = chat_about(&engine, &document, options);
        let (mut shares, flag) = (Vec::new(), chat.session().interrupt().clone());
        loop {
            let read = chat.read_documents(None, &mut |progress| {
                shares.push(progress.share);
                flag.set();
            });
            flag.clear();
            if read.is_ok() {
                break;
            }
            assert!((chat.read_share() - shares[shares.len() - 1]).abs() < 1e-9, "{shares:?}");
        }
        assert!(shares.len() > 5 && shares.is_sorted(), "{shares:?}");
        assert!(shares.windows(2).all(|pair| pair[0] < pair[1]), "nothing is read twice: {shares:?}");
        assert_eq!(shares.last(), Some(&1.0));
        assert_eq!(chat.session().logits(), fresh.session().logits());
        assert_eq!(ask(&mut chat, MARY), MARY_IS);
    }
}
