//! Reads arbitrary GGUF files, vocabularies and chat templates. Whatever they are, they are read or refused with an
//! error and a hint. The fuzz targets and `tests/tests/engine/mutations.rs` use these functions.

use std::collections::HashSet;
use std::sync::LazyLock;

use models::chat::{ChatTemplate, Message, ToolFormat};
use models::embedded;
use models::gguf::write::{GgufWriter, MetaValue};
use models::gguf::{Array, GgufFile, Value};
use models::spec::{ModelSpec, ModelTensors};
use models::tokenizer::Tokenizer;

/// A GGUF file: its metadata and tensors, the model and the vocabulary that it describes.
pub fn gguf(bytes: &[u8]) {
    let file = match GgufFile::from_bytes(bytes.to_vec()) {
        Ok(file) => file,
        Err(error) => return check_error(&error.to_string(), error.hint()),
    };
    let mut copy = GgufWriter::new();
    for (key, value) in file.metadata() {
        assert_eq!(file.get(key), Some(value));
        let _ =
            (file.u32(key), file.u64(key), file.f32(key), file.bool(key), file.str(key), value.to_string());
        let _ = (file.strings(key), file.ints(key), file.floats(key));
        if let Value::Array(array) = value {
            array_elements(array);
        }
        copy.set(key, MetaValue::from(value));
    }
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor).len() as u64, tensor.bytes);
        assert_eq!(file.tensor(&tensor.name), Some(tensor));
    }
    let _ = file.fingerprint(1, &mut |_| true);

    // A copy of the metadata can be written, and is read back unchanged.
    let again = GgufFile::from_bytes(copy.to_bytes_zeroed().expect("metadata of a file can be written"))
        .expect("a copy can be read");
    assert!(file.metadata().eq(again.metadata()));

    let spec = ModelSpec::from_gguf(&file).and_then(|spec| {
        assert!(spec.parameters() > 0 && spec.n_heads % spec.n_kv_heads == 0 && spec.head_dim > 0);
        let _ = spec.position_encoding.rope().map(|rope| rope.scaling.params(spec.n_ctx_train));
        ModelTensors::from_gguf(&file, &spec)
    });
    if let Err(error) = spec {
        check_error(&error.to_string(), error.hint());
    }
    match Tokenizer::from_gguf(&file) {
        Ok(tokenizer) => {
            let ids = tokenizer.encode("aa a\n\n <|im_end|> é", true, true);
            let _ = ids.map(|ids| check_ids(&tokenizer, &ids));
        }
        Err(error) => check_error(&error.to_string(), error.hint()),
    }
}

fn array_elements(array: &Array) {
    match array {
        Array::Numbers(a) => {
            let _ = (0..a.len()).filter_map(|i| a.int(i)).count()
                + (0..a.len()).filter_map(|i| a.float(i)).count();
        }
        Array::Strings(a) => {
            let _ = (0..a.len()).filter_map(|i| a.text(i)).map(str::len).sum::<usize>();
            assert_eq!(a.iter().count(), a.len());
        }
    }
}

const NORMAL: i32 = 1;
const BYTE: i32 = 6;
/// Pre-tokenizers of different kinds, and an unknown name.
const PRE: [&str; 8] =
    ["default", "superbpe", "llama-bpe", "jais-2", "deepseek-llm", "sarvam-moe", "afmoe", "martian"];

/// A vocabulary, and a text that is encoded with it. The input is two bytes that switch parts of the vocabulary on,
/// beginning- and end-of-text ids, and then lines: the text, which bytes of it come from messages, merges as pairs
/// of token indices, and the tokens, each with a kind and a score. A byte-level vocabulary without special tokens
/// must decode its ids to the text.
pub fn tokenizer(input: &[u8]) {
    let [low, high, begin, end, rest @ ..] = input else { return };
    let switches = u16::from_le_bytes([*low, *high]);
    let on = |bit: u16| switches >> bit & 1 == 1;
    let (bpe, all_bytes) = (on(0), on(1));
    let pre = PRE[usize::from(switches >> 13)];
    let byte_level = bpe && pre != "sarvam-moe";
    let mut lines = rest.split(|&byte| byte == 0);
    let text = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let borders = lines.next().unwrap_or_default();
    let pairs = lines.next().unwrap_or_default().chunks_exact(2);

    let mut tokens: Vec<(String, i32, f32)> = Vec::new();
    if all_bytes {
        tokens.extend((0..=255).map(|byte: u8| match byte_level {
            true => (in_byte_alphabet(byte).to_string(), NORMAL, 0.0),
            false => (format!("<0x{byte:02X}>"), BYTE, 0.0),
        }));
    }
    let no_special = on(2);
    tokens.extend(lines.map(|line| {
        let (&[kind, score], text) = line.split_first_chunk().unwrap_or((b"10", line));
        // Digits are kinds, and b'0' is a score of 0.
        let kind = if no_special { NORMAL } else { i32::from(kind) - i32::from(b'0') };
        let score = match score {
            b'n' => f32::NAN,
            b'i' => f32::INFINITY,
            score => f32::from(score) - f32::from(b'0'),
        };
        (String::from_utf8_lossy(text).into_owned(), kind, score)
    }));
    let mut merges: Vec<String> = Vec::new();
    for pair in pairs {
        let piece = |i: u8| tokens.get(usize::from(i) % tokens.len().max(1)).map(|token| token.0.clone());
        let (Some(left), Some(right)) = (piece(pair[0]), piece(pair[1])) else { continue };
        merges.push(format!("{left} {right}"));
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
    writer.set(key("model"), if bpe { "gpt2" } else { "llama" });
    writer.set(key("pre"), pre);
    writer.set(key("tokens"), MetaValue::strings(tokens.iter().map(|token| token.0.as_str())));
    if !on(5) {
        writer.set(key("token_type"), MetaValue::i32s(tokens.iter().map(|token| token.1)));
    }
    writer.set(key("scores"), MetaValue::f32s(tokens.iter().map(|token| token.2)));
    writer.set(key("merges"), MetaValue::strings(&merges));
    if on(6) {
        let [begin, end] = [*begin, *end].map(|id| MetaValue::I32(i32::from(id as i8)));
        writer.set(key("bos_token_id"), begin).set(key("eos_token_id"), end);
    }
    for (bit, flag) in [(7, "add_bos_token"), (8, "add_eos_token"), (9, "add_space_prefix")] {
        if on(bit) {
            writer.set(key(flag), on(10));
        }
    }
    // Whose special tokens include the white space after them.
    let strips = on(11);
    if strips {
        writer.set("general.name", "Phi-3");
    }

    let file = GgufFile::from_bytes(writer.to_bytes_zeroed().expect("metadata can be written"));
    let file = file.expect("what was written can be read");
    let tokenizer = match Tokenizer::from_gguf(&file) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return check_error(&error.to_string(), error.hint()),
    };
    for (add_special, parse_special) in [(false, false), (false, true), (true, true)] {
        let Ok(ids) = tokenizer.encode(&text, add_special, parse_special) else { continue };
        check_ids(&tokenizer, &ids);
        // Well-known texts are control tokens, whatever their kinds.
        if byte_level && all_bytes && (no_special || on(5)) && !strips && !add_special {
            assert_eq!(tokenizer.decode(&ids, true), text.as_bytes());
        }
    }
    let mut borders: Vec<usize> = borders.iter().map(|&border| usize::from(border)).collect();
    borders.sort_unstable();
    borders.dedup();
    let message_ranges: Vec<_> = borders.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
    if let Ok(ids) = tokenizer.encode_prompt(&text, &message_ranges, on(12)) {
        check_ids(&tokenizer, &ids);
    }
    let _ = tokenizer.has_control_text(&text);
    for &id in tokenizer.eog_tokens() {
        assert!(tokenizer.is_eog(id) && (id as usize) < tokenizer.n_vocab());
    }
}

/// Ids are in the vocabulary and have a text.
fn check_ids(tokenizer: &Tokenizer, ids: &[u32]) {
    for &id in ids {
        assert!((id as usize) < tokenizer.n_vocab());
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

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    Tokenizer::from_gguf(&file).expect("its vocabulary")
});

/// A chat template and a conversation: the input is the template and the messages, separated by zero bytes. The
/// template runs in a child process. Whatever it does, this process must go on.
pub fn chat_template(input: &[u8]) {
    let mut parts = input.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let source = parts.next().unwrap_or_default();
    let role = |i: usize| ["user", "assistant"][i % 2];
    let messages: Vec<Message> =
        parts.enumerate().map(|(i, content)| Message::new(role(i), content)).collect();
    let used = ChatTemplate::new(Some(&source), &TOKENIZER).and_then(|template| {
        let _ = (template.next_turn(&messages), ToolFormat::of(&template));
        template.prompt(&messages, true)?.encode(&TOKENIZER)
    });
    if let Err(error) = used {
        // It may quote the template, whatever that is.
        assert!(!error.to_string().is_empty() && !error.hint().is_empty());
    }
}

/// An error is short, does not control a terminal, and has a hint.
fn check_error(text: &str, hint: &str) {
    assert!(!hint.is_empty(), "no hint: {text}");
    assert!((1..5000).contains(&text.len()), "{text:?}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
}
