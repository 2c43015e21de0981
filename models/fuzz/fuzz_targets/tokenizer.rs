//! Makes tokenizers of vocabularies with arbitrary tokens, kinds, scores and merges, and encodes arbitrary
//! text with them. Nothing may panic or loop endlessly, ids must be in the vocabulary, and a byte-level
//! vocabulary without special tokens must decode its ids to the text. README.md has the command.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use models::gguf::GgufFile;
use models::gguf::write::{GgufWriter, MetaValue};
use models::tokenizer::Tokenizer;

const NORMAL: i32 = 1;
const BYTE: i32 = 6;
/// One pre-tokenizer of each kind, and an unknown name.
const PRE: [&str; 8] =
    ["default", "gpt-2", "llama-bpe", "qwen2", "deepseek-coder", "tekken", "chatglm-bpe", "martian"];

/// Bits that switch parts of the vocabulary on, tokens with kind and score, merges as pairs of token indices,
/// beginning- and end-of-text ids, the text to encode, and the boundaries of byte ranges in it that come from
/// messages.
type Input = (u16, Vec<(String, i8, f32)>, Vec<(u16, u16)>, [i16; 2], String, Vec<u8>);

fuzz_target!(|input: Input| {
    let (switches, pieces, merges, ends, text, borders) = input;
    let on = |bit: u16| switches >> bit & 1 == 1;
    let (byte_level, all_bytes) = (on(0), on(1));

    let mut tokens: Vec<(String, i32, f32)> = Vec::new();
    if all_bytes {
        tokens.extend((0..=255).map(|byte: u8| match byte_level {
            true => (in_byte_alphabet(byte).to_string(), NORMAL, 0.0),
            false => (format!("<0x{byte:02X}>"), BYTE, 0.0),
        }));
    }
    let no_special = on(2);
    let kind = |kind: i8| if no_special { NORMAL } else { i32::from(kind) };
    tokens.extend(pieces.into_iter().map(|(text, k, score)| (text, kind(k), score)));
    let mut lines: Vec<String> = Vec::new();
    for (left, right) in merges {
        let piece = |i: u16| tokens.get(usize::from(i) % tokens.len().max(1)).map(|token| token.0.clone());
        let (Some(left), Some(right)) = (piece(left), piece(right)) else { continue };
        lines.push(format!("{left} {right}"));
        if on(3) {
            tokens.push((left + &right, NORMAL, 1.0));
        }
    }
    if on(4) {
        let mut seen = HashSet::new();
        tokens.retain(|token| seen.insert(token.0.clone()));
    }

    let mut writer = GgufWriter::new();
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    writer.set(key("model"), if byte_level { "gpt2" } else { "llama" });
    writer.set(key("pre"), PRE[usize::from(switches >> 13)]);
    writer.set(key("tokens"), MetaValue::strings(tokens.iter().map(|token| token.0.as_str())));
    if !on(5) {
        writer.set(key("token_type"), MetaValue::i32s(tokens.iter().map(|token| token.1)));
    }
    writer.set(key("scores"), MetaValue::f32s(tokens.iter().map(|token| token.2)));
    writer.set(key("merges"), MetaValue::strings(&lines));
    if on(6) {
        let [begin, end] = ends.map(i32::from);
        writer.set(key("bos_token_id"), MetaValue::I32(begin)).set(key("eos_token_id"), MetaValue::I32(end));
    }
    for (bit, flag) in [(7, "add_bos_token"), (8, "add_eos_token"), (9, "add_space_prefix")] {
        if on(bit) {
            writer.set(key(flag), on(10));
        }
    }
    if on(11) {
        writer.set("general.name", "Phi-3"); // whose special tokens include the white space after them
    }

    let file = GgufFile::from_bytes(writer.to_bytes_zeroed().expect("metadata can be written"));
    let tokenizer = match Tokenizer::from_gguf(&file.expect("what was written can be read")) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return assert!(!error.to_string().is_empty() && !error.hint().is_empty()),
    };
    for (add_special, parse_special) in [(false, false), (false, true), (true, true)] {
        let Ok(ids) = tokenizer.encode(&text, add_special, parse_special) else { continue };
        check(&tokenizer, &ids);
        if byte_level && all_bytes && (no_special || on(5)) && !add_special {
            assert_eq!(tokenizer.decode(&ids, true), text.as_bytes());
        }
    }
    let mut borders: Vec<usize> = borders.into_iter().map(usize::from).collect();
    borders.sort_unstable();
    borders.dedup();
    let message_ranges: Vec<_> = borders.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
    if let Ok(ids) = tokenizer.encode_prompt(&text, &message_ranges, on(12)) {
        check(&tokenizer, &ids);
    }
    let _ = tokenizer.has_control_text(&text);
    for &id in tokenizer.eog_tokens() {
        assert!(tokenizer.is_eog(id) && (id as usize) < tokenizer.n_vocab());
    }
});

/// Ids are in the vocabulary and have a text.
fn check(tokenizer: &Tokenizer, ids: &[u32]) {
    for &id in ids {
        assert!(tokenizer.token_text(id).is_some() && tokenizer.token_bytes(id).is_some());
    }
    let _ = (tokenizer.decode(ids, false), tokenizer.decode(ids, true));
}

/// The character of a byte in the byte alphabet: the byte itself if it is printable, otherwise the next
/// character from U+0100 on.
fn in_byte_alphabet(byte: u8) -> char {
    let prints = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let shifted = (0..byte).filter(|&before| !prints(before)).count() as u32;
    if prints(byte) { char::from(byte) } else { char::from_u32(0x100 + shifted).expect("a letter") }
}
