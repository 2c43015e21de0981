//! The tokenizers against llama.cpp's test cases: for each vocabulary a list of texts and llama.cpp's token
//! ids, without special tokens. The files are not part of the repository. Without them, the tests print a
//! note and pass.

use std::path::PathBuf;

use models::gguf::GgufFile;
use models::tokenizer::Tokenizer;

const SEPARATOR: &str = "\n__ggml_vocab_test__\n";

fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/vocab");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is not there", folder.display());
    None
}

fn load(name: &str) -> Option<Tokenizer> {
    let path = folder()?.join(format!("ggml-vocab-{name}.gguf"));
    let file = GgufFile::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Some(Tokenizer::from_gguf(&file).unwrap_or_else(|e| panic!("{name}: {e}")))
}

fn check(name: &str) {
    let Some(tokenizer) = load(name) else { return };
    let base = folder().expect("there is one").join(format!("ggml-vocab-{name}.gguf"));
    let read = |suffix: &str| {
        let path = format!("{}.{suffix}", base.display());
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    let (texts, ids) = (read("inp"), read("out"));
    // The separator also follows the last text.
    let texts: Vec<&str> = texts.trim_end_matches(SEPARATOR).split(SEPARATOR).collect();
    let mut lines = ids.lines();
    let mut wrong = Vec::new();
    for text in &texts {
        let want: Vec<u32> = lines
            .next()
            .expect("a line of ids for every text")
            .split_whitespace()
            .map(|id| id.parse().expect("a number"))
            .collect();
        let got = tokenizer.encode(text, false, false).expect("encodes");
        if got != want {
            wrong.push(format!("{text:?}\n  want {want:?}\n  got  {got:?}"));
        }
        let back = tokenizer.decode(&got, true);
        if back != text.as_bytes() {
            wrong.push(format!("{text:?} comes back as {:?}", String::from_utf8_lossy(&back)));
        }
    }
    assert!(lines.all(str::is_empty), "{name}: more lines of ids than texts");
    assert!(texts.len() > 40, "{name}: only {} cases read", texts.len());
    assert!(wrong.is_empty(), "{name}: {} of {} wrong\n{}", wrong.len(), texts.len(), wrong.join("\n"));
}

#[test]
fn llama_spm_ids_equal_those_of_llama_cpp() {
    check("llama-spm");
}

#[test]
fn phi_3_ids_equal_those_of_llama_cpp() {
    check("phi-3");
}

#[test]
fn llama_bpe_ids_equal_those_of_llama_cpp() {
    check("llama-bpe");
}

#[test]
fn qwen2_ids_equal_those_of_llama_cpp() {
    check("qwen2");
}

#[test]
fn gpt_2_ids_equal_those_of_llama_cpp() {
    check("gpt-2");
}

#[test]
fn deepseek_coder_ids_equal_those_of_llama_cpp() {
    check("deepseek-coder");
}
