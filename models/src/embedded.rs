//! The model inside the binary: small, trained for this project (`needle/README.md`), and able to answer
//! questions about long documents.
//!
//! `demo`, `chat` and `ask` use it if no model file is given, and the tests use it so that they need no
//! download. It is an ordinary GGUF file, read and checked like any other.

/// The embedded model's name, shown in place of a file name.
pub const EMBEDDED_NAME: &str = "needle";

/// Bytes at an address that is a multiple of 64, so that tensor data, which GGUF aligns to 32 bytes, can be
/// used in place.
#[repr(C, align(64))]
struct Aligned<T: ?Sized> {
    bytes: T,
}

static NEEDLE: &Aligned<[u8]> = &Aligned { bytes: *include_bytes!("../needle/needle-q8_0.gguf") };

/// The GGUF file of the embedded model: 3.7 M parameters, Q8_0, 4.0 MB, at an address that is a multiple of
/// 64.
///
/// Llama architecture, 4 layers, 8 query heads and 4 KV heads, head_dim 64, 2048 tokens in the vocabulary.
/// Trained for contexts up to 16 K tokens.
pub fn needle() -> &'static [u8] {
    &NEEDLE.bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_file_is_gguf_and_aligned() {
        let file = needle();
        assert_eq!(&file[..4], b"GGUF");
        assert_eq!(file.len(), 3_971_584);
        assert_eq!(file.as_ptr() as usize % 64, 0);
    }
}
