//! Experts in the types and layouts of real files: what is repacked computes the same, the plan knows its bytes, and
//! damaged experts are named.

use std::sync::Arc;

use ggml::Backend;
use longhand::setup::plan::Placement;
use longhand::testing::Weights;
use longhand::testing::backends::Backends;
use longhand::testing::outline::tensor_outlines;
use longhand::{Engine, EngineOptions, ModelSource};
use models::arch::Arch;
use models::gguf::GgufFile;
use models::shapes::FileType;
use models::spec::ModelSpec;
use tests::fixtures::{blamed_tensor, file_with_experts, options, random_tokens, session};

const LAYERS: usize = 2;

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
            let bytes = file_with_experts(arch, file_type);
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
        let file = GgufFile::from_bytes(file_with_experts(Arch::Qwen2Moe, file_type)).expect("a file");
        let spec = ModelSpec::from_gguf(&file).expect("a model");
        let placed =
            |on_device, host_experts| Placement::new(LAYERS, on_device).with_host_experts(host_experts);
        for (repack, placement) in [
            (true, placed(0, 0)),
            (false, placed(0, 0)),
            (true, placed(1, 0)),
            (true, placed(LAYERS, 0)),
            (true, placed(LAYERS, 1)),
            (false, placed(LAYERS, LAYERS)),
            (true, placed(1, LAYERS)),
        ] {
            let device = emulator::backend(None).expect("starts");
            let host = Backend::cpu(1).expect("starts");
            let backends = Backends::new(host, vec![device], placement);
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
    let bytes = file_with_experts(Arch::GptOss, FileType::F16);
    for name in [
        "blk.0.ffn_gate_inp.weight",
        "blk.1.ffn_gate_inp.bias",
        "blk.0.ffn_gate_exps.weight",
        "blk.1.ffn_up_exps.weight",
        "blk.0.ffn_down_exps.weight",
        "blk.1.ffn_down_exps.bias",
    ] {
        assert_eq!(blamed_tensor(&bytes, name, &tests::engine_options()).as_deref(), Some(name));
    }
}
