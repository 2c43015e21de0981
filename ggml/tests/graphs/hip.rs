//! AMD's GPUs by HIP. `cargo test -p ggml --features hip --test graphs hip::` runs these where there is one. Never run so far.
//! What a GPU does that has failed is in `tests/tests/engine/hip.rs`.

use ggml::{Backend, Error, Type, hip};

use crate::gpu::{check_attention, check_interrupts, check_memory, check_products, check_squares};

fn gpu(memory: Option<usize>) -> Backend {
    Backend::hip(0, memory).expect("a GPU")
}

#[test]
fn gpus_are_described_and_compute() {
    let found = hip::devices().expect("a GPU");
    let device = &found[0];
    assert!(!device.name.is_empty() && device.free > 0 && device.free <= device.total, "{device:?}");
    check_squares(&gpu(None));
    let missing = Backend::hip(99, None).map(|_| ());
    assert!(matches!(missing, Err(Error::NoSuchGpu { index: 99, .. })), "{missing:?}");
}

#[test]
fn memory_is_limited_and_refused() {
    check_memory(gpu);
}

/// ggml says that it can cap the logits of any heads.
#[test]
fn attention_without_a_kernel_is_refused() {
    let backend = gpu(None);
    for (head_dim, softcap, is_supported) in
        [(64, None, true), (128, Some(30.0), true), (64, Some(30.0), false), (120, None, false)]
    {
        check_attention(&backend, [head_dim, head_dim], softcap, is_supported);
    }
}

#[test]
fn matrices_without_products_are_refused() {
    let backend = gpu(None);
    for ty in [Type::F32, Type::F16, Type::Q8_0, Type::IQ4_NL] {
        backend.check_products(ty).expect("has products");
    }
}

#[test]
fn an_interrupt_stops_some_operations_later() {
    check_interrupts(&gpu(None));
}

#[test]
fn products_equal_those_of_the_cpu() {
    check_products(&gpu(None), false);
}
