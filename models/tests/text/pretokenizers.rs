//! The pre-tokenizers against llama.cpp: its ids of a few texts. The vocabulary has the bytes and each two neighbouring
//! bytes of these texts, which shows where they are split. `tests/peer/token_ids.py --golden` makes the file.

use brotli_decompressor::Decompressor;
use models::gguf::GgufFile;
use models::gguf::write::{GgufWriter, MetaValue};
use models::tokenizer::Tokenizer;

/// These need another vocabulary: see `tokenizer_metadata.rs`.
const OF_CHARACTERS: [&str; 3] = ["gemma4", "granite-embed-multi-311m", "sarvam-moe"];

/// The letter of a byte in the byte alphabet.
fn letter(byte: u8) -> char {
    let prints = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let shifted = (0..byte).filter(|&before| !prints(before)).count() as u32;
    if prints(byte) { char::from(byte) } else { char::from_u32(0x100 + shifted).expect("a letter") }
}

fn vocabulary(texts: &[String]) -> GgufWriter {
    let mut tokens: Vec<String> = (0..=255).map(|byte| letter(byte).to_string()).collect();
    let mut merges: Vec<String> = Vec::new();
    for pair in texts.iter().flat_map(|text| text.as_bytes().windows(2)) {
        let merge = format!("{} {}", letter(pair[0]), letter(pair[1]));
        if !merges.contains(&merge) {
            tokens.push(merge.replace(' ', ""));
            merges.push(merge);
        }
    }
    let mut writer = GgufWriter::new();
    writer.set("tokenizer.ggml.model", "gpt2");
    writer.set("tokenizer.ggml.tokens", MetaValue::strings(tokens));
    writer.set("tokenizer.ggml.merges", MetaValue::strings(merges));
    writer
}

#[test]
fn ids_with_each_pretokenizer_equal_those_of_llama_cpp() {
    let golden = Decompressor::new(&include_bytes!("../pretokenizers.json.br")[..], 4096);
    let golden: serde_json::Value = serde_json::from_reader(golden).expect("the golden file");
    let strings = |value: &serde_json::Value| -> Vec<String> {
        let list = value.as_array().expect("a list").iter();
        list.map(|text| text.as_str().expect("a text").to_owned()).collect()
    };
    let texts = strings(&golden["texts"]);
    let mut file = vocabulary(&texts);
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for group in golden["groups"].as_array().expect("a list") {
        let want = strings(&group["ids"]);
        for pre in strings(&group["names"]) {
            if OF_CHARACTERS.contains(&pre.as_str()) {
                continue;
            }
            file.set("tokenizer.ggml.pre", pre.as_str());
            let bytes = file.to_bytes_zeroed().expect("writes");
            let tokenizer = Tokenizer::from_gguf(&GgufFile::from_bytes(bytes).expect("reads"));
            let tokenizer = tokenizer.unwrap_or_else(|e| panic!("{pre}: {e}"));
            for (text, want) in texts.iter().zip(&want) {
                let ids = tokenizer.encode(text, false, false).expect("encodes");
                let got = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
                compared += 1;
                if got != *want {
                    wrong.push(format!("{pre}: {text:?}\n  want {want}\n  got  {got}"));
                }
            }
        }
    }
    assert!(compared > 1000, "only {compared} texts compared");
    assert!(wrong.is_empty(), "{} of {compared} wrong\n{}", wrong.len(), wrong.join("\n"));
}
