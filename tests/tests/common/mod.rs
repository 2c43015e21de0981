//! What the tests of sessions share.
#![allow(dead_code)] // no test uses all of it

use engine::heads::HeadProfile;
use engine::{Engine, ModelSource, SessionOptions};
use ggml::Type;
use std::sync::Arc;

pub const TINY: &str = "golden/models/llama-gqa-llama3rope-f32.gguf";

pub fn tiny() -> Arc<Engine> {
    open(TINY)
}

/// A model of the golden data, on one thread.
pub fn open(model: &str) -> Arc<Engine> {
    let options = tests::engine_options();
    Engine::open(&ModelSource::File(tests::data(model)), &options).expect("the model opens")
}

pub fn options(context: usize, policy: &str) -> SessionOptions {
    SessionOptions {
        context,
        policy: policy.parse().expect("a policy"),
        types: (Type::F32, Type::F32),
        chunk: 32,
        ..SessionOptions::default()
    }
}

/// Tokens that look random and are the same everywhere.
pub fn text(engine: &Arc<Engine>, n: usize, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % engine.spec().n_vocab as u64) as u32
    };
    (0..n).map(|_| next()).collect()
}

/// Half of the KV heads keep everything.
pub fn half(engine: &Arc<Engine>) -> HeadProfile {
    let shape = engine.head_shape().expect("heads");
    let flags = (0..shape.all_kv_heads()).map(|i| i % 2 == 0).collect();
    HeadProfile::new(shape, flags, Vec::new(), Default::default()).expect("a profile")
}

pub fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
