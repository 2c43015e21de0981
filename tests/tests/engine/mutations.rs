//! Every reader of untrusted data, on inputs that were changed at random: bits and numbers changed, parts left out,
//! repeated, or taken from another input. Each input is read or refused with an error and a hint.
//!
//! The readers and most of the inputs are those of the fuzz targets in `{models,engine,cli/documents,cli/serve}/fuzz`, which
//! search farther. The inputs are the same each time. `LONGHAND_MUTATION_SECONDS` is the least time for each test:
//! with 60 each goes on for a minute.

use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

use longhand::ModelSource;
use longhand::heads::{HeadProfile, HeadShape, ScoreMap, ScoresPer};
use longhand::testing::kv::policy::policies;
use longhand::testing::snapshot;
use models::gguf::write::{GgufWriter, MetaValue};
use models::spec::{ModelSpec, ModelTensors};
use tests::fixtures::{Random, embedded_model, half_retrieval, options, random_tokens, session, sync};
use zip::ZipArchive;

#[path = "../../../cli/documents/fuzz/readers.rs"]
mod documents_readers;
#[path = "../../../engine/fuzz/readers.rs"]
mod engine_readers;
#[path = "../../../models/fuzz/readers.rs"]
mod models_readers;
#[path = "../../../cli/serve/fuzz/readers.rs"]
mod serve_readers;

/// The inputs of a fuzz target that are kept in the repository, in the order of their names. None on a machine
/// without the sources.
fn kept(fuzz: &str, target: &str) -> Vec<Vec<u8>> {
    if env::var_os("LONGHAND_TEST_DATA").is_some() {
        return Vec::new();
    }
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(fuzz).join(format!("seeds/{target}.zip"));
    let file = fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut archive = ZipArchive::new(file).expect("an archive");
    let mut names: Vec<String> = archive.file_names().map(str::to_owned).collect();
    names.sort();
    assert!(!names.is_empty(), "{} is empty", path.display());
    let content = |name: &String| {
        let mut content = Vec::new();
        archive.by_name(name).expect("an entry").read_to_end(&mut content).expect("whole");
        content
    };
    names.iter().map(content).collect()
}

/// Calls `read` with all seeds, and with at least `count` inputs that are seeds with one to four changes. `words`
/// are inserted too.
fn mutate(count: usize, seeds: &[Vec<u8>], words: &[&str], mut read: impl FnMut(&[u8])) {
    let seconds = env::var("LONGHAND_MUTATION_SECONDS");
    let seconds =
        seconds.map_or(0, |seconds| seconds.parse().expect("LONGHAND_MUTATION_SECONDS is a number"));
    let (started, least) = (Instant::now(), Duration::from_secs(seconds));
    if seeds.is_empty() {
        return println!("skipped: there are no inputs");
    }
    let mut random = Random(1);
    let mut done = 0;
    while done < seeds.len() + count || started.elapsed() < least {
        let mut input = seeds.get(done).unwrap_or_else(|| &seeds[random.below(seeds.len())]).clone();
        if done >= seeds.len() {
            (0..1 + random.below(4)).for_each(|_| change(&mut input, seeds, words, &mut random));
        }
        if catch_unwind(AssertUnwindSafe(|| read(&input))).is_err() {
            panic!("input {done}: {:?}", String::from_utf8_lossy(&input[..input.len().min(2000)]));
        }
        done += 1;
    }
    println!("{done} inputs in {:.1} s", started.elapsed().as_secs_f32());
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

/// The embedded file with short lists and without weights, and a file with weights and a SentencePiece
/// vocabulary.
fn model_files() -> Vec<Vec<u8>> {
    let file = ModelSource::Embedded.open().expect("the embedded file");
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
    for need in ModelTensors::in_file(&spec) {
        small.tensor(&need.name, &need.dims, models::gguf::TensorType::F32);
    }
    [vocabulary, small].map(|writer| writer.to_bytes_zeroed().expect("a file")).to_vec()
}

#[test]
fn model_files_are_read_or_refused() {
    let seeds = [model_files(), kept("models/fuzz", "gguf")].concat();
    mutate(20_000, &seeds, &[], models_readers::gguf);
}

#[test]
fn vocabularies_are_read_or_refused() {
    mutate(
        2000,
        &kept("models/fuzz", "tokenizer"),
        &["\0", "1n", "30", "▁", " ", "<|im_end|>"],
        models_readers::tokenizer,
    );
}

#[test]
fn chat_templates_are_rendered_or_refused() {
    let seeds = [
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
        "{%- set ns = namespace(last=messages|length - 1, x=[]) %}{%- for m in messages[::-1] %}{%- set ns.x = [ns.x, m.content.split('</think>')[-1].strip('\\n')] %}{% endfor %}{{ ns.x|tojson }}",
        "{% macro f(a, b='!') %}{{ a ~ b }}{% endmacro %}{% if messages[0]['role'] == 'user' and loop is not defined %}{{ f(messages|map(attribute='content')|join('+')|trim) }}{% else %}{{ raise_exception('no') }}{% endif %}{{ strftime_now('%d %b %Y') }}",
    ];
    let seeds = seeds.map(|seed| format!("{seed}\0a\0b\0c").into_bytes());
    let seeds = [seeds.to_vec(), kept("models/fuzz", "chat_template")].concat();
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
    mutate(400, &seeds, &words, models_readers::chat_template);
}

#[test]
fn head_profiles_and_maps_are_read_or_refused() {
    let shape = HeadShape::new(2, 4, 2).expect("heads");
    let flags = vec![true, false, false, true];
    let gates = ScoreMap { name: "gate".into(), per: ScoresPer::KvHead, values: vec![0.5, 0.25, 1.0, 0.0] };
    let scores = ScoreMap { name: "echo".into(), per: ScoresPer::QueryHead, values: vec![0.5; 8] };
    let scored = HeadProfile::new(shape, flags, vec![gates, scores], Default::default()).expect("a profile");
    let profiles = [HeadProfile::uniform(shape, true).to_json(), scored.to_json()];
    let maps = ["0.5\t1.0\n0.0 0.25\n", r#"{"0-1": [0.5, 0.25], "1-3": [1], "0-0": []}"#];
    let config = r#"{"sink_size": 64, "recent_size": 256, "deploy_sink_size": null}"#;
    let seeds = profiles.into_iter().chain(maps.map(String::from)).chain([config.into()]);
    let seeds = [seeds.map(String::into_bytes).collect(), kept("engine/fuzz", "heads")].concat();
    let words = ["1e999", "-1", "NaN", "null", "[", "]", "{", "}", ",", "99999999999999999999", "\"scope\""];
    mutate(100_000, &seeds, &words, engine_readers::heads);
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
    let seeds = [seeds, kept("engine/fuzz", "policy")].concat();
    mutate(200_000, &seeds, &words, engine_readers::policy);
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
    mutate(2000, &seeds, &words, |bytes| engine_readers::session_file(&engine, &path, bytes));
}

#[test]
fn parts_of_session_files_are_restored_or_refused() {
    mutate(
        4000,
        &kept("engine/fuzz", "session"),
        &["\"", "1", "9", "-", "{", "}", "null"],
        engine_readers::session,
    );
}

/// Marks of HTML, and of XML as office programs and books have it.
const MARKS: [&str; 16] = [
    "<",
    ">",
    "</",
    "/>",
    "&",
    ";",
    "&#x1F600;",
    "<table><tr><td>",
    "<li>",
    "<pre>",
    "<!--",
    "<![CDATA[",
    "<w:p>",
    "<w:t>",
    "<w:tbl>",
    "href=\"",
];

#[test]
fn pages_are_converted_or_refused() {
    mutate(40_000, &kept("cli/documents/fuzz", "html"), &MARKS, documents_readers::html);
}

#[test]
fn documents_of_office_programs_are_converted_or_refused() {
    mutate(20_000, &kept("cli/documents/fuzz", "docx"), &MARKS, documents_readers::docx);
}

#[test]
fn texts_sheets_and_slides_are_converted_or_refused() {
    let words = [
        "<table:table-cell ",
        "<text:list>",
        "<c r='B2'>",
        "<mergeCell ref='A1:C9'/>",
        "<a:tc rowSpan='2'>",
        "\0",
    ];
    mutate(
        10_000,
        &kept("cli/documents/fuzz", "office"),
        &[&MARKS[..], &words[..]].concat(),
        documents_readers::office,
    );
}

#[test]
fn other_formats_are_converted_or_refused() {
    let words =
        ["{\\", "}", "\\cell", "\\row", "\\u", "\\'", "-->", "\r\n\r\n", "--x", "Content-Type: ", "[{", "\""];
    mutate(8_000, &kept("cli/documents/fuzz", "formats"), &words, documents_readers::formats);
}

#[test]
fn encrypted_documents_are_decrypted_or_refused() {
    let seeds = [
        &include_bytes!("../../../cli/documents/tests/fixtures/agile.docx")[..],
        include_bytes!("../../../cli/documents/tests/fixtures/standard.docx"),
    ];
    mutate(100, &seeds.map(<[u8]>::to_vec), &[], documents_readers::encrypted);
}

#[test]
fn answers_are_compared_with_documents() {
    let seeds = [
        "The rent is EUR 1,450.00 from 1 March 2024 on, says Ms Miller.\0She asks for 1450 euros and “90 %” of it by 5/3/24.",
        "Müller & Co. — 3 × 10^6 Zellen, §4.2 (a)\0- **Step 3.** See https://example.org/a?b=1 and a.b@example.org.\n# Dr. Mueller\n",
        "二〇二四年三月五日 1,5 Mio. €\0| 5 March | `A320` | ½ | ١٢٣ |",
    ];
    let seeds: Vec<_> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    let words = [
        "\0",
        " ",
        "\n",
        ".",
        ",",
        "2024-03-05",
        "1,000",
        "five million",
        "“",
        "\"",
        "Dr. ",
        "é",
        "@",
        "%",
        "12:30",
    ];
    mutate(20_000, &seeds, &words, documents_readers::lookup);
}

#[test]
fn books_are_converted_or_refused() {
    mutate(40_000, &kept("cli/documents/fuzz", "epub"), &MARKS, documents_readers::epub);
}

#[test]
fn text_is_decoded_or_refused() {
    mutate(40_000, &kept("cli/documents/fuzz", "text"), &[], documents_readers::text);
}

#[test]
fn pdfs_are_converted_or_refused() {
    let words =
        ["<<", ">>", "[", "]", "(", ")", " 0 R", "obj", "endobj", "stream\n", " Do ", " Tj ", "99999999999"];
    mutate(300, &kept("cli/documents/fuzz", "pdf"), &words, documents_readers::pdf);
}

#[test]
fn texts_anywhere_on_a_page_are_laid_out() {
    mutate(600, &kept("cli/documents/fuzz", "layout"), &[], documents_readers::layout);
}

#[test]
fn shapes_of_answers() {
    let schemas = [
        r##"0{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":9},"n":{"type":"integer","minimum":-5,"multipleOf":5}},"required":["n"],"additionalProperties":false}"##,
        r##"0{"$ref":"#/$defs/tree","$defs":{"tree":{"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#/$defs/tree"},"maxItems":2}]}}}"##,
        r##"0{"oneOf":[{"const":"a"},{"enum":[1,2.5,true]},{"type":"string","pattern":"^[b-d]+$"},{"allOf":[{"type":"number"},{"exclusiveMinimum":3}]}]}"##,
        r##"0{"type":["string","null"],"format":"date","patternProperties":{"^x":{}},"prefixItems":[{"type":"boolean"}]}"##,
        "1start: \"a\" b* | /[0-9]{2,5}/\nb: (\"x\" | \"y\" start)? C\nC: /(?i)foo/ & ~/oo/\n%ignore / +/\n",
        "1%llguidance {}\nstart[capture]: a{1,3}\na: \"\\u00e9\" | b[max_tokens=3]\nb: /.*/\n",
    ];
    let words = [
        "\"not\":",
        "1e9",
        "\"minItems\":3",
        "\"allOf\":[",
        "{1,1000}",
        "(",
        ")",
        "null",
        "\"$ref\":\"#\"",
        "é",
        "<[3]>",
        "%json",
    ];
    let seeds = schemas.map(|text| text.as_bytes().to_vec());
    mutate(200, &seeds, &words, engine_readers::constraint);
}

#[test]
fn requests_are_understood_or_refused() {
    let words = [
        "{",
        "}",
        "[",
        "]",
        ",",
        "null",
        "true",
        "1e999",
        "-1",
        "\"\"",
        "\"type\":\"function\",",
        "\"documents\":[],",
        "\"tools\":",
        "\"tool_choice\":\"required\",",
        "\"sources\":true,",
        "\"role\":\"tool\",",
        "\"content\":[",
        "\\ud800",
        "<|im_end|>",
        "<tool_call>",
    ];
    mutate(2_000, &kept("cli/serve/fuzz", "requests"), &words, serve_readers::requests);
}
