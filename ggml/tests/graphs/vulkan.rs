//! GPUs by Vulkan. These tests need three of them: `scripts/vulkan/test.sh` has a driver that computes on the CPU, thrice.

use ggml::{Backend, Context, Error, GraphAllocator, InterruptFlag, ReadyGraph, Tensor, Type, vulkan};

/// The GPU that a test loses, with all its backends. The other tests do not use it.
const LOST: usize = 2;

fn gpu(index: usize, memory: Option<usize>) -> Backend {
    Backend::vulkan(index, memory).expect("a GPU")
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
