//! AMD's GPUs by HIP. `cargo test -p ggml --features hip --test graphs hip::` runs these where there is one. Never run so far.

use ggml::{Backend, Context, Error, Logits, Type, hip};

use crate::gpu::{check_interrupts, check_memory, check_products, check_squares, squares};

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
        let ctx = Context::new(16);
        let q = ctx.input("q", Type::F32, [head_dim, 3, 2]);
        let [k, v] = ["k", "v"].map(|name| ctx.input(name, Type::F16, [head_dim, 32, 1]));
        let mask = ctx.input("mask", Type::F16, [32, 3]);
        let attended = ctx.flash_attention(&q, [&k, &v], &mask, Logits { scale: 1.0, softcap }, None);
        let result = backend.check_operations(&ctx.graph(&[&attended]).expect("a graph"));
        assert_eq!(result.is_ok(), is_supported, "{head_dim}, {softcap:?}: {result:?}");
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

/// In a process of its own: the GPU stays lost until the program is started again.
#[test]
#[ignore = "the GPU stays lost for other tests: `-- --ignored`"]
fn a_failed_gpu_computes_nothing_any_more() {
    let backend = gpu(None);
    let (_, graph) = squares(&backend, &[2.0]).expect("memory");
    backend.compute(&graph).expect("computed");
    backend.lose();
    for _ in 0..2 {
        let error = backend.compute(&graph).expect_err("failed");
        assert!(matches!(&error, Error::Device(text) if text.contains("ROCm0")), "{error}");
    }
    let another = Backend::hip(0, None).map(|_| ());
    assert!(
        matches!(&another, Err(Error::NoHip(hip::NoHip::Device(text))) if text.contains("ROCm0")),
        "{another:?}"
    );
}
