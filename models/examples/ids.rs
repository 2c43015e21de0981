//! Token ids of texts, to be compared with another program's (`tests/peer/token_ids.py`). Reads texts from
//! standard input, separated by zero bytes. Prints whether a beginning-of-text token is added, then the tokens
//! that end generation, and then one line of ids for each text, or `refused`. A pre-tokenizer replaces the
//! file's.
//!
//!     cargo run --release -p models --example ids -- VOCABULARY.gguf [PRE_TOKENIZER] < texts

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::path::Path;

use models::gguf::GgufFile;
use models::gguf::write::GgufWriter;
use models::tokenizer::Tokenizer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("give the path of a GGUF file")?;
    let mut file = GgufFile::open(Path::new(&path))?;
    if let Some(pre) = arguments.next() {
        file = with_pretokenizer(&file, &pre)?;
    }
    let tokenizer = Tokenizer::from_gguf(&file)?;
    let mut texts = String::new();
    std::io::stdin().read_to_string(&mut texts)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    writeln!(out, "{}", u8::from(!tokenizer.encode("", true, false)?.is_empty()))?;
    writeln!(out, "{}", line(tokenizer.eog_tokens()))?;
    for text in texts.split('\0') {
        let ids = tokenizer.encode(text, false, false);
        writeln!(out, "{}", ids.map_or_else(|_| "refused".to_owned(), |ids| line(&ids)))?;
    }
    Ok(())
}

fn line(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn with_pretokenizer(file: &GgufFile, pre: &str) -> Result<GgufFile, Box<dyn Error>> {
    let mut copy = GgufWriter::with_metadata_of(file);
    copy.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", pre);
    Ok(GgufFile::from_bytes(copy.to_bytes_zeroed()?)?)
}
