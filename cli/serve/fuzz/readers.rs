//! Reads arbitrary requests to a server. Whatever they are, they are understood or refused with an error. The fuzz target and
//! `tests/tests/engine/mutations.rs` use this function.

use std::sync::LazyLock;
use std::time::Duration;

use longhand::outline::Outline;
use longhand::setup::Context;
use longhand::{Model, ModelSource, Setup, SetupOptions};
use models::embedded;
use models::gguf::GgufFile;
use models::gguf::write::GgufWriter;
use serde_json::Value;
use serve::testing::Requests;
use serve::{Documents, Service, ServiceOptions};

/// The addresses whose requests are read.
const PATHS: [&str; 6] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses/compact",
];

/// Writes functions and calls, as those of Qwen and Hermes do.
const TEMPLATE: &str = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}\
    {% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n\
    {{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A request: the first byte chooses the address, what follows is the body.
pub fn requests(input: &[u8]) {
    let Some((first, body)) = input.split_first() else { return };
    let path = PATHS[usize::from(*first) % PATHS.len()];
    let (status, response) = REQUESTS.post(path, body);
    let response: Value = serde_json::from_slice(&response).expect("JSON");
    if status == 200 {
        assert!(response["input_tokens"].is_u64(), "{response}");
        return;
    }
    // 503 for what is understood: the service is closed.
    assert!(matches!(status, 400 | 503), "{status}: {response}");
    let message = response["error"]["message"].as_str();
    assert!(message.is_some_and(|message| !message.is_empty()), "{response}");
}

/// A service that answers nothing any more. The weights of its model are zero.
static REQUESTS: LazyLock<Requests> = LazyLock::new(|| {
    let needle = GgufFile::from_bytes(embedded::needle()).expect("the embedded model");
    let mut writer = GgufWriter::with_metadata_of(&needle);
    writer.tensors_of(&needle).set("tokenizer.chat_template", TEMPLATE);
    let bytes = writer.to_bytes_zeroed().expect("a file in memory");
    let model = Model::open(ModelSource::Bytes(bytes.into())).expect("a model");
    let options = SetupOptions {
        context: Context::Tokens(512),
        threads: Some(1),
        record_attention: true,
        ..SetupOptions::default()
    };
    let setup = Setup::resolve(&model, &options, 0, &mut ()).expect("a setup");
    let session = setup.start(&mut ()).expect("a session");
    let document = "The lamp is in the old harbour.";
    let options = ServiceOptions {
        name: "lamps".to_owned(),
        documents: Documents::new(vec!["lamp.txt".to_owned()], document, Outline::default()).into(),
        max_waiting: 1,
        cache: None,
    };
    let service = Service::start(vec![session], options).expect("a service");
    service.close(Duration::from_secs(10));
    Requests::new(service)
});
