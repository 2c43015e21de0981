//! Tiny random models of all families compute what transformers or llama.cpp compute, however a text is read. They also
//! run under policies that evict rows. `golden/families.py` makes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longhand::heads::SelectionRule;
use longhand::policy::KvBudget;
use longhand::reading::Prefill;
use longhand::setup::plan::Plan;
use longhand::setup::{Context, DeviceRequest};
use longhand::testing::calibrate::{CalibrationOptions, calibrate};
use longhand::testing::kv::PolicyChoice;
use longhand::testing::outline::tensor_outlines;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{
    Engine, EngineOptions, InterruptFlag, ModelSource, Session, SessionOptions, Setup, SetupOptions,
};
use models::arch::{Arch, Gating};
use models::gguf::GgufFile;
use models::gguf::write::GgufWriter;
use models::spec::{KvHeads, LocalLayers, ModelSpec, ModelTensors, PositionEncoding, Rope, RopeScaling};
use models::types::TensorType;
use serde_json::Value;
use tests::fixtures::{
    blamed_tensor, case_tokens, family_cases, family_file, family_model, golden_source, max_difference,
    plan_options, session, sync, with_policy,
};
use tests::{device_tolerance, fixtures, packed};

struct Case {
    name: String,
    engine: Arc<Engine>,
    tokens: Vec<u32>,
    /// `[12, n_vocab]`: logits of the last tokens.
    logits: Vec<f32>,
    json: Value,
}

impl Case {
    fn limit(&self, key: &str) -> f32 {
        self.json[key].as_f64().expect(key) as f32 + device_tolerance()
    }

    /// Room for the tokens of the case; no more, because models with learned positions have no more.
    fn options(&self, chunk: usize) -> SessionOptions {
        SessionOptions { chunk, ..fixtures::options(self.tokens.len(), "full") }
    }

    fn is_f32(&self) -> bool {
        self.name.ends_with("f32")
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let mut logits: BTreeMap<String, Vec<f32>> = packed::logits("golden/families/logits.br");
    family_cases().into_iter().map(move |json| {
        let name = json["name"].as_str().expect("a name").to_owned();
        Case {
            engine: family_model(&name),
            tokens: case_tokens(&json),
            logits: logits.remove(&name).expect("logits"),
            name,
            json,
        }
    })
}

#[test]
fn every_architecture_has_models() {
    let known: Vec<Arch> = cases().map(|case| case.engine.spec().arch).collect();
    let others = [Arch::Llama, Arch::Qwen2, Arch::Qwen3, Arch::Baichuan];
    for arch in Arch::ALL.iter().filter(|arch| !others.contains(arch)) {
        let models = known.iter().filter(|known| *known == arch).count();
        assert!(models >= 2, "{}: {models} models", arch.name());
    }
}

#[test]
fn logits_equal_those_of_transformers_or_llama_cpp() {
    let mut failures = Vec::new();
    for case in cases() {
        let all = session(&case.engine, case.options(512)).all_logits(&case.tokens).expect("logits");
        let last = &all[all.len() - case.logits.len()..];
        let difference = max_difference(last, &case.logits);
        println!("{:28} {difference:.2e}", case.name);
        let squares: f32 = last.iter().zip(&case.logits).map(|(a, b)| (a - b).powi(2)).sum();
        let rms = (squares / last.len() as f32).sqrt();
        if difference > case.limit("max_abs") || rms > case.limit("rms") {
            failures.push(format!("{}: {difference:.2e}, rms {rms:.2e}", case.name));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Exact prefill, streaming prefill and decoding token by token give the same logits.
#[test]
fn prefill_modes_and_decoding_agree() {
    for case in cases().filter(Case::is_f32) {
        let all = session(&case.engine, case.options(512)).all_logits(&case.tokens).expect("logits");
        let want = &all[all.len() - case.engine.spec().n_vocab..];
        let check = |what: &str, logits: &[f32]| {
            let difference = max_difference(logits, want);
            assert!(difference < 1e-4 + device_tolerance(), "{}, {what}: {difference:e}", case.name);
        };
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let mut session = session(&case.engine, SessionOptions { prefill, ..case.options(20) });
            sync(&mut session, &case.tokens);
            check(&format!("{prefill:?}"), session.logits());
        }
        let mut session = session(&case.engine, case.options(512));
        case.tokens.iter().for_each(|token| session.push(*token).expect("a step"));
        check("token by token", session.logits());
    }
}

#[test]
fn policies_that_evict_rows_run() {
    for case in cases() {
        // With ALiBi, the windows of razor's heads are `buffer` tokens.
        for policy in ["razor:buffer=8,ratio=5,sinks=2,slack=0", "snapkv:capacity=16,window=4,slack=0"] {
            let policy = policy.parse().unwrap_or_else(|error| panic!("{policy}: {error}"));
            let options = with_policy(&case.engine, &policy, case.options(16));
            let mut session = session(&case.engine, options);
            let (prompt, rest) = case.tokens.split_at(40);
            sync(&mut session, prompt);
            rest.iter().for_each(|token| session.push(*token).expect("a step"));
            assert!(session.logits().iter().all(|logit| logit.is_finite()), "{}, {policy}", case.name);
            let usage = session.kv_usage();
            assert!(usage.bytes < usage.full_bytes, "{}, {policy}: nothing was evicted", case.name);
        }
    }
}

#[test]
fn learned_positions_bound_the_context() {
    let case = cases().find(|case| case.name == "gpt2-4-f32").expect("the case");
    assert!(Session::new(&case.engine, fixtures::options(64, "full")).is_ok());
    let error = Session::new(&case.engine, fixtures::options(65, "full")).err().expect("too long");
    let expected = "a session holds 1 to 64 tokens: the model has no more positions";
    assert!(error.to_string().contains(expected), "{error}");
}

/// The random tokens of a calibration are no more than the model has positions.
#[test]
fn memory_is_planned_for_a_calibration_within_learned_positions() {
    let case = cases().find(|case| case.name == "gpt2-4-f32").expect("the case");
    let asked = CalibrationOptions::default();
    longhand::setup::calibration_options(&case.engine, asked).expect("64 positions are enough");
}

/// What the error says is about what was asked for, and no policy was.
#[test]
fn a_budget_alone_is_refused_without_rope() {
    let case = cases().find(|case| case.name == "gpt2-4-f32").expect("the case");
    let options = SetupOptions {
        context: Context::Tokens(60),
        budget: Some(KvBudget::Share(0.3)),
        device: DeviceRequest::Cpu,
        ..SetupOptions::default()
    };
    let error = Setup::resolve(case.engine.model(), &options, 20, &mut ()).err().expect("a refusal");
    assert!(error.to_string().starts_with("a KV budget without a policy"), "{error}");
}

/// LongRoPE's model was trained with 32 tokens.
#[test]
fn longer_contexts_have_other_rope_factors() {
    let case = cases().find(|case| case.name == "phi3-longrope-f32").expect("the case");
    let [short, same, long] = [20, 32, 33].map(|context| {
        let mut session = session(&case.engine, fixtures::options(context, "full"));
        sync(&mut session, &case.tokens[..20]);
        session.logits().to_vec()
    });
    assert_eq!(short, same);
    assert!(max_difference(&short, &long) > 0.1);
}

/// Sessions whose keys are rotated in different ways cannot read a text together.
#[test]
fn sessions_with_other_rope_factors_do_not_read_together() {
    let case = cases().find(|case| case.name == "phi3-longrope-f32").expect("the case");
    for (contexts, is_read) in [([20, 32], true), ([32, 33], false)] {
        let mut sessions = contexts.map(|context| session(&case.engine, fixtures::options(context, "full")));
        let read = longhand::reading::sync_all(&mut sessions, &case.tokens[..20], &mut |_| ());
        assert_eq!(read.is_ok(), is_read, "{contexts:?}");
    }
}

/// Calibration reads four times a period. From 33 tokens on the factors for long contexts count.
#[test]
fn calibration_uses_the_rope_factors_of_its_tokens() {
    const TENSORS: [&str; 2] = ["rope_factors_short.weight", "rope_factors_long.weight"];
    let scores = |changed: Option<&str>, period: usize| {
        let mut bytes = family_file("phi3-longrope-f32");
        if let Some(name) = changed {
            let file = GgufFile::from_bytes(bytes.clone()).expect("a file");
            let tensor = file.tensor(name).expect(name);
            let factors = &mut bytes[tensor.offset as usize..][..tensor.bytes as usize];
            factors.chunks_exact_mut(4).for_each(|factor| factor.copy_from_slice(&7f32.to_le_bytes()));
        }
        let engine =
            Engine::open(&ModelSource::Bytes(bytes.into()), &tests::engine_options()).expect("opens");
        let options = CalibrationOptions { period, ..CalibrationOptions::default() };
        let profile =
            calibrate(&engine, &options, &SelectionRule::default(), &InterruptFlag::new(), &mut |_| ())
                .expect("scores");
        // Shares of rows come from another text.
        profile.score("induction").cloned()
    };
    for (period, counts) in [(7, [true, false]), (10, [false, true])] {
        let unchanged = scores(None, period);
        let differs = TENSORS.map(|name| scores(Some(name), period) != unchanged);
        assert_eq!(differs, counts, "4 * {period} tokens");
    }
}

/// Its keys are rotated as in a short context.
#[test]
fn a_saved_session_is_not_continued_with_other_rope_factors() {
    let case = cases().find(|case| case.name == "phi3-longrope-f32").expect("the case");
    let mut saved = session(&case.engine, fixtures::options(30, "full"));
    sync(&mut saved, &case.tokens[..20]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("session");
    snapshot::save(&saved, "", &path).expect("saved");
    for (context, fits) in [(32, true), (33, false)] {
        let mut opened = Snapshot::open(&path).expect("opens");
        opened.set_context(context);
        let restored = opened.restore(&case.engine).map(|_| ()).map_err(|error| error.to_string());
        let is_refused = restored.is_err_and(|error| error.contains("begun with 30"));
        assert_eq!(is_refused, !fits, "{context}");
    }
}

/// The store of a model with latent attention has one row for a token, in which keys and values are. Layers that attend
/// to the rows of others have none, and heads of local layers may have another size. Rows come back by undo and from a
/// file, also after evictions.
#[test]
fn unusual_rows_are_stored_once_undone_and_saved() {
    let is_unusual = |spec: &ModelSpec| spec.latent.is_some() || spec.has_local_heads();
    for case in cases().filter(|case| case.is_f32() && is_unusual(case.engine.spec())) {
        let spec = case.engine.spec();
        for policy in [
            "full",
            "razor:buffer=8,ratio=5,sinks=2,slack=0",
            "h2o:heavy=6,recent=6,slack=0",
            "snapkv:capacity=16,window=4,slack=0",
            "kvzip:heads=off,capacity=20,recent=10,slack=0",
            "kvzip-plus:heads=off,capacity=20,recent=10,slack=0",
        ] {
            let policy = policy.parse().unwrap_or_else(|error| panic!("{policy}: {error}"));
            let options = with_policy(&case.engine, &policy, case.options(16));
            let mut session = session(&case.engine, options);
            sync(&mut session, &case.tokens[..36]);
            let elements = |layer: usize| {
                let KvHeads { count, dim } = spec.kv_heads(layer);
                spec.window(layer).map_or(36, |window| window.min(36)) * count * dim * spec.rows_of_token()
            };
            let with_rows = (0..spec.n_layers).filter(|layer| !spec.shares_kv(*layer));
            let row_bytes = session.options().types.0.row_bytes(32);
            assert_eq!(
                session.kv_usage().full_bytes,
                with_rows.map(elements).sum::<usize>() * row_bytes / 32
            );
            let before = session.logits().to_vec();

            sync(&mut session, &case.tokens);
            let after = session.logits().to_vec();
            sync(&mut session, &case.tokens[..36]);
            assert_eq!(session.logits(), before, "{}, {policy}: undone", case.name);

            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("session");
            snapshot::save(&session, "", &path).expect("saved");
            let mut restored =
                Snapshot::open(&path).and_then(|saved| saved.restore(&case.engine)).expect("restored");
            sync(&mut restored, &case.tokens);
            let difference = max_difference(restored.logits(), &after);
            assert!(difference < 1e-4 + device_tolerance(), "{}, {policy}: {difference:e}", case.name);
        }
    }
}

/// The last layers of Gemma 4's small models have no rows. Those of the layers that they attend to are in the plan
/// once, and their complete rows in exact prefill are not where those of other layers are.
#[test]
fn rows_of_layers_that_share_them_are_planned_once() {
    let on_host = EngineOptions { devices: Vec::new(), ..tests::engine_options() };
    let engine = fixtures::family_model_with("gemma4-shared-kv-f32", &on_host);
    let spec = engine.spec();
    assert_eq!((0..4).map(|layer| spec.kv_layer(layer)).collect::<Vec<_>>(), [0, 1, 0, 1]);
    let policy = "h2o:heavy=6,recent=6,slack=0";
    let mut session = session(&engine, SessionOptions { chunk: 16, ..fixtures::options(48, policy) });
    sync(&mut session, &fixtures::random_tokens(&engine, 40, 1));
    let heads = session.kv_map().layers;
    assert_eq!(heads.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 0, 0]);
    let layout = session.store().layout();
    // f32 keys and values of two heads: a token's row in each layer, its accumulated attention and its position.
    let row = |dim: usize| 2 * 2 * 4 * dim;
    assert_eq!(layout.scratch_bytes(40), 40 * (row(16) + row(32) + 2 * 2 * (4 + 4)));
    let options = plan_options(&engine, 40, 16);
    let plan = Plan::new(spec, &tensor_outlines(engine.file()), layout, &options).expect("a plan");
    assert_eq!((plan.weights, plan.host.store), (engine.weight_bytes(), layout.bytes()));
    let (planned, compute) = (plan.host.compute, session.compute_bytes());
    assert!(compute <= planned && planned <= 2 * compute, "{compute} allocated, {planned} planned");
}

/// An exact prefill that is interrupted goes on where it stopped, also in layers without rows of their own. KVzip reads
/// the text twice, but not in these layers.
#[test]
fn interrupted_texts_go_on_in_layers_that_share_rows() {
    let engine = family_model("gemma4-shared-kv-f32");
    let tokens = fixtures::random_tokens(&engine, 40, 2);
    let backend = engine.backends().at(engine.backends().placement().of(0));
    for policy in
        ["full", "h2o:heavy=6,recent=6,slack=0", "kvzip-plus:heads=off,capacity=20,recent=10,slack=0"]
    {
        let new = || session(&engine, SessionOptions { chunk: 16, ..fixtures::options(48, policy) });
        let mut whole = new();
        sync(&mut whole, &tokens);
        let mut stopped = 0;
        for operations in (0..800).step_by(13) {
            let mut interrupted = new();
            backend.interrupt_after(operations);
            let read = interrupted.sync(&tokens, &mut |_| ());
            backend.interrupt_after(usize::MAX);
            interrupted.interrupt().clear();
            stopped += usize::from(read.is_err());
            sync(&mut interrupted, &tokens);
            assert_eq!(interrupted.logits(), whole.logits(), "{policy}, {operations}");
            let contents = |session: &Session| session.store().contents().expect("the store");
            assert!(contents(&interrupted) == contents(&whole), "{policy}, {operations}");
        }
        assert!(stopped > 8, "{policy}: {stopped} interrupts");
    }
}

/// Its rows are read in no other way than by their layers, and a product with a quantised matrix hides NaN.
#[test]
fn damaged_embeddings_of_layers_are_named() {
    for name in ["gemma4-shared-kv-f32", "gemma4-shared-mqa-q8_0"] {
        let (file, tensor) = (family_file(name), "per_layer_token_embd.weight");
        for devices in [Vec::new(), tests::host_devices(&[usize::MAX])] {
            let options = EngineOptions { devices, ..tests::engine_options() };
            assert_eq!(blamed_tensor(&file, tensor, &options).as_deref(), Some(tensor), "{name}");
        }
    }
}

#[test]
fn heads_are_calibrated() {
    for case in cases().filter(Case::is_f32) {
        let options = CalibrationOptions { period: 8, ..CalibrationOptions::default() };
        let mut share = 0.0;
        let profile = calibrate(
            &case.engine,
            &options,
            &SelectionRule::default(),
            &InterruptFlag::new(),
            &mut |progress| {
                share = progress.share;
            },
        );
        let is_alibi = case.engine.spec().position_encoding.is_alibi();
        assert_eq!(profile.is_err(), is_alibi, "{}: {:?}", case.name, profile.as_ref().err());
        assert!(is_alibi || share == 1.0, "{}: {share} of it is done", case.name);
        // Heads keep the shares of rows that were found.
        let policy: PolicyChoice = "kvzip:capacity=20,recent=6,slack=0".parse().expect("a policy");
        if let Some(profile) = profile.ok().filter(|_| policy.check(case.engine.spec()).is_ok()) {
            let options = SessionOptions { policy, profile: Some(profile), ..case.options(16) };
            let mut session = session(&case.engine, options);
            sync(&mut session, &case.tokens);
            assert!(session.logits().iter().all(|logit| logit.is_finite()), "{}", case.name);
        }
    }
}

/// The file that a specification gives, but without one key.
fn written(spec: &ModelSpec, left_out: &str) -> GgufFile {
    let mut writer = GgufWriter::new();
    for (key, value) in spec.metadata() {
        writer.set(key, value);
    }
    writer.unset(left_out);
    for need in ModelTensors::in_file(spec) {
        writer.tensor(&need.name, &need.dims, TensorType::F32);
    }
    let mut bytes = Vec::new();
    // The weights do not matter, except that RoPE factors must not be nearly zero.
    let weights = writer.write(&mut bytes, |tensor, out| {
        (0..tensor.bytes().expect("whole rows")).try_for_each(|_| out.write_all(b"?"))
    });
    weights.expect("a file in memory");
    GgufFile::from_bytes(bytes).expect("a file")
}

/// The specifications of all golden models, and the same with settings that none of them has.
fn specifications() -> Vec<(String, ModelSpec)> {
    let families = family_cases().into_iter().map(|json| {
        let name = json["name"].as_str().expect("a name").to_owned();
        let file = GgufFile::from_bytes(family_file(&name));
        (name, file.expect("a file"))
    });
    let models = fixtures::golden_cases().into_iter().map(|json| {
        let name = json["name"].as_str().expect("a name").to_owned();
        let file = golden_source(&name).open();
        (name, file.expect("a file"))
    });
    let read = |(name, file)| (name, ModelSpec::from_gguf(&file).expect("a model"));
    let mut all: Vec<(String, ModelSpec)> = families.chain(models).map(read).collect();
    let unusual: Vec<_> = all.iter().map(|(name, spec)| (format!("unusual {name}"), unusual(spec))).collect();
    all.extend(unusual);
    all
}

/// The same with settings that no golden model has.
fn unusual(spec: &ModelSpec) -> ModelSpec {
    let mut spec = spec.clone();
    if spec.arch.decl().settings.contains(&"nextn_predict_layers") {
        spec.ignored_layers = 2;
    }
    if let Some(temperature) = &mut spec.attention.temperature {
        temperature.length += 1;
    }
    if let Some(experts) = &mut spec.experts {
        experts.every = if spec.n_layers > 1 { 2 } else { 1 };
        experts.gating = match experts.gating {
            Gating::Softmax => Gating::Sigmoid,
            Gating::Sigmoid | Gating::SoftmaxOfChosen => Gating::Softmax,
        };
    }
    match &mut spec.position_encoding {
        PositionEncoding::Rope(Rope { scaling: RopeScaling::Yarn { ext_factor, .. }, .. })
            if spec.local_layers.is_none() =>
        {
            *ext_factor = 0.5;
        }
        _ => {}
    }
    if let Some(LocalLayers { rope: Some(rope), heads, .. }) = &mut spec.local_layers {
        rope.n_dims = if heads.is_some() { 2 } else { rope.n_dims };
        rope.base += if rope.divisors().is_some() { 0.0 } else { 1.0 };
    }
    spec
}

#[test]
fn specifications_are_read_back_as_they_are_written() {
    for (name, spec) in specifications() {
        let file = written(&spec, "");
        assert_eq!(ModelSpec::from_gguf(&file).expect(&name), spec, "{name}");
        ModelTensors::from_gguf(&file, &spec).expect(&name);
    }
}

/// Without it, a file is refused or read as another model, but for keys that only say again what others say.
#[test]
fn every_key_of_a_specification_is_needed() {
    let (mut all, mut needed) = (BTreeSet::new(), BTreeSet::new());
    for (_, spec) in specifications() {
        for (key, _) in spec.metadata() {
            let setting = key.trim_start_matches(spec.arch.name()).trim_start_matches('.').to_owned();
            let is_needed = || ModelSpec::from_gguf(&written(&spec, &key)).ok().as_ref() != Some(&spec);
            if !needed.contains(&setting) && is_needed() {
                needed.insert(setting.clone());
            }
            all.insert(setting);
        }
    }
    let others: Vec<&String> = all.difference(&needed).collect();
    let expected = ["attention.value_length", "attention.value_length_swa", "general.type", "vocab_size"];
    assert_eq!(others, expected);
}
