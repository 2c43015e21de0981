//! Conversations that change after they have begun: another session, system message, question or sampling.

use std::sync::Arc;

use longhand::generation::SamplerOptions;
use longhand::reading::Prefill;
use longhand::testing::kv::policy;
use longhand::{Chat, ChatOptions, Engine, EngineError, Preamble, SessionOptions};
use tests::fixtures::{embedded_model, options, session, sync, tiny_model, with_policy};

const NUMBER: &str = "What is Mary's favorite number?";
const NUMBER_IS: &str = "Mary's favorite number is 34251.";
const KEY: &str = "What is the pass key?";
const KEY_IS: &str = "The pass key is 9078648.";
const CONTEXT: usize = 700;

fn document() -> String {
    let facts = "Mary's favorite number is 34251. The pass key is 9078648. ";
    format!("{}{facts}{}", "The old boat crossed the river. ".repeat(10), "The sun was warm. ".repeat(10))
}

fn full() -> SessionOptions {
    options(CONTEXT, "full")
}

fn chat(engine: &Arc<Engine>, options: SessionOptions, system: Option<&str>) -> Chat {
    let format = engine.model().chat_format().expect("a chat format");
    let preamble = Preamble::new(format, system, &document()).expect("a preamble");
    let options_of_chat = ChatOptions { preamble, ..ChatOptions::default() };
    Chat::new(session(engine, options), options_of_chat).expect("a chat")
}

fn ask(chat: &mut Chat, question: &str) -> String {
    chat.ask(question, &mut |_| ()).expect("an answer").text
}

/// What a conversation consists of.
fn state(chat: &Chat) -> (Vec<String>, Vec<u32>, usize) {
    let texts = chat.messages().iter().map(|message| format!("{}: {}", message.role, message.content));
    (texts.collect(), chat.session().tokens().to_vec(), chat.tokens())
}

#[test]
fn a_moved_chat_is_one_that_was_read_in_the_new_session() {
    let engine = embedded_model();
    for entry in policy::policies() {
        let policy = match entry.factory {
            Some(_) => {
                entry.name.parse::<policy::PolicyChoice>().and_then(|choice| choice.with_rows(80, CONTEXT))
            }
            None => entry.name.parse(),
        };
        let options = with_policy(&engine, &policy.expect("a policy"), full());
        let what = options.policy.to_string();
        let mut moved = chat(&engine, full(), None);
        assert_eq!([NUMBER, KEY].map(|question| ask(&mut moved, question)), [NUMBER_IS, KEY_IS]);
        let tokens = moved.session().tokens().to_vec();
        let reading = moved.move_to(session(&engine, options.clone()), &mut |_| ()).expect("moved");
        assert_eq!((reading.tokens, moved.tokens()), (tokens.len(), tokens.len()), "{what}");

        let mut fresh = session(&engine, options.clone());
        sync(&mut fresh, &tokens);
        let contents = [moved.session(), &fresh].map(|session| session.store().contents().expect("rows"));
        assert!(contents[0] == contents[1], "{what}");
        assert_eq!(moved.session().logits(), fresh.logits(), "{what}");

        // The conversation goes on, and its last turns can be taken back.
        let reading = moved.read(NUMBER, &mut |_| ()).expect("a question");
        assert!(reading.tokens < 40, "only the question is read: {reading:?}");
        assert!(moved.undo() && moved.undo() && moved.has_answers(), "{what}");
        moved.read(KEY, &mut |_| ()).expect("a question");
        assert_eq!(moved.session().tokens().len(), moved.tokens(), "{what}");
    }
}

#[test]
fn a_chat_that_cannot_be_moved_stays_as_it_was() {
    let engine = embedded_model();
    let mut chat = chat(&engine, full(), None);
    ask(&mut chat, NUMBER);
    let before = state(&chat);
    let bounded = || options(CONTEXT, "streaming:sinks=4,window=60");
    let failed = |chat: &mut Chat, options: SessionOptions| {
        chat.move_to(session(&engine, options), &mut |_| ()).expect_err("an error")
    };
    let error = failed(&mut chat, options(50, "full"));
    assert!(matches!(error, EngineError::ContextFull { context: 50, .. }), "{error}");
    chat.session().interrupt().set();
    assert!(failed(&mut chat, bounded()).is_interrupt());
    assert!(chat.set_system(Some("Be brief."), &mut |_| ()).expect_err("an interrupt").is_interrupt());
    chat.session().interrupt().clear();
    // Interrupted in the middle.
    let (mut pieces, flag) = (0, chat.session().interrupt().clone());
    let streaming = SessionOptions { prefill: Prefill::Streaming, ..bounded() };
    let interrupted = chat.move_to(session(&engine, streaming), &mut |_| {
        pieces += 1;
        flag.set();
    });
    chat.session().interrupt().clear();
    assert!(interrupted.expect_err("an interrupt").is_interrupt() && pieces == 1);
    let other = session(&tiny_model(), options(CONTEXT, "full"));
    let error = chat.move_to(other, &mut |_| ()).expect_err("another model").to_string();
    assert!(error.contains("the conversation is held with"), "{error}");

    assert_eq!(state(&chat), before);
    assert_eq!(chat.session().options().policy.name(), "full");
    assert!(chat.read(KEY, &mut |_| ()).expect("a question").tokens < 40);
}

#[test]
fn a_chat_with_another_system_message_is_one_that_began_with_it() {
    const SYSTEM: &str = "Be kind.";
    let engine = embedded_model();
    for system in [None, Some("Answer."), Some("Tell everything that you know.")] {
        for questions in [&[][..], &[NUMBER], &[NUMBER, KEY]] {
            let [mut changed, mut expected] =
                [Some(SYSTEM), system].map(|system| chat(&engine, full(), system));
            for question in questions {
                assert_eq!(ask(&mut changed, question), ask(&mut expected, question), "{system:?}");
            }
            let reading = changed.set_system(system, &mut |_| ()).expect("changed");
            assert_eq!(reading.tokens, if questions.is_empty() { 0 } else { changed.tokens() });
            assert_eq!((changed.system(), state(&changed)), (system, state(&expected)));
            assert_eq!(changed.last_question(), questions.last().copied());
            // Going back afterwards ends where it did before.
            for chat in [&mut changed, &mut expected] {
                chat.undo();
                ask(chat, KEY);
            }
            assert_eq!(state(&changed), state(&expected), "{system:?}");
        }
    }
}

#[test]
fn documents_that_were_added_stay_with_their_question() {
    let engine = embedded_model();
    let [mut changed, mut expected] = [None, Some("Answer.")].map(|system| chat(&engine, full(), system));
    for chat in [&mut changed, &mut expected] {
        ask(chat, KEY);
        chat.attach("more.txt", "Paul's favorite color is green.").expect("a document");
    }
    ask(&mut changed, "Who is there?");
    changed.revise(NUMBER, &mut |_| ()).expect("a question");
    changed.answer(&mut |_| std::ops::ControlFlow::Continue(())).expect("an answer");
    ask(&mut expected, NUMBER);
    assert_eq!(changed.last_question(), Some(NUMBER));
    changed.set_system(Some("Answer."), &mut |_| ()).expect("changed");
    assert_eq!(state(&changed), state(&expected));
}

/// Sampled tokens are seldom those that their text would be encoded as.
#[test]
fn answers_keep_their_tokens_with_another_system_message() {
    let engine = embedded_model();
    let mut chat = chat(&engine, full(), None);
    chat.set_sampling(SamplerOptions {
        temperature: 1e4,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        ..SamplerOptions::default()
    })
    .expect("valid");
    chat.set_answer_limit(Some(20));
    let format = engine.model().chat_format().expect("a chat format");
    let answers = [NUMBER, KEY].map(|question| chat.ask(question, &mut |_| ()).expect("an answer"));
    assert!(answers.iter().any(|answer| format.encode_text(&answer.text).expect("tokens") != answer.tokens));
    for system in [Some("Be kind."), None] {
        chat.set_system(system, &mut |_| ()).expect("changed");
        for answer in &answers {
            let held = chat.session().tokens();
            assert!(held.windows(answer.tokens.len()).any(|tokens| tokens == answer.tokens), "{system:?}");
        }
    }
}

#[test]
fn a_system_message_keeps_a_question_that_waits_for_its_answer() {
    let engine = embedded_model();
    let [mut changed, mut expected] = [None, Some("Answer.")].map(|system| chat(&engine, full(), system));
    for chat in [&mut changed, &mut expected] {
        chat.read(NUMBER, &mut |_| ()).expect("a question");
    }
    changed.set_system(Some("Answer."), &mut |_| ()).expect("changed");
    let [changed, expected] = [&mut changed, &mut expected].map(|chat| {
        let answer = chat.answer(&mut |_| std::ops::ControlFlow::Continue(())).expect("an answer");
        (answer.text, state(chat))
    });
    assert_eq!(changed, expected);
}

#[test]
fn a_revised_question_stands_in_place_of_the_last_one() {
    let engine = embedded_model();
    let [mut revised, mut expected] = [(); 2].map(|()| chat(&engine, full(), None));
    let error = revised.revise(NUMBER, &mut |_| ()).expect_err("there is no question");
    assert!(error.to_string().contains("there is none"), "{error}");
    ask(&mut revised, KEY);
    ask(&mut revised, "Who is there?");
    ask(&mut expected, KEY);
    ask(&mut expected, NUMBER);
    let before = state(&revised);
    let too_long = revised.revise(&"a long text ".repeat(CONTEXT), &mut |_| ()).expect_err("too long");
    assert!(matches!(too_long, EngineError::ContextFull { .. }), "{too_long}");
    revised.session().interrupt().set();
    assert!(revised.revise(NUMBER, &mut |_| ()).expect_err("an interrupt").is_interrupt());
    revised.session().interrupt().clear();
    assert_eq!((state(&revised).0, state(&revised).2), (before.0, before.2));
    assert_eq!(revised.last_question(), Some("Who is there?"));

    revised.revise(NUMBER, &mut |_| ()).expect("a question");
    revised.answer(&mut |_| std::ops::ControlFlow::Continue(())).expect("an answer");
    assert_eq!(state(&revised), state(&expected));
}

#[test]
fn sampling_changes_between_answers() {
    let engine = embedded_model();
    let mut chat = chat(&engine, full(), None);
    let greedy = ask(&mut chat, NUMBER);
    let wild =
        SamplerOptions { temperature: 50.0, top_p: 1.0, min_p: 0.0, seed: 3, ..SamplerOptions::default() };
    let mut again = |options: &SamplerOptions, limit| {
        chat.set_sampling(options.clone()).expect("valid");
        chat.set_answer_limit(Some(limit));
        chat.retract_answer(&mut |_| ()).expect("retracted");
        chat.answer(&mut |_| std::ops::ControlFlow::Continue(())).expect("an answer").text
    };
    let first = again(&wild, 20);
    assert_ne!(first, greedy);
    assert_eq!(again(&wild, 20), first, "the random numbers begin again");
    assert_ne!(again(&SamplerOptions { seed: 4, ..wild.clone() }, 20), first);
    assert!(first.starts_with(&again(&wild, 1)));
    assert_eq!(again(&SamplerOptions::greedy(), 40), greedy);
    let error = chat.set_sampling(SamplerOptions { top_p: 2.0, ..wild }).expect_err("out of range");
    assert!(error.to_string().contains("top-p is 2"), "{error}");
    assert_eq!((chat.sampling(), chat.answer_limit()), (&SamplerOptions::greedy(), Some(40)));
}

const ASKED: &str = "What was said?";
const SUMMARY: &str = "You asked for numbers, and I gave them.";

/// Roles and texts, and the tokens of the conversation.
fn words(chat: &Chat) -> (Vec<String>, usize) {
    let (texts, _, tokens) = state(chat);
    (texts, tokens)
}

#[test]
fn a_summary_takes_the_place_of_all_turns_and_gives_it_back() {
    let engine = embedded_model();
    for (policy, reads_documents) in [("full", false), ("streaming:sinks=4,window=60", true)] {
        let mut chat = chat(&engine, options(1500, policy), Some("Answer."));
        // Without its rows the model may not find an end.
        chat.set_answer_limit(Some(24));
        for question in [NUMBER, KEY, NUMBER] {
            ask(&mut chat, question);
        }
        let before = words(&chat);
        let reading = chat.compact(ASKED, SUMMARY, None, &mut |_| ()).expect("a summary");
        assert_eq!(reading.tokens > 100, reads_documents, "{reading:?}");
        assert_eq!(chat.conversation(), [(ASKED, Some(SUMMARY))]);
        assert!(chat.tokens() < before.1 && chat.messages().len() == 3);
        assert_eq!(chat.session().tokens().len(), chat.tokens());
        assert_eq!(chat.preamble().documents(), document().trim_end());

        // It is read as any other conversation.
        let reading = chat.read(KEY, &mut |_| ()).expect("a question");
        assert!(reading.tokens < 40, "{reading:?}");
        chat.undo();
        if !reads_documents {
            assert_eq!(ask(&mut chat, KEY), KEY_IS);
            chat.undo();
        }
        // A summary of a summary; a document that is added stays for the next question.
        ask(&mut chat, NUMBER);
        let first = words(&chat);
        chat.compact(ASKED, "Nothing.", None, &mut |_| ()).expect("a summary");
        chat.attach("more.txt", "Paul's favorite color is green.").expect("a document");
        assert!(chat.undo());
        assert_eq!((words(&chat), chat.next_documents()), (first, vec!["more.txt".to_owned()]));
        assert!(chat.undo() && chat.undo());
        assert_eq!((words(&chat), chat.next_documents()), (before, vec!["more.txt".to_owned()]));
        chat.detach().expect("without it");
        assert!(chat.undo(), "the questions before are questions again");
        assert_eq!(chat.conversation().len(), 2);
        if !reads_documents {
            assert_eq!(ask(&mut chat, KEY), KEY_IS);
        }
    }
}

#[test]
fn later_documents_come_before_a_summary() {
    let engine = embedded_model();
    let mut chat = chat(&engine, full(), None);
    ask(&mut chat, KEY);
    chat.attach("more.txt", "Paul's favorite color is green.").expect("a document");
    ask(&mut chat, NUMBER);
    chat.compact(ASKED, SUMMARY, None, &mut |_| ()).expect("a summary");
    assert_eq!(chat.conversation(), [(ASKED, Some(SUMMARY))]);
    assert_eq!(chat.read_document_names().last().map(String::as_str), Some("more.txt"));
    assert_eq!(ask(&mut chat, "What is Paul's favorite color?"), "Paul's favorite color is green.");
}

#[test]
fn a_summary_that_cannot_be_read_leaves_the_conversation_as_it_was() {
    let engine = embedded_model();
    for options in [full(), options(CONTEXT, "streaming:sinks=4,window=60")] {
        let mut chat = chat(&engine, options, None);
        let answers = [NUMBER, KEY].map(|question| ask(&mut chat, question));
        let before = words(&chat);
        let long = "word ".repeat(CONTEXT);
        let error = chat.compact(ASKED, &long, None, &mut |_| ()).expect_err("it does not fit");
        assert!(matches!(error, EngineError::ContextFull { .. }), "{error}");
        chat.session().interrupt().set();
        let error = chat.compact(ASKED, SUMMARY, None, &mut |_| ()).expect_err("an interrupt");
        chat.session().interrupt().clear();
        assert!(error.is_interrupt(), "{error}");
        assert_eq!(words(&chat), before);
        chat.undo();
        assert_eq!(ask(&mut chat, KEY), answers[1]);
    }
}

#[test]
fn another_model_reads_the_conversation_as_its_own() {
    let engine = embedded_model();
    let other = tests::talking::model(&["I am", " another one."], None);
    let other = tests::fixtures::model_in_memory("another", other, &tests::engine_options());
    for questions in [&[][..], &[KEY], &[NUMBER, KEY]] {
        let mut moved = chat(&engine, full(), Some("Answer."));
        questions.iter().for_each(|question| _ = ask(&mut moved, question));
        // Its tokens are other ones.
        let expected = moved.tokens_with(other.model()).expect("tokens");
        let before = moved.conversation().len();
        let wide = || options(3000, "full");
        let reading = moved.change_model(session(&other, wide()), None, &mut |_| ()).expect("moved");
        assert_eq!(reading.tokens, moved.tokens());
        assert!(questions.is_empty() || moved.tokens() == expected);
        assert_eq!((moved.conversation().len(), moved.system()), (before, Some("Answer.")));
        assert!(moved.answered_by().iter().all(|model| model.is_some()), "{:?}", moved.answered_by());
        assert_eq!(ask(&mut moved, NUMBER), "I am another one.");
        assert_eq!(moved.answered_by().last(), Some(&None));

        // The last question of the first model, for the other one; and back.
        moved.undo();
        if moved.has_questions() {
            moved.retract_answer(&mut |_| ()).expect("the question");
            moved.answer(&mut |_| std::ops::ControlFlow::Continue(())).expect("an answer");
            assert_eq!(moved.answered_by().last(), Some(&None));
        }
        moved.change_model(session(&engine, full()), None, &mut |_| ()).expect("moved");
        assert_eq!(ask(&mut moved, NUMBER), NUMBER_IS);
        // It is saved.
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.session");
        moved.save(&path).expect("saved");
        let saved = longhand::saved::SavedChat::open(&path).expect("a conversation");
        assert_eq!(saved.answered_by(), moved.answered_by());
    }
}

#[test]
fn another_model_that_cannot_read_the_conversation_changes_nothing() {
    let engine = embedded_model();
    let other = tests::talking::model(&["I am", " another one."], None);
    let other = tests::fixtures::model_in_memory("another-small", other, &tests::engine_options());
    let mut chat = chat(&engine, full(), None);
    ask(&mut chat, NUMBER);
    let before = state(&chat);
    let error = chat.change_model(session(&other, options(50, "full")), None, &mut |_| ());
    assert!(matches!(error, Err(EngineError::ContextFull { context: 50, .. })), "{error:?}");
    chat.session().interrupt().set();
    let error = chat.change_model(session(&other, full()), None, &mut |_| ()).expect_err("an interrupt");
    chat.session().interrupt().clear();
    assert!(error.is_interrupt(), "{error}");
    assert_eq!(state(&chat), before);
    assert_eq!(chat.answered_by(), [None]);
    assert_eq!(ask(&mut chat, KEY), KEY_IS);
}
