//! Experts in the types and layouts of real files: what is repacked computes the same, the plan knows its bytes, and
//! damaged experts are named.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ggml::Backend;
use longhand::testing::Weights;
use longhand::testing::backends::Backends;
use longhand::testing::outline::tensor_outlines;
use longhand::{Engine, EngineError, EngineOptions, ModelSource};
use models::arch::Arch;
use models::gguf::GgufFile;
use models::shapes::{ExpertShape, FileType, ModelShape};
use models::spec::ModelSpec;
use tests::fixtures::{options, random_tokens, session};

const LAYERS: usize = 2;

/// A file with rows of 256 elements, which all types can hold.
fn file(arch: Arch, file_type: FileType) -> Vec<u8> {
    let like = ModelShape::find("qwen3-30b-a3b").expect("a shape");
    let shape = ModelShape {
        name: "tiny",
        arch,
        n_layers: LAYERS,
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

fn engine(bytes: &[u8], repack: bool) -> Arc<Engine> {
    let options = EngineOptions { repack, ..tests::engine_options() };
    Engine::open(&ModelSource::Bytes(bytes.to_vec().into()), &options).expect("the model opens")
}

fn median_difference(a: &[f32], b: &[f32]) -> f32 {
    let mut differences: Vec<f32> = a.iter().zip(b).map(|(a, b)| (a - b).abs()).collect();
    differences.sort_by(f32::total_cmp);
    differences[differences.len() / 2]
}

/// Rounding differs between layouts. It may change the choice of an expert now and then, so that the median counts.
#[test]
fn layouts_of_experts_compute_the_same() {
    for arch in [Arch::Qwen3Moe, Arch::Qwen2Moe, Arch::GptOss] {
        for &file_type in FileType::ALL {
            let bytes = file(arch, file_type);
            let engines = [true, false].map(|repack| engine(&bytes, repack));
            let tokens = random_tokens(&engines[0], 40, 7);
            let mut all = Vec::new();
            for engine in &engines {
                all.push(session(engine, options(64, "full")).all_logits(&tokens).expect("logits"));
                let mut steps = Vec::new();
                let mut session = session(engine, options(64, "full"));
                for token in &tokens {
                    session.push(*token).expect("a step");
                    steps.extend_from_slice(session.logits());
                }
                all.push(steps);
            }
            for other in &all[1..] {
                let difference = median_difference(&all[0], other);
                assert!(difference < 0.02, "{} {}: {difference}", arch.name(), file_type.name());
            }
        }
    }
}

#[test]
fn planned_bytes_of_experts_equal_loaded_ones() {
    for &file_type in FileType::ALL {
        let file = GgufFile::from_bytes(file(Arch::Qwen2Moe, file_type)).expect("a file");
        let spec = ModelSpec::from_gguf(&file).expect("a model");
        for (repack, on_device) in [(true, 0), (false, 0), (true, 1), (true, LAYERS)] {
            let flag = Arc::new(AtomicBool::new(false));
            let device = Backend::emulated(flag.clone(), None).expect("starts");
            let host = Backend::cpu(1, flag).expect("starts");
            let backends = Backends::new(host, Some(device), LAYERS, on_device);
            let loaded = Weights::load(&file, &spec, repack, &backends, &mut |_, _| Ok(())).expect("weights");
            let outlines = tensor_outlines(&file);
            let planned = Weights::unallocated(&spec, &outlines, repack, backends.placement());
            let planned = planned.expect("weights without memory");
            assert_eq!(loaded.bytes, planned.bytes, "{}", file_type.name());
            assert_eq!(loaded.dual_layout_bytes, planned.dual_layout_bytes, "{}", file_type.name());
        }
    }
}

/// NaN in every expert, or in what chooses them.
#[test]
fn damaged_experts_are_named() {
    let bytes = file(Arch::GptOss, FileType::F16);
    let parsed = GgufFile::from_bytes(bytes.clone()).expect("a file");
    for name in [
        "blk.0.ffn_gate_inp.weight",
        "blk.1.ffn_gate_inp.bias",
        "blk.0.ffn_gate_exps.weight",
        "blk.1.ffn_up_exps.weight",
        "blk.0.ffn_down_exps.weight",
        "blk.1.ffn_down_exps.bias",
    ] {
        let tensor = parsed.tensor(name).expect(name);
        let mut damaged = bytes.clone();
        damaged[tensor.offset as usize..][..tensor.bytes as usize].fill(0xff);
        let engine = engine(&damaged, true);
        let tokens = random_tokens(&engine, 40, 7);
        let error = session(&engine, options(64, "full")).sync(&tokens, &mut |_| ()).expect_err(name);
        let EngineError::NotFinite { origin } = error else { panic!("{name}: {error}") };
        assert_eq!(origin.map(|origin| origin.tensor).as_deref(), Some(name));
    }
}
