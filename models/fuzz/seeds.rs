//! Writes the seeds of the corpus: small complete models of each architecture, unusual metadata, and the
//! metadata of the given files (vocabularies), with fewer tokens so that they stay small. Usage:
//! `seeds FOLDER FILE…`

use std::io;
use std::path::Path;

use models::arch::{Arch, Positions};
use models::gguf::write::{GgufWriter, MetaValue};
use models::gguf::{GgufFile, TensorType, ValueType};
use models::spec::{ModelSpec, ModelTensors, PositionEncoding, RopeScaling, TensorKind};

fn main() -> io::Result<()> {
    let mut args = std::env::args_os().skip(1);
    let folder = args.next().ok_or_else(|| io::Error::other("usage: seeds FOLDER FILE…"))?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let yarn = RopeScaling::Yarn {
        factor: 4.0,
        original_ctx: 16,
        ext_factor: 1.0,
        attn_factor: 1.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        truncate: true,
    };
    for &arch in Arch::ALL {
        for (name, ty, scaling, tied) in [
            ("f32", TensorType::F32, RopeScaling::None, true),
            ("q8_0", TensorType::Q8_0, RopeScaling::Linear { factor: 4.0 }, false),
            ("bf16", TensorType::BF16, yarn, true),
        ] {
            let writer = model(arch, ty, scaling, tied);
            std::fs::write(folder.join(format!("{}-{name}", arch.name())), filled(&writer)?)?;
        }
    }
    std::fs::write(folder.join("values"), values().to_bytes_zeroed()?)?;
    for path in args {
        let path = Path::new(&path);
        let file = GgufFile::open(path).map_err(io::Error::other)?;
        let mut writer = GgufWriter::new();
        for (key, value) in file.metadata() {
            writer.set(key, shortened(MetaValue::from(value)));
        }
        let name = path.file_stem().unwrap_or_default();
        let whole = writer.to_bytes_zeroed()?;
        std::fs::write(folder.join(name), &whole)?;
        for (i, part) in [4, 2].into_iter().enumerate() {
            let mut cut = name.to_owned();
            cut.push(format!("-cut{i}"));
            std::fs::write(folder.join(cut), &whole[..whole.len() / part])?;
        }
    }
    Ok(())
}

/// The file with 1.0 in all f32 data, because RoPE factors must not be zero. Data of other types have the
/// same bytes.
fn filled(writer: &GgufWriter) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    writer.write(&mut out, |tensor, out| {
        let floats = tensor.bytes().unwrap_or_default().div_ceil(4);
        let data = 1f32.to_le_bytes().repeat(floats as usize);
        out.write_all(&data[..tensor.bytes().unwrap_or_default() as usize])
    })?;
    Ok(out)
}

/// The value; an array is cut to its first 20 elements.
fn shortened(value: MetaValue) -> MetaValue {
    match value {
        MetaValue::Array(ty, items) => MetaValue::Array(ty, items.into_iter().take(20).collect()),
        other => other,
    }
}

fn model(arch: Arch, ty: TensorType, scaling: RopeScaling, tied_output: bool) -> GgufWriter {
    let n_layers = match arch.decl().positions {
        Positions::All(_) => 1,
        Positions::ByLayers(known) => known[0].0,
    };
    // Whole blocks of quantised types, also where half of a head is a latent vector.
    let base = ModelSpec::base(arch, n_layers, if arch.decl().latent { 64 } else { 16 });
    let mut spec = ModelSpec {
        name: "seed".into(),
        n_embd: 32,
        n_heads: 2,
        n_ff: 32,
        n_vocab: 4,
        n_ctx_train: 64,
        tied_output,
        ..base
    }
    .with_default_factors();
    if let PositionEncoding::Rope(rope) = &mut spec.position_encoding {
        rope.scaling = scaling;
        rope.has_factors |= arch == Arch::Llama;
    }
    let mut writer = GgufWriter::new();
    for (key, value) in spec.metadata() {
        writer.set(key, value);
    }
    writer.set("tokenizer.ggml.model", "llama");
    writer.set("tokenizer.ggml.tokens", MetaValue::strings(["<s>", "</s>", "a", "b"]));
    writer.set("tokenizer.ggml.scores", MetaValue::f32s([0.0, 0.0, -1.0, -2.0]));
    writer.set("tokenizer.ggml.token_type", MetaValue::i32s([3, 3, 1, 1]));
    for need in ModelTensors::in_file(&spec) {
        let ty = if need.kind == TensorKind::Matrix { ty } else { TensorType::F32 };
        writer.tensor(&need.name, &need.dims, ty);
    }
    writer
}

fn values() -> GgufWriter {
    let mut writer = GgufWriter::new();
    writer
        .align(8)
        .set("u8", MetaValue::U8(1))
        .set("i64", MetaValue::I64(-1))
        .set("f64", MetaValue::F64(0.5))
        .set("bool", true)
        .set("bools", MetaValue::Array(ValueType::Bool, vec![true.into(), false.into()]))
        .tensor("t4", &[32, 2, 2, 2], TensorType::Q4_0)
        .tensor("t1", &[8], TensorType::I32);
    writer
}
