//! Tokenizers of small vocabularies: the effect of each metadata key, metadata that are refused, and long or
//! unusual texts.

use std::collections::HashMap;

use models::embedded;
use models::gguf::GgufFile;
use models::gguf::write::{GgufWriter, MetaValue};
use models::tokenizer::{TokenKind, Tokenizer, TokenizerError};

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER: i32 = 4;
const BYTE: i32 = 6;

fn key(name: &str) -> String {
    format!("tokenizer.ggml.{name}")
}

fn load(writer: &GgufWriter) -> Result<Tokenizer, TokenizerError> {
    let bytes = writer.to_bytes_zeroed().expect("writes");
    Tokenizer::from_gguf(&GgufFile::from_bytes(bytes).expect("reads"))
}

fn good(writer: &GgufWriter) -> Tokenizer {
    load(writer).unwrap_or_else(|e| panic!("{e}"))
}

/// The byte alphabet in the order of GPT-2's vocabulary: printable bytes first, then the others.
fn byte_alphabet() -> Vec<String> {
    let printable = |b: u32| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let shifted = (0..256u32).filter(|&b| !printable(b)).count() as u32;
    let codes = (0..256).filter(|&b| printable(b)).chain(0x100..0x100 + shifted);
    codes.map(|c| char::from_u32(c).expect("a character").to_string()).collect()
}

/// Byte-level BPE: 256 bytes, `he` `ll` `hell` `hello` `Ġhello`, a control token, an end-of-turn token, a
/// user-defined token.
fn bpe() -> GgufWriter {
    let mut tokens = byte_alphabet();
    let mut kinds = vec![NORMAL; 256];
    for (text, kind) in [
        ("he", NORMAL),
        ("ll", NORMAL),
        ("hell", NORMAL),
        ("hello", NORMAL),
        ("Ġhello", NORMAL),
        ("<|begin|>", CONTROL),
        ("<|im_end|>", NORMAL),
        ("<user>", USER),
    ] {
        tokens.push(text.to_owned());
        kinds.push(kind);
    }
    let mut writer = GgufWriter::new();
    writer.set(key("model"), "gpt2").set(key("pre"), "gpt-2");
    writer.set(key("tokens"), MetaValue::strings(tokens)).set(key("token_type"), MetaValue::i32s(kinds));
    writer.set(key("merges"), MetaValue::strings(["h e", "l l", "he ll", "hell o", "Ġ hello"]));
    writer.set(key("bos_token_id"), 261u32).set(key("eos_token_id"), 261u32);
    writer
}

/// SentencePiece: unknown, begin, end, 256 bytes, then these pieces with their scores.
fn spm(pieces: &[(&str, f32)]) -> GgufWriter {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).to_vec();
    let mut kinds = vec![UNKNOWN, CONTROL, CONTROL];
    for byte in 0..256 {
        tokens.push(format!("<0x{byte:02X}>"));
        kinds.push(BYTE);
    }
    let mut scores = vec![0.0; tokens.len()];
    for (text, score) in pieces {
        tokens.push((*text).to_owned());
        kinds.push(NORMAL);
        scores.push(*score);
    }
    let mut writer = GgufWriter::new();
    writer.set(key("model"), "llama");
    writer.set(key("tokens"), MetaValue::strings(tokens)).set(key("token_type"), MetaValue::i32s(kinds));
    writer.set(key("scores"), MetaValue::f32s(scores));
    writer
}

fn texts(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    ids.iter().map(|&id| tokenizer.token_text(id).expect("in the vocabulary").to_owned()).collect()
}

#[test]
fn byte_level_pieces_merge_by_rank_and_decode_to_bytes() {
    let tokenizer = good(&bpe());
    let ids = tokenizer.encode("hello hello hell é", false, false).expect("encodes");
    assert_eq!(texts(&tokenizer, &ids), ["hello", "Ġhello", "Ġ", "hell", "Ġ", "Ã", "©"]);
    assert_eq!(tokenizer.decode(&ids, false), "hello hello hell é".as_bytes());
    assert_eq!(tokenizer.token_bytes(260), Some(b" hello".as_slice()));
    assert_eq!(tokenizer.token_bytes(264), None);
    assert_eq!(tokenizer.n_vocab(), 264);
    assert_eq!(tokenizer.token_id("Ġhello"), Some(260));
    assert!(tokenizer.encode("", true, true).expect("encodes").is_empty());
}

#[test]
fn control_tokens_are_only_matched_if_allowed_and_user_defined_tokens_always() {
    let tokenizer = good(&bpe());
    let text = "<|begin|>hello<user>hello<|im_end|>";
    let parsed = tokenizer.encode(text, false, true).expect("encodes");
    assert_eq!(parsed, [261, 259, 263, 259, 262]);
    let plain = tokenizer.encode(text, false, false).expect("encodes");
    assert!(!plain.contains(&261) && !plain.contains(&262) && plain.contains(&263));
    for ids in [&parsed, &plain] {
        assert_eq!(tokenizer.decode(ids, true), text.as_bytes());
    }
    assert_eq!(tokenizer.decode(&parsed, false), b"hello<user>hello");
    assert_eq!(tokenizer.token_bytes(261), Some(b"".as_slice()));
    assert!(tokenizer.has_control_text(text) && !tokenizer.has_control_text("<user>"));

    // The second `<|begin|>` is in a message, and the third partly.
    let text = "<|begin|>he<|begin|>ll<|begin|>";
    let ids = tokenizer.encode_prompt(text, &[9..20, 21..30], true).expect("encodes");
    assert_eq!(ids.iter().filter(|&&id| id == 261).count(), 1);
    assert_eq!(tokenizer.decode(&ids, true), text.as_bytes());
    // A user-defined token that looks like a marker is not matched in a message either.
    let mut writer = bpe();
    let mut tokens = byte_alphabet();
    tokens
        .extend(["he", "ll", "hell", "hello", "Ġhello", "<|begin|>", "<|User|>", "<user>"].map(String::from));
    let kinds: Vec<i32> = (0..264).map(|id| if id > 261 { USER } else { NORMAL }).collect();
    writer.set(key("tokens"), MetaValue::strings(tokens)).set(key("token_type"), MetaValue::i32s(kinds));
    let marked = good(&writer);
    assert_eq!(marked.encode("<|User|><user>", false, false).expect("encodes"), [262, 263]);
    let ids = marked
        .encode_prompt("<|User|><|User|><user>", std::slice::from_ref(&(8..22)), false)
        .expect("encodes");
    assert_eq!((ids[0], ids[1] == 262, ids.last()), (262, false, Some(&263)));
    assert!(marked.has_control_text("<|User|>"));

    // The boundaries of ranges do not split words.
    assert_eq!(tokenizer.encode_prompt("hello", &[0..2, 3..5], false).expect("encodes"), [259]);
}

#[test]
fn tokens_that_end_generation_are_found_by_key_and_by_text() {
    let tokenizer = good(&bpe());
    assert_eq!(tokenizer.eog_tokens(), [261, 262]);
    assert_eq!(tokenizer.kind(262), Some(TokenKind::Control), "whatever the file calls it");
    assert!(tokenizer.is_eog(262) && tokenizer.is_control(262) && !tokenizer.is_eog(0));
    assert_eq!((tokenizer.eos(), tokenizer.eot()), (Some(261), Some(262)));
    let tokenizer = good(bpe().set(key("eot_token_id"), 5u32).set(key("eom_token_id"), 6u32));
    assert_eq!(tokenizer.eog_tokens(), [5, 6, 261, 262]);
    assert_eq!(tokenizer.eot(), Some(5));
}

/// A vocabulary of the bytes and these control tokens, which begin at 256.
fn with_tokens(texts: &[&str]) -> GgufWriter {
    let mut tokens = byte_alphabet();
    tokens.extend(texts.iter().map(|text| (*text).to_owned()));
    let mut kinds = vec![NORMAL; 256];
    kinds.extend(texts.iter().map(|_| CONTROL));
    let mut writer = bpe();
    writer.set(key("merges"), MetaValue::strings([""; 0])).set(key("tokens"), MetaValue::strings(tokens));
    writer.set(key("token_type"), MetaValue::i32s(kinds));
    writer.unset(&key("bos_token_id")).unset(&key("eos_token_id"));
    writer
}

#[test]
fn tokens_that_end_a_part_of_an_answer_do_not_end_it() {
    let with = |texts: &[&str]| good(&with_tokens(texts));
    // gpt-oss: answers are several messages, and their markers are part of the text.
    let harmony = with(&["<|end|>", "<|return|>", "<|call|>", "<|channel|>", "<|message|>", "<|start|>"]);
    assert_eq!(harmony.eog_tokens(), [257, 258]);
    for id in [256, 259, 260, 261] {
        assert_eq!(harmony.kind(id), Some(TokenKind::UserDefined), "{id}");
        assert!(!harmony.token_bytes(id).expect("in the vocabulary").is_empty(), "{id}");
    }
    assert!(harmony.has_control_text("<|channel|>"), "messages must not write it");
    assert_eq!(with(&["<|end|>", "<|flush|>", "<|calls|>"]).eog_tokens(), [257, 258]);
    // Marks of thinking are part of the text, also as control tokens. Text does not become such a token.
    let marks = with(&["[THINK]", "<other>"]);
    assert_eq!(marks.decode(&[256, 257], false), b"[THINK]");
    assert!(!marks.encode("[THINK]", false, false).expect("encodes").contains(&256));
    // Phi-3, whose turns end so.
    assert_eq!(with(&["<|end|>", "<|return|>"]).eog_tokens(), [256, 257]);
    // Gemma 4, where </s> is text.
    let gemma4 = with(&["</s>", "<|tool_response>", "<turn|>"]);
    assert_eq!((gemma4.eog_tokens(), gemma4.kind(256)), ([257, 258].as_slice(), Some(TokenKind::Normal)));
    assert_eq!(with(&["</s>"]).eog_tokens(), [256]);
}

#[test]
fn answers_of_each_family_end() {
    // `ends` has the token behind an answer in the released template, and `eos`, which the file names.
    for (family, eos, texts, ends) in [
        ("OLMo 2", "<|endoftext|>", &["<|endoftext|>", "<|user|>"][..], &[256][..]),
        ("OLMo 3", "<|endoftext|>", &["<|endoftext|>", "<|im_start|>", "<|im_end|>"], &[256, 258]),
        (
            "Hunyuan dense",
            "<｜hy_place▁holder▁no▁2｜>",
            &["<｜hy_User｜>", "<｜hy_place▁holder▁no▁2｜>", "<｜hy_place▁holder▁no▁8｜>"],
            &[257],
        ),
        ("Hunyuan 7B", "<|eos|>", &["<|startoftext|>", "<|extra_0|>", "<|eos|>"], &[258]),
        ("ERNIE 4.5", "</s>", &["</s>", "<|begin_of_sentence|>", "<|end_of_sentence|>"], &[256, 258]),
        ("InternLM 2", "</s>", &["</s>", "<|im_start|>", "<|im_end|>"], &[256, 258]),
        ("StableLM 2", "<|endoftext|>", &["<|endoftext|>", "<|im_start|>", "<|im_end|>"], &[256, 258]),
        ("dots.llm1", "<|endoftext|>", &["<|response|>", "<|endofresponse|>", "<|endoftext|>"], &[257, 258]),
        ("EXAONE 4", "[|endofturn|]", &["[|assistant|]", "[|endofturn|]"], &[257]),
        (
            "Command R7B",
            "<|END_OF_TURN_TOKEN|>",
            &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>"],
            &[257, 258],
        ),
    ] {
        let eos = texts.iter().position(|text| *text == eos).expect("one of the texts");
        let mut writer = with_tokens(texts);
        writer.set(key("eos_token_id"), 256 + eos as u32);
        assert_eq!(good(&writer).eog_tokens(), ends, "{family}");
    }
}

#[test]
fn bpe_of_characters_writes_spaces_as_marks_and_unknown_characters_as_bytes() {
    let mut tokens: Vec<String> = (0..256).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut kinds = vec![BYTE; 256];
    for text in ["▁", "a", "b", "\n", "ab", "▁ab", "\n\n", "▁▁", "<bos>", "b\n"] {
        tokens.push(text.to_owned());
        kinds.push(if text == "<bos>" { CONTROL } else { NORMAL });
    }
    let mut writer = GgufWriter::new();
    writer.set(key("model"), "gemma4").set(key("pre"), "anything").set(key("bos_token_id"), 264u32);
    writer.set(key("tokens"), MetaValue::strings(tokens)).set(key("token_type"), MetaValue::i32s(kinds));
    writer.set(key("merges"), MetaValue::strings(["a b", "▁ ab", "▁ ▁", "b \n"]));
    let gemma = good(&writer);
    let pieces = |text: &str| texts(&gemma, &gemma.encode(text, false, false).expect("encodes"));
    assert_eq!(pieces("ab ab  b"), ["ab", "▁ab", "▁▁", "b"]);
    assert_eq!(pieces("aéb"), ["a", "<0xC3>", "<0xA9>", "b"]);
    assert_eq!(pieces("ab\n\nb\na\n\n\n"), ["ab", "\n\n", "b", "\n", "a", "\n", "\n", "\n"]);
    for text in ["ab  é ab\n\n\nb日本", " ", "", "\n"] {
        let ids = gemma.encode(text, false, false).expect("encodes");
        assert_eq!(gemma.decode(&ids, false), text.as_bytes(), "{text:?}");
    }
    // Its beginning-of-text token is always added, as in llama.cpp.
    writer.set(key("add_bos_token"), false);
    assert_eq!(good(&writer).encode("a", true, false).expect("encodes"), [264, 257]);
    writer.set(key("model"), "gpt2").set(key("pre"), "sarvam-moe");
    assert_eq!(good(&writer).encode("\n\n", true, false).expect("encodes"), [259, 259]);
    writer.unset(&key("add_bos_token"));
    assert_eq!(good(&writer).encode(" ab", true, false).expect("encodes"), [261]);
}

#[test]
fn bos_and_eos_are_added_by_key_or_by_default() {
    let ids = |writer: &GgufWriter| good(writer).encode("hello", true, false).expect("encodes");
    assert_eq!(ids(&bpe()), [259]);
    assert_eq!(ids(bpe().set(key("add_bos_token"), true)), [261, 259]);
    assert_eq!(ids(bpe().set(key("add_bos_token"), true).set(key("add_eos_token"), true)), [261, 259, 261]);
    assert_eq!(ids(bpe().set(key("pre"), "llama-bpe")), [261, 259]);
    assert_eq!(ids(bpe().set(key("pre"), "llama-bpe").set(key("add_bos_token"), false)), [259]);
    // -1 means that there is no such token.
    assert_eq!(ids(bpe().set(key("bos_token_id"), u32::MAX).set(key("add_bos_token"), true)), [259]);

    let tokenizer = good(&spm(&[("▁a", -1.0)]));
    assert_eq!(tokenizer.encode("a", true, false).expect("encodes"), [1, 259]);
    assert_eq!(tokenizer.encode("", true, false).expect("encodes"), [1]);
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.unknown()), (Some(1), Some(2), Some(0)));

    // A prompt that contains its own beginning-of-text token gets no second one, and a continuation gets
    // none.
    let begun = tokenizer.encode_prompt("<s>a", &[], true).expect("encodes");
    assert_eq!(begun, [1, 259]);
    assert_eq!(tokenizer.encode_prompt("a", &[], true).expect("encodes"), begun);
    assert_eq!(tokenizer.encode_prompt("<s>a", std::slice::from_ref(&(0..3)), true).expect("encodes")[0], 1);
    assert_eq!(tokenizer.encode_prompt("a", &[], false).expect("encodes"), [3 + u32::from(b'a')]);
}

/// llama.cpp loads such files of Kimi K2, and finds a token for each byte.
#[test]
fn only_kimi_k2_may_lack_merges() {
    let mut writer = bpe();
    writer.unset(&key("merges")).set(key("pre"), "kimi-k2");
    let letter = |letter: char| byte_alphabet().iter().position(|byte| *byte == letter.to_string());
    let letters: Vec<u32> = "hello".chars().map(|c| letter(c).expect("a byte") as u32).collect();
    assert_eq!(good(&writer).encode("hello", false, false).expect("encodes"), letters);
    writer.set(key("pre"), "llama-bpe");
    assert_eq!(load(&writer).expect_err("bad").to_string(), "the file has no tokenizer.ggml.merges");
}

#[test]
fn with_ignore_merges_whole_words_become_tokens() {
    // `he` has no merge here, so only a pre-tokenizer with ignore_merges finds it.
    let mut writer = bpe();
    writer.set(key("merges"), MetaValue::strings(["l l"]));
    assert_eq!(good(&writer).encode("he", false, false).expect("encodes").len(), 2);
    writer.set(key("pre"), "llama-bpe").set(key("add_bos_token"), false);
    assert_eq!(good(&writer).encode("he", false, false).expect("encodes"), [256]);
}

#[test]
fn spm_merges_by_score_then_from_the_left() {
    let tokenizer = good(&spm(&[
        ("a", -9.0),
        ("b", -9.0),
        ("ab", -3.0),
        ("ba", -2.0),
        ("aa", -3.0),
        ("▁", -5.0),
        ("▁ab", -4.0),
    ]));
    let pieces = |text: &str| texts(&tokenizer, &tokenizer.encode(text, false, false).expect("encodes"));
    assert_eq!(pieces("ab"), ["▁ab"]);
    assert_eq!(pieces("aba"), ["▁", "a", "ba"], "ba has the better score");
    assert_eq!(pieces("aab"), ["▁", "aa", "b"], "of equals the leftmost");
    assert_eq!(pieces("aé"), ["▁", "a", "<0xC3>", "<0xA9>"]);
    assert_eq!(pieces("a  b"), ["▁", "a", "▁", "▁", "b"]);
    for text in ["ab", " ab", "  x y ", "é\n\t日本", ""] {
        let ids = tokenizer.encode(text, true, false).expect("encodes");
        assert_eq!(tokenizer.decode(&ids, false), text.as_bytes(), "{text:?}");
    }
    assert_eq!(tokenizer.token_bytes(3 + 0xC3), Some([0xC3].as_slice()));
    assert_eq!(tokenizer.token_bytes(265), Some(b" ab".as_slice()));
    assert_eq!(tokenizer.decode(&[1, 265, 265], true), b"<s>ab ab");
}

#[test]
fn spaces_are_added_as_the_file_says_and_after_special_tokens() {
    let pieces = [("▁", -5.0), ("a", -9.0), ("▁a", -1.0)];
    let with = good(&spm(&pieces));
    assert_eq!(texts(&with, &with.encode("a</s>a", false, true).expect("encodes")), ["▁a", "</s>", "▁a"]);
    let without = good(spm(&pieces).set(key("add_space_prefix"), false));
    assert_eq!(texts(&without, &without.encode("a</s>a", false, true).expect("encodes")), ["a", "</s>", "a"]);
    assert_eq!(without.decode(&[261], false), b" a");
    // Phi-3's special tokens include the white space after them.
    let phi = good(spm(&pieces).set("general.name", "Phi-3 mini"));
    assert_eq!(
        texts(&phi, &phi.encode("</s>\n a<s>a", false, true).expect("encodes")),
        ["</s>", "▁a", "<s>", "▁a"]
    );
    assert_eq!(texts(&phi, &phi.encode("<s> a", false, true).expect("encodes")), ["<s>", "▁", "▁a"]);
}

/// The definition: merges the neighbours with the best score, of equal scores the leftmost, until no merge is
/// left.
fn merged(pieces: &HashMap<String, f32>, text: &str) -> Vec<String> {
    let mut symbols: Vec<String> = text.chars().map(String::from).collect();
    loop {
        let mut best: Option<(usize, f32)> = None;
        for i in 1..symbols.len() {
            if let Some(&score) = pieces.get(&(symbols[i - 1].clone() + &symbols[i]))
                && best.is_none_or(|(_, s)| score > s)
            {
                best = Some((i, score));
            }
        }
        let Some((i, _)) = best else { return symbols };
        let right = symbols.remove(i);
        symbols[i - 1].push_str(&right);
    }
}

#[test]
fn spm_equals_its_definition_on_random_vocabularies() {
    let mut state = 11u64;
    let mut next = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for round in 0..20 {
        let mut pieces: HashMap<String, f32> = ["a", "b", "é", "▁"].map(|c| (c.to_owned(), -20.0)).into();
        for _ in 0..30 {
            // In half of the rounds, spaces are only at the start of tokens, so that words are encoded one by
            // one.
            let mut piece = String::new();
            for i in 0..2 + next(4) {
                let letters: &[&str] =
                    if i > 0 && round % 2 == 0 { &["a", "b", "é"] } else { &["a", "b", "▁"] };
                piece += letters[next(3) as usize];
            }
            pieces.insert(piece, -(next(4) as f32));
        }
        let mut list: Vec<(&str, f32)> = pieces.iter().map(|(p, s)| (p.as_str(), *s)).collect();
        list.sort_by(|a, b| a.0.cmp(b.0));
        let tokenizer = good(spm(&list).set(key("add_space_prefix"), false));
        for _ in 0..50 {
            let text: String = (0..next(24)).map(|_| ["a", "b", " ", "é", "a"][next(5) as usize]).collect();
            let got = texts(&tokenizer, &tokenizer.encode(&text, false, false).expect("encodes"));
            assert_eq!(got, merged(&pieces, &text.replace(' ', "▁")), "{text:?} with {list:?}");
        }
    }
}

#[test]
fn text_without_a_token_becomes_the_unknown_token_or_an_error() {
    let tokens = ["<unk>", "<s>", "</s>", "▁", "a"];
    let mut writer = GgufWriter::new();
    writer.set(key("model"), "llama").set(key("tokens"), MetaValue::strings(tokens));
    writer.set(key("scores"), MetaValue::f32s([0.0; 5]));
    writer.set(key("token_type"), MetaValue::i32s([UNKNOWN, CONTROL, CONTROL, NORMAL, NORMAL]));
    assert_eq!(good(&writer).encode("aé", false, false), Ok(vec![3, 4, 0, 0]));

    let mut tokens = byte_alphabet();
    tokens[usize::from(b'z' - b'!')] = "not z".into();
    let mut writer = bpe();
    writer.set(key("merges"), MetaValue::strings([""; 0])).set(key("tokens"), MetaValue::strings(tokens));
    writer.unset(&key("token_type")).unset(&key("bos_token_id")).unset(&key("eos_token_id"));
    let tokenizer = good(&writer);
    assert_eq!(tokenizer.encode("az", false, false), Err(TokenizerError::Unencodable { byte: b'z' }));
    assert_eq!(tokenizer.encode("a", false, false).expect("encodes").len(), 1);
    assert_eq!((tokenizer.bos(), tokenizer.eog_tokens()), (None, [].as_slice()));
}

#[test]
fn invalid_metadata_are_errors_that_name_the_key() {
    let error = |change: &dyn Fn(&mut GgufWriter) -> &mut GgufWriter| {
        let mut writer = bpe();
        change(&mut writer);
        let error = load(&writer).expect_err("bad");
        assert!(!error.hint().is_empty());
        error.to_string()
    };
    let mut many = byte_alphabet();
    many[7] = many[5].clone();
    let cases: Vec<(String, &str)> = vec![
        (error(&|w| w.unset(&key("model"))), "the file has no tokenizer.ggml.model"),
        (error(&|w| w.set(key("model"), "bert")), "tokenizer.ggml.model is \"bert\""),
        (error(&|w| w.set(key("model"), 3u32)), "tokenizer.ggml.model is u32, not a string"),
        (
            error(&|w| w.set(key("pre"), "martian")),
            "tokenizer.ggml.pre is \"martian\"; supported are default, llama3",
        ),
        (error(&|w| w.unset(&key("tokens"))), "the file has no tokenizer.ggml.tokens"),
        (
            error(&|w| w.set(key("tokens"), MetaValue::strings([""; 0]))),
            "the file has no tokenizer.ggml.tokens",
        ),
        (error(&|w| w.set(key("tokens"), MetaValue::i32s([1]))), "tokenizer.ggml.tokens is array of i32"),
        (
            error(&|w| w.set(key("tokens"), MetaValue::strings([b"a".as_slice(), b"\xff"]))),
            "token 1: its text is not UTF-8",
        ),
        (
            error(&|w| w.set(key("token_type"), MetaValue::i32s([1, 2]))),
            "tokenizer.ggml.token_type has 2 entries for 264",
        ),
        (error(&|w| w.set(key("token_type"), "x")), "tokenizer.ggml.token_type is str"),
        (error(&|w| w.unset(&key("merges"))), "the file has no tokenizer.ggml.merges"),
        (
            error(&|w| w.set(key("model"), "bert")),
            "tokenizer.ggml.model is \"bert\"; supported are \"llama\" (SentencePiece with scores), \"gpt2\" (BPE) and \"gemma4\"",
        ),
        (
            error(&|w| w.set(key("merges"), MetaValue::strings(["h e", "he"]))),
            "merge 1: \"he\" is not two pieces",
        ),
        (error(&|w| w.set(key("merges"), MetaValue::strings([""]))), "merge 0: \"\" is not two pieces"),
        (
            error(&|w| w.set(key("merges"), MetaValue::strings(["h e", "h Q!"]))),
            "merge 1: \"Q!\" is not in the vocabulary",
        ),
        (
            error(&|w| w.set(key("merges"), MetaValue::strings(["x y"]))),
            "merge 0: \"xy\" is not in the vocabulary",
        ),
        (error(&|w| w.set(key("merges"), MetaValue::strings([b"a \xff"]))), "merge 0: its text is not UTF-8"),
        (
            error(&|w| w.set(key("bos_token_id"), 264u32)),
            "tokenizer.ggml.bos_token_id is 264, but there are only 264 tokens",
        ),
        (error(&|w| w.set(key("eos_token_id"), MetaValue::I32(-7))), "tokenizer.ggml.eos_token_id is -7"),
        (error(&|w| w.set(key("eos_token_id"), "x")), "tokenizer.ggml.eos_token_id is str, not an integer"),
        (error(&|w| w.set(key("add_bos_token"), 1u32)), "tokenizer.ggml.add_bos_token is u32, not a bool"),
        (
            error(&|w| {
                w.unset(&key("token_type")).set(key("merges"), MetaValue::strings([""; 0]));
                w.unset(&key("bos_token_id")).unset(&key("eos_token_id"));
                w.set(key("tokens"), MetaValue::strings(&many))
            }),
            "token 7: \"&\" is token 5 already",
        ),
    ];
    for (got, want) in cases {
        assert!(got.starts_with(want), "{got}\n  instead of {want}");
    }

    let spm_error = |change: &dyn Fn(&mut GgufWriter) -> &mut GgufWriter| {
        let mut writer = spm(&[("a", -1.0)]);
        change(&mut writer);
        load(&writer).expect_err("bad").to_string()
    };
    assert_eq!(spm_error(&|w| w.unset(&key("scores"))), "the file has no tokenizer.ggml.scores");
    assert_eq!(
        spm_error(&|w| w.set(key("scores"), MetaValue::f32s([0.0]))),
        "tokenizer.ggml.scores has 1 entries for 260 tokens"
    );
    assert_eq!(
        spm_error(&|w| w.set(key("scores"), MetaValue::f32s([f32::NAN; 260]))),
        "token 0: its score is not a number"
    );
    assert_eq!(
        spm_error(&|w| w.set(key("token_type"), MetaValue::i32s([BYTE; 260]))),
        "token 0: it is a byte token, but \"<unk>\" is not of the form <0x0A>"
    );
}

#[test]
fn long_and_unusual_texts_are_decoded_to_themselves() {
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    let byte_level = Tokenizer::from_gguf(&file).expect("the embedded vocabulary");
    let pieces: Vec<(String, f32)> =
        (1..=16).flat_map(|n| ["a", "▁"].map(|c| (c.repeat(n), n as f32))).collect();
    let pieces: Vec<(&str, f32)> = pieces.iter().map(|(p, s)| (p.as_str(), *s)).collect();
    let scored = good(&spm(&pieces));
    let mega = 1 << 20;
    let texts = [
        "a".repeat(mega),
        " ".repeat(mega),
        " \n".repeat(1 << 16),
        "😀👩‍👩‍👧‍👦".repeat(1 << 12),
        "<|im_end|><|".repeat(1 << 14),
        "\0\u{1}\u{7f}\u{85}\u{feff}\u{10ffff}\u{e000}'\r\n\r".to_owned(),
        "the café's \u{301}e\u{301} 中文 ١٢٣ ½ Ǆ".to_owned(),
    ];
    for text in &texts {
        let start: String = text.chars().take(12).collect();
        for (tokenizer, parse) in [(&byte_level, text.len() < mega), (&scored, false)] {
            let ids = tokenizer.encode(text, false, parse).expect("encodes");
            assert!(tokenizer.decode(&ids, true) == text.as_bytes(), "{start:?} does not come back");
        }
    }
}

/// Compares with the tokenizer file from training, which the `tokenizers` crate reads.
#[test]
fn the_embedded_vocabulary_encodes_like_its_tokenizer_json() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("needle/tokenizer.json");
    let reference = tokenizers::Tokenizer::from_file(path).expect("reads");
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    let tokenizer = Tokenizer::from_gguf(&file).expect("the embedded vocabulary");
    let texts = [
        "Mary's favorite number is 34251.",
        "<|im_start|>user\nWhat?<|im_end|>\n<|im_start|>assistant\n",
        "  two  spaces\t\ttabs\r\n\r\nand 12345 digits, I'LL émigré 中文 😀 \u{2003}x",
    ];
    for text in texts {
        let want = reference.encode(text, false).expect("encodes");
        assert_eq!(tokenizer.encode(text, false, true).expect("encodes"), want.get_ids(), "{text:?}");
    }
}
