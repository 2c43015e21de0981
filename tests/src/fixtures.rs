//! Models, tokens, sessions and policies that several tests use. All functions panic where something does not
//! work.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use ggml::Type;
use longhand::heads::{HeadProfile, ScoreMap, ScoresPer};
use longhand::reading::Prefill;
use longhand::setup::plan::PlanOptions;
use longhand::testing::kv::policy::policies;
use longhand::testing::kv::{Layout, PolicyChoice, StoreOptions};
use longhand::{Engine, EngineError, EngineOptions, Hint, ModelSource, Session, SessionOptions};
use models::arch::Arch;
use models::gguf::GgufFile;
use models::shapes::{ExpertShape, FileType, ModelShape};
use models::spec::ModelSpec;
use serde_json::Value;

use crate::packed;

/// The cases of `golden/index.json`.
pub fn golden_cases() -> Vec<Value> {
    let index = std::fs::read_to_string(crate::data("golden/index.json")).expect("golden/index.json");
    let index: Value = serde_json::from_str(&index).expect("golden/index.json is JSON");
    index["cases"].as_array().expect("cases").clone()
}

/// The cases of `golden/families/index.json.br`.
pub fn family_cases() -> Vec<Value> {
    serde_json::from_slice(&packed::unpacked("golden/families/index.json.br")).expect("the index is JSON")
}

/// The tokens of a golden case.
pub fn case_tokens(case: &Value) -> Vec<u32> {
    let tokens = case["tokens"].as_array().expect("tokens").iter();
    tokens.map(|token| token.as_u64().expect("a token") as u32).collect()
}

/// Opens a model of `golden/models` by its name, with [`crate::engine_options`].
pub fn golden_model(name: &str) -> Arc<Engine> {
    Engine::open(&golden_source(name), &crate::engine_options()).expect("the model opens")
}

/// A model of `golden/models` by its name: a file, or what a compressed one has.
pub fn golden_source(name: &str) -> ModelSource {
    let path = format!("golden/models/{name}.gguf");
    let file = crate::data(&path);
    match file.exists() {
        true => ModelSource::File(file),
        false => ModelSource::Bytes(packed::unpacked(&format!("{path}.br")).into()),
    }
}

/// Opens a packed model of `golden/families` by its name, with [`crate::engine_options`]. Models that are computed on
/// the CPU only are opened there, whatever the device is.
pub fn family_model(name: &str) -> Arc<Engine> {
    family_model_with(name, &crate::engine_options())
}

/// The same with other options.
pub fn family_model_with(name: &str, options: &EngineOptions) -> Arc<Engine> {
    model_in_memory(name, family_file(name), options)
}

/// Opens a model of these bytes; on the CPU if it is computed there only.
pub fn model_in_memory(name: &str, bytes: Vec<u8>, options: &EngineOptions) -> Arc<Engine> {
    let open = |options: &EngineOptions| Engine::open(&ModelSource::Bytes(bytes.clone().into()), options);
    let engine = open(options).or_else(|error| match error.hint() {
        Some(Hint::UseCpu) => open(&EngineOptions { devices: Vec::new(), ..options.clone() }),
        _ => Err(error),
    });
    engine.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Whether many tokens attend to all rows in some layer, without a window and without ALiBi. Behind the rows of the last layer
/// that has any, one token's output is needed.
pub fn attends_in_full(spec: &ModelSpec) -> bool {
    let last = (0..spec.n_layers).rfind(|layer| !spec.shares_kv(*layer)).unwrap_or(0);
    let attends = |layer| spec.recurrent_layer(layer).is_none() && spec.window(layer).is_none();
    !spec.position_encoding.is_alibi() && (0..last).any(attends)
}

/// What a plan needs to know of a session of this engine that reads `prompt` tokens in chunks, layer by layer.
pub fn plan_options(engine: &Engine, prompt: usize, chunk: usize) -> PlanOptions {
    PlanOptions {
        repack: true,
        prompt,
        chunk,
        prefill: Prefill::Exact,
        record_attention: false,
        draft: 0,
        sessions: 1,
        placement: engine.placement(),
        kernels: engine.backends().kernels().clone(),
    }
}

/// A packed model of `golden/families` by its name, unpacked.
pub fn family_file(name: &str) -> Vec<u8> {
    static MODELS: LazyLock<BTreeMap<String, Vec<u8>>> =
        LazyLock::new(|| packed::models("golden/families/models.br"));
    MODELS.get(name).unwrap_or_else(|| panic!("there is no {name}")).clone()
}

/// A file with two layers of experts, whose rows have 256 elements, which all types can hold.
pub fn file_with_experts(arch: Arch, file_type: FileType) -> Vec<u8> {
    let like = ModelShape::find("qwen3-30b-a3b").expect("a shape");
    let shape = ModelShape {
        name: "tiny",
        arch,
        n_layers: 2,
        n_embd: 256,
        n_heads: 4,
        n_kv_heads: 2,
        head_dim: 64,
        n_ff: 256,
        n_vocab: 80,
        n_ctx: 256,
        experts: Some(ExpertShape { count: 8, used: 3, n_ff: 256 }),
        ..*like
    };
    let mut bytes = Vec::new();
    shape.write_synthetic(file_type, &mut bytes, &mut |_, _| ()).expect("written");
    bytes
}

/// A random model of two layers, whose query heads share KV heads.
pub fn tiny_model() -> Arc<Engine> {
    golden_model("llama-gqa-llama3rope-f32")
}

/// The embedded model. It has four layers, so that policies that skip the first two still evict rows.
pub fn embedded_model() -> Arc<Engine> {
    Engine::open(&ModelSource::Embedded, &crate::engine_options()).expect("the embedded model opens")
}

/// The tensor that is said not to be finite when a model reads a text after the bytes of tensor `name` in its file were
/// all set.
pub fn blamed_tensor(file: &[u8], name: &str, options: &EngineOptions) -> Option<String> {
    let parsed = GgufFile::from_bytes(file.to_vec()).expect("a file");
    let tensor = parsed.tensor(name).expect(name);
    let mut damaged = file.to_vec();
    damaged[tensor.offset as usize..][..tensor.bytes as usize].fill(0xff);
    let engine = Engine::open(&ModelSource::Bytes(damaged.into()), options).expect("the model opens");
    let tokens = random_tokens(&engine, 40, 7);
    let error = session(&engine, self::options(64, "full")).sync(&tokens, &mut |_| ()).expect_err(name);
    let EngineError::NotFinite { origin } = error else { panic!("{name}: {error}") };
    origin.map(|origin| origin.tensor)
}

/// `n` pseudo-random tokens; the same on every machine.
pub fn random_tokens(engine: &Engine, n: usize, seed: u64) -> Vec<u32> {
    let mut random = Random(seed);
    (0..n).map(|_| random.below(engine.spec().n_vocab) as u32).collect()
}

/// Pseudo-random numbers (Knuth's linear congruential generator), the same on every machine.
pub struct Random(pub u64);

impl Random {
    /// The next number in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n as u64) as usize
    }
}

/// A head profile in which every second KV head is a retrieval head.
pub fn half_retrieval(engine: &Engine) -> HeadProfile {
    let shape = engine.head_shape().expect("heads");
    let flags = (0..shape.all_kv_heads()).map(|i| i % 2 == 0).collect();
    let profile = HeadProfile::new(shape, flags, Vec::new(), Default::default()).expect("a profile");
    profile.with_row_predictors(random_predictors(engine)).expect("finite numbers")
}

/// Random row predictors for all KV heads of a model.
pub fn random_predictors(engine: &Engine) -> Vec<Vec<f32>> {
    let (spec, types) = (engine.spec(), (Type::F32, Type::F32));
    let options = StoreOptions { context: 8, types, reserve: None };
    let layout = Layout::new(spec, &PolicyChoice::default(), None, options).expect("a layout");
    let mut random = Random(3);
    let mut number = || random.below(2001) as f32 / 1000.0 - 1.0;
    let mut map = |layer: usize| (0..layout.predictor_len(layer)).map(|_| number()).collect();
    (0..spec.n_layers * spec.n_kv_heads).map(|head| map(head / spec.n_kv_heads)).collect()
}

/// Options of a session with f32 keys and values and chunks of 32 tokens.
pub fn options(context: usize, policy: &str) -> SessionOptions {
    SessionOptions {
        context,
        policy: policy.parse().expect("a policy"),
        types: (Type::F32, Type::F32),
        // So that results do not depend on the processor.
        int8: false,
        chunk: 32,
        ..SessionOptions::default()
    }
}

/// `options` with another policy and, if the policy needs one, a head profile. Half of the heads are
/// retrieval heads. With ALiBi, these see the whole text and the others as many tokens as the policy's
/// parameter `buffer` says.
pub fn with_policy(engine: &Engine, policy: &PolicyChoice, options: SessionOptions) -> SessionOptions {
    let profile = policy.uses_profile().then(|| {
        let half = half_retrieval(engine);
        let window = policy.value("buffer").unwrap_or_default() as f32;
        let scope = |retrieval: &bool| if *retrieval { 1e9 } else { window };
        let values = half.retrieval().iter().map(scope).collect();
        let scopes = ScoreMap { name: "scope".into(), per: ScoresPer::KvHead, values };
        let flags = half.retrieval().to_vec();
        let profile = HeadProfile::new(half.shape(), flags, vec![scopes], Default::default());
        let profile = profile.expect("a profile");
        profile.with_row_predictors(random_predictors(engine)).expect("finite numbers")
    });
    SessionOptions { policy: policy.clone(), profile, ..options }
}

/// Every policy that bounds heads, with parameters that keep `rows` rows a head.
pub fn bounded_policies(rows: usize, context: usize) -> Vec<PolicyChoice> {
    let entries = policies().filter(|entry| entry.factory.is_some());
    entries
        .map(|entry| {
            let choice: PolicyChoice = entry.name.parse().expect(entry.name);
            choice.with_rows(rows, context).expect("enough rows")
        })
        .collect()
}

/// Types of keys and values that the model's head size allows.
pub fn cache_types(engine: &Engine) -> Vec<(Type, Type)> {
    let all = [(Type::F32, Type::F32), (Type::F16, Type::F16), (Type::Q8_0, Type::Q4_0)];
    let fits = |ty: Type| engine.spec().head_dim.is_multiple_of(ty.block_elements());
    all.into_iter().filter(|(k, v)| fits(*k) && fits(*v)).collect()
}

/// Each policy with each of [`cache_types`].
pub fn with_cache_types(engine: &Engine, policies: Vec<PolicyChoice>) -> Vec<(PolicyChoice, (Type, Type))> {
    let types = cache_types(engine);
    policies.into_iter().flat_map(|p| types.iter().map(move |types| (p.clone(), *types))).collect()
}

/// As [`with_cache_types`], each with a kind of prefill: f16 with the exact one, f32 with the streaming one, quantised rows with
/// both.
pub fn with_types_and_prefills(
    engine: &Engine,
    policies: Vec<PolicyChoice>,
) -> Vec<(PolicyChoice, (Type, Type), Prefill)> {
    let prefills = |types: (Type, Type)| match types.0 {
        Type::F16 => vec![Prefill::Exact],
        Type::F32 => vec![Prefill::Streaming],
        _ => vec![Prefill::Exact, Prefill::Streaming],
    };
    let with_prefills = |(policy, types): (PolicyChoice, (Type, Type))| {
        prefills(types).into_iter().map(move |prefill| (policy.clone(), types, prefill))
    };
    with_cache_types(engine, policies).into_iter().flat_map(with_prefills).collect()
}

/// Opens a session.
pub fn session(engine: &Arc<Engine>, options: SessionOptions) -> Session {
    Session::new(engine, options).expect("a session")
}

/// Makes `tokens` the session's text. Returns the number of tokens that were computed.
pub fn sync(session: &mut Session, tokens: &[u32]) -> usize {
    session.sync(tokens, &mut |_| {}).expect("the text is read")
}

/// Length of the difference, in lengths of `want`.
pub fn relative_difference(have: &[f32], want: &[f32]) -> f32 {
    let length = |x: &mut dyn Iterator<Item = f32>| x.map(|x| x * x).sum::<f32>().sqrt();
    let mut difference = have.iter().zip(want).map(|(a, b)| a - b);
    length(&mut difference) / length(&mut want.iter().copied())
}

/// Largest absolute difference of two arrays of finite numbers.
pub fn max_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().all(|x| x.is_finite()));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
