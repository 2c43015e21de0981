//! Heads of any even size: logits beside a plain computation, however a text is read, under policies that evict rows, on
//! the host and on a device. Sizes that are no multiple of 8 are stored with zeros behind each row.

use std::collections::HashMap;
use std::sync::Arc;

use longhand::reading::Prefill;
use longhand::{
    DeviceKind, DeviceOptions, Engine, EngineError, EngineOptions, ModelSource, SessionOptions, Type,
};
use models::arch::Arch;
use models::gguf::write::GgufWriter;
use models::gguf::{GgufFile, TensorType};
use models::spec::{ModelSpec, ModelTensors};
use tests::fixtures::{self, max_difference, options, random_tokens, session, sync, with_policy};

const EMBD: usize = 24;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const FF: usize = 32;
const VOCAB: usize = 50;
/// Some policies keep all rows of two layers.
const LAYERS: usize = 3;

/// A random llama model in f32, with heads of `dim` elements.
fn file(dim: usize) -> Vec<u8> {
    let spec = ModelSpec {
        n_embd: EMBD,
        n_heads: HEADS,
        n_kv_heads: KV_HEADS,
        n_ff: FF,
        n_vocab: VOCAB,
        n_ctx_train: 512,
        ..ModelSpec::base(Arch::Llama, LAYERS, dim)
    }
    .with_default_factors();
    let mut writer = GgufWriter::new();
    for (key, value) in spec.metadata() {
        writer.set(key, value);
    }
    for need in ModelTensors::in_file(&spec) {
        writer.tensor(&need.name, &need.dims, TensorType::F32);
    }
    let mut random = fixtures::Random(dim as u64 + 1);
    let mut bytes = Vec::new();
    writer
        .write(&mut bytes, |tensor, out| {
            let mut number = || random.below(2001) as f32 / 1000.0 - 1.0;
            let width = tensor.dims[0] as f32;
            for _ in 0..tensor.dims.iter().product::<u64>() {
                let x = match tensor.dims.len() {
                    1 => 1.0 + 0.2 * number(),
                    _ => 2.0 * number() / width.sqrt(),
                };
                out.write_all(&x.to_le_bytes())?;
            }
            Ok(())
        })
        .expect("a file");
    bytes
}

/// The logits of all tokens, in f64, from the formulas.
fn plain_logits(file: &GgufFile, dim: usize, tokens: &[u32]) -> Vec<f32> {
    let weights: HashMap<&str, Vec<f64>> = (file.tensors().iter())
        .map(|tensor| {
            let numbers = file.data(tensor).as_chunks().0.iter().map(|x| f64::from(f32::from_le_bytes(*x)));
            (&*tensor.name, numbers.collect())
        })
        .collect();
    let times = |name: &str, x: &[f64]| -> Vec<f64> {
        weights[name].chunks(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
    };
    let norm = |name: &str, x: &[f64]| -> Vec<f64> {
        let scale = 1.0 / (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + 1e-5).sqrt();
        x.iter().zip(&weights[name]).map(|(x, w)| x * scale * w).collect()
    };
    // llama rotates neighbours.
    let rope = |x: &mut [f64], position: usize| {
        for head in x.chunks_mut(dim) {
            for (pair, ab) in head.chunks_mut(2).enumerate() {
                let angle = position as f64 * 10_000f64.powf(-2.0 * pair as f64 / dim as f64);
                let (a, b) = (ab[0], ab[1]);
                (ab[0], ab[1]) = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos());
            }
        }
    };
    let add = |x: &mut Vec<f64>, y: &[f64]| x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
    let mut stream: Vec<Vec<f64>> = (tokens.iter())
        .map(|token| weights["token_embd.weight"][*token as usize * EMBD..][..EMBD].to_vec())
        .collect();
    for layer in 0..LAYERS {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (position, x) in stream.iter_mut().enumerate() {
            let normed = norm(&name("attn_norm"), x);
            let [mut q, mut k, v] = ["attn_q", "attn_k", "attn_v"].map(|part| times(&name(part), &normed));
            rope(&mut q, position);
            rope(&mut k, position);
            keys.push(k);
            values.push(v);
            let mut attended = Vec::new();
            for (head, q) in q.chunks(dim).enumerate() {
                let first = head / (HEADS / KV_HEADS) * dim;
                let logit = |key: &Vec<f64>| {
                    let product: f64 = q.iter().zip(&key[first..]).map(|(a, b)| a * b).sum();
                    (product / (dim as f64).sqrt()).exp()
                };
                let shares: Vec<f64> = keys.iter().map(logit).collect();
                let all: f64 = shares.iter().sum();
                for element in first..first + dim {
                    attended.push(shares.iter().zip(&values).map(|(p, v)| p * v[element]).sum::<f64>() / all);
                }
            }
            add(x, &times(&name("attn_output"), &attended));
            let normed = norm(&name("ffn_norm"), x);
            let (gate, up) = (times(&name("ffn_gate"), &normed), times(&name("ffn_up"), &normed));
            let hidden: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            add(x, &times(&name("ffn_down"), &hidden));
        }
    }
    let logits = |x: &Vec<f64>| times("output.weight", &norm("output_norm.weight", x));
    stream.iter().flat_map(logits).map(|x| x as f32).collect()
}

/// The last one is larger than those of our kernels for GPUs.
const DIMS: [usize; 7] = [2, 6, 20, 64, 80, 100, 320];

fn engine(bytes: &[u8], options: &EngineOptions) -> Arc<Engine> {
    Engine::open(&ModelSource::Bytes(bytes.to_vec().into()), options).expect("the model opens")
}

#[test]
fn logits_are_those_of_a_plain_computation() {
    for dim in DIMS {
        let bytes = file(dim);
        let on_device = EngineOptions {
            devices: vec![DeviceOptions::all(tests::host_device())],
            ..tests::engine_options()
        };
        for (place, options_of_engine) in [("default", tests::engine_options()), ("emulated", on_device)] {
            let engine = engine(&bytes, &options_of_engine);
            let tokens = random_tokens(&engine, 40, 3);
            let want = plain_logits(&GgufFile::from_bytes(bytes.clone()).expect("a file"), dim, &tokens);
            for (types, limit) in [((Type::F32, Type::F32), 1e-4), ((Type::F16, Type::F16), 2e-2)] {
                let limit = limit + if place == "default" { tests::device_tolerance() } else { 0.01 };
                let asked = |prefill| SessionOptions { types, prefill, chunk: 16, ..options(64, "full") };
                let all = session(&engine, asked(Prefill::Exact)).all_logits(&tokens).expect("logits");
                let difference = max_difference(&all, &want);
                assert!(difference < limit, "{dim} {place} {types:?}: {difference:e}");
                let last = &want[want.len() - VOCAB..];
                for prefill in [Prefill::Exact, Prefill::Streaming] {
                    let mut session = session(&engine, asked(prefill));
                    sync(&mut session, &tokens[..30]);
                    tokens[30..].iter().for_each(|token| session.push(*token).expect("a step"));
                    let difference = max_difference(session.logits(), last);
                    assert!(difference < limit, "{dim} {place} {types:?} {prefill:?}: {difference:e}");
                }
            }
        }
    }
}

/// Every policy evicts rows. Those that keep all with a budget for all give what a full cache gives.
#[test]
fn policies_work_with_heads_of_any_size() {
    let engine = engine(&file(20), &tests::engine_options());
    let tokens = random_tokens(&engine, 120, 5);
    let read = |policy: &longhand::policy::PolicyChoice| {
        let mut session = session(&engine, with_policy(&engine, policy, options(160, "full")));
        sync(&mut session, &tokens[..110]);
        tokens[110..].iter().for_each(|token| session.push(*token).expect("a step"));
        session
    };
    let full = read(&"full".parse().expect("a policy"));
    for policy in fixtures::bounded_policies(160, 160) {
        let session = read(&policy);
        let usage = session.kv_usage();
        if usage.bytes < usage.full_bytes {
            continue; // a policy that always evicts
        }
        let difference = max_difference(session.logits(), full.logits());
        assert!(difference < 1e-4 + tests::device_tolerance(), "{policy}: {difference:e}");
    }
    for policy in fixtures::bounded_policies(48, 160) {
        let session = read(&policy);
        let usage = session.kv_usage();
        assert!(session.logits().iter().all(|logit| logit.is_finite()), "{policy}");
        assert!(usage.bytes < usage.full_bytes, "{policy}: nothing was evicted");
    }
}

#[test]
fn types_with_blocks_need_whole_blocks() {
    // 30 elements are a whole block with the zeros behind them.
    for dim in [30, 100] {
        let engine = engine(&file(dim), &tests::engine_options());
        let asked = SessionOptions { types: (Type::Q8_0, Type::F16), ..options(64, "full") };
        let error = longhand::Session::new(&engine, asked).err().expect("no whole blocks");
        let EngineError::Setting { reason, hint, .. } = &error else { panic!("{error}") };
        let expected = format!("blocks of 32 elements, but the model's heads have {dim}");
        assert!(reason.contains(&expected), "{error}");
        assert_eq!(hint.to_string(), "use one of the types f16, f32");
    }
}

/// Portable operations move rows as words of 4 bytes: a type whose rows are none is refused, with those that would do.
#[test]
fn rows_that_a_device_cannot_move_are_refused_by_name() {
    let options_of_engine = EngineOptions {
        devices: vec![DeviceOptions::all(DeviceKind::Portable(0))],
        ..tests::engine_options()
    };
    let engine = engine(&file(96), &options_of_engine);
    let new = |k_type, policy| {
        longhand::Session::new(&engine, SessionOptions { types: (k_type, Type::F16), ..options(64, policy) })
    };
    let error = new(Type::Q8_0, "h2o:heavy=16,recent=8").err().expect("102 bytes");
    let EngineError::Setting { what, reason, hint } = &error else { panic!("{error}") };
    assert_eq!(what, "keys of type q8_0 and values of type f16 with heads of 96 elements");
    assert!(reason.contains("102 bytes"), "{error}");
    assert_eq!(hint.to_string(), "use one of the types f16, f32");
    new(Type::Q8_0, "full").expect("no row is moved");
    new(Type::F16, "h2o:heavy=16,recent=8").expect("192 bytes");
}
