//! The GPU of a Mac, by Metal. `cargo test -p ggml --features metal --test graphs metal::` runs these there. Never run so far.

use ggml::{Backend, Error, metal};

use crate::gpu::{check_attention, check_interrupts, check_memory, check_products, check_squares, squares};

fn gpu(memory: Option<usize>) -> Backend {
    Backend::metal(0, memory).expect("a GPU")
}

#[test]
fn the_gpu_is_described_and_computes() {
    let found = metal::devices().expect("a GPU");
    let [device] = &found[..] else { panic!("{found:?}") };
    assert!(!device.name.is_empty() && device.free > 0 && device.free <= device.total, "{device:?}");
    check_squares(&gpu(None));
    let missing = Backend::metal(1, None).map(|_| ());
    assert!(matches!(missing, Err(Error::NoSuchGpu { index: 1, gpus: 1 })), "{missing:?}");
}

#[test]
fn memory_is_limited_and_refused() {
    check_memory(gpu);
}

/// ggml says that it can, and would give up when it finds no kernel.
#[test]
fn attention_without_a_kernel_is_refused() {
    let backend = gpu(None);
    for (dims, is_supported) in
        [([64, 64], true), ([128, 128], true), ([120, 120], false), ([128, 64], false)]
    {
        check_attention(&backend, dims, None, is_supported);
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

#[test]
fn a_failed_backend_computes_nothing_and_a_new_one_does() {
    let backend = gpu(None);
    let (_, graph) = squares(&backend, &[2.0]).expect("memory");
    backend.compute(&graph).expect("computed");
    backend.lose();
    for _ in 0..2 {
        let error = backend.compute(&graph).expect_err("failed");
        assert!(matches!(&error, Error::Device(text) if text.contains("MTL0")), "{error}");
    }
    let backend = gpu(None);
    let (result, graph) = squares(&backend, &[3.0]).expect("memory");
    backend.compute(&graph).expect("computed");
    assert_eq!(result.to_vec::<f32>().expect("numbers"), [9.0]);
}
