//! Specifications and tensors read from complete models: the embedded model, and the golden models, which are
//! tiny random models of each architecture.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use brotli_decompressor::Decompressor;
use models::arch::{Arch, RopeStyle};
use models::gguf::write::{GgufWriter, MetaValue};
use models::gguf::{GgufFile, TensorType};
use models::spec::{ModelSpec, ModelTensors, PositionEncoding, Rope, RopeScaling};

use crate::common::{bytes, file_of, tiny_model, tiny_spec_of};

fn open(name: &str) -> GgufFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/models").join(name);
    let Ok(packed) = File::open(format!("{}.br", path.display())) else {
        return GgufFile::open(&path).unwrap_or_else(|e| panic!("{e}"));
    };
    let mut bytes = Vec::new();
    Decompressor::new(packed, 1 << 16).read_to_end(&mut bytes).expect("a packed file");
    GgufFile::from_bytes(bytes).unwrap_or_else(|e| panic!("{e}"))
}

fn read(writer: &GgufWriter) -> ModelSpec {
    ModelSpec::from_gguf(&GgufFile::from_bytes(bytes(writer)).expect("a file"))
        .unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn the_specification_of_the_embedded_model_is_read() {
    let file = GgufFile::from_bytes(models::embedded::needle()).unwrap();
    let spec = ModelSpec::from_gguf(&file).unwrap();
    assert_eq!(spec.arch, Arch::Llama);
    assert_eq!(spec.name, "needle");
    assert_eq!((spec.n_layers, spec.n_embd, spec.n_heads, spec.n_kv_heads), (4, 256, 8, 4));
    assert_eq!((spec.head_dim, spec.n_ff, spec.n_vocab), (64, 512, 2048));
    assert_eq!(spec.attention.scale, 0.125);
    let rope = Rope {
        style: RopeStyle::Norm,
        n_dims: 64,
        base: 500_000.0,
        scaling: RopeScaling::None,
        has_factors: false,
        skipped_every: None,
    };
    assert_eq!(spec.position_encoding, PositionEncoding::Rope(rope));
    assert!(spec.tied_output && !spec.attention.qkv_bias && spec.attention.qk_norm.is_none());
    // The number in its README.
    assert_eq!(spec.parameters(), 3_672_320);

    let tensors = ModelTensors::from_gguf(&file, &spec).unwrap();
    let names = tensors.map(|tensor| tensor.name);
    assert_eq!(names.input.token_embd, "token_embd.weight");
    assert_eq!(names.output.matrix, None);
    assert_eq!(names.layers.len(), 4);
    assert_eq!(names.layers[3].mixer.output(), "blk.3.attn_output.weight");
    assert!(names.layers[0].mixer.attention().is_some_and(|attention| attention.bq.is_none()));
}

/// The expected values are those in the README and `index.json` of the golden models.
#[test]
fn the_specifications_of_the_golden_models_are_read() {
    use Arch::{Baichuan, Llama, Qwen2, Qwen3};
    let linear = Some(RopeScaling::Linear { factor: 4.0 });
    let yarn = Some(RopeScaling::Yarn {
        factor: 4.0,
        original_ctx: 32,
        ext_factor: 1.0,
        attn_factor: 1.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        truncate: true,
    });
    let none = Some(RopeScaling::None);
    // name, architecture, (width, query heads, KV heads, head_dim), scaling of RoPE, tied, rope_freqs
    let cases = [
        ("baichuan-alibi-f16", Baichuan, (24, 3, 3, 8), None, false, false),
        ("llama-gqa-linear-f32", Llama, (32, 4, 2, 16), linear, false, false),
        ("llama-gqa-llama3rope-f16", Llama, (32, 8, 2, 16), none, true, true),
        ("llama-gqa-llama3rope-f32", Llama, (32, 8, 2, 16), none, true, true),
        ("llama-mha-f32", Llama, (32, 4, 4, 16), none, false, false),
        ("llama-wide-mqa-q4_k_m", Llama, (256, 4, 1, 64), none, true, false),
        ("qwen2-gqa-f32", Qwen2, (64, 4, 2, 16), none, true, false),
        ("qwen2-gqa-q8_0", Qwen2, (64, 4, 2, 16), none, true, false),
        ("qwen2-mha-yarn-f32", Qwen2, (32, 2, 2, 16), yarn, false, false),
        ("qwen3-gqa-f32", Qwen3, (32, 8, 2, 16), none, false, false),
        ("qwen3-mha-f32", Qwen3, (32, 2, 2, 32), none, true, false),
        ("qwen3-wide-mqa-q6_k", Qwen3, (256, 4, 1, 64), none, true, false),
    ];
    for (name, arch, sizes, scaling, tied, rope_freqs) in cases {
        let file = open(&format!("{name}.gguf"));
        let spec = ModelSpec::from_gguf(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let found = (spec.n_embd, spec.n_heads, spec.n_kv_heads, spec.head_dim);
        let stretched = spec.position_encoding.rope().map(|rope| rope.scaling);
        assert_eq!((spec.arch, found, stretched), (arch, sizes, scaling), "{name}");
        let has_factors = spec.position_encoding.rope().is_some_and(|rope| rope.has_factors);
        assert_eq!((spec.tied_output, has_factors), (tied, rope_freqs), "{name}");
        assert_eq!(
            (spec.attention.qkv_bias, spec.attention.qk_norm.is_some()),
            (arch == Qwen2, arch == Qwen3),
            "{name}"
        );
        assert_eq!(spec.n_vocab, 264, "{name}");

        // All tensors of the file are found, and their elements are the parameters.
        let tensors = ModelTensors::from_gguf(&file, &spec).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut placed = Vec::new();
        tensors.for_each(|tensor| placed.push(tensor.name.clone()));
        placed.sort_unstable();
        let mut all: Vec<_> = file.tensors().iter().map(|tensor| tensor.name.clone()).collect();
        all.sort_unstable();
        assert_eq!(placed, all, "{name}");
        let factors = tensors.input.rope_freqs.map_or(0, |factors| factors.elements());
        let elements: u64 = file.tensors().iter().map(|t| t.elements()).sum();
        assert_eq!(spec.parameters(), elements - factors, "{name}");
    }
}

#[test]
fn the_type_of_a_file_is_named_as_it_says_where_that_can_be() {
    let name = |stated: Option<u32>, types: &[(TensorType, u64)]| {
        let mut writer = GgufWriter::new();
        stated.into_iter().for_each(|stated| _ = writer.set("general.file_type", stated));
        for (number, (ty, row)) in types.iter().enumerate() {
            writer.tensor(format!("tensor.{number}").as_str(), &[*row, 8], *ty);
        }
        GgufFile::from_bytes(writer.to_bytes_zeroed().unwrap()).unwrap().file_type()
    };
    let (q4_k, q5_0) = ((TensorType::Q4_K, 256), (TensorType::Q5_0, 224));
    for (stated, types, expected) in [
        (Some(15), &[q5_0, q5_0, q5_0, q4_k][..], "Q4_K_M"),
        (None, &[q5_0, q5_0, q5_0, q4_k], "q5_0"),
        // All rows are too short.
        (Some(15), &[q5_0], "Q4_K_M"),
        (Some(17), &[q5_0], "q5_0"),
        // Quantised again since.
        (Some(15), &[(TensorType::Q5_0, 256)], "q5_0"),
        (Some(7), &[(TensorType::Q8_0, 256)], "Q8_0"),
        (Some(0), &[(TensorType::Q8_0, 256)], "q8_0"),
        (Some(4_000_000), &[q4_k], "q4_K"),
        (Some(15), &[], ""),
    ] {
        assert_eq!(name(stated, types), expected, "{stated:?} {types:?}");
    }
}

/// How much longer the rotated queries and keys of a tiny model are, with these settings of YaRN.
fn yarn_magnitude(arch: Arch, settings: &[(&str, f32)]) -> f32 {
    let mut writer = tiny_model(arch);
    writer.set(format!("{}.rope.scaling.type", arch.name()), "yarn");
    for &(key, value) in settings {
        writer.set(format!("{}.rope.scaling.{key}", arch.name()), value);
    }
    let spec = ModelSpec::from_gguf(&GgufFile::from_bytes(bytes(&writer)).unwrap()).unwrap();
    let params = spec.position_encoding.rope().unwrap().scaling.params(spec.n_ctx_train);
    // As ggml does.
    let own = if params.ext_factor == 0.0 { 1.0 } else { 1.0 + 0.1 * (1.0 / params.freq_scale).ln() };
    params.attn_factor * own
}

/// `yarn_attn_factor` is what transformers calls `attention_factor`: it replaces 1 + 0.1 ln(factor).
#[test]
fn a_magnitude_in_the_file_replaces_that_of_yarn() {
    let own = 1.0 + 0.1 * 4.0_f32.ln();
    for (settings, expected) in [
        (&[("factor", 4.0)][..], own),
        (&[("factor", 4.0), ("attn_factor", 3.0)], 3.0 * own),
        (&[("factor", 4.0), ("yarn_attn_factor", 2.0)], 2.0),
        (&[("factor", 4.0), ("yarn_attn_factor", 1.0)], 1.0),
        (&[("factor", 4.0), ("yarn_attn_factor", 2.0), ("attn_factor", 3.0)], 6.0),
        (&[("factor", 4.0), ("yarn_ext_factor", 0.0)], 1.0),
        (&[("factor", 4.0), ("yarn_ext_factor", 0.0), ("yarn_attn_factor", 2.0)], 2.0),
    ] {
        for arch in [Arch::Llama, Arch::GptOss] {
            let found = yarn_magnitude(arch, settings);
            assert!((found - expected).abs() < 1e-5, "{arch:?} {settings:?}: {found}, not {expected}");
        }
    }
    let with_multiplier = [("factor", 4.0), ("yarn_log_multiplier", 0.1), ("yarn_attn_factor", 2.0)];
    assert!((yarn_magnitude(Arch::DeepSeek2, &with_multiplier) - 2.0).abs() < 1e-5);
}

/// The first and the last frequencies are those of YaRN, and the ramp between is not rounded.
#[test]
fn the_ramp_of_gpt_oss_is_not_rounded() {
    let rope = |truncate| Rope {
        style: RopeStyle::Neox,
        n_dims: 64,
        base: 150_000.0,
        scaling: RopeScaling::Yarn {
            factor: 32.0,
            original_ctx: 4096,
            ext_factor: 1.0,
            attn_factor: 1.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate,
        },
        has_factors: false,
        skipped_every: None,
    };
    assert_eq!(rope(true).divisors(), None);
    let divisors = rope(false).divisors().unwrap();
    assert_eq!(
        (divisors.len(), divisors[0], divisors[8], divisors[18], divisors[31]),
        (32, 1.0, 1.0, 32.0, 32.0)
    );
    // 64 ln(4096 / (2 pi beta)) / (2 ln 150000): 8.0928 for 32 and 17.3980 for 1. Number 12 is 0.41989 on the way.
    let expected = 1.0 / (0.41989 / 32.0 + 1.0 - 0.41989);
    assert!((divisors[12] - expected).abs() < 1e-4, "{} {expected}", divisors[12]);
    for base in [1.0, f32::MAX] {
        let divisors = Rope { base, ..rope(false) }.divisors().unwrap();
        assert!(divisors.iter().all(|divisor| (1.0..=32.0).contains(divisor)), "{divisors:?}");
    }
    let params = rope(false).scaling.params(1);
    assert_eq!((params.freq_scale, params.ext_factor), (1.0, 0.0));
    assert!((params.attn_factor - (1.0 + 0.1 * 32.0_f32.ln())).abs() < 1e-6);
}

/// Converters of StableLM write `true` where they do not know; the norm before the feed-forward network decides.
#[test]
fn norms_tell_whether_stablelm_is_parallel() {
    for parallel in [true, false] {
        let mut writer = tiny_model(Arch::StableLm);
        writer.set("stablelm.use_parallel_residual", parallel);
        let read = |writer: &GgufWriter| {
            ModelSpec::from_gguf(&GgufFile::from_bytes(bytes(writer)).unwrap()).unwrap().block.parallel
        };
        assert!(!read(&writer));
        writer.tensors_mut().retain(|tensor| !tensor.name.contains("ffn_norm"));
        assert!(read(&writer));
    }
}

#[test]
fn early_files_of_gemma_2_have_its_soft_caps() {
    let mut writer = tiny_model(Arch::Gemma2);
    writer.unset("gemma2.attn_logit_softcapping").unset("gemma2.final_logit_softcapping");
    let spec = ModelSpec::from_gguf(&GgufFile::from_bytes(bytes(&writer)).unwrap()).unwrap();
    assert_eq!((spec.attention.softcap, spec.factors.final_softcap), (Some(50.0), Some(30.0)));
}

/// The number of layers selects Baichuan's position encoding.
#[test]
fn baichuan_with_32_layers_uses_rope() {
    let alibi = ModelSpec::from_gguf(&open("baichuan-alibi-f16.gguf")).unwrap();
    assert_eq!((alibi.n_layers, alibi.position_encoding), (40, PositionEncoding::Alibi { max_bias: 8.0 }));
    let rope = Rope {
        style: RopeStyle::Norm,
        n_dims: 8,
        base: 10_000.0,
        scaling: RopeScaling::None,
        has_factors: false,
        skipped_every: None,
    };
    let spec = ModelSpec { n_layers: 32, position_encoding: PositionEncoding::Rope(rope), ..alibi };
    let mut writer = GgufWriter::new();
    for (key, value) in spec.metadata() {
        writer.set(key, value);
    }
    for need in ModelTensors::in_file(&spec) {
        writer.tensor(&need.name, &need.dims, TensorType::F32);
    }
    let file = GgufFile::from_bytes(writer.to_bytes_zeroed().unwrap()).unwrap();
    assert_eq!(ModelSpec::from_gguf(&file).unwrap(), spec);
}

/// Files of models that also see images have sections of RoPE, whose positions are equal in texts. In GLM's files they
/// also say that RoPE pairs the two halves of its elements. In ERNIE's they mean nothing.
#[test]
fn sections_of_rope_are_read_as_llama_cpp_reads_them() {
    let with_sections = |arch: Arch, sections: [i32; 4]| {
        let mut writer = tiny_model(arch);
        writer.set(format!("{}.rope.dimension_sections", arch.name()), MetaValue::i32s(sections));
        let spec = read(&writer);
        assert_eq!(read(&file_of(&spec)), spec, "what is written is read back");
        spec.position_encoding.rope().expect("RoPE").style
    };
    for (arch, sections, style) in [
        (Arch::Glm4, [2, 1, 1, 0], RopeStyle::Neox),
        (Arch::Glm4, [11, 11, 10, 0], RopeStyle::Neox),
        (Arch::Glm4, [0, 2, 2, 0], RopeStyle::Norm),
        (Arch::Glm4, [4, 0, 0, 0], RopeStyle::Norm),
        (Arch::Glm4, [0; 4], RopeStyle::Norm),
        (Arch::Glm4Moe, [2, 1, 1, 0], RopeStyle::Neox),
        (Arch::Glm4Moe, [0; 4], RopeStyle::Neox),
        (Arch::Ernie4_5, [2, 1, 1, 0], RopeStyle::Norm),
        (Arch::Ernie4_5, [1, 1, 1, 1], RopeStyle::Norm),
        (Arch::Ernie4_5Moe, [2, 1, 1, 0], RopeStyle::Norm),
    ] {
        assert_eq!(with_sections(arch, sections), style, "{} {sections:?}", arch.name());
    }
}

/// EXAONE 4 with 64 layers has a window of 4096 tokens, also if the file does not say so; others have none then.
#[test]
fn exaone_4_with_64_layers_has_a_window() {
    let window = |layers: usize| {
        let mut writer = file_of(&tiny_spec_of(Arch::Exaone4, layers));
        writer.unset("exaone4.attention.sliding_window").unset("exaone4.attention.sliding_window_pattern");
        let spec = read(&writer);
        [0, 2, 3, 62, 63].map(|layer| spec.window(layer))
    };
    assert_eq!(window(64), [Some(4096), Some(4096), None, Some(4096), None]);
    assert_eq!(window(60), [None; 5]);
}
