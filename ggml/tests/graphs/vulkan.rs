//! GPUs by Vulkan. These tests need three of them: `scripts/vulkan/test.sh` has a driver that computes on the CPU, thrice.

use ggml::{Backend, Context, Error, GraphAllocator, InterruptFlag, RopeMode, RopeParameters, Type, vulkan};

use crate::gpu::{check_interrupts, check_memory, check_products, check_squares, numbers, squares};

/// The GPU that a test loses, with all its backends. The other tests do not use it.
const LOST: usize = 2;

fn gpu(index: usize, memory: Option<usize>) -> Backend {
    Backend::vulkan(index, memory).expect("a GPU")
}

fn is_lavapipe() -> bool {
    vulkan::devices().expect("GPUs")[0].is_lavapipe()
}

#[test]
fn gpus_are_described_and_compute() {
    let found = vulkan::devices().expect("GPUs");
    assert!(found.len() >= 3, "{found:?}");
    for (index, device) in found.iter().enumerate() {
        assert_eq!(device.index, index);
        assert!(!device.name.is_empty() && device.free > 0 && device.free <= device.total, "{device:?}");
        if index != LOST {
            check_squares(&gpu(index, None));
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
    check_memory(|memory| gpu(0, memory));
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
    check_interrupts(&gpu(0, None));
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

#[test]
fn products_equal_those_of_the_cpu() {
    check_products(&gpu(0, None), is_lavapipe());
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
