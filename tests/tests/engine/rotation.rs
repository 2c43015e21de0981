//! Rows of four bits are stored rotated: what attention computes of them is near what it computes of exact rows.

use std::sync::Arc;

use ggml::Type;
use longhand::reading::Prefill;
use longhand::{Engine, SessionOptions};
use tests::fixtures::{golden_model, options, random_tokens, relative_difference, session, sync};
use tests::is_portable;

/// The logits behind a text, read chunk by chunk or layer by layer, with its last token as a step.
fn logits(engine: &Arc<Engine>, types: (Type, Type), prefill: Prefill, policy: &str) -> Vec<f32> {
    let tokens = random_tokens(engine, 80, 3);
    let options = SessionOptions { types, prefill, ..options(100, policy) };
    let mut session = session(engine, options);
    sync(&mut session, &tokens[..79]);
    session.push(tokens[79]).expect("a step");
    session.logits().to_vec()
}

#[test]
fn logits_with_rotated_rows_are_near_those_with_exact_rows() {
    // Rows of heads with 32 elements have 18 bytes, which are no whole words.
    if is_portable() {
        return;
    }
    for engine in ["qwen3-wide-mqa-q6_k", "llama-wide-mqa-q4_k_m", "qwen3-mha-f32"].map(golden_model) {
        for policy in ["full", "razor:heads=off,buffer=30,ratio=100,slack=0"] {
            for prefill in [Prefill::Exact, Prefill::Streaming] {
                let exact = logits(&engine, (Type::F32, Type::F32), prefill, policy);
                for ty in [Type::Q4_0, Type::IQ4_NL] {
                    for types in [(ty, Type::F16), (Type::F16, ty), (ty, ty)] {
                        let rotated = logits(&engine, types, prefill, policy);
                        let difference = relative_difference(&rotated, &exact);
                        // Below 0.44. Where keys have four bits, queries that are not rotated give 1.0 and more.
                        assert!(difference < 0.6, "{policy} {prefill:?} {types:?}: {difference}");
                    }
                }
            }
        }
    }
}
