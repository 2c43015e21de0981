//! The model inside the binary: small, trained for this project (`needle/README.md`), really answering questions about long documents.
//!
//! `demo`, `chat` and `ask` use it where no model file is named, and the tests need no download because of it. It is an ordinary
//! GGUF file and goes through the same reader and the same checks as any other.

/// What the embedded model is called where a file name would stand.
pub const EMBEDDED_NAME: &str = "needle";

/// Bytes at an address that is a multiple of 64, so that tensor data at GGUF's own alignment can be computed on in place.
#[repr(C, align(64))]
struct Aligned<T: ?Sized> {
    bytes: T,
}

static NEEDLE: &Aligned<[u8]> = &Aligned { bytes: *include_bytes!("../needle/needle-q8_0.gguf") };

/// The whole GGUF file of the embedded model: 3.7 M parameters, Q8_0, 4.0 MB, at an address that is a multiple of 64.
///
/// Llama architecture, 4 layers, 8 query and 4 KV heads of 64, a vocabulary of 2048, trained for contexts up to 16 K tokens.
pub fn needle() -> &'static [u8] {
    &NEEDLE.bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_file_is_an_aligned_gguf() {
        let file = needle();
        assert_eq!(&file[..4], b"GGUF");
        assert_eq!(file.len(), 3_971_584);
        assert_eq!(file.as_ptr() as usize % 64, 0);
    }
}
