//! Threads that share weights and backends.

use std::sync::{Arc, Barrier};
use std::thread;

use ggml::{
    Backend, Buffer, BufferType, Context, Error, Graph, GraphAllocator, HostMemory, Operand, ReadyGraph,
    Tensor, Type,
};

const THREADS: usize = 4;
const N: usize = 64;

#[test]
fn all_types_are_send_and_sync() {
    fn is_shareable<T: Send + Sync>() {}
    is_shareable::<Backend>();
    is_shareable::<Buffer>();
    is_shareable::<BufferType>();
    is_shareable::<Context>();
    is_shareable::<Error>();
    is_shareable::<Graph>();
    is_shareable::<GraphAllocator>();
    is_shareable::<HostMemory>();
    is_shareable::<ReadyGraph>();
    is_shareable::<Tensor>();
}

fn backend() -> Backend {
    Backend::cpu(1).expect("the CPU backend starts")
}

/// The matrix `[N, N]` with `factor` on its diagonal, in read-only memory.
fn mapped_weights(factor: f32) -> Tensor {
    let mut bytes = vec![0; 4 * (N * N + 8)];
    let offset = bytes.as_ptr().align_offset(32);
    for i in 0..N {
        bytes[offset + 4 * (N + 1) * i..][..4].copy_from_slice(&factor.to_ne_bytes());
    }
    /// Bytes from an aligned address on.
    struct Aligned {
        bytes: Vec<u8>,
        offset: usize,
    }
    impl AsRef<[u8]> for Aligned {
        fn as_ref(&self) -> &[u8] {
            &self.bytes[self.offset..][..4 * N * N]
        }
    }
    let owner = Arc::new(Aligned { bytes, offset });
    let buffer = Buffer::over(HostMemory::Owned(owner)).expect("aligned");
    let context = Context::new(1);
    let weights = context.tensor(Type::F32, [N, N]).named("mapped");
    buffer.place(&weights, 0).expect("fits");
    weights
}

/// The matrix `[N, N]` with `factor` on its diagonal, in memory of its context.
fn copied_weights(factor: f32) -> Tensor {
    let context = Context::new(1);
    // Without a name: graphs of several threads must not name it.
    let weights = context.tensor(Type::F32, [N, N]);
    context.allocate(&BufferType::cpu()).expect("memory");
    let mut data = vec![0f32; N * N];
    data.iter_mut().step_by(N + 1).for_each(|x| *x = factor);
    weights.write(0, &data).expect("writable");
    weights
}

/// `total` + mapped · copied · x, added to `total`, which belongs to another context than the graph.
fn add_product(weights: &[Tensor; 2], total: &Tensor) -> (Context, Tensor, Tensor) {
    let context = Context::new(16);
    let x = context.input("x", Type::F32, [N]);
    let product = context.mul_mat(&weights[0], &context.mul_mat(&weights[1], &x));
    let doubled_twice = context.custom(Type::F32, [N], &[Operand::Read(&product)], |task| {
        let (from, to) = (task.operand(0).data.cast::<f32>(), task.result().data.cast::<f32>());
        for i in (task.thread..N).step_by(task.threads) {
            // SAFETY: both are N contiguous floats, of which threads write different ones.
            unsafe { *to.add(i) = 4.0 * *from.add(i) };
        }
    });
    let sum = context.copy(&context.add(&doubled_twice, total), total);
    (context, x, sum)
}

/// Builds and computes graphs with both weights, and checks every result. `number` makes the thread's data
/// differ from others'.
fn work(backend: &Backend, weights: &[Tensor; 2], number: usize) {
    let memory = Context::new(1);
    let total = memory.tensor(Type::F32, [N]);
    memory.allocate(&BufferType::cpu()).expect("memory");
    total.clear().expect("writable");
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let input: Vec<f32> = (0..N).map(|i| (i * number) as f32).collect();
    let mut expected = vec![0f32; N];
    for _ in 0..5 {
        let (context, x, sum) = add_product(weights, &total);
        let graph = allocator.prepare(context.graph(&[&sum]).expect("a graph")).expect("memory");
        for _ in 0..3 {
            x.write(0, &input).expect("input");
            backend.compute(&graph).expect("computes");
            expected.iter_mut().zip(&input).for_each(|(sum, x)| *sum += 2.0 * 3.0 * 4.0 * x);
            assert_eq!(total.to_vec::<f32>().expect("result"), expected);
            assert_eq!(weights[0].shape().0, [N, N, 1, 1]);
            assert_eq!(weights[0].name(), "mapped");
        }
    }
}

#[test]
fn threads_share_weights_on_backends_of_their_own() {
    let weights = [mapped_weights(2.0), copied_weights(3.0)];
    thread::scope(|scope| {
        for number in 1..=THREADS {
            let weights = &weights;
            scope.spawn(move || work(&backend(), weights, number));
        }
    });
}

#[test]
fn threads_share_weights_and_a_backend() {
    let weights = [mapped_weights(2.0), copied_weights(3.0)];
    let backend = Backend::cpu(2).expect("the CPU backend starts");
    thread::scope(|scope| {
        for number in 1..=THREADS {
            let (weights, backend) = (&weights, &backend);
            scope.spawn(move || work(backend, weights, number));
        }
    });
}

/// A graph moves to another thread with its allocator and its closures; the thread that made it is gone then.
#[test]
fn a_graph_is_computed_by_another_thread() {
    let made = thread::spawn(|| {
        let weights = [mapped_weights(2.0), copied_weights(3.0)];
        let memory = Context::new(1);
        let total = memory.tensor(Type::F32, [N]);
        memory.allocate(&BufferType::cpu()).expect("memory");
        total.clear().expect("writable");
        let (context, x, sum) = add_product(&weights, &total);
        let mut allocator = GraphAllocator::new(&BufferType::cpu());
        let graph = allocator.prepare(context.graph(&[&sum]).expect("a graph")).expect("memory");
        (allocator, graph, x, sum)
    });
    let (mut allocator, graph, x, sum) = made.join().expect("made");
    x.write(0, &[1f32; N]).expect("input");
    let backend = backend();
    backend.compute(&graph).expect("computes");
    assert_eq!(sum.to_vec::<f32>().expect("result"), [24.0; N]);

    // The allocator serves another graph from here on.
    let context = Context::new(4);
    let other = context.scale(&context.input("x", Type::F32, [N]), 1.0);
    allocator.prepare(context.graph(&[&other]).expect("a graph")).expect("memory");
    assert!(matches!(backend.compute(&graph), Err(Error::StaleGraph)));
    assert!(matches!(x.write(0, &[1f32; N]), Err(Error::StaleGraph)));
}

/// While one thread computes over a tensor, others read and write it: they see all of a computation's result
/// or nothing of it.
#[test]
fn reads_and_writes_wait_for_computations() {
    let memory = Context::new(1);
    let data = memory.tensor(Type::F32, [N]);
    memory.allocate(&BufferType::cpu()).expect("memory");
    data.clear().expect("writable");
    let context = Context::new(8);
    let one = context.constant(&[1]);
    // In place, element after element.
    let increment = context.custom(Type::F32, [1], &[Operand::Write(&data), Operand::Read(&one)], |task| {
        let data = task.operand(0).data.cast::<f32>();
        for i in (0..N).filter(|_| task.thread == 0) {
            // SAFETY: N floats, which only this thread writes.
            unsafe { *data.add(i) += 1.0 };
        }
    });
    let backend = backend();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(context.graph(&[&increment]).expect("a graph")).expect("memory");
    let start = Barrier::new(3);
    thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for _ in 0..500 {
                backend.compute(&graph).expect("computes");
            }
        });
        scope.spawn(|| {
            start.wait();
            for _ in 0..500 {
                let seen = data.to_vec::<f32>().expect("data");
                assert!(seen.iter().all(|x| *x == seen[0]), "{seen:?}");
            }
        });
        scope.spawn(|| {
            start.wait();
            for _ in 0..500 {
                data.write(0, &[0f32; N]).expect("data");
            }
        });
    });
}

#[test]
fn operands_of_other_contexts_are_leaves_with_memory() {
    let memory = Context::new(4);
    let leaf = memory.tensor(Type::F32, [N]).named("leaf");
    let view = memory.reshape(&leaf, [N / 2, 2]);
    let refused = |operand: &Tensor| {
        let context = Context::new(4);
        let result = context.scale(operand, 2.0);
        matches!(context.graph(&[&result]), Err(Error::ForeignOperand { op: "scale", .. }))
    };
    assert!(refused(&leaf), "no memory");
    memory.allocate(&BufferType::cpu()).expect("memory");
    assert!(!refused(&leaf));
    assert!(refused(&view), "the result of an operation");

    // An allocator that serves another graph would take the memory away.
    let context = Context::new(4);
    let input = context.input("x", Type::F32, [N]);
    let result = context.scale(&input, 2.0);
    let mut allocator = GraphAllocator::new(&BufferType::cpu());
    allocator.prepare(context.graph(&[&result]).expect("a graph")).expect("memory");
    assert!(refused(&input), "memory of a graph");
}

#[test]
fn copies_to_read_only_memory_are_refused() {
    let weights = mapped_weights(2.0);
    let context = Context::new(4);
    let x = context.input("x", Type::F32, [N, N]);
    let copy = context.copy(&x, &weights);
    let mut allocator = GraphAllocator::new(&BufferType::cpu());
    let result = allocator.prepare(context.graph(&[&copy]).expect("a graph"));
    assert!(matches!(result, Err(Error::ReadOnly(_))));
    assert!(matches!(weights.clear(), Err(Error::ReadOnly(_))));
}
