//! Every policy keeps the rows that its reference chooses, in models of every kind of attention.
//! `golden/policies/models.py` chose them from the keys, values and queries that transformers computes.

use std::sync::Arc;

use longhand::testing::kv::PolicyChoice;
use longhand::testing::kv::policy::policies;
use longhand::{Engine, Session, SessionOptions};
use models::gguf::GgufFile;
use models::spec::ModelSpec;
use serde_json::Value;
use tests::fixtures::{
    case_tokens, family_file, max_difference, model_in_memory, options, session, sync, with_policy,
};
use tests::{device_tolerance, engine_options, is_gpu, packed};

/// Tokens computed at a time, as in `models.py`.
const CHUNK: usize = 24;

struct Case {
    name: String,
    engine: Arc<Engine>,
    tokens: Vec<u32>,
    /// How many of the tokens are read at once. The others are decode steps.
    prompt: usize,
    /// The layers in which the policy acts.
    layers: Vec<usize>,
    json: Value,
}

impl Case {
    /// Each policy with what it keeps after the prompt and after the steps, and the first logits then.
    fn policies(&self) -> impl Iterator<Item = (PolicyChoice, &Value)> {
        let policies = self.json["policies"].as_object().expect("policies").iter();
        policies.map(|(policy, kept)| (policy.parse().expect(policy), kept))
    }

    fn options(&self, policy: &PolicyChoice) -> SessionOptions {
        let options = SessionOptions { chunk: CHUNK, ..options(self.tokens.len(), "full") };
        with_policy(&self.engine, policy, options)
    }

    /// Compares what the layers hold with `kept`, in which there is an item for each of `self.layers`.
    fn check_positions(&self, session: &Session, kept: &Value, what: &str) {
        let (spec, seen) = (self.engine.spec(), session.store().seen());
        for layer in 0..spec.n_layers {
            let heads = spec.kv_heads(layer).count;
            let number = self.layers.iter().position(|other| *other == layer);
            let want = match (number, spec.window(layer)) {
                (Some(number), _) => of_heads(&kept[number], heads),
                // Other layers with rows of their own keep their window, whatever the policy is.
                (None, Some(window)) if !spec.shares_kv(layer) => {
                    vec![(seen - window..seen).map(|row| row as u32).collect(); heads]
                }
                (None, _) => Vec::new(),
            };
            let found = session.store().positions(layer);
            assert!(are_kept(&found, &want), "{}, {what}, layer {layer}: {found:?}, not {want:?}", self.name);
        }
    }
}

/// Whether these are the positions of each head. Of a GPU, which rounds in other ways, one in each head may be another: the
/// two are about as good.
fn are_kept(found: &[Vec<u32>], want: &[Vec<u32>]) -> bool {
    let others =
        |(found, want): (&Vec<u32>, &Vec<u32>)| want.iter().filter(|row| !found.contains(row)).count();
    let lengths = |heads: &[Vec<u32>]| -> Vec<usize> { heads.iter().map(Vec::len).collect() };
    let are_near = || lengths(found) == lengths(want) && found.iter().zip(want).map(others).all(|n| n <= 1);
    found == want || is_gpu() && are_near()
}

/// The positions of each head. They are ranges such as `0-2,7`, for each head or for all heads at once.
fn of_heads(kept: &Value, heads: usize) -> Vec<Vec<u32>> {
    let of_head = |ranges: &Value| -> Vec<u32> {
        let bounds = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let [first, last] = [first, last].map(|position| position.parse::<u32>().expect(position));
            first..=last
        };
        ranges.as_str().expect("ranges").split(',').flat_map(bounds).collect()
    };
    kept.as_array().map_or_else(|| vec![of_head(kept); heads], |all| all.iter().map(of_head).collect())
}

fn cases() -> impl Iterator<Item = Case> {
    let json = packed::unpacked("golden/policies/models.json.br");
    let json: Vec<Value> = serde_json::from_slice(&json).expect("the cases are JSON");
    json.into_iter().map(|json| {
        let name = json["name"].as_str().expect("a name").to_owned();
        let number = |value: &Value| value.as_u64().expect("a number") as usize;
        Case {
            engine: model_in_memory(&name, file(&name, &json["sinks"]), &engine_options()),
            tokens: case_tokens(&json),
            prompt: number(&json["prompt"]),
            layers: json["layers"].as_array().expect("layers").iter().map(number).collect(),
            name,
            json,
        }
    })
}

/// The file of a model whose learned sinks are larger by `added`. They are too small in the file to change what is kept.
fn file(name: &str, added: &Value) -> Vec<u8> {
    let added = added.as_f64().expect("a number") as f32;
    let mut bytes = family_file(name);
    let parsed = GgufFile::from_bytes(bytes.clone()).expect("a file");
    let sinks = (0..).map_while(|layer| parsed.tensor(&format!("blk.{layer}.attn_sinks.weight")));
    for tensor in sinks {
        let numbers = &mut bytes[tensor.offset as usize..][..tensor.bytes as usize];
        for number in numbers.as_chunks_mut::<4>().0 {
            *number = (f32::from_le_bytes(*number) + added).to_le_bytes();
        }
    }
    bytes
}

#[test]
fn policies_keep_the_rows_that_the_reference_chooses() {
    for case in cases() {
        for (policy, kept) in case.policies() {
            let mut session = session(&case.engine, case.options(&policy));
            let (prompt, steps) = case.tokens.split_at(case.prompt);
            sync(&mut session, prompt);
            case.check_positions(&session, &kept[0], &format!("{policy} after the prompt"));
            steps.iter().for_each(|token| session.push(*token).expect("a step"));
            case.check_positions(&session, &kept[1], &format!("{policy} after the steps"));

            // The steps attended to the rows that are kept, and to no others.
            let logits = kept[2].as_array().expect("logits").iter();
            let logits: Vec<f32> = logits.map(|x| x.as_f64().expect("a logit") as f32).collect();
            let difference = max_difference(&session.logits()[..logits.len()], &logits);
            assert!(difference < 1e-3 + device_tolerance(), "{}, {policy}: {difference:e}", case.name);
        }
    }
}

/// Policies without a case are those that the model refuses.
#[test]
fn every_model_has_a_case_of_every_policy() {
    let mut refused = Vec::new();
    for case in cases() {
        // What `kvzap` predicts depends on no kind of attention: see `prediction`. `kvzip-plus` has factors on the attention of
        // `kvzip`: see `reconstruction`.
        let is_elsewhere = |name| ["kvzap", "kvzip-plus"].contains(&name);
        for entry in policies().filter(|entry| entry.factory.is_some() && !is_elsewhere(entry.name)) {
            if case.policies().any(|(policy, _)| policy.name() == entry.name) {
                continue;
            }
            let policy: PolicyChoice = entry.name.parse().expect(entry.name);
            let error = Session::new(&case.engine, case.options(&policy)).err().expect("a case is missing");
            refused.push((case.name.clone(), error.to_string()));
        }
    }
    let [(model, reason)] = &refused[..] else { panic!("{refused:#?}") };
    assert!(model == "gpt2-4-f32" && reason.contains("the model has no positions there"), "{refused:#?}");
}

#[test]
fn there_is_a_model_of_every_kind_of_attention() {
    type IsKind = fn(&ModelSpec) -> bool;
    let specs: Vec<ModelSpec> = cases().map(|case| case.engine.spec().clone()).collect();
    let kinds: [(&str, IsKind); 11] = [
        ("grouped heads", |spec| spec.n_kv_heads > 1 && spec.n_kv_heads < spec.n_heads),
        ("a KV head for each head", |spec| spec.n_kv_heads == spec.n_heads),
        ("one KV head", |spec| spec.n_kv_heads == 1),
        ("windows", |spec| (0..spec.n_layers).any(|layer| spec.window(layer).is_some())),
        ("heads of local layers", |spec| spec.has_local_heads()),
        ("shared rows", |spec| (0..spec.n_layers).any(|layer| spec.shares_kv(layer))),
        ("soft caps", |spec| spec.attention.softcap.is_some()),
        ("sinks", |spec| spec.attention.sink_logits),
        ("ALiBi", |spec| spec.position_encoding.is_alibi()),
        ("latent attention", |spec| spec.latent.is_some()),
        ("recurrent layers", |spec| spec.recurrent.is_some()),
    ];
    for (kind, is_kind) in kinds {
        assert!(specs.iter().any(is_kind), "{kind}");
    }
}
