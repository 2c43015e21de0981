//! A device compared with the host: equal intermediates, layers split between both, and sessions that move
//! from one to the other. Also memory that runs out at each allocation, and a lost device. The device is the
//! one that `LONGHAND_TEST_DEVICE` names; if it names none, the emulated one.

use std::ops::ControlFlow;
use std::sync::Arc;

use ggml::Type;
use longhand::error::Shortage;
use longhand::generation::{Sampler, SamplerOptions, generate};
use longhand::policy::KvBudget;
use longhand::progress::Notice;
use longhand::saved::SavedChat;
use longhand::setup::plan::{DRIVER_BYTES, Plan};
use longhand::setup::{Context, fit_session, prepare_session};
use longhand::testing::outline::tensor_outlines;
use longhand::testing::placement::Place;
use longhand::testing::setup::{assumed_share, smallest, spread};
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{
    Chat, ChatOptions, DeviceOptions, Engine, EngineError, EngineOptions, Hint, ModelSource, Observer,
    Progress, Session, SessionOptions, Setup, SetupOptions,
};
use models::chat::{ChatTemplate, Message};
use models::tokenizer::Tokenizer;
use tests::fixtures::{
    golden_source, half_retrieval, max_difference, options, plan_options, random_tokens, session, sync,
};
use tests::{host_device, is_gpu, is_host, is_portable, some_device};

/// By how much more a portable device or a GPU may differ. Where rows are f16, ggml's CPU adds values in f16, and where keys
/// are q8_0, it rounds queries to 8 bits. Own kernels do neither, but GPUs multiply matrices of f32 in TF32.
fn device_factor() -> f32 {
    if is_portable() || is_gpu() { 2.0 } else { 1.0 }
}

/// Opens a golden model, or the embedded one, with the last `layers` layers on the device.
fn open(model: Option<&str>, layers: usize, memory: Option<usize>) -> Result<Arc<Engine>, EngineError> {
    let source = match model {
        Some(model) => golden_source(model),
        None => ModelSource::Embedded,
    };
    let device = DeviceOptions { layers, memory, ..some_device() };
    let devices = if layers > 0 { vec![device] } else { Vec::new() };
    // Intermediates are read of the golden models only.
    let trace = model.is_some();
    Engine::open(&source, &EngineOptions { threads: Some(1), devices, trace, ..EngineOptions::default() })
}

fn model(name: &str, layers: usize) -> Arc<Engine> {
    open(Some(name), layers, None).expect("the model opens")
}

/// All intermediates of all layers, for one, a few and many tokens at once.
#[test]
fn intermediates_of_host_and_device_agree() {
    for name in [
        "llama-gqa-llama3rope-f32",
        "llama-mha-f32",
        "qwen2-gqa-q8_0",
        "qwen3-gqa-f32",
        "llama-wide-mqa-q4_k_m",
        "baichuan-alibi-f16",
    ] {
        let engines = [model(name, 0), model(name, usize::MAX)];
        let mut sessions = engines.each_ref().map(|engine| {
            let options = SessionOptions { types: (Type::F16, Type::F16), chunk: 64, ..options(200, "full") };
            session(engine, options)
        });
        let tokens = random_tokens(&engines[0], 120, 3);
        let mut at = 0;
        for n in [40, 1, 3, 32, 1] {
            let [host, device] = sessions
                .each_mut()
                .map(|session| session.intermediates(&tokens[at..at + n]).expect("intermediates"));
            assert_eq!(host.len(), device.len());
            assert_eq!(host.len(), 2 + 9 * engines[0].spec().n_layers);
            for ((tensor, host), (same, device)) in host.iter().zip(&device) {
                assert_eq!(tensor, same);
                let max = host.iter().fold(0f32, |max, x| max.max(x.abs()));
                let difference = max_difference(host, device);
                // On a device, attention of many tokens multiplies in f16. Products with weights smaller than
                // f32 round their activations.
                let tolerance = if name.ends_with("f32") { 1e-2 } else { 3e-2 } * device_factor();
                assert!(
                    difference <= tolerance * max.max(1.0),
                    "{name} {tensor}, {n} tokens: {difference}, largest {max}"
                );
            }
            at += n;
        }
    }
}

/// The embedded model gives the same greedy answer with none, some or all layers on the device. Where a policy has evicted the
/// key, several tokens are about as likely. So the logits behind three other tokens are compared.
#[test]
fn answers_do_not_depend_on_the_placement_of_layers() {
    let file = ModelSource::Embedded.open().expect("the embedded model");
    let tokenizer = Tokenizer::from_gguf(&file).expect("its vocabulary");
    let template = ChatTemplate::from_gguf(&file, &tokenizer).expect("its template");
    let filler = "In the winter the famous teacher described the narrow bridge. ";
    let text =
        filler.repeat(3) + "The pass key is 9078648. " + &filler.repeat(8) + "\n\nWhat is the pass key?";
    let prompt = template.prompt(&[Message::user(text)], true).expect("a prompt");
    let prompt = prompt.encode(&tokenizer).expect("tokens");
    let mut answers = Vec::new();
    for layers in [0, 1, 3, 4] {
        let engine = open(None, layers, None).expect("the embedded model opens");
        let placement = engine.backends().placement();
        assert_eq!((placement.on_devices(), placement.layers(Place::Host).len()), (layers, 4 - layers));
        for policy in ["full", "razor:buffer=64,ratio=5,sinks=4", "snapkv:window=16,capacity=64,slack=4"] {
            let options = SessionOptions {
                context: 400,
                policy: policy.parse().expect("a policy"),
                profile: Some(half_retrieval(&engine)),
                chunk: 128,
                ..SessionOptions::default()
            };
            let mut session = session(&engine, options);
            sync(&mut session, &prompt);
            let mut greedy = Sampler::new(SamplerOptions::greedy()).expect("a sampler");
            let mut output = |_: &str| ControlFlow::Continue(());
            let answer =
                generate(&mut session, &tokenizer, &mut greedy, &[], 24, &mut output).expect("an answer");
            sync(&mut session, &prompt);
            prompt[..3].iter().for_each(|token| session.push(*token).expect("a step"));
            answers.push((policy, layers, answer.text, session.logits().to_vec()));
        }
    }
    for (policy, layers, answer, logits) in &answers {
        if *policy == "full" {
            assert_eq!(answer.trim(), "The pass key is 9078648.", "{layers} layers");
        }
        let (.., text, on_host) =
            answers.iter().find(|(name, ..)| name == policy).expect("one without a device");
        assert!(!is_host() || answer == text, "{policy}, {layers} layers: {answer}, not {text}");
        let difference = max_difference(logits, on_host);
        assert!(difference < 0.15 * device_factor(), "{policy}, {layers} layers: {difference}");
    }
}

/// The plan's bytes for the device cover what is allocated there, and a memory limit of exactly what was
/// allocated is enough.
#[test]
fn planned_device_bytes_cover_allocated_ones() {
    if !is_host() && !some_device().kind.is_remote() {
        return; // A GPU's alignment and number of blocks differ from the plan's.
    }
    for (layers, policy) in
        [(4, "full"), (2, "full"), (4, "razor:buffer=64,ratio=5,sinks=4"), (3, "h2o:heavy=64,recent=64")]
    {
        let run = |memory| -> Result<(usize, Plan), EngineError> {
            let engine = open(None, layers, memory)?;
            let options = SessionOptions {
                context: 200,
                policy: policy.parse()?,
                profile: Some(half_retrieval(&engine)),
                chunk: 64,
                ..SessionOptions::default()
            };
            let mut session = Session::new(&engine, options)?;
            session.sync(&random_tokens(&engine, 160, 9), &mut |_| {})?;
            session.push(1)?;
            let (_, peak) = engine.backends().at(Place::Device(0)).memory_used().unwrap_or_default();
            let options = plan_options(&engine, 160, 64);
            let outline = tensor_outlines(engine.file());
            Ok((peak, Plan::new(engine.spec(), &outline, session.store().layout(), &options)?))
        };
        let (peak, plan) = run(Some(1 << 30)).expect("a gibibyte is enough");
        let planned = plan.device_allocated(0);
        assert!(
            peak <= planned + 65536 && planned <= peak * 13 / 10,
            "{layers} layers, {policy}: {planned} planned, {peak} allocated"
        );
        run(Some(peak)).expect("the peak is enough");
    }
}

/// If any one allocation fails, the result is an error that says so, and a session without tokens.
#[test]
fn a_failed_allocation_is_an_error_at_every_allocation() {
    if !is_host() {
        return;
    }
    let attempt = |memory: usize| -> Result<usize, EngineError> {
        let engine = open(None, 4, Some(memory))?;
        let options = SessionOptions {
            context: 200,
            policy: "snapkv:window=16,capacity=64,slack=4".parse()?,
            chunk: 64,
            ..SessionOptions::default()
        };
        let mut session = Session::new(&engine, options)?;
        let tokens = random_tokens(&engine, 120, 9);
        let read = session.sync(&tokens, &mut |_| {});
        if read.is_err() {
            assert!(session.tokens().is_empty(), "a failed prefill leaves an empty session");
        }
        read?;
        session.push(1)?;
        Ok(engine.backends().at(Place::Device(0)).memory_used().map_or(0, |(_, peak)| peak))
    };
    let peak = attempt(1 << 30).expect("a gibibyte is enough");
    let (mut limit, mut failures) = (0, 0);
    // Each error says how many bytes would have been enough for the allocation that failed.
    while limit < peak {
        let error = attempt(limit).expect_err("less than the peak");
        let EngineError::Compute(ggml::Error::OverBudget { bytes, used, limit: reported, .. }) = &error
        else {
            panic!("{error}");
        };
        assert_eq!(*reported, limit);
        assert_eq!(error.hint(), Some(Hint::LessMemory { on_device: true }));
        (limit, failures) = (used + bytes, failures + 1);
    }
    assert!(failures >= 5, "weights, store, residual stream, scratch, compute buffers: {failures}");
    attempt(limit).expect("enough");
}

/// A saved conversation that does not fit the device's memory is refused before its store is allocated.
#[test]
fn a_saved_chat_that_does_not_fit_the_device_is_refused() {
    if !is_host() {
        return;
    }
    let host = open(None, 0, None).expect("the embedded model opens");
    let session = session(&host, SessionOptions { context: 4096, ..SessionOptions::default() });
    let path = std::env::temp_dir().join(format!("longhand-device-{}.chat", std::process::id()));
    Chat::new(session, ChatOptions::default()).expect("a chat").save(&path).expect("saved");
    let all = open(None, 4, Some(1 << 30)).expect("the embedded model opens");
    let weights = all.backends().at(Place::Device(0)).memory_used().map_or(0, |(used, _)| used);
    let small = open(None, 4, Some(weights + 10_000)).expect("enough for the weights");
    let restored = SavedChat::open(&path).expect("a saved chat").restore(&small, ChatOptions::default());
    std::fs::remove_file(&path).expect("removed");
    let error = restored.err().expect("it does not fit");
    assert!(matches!(error, EngineError::Memory(Shortage { on_device: true, .. })), "{error}");
}

/// Remembers whether a calibration began.
struct Calibrations(bool);

impl Observer for Calibrations {
    fn progress(&mut self, _: Progress) {}

    fn notice(&mut self, notice: Notice) {
        self.0 |= matches!(notice, Notice::Begins(_));
    }
}

/// What does not fit with any head profile is refused before one is calibrated.
#[test]
fn a_session_that_cannot_fit_the_device_is_refused_before_the_calibration() {
    if !is_host() {
        return;
    }
    let all = open(None, 4, Some(1 << 30)).expect("the embedded model opens");
    let weights = all.backends().at(Place::Device(0)).memory_used().map_or(0, |(used, _)| used);
    let small = open(None, 4, Some(weights + 10_000)).expect("enough for the weights");
    let asked = SetupOptions {
        policy: Some("razor".parse().expect("a policy")),
        profile_folder: None,
        ..SetupOptions::default()
    };
    let mut calibrations = Calibrations(false);
    let error = prepare_session(&small, &asked, 4096, 4000, &mut calibrations).expect_err("it does not fit");
    assert!(matches!(error, EngineError::Memory(Shortage { on_device: true, .. })), "{error}");
    assert!(!calibrations.0, "a calibration began");
}

/// A budget that is too small for the assumed head profile may be enough for the calibrated one: the layers
/// stay on the device.
#[test]
fn a_budget_too_small_for_the_assumed_profile_keeps_the_layers_on_the_device() {
    if !is_host() {
        return;
    }
    let host = open(None, 0, None).expect("the embedded model opens");
    let shape = host.head_shape().expect("a shape");
    let asked = |share: u32| SetupOptions {
        policy: Some("razor".parse().expect("a policy")),
        budget: Some(KvBudget::Share(f64::from(share) / 100.0)),
        context: Context::Tokens(16_384),
        device: host_device().into(),
        gpu_memory: vec![DRIVER_BYTES + (1 << 30)],
        profile_folder: None,
        ..SetupOptions::default()
    };
    let fits = |share, profile| {
        let options = SessionOptions { profile: Some(profile), ..asked(share).session(16_384) };
        fit_session(&host, options, asked(share).budget, 0).is_ok()
    };
    let (assumed, smallest) =
        (spread(shape, assumed_share(shape)).expect("a profile"), smallest(shape).expect("a profile"));
    let between = |share: &u32| !fits(*share, assumed.clone()) && fits(*share, smallest.clone());
    let share = (1..100).find(between).expect("a budget between the two");
    let setup = Setup::resolve(host.model(), &asked(share), 0, &mut ()).expect("a setup");
    assert_eq!(setup.engine_options().devices[0].layers, 4);
}

/// If the device is lost, at whatever operation, the result is an error and not a panic.
#[test]
fn a_lost_device_is_an_error() {
    if !is_host() {
        return;
    }
    for operations in [0, 1, 7, 20, 60, 61, 62, 63, 100] {
        let engine = open(None, 4, None).expect("the embedded model opens");
        let options = SessionOptions {
            context: 200,
            policy: "tova:capacity=64".parse().expect("a policy"),
            chunk: 64,
            ..SessionOptions::default()
        };
        let mut session = session(&engine, options);
        engine.backends().at(Place::Device(0)).lose_after(operations);
        let tokens = random_tokens(&engine, 120, 9);
        let mut result = session.sync(&tokens, &mut |_| {}).map(|_| ());
        for _ in 0..20 {
            result = result.and_then(|()| session.push(1));
        }
        let error = result.expect_err("the device is lost");
        assert!(matches!(error, EngineError::Compute(ggml::Error::Device(_))), "{error}");
    }
}

/// A session saved on one can be restored on the other. It continues with the same logits, and saving it
/// again gives the same bytes.
#[test]
fn sessions_move_between_host_and_device() {
    for policy in ["full", "razor:buffer=64,ratio=5,sinks=4", "h2o:heavy=48,recent=16", "ahakv:budget=64"] {
        for (from, to) in [(0, 4), (4, 0), (2, 3), (0, 0)] {
            let [from, to] =
                [from, to].map(|layers| open(None, layers, None).expect("the embedded model opens"));
            let options = SessionOptions {
                context: 400,
                policy: policy.parse().expect("a policy"),
                profile: Some(half_retrieval(&from)),
                types: (Type::Q8_0, Type::F16),
                chunk: 128,
                ..SessionOptions::default()
            };
            let mut original = session(&from, options);
            let mut tokens = random_tokens(&from, 140, 9);
            sync(&mut original, &tokens);
            let folder = std::env::temp_dir().join(format!("longhand-snapshots-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("a folder");
            let [first, second] = ["first", "second"].map(|name| folder.join(name));
            snapshot::save(&original, "mine", &first).expect("saved");
            let snapshot = Snapshot::open(&first).expect("opens");
            assert_eq!((snapshot.caller(), snapshot.tokens()), ("mine", 140));
            let mut restored = snapshot.restore(&to).expect("restored");
            snapshot::save(&restored, "mine", &second).expect("saved again");
            let bytes = [&first, &second].map(|path| std::fs::read(path).expect("the file"));
            assert!(bytes[0] == bytes[1], "{policy}: the restored session gives another file");

            assert_eq!(original.logits(), restored.logits());
            tokens.extend(random_tokens(&from, 20, 10));
            for session in [&mut original, &mut restored] {
                sync(session, &tokens);
            }
            let max = original.logits().iter().fold(0f32, |max, x| max.max(x.abs()));
            let difference = max_difference(original.logits(), restored.logits());
            // For random tokens the small model's logits are close together, and rows are rounded to 8 bits.
            let same = from.backends().placement() == to.backends().placement();
            assert!(
                difference <= if same { 0.0 } else { 0.05 * max * device_factor() },
                "{policy}: {difference}, largest {max}"
            );
            std::fs::remove_dir_all(&folder).expect("removed");
        }
    }
}
