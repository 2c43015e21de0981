//! Layers on a GPU of AMD, by HIP: it computes what the host does, and saved sessions move there and back. `cargo test -p tests
//! --features hip --test engine hip::` runs these where there is one. Never run so far.

use std::sync::Arc;

use longhand::{DeviceKind, Engine};

use crate::gpu::{check_loss, check_moves, check_same, embedded_on};

fn embedded(layers: usize) -> Arc<Engine> {
    embedded_on(DeviceKind::Hip(0), layers)
}

#[test]
fn the_gpu_computes_what_the_host_does() {
    check_same([&embedded(0), &embedded(4)], 0.1);
}

#[test]
fn a_session_moves_to_the_gpu_and_back() {
    check_moves([&embedded(0), &embedded(3)]);
}

#[test]
#[ignore = "the GPU stays lost for other tests: `-- --ignored`"]
fn a_failed_gpu_is_an_error_that_names_it() {
    check_loss(&embedded(2), "ROCm0");
}
