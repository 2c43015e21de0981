//! GPUs by Vulkan. These tests need three of them: `scripts/vulkan/test.sh` has a driver that computes on the CPU, thrice.

use ggml::{
    Backend, Context, Error, GraphAllocator, InterruptFlag, ReadyGraph, RopeMode, RopeParameters, Tensor,
    Type, vulkan,
};

/// The GPU that a test loses, with all its backends. The other tests do not use it.
const LOST: usize = 2;

fn gpu(index: usize, memory: Option<usize>) -> Backend {
    Backend::vulkan(index, memory).expect("a GPU")
}

fn is_lavapipe() -> bool {
    vulkan::devices().expect("GPUs")[0].is_lavapipe()
}

/// The squares of `x`, and the graph that computes them in a GPU's memory.
fn squares(backend: &Backend, x: &[f32]) -> Result<(Tensor, ReadyGraph), Error> {
    let ctx = Context::new(8);
    let input = ctx.input("x", Type::F32, [x.len()]);
    let squares = ctx.mul(&input, &input).output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&squares])?)?;
    input.write(0, x)?;
    Ok((squares, graph))
}

#[test]
fn gpus_are_described_and_compute() {
    let found = vulkan::devices().expect("GPUs");
    assert!(found.len() >= 3, "{found:?}");
    for (index, device) in found.iter().enumerate() {
        assert_eq!(device.index, index);
        assert!(!device.name.is_empty() && device.free > 0 && device.free <= device.total, "{device:?}");
        if index == LOST {
            continue;
        }
        let backend = gpu(index, None);
        assert!(!backend.has_own_operations());
        let (squares, graph) = squares(&backend, &[1.0, -2.0, 3.0]).expect("memory");
        for _ in 0..2 {
            backend.compute(&graph).expect("computed");
            assert_eq!(squares.to_vec::<f32>().expect("numbers"), [1.0, 4.0, 9.0]);
        }
    }
    let missing = Backend::vulkan(found.len(), None).map(|_| ());
    assert!(matches!(missing, Err(Error::NoSuchGpu { .. })), "{missing:?}");
}

#[test]
fn numbers_pass_from_one_gpu_to_another() {
    let tensors = [0, 1].map(|index| {
        let memory = Context::new(2);
        let tensor = memory.tensor(Type::F32, [1000]);
        memory.allocate(&gpu(index, None).buffer_type()).expect("memory");
        tensor
    });
    let numbers: Vec<f32> = (0..1000).map(|number| number as f32).collect();
    tensors[0].write(0, &numbers).expect("written");
    tensors[1].copy_from(0, &tensors[0], 0, 4000).expect("copied");
    assert_eq!(tensors[1].to_vec::<f32>().expect("numbers"), numbers);
}

#[test]
fn memory_is_limited_and_refused() {
    let allocate = |backend: &Backend, shape: [usize; 2]| {
        let memory = Context::new(2);
        let _tensor = memory.tensor(Type::F32, shape);
        memory.allocate(&backend.buffer_type())
    };
    let bounded = allocate(&gpu(0, Some(10_000)), [4000, 1]);
    assert!(matches!(bounded, Err(Error::OverBudget { limit: 10_000, .. })), "{bounded:?}");
    let backend = gpu(0, None);
    let refused = allocate(&backend, [1 << 20, 1 << 20]);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    allocate(&backend, [4000, 1]).expect("a refusal is no failure of the GPU");
}

#[test]
fn what_the_driver_cannot_compute_is_an_error_that_names_it() {
    let (backend, ctx) = (gpu(0, None), Context::new(8));
    let scores = ctx.input("scores", Type::F32, [1 << 26]);
    let sorted = ctx.top_k(&scores, 1);
    let graph = ctx.graph(&[&sorted]).expect("a graph");
    let refused = backend.check_operations(&graph);
    if !is_lavapipe() && refused.is_ok() {
        return println!("skipped: this driver can sort so many numbers");
    }
    assert!(
        matches!(&refused, Err(Error::Unsupported { backend, .. }) if backend == "Vulkan0"),
        "{refused:?}"
    );
}

#[test]
fn an_interrupt_stops_some_operations_later() {
    let (backend, ctx) = (gpu(0, None), Context::new(200));
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

#[test]
fn a_lost_gpu_is_an_error_that_says_why_until_it_is_opened_again() {
    let backend = gpu(LOST, None);
    let (result, graph) = squares(&backend, &[2.0]).expect("memory");
    backend.compute(&graph).expect("computed");
    backend.lose();
    let errors = [
        backend.compute(&graph).err(),
        backend.compute_until(&graph, &InterruptFlag::new()).err(),
        result.to_vec::<f32>().err(),
        squares(&backend, &[3.0]).err(),
    ];
    for error in errors {
        let error = error.expect("an error");
        let text = error.to_string();
        assert!(
            matches!(error, Error::Device(_)) && text.contains("Vulkan2") && text.contains("a test"),
            "{text}"
        );
    }
    drop((result, graph, backend));
    let backend = gpu(LOST, None);
    let (result, graph) = squares(&backend, &[3.0]).expect("memory");
    backend.compute(&graph).expect("computed");
    assert_eq!(result.to_vec::<f32>().expect("numbers"), [9.0]);
}

/// Numbers without a pattern, from -1 to 1.
fn numbers(n: usize) -> Vec<f32> {
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

#[test]
fn products_equal_those_of_the_cpu() {
    let [gpu, cpu] = [gpu(0, None), Backend::cpu(1).expect("starts")];
    for n_in in [16, 32, 96] {
        for n_out in [16, 65, 200] {
            for tokens in [1, 2, 7, 9, 33] {
                let shape = [n_in, n_out, tokens];
                let [found, expected] = [&gpu, &cpu].map(|backend| product(backend, shape));
                let difference = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                // Matrix units multiply in f16: on an H200, sums of 96 products of numbers up to 1 differed by 0.022.
                let tolerance = if is_lavapipe() { 1e-4 } else { 5e-3 * (n_in as f32).sqrt() };
                assert!(difference < tolerance, "{shape:?}: {difference}");
            }
        }
    }
}

/// ggml would take others: those before them, from where a buffer can be bound on.
#[test]
fn positions_that_begin_anywhere_are_refused() {
    let backend = gpu(0, None);
    for (first, is_refused) in [(0, false), (1, true)] {
        let ctx = Context::new(16);
        let x = ctx.input("x", Type::F32, [64, 2, 3]);
        let all = ctx.input("positions", Type::I32, [8]);
        let positions = ctx.view(&all, [3], [12; 3], 4 * first);
        let rotated = ctx.rope(&x, &positions, None, &rope_parameters()).output();
        let mut allocator = GraphAllocator::new(&backend.buffer_type());
        let graph = allocator.prepare(ctx.graph(&[&rotated]).expect("a graph")).expect("memory");
        x.write(0, &numbers(64 * 2 * 3)).expect("written");
        all.write(0, &[0i32, 1, 2, 3, 4, 5, 6, 7]).expect("written");
        let result = backend.compute(&graph);
        match is_refused {
            true => {
                assert!(matches!(&result, Err(Error::Unsupported { op, .. }) if op == "ROPE"), "{result:?}")
            }
            false => result.expect("computed"),
        }
    }
}

fn rope_parameters() -> RopeParameters {
    RopeParameters {
        dims: 64,
        mode: RopeMode::Neox,
        base: 10_000.0,
        frequency_scale: 1.0,
        original_context: 4096,
        ext_factor: 0.0,
        attention_factor: 1.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
    }
}
