//! A model that always gives the same answer, for tests of what answers look like.
//!
//! It is the embedded model with other weights. Its layers add nothing. The embedding of a token points to the token
//! that follows: behind the text of the user the first piece of the answer, behind each piece the next one, and
//! behind the last one the end.

use models::embedded;
use models::gguf::GgufFile;
use models::gguf::write::{GgufWriter, MetaValue};
use models::types::TensorType;

/// The first token of the answer.
const FIRST: usize = 1500;
/// The end-of-text token.
const END: usize = 2047;
const VOCABULARY: usize = 2048;
const EMBEDDING: usize = 256;
/// The direction of all tokens that are not in the answer.
const OTHERS: usize = EMBEDDING - 1;

/// The GGUF file of a model whose answers consist of these pieces, a token each. `template` is its chat template, if it
/// needs another than ChatML.
pub fn model(pieces: &[&str], template: Option<&str>) -> Vec<u8> {
    assert!(pieces.len() <= OTHERS, "a piece takes a dimension");
    let needle = GgufFile::from_bytes(embedded::needle()).expect("the embedded model");
    let mut writer = GgufWriter::with_metadata_of(&needle);
    let mut tokens: Vec<Vec<u8>> = match needle.get("tokenizer.ggml.tokens").map(MetaValue::from) {
        Some(MetaValue::Array(_, tokens)) => tokens
            .into_iter()
            .map(|token| match token {
                MetaValue::String(text) => text,
                other => panic!("{other:?}"),
            })
            .collect(),
        other => panic!("{other:?}"),
    };
    for (k, piece) in pieces.iter().enumerate() {
        tokens[FIRST + k] = byte_alphabet(piece).into_bytes();
    }
    writer.set("tokenizer.ggml.tokens", MetaValue::strings(tokens));
    writer.set("tokenizer.ggml.merges", MetaValue::strings([""; 0]));
    if let Some(template) = template {
        writer.set("tokenizer.chat_template", template);
    }
    let dims = [EMBEDDING as u64, VOCABULARY as u64];
    writer.tensor("output.weight", &dims, TensorType::F32);
    for tensor in needle.tensors() {
        let ty = if tensor.name == "token_embd.weight" { TensorType::F32 } else { tensor.ty };
        writer.tensor(&tensor.name, &tensor.dims, ty);
    }
    let mut file = Vec::new();
    let written = writer.write(&mut file, |tensor, out| {
        let values = match tensor.name.as_str() {
            "token_embd.weight" => embeddings(pieces.len()),
            "output.weight" => outputs(pieces.len()),
            "output_norm.weight" => vec![1.0; EMBEDDING],
            _ => {
                let bytes =
                    needle.tensors().iter().find(|found| found.name == tensor.name).map(|found| found.bytes);
                return out.write_all(&vec![0; bytes.expect("a tensor of the embedded model") as usize]);
            }
        };
        values.into_iter().try_for_each(|value: f32| out.write_all(&value.to_le_bytes()))
    });
    written.expect("a file in memory");
    file
}

/// `[VOCABULARY, EMBEDDING]`: each token of the answer has a dimension of its own.
fn embeddings(pieces: usize) -> Vec<f32> {
    let mut rows = vec![0.0; VOCABULARY * EMBEDDING];
    for token in 0..VOCABULARY {
        let dimension = token.checked_sub(FIRST).filter(|k| *k < pieces).unwrap_or(OTHERS);
        rows[token * EMBEDDING + dimension] = 1.0;
    }
    rows
}

/// `[VOCABULARY, EMBEDDING]`: each token is chosen behind the one before it.
fn outputs(pieces: usize) -> Vec<f32> {
    let mut rows = vec![0.0; VOCABULARY * EMBEDDING];
    let mut follows = |token: usize, dimension: usize| rows[token * EMBEDDING + dimension] = 1.0;
    (1..pieces).for_each(|k| follows(FIRST + k, k - 1));
    follows(FIRST, OTHERS);
    follows(END, pieces - 1);
    rows
}

/// A text as vocabularies of byte-level BPE write it.
fn byte_alphabet(text: &str) -> String {
    let is_itself = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let char_of = |byte: u8| match is_itself(byte) {
        true => char::from(byte),
        false => {
            let before = (0..byte).filter(|byte| !is_itself(*byte)).count() as u32;
            char::from_u32(0x100 + before).expect("a character")
        }
    };
    text.bytes().map(char_of).collect()
}
