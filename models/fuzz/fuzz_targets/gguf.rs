//! Runs the GGUF reader, and everything that reads metadata and tensors, on arbitrary bytes. Nothing may
//! panic, loop endlessly or allocate much more than the size of the input (`-malloc_limit_mb`). README.md has
//! the command.
#![no_main]

use libfuzzer_sys::fuzz_target;
use models::LoadError;
use models::gguf::write::{GgufWriter, MetaValue};
use models::gguf::{Array, GgufFile, Value};
use models::spec::{ModelSpec, ModelTensors};

fuzz_target!(|bytes: &[u8]| {
    match GgufFile::from_bytes(bytes.to_vec()) {
        Ok(file) => read_all(&file),
        Err(e) => check(&e),
    }
});

/// An error says what is wrong and what to do.
fn check(error: &LoadError) {
    assert!(!error.to_string().is_empty() && !error.hint().is_empty());
}

fn read_all(file: &GgufFile) {
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
    let _ = file.fingerprint();

    // A copy of the metadata can be written, and is read back unchanged.
    let again = GgufFile::from_bytes(copy.to_bytes_zeroed().expect("metadata of a file can be written"))
        .expect("a copy can be read");
    assert!(file.metadata().eq(again.metadata()));

    match ModelSpec::from_gguf(file) {
        Ok(spec) => {
            assert!(spec.parameters() > 0 && spec.n_heads % spec.n_kv_heads == 0 && spec.head_dim > 0);
            let _ = spec.position_encoding.rope().map(|rope| rope.scaling.params(spec.n_ctx_train));
            if let Err(e) = ModelTensors::from_gguf(file, &spec) {
                check(&e);
            }
        }
        Err(e) => check(&e),
    }
}

fn array_elements(array: &Array) {
    match array {
        Array::Numbers(a) => {
            assert_eq!(a.iter_ints().len(), a.len());
            let _ = (a.iter_ints().flatten().count(), a.iter_floats().flatten().count());
        }
        Array::Strings(a) => {
            let _ = (0..a.len()).filter_map(|i| a.text(i)).map(str::len).sum::<usize>();
            assert_eq!(a.iter().count(), a.len());
        }
        Array::Arrays(a) => (0..a.len()).for_each(|i| array_elements(&a.get(i).expect("checked on opening"))),
    }
}
