//! Memory that encoding takes. A test program of its own, because it looks at the memory of the whole process.
#![cfg(target_os = "linux")]

use models::embedded;
use models::gguf::GgufFile;
use models::tokenizer::Tokenizer;

/// The most memory that this process has had so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}

#[test]
fn a_long_word_takes_a_few_times_its_length() {
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    let tokenizer = Tokenizer::from_gguf(&file).expect("the embedded vocabulary");
    for character in ["a", " ", "\n", "中"] {
        let text = character.repeat((2 << 20) / character.len());
        let before = peak();
        let ids = tokenizer.encode(&text, false, false).expect("encodes");
        let taken = peak() - before;
        assert!(taken < 12 * text.len(), "{character:?}: {taken} bytes for {}", text.len());
        assert!(tokenizer.decode(&ids, true) == text.as_bytes(), "{character:?}");
    }
}
