//! The reader on real files: the vocabularies of llama.cpp's test suite (several architectures and
//! tokenizers) and the embedded model. The vocabularies are in `../shared`, beside the workspace. Without
//! them, their tests print a note and pass.

use std::path::{Path, PathBuf};

use models::gguf::{GgufFile, TensorType, Value};

/// A file of `../shared`; prints a note and returns `None` if there is none.
fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(path);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: there is no {}", path.display());
    None
}

#[test]
fn vocabularies_are_read() {
    // name, version, architecture, tokenizer, tokens, merges
    let cases = [
        ("deepseek-coder", 3, "llama", "gpt2", 32256, 31757),
        ("gpt-2", 3, "gpt2", "gpt2", 50257, 50000),
        ("llama-bpe", 3, "llama", "gpt2", 128256, 280147),
        ("llama-spm", 3, "llama", "llama", 32000, 0),
        ("phi-3", 3, "phi3", "llama", 32064, 0),
        ("qwen2", 3, "qwen2", "gpt2", 151936, 151387),
    ];
    for (name, version, arch, model, tokens, merges) in cases {
        let Some(path) = shared(&format!("data/vocab/ggml-vocab-{name}.gguf")) else {
            return;
        };
        let file = GgufFile::open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let found = (
            file.version(),
            file.required_str("general.architecture").unwrap(),
            file.required_str("tokenizer.ggml.model").unwrap(),
            file.strings("tokenizer.ggml.tokens").unwrap().unwrap().len(),
            file.strings("tokenizer.ggml.merges").unwrap().map_or(0, |m| m.len()),
        );
        assert_eq!(found, (version, arch, model, tokens, merges), "{name}");
        assert!(file.tensors().is_empty(), "{name}");
        for (key, value) in file.metadata() {
            assert!(!value.to_string().is_empty(), "{name}: {key}");
        }
    }
}

#[test]
fn tokens_are_not_copied() {
    let Some(path) = shared("data/vocab/ggml-vocab-llama-spm.gguf") else {
        return;
    };
    let file = GgufFile::open(&path).unwrap();
    let tokens = file.strings("tokenizer.ggml.tokens").unwrap().unwrap();
    assert_eq!(tokens.text(0), Some("<unk>"));
    assert_eq!(tokens.text(1), Some("<s>"));
    assert_eq!(tokens.text(3), Some("<0x00>"));
    assert_eq!(tokens.text(29871), Some("▁"));
    assert_eq!(tokens.get(32000), None);
    let types = file.ints("tokenizer.ggml.token_type").unwrap().unwrap();
    assert_eq!(
        (types.int(0), types.int(1), types.int(3), types.int(29871)),
        (Some(2), Some(3), Some(6), Some(1))
    );
    let scores = file.floats("tokenizer.ggml.scores").unwrap().unwrap();
    assert_eq!(scores.len(), 32000);
}

#[test]
fn the_embedded_model_is_read() {
    let file = GgufFile::from_bytes(models::embedded::needle()).unwrap();
    assert_eq!(file.version(), 3);
    assert_eq!(file.alignment(), 32);
    assert_eq!(file.shards(), 1);
    assert_eq!(file.get("llama.block_count"), Some(&Value::U32(4)));
    let embd = file.tensor("token_embd.weight").unwrap();
    assert_eq!((embd.dims.as_slice(), embd.ty), ([256, 2048].as_slice(), TensorType::Q8_0));
    assert_eq!(file.data(embd).len() as u64, 2048 * 256 / 32 * 34);
    assert_eq!(file.data(embd).as_ptr() as usize % 32, 0);
}
