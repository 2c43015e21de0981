//! Every reader of untrusted data, on valid inputs that were changed at random: bits and numbers changed, parts
//! left out, repeated, or taken from another input. Each input is read or refused with an error and a hint. The
//! inputs are the same each time. The fuzz targets in `models/fuzz` and `engine/fuzz` search farther.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use longhand::heads::{HeadProfile, HeadShape, ImportOptions, ScoreMap, ScoresPer, import};
use longhand::testing::kv::PolicyChoice;
use longhand::testing::kv::policy::policies;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{EngineError, ModelSource, open_gguf};
use models::chat::{ChatTemplate, Message};
use models::gguf::GgufFile;
use models::gguf::write::{GgufWriter, MetaValue};
use models::spec::{ModelSpec, ModelTensors};
use models::tokenizer::Tokenizer;
use tests::fixtures::{Random, embedded_model, half_retrieval, options, random_tokens, session, sync};

/// Calls `read` with `count` inputs, each a seed with one to four changes. `words` are inserted too.
fn mutate(count: usize, seeds: &[Vec<u8>], words: &[&str], mut read: impl FnMut(&[u8])) {
    seeds.iter().for_each(|seed| read(seed));
    let mut random = Random(count as u64);
    for n in 0..count {
        let mut input = seeds[random.below(seeds.len())].clone();
        for _ in 0..1 + random.below(4) {
            change(&mut input, seeds, words, &mut random);
        }
        if catch_unwind(AssertUnwindSafe(|| read(&input))).is_err() {
            panic!("input {n}: {:?}", String::from_utf8_lossy(&input[..input.len().min(2000)]));
        }
    }
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str], random: &mut Random) {
    const NUMBERS: [u64; 8] = [0, 1, 0x7f, 0xff, u32::MAX as u64, i64::MAX as u64, u64::MAX, 1 << 40];
    // Half of the changes are near the beginning, where large files have what they say about themselves.
    let reach = if random.below(2) == 0 { input.len() } else { input.len().min(256) };
    let at = random.below(reach + 1);
    let max_length = 1 << random.below(12);
    let end = (at + random.below(max_length)).min(input.len());
    match random.below(7) {
        0 => input.truncate(at),
        1 => drop(input.drain(at..end)),
        2 => {
            let part = input[at..end].to_vec();
            input.splice(at..at, part);
        }
        3 => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            let to = (from + end - at).min(other.len());
            input.splice(at..end, other[from..to].iter().copied());
        }
        4 => {
            let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
            let bytes = number[..1 << random.below(4)].iter();
            input[at..].iter_mut().zip(bytes).for_each(|(byte, new)| *byte = *new);
        }
        5 if !words.is_empty() => {
            let word = words[random.below(words.len())];
            input.splice(at..at, word.bytes());
        }
        _ => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
    }
}

/// A model file's error is short and does not control a terminal, and there is a hint.
fn check(text: &str, hint: &str) {
    assert!(!hint.is_empty(), "no hint: {text}");
    assert!(text.len() < 5000 && !text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
}

/// The value, or nothing for an error with a hint.
fn accepted<T>(result: Result<T, impl Into<EngineError>>) -> Option<T> {
    let check = |error: EngineError| assert!(error.hint().is_some() && !error.to_string().is_empty());
    result.map_err(|error| check(error.into())).ok()
}

/// The embedded file with short lists and without weights, and a file with weights and a SentencePiece
/// vocabulary.
fn model_files() -> Vec<Vec<u8>> {
    let file = open_gguf(&ModelSource::Embedded).expect("the embedded file");
    let spec = ModelSpec::from_gguf(&file).expect("a model");
    let mut vocabulary = GgufWriter::new();
    for (key, value) in file.metadata() {
        vocabulary.set(
            key,
            match MetaValue::from(value) {
                MetaValue::Array(ty, items) => MetaValue::Array(ty, items.into_iter().take(300).collect()),
                other => other,
            },
        );
    }
    vocabulary.set("tokenizer.ggml.merges", MetaValue::strings(["a b", "b a"]));
    let mut small = GgufWriter::new();
    let spec = ModelSpec { n_layers: 1, n_vocab: 6, n_embd: 8, n_ff: 8, n_heads: 2, head_dim: 4, ..spec };
    let spec = ModelSpec { n_kv_heads: 1, ..spec };
    for (key, value) in spec.metadata() {
        small.set(key, value);
    }
    small.set("tokenizer.ggml.model", "llama");
    small.set("tokenizer.ggml.tokens", MetaValue::strings(["<unk>", "<s>", "</s>", "a", "▁a", "aa"]));
    small.set("tokenizer.ggml.token_type", MetaValue::i32s([2, 3, 3, 1, 1, 1]));
    small.set("tokenizer.ggml.scores", MetaValue::f32s((0..6).map(|i| -i as f32)));
    ModelTensors::declare(&spec).for_each(|need| {
        small.tensor(&need.name, &need.dims, models::gguf::TensorType::F32);
    });
    [vocabulary, small].map(|writer| writer.to_bytes_zeroed().expect("a file")).to_vec()
}

#[test]
fn model_files_are_read_or_refused() {
    mutate(4000, &model_files(), &[], |bytes| {
        let file = match GgufFile::from_bytes(bytes.to_vec()) {
            Ok(file) => file,
            Err(error) => return check(&error.to_string(), error.hint()),
        };
        file.metadata().for_each(|(_, value)| drop(value.to_string()));
        file.tensors().iter().for_each(|tensor| assert_eq!(file.data(tensor).len() as u64, tensor.bytes));
        let tensors = ModelSpec::from_gguf(&file).and_then(|spec| ModelTensors::from_gguf(&file, &spec));
        let _ = tensors.map_err(|error| check(&error.to_string(), error.hint()));
        let tokenizer = match Tokenizer::from_gguf(&file) {
            Ok(tokenizer) => tokenizer,
            Err(error) => return check(&error.to_string(), error.hint()),
        };
        if let Ok(ids) = tokenizer.encode("aa a\n\n <|im_end|> é", true, true) {
            assert!(ids.iter().all(|&id| (id as usize) < tokenizer.n_vocab()));
            tokenizer.decode(&ids, true);
        }
    });
}

#[test]
fn chat_templates_are_rendered_or_refused() {
    let file = open_gguf(&ModelSource::Embedded).expect("the embedded file");
    let tokenizer = Tokenizer::from_gguf(&file).expect("its vocabulary");
    let seeds = [
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
        "{%- set ns = namespace(last=messages|length - 1, x=[]) %}{%- for m in messages[::-1] %}{%- set ns.x = [ns.x, m.content.split('</think>')[-1].strip('\\n')] %}{% endfor %}{{ ns.x|tojson }}",
        "{% macro f(a, b='!') %}{{ a ~ b }}{% endmacro %}{% if messages[0]['role'] == 'user' and loop is not defined %}{{ f(messages|map(attribute='content')|join('+')|trim) }}{% else %}{{ raise_exception('no') }}{% endif %}{{ strftime_now('%d %b %Y') }}",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    let words = [
        "{%",
        "%}",
        "{{",
        "}}",
        "|",
        "(",
        ")",
        "[",
        "]",
        "*",
        "~",
        "+",
        "99999",
        "|indent(9)",
        "|tojson",
        "range(",
        "x",
        "ns",
        "ns.x",
        "'",
        "%#z",
        ".count('')",
        "|list",
        "|string",
        " in ",
        " == ",
        "messages",
        "{% endfor %}",
    ];
    let messages = [Message::user("a"), Message::assistant("b"), Message::user("c")];
    mutate(400, &seeds, &words, |bytes| {
        let source = String::from_utf8_lossy(bytes);
        let used = ChatTemplate::new(Some(&source), &tokenizer).and_then(|template| {
            template.next_turn(&messages)?;
            template.prompt(&messages, true)
        });
        let _ = used.map_err(|error| assert!(!error.to_string().is_empty() && !error.hint().is_empty()));
    });
}

#[test]
fn head_profiles_and_maps_are_read_or_refused() {
    let shape = HeadShape::new(2, 4, 2).expect("heads");
    let flags = vec![true, false, false, true];
    let gates = ScoreMap { name: "gate".into(), per: ScoresPer::KvHead, values: vec![0.5, 0.25, 1.0, 0.0] };
    let scores = ScoreMap { name: "echo".into(), per: ScoresPer::QueryHead, values: vec![0.5; 8] };
    let scored = HeadProfile::new(shape, flags, vec![gates, scores], Default::default()).expect("a profile");
    let profiles = [HeadProfile::uniform(shape, true).to_json(), scored.to_json()];
    let words = ["1e999", "-1", "NaN", "null", "[", "]", "{", "}", ",", "99999999999999999999", "\"scope\""];
    mutate(4000, &profiles.map(String::into_bytes), &words, |bytes| {
        let Ok(text) = str::from_utf8(bytes) else { return };
        if let Some(profile) = accepted(HeadProfile::from_json(text)) {
            let again = HeadProfile::from_json(&profile.to_json()).expect("what was written can be read");
            assert_eq!(again.to_json(), profile.to_json());
        }
    });

    let options = ImportOptions { shape, fingerprint: None, threshold: None };
    let maps = ["0.5\t1.0\n0.0 0.25\n", r#"{"0-1": [0.5, 0.25], "1-3": [1], "0-0": []}"#];
    let config = r#"{"sink_size": 64, "recent_size": 256, "deploy_sink_size": null}"#;
    mutate(4000, &maps.map(|map| map.as_bytes().to_vec()), &words, |bytes| {
        let Ok(text) = str::from_utf8(bytes) else { return };
        accepted(import::duo_attention(text, Some(config), &options));
        accepted(import::duo_attention(maps[0], Some(text), &options));
        accepted(import::retrieval_head(text, &options));
    });
}

#[test]
fn policies_are_parsed_or_refused() {
    let seeds: Vec<Vec<u8>> = policies()
        .map(|entry| {
            let parameter =
                |p: &longhand::policy::Parameter| format!("{}={}", p.name, p.format_value(entry.default(p)));
            let parameters: Vec<String> = entry.parameters().map(parameter).collect();
            format!("{}:{}", entry.name, parameters.join(",")).into_bytes()
        })
        .collect();
    let words = ["=", ",", ":", "on", "off", "-1", "0.5", "1e999", "NaN", "inf", "99999999999999999999", " "];
    mutate(10_000, &seeds, &words, |bytes| {
        let Ok(text) = str::from_utf8(bytes) else { return };
        if let Some(choice) = accepted(text.parse::<PolicyChoice>()) {
            let again: PolicyChoice = choice.to_string().parse().expect("what was written can be read");
            assert_eq!(again.to_string(), choice.to_string());
        }
    });
}

#[test]
fn session_files_are_restored_or_refused() {
    let engine = embedded_model();
    let path = std::env::temp_dir().join(format!("longhand-mutations-{}", std::process::id()));
    let tokens = random_tokens(&engine, 40, 1);
    let save = |policy: &str| {
        let mut options = options(48, policy);
        options.profile = options.policy.uses_profile().then(|| half_retrieval(&engine));
        let mut session = session(&engine, options);
        sync(&mut session, &tokens);
        snapshot::save(&session, "the caller's", &path).expect("saved");
        fs::read(&path).expect("the file")
    };
    let seeds = [save("full"), save("streaming:window=8"), save("razor")];
    let words = ["\"", "1", "0", "9", "-", "e", "{", "}", "null", "full", "h2o", ":", ","];
    mutate(600, &seeds, &words, |bytes| {
        fs::write(&path, bytes).expect("a file");
        let Some(saved) = accepted(Snapshot::open(&path)) else { return };
        // A file may ask for as large a store as the machine has memory for.
        if saved.options().context <= 1 << 10 {
            accepted(saved.restore(&engine));
        }
    });
    fs::remove_file(&path).expect("the file");
}
