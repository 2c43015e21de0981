//! What tests of GPUs by HIP, by Metal and by Vulkan share.

#[cfg(any(feature = "hip", feature = "metal"))]
use ggml::Logits;
use ggml::{Backend, Context, Error, GraphAllocator, InterruptFlag, ReadyGraph, Tensor, Type};

/// The squares of `x`, and the graph that computes them in a GPU's memory.
pub fn squares(backend: &Backend, x: &[f32]) -> Result<(Tensor, ReadyGraph), Error> {
    let ctx = Context::new(8);
    let input = ctx.input("x", Type::F32, [x.len()]);
    let squares = ctx.mul(&input, &input).output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&squares])?)?;
    input.write(0, x)?;
    Ok((squares, graph))
}

/// Checks that a backend computes ggml's operations, and again.
pub fn check_squares(backend: &Backend) {
    assert!(!backend.has_own_operations());
    let (squares, graph) = squares(backend, &[1.0, -2.0, 3.0]).expect("memory");
    for _ in 0..2 {
        backend.compute(&graph).expect("computed");
        assert_eq!(squares.to_vec::<f32>().expect("numbers"), [1.0, 4.0, 9.0]);
    }
}

/// Checks that a GPU's memory has the limit that is set, and that memory which the driver refuses is an error.
pub fn check_memory(gpu: impl Fn(Option<usize>) -> Backend) {
    let allocate = |backend: &Backend, shape: [usize; 2]| {
        let memory = Context::new(2);
        let _tensor = memory.tensor(Type::F32, shape);
        memory.allocate(&backend.buffer_type())
    };
    let bounded = allocate(&gpu(Some(10_000)), [4000, 1]);
    assert!(matches!(bounded, Err(Error::OverBudget { limit: 10_000, .. })), "{bounded:?}");
    let backend = gpu(None);
    let refused = allocate(&backend, [1 << 20, 1 << 20]);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    allocate(&backend, [4000, 1]).expect("a refusal is no failure of the GPU");
}

/// Numbers without a pattern, from -1 to 1.
pub fn numbers(n: usize) -> Vec<f32> {
    (0..n as u32)
        .map(|number| (number.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0)
        .collect()
}

/// A product of a matrix with vectors.
fn product(backend: &Backend, [n_in, n_out, tokens]: [usize; 3]) -> Vec<f32> {
    let ctx = Context::new(8);
    let matrix = ctx.input("matrix", Type::F32, [n_in, n_out]);
    let vectors = ctx.input("vectors", Type::F32, [n_in, tokens]);
    let product = ctx.mul_mat(&matrix, &vectors).output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&product]).expect("a graph")).expect("memory");
    matrix.write(0, &numbers(n_in * n_out)).expect("written");
    vectors.write(0, &numbers(n_in * tokens)).expect("written");
    backend.compute(&graph).expect("computed");
    product.to_vec::<f32>().expect("numbers")
}

/// Checks products of matrices of f32 against those of the CPU.
pub fn check_products(gpu: &Backend, is_exact: bool) {
    let cpu = Backend::cpu(1).expect("starts");
    for n_in in [16, 32, 96] {
        for n_out in [16, 65, 200] {
            for tokens in [1, 2, 7, 9, 33] {
                let shape = [n_in, n_out, tokens];
                let [found, expected] = [gpu, &cpu].map(|backend| product(backend, shape));
                let difference = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                // Matrix units multiply in f16: on an H200, sums of 96 products of numbers up to 1 differed by 0.022.
                let tolerance = if is_exact { 1e-4 } else { 5e-3 * (n_in as f32).sqrt() };
                assert!(difference < tolerance, "{shape:?}: {difference}");
            }
        }
    }
}

/// Checks whether a backend has a kernel for attention with keys and values of these lengths.
#[cfg(any(feature = "hip", feature = "metal"))]
pub fn check_attention(
    backend: &Backend,
    [k_dim, v_dim]: [usize; 2],
    softcap: Option<f32>,
    is_supported: bool,
) {
    let ctx = Context::new(16);
    let q = ctx.input("q", Type::F32, [k_dim, 3, 2]);
    let k = ctx.input("k", Type::F16, [k_dim, 32, 1]);
    let v = ctx.input("v", Type::F16, [v_dim, 32, 1]);
    let mask = ctx.input("mask", Type::F16, [32, 3]);
    let attended = ctx.flash_attention(&q, [&k, &v], &mask, Logits { scale: 1.0, softcap }, None);
    let result = backend.check_operations(&ctx.graph(&[&attended]).expect("a graph"));
    match is_supported {
        true => result.expect("a kernel"),
        false => assert!(
            matches!(&result, Err(Error::Unsupported { .. })),
            "{k_dim}, {v_dim}, {softcap:?}: {result:?}"
        ),
    }
}

/// Checks that a computation can be interrupted, and ended after that.
pub fn check_interrupts(backend: &Backend) {
    let ctx = Context::new(200);
    let x = ctx.input("x", Type::F32, [3]);
    let sum = (0..150).fold(x.clone(), |sum, _| ctx.scale_add(&sum, 1.0, 1.0)).output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&sum]).expect("a graph")).expect("memory");
    for operations in [1, 70] {
        backend.interrupt_after(operations);
        let interrupted = backend.compute_until(&graph, &InterruptFlag::new());
        assert!(matches!(interrupted, Err(Error::Interrupted)), "{operations}: {interrupted:?}");
    }
    backend.interrupt_after(usize::MAX);
    x.write(0, &[1f32, 2.0, 3.0]).expect("written");
    backend.compute_until(&graph, &InterruptFlag::new()).expect("computed");
    assert_eq!(sum.to_vec::<f32>().expect("numbers"), [151.0, 152.0, 153.0]);
}
