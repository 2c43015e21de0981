//! A device beside the host: the same numbers, layer by layer; layers split between the two; memory that runs out at every single
//! allocation; a device that is lost; sessions that are kept on one and opened on the other. The device is the one that
//! `LONGHAND_TEST_DEVICE` names, else the emulated one.

use engine::devices::Place;
use engine::generate::generate;
use engine::outline::tensor_outlines;
use engine::plan::{Plan, PlanOptions};
use engine::sampler::{Sampler, SamplerOptions};
use engine::snapshot::{self, Snapshot};
use engine::{
    DeviceKind, DeviceOptions, Engine, EngineError, EngineOptions, ModelSource, Session, SessionOptions,
};
use ggml::Type;
use models::chat::{ChatTemplate, Message};
use models::tokenizer::Tokenizer;
use std::ops::ControlFlow;

mod common;
use common::{half, largest_difference, options, text};

fn device() -> DeviceOptions {
    tests::device().unwrap_or(DeviceOptions::all(DeviceKind::Emulated))
}

/// A model of the golden data, or the embedded one, with so many layers on the device.
fn open(model: Option<&str>, layers: usize, memory: Option<usize>) -> Result<Engine, EngineError> {
    let source = match model {
        Some(model) => ModelSource::File(tests::data(&format!("golden/models/{model}.gguf"))),
        None => ModelSource::Embedded,
    };
    let device = (layers > 0).then(|| DeviceOptions { layers, memory, ..device() });
    // Only the small random models are looked into.
    let trace = model.is_some();
    Engine::open(&source, &EngineOptions { threads: Some(1), device, trace, ..EngineOptions::default() })
}

fn model(name: &str, layers: usize) -> Engine {
    open(Some(name), layers, None).expect("the model opens")
}

/// Every intermediate of every layer, for texts of one token, of a few and of many.
#[test]
fn intermediates_agree() {
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
            Session::new(engine, options).expect("a session")
        });
        let tokens = text(&engines[0], 120, 3);
        let mut at = 0;
        for n in [40, 1, 3, 32, 1] {
            let [host, device] = sessions
                .each_mut()
                .map(|session| session.intermediates(&tokens[at..at + n]).expect("intermediates"));
            assert_eq!(host.len(), device.len());
            assert_eq!(host.len(), 2 + 9 * engines[0].spec().n_layers);
            for ((name_of, host), (same, device)) in host.iter().zip(&device) {
                assert_eq!(name_of, same);
                let size = host.iter().fold(0f32, |size, x| size.max(x.abs()));
                let difference = largest_difference(host, device);
                // Attention of many tokens multiplies in f16 on a device; products with smaller types round what they are given.
                let share = if name.ends_with("f32") { 1e-2 } else { 3e-2 };
                assert!(
                    difference <= share * size.max(1.0),
                    "{name} {name_of} of {n} tokens: {difference} of {size}"
                );
            }
            at += n;
        }
    }
}

/// The embedded model's greedy answer, wherever its layers are.
#[test]
fn answers_are_the_same_wherever_the_layers_are() {
    let file = engine::open_file(&ModelSource::Embedded).expect("the embedded model");
    let tokenizer = Tokenizer::from_gguf(&file).expect("its vocabulary");
    let template = ChatTemplate::from_gguf(&file, &tokenizer).expect("its template");
    let filler = "In the winter the famous teacher described the narrow bridge. ";
    let text =
        filler.repeat(6) + "The pass key is 9078648. " + &filler.repeat(12) + "\n\nWhat is the pass key?";
    let prompt = template.prompt(&[Message::user(text)], true).expect("a prompt");
    let prompt = prompt.encode(&tokenizer).expect("tokens");
    let mut answers = Vec::new();
    for layers in [0, 1, 3, 4] {
        let engine = open(None, layers, None).expect("the embedded model opens");
        let placement = engine.devices().placement();
        assert_eq!((placement.on_device(), placement.layers(Place::Host).len()), (layers, 4 - layers));
        for policy in ["full", "razor:buffer=64,ratio=5,sinks=4", "snapkv:window=16,capacity=64,slack=4"] {
            let options = SessionOptions {
                context: 400,
                policy: policy.parse().expect("a policy"),
                profile: Some(half(&engine)),
                chunk: 128,
                ..SessionOptions::default()
            };
            let mut session = Session::new(&engine, options).expect("a session");
            session.sync(&prompt, &mut |_| {}).expect("reads");
            let greedy = SamplerOptions { temperature: 0.0, ..SamplerOptions::default() };
            let mut greedy = Sampler::new(greedy).expect("a sampler");
            let mut on = |_: &str| ControlFlow::Continue(());
            let answer =
                generate(&mut session, &tokenizer, &mut greedy, &[], 24, &mut on).expect("an answer");
            answers.push((policy, layers, answer.text));
        }
    }
    assert_eq!(answers[0].2.trim(), "The pass key is 9078648.");
    for (policy, layers, answer) in &answers {
        let of_host = answers.iter().find(|(name, ..)| name == policy).map(|(.., answer)| answer);
        assert_eq!(Some(answer), of_host, "{policy}, {layers} layers");
    }
}

/// What the plan says of the device is what is allocated there, and a bound of exactly that is enough.
#[test]
fn the_plan_of_a_device_is_what_is_allocated() {
    if device().kind != DeviceKind::Emulated {
        return; // A GPU aligns otherwise and has as many blocks as it has.
    }
    for (layers, policy) in
        [(4, "full"), (2, "full"), (4, "razor:buffer=64,ratio=5,sinks=4"), (3, "h2o:heavy=64,recent=64")]
    {
        let run = |memory| -> Result<(usize, Plan), EngineError> {
            let engine = open(None, layers, memory)?;
            let options = SessionOptions {
                context: 400,
                policy: policy.parse()?,
                profile: Some(half(&engine)),
                chunk: 64,
                ..SessionOptions::default()
            };
            let mut session = Session::new(&engine, options)?;
            session.sync(&text(&engine, 300, 9), &mut |_| {})?;
            session.push(1)?;
            let (_, peak) = engine.devices().at(Place::Device).memory_used().unwrap_or_default();
            let how = PlanOptions {
                repack: true,
                prompt: 300,
                chunk: 64,
                exact: true,
                threads: 1,
                on_device: layers,
                blocks: engine.devices().at(Place::Device).blocks(),
            };
            let outline = tensor_outlines(engine.file());
            Ok((peak, Plan::new(engine.spec(), &outline, session.store().layout(), &how)?))
        };
        let (peak, plan) = run(Some(1 << 30)).expect("a gibibyte is enough");
        let planned = plan.device_allocated();
        assert!(
            peak <= planned + 65536 && planned <= peak * 13 / 10,
            "{layers} {policy}: {planned} planned, {peak} taken"
        );
        run(Some(peak)).expect("as much as was taken is enough");
    }
}

/// Whichever allocation finds no memory, it is an error that says so, and nothing else happens.
#[test]
fn memory_runs_out_at_every_allocation() {
    if device().kind != DeviceKind::Emulated {
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
        let tokens = text(&engine, 120, 9);
        let read = session.sync(&tokens, &mut |_| {});
        if read.is_err() {
            assert!(session.tokens().is_empty(), "a failed reading leaves nothing half done");
        }
        read?;
        session.push(1)?;
        Ok(engine.devices().at(Place::Device).memory_used().map_or(0, |(_, peak)| peak))
    };
    let peak = attempt(1 << 30).expect("a gibibyte is enough");
    let (mut limit, mut refusals) = (0, 0);
    // Each refusal says how much would have been enough for the allocation that was refused.
    while limit < peak {
        let error = attempt(limit).expect_err("less than the peak");
        let EngineError::Compute(ggml::Error::OverBudget { bytes, used, limit: said, .. }) = &error else {
            panic!("{error}");
        };
        assert_eq!(*said, limit);
        assert!(error.to_string().contains("hint: "), "{error}");
        (limit, refusals) = (used + bytes, refusals + 1);
    }
    assert!(refusals >= 5, "weights, store, residual stream, scratch, compute buffers: {refusals}");
    attempt(limit).expect("enough");
}

/// A device that is lost, at any operation, is an error and no panic; the text can be read again elsewhere.
#[test]
fn a_lost_device_is_an_error() {
    if device().kind != DeviceKind::Emulated {
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
        let mut session = Session::new(&engine, options).expect("a session");
        engine.devices().at(Place::Device).lose_after(operations);
        let tokens = text(&engine, 120, 9);
        let mut done = session.sync(&tokens, &mut |_| {}).map(|_| ());
        for _ in 0..20 {
            done = done.and_then(|()| session.push(1));
        }
        let error = done.expect_err("it was lost");
        assert!(matches!(error, EngineError::Compute(ggml::Error::Device(_))), "{error}");
    }
}

/// What was kept on one opens on the other, goes on alike, and can be kept again with the same bytes.
#[test]
fn sessions_move_between_host_and_device() {
    for policy in ["full", "razor:buffer=64,ratio=5,sinks=4", "h2o:heavy=48,recent=16", "ahakv:budget=64"] {
        for (from, to) in [(0, 4), (4, 0), (2, 3), (0, 0)] {
            let [from, to] =
                [from, to].map(|layers| open(None, layers, None).expect("the embedded model opens"));
            let options = SessionOptions {
                context: 400,
                policy: policy.parse().expect("a policy"),
                profile: Some(half(&from)),
                types: (Type::Q8_0, Type::F16),
                chunk: 128,
                ..SessionOptions::default()
            };
            let mut session = Session::new(&from, options).expect("a session");
            let mut tokens = text(&from, 200, 9);
            session.sync(&tokens, &mut |_| {}).expect("reads");
            let folder = std::env::temp_dir().join(format!("longhand-snapshots-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("a folder");
            let [first, second] = ["first", "second"].map(|name| folder.join(name));
            snapshot::save(&session, "mine", &first).expect("kept");
            let kept = Snapshot::open(&first).expect("opens");
            assert_eq!((kept.caller(), kept.tokens()), ("mine", 200));
            let mut other = kept.restore(&to).expect("restored");
            snapshot::save(&other, "mine", &second).expect("kept again");
            let bytes = [&first, &second].map(|path| std::fs::read(path).expect("the file"));
            assert!(bytes[0] == bytes[1], "{policy}: the same session, other bytes");

            assert_eq!(session.logits(), other.logits());
            tokens.extend(text(&from, 20, 10));
            session.sync(&tokens, &mut |_| {}).expect("goes on");
            other.sync(&tokens, &mut |_| {}).expect("goes on");
            let size = session.logits().iter().fold(0f32, |size, x| size.max(x.abs()));
            let difference = largest_difference(session.logits(), other.logits());
            // Random tokens leave the small model undecided, and rows are rounded to 8 bits.
            let same = from.devices().placement() == to.devices().placement();
            assert!(difference <= if same { 0.0 } else { 0.05 * size }, "{policy}: {difference} of {size}");
            std::fs::remove_dir_all(&folder).expect("removed");
        }
    }
}
