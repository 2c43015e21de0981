//! Graphs on an emulated device: segments of ggml's operations with device implementations of our own between
//! them, constants, and the limit on memory.

use ggml::{Backend, Context, Error, GraphAllocator, InterruptFlag, Operand, Tensor, Type};

fn device(memory: Option<usize>) -> Backend {
    Backend::emulated(memory).expect("starts")
}

/// `x` with `add` added to each element on the CPU, or the constant's numbers on a device.
fn add_constant(ctx: &Context, x: &Tensor, constant: &Tensor) -> Tensor {
    let n = x.dim(0);
    ctx.custom_on(
        Type::F32,
        [n],
        &[Operand::Read(x), Operand::Read(constant)],
        |_| panic!("the CPU implementation is not called"),
        move |task| {
            assert!(task.emulated() && task.stream().is_null());
            // SAFETY: contiguous f32 and i32 of n elements each, on the host.
            unsafe {
                let from = std::slice::from_raw_parts(task.operand(0).data.cast::<f32>(), n);
                let constant = std::slice::from_raw_parts(task.operand(1).data.cast::<i32>(), n);
                let to = std::slice::from_raw_parts_mut(task.result().data.cast::<f32>(), n);
                for ((to, from), add) in to.iter_mut().zip(from).zip(constant) {
                    *to = from + *add as f32;
                }
            }
            Ok(())
        },
    )
}

#[test]
fn a_graph_with_own_operations_can_be_computed_repeatedly() {
    let (backend, ctx) = (device(None), Context::new(16));
    let x = ctx.input("x", Type::F32, [3]);
    let first = add_constant(&ctx, &ctx.scale(&x, 2.0), &ctx.constant(&[10, 20, 30]));
    let second = add_constant(&ctx, &ctx.scale(&first, 10.0), &ctx.constant(&[1, 2, 3])).output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&second]).expect("graph")).expect("memory");
    for _ in 0..2 {
        x.write(0, &[1f32, 2.0, 3.0]).expect("x");
        backend.compute(&graph).expect("computes");
        assert_eq!(second.to_vec::<f32>().expect("result"), [121.0, 242.0, 363.0]);
    }
}

#[test]
fn missing_and_failing_device_implementations_are_errors() {
    let (backend, ctx) = (device(None), Context::new(16));
    let x = ctx.input("x", Type::F32, [1]);
    let none = ctx.custom(Type::F32, [1], &[Operand::Read(&x)], |_| ());
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&none]).expect("graph")).expect("memory");
    assert!(matches!(backend.compute(&graph), Err(Error::Device(_))));

    let ctx = Context::new(16);
    let x = ctx.input("x", Type::F32, [1]);
    let refused = ctx.custom_on(Type::F32, [1], &[Operand::Read(&x)], |_| (), |_| Err(700));
    let graph = allocator.prepare(ctx.graph(&[&refused]).expect("graph")).expect("memory");
    let error = backend.compute(&graph).expect_err("refused");
    assert!(error.to_string().contains("700"), "{error}");
}

#[test]
fn an_interrupt_stops_a_device_between_operations() {
    let flag = InterruptFlag::new();
    let (backend, ctx) = (Backend::emulated(None).expect("starts"), Context::new(16));
    let x = ctx.input("x", Type::F32, [1]);
    let raise = flag.clone();
    let first = ctx.custom_on(
        Type::F32,
        [1],
        &[Operand::Read(&x)],
        |_| (),
        move |_| {
            raise.set();
            Ok(())
        },
    );
    let second =
        ctx.custom_on(Type::F32, [1], &[Operand::Read(&first)], |_| (), |_| panic!("stopped before"));
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&second]).expect("graph")).expect("memory");
    assert!(matches!(backend.compute_until(&graph, &flag), Err(Error::Interrupted)));
    assert!(matches!(backend.compute_until(&graph, &flag), Err(Error::Interrupted)), "still set");
}

#[test]
fn the_memory_limit_holds() {
    let backend = device(Some(10_000));
    let tensors = |n: usize| {
        let ctx = Context::new(4);
        let tensor = ctx.tensor(Type::F32, [n]);
        ctx.allocate(&backend.buffer_type()).map(|_| tensor)
    };
    let kept = tensors(2000).expect("8000 of 10000 bytes");
    assert!(matches!(tensors(1000), Err(Error::OverBudget { limit: 10_000, .. })));

    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let mut compute = |n: usize| {
        let ctx = Context::new(4);
        let x = ctx.input("x", Type::F32, [n]);
        let result = ctx.scale(&x, 2.0).output();
        allocator.prepare(ctx.graph(&[&result]).expect("graph")).map(|_| ())
    };
    compute(100).expect("fits");
    assert!(matches!(compute(1000), Err(Error::OverBudget { .. })));
    compute(100).expect("still fits");
    let (used, peak) = backend.memory_used().expect("bounded");
    assert!(used >= 8400 && peak >= used && peak <= 10_000, "{used} {peak}");
    drop(kept);
    compute(1000).expect("fits now");
}

/// A portable device computes ggml's operations and refuses ours. Its memory holds NaN until it is written. It can be
/// interrupted and lost between any two operations.
#[test]
fn a_portable_device_computes_operations_of_ggml_only() {
    let (backend, memory) = (Backend::portable(None).expect("starts"), Context::new(2));
    let x = memory.tensor(Type::F32, [3]);
    memory.allocate(&backend.buffer_type()).expect("memory");
    assert!(x.to_vec::<f32>().expect("numbers").iter().all(|x| x.is_nan()));
    x.write(0, &[1f32, 2.0, 3.0]).expect("numbers");
    assert!(!backend.has_own_operations() && device(None).has_own_operations());

    let ctx = Context::new(200);
    let sum = (0..150).fold(x.clone(), |sum, _| ctx.scale_add(&sum, 1.0, 1.0)).output();
    let graph = ctx.graph(&[&sum]).expect("a graph");
    backend.check_operations(&graph).expect("it has these operations");
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let ready = allocator.prepare(graph).expect("memory");
    backend.compute(&ready).expect("computed");
    assert_eq!(sum.to_vec::<f32>().expect("numbers"), [151.0, 152.0, 153.0]);
    for operations in [1, 70, 149] {
        let interrupt = InterruptFlag::new();
        backend.interrupt_after(operations);
        let interrupted = backend.compute_until(&ready, &interrupt);
        assert!(matches!(interrupted, Err(Error::Interrupted)), "{operations}: {interrupted:?}");
    }
    backend.interrupt_after(usize::MAX);
    backend.lose_after(149);
    assert!(matches!(backend.compute(&ready), Err(Error::Device(_))));

    let ctx = Context::new(8);
    let own = add_constant(&ctx, &x, &ctx.constant(&[1, 2, 3]));
    let graph = ctx.graph(&[&own]).expect("a graph");
    let refused = backend.check_operations(&graph);
    assert!(matches!(&refused, Err(Error::Unsupported { op, .. }) if op == "CUSTOM"), "{refused:?}");
    let ready = allocator.prepare(graph).expect("memory");
    assert!(matches!(backend.compute(&ready), Err(Error::Unsupported { .. })));
}

/// On a GPU, ggml's operations alone: the first time they are launched, the second time recorded, from then
/// on the recording is started.
#[cfg(feature = "cuda")]
#[test]
fn a_gpu_records_graphs_that_are_computed_again() {
    if std::env::var("LONGHAND_TEST_DEVICE").as_deref() != Ok("cuda") {
        return;
    }
    let (backend, ctx) = (Backend::cuda(0, Some(1 << 30)).expect("a GPU"), Context::new(16));
    let x = ctx.input("x", Type::F32, [3]);
    let y = ctx.scale(&ctx.scale(&x, 2.0), 10.0).output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&y]).expect("graph")).expect("memory");
    for step in 1..=4u8 {
        let factor = f32::from(step);
        x.write(0, &[factor, 2.0 * factor, 3.0 * factor]).expect("x");
        backend.compute(&graph).expect("computes");
        assert_eq!(y.to_vec::<f32>().expect("result"), [20.0 * factor, 40.0 * factor, 60.0 * factor]);
        assert_eq!(graph.is_recorded(), step > 1, "step {step}");
    }
    assert!(backend.memory_used().is_some_and(|(used, _)| used > 0));
}

/// Graphs that are started one after the other: the same memory serves each, and what is written for one, between two others,
/// is there for this one. On a GPU, or the CUDA mock, where the tests run on one.
#[test]
fn graphs_that_are_started_are_computed_in_order() {
    let backend = match std::env::var("LONGHAND_TEST_DEVICE").as_deref() {
        Ok("cuda") => Backend::cuda(0, None).expect("a GPU"),
        _ => device(None),
    };
    // The last ones have more than a GPU takes between two graphs.
    let lengths = [3, 3, 200, 1000, 1000, 40_000, 40_000];
    let longest = 40_000;
    let memory = Context::new(2);
    let [total, last] = [(); 2].map(|()| memory.tensor(Type::F32, [longest]));
    memory.allocate(&backend.buffer_type()).expect("memory");
    total.clear().expect("cleared");
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    for (number, length) in (1u16..).zip(lengths) {
        let ctx = Context::new(16);
        let x = ctx.input("x", Type::F32, [length]);
        let of_total = ctx.view(&total, [length], [4 * length; 3], 0);
        let sum = ctx.copy(&ctx.add(&of_total, &ctx.scale(&x, 2.0)), &of_total);
        let product = ctx.copy(&ctx.scale(&x, 10.0), &ctx.view(&last, [length], [4 * length; 3], 0));
        let graph = allocator.prepare(ctx.graph(&[&sum, &product]).expect("a graph")).expect("memory");
        x.write(0, &vec![f32::from(number); length]).expect("written");
        backend.start(&graph, None).expect("started");
    }
    let found = total.to_vec::<f32>().expect("read");
    let expected = |place: usize| -> f32 {
        let terms = (1u16..).zip(lengths).filter(|(_, length)| place < *length);
        terms.map(|(number, _)| 2.0 * f32::from(number)).sum()
    };
    assert!((0..longest).all(|place| found[place] == expected(place)));
    assert_eq!(last.to_vec::<f32>().expect("read"), vec![70.0; longest]);

    // What a graph that runs still uses is freed.
    let ctx = Context::new(4);
    let doubled = ctx.scale(&ctx.view(&total, [longest], [4 * longest; 3], 0), 2.0);
    let graph = allocator.prepare(ctx.graph(&[&doubled]).expect("a graph")).expect("memory");
    backend.start(&graph, None).expect("started");
    drop((graph, ctx, doubled, allocator, memory, total, last));
    // An interrupt leaves the graph that was started before.
    let interrupt = InterruptFlag::new();
    interrupt.set();
    let ctx = Context::new(4);
    let x = ctx.input("x", Type::F32, [4]);
    let y = ctx.scale(&x, 2.0).output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&y]).expect("a graph")).expect("memory");
    x.write(0, &[3f32; 4]).expect("written");
    backend.start(&graph, None).expect("started");
    assert!(matches!(backend.start(&graph, Some(&interrupt)), Err(Error::Interrupted)));
    assert_eq!(y.to_vec::<f32>().expect("read"), [6.0; 4]);
}

/// Two backends of one GPU take turns: each has its own stream, and what is written for a graph goes behind the graphs that
/// use its memory and before the graph itself.
#[test]
fn backends_of_one_device_take_turns() {
    const LENGTH: usize = 1000;
    let backends = [(); 2].map(|()| match std::env::var("LONGHAND_TEST_DEVICE").as_deref() {
        Ok("cuda") => Backend::cuda(0, None).expect("a GPU"),
        _ => device(None),
    });
    let memory = Context::new(3);
    let [first, second, seen] = [(); 3].map(|()| memory.tensor(Type::F32, [LENGTH]));
    let totals = [first, second];
    memory.allocate(&backends[0].buffer_type()).expect("memory");
    totals.iter().for_each(|total| total.clear().expect("cleared"));
    let mut allocators = backends.each_ref().map(|backend| GraphAllocator::new(&backend.buffer_type()));
    // Turns of one, the other and both.
    let turns = [0, 1, 0, 0, 1, 1, 1, 0, 1, 0];
    let expected = |backend: usize| -> f32 {
        let terms = (1u16..).zip(turns).filter(|(_, turn)| *turn == backend);
        terms.map(|(number, _)| 2.0 * f32::from(number)).sum()
    };
    for (number, turn) in (1u16..).zip(turns) {
        let ctx = Context::new(8);
        let x = ctx.input("x", Type::F32, [LENGTH]);
        let sum = ctx.copy(&ctx.add(&totals[turn], &ctx.scale(&x, 2.0)), &totals[turn]);
        let graph = allocators[turn].prepare(ctx.graph(&[&sum]).expect("a graph")).expect("memory");
        x.write(0, &[f32::from(number); LENGTH]).expect("written");
        backends[turn].start(&graph, None).expect("started");
    }
    for (backend, total) in totals.iter().enumerate() {
        assert_eq!(total.to_vec::<f32>().expect("read"), [expected(backend); LENGTH]);
    }
    // One reads what the other has not computed yet, while both are busy.
    let mut start = |backend: usize, ctx: &Context, result: &Tensor| {
        let graph = allocators[backend].prepare(ctx.graph(&[result]).expect("a graph")).expect("memory");
        backends[backend].start(&graph, None).expect("started");
    };
    for (turn, other) in [(0, 1), (1, 0)] {
        let contexts = [(); 3].map(|()| Context::new(4));
        let [busy, doubling, copying] = &contexts;
        start(other, busy, &busy.scale(&seen, 2.0));
        start(turn, doubling, &doubling.copy(&doubling.scale(&totals[turn], 2.0), &totals[turn]));
        start(other, copying, &copying.copy(&totals[turn], &seen));
        assert_eq!(seen.to_vec::<f32>().expect("read"), [2.0 * expected(turn); LENGTH]);
    }
}
