//! A server with the embedded model.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use longhand::outline::{Begins, Outline};
use longhand::saved::DocumentCache;
use longhand::setup::{Context, another_session};
use longhand::{Model, ModelSource, Session, Setup, SetupOptions};
use models::embedded;
use models::gguf::GgufFile;
use models::gguf::write::GgufWriter;
use serde_json::{Value, json};
use serve::{Address, Documents, Server, ServerOptions, Service, ServiceOptions};

use crate::client::{Connection, Response};

pub const QUESTION: &str = "What is Mary's favorite number?";
pub const FACT: &str = "Mary's favorite number is 34251.";

/// What a server is made with.
pub struct Fixture {
    pub sessions: usize,
    pub context: usize,
    pub max_waiting: usize,
    pub document: String,
    /// The chat template; without one the model is the embedded one. With one all of its weights are zero, so that it writes
    /// what it is made to write.
    pub template: Option<String>,
    /// Whether it is recorded what answers look at.
    pub sources: bool,
    pub cache: Option<DocumentCache>,
    pub options: ServerOptions,
}

impl Default for Fixture {
    fn default() -> Fixture {
        Fixture {
            sessions: 1,
            context: 1024,
            max_waiting: 64,
            document: String::new(),
            template: None,
            sources: false,
            cache: None,
            options: ServerOptions { patience: Duration::from_secs(20), ..ServerOptions::default() },
        }
    }
}

pub struct Running {
    server: Option<Server>,
    pub address: SocketAddr,
}

impl Fixture {
    /// A server that says that the model is being loaded.
    pub fn loading(&self) -> Running {
        let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let server = Server::start(&address, self.options.clone()).expect("a server");
        let Address::Tcp(address) = *server.address() else { panic!("it listens elsewhere") };
        Running { server: Some(server), address }
    }

    pub fn start(&self) -> Running {
        let running = self.loading();
        running.server.as_ref().expect("a server").set_service(self.service());
        running
    }

    pub fn service(&self) -> Arc<Service> {
        let source =
            self.template.as_ref().map(|template| ModelSource::Bytes(with_template(template).into()));
        let model = Model::open(source.unwrap_or(ModelSource::Embedded)).expect("a model");
        let options = SetupOptions {
            context: Context::Tokens(self.context),
            sessions: self.sessions,
            threads: Some(1),
            record_attention: self.sources,
            ..SetupOptions::default()
        };
        let setup = Setup::resolve(&model, &options, 0, &mut ()).expect("a setup");
        let mut sessions = vec![setup.start(&mut ()).expect("a session")];
        while sessions.len() < self.sessions {
            let another: Session = another_session(&sessions[0], 0).expect("another session");
            sessions.push(another);
        }
        let mut outline = Outline::default();
        outline.push(0, Begins::Document("boat.txt".to_owned()));
        let documents = Documents::new(vec!["boat.txt".to_owned()], &self.document, outline);
        let options = ServiceOptions {
            name: "needle".to_owned(),
            documents: documents.into(),
            max_waiting: self.max_waiting,
            cache: self.cache.clone(),
        };
        Service::start(sessions, options).expect("a service")
    }
}

impl Running {
    pub fn send(&self, path: &str, body: &Value) -> Connection {
        Connection::send(self.address, "POST", path, &[], &body.to_string())
    }

    pub fn post(&self, path: &str, body: &Value) -> Response {
        self.send(path, body).response()
    }

    pub fn get(&self, path: &str) -> Response {
        Connection::send(self.address, "GET", path, &[], "").response()
    }

    /// The answer to a conversation, by OpenAI's interface.
    pub fn chat(&self, body: &Value) -> Response {
        self.post("/v1/chat/completions", body)
    }

    /// A number of `/metrics`.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("longhand_{name} ")));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    /// Waits until a number of `/metrics` is this one.
    pub fn wait_until(&self, name: &str, value: f64) {
        while self.metric(name) != value {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn stop(mut self) {
        self.server.take().expect("a server").stop(Duration::from_secs(20));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Duration::from_secs(20));
        }
    }
}

/// The embedded model with another chat template, without its weights.
fn with_template(template: &str) -> Vec<u8> {
    let needle = GgufFile::from_bytes(embedded::needle()).expect("the embedded model");
    let mut writer = GgufWriter::with_metadata_of(&needle);
    writer.tensors_of(&needle).set("tokenizer.chat_template", template);
    writer.to_bytes_zeroed().expect("a file in memory")
}

/// A question to which the embedded model always gives the same answer.
pub fn question(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}], "temperature": 0})
}

/// `body` with one more field.
pub fn with(mut body: Value, name: &str, value: impl Into<Value>) -> Value {
    body[name] = value.into();
    body
}

/// So many words without a fact.
pub fn filler(words: usize) -> String {
    let words = ["The", "old", "boat", "crossed", "the", "quiet", "river."].iter().cycle().take(words);
    words.copied().collect::<Vec<_>>().join(" ")
}
