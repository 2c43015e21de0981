//! A model in memory: its weights are used where they are.

use std::sync::Arc;

use longhand::{Engine, EngineOptions, ModelSource};
use models::embedded::needle;
use models::gguf::Blob;

#[test]
fn weights_in_memory_are_not_copied() {
    let options = EngineOptions { threads: Some(1), repack: false, ..EngineOptions::default() };
    let open = |source| Engine::open(&source, &options).expect("the embedded model opens").weight_bytes();
    let embedded = open(ModelSource::Embedded);
    assert_eq!(embedded.copied, 0);
    let vector = Blob::from(needle().to_vec());
    assert_eq!(open(ModelSource::Bytes(vector.clone())), embedded);
    assert_eq!(open(ModelSource::Bytes(vector)), embedded, "a second engine over the same bytes");
    // The caller's own memory is left alone. It is used in place if it is aligned.
    let shared: Arc<[u8]> = needle().into();
    let aligned = (shared.as_ptr() as usize).is_multiple_of(32);
    assert_eq!(open(ModelSource::Bytes(shared.into())).copied == 0, aligned);
}
