//! Answers of a given shape: whatever a model says, what is complete has the shape.

use std::ops::ControlFlow;
use std::sync::Arc;

use longhand::error::ConstraintError;
use longhand::generation::{
    Constraint, GenerateOptions, Generated, Piece, Sampler, SamplerOptions, Stop, generate_with,
};
use longhand::text::split_thinking;
use longhand::{Chat, ChatOptions, Engine, Model, ModelSource, SessionOptions};
use models::embedded;
use models::gguf::write::{GgufWriter, MetaValue};
use models::gguf::{Blob, GgufFile};
use models::tokenizer::Tokenizer;
use serde_json::{Value, json};
use tests::fixtures::{embedded_model, model_in_memory, options, session, sync};
use tests::talking;

const QUESTION: &str = "Mary's favorite number is 34251. What is Mary's favorite number?";

/// Draws almost any token that may come.
fn wild(seed: u64) -> SamplerOptions {
    SamplerOptions { temperature: 5.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed, ..SamplerOptions::greedy() }
}

fn answer(
    engine: &Arc<Engine>,
    constraint: &Constraint,
    sampling: SamplerOptions,
    session_options: SessionOptions,
) -> Generated {
    let format = engine.model().chat_format().expect("a chat format");
    let mut session = session(engine, session_options);
    sync(&mut session, &format.tokenizer().encode(QUESTION, true, false).expect("tokens"));
    let mut sampler = Sampler::new(sampling).expect("a sampler");
    let options =
        GenerateOptions { limit: 150, constraint: Some(constraint.clone()), ..GenerateOptions::default() };
    let go_on = &mut |_: Piece| ControlFlow::Continue(());
    generate_with(&mut session, format.tokenizer(), &mut sampler, &options, go_on).expect("an answer")
}

/// Whether a value is valid by a schema with the keywords that are used here.
fn is_valid(value: &Value, schema: &Value, root: &Value) -> bool {
    let Value::Object(keywords) = schema else { return *schema == Value::Bool(true) };
    let of = |value: &Value, schema: &Value| is_valid(value, schema, root);
    keywords.iter().all(|(keyword, says)| match keyword.as_str() {
        "type" => match says {
            Value::Array(types) => types.iter().any(|one| has_type(value, one)),
            one => has_type(value, one),
        },
        "const" => value == says,
        "enum" => says.as_array().expect("values").contains(value),
        "anyOf" => says.as_array().expect("schemas").iter().any(|one| of(value, one)),
        "oneOf" => says.as_array().expect("schemas").iter().filter(|one| of(value, one)).count() == 1,
        "allOf" => says.as_array().expect("schemas").iter().all(|one| of(value, one)),
        "$ref" => {
            let pointer = says.as_str().and_then(|text| text.strip_prefix('#')).expect("a reference");
            of(value, root.pointer(pointer).expect("its target"))
        }
        "properties" => value.as_object().is_none_or(|members| {
            says.as_object()
                .expect("schemas")
                .iter()
                .all(|(name, one)| members.get(name).is_none_or(|value| of(value, one)))
        }),
        "required" => value.as_object().is_none_or(|members| {
            says.as_array()
                .expect("names")
                .iter()
                .all(|name| members.contains_key(name.as_str().expect("a name")))
        }),
        "additionalProperties" => value.as_object().is_none_or(|members| {
            let named = schema["properties"].as_object();
            members
                .iter()
                .filter(|(name, _)| named.is_none_or(|named| !named.contains_key(*name)))
                .all(|(_, value)| of(value, says))
        }),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| of(item, says))),
        "minItems" => {
            value.as_array().is_none_or(|items| items.len() as u64 >= says.as_u64().expect("a number"))
        }
        "maxItems" => {
            value.as_array().is_none_or(|items| items.len() as u64 <= says.as_u64().expect("a number"))
        }
        "minLength" => {
            value.as_str().is_none_or(|text| text.chars().count() as u64 >= says.as_u64().expect("a number"))
        }
        "maxLength" => {
            value.as_str().is_none_or(|text| text.chars().count() as u64 <= says.as_u64().expect("a number"))
        }
        "minimum" => value.as_f64().is_none_or(|number| number >= says.as_f64().expect("a number")),
        "maximum" => value.as_f64().is_none_or(|number| number <= says.as_f64().expect("a number")),
        "pattern" => {
            value.as_str().is_none_or(|text| !text.contains('"') && (2..6).contains(&text.chars().count()))
        }
        "exclusiveMaximum" => value.as_f64().is_none_or(|number| number < says.as_f64().expect("a number")),
        "exclusiveMinimum" => value.as_f64().is_none_or(|number| number > says.as_f64().expect("a number")),
        "multipleOf" => value.as_f64().is_none_or(|number| number % says.as_f64().expect("a number") == 0.0),
        "$defs" | "uniqueItems" => true,
        other => panic!("the validator lacks {other}"),
    })
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str().expect("a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    }
}

fn schemas() -> Vec<Value> {
    vec![
        json!({"type": "string", "maxLength": 12}),
        json!({"type": "string", "minLength": 3, "maxLength": 3}),
        json!({"enum": ["yes", "no", "ä \"quoted\"\n\\ \u{1}", "<|im_end|>", "\u{1F600}", 7, -0.5, null, [1, {"a": true}]]}),
        json!({"const": {"nested": [1, 2.5, "\u{7f}é"], "empty": {}}}),
        json!({"type": "integer", "minimum": -17, "maximum": 104}),
        json!({"type": "integer", "minimum": 5, "maximum": 400, "multipleOf": 5}),
        json!({"type": "number", "exclusiveMinimum": 0, "maximum": 0.75}),
        json!({"type": "number", "minimum": -1.5, "exclusiveMaximum": -1}),
        json!({"type": "integer", "exclusiveMinimum": -1, "exclusiveMaximum": 2}),
        json!({"type": "string", "pattern": "^[^\"\\x00-\\x1f]{2,5}$"}),
        json!({"type": "array", "uniqueItems": false, "maxItems": 1, "items": {"type": "boolean"}}),
        json!({"type": ["boolean", "null"]}),
        json!({"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "array", "maxItems": 2, "items": {"type": "boolean"}}}),
        json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
            "tags": {"type": "array", "maxItems": 2, "items": {"enum": ["a", "b"]}}}, "required": ["name", "age"], "additionalProperties": false}),
        json!({"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}], "$defs": {
            "cat": {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["kind", "lives"], "additionalProperties": false},
            "dog": {"type": "object", "properties": {"kind": {"const": "dog"}, "old": {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}}, "required": ["kind"], "additionalProperties": false}}}),
        json!({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}, "required": ["left"], "additionalProperties": false}}}),
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]},
            {"properties": {"a": {"maximum": 5}}, "additionalProperties": false}]}),
    ]
}

#[test]
fn complete_answers_are_valid_whatever_the_model_says() {
    let engine = embedded_model();
    let format = engine.model().chat_format().expect("a chat format");
    for schema in schemas() {
        let constraint = Constraint::json_schema(format, &schema.to_string())
            .unwrap_or_else(|error| panic!("{schema}: {error}"));
        let mut complete = 0;
        for seed in 0..6 {
            let sampling = if seed == 0 { SamplerOptions::greedy() } else { wild(seed) };
            let answer = answer(&engine, &constraint, sampling, options(400, "full"));
            if !answer.is_complete {
                assert_eq!(answer.stop, Stop::Length, "{schema}: {}", answer.text);
                continue;
            }
            complete += 1;
            assert!(!answer.text.contains('\n'), "one line: {}", answer.text);
            let value: Value = serde_json::from_str(&answer.text)
                .unwrap_or_else(|error| panic!("{schema}: {error}: {}", answer.text));
            assert!(is_valid(&value, &schema, &schema), "{schema}: {value}");
        }
        assert!(complete > 0, "{schema}");
    }
}

/// Computed at once or one after the other, with a policy that allows only one or with any: the answer is the same.
#[test]
fn forced_tokens_are_the_same_one_at_a_time() {
    let engine = embedded_model();
    let format = engine.model().chat_format().expect("a chat format");
    let schema = json!({"type": "object", "properties": {"the name of the person": {"enum": ["Mary", "Marvin", "John"]},
        "the favorite number": {"type": "integer", "minimum": 0, "maximum": 99999}, "is this known": {"const": true}},
        "required": ["the name of the person", "the favorite number", "is this known"], "additionalProperties": false});
    let constraint = Constraint::json_schema(format, &schema.to_string()).expect("a constraint");
    for sampling in [SamplerOptions::greedy(), wild(3), wild(4)] {
        let answers = [512, 1].map(|chunk| {
            let options = SessionOptions { chunk, ..options(400, "full") };
            answer(&engine, &constraint, sampling.clone(), options)
        });
        assert_eq!(answers[0].tokens, answers[1].tokens);
        assert!(answers[0].is_complete && answers[0].forced > 10, "{:?}", answers[0]);
        assert_eq!(answers[0].forced, answers[1].forced);
        assert!(answers[0].drafts.used <= answers[0].drafts.made, "{:?}", answers[0]);
    }
}

/// An answer that its limit cuts off does not have the shape, and going on with it gives what it would have been.
#[test]
fn answers_that_are_cut_off_are_incomplete_and_can_be_continued() {
    let engine = embedded_model();
    let schema = json!({"type": "array", "items": {"enum": ["one", "two"]}, "minItems": 4, "maxItems": 5});
    let constraint =
        Constraint::json_schema(engine.model().chat_format().expect("a format"), &schema.to_string())
            .expect("a constraint");
    let ask = |limit| {
        let options = ChatOptions {
            answer_limit: Some(limit),
            sampling: SamplerOptions::greedy(),
            ..ChatOptions::default()
        };
        let mut chat = Chat::new(session(&engine, options_of_session()), options).expect("a chat");
        chat.set_constraint(Some(constraint.clone()));
        let answer = chat.ask(QUESTION, &mut |_| ()).expect("an answer");
        (chat, answer)
    };
    let (_, whole) = ask(100);
    assert!(whole.is_complete, "{whole:?}");
    for limit in [0, 1, 3, 7] {
        let (mut chat, mut answer) = ask(limit);
        assert_eq!((answer.is_complete, &answer.stop), (false, &Stop::Length), "{answer:?}");
        chat.set_answer_limit(Some(100));
        answer = chat.continue_answer(&mut |_| ControlFlow::Continue(())).expect("the rest");
        assert_eq!((&answer.text, answer.is_complete), (&whole.text, true));
    }
    // Without a constraint the next answer is text again.
    let (mut chat, _) = ask(100);
    chat.set_constraint(None);
    assert_eq!(chat.ask(QUESTION, &mut |_| ()).expect("an answer").text, "Mary's favorite number is 34251.");
}

fn options_of_session() -> SessionOptions {
    options(400, "full")
}

#[test]
fn grammars_and_regular_expressions() {
    let engine = embedded_model();
    let format = engine.model().chat_format().expect("a chat format");
    let grammar = "start: \"yes\" | \"no\" | number\nnumber: /[0-9]{2,3}/ unit\nunit: \" km\" | \" m\"\n";
    let constraint = Constraint::grammar(format, grammar).expect("a grammar");
    for seed in 0..8 {
        let answer = answer(&engine, &constraint, wild(seed), options(400, "full"));
        let number = answer.text.strip_suffix("km").or(answer.text.strip_suffix("m")).map(str::trim);
        let is_number = number.is_some_and(|number| number.len() >= 2 && number.parse::<u16>().is_ok());
        assert!(
            answer.is_complete && (is_number || ["yes", "no"].contains(&answer.text.as_str())),
            "{answer:?}"
        );
    }
    let constraint = Constraint::regex(format, "[A-Z]{3}-[0-9]{4}").expect("an expression");
    let answer = answer(&engine, &constraint, wild(1), options(400, "full"));
    assert!(answer.is_complete && answer.text.len() == 8 && answer.text.as_bytes()[3] == b'-', "{answer:?}");
}

/// Biases that leave nothing of what the shape allows are an error, and never another token.
#[test]
fn biases_and_shapes_that_contradict_each_other_are_errors() {
    let engine = embedded_model();
    let format = engine.model().chat_format().expect("a chat format");
    let constraint = Constraint::regex(format, "[ab]").expect("an expression");
    let tokenizer = format.tokenizer();
    let banned = (0..tokenizer.n_vocab() as u32)
        .filter(|id| {
            tokenizer
                .token_bytes(*id)
                .is_some_and(|bytes| [b"a", b"b"].contains(&bytes.first_chunk().unwrap_or(b" ")))
        })
        .map(|id| (id, f32::NEG_INFINITY))
        .collect();
    let mut session = session(&engine, options(100, "full"));
    sync(&mut session, &[11, 12]);
    let mut sampler =
        Sampler::new(SamplerOptions { logit_bias: banned, ..SamplerOptions::greedy() }).expect("a sampler");
    let options = GenerateOptions { constraint: Some(constraint), ..GenerateOptions::default() };
    let go_on = &mut |_: Piece| ControlFlow::Continue(());
    let error =
        generate_with(&mut session, tokenizer, &mut sampler, &options, go_on).expect_err("nothing may come");
    assert!(error.to_string().contains("biases ban all tokens"), "{error}");
}

/// Thinking is free, whoever begins it, and the shape holds behind it.
#[test]
fn the_shape_begins_behind_the_thinking() {
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n<think>\n";
    let pieces = ["I ", "think: ", "{ no.", "\n</think>", "\n\n", "It is ", "so."];
    let file = talking::model(&pieces, Some(template));
    let model = Model::open(ModelSource::Bytes(file.clone().into())).expect("a model");
    let format = model.chat_format().expect("a chat format");
    let constraint =
        Constraint::json_schema(format, r#"{"enum": ["It is so", "It was so"]}"#).expect("a constraint");
    let engine = model_in_memory("thinks", file, &tests::engine_options());
    let options =
        ChatOptions { answer_limit: Some(100), sampling: SamplerOptions::greedy(), ..ChatOptions::default() };
    let mut chat = Chat::new(session(&engine, options_of_session()), options).expect("a chat");
    chat.set_constraint(Some(constraint));
    let answer = chat.ask(QUESTION, &mut |_| ()).expect("an answer");
    let (thinking, text) = split_thinking(&answer.text);
    assert_eq!(thinking, Some("I think: { no."), "{answer:?}");
    assert!(answer.is_complete && ["\"It is so\"", "\"It was so\""].contains(&text), "{answer:?}");
    // Thinking that takes all tokens leaves an answer without its shape.
    let options =
        ChatOptions { answer_limit: Some(3), sampling: SamplerOptions::greedy(), ..ChatOptions::default() };
    let constraint =
        Constraint::json_schema(engine.model().chat_format().expect("a format"), "true").expect("any JSON");
    let mut chat = Chat::new(session(&engine, options_of_session()), options).expect("a chat");
    chat.set_constraint(Some(constraint));
    assert!(!chat.ask(QUESTION, &mut |_| ()).expect("an answer").is_complete);
}

/// The same model with other metadata.
fn changed(file: impl Into<Blob>, change: impl FnOnce(&GgufFile, &mut GgufWriter)) -> Vec<u8> {
    let old = GgufFile::from_bytes(file).expect("a model");
    let mut writer = GgufWriter::with_metadata_of(&old);
    change(&old, &mut writer);
    writer.tensors_of(&old).to_bytes_with_data_of(&old).expect("a file in memory")
}

/// The same model with other kinds for tokens with these texts.
fn with_kinds(file: Vec<u8>, kinds: &[(&str, i32)]) -> Vec<u8> {
    changed(file, |old, writer| {
        let tokenizer = Tokenizer::from_gguf(old).expect("a tokenizer");
        let kind = |id| {
            let text = tokenizer.token_text(id).expect("a token");
            let named = kinds.iter().find(|(name, _)| *name == text);
            named.map_or(if tokenizer.is_control(id) { 3 } else { 1 }, |(_, kind)| *kind)
        };
        let all: Vec<i32> = (0..tokenizer.n_vocab() as u32).map(kind).collect();
        writer.set("tokenizer.ggml.token_type", MetaValue::i32s(all));
    })
}

/// Tokenizers that put a space before a text cannot say how a piece of it is encoded: there, nothing is forced. Their bytes are
/// tokens.
#[test]
fn tokenizers_with_a_space_before_the_text() {
    let file = changed(embedded::needle(), |_, writer| {
        let special = ["<unk>", "<s>", "</s>"].map(str::to_owned);
        let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
        let texts = ["\u{2581}", "\u{2581}{\"", "\":", "\u{2581}\"", "yes", "a", "}"].map(str::to_owned);
        let mut tokens: Vec<String> = special.into_iter().chain(bytes).chain(texts).collect();
        let text_begins = 3 + 256;
        tokens.extend((tokens.len()..2048).map(|id| format!("w{id}")));
        let kind = |id| match id {
            0 => 2,
            1 | 2 => 3,
            id if id < text_begins => 6,
            _ => 1,
        };
        writer.set("tokenizer.ggml.model", "llama");
        writer.set("tokenizer.ggml.tokens", MetaValue::strings(tokens));
        writer.set("tokenizer.ggml.scores", MetaValue::f32s((0..2048).map(|id| -(id as f32))));
        writer.set("tokenizer.ggml.token_type", MetaValue::i32s((0..2048).map(kind)));
        writer.set("tokenizer.ggml.bos_token_id", 1u32).set("tokenizer.ggml.eos_token_id", 2u32);
    });
    let engine = model_in_memory("space-before", file, &tests::engine_options());
    let format = engine.model().chat_format().expect("a chat format");
    for schema in schemas().iter().take(10) {
        let constraint = Constraint::json_schema(format, &schema.to_string()).expect("a constraint");
        let answers = [0, 1, 2].map(|seed| answer(&engine, &constraint, wild(seed), options(400, "full")));
        assert!(answers.iter().any(|answer| answer.is_complete), "{schema}: {answers:?}");
        for answer in answers.iter().filter(|answer| answer.is_complete) {
            let value: Value = serde_json::from_str(&answer.text).expect("JSON");
            assert!(is_valid(&value, schema, schema) && answer.forced == 0, "{schema}: {answer:?}");
        }
    }
}

/// Where a model begins to think by itself, its marks come before the shape, and what they put before the answer is forced.
#[test]
fn a_model_may_think_before_the_shape() {
    let think: &[_] = &["<think>", "{ hm.", "</think>", "\n\n", "no", "yes"];
    let channels: &[_] = &[
        "<|channel|>",
        "analysis",
        "<|message|>",
        "{ hm.",
        "<|end|>",
        "<|start|>",
        "no",
        "yes",
        "<|return|>",
        "<|call|>",
    ];
    let kinds = [
        ("<think>", 4),
        ("</think>", 3),
        ("<|channel|>", 3),
        ("<|message|>", 3),
        ("<|end|>", 3),
        ("<|return|>", 3),
        ("<|call|>", 3),
        ("<|start|>", 3),
    ];
    for pieces in [think, channels] {
        let file = with_kinds(talking::model(pieces, None), &kinds);
        let engine = model_in_memory("thinks-first", file, &tests::engine_options());
        let format = engine.model().chat_format().expect("a chat format");
        let constraint = Constraint::regex(format, "yes|no").expect("an expression");
        let options = ChatOptions {
            answer_limit: Some(50),
            sampling: SamplerOptions::greedy(),
            ..ChatOptions::default()
        };
        let mut chat = Chat::new(session(&engine, options_of_session()), options).expect("a chat");
        chat.set_constraint(Some(constraint));
        let answer = chat.ask(QUESTION, &mut |_| ()).expect("an answer");
        let (thinking, text) = split_thinking(&answer.text);
        assert_eq!(thinking, Some("{ hm."), "{answer:?}");
        assert!(answer.is_complete && ["yes", "no"].contains(&text), "{answer:?}");
    }
}

/// A constraint of another model is refused.
#[test]
fn a_constraint_is_for_the_tokens_of_its_model() {
    let embedded = embedded_model();
    let constraint =
        Constraint::regex(embedded.model().chat_format().expect("a format"), "a").expect("an expression");
    let engine = tests::fixtures::tiny_model();
    let tokenizer = Tokenizer::from_gguf(engine.file()).expect("a tokenizer");
    assert_ne!(tokenizer.n_vocab(), embedded.spec().n_vocab);
    let mut session = session(&engine, options(100, "full"));
    sync(&mut session, &[11, 12]);
    let mut sampler = Sampler::new(SamplerOptions::greedy()).expect("a sampler");
    let options = GenerateOptions { constraint: Some(constraint), ..GenerateOptions::default() };
    let go_on = &mut |_: Piece| ControlFlow::Continue(());
    let error =
        generate_with(&mut session, &tokenizer, &mut sampler, &options, go_on).expect_err("another model");
    assert!(error.to_string().contains("compiled for another model"), "{error}");
}

/// Hostile and mistaken schemas and grammars are errors in words, in little time and memory.
#[test]
fn what_cannot_be_compiled_is_refused() {
    let engine = embedded_model();
    let format = engine.model().chat_format().expect("a chat format");
    let nested = |n: usize, begin: &str, end: &str| format!("{}true{}", begin.repeat(n), end.repeat(n));
    let many = |n: usize| (0..n).map(|k| format!("\"p{k}\":true")).collect::<Vec<_>>().join(",");
    let chain = |n: usize| {
        let all: Vec<_> = (0..n).map(|k| format!("\"d{k}\":{{\"$ref\":\"#/$defs/d{}\"}}", k + 1)).collect();
        format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{},\"d{n}\":true}}}}", all.join(","))
    };
    let bomb = format!(
        "{{\"allOf\":[{{\"oneOf\":[{}true]}},{{\"properties\":{{{}}}}}]}}",
        "true,".repeat(2500),
        many(400)
    );
    for (schema, words) in [
        ("{".to_owned(), "the JSON schema is not JSON: EOF"),
        ("[1]".into(), "the JSON schema at #: a schema is an object, true or false"),
        ("{\"type\": \"strong\"}".into(), "Invalid type: strong"),
        (
            "{\"items\": {\"contains\": {}}}".into(),
            "the JSON schema at #/items: the keyword \"contains\" is not supported",
        ),
        (
            "{\"properties\": {\"if\": {\"if\": true}}}".into(),
            "at #/properties/if: the keyword \"if\" is not supported",
        ),
        ("{\"uniqueItems\": true}".into(), "the keyword \"uniqueItems\" is not supported"),
        ("{\"x-guidance\": {\"lenient\": true}}".into(), "the keyword \"x-guidance\" is not supported"),
        ("{\"format\": \"color\"}".into(), "Unknown format: color"),
        (
            "{\"$ref\": \"https://example.com/a.json\"}".into(),
            "there is no \"https://example.com/a.json\" in the schema",
        ),
        ("{\"$ref\": \"#/$defs/a\"}".into(), "there is no \"#/$defs/a\" in the schema"),
        ("{\"$ref\": \"#\"}".into(), "no answer can have this shape"),
        (
            "{\"oneOf\": [{\"type\": \"object\"}, {\"type\": \"object\"}]}".into(),
            "two alternatives of oneOf may be valid at once",
        ),
        ("{\"type\": \"string\", \"enum\": [1]}".into(), "no answer can have this shape: incompatible types"),
        ("{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}".into(), "no answer can have this shape"),
        ("false".into(), "no answer can have this shape: the schema is false"),
        ("{\"type\": \"integer\", \"maximum\": 1e300}".into(), "maximum is 1e+300; only numbers up to 2^53"),
        (
            "{\"exclusiveMinimum\": 1e12}".into(),
            "exclusiveMinimum is 1000000000000; of numbers it is supported up to",
        ),
        ("{\"const\": 9007199254740993}".into(), "const has the number 9007199254740993"),
        ("{\"multipleOf\": 1e-10}".into(), "multipleOf is 1e-10; it must be"),
        ("{\"multipleOf\": 1000007}".into(), "multipleOf is 1000007; it must be"),
        (
            "{\"allOf\": [{\"multipleOf\": 9973}, {\"multipleOf\": 9967}]}".into(),
            "the values of multipleOf that hold at once take too many states",
        ),
        ("{\"pattern\": \"(?=a)b\"}".into(), "a regular expression: look-around"),
        ("{\"pattern\": \"^[^\\\"]*$\"}".into(), "leave out control characters too"),
        ("{\"patternProperties\": {\"^[^/\\\\\\\\]+$\": true}}".into(), "leave out control characters too"),
        ("{\"pattern\": \"(\"}".into(), "a regular expression: unclosed group"),
        (nested(130, "{\"items\":", "}"), "the JSON schema is not JSON: recursion limit"),
        (chain(2000), "too complex: it has more than 5000 schemas, or more than 150 within each other"),
        (
            format!("{{\"properties\":{{{}}}}}", many(501)),
            "an object has 501 properties and 0 patterns of properties; up to 500",
        ),
        (format!("{{\"prefixItems\":[{}true]}}", "true,".repeat(10_000)), "it has more than 5000 schemas"),
        (bomb, "too many alternatives are combined at #"),
        (" ".repeat(300_000), "too complex: it has 300000 bytes"),
        (format!("{{\"minimum\": \"{}\"}}", "é".repeat(80)), "it cannot be compiled"),
    ] {
        let error = Constraint::json_schema(format, &schema).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
        assert!(!error.contains('\n') && error.len() < 400, "{error}");
    }
    let tokenizer = format.tokenizer();
    let mut ids = 0..tokenizer.n_vocab() as u32;
    let control =
        ids.find(|id| tokenizer.is_control(*id) && !tokenizer.is_eog(*id)).expect("a control token");
    for (grammar, words) in [
        (String::new(), "the grammar: no start rule found"),
        ("root ::= \"yes\"".into(), "this is GBNF, not Lark"),
        ("start: %json {}".into(), "a JSON schema in a grammar is not supported"),
        ("start: \"a\" (".into(), "the grammar: "),
        ("start: <|im_end|>".into(), "the grammar: it cannot be compiled; tokens such as <|im_end|>"),
        (format!("start: <[{control}]>"), "no token can come next"),
        (format!("start: {}\"a\"{}", "(".repeat(5000), ")".repeat(5000)), "too deeply nested"),
        ("start: \"a\"{1000000000}".into(), "too complex"),
        ("x".repeat(300_000), "too complex: it has 300000 bytes"),
    ] {
        let error = Constraint::grammar(format, &grammar).expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(matches!(Constraint::regex(format, "a["), Err(ConstraintError::Grammar { .. })));
}
