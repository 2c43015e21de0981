//! Engines are shared by threads, and sessions move between them.

use std::sync::Arc;
use std::thread;

use longhand::{Chat, ChatOptions, Engine, Model, ModelSource, Session, Setup, SetupOptions};

const QUESTION: &str = "Mary's favorite number is 34251. What is Mary's favorite number?";

/// A session is stored beside its engine: no lifetime ties them.
struct Room {
    engine: Arc<Engine>,
    chat: Chat,
}

#[test]
fn sessions_of_one_engine_answer_in_threads_of_their_own() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Session>();
    is_send::<Chat>();
    is_sync::<Engine>();
    is_sync::<Model>();

    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let setup = Setup::resolve(&model, &SetupOptions::default(), 0, &mut ()).expect("a setup");
    let engine = setup.load(&mut ()).expect("an engine");
    let room = || {
        let session = setup.session(&engine, &mut ()).expect("a session");
        Room { engine: engine.clone(), chat: Chat::new(session, ChatOptions::default()).expect("a chat") }
    };
    let workers: Vec<_> = [room(), room(), room()]
        .into_iter()
        .map(|mut room| {
            thread::spawn(move || {
                let answer = room.chat.ask(QUESTION, &mut |_| ()).expect("an answer");
                (answer.text.trim().to_owned(), room.engine.threads())
            })
        })
        .collect();
    for worker in workers {
        let (answer, threads) = worker.join().expect("the thread ends");
        assert_eq!(answer, "Mary's favorite number is 34251.");
        assert!(threads > 0);
    }
}
