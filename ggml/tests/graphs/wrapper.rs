//! The wrapper against results computed by hand: products, views, custom operations, and errors.

use ggml::{
    Backend, Buffer, BufferType, Context, Error, GraphAllocator, HostMemory, InterruptFlag, Operand, Tensor,
    Type,
};

fn cpu() -> Backend {
    Backend::cpu(2).expect("the CPU backend starts")
}

fn run(backend: &Backend, context: &Context, result: &Tensor, inputs: &[(&Tensor, &[f32])]) -> Vec<f32> {
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = context.graph(&[result]).expect("a well-formed graph");
    let ready = allocator.prepare(graph).expect("memory");
    for (tensor, data) in inputs {
        tensor.write(0, data).expect("input size");
    }
    backend.compute(&ready).expect("computes");
    result.to_vec().expect("result")
}

#[test]
fn a_product_is_a_transposed_times_b() {
    let backend = cpu();
    let context = Context::new(16);
    let a = context.input("a", Type::F32, [2, 3]);
    let b = context.input("b", Type::F32, [2, 1]);
    let c = context.mul_mat(&a, &b).output();
    let out = run(&backend, &context, &c, &[(&a, &[1., 2., 3., 4., 5., 6.]), (&b, &[10., 1.])]);
    assert_eq!(out, [12., 34., 56.]);
}

#[test]
fn a_fast_hadamard_transform_is_the_product() {
    for size in [2, 8, 64, 128, 512] {
        let scale = 1.0 / (size as f32).sqrt();
        let sign = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { scale } else { -scale };
        let matrix: Vec<f32> = (0..size * size).map(|at| sign(at / size, at % size)).collect();
        let rows: Vec<f32> = (0..3 * size).map(|i| (i as f32 * 0.7).sin()).collect();
        let [fast, plain] = [Context::mul_hadamard, Context::mul_mat].map(|product| {
            let ctx = Context::new(8);
            let a = ctx.input("matrix", Type::F32, [size, size]);
            let b = ctx.input("rows", Type::F32, [size, 3]);
            run(&cpu(), &ctx, &product(&ctx, &a, &b), &[(&a, &matrix), (&b, &rows)])
        });
        let difference = fast.iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(difference < 1e-5 && fast.len() == 3 * size, "{size}: {difference}");
    }
}

/// Between two stages the caller reads what the first one gave and writes something else for the second one.
#[test]
fn padding_puts_zeros_behind_each_row() {
    let ctx = Context::new(8);
    let a = ctx.input("a", Type::F32, [2, 1, 2]);
    let padded = ctx.pad(&a, 3);
    let numbers = [1.0, 2.0, 3.0, 4.0];
    assert_eq!(
        run(&cpu(), &ctx, &padded, &[(&a, &numbers)]),
        [1.0, 2.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0]
    );
}

#[test]
fn stages_exchange_numbers_with_the_caller() {
    let backend = cpu();
    let context = Context::new(16);
    let x = context.input("x", Type::F32, [2]);
    let doubled = context.scale(&x, 2.0);
    let exchange = context.exchange(&doubled);
    let result = context.add(&context.scale(&exchange, 10.0), &doubled).output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let ready = allocator.prepare(context.graph(&[&result]).expect("a graph")).expect("memory");
    let [first, second] = ready.into_stages().try_into().unwrap_or_else(|_| panic!("two stages"));
    for repetition in [1., 2.] {
        x.write(0, &[repetition, 3.]).expect("an input");
        backend.compute(&first).expect("computes");
        assert_eq!(exchange.to_vec::<f32>().expect("numbers"), [2. * repetition, 6.]);
        exchange.write(0, &[1f32, 2.]).expect("other numbers");
        backend.compute(&second).expect("computes");
        assert_eq!(result.to_vec::<f32>().expect("a result"), [10. + 2. * repetition, 26.]);
    }
    assert!(first.find("exchange").is_some() && second.find("exchange").is_none());
}

/// A graph that is computed as a whole does not stop for exchanges.
#[test]
fn a_whole_graph_has_all_stages() {
    let backend = cpu();
    let context = Context::new(16);
    let x = context.input("x", Type::F32, [2]);
    let result = context.scale(&context.exchange(&context.exchange(&x)), 3.0).output();
    assert_eq!(run(&backend, &context, &result, &[(&x, &[1., 2.])]), [3., 6.]);
}

/// Two tokens choose two of three matrices each; the products and the rows that are added follow the choice.
#[test]
fn products_use_the_matrices_with_the_largest_scores() {
    let backend = cpu();
    let context = Context::new(32);
    let scores = context.input("scores", Type::F32, [3, 2]);
    let matrices = context.input("matrices", Type::F32, [1, 2, 3]);
    let rows = context.input("rows", Type::F32, [2, 3]);
    let x = context.input("x", Type::F32, [1, 1, 2]);
    let ids = context.top_k(&scores, 2);
    let biased = context.add_id(&context.mul_mat_id(&matrices, &x, &ids), &rows, &ids);
    let result = context.mul(&biased, &context.get_ranked(&scores, &ids)).output();
    let inputs: [(&Tensor, &[f32]); 4] = [
        (&scores, &[0.5, 3.0, 2.0, 4.0, -1.0, 0.25]),
        (&matrices, &[1., 2., 3., 4., 5., 6.]),
        (&rows, &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
        (&x, &[10., 100.]),
    ];
    let out = run(&backend, &context, &result, &inputs);
    let expected =
        [30.3 * 3., 40.4 * 3., 50.5 * 2., 60.6 * 2., 100.1 * 4., 200.2 * 4., 500.5 / 4., 600.6 / 4.];
    assert!(out.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3), "{out:?}");
}

/// Sorting never gets numbers that cannot be compared.
#[test]
fn a_ranking_of_numbers_that_are_not_finite_has_each_number_once() {
    const COUNT: usize = 128;
    let backend = cpu();
    for is_softmax in [false, true] {
        let context = Context::new(16);
        let input = context.input("scores", Type::F32, [COUNT, 3]);
        let scores = if is_softmax { context.soft_max(&input, None, 1.0) } else { input.clone() };
        let ids = context.cont(&context.top_k(&scores, COUNT)).output();
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0, -1.0, f32::NAN, 0.0];
        let data: Vec<f32> = (0..3 * COUNT).map(|i| special[i * i % 11 % special.len()]).collect();
        let mut allocator = GraphAllocator::new(&backend.buffer_type());
        let ready = allocator.prepare(context.graph(&[&ids]).expect("a graph")).expect("memory");
        input.write(0, &data).expect("input size");
        backend.compute(&ready).expect("computes");
        for row in ids.to_vec::<i32>().expect("numbers").chunks_mut(COUNT) {
            row.sort_unstable();
            assert!(row.iter().copied().eq(0..COUNT as i32), "{row:?}");
        }
    }
}

#[test]
fn a_custom_operation_sees_its_operands_and_all_threads() {
    let backend = cpu();
    let context = Context::new(16);
    let a = context.input("a", Type::F32, [8]);
    let doubled = context.scale(&a, 2.0);
    let sum = context.custom(Type::F32, [2], &[Operand::Read(&doubled)], |task| {
        let (from, to) = (task.operand(0), task.result());
        for i in (task.thread..2).step_by(task.threads) {
            // SAFETY: both tensors are contiguous f32, 8 and 2 elements; threads write different elements.
            unsafe {
                let from = std::slice::from_raw_parts(from.data.cast::<f32>().add(4 * i), 4);
                *to.data.cast::<f32>().add(i) = from.iter().sum();
            }
        }
    });
    let sum = sum.output();
    let out = run(&backend, &context, &sum, &[(&a, &[1., 2., 3., 4., 5., 6., 7., 8.])]);
    assert_eq!(out, [20., 52.]);
}

/// A tensor has room for ten operands; ggml's own constructor takes nine.
#[test]
fn a_custom_operation_has_ten_operands() {
    let backend = cpu();
    let context = Context::new(32);
    let a = context.input("a", Type::F32, [1]);
    let terms: Vec<_> = (1..=10).map(|i| context.scale(&a, i as f32)).collect();
    let sum = |terms: &[&ggml::Tensor]| {
        let n = terms.len();
        let work = move |task: &ggml::CustomTask| {
            if task.thread == 0 {
                // SAFETY: all tensors are one f32.
                unsafe {
                    let sum = (0..n).map(|i| *task.operand(i).data.cast::<f32>()).sum();
                    *task.result().data.cast::<f32>() = sum;
                }
            }
        };
        let terms: Vec<Operand> = terms.iter().map(|term| Operand::Read(term)).collect();
        context.custom(Type::F32, [1], &terms, work).output()
    };
    let all: Vec<_> = terms.iter().collect();
    assert_eq!(run(&backend, &context, &sum(&all), &[(&a, &[3.0])]), [165.0]);
    let eleven = sum(&[&all[..], &[&a]].concat());
    assert!(matches!(context.graph(&[&eleven]).err(), Some(Error::Operands { op: "custom", .. })));
}

#[test]
fn operands_that_do_not_fit_are_errors() {
    let context = Context::new(16);
    let a = context.input("a", Type::F32, [2, 3]);
    let b = context.input("b", Type::F32, [3, 1]);
    let c = context.mul_mat(&a, &b);
    let d = context.add(&c, &a);
    match context.graph(&[&d]).err() {
        Some(Error::Operands { op, inputs }) => {
            assert_eq!((op, inputs.as_str()), ("mul_mat", "f32 [2, 3], f32 [3]"));
        }
        other => panic!("expected an operand error, got {other:?}"),
    }
}

#[test]
fn views_outside_of_their_tensor_are_errors() {
    const MAX: usize = usize::MAX;
    let fits = |shape: [usize; 4], strides: [usize; 3], offset: usize| {
        let context = Context::new(16);
        let a = context.input("a", Type::F32, [8, 4]);
        let view = context.view(&a, shape, strides, offset);
        context.graph(&[&view]).is_ok()
    };
    assert!(fits([8, 4, 1, 1], [32, 128, 128], 0) && fits([2, 3, 1, 1], [32, 128, 128], 32 + 24));
    assert!(!fits([8, 4, 1, 1], [32, 128, 128], 4));
    assert!(!fits([8, 1, 1, 1], [32, 128, 128], MAX - 16));
    assert!(!fits([8, 3, 1, 1], [MAX / 2 + 1, 128, 128], 0));
    assert!(!fits([MAX, MAX, 1, 1], [32, 128, 128], 0));
    assert!(!fits([8, 16, 1, 1], [0, 128, 128], 0), "rows on top of each other");
}

#[test]
fn a_full_context_is_an_error() {
    let context = Context::new(2);
    let a = context.input("a", Type::F32, [1]);
    let mut b = a.clone();
    for _ in 0..8 {
        b = context.add(&b, &a);
    }
    assert!(matches!(context.graph(&[&b]), Err(Error::ContextFull { .. })));
}

#[test]
fn tensors_are_placed_in_read_only_memory_without_a_copy() {
    #[repr(align(64))]
    struct Aligned([f32; 16]);
    static DATA: Aligned = Aligned([3.0; 16]);
    // SAFETY: plain floats viewed as bytes.
    let bytes: &'static [u8] = unsafe { std::slice::from_raw_parts(DATA.0.as_ptr().cast(), 64) };
    let buffer = Buffer::over(HostMemory::Static(bytes)).expect("aligned memory");
    let context = Context::new(4);
    let weight = context.tensor(Type::F32, [4, 2]);
    assert!(matches!(buffer.place(&weight, 4), Err(Error::Misaligned { .. })));
    assert!(matches!(buffer.place(&weight, 64), Err(Error::DataSize { .. })));
    buffer.place(&weight, 32).expect("fits");
    drop(buffer);
    assert_eq!(weight.to_vec::<f32>().expect("readable"), [3.0; 8]);
    assert!(weight.write(16, &[0.0f32; 8]).is_err(), "writing past the end is refused");
}

#[test]
fn part_of_a_tensor_is_copied_to_another() {
    let (one, other) = (Context::new(4), Context::new(4));
    let from = one.tensor(Type::F32, [6]);
    let [near, far] = [&one, &other].map(|context| context.tensor(Type::F32, [4]));
    for context in [&one, &other] {
        context.allocate(&BufferType::cpu()).expect("memory");
    }
    from.write(0, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("written");
    for to in [near, far] {
        to.clear().expect("cleared");
        to.copy_from(4, &from, 8, 12).expect("copied");
        assert_eq!(to.to_vec::<f32>().expect("readable"), [0.0, 3.0, 4.0, 5.0]);
    }
    from.copy_from(4, &from, 0, 16).expect("copied within the tensor");
    assert_eq!(from.to_vec::<f32>().expect("readable"), [1.0, 1.0, 2.0, 3.0, 4.0, 6.0]);
}

#[test]
fn a_stale_graph_is_refused_and_an_interrupt_stops() {
    let (flag, other) = (InterruptFlag::new(), InterruptFlag::new());
    let backend = Backend::cpu(1).expect("starts");
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let make = || {
        let context = Context::new(8);
        let a = context.input("a", Type::F32, [4]);
        let b = context.scale(&a, 2.0).output();
        (context.graph(&[&b]).expect("graph"), a)
    };
    let (first, a) = make();
    let first = allocator.prepare(first).expect("memory");
    a.write(0, &[1.0f32; 4]).expect("input");
    backend.compute(&first).expect("computes");
    let (second, _b) = make();
    let second = allocator.prepare(second).expect("memory");
    assert!(matches!(backend.compute(&first), Err(Error::StaleGraph)));
    flag.set();
    assert!(matches!(backend.compute_until(&second, &flag), Err(Error::Interrupted)));
    backend.compute_until(&second, &other).expect("another flag");
    backend.compute(&second).expect("to its end");
    flag.clear();
    backend.compute_until(&second, &flag).expect("allowed again");
}

#[test]
fn buffer_types_have_names() {
    assert_eq!(BufferType::cpu().name(), "CPU");
    assert!(BufferType::cpu().alignment() >= 32);
}

#[test]
fn blocks_of_any_alignment_are_dequantized() {
    // q8_0: scale 0.5 as f16, then 32 signed bytes -16 … 15; from an odd address.
    let block: Vec<u8> = [0, 0x00, 0x38].into_iter().chain((-16i8..16).map(|x| x as u8)).collect();
    let mut floats = [0f32; 32];
    assert!(Type::Q8_0.dequantize(&block[1..], &mut floats));
    assert_eq!((floats[0], floats[15], floats[31]), (-8.0, -0.5, 7.5));
    assert!(Type::F32.dequantize(&1.5f32.to_le_bytes(), &mut floats[..1]));
    assert!(Type::F16.dequantize(&[0x00, 0xb8], &mut floats[1..2]));
    assert_eq!(floats[..2], [1.5, -0.5]);
    assert!(!Type::Q8_0.dequantize(&block[2..], &mut floats), "no whole block");
    assert!(!Type::Q8_0.dequantize(&block[1..], &mut floats[..31]), "fewer floats than elements");
    assert!(!Type::I32.dequantize(&[0; 4], &mut floats[..1]), "a type without conversion");
}
