//! Rows that are written by number, numbers that a graph computes, and attention in one operation: what they give, and
//! what is refused because ggml would abort.

use ggml::{Backend, BufferType, Context, Error, GraphAllocator, Logits, ReadyGraph, Tensor, Type};

use crate::misuse::{error_of, f32s, refused};

fn ready(ctx: &Context, result: &Tensor) -> (GraphAllocator, ReadyGraph) {
    let mut allocator = GraphAllocator::new(&BufferType::cpu());
    let graph = allocator.prepare(ctx.graph(&[result]).expect("a graph")).expect("memory");
    (allocator, graph)
}

fn cpu() -> Backend {
    Backend::cpu(2).expect("the CPU backend starts")
}

/// The result of a graph of inputs that `fill` writes.
#[track_caller]
fn computed(ctx: &Context, result: &Tensor, fill: impl FnOnce()) -> Vec<f32> {
    let result = ctx.cont(result).output();
    let (_allocator, graph) = ready(ctx, &result);
    fill();
    cpu().compute(&graph).expect("computed");
    result.to_vec().expect("numbers")
}

#[test]
fn rows_are_written_by_number_and_after_what_reads_them() {
    let ctx = Context::new(32);
    let table = ctx.input("table", Type::F32, [2, 4]).output();
    let before = ctx.get_rows(&table, &ctx.constant(&[3, 0]));
    let values = ctx.reshape(&ctx.arange(10, 4), [2, 2]);
    let written = ctx.set_rows(&ctx.after(&table, &[&before]), &values, &ctx.constant(&[3, 1]));
    let result = ctx.concat(&ctx.reshape(&before, [4]), &ctx.reshape(&written, [8]));
    let have =
        computed(&ctx, &result, || table.write(0, &[0f32, 1., 2., 3., 4., 5., 6., 7.]).expect("a table"));
    assert_eq!(have, [6., 7., 0., 1., 0., 1., 12., 13., 4., 5., 10., 11.]);
}

#[test]
fn numbers_that_a_graph_computes_are_bounded() {
    let ctx = Context::new(32);
    let wanted = ctx.input("wanted", Type::F32, [5]);
    let table = ctx.reshape(&ctx.arange(0, 3), [1, 3]);
    let taken = ctx.get_rows(&table, &ctx.bounded_rows(&wanted, 3));
    let have = computed(&ctx, &taken, || {
        wanted.write(0, &[-1e30, 0.0, 1.0, f32::INFINITY, f32::NAN]).expect("numbers");
    });
    assert_eq!(have, [0., 0., 1., 2., 2.]);
}

#[test]
fn neighbouring_rows_have_room_or_are_an_error() {
    let ctx = Context::new(32);
    let first = ctx.input("first", Type::I32, [1]).output();
    let table = ctx.input("table", Type::F32, [1, 6]).output();
    let values = ctx.reshape(&ctx.arange(1, 3), [1, 3]);
    let written = ctx.set_rows(&table, &values, &ctx.row_numbers(&first, 3, 6));
    let (_allocator, graph) = ready(&ctx, &written);
    let run = |number: i32| {
        table.clear().expect("zeros");
        first.write(0, &[number]).expect("a number");
        cpu().compute(&graph).map(|()| table.to_vec::<f32>().expect("numbers"))
    };
    assert_eq!(run(3).expect("room"), [0., 0., 0., 1., 2., 3.]);
    for wrong in [4, -1, i32::MAX] {
        assert!(matches!(run(wrong), Err(Error::Row { row, .. }) if row == wrong), "{wrong}");
        assert_eq!(table.to_vec::<f32>().expect("numbers"), [0.0; 6], "nothing was written");
    }
    assert_eq!(run(0).expect("room"), [1., 2., 3., 0., 0., 0.]);
}

/// Blocks, and bit patterns that are NaN as f32, are moved as they are.
#[test]
fn words_are_the_bytes_of_a_tensor() {
    let memory = Context::new(2);
    let rows = memory.tensor(Type::Q8_0, [64, 3]);
    memory.allocate(&BufferType::cpu()).expect("memory");
    let bytes: Vec<u8> = (0..rows.bytes()).map(|at| if at % 8 < 4 { 0xff } else { at as u8 }).collect();
    rows.write(0, &bytes).expect("bytes");
    let ctx = Context::new(8);
    let words = ctx.words(&rows, [17, 3]);
    let moved = ctx.set_rows(&words, &ctx.get_rows(&words, &ctx.constant(&[2])), &ctx.constant(&[0]));
    let (_allocator, graph) = ready(&ctx, &moved);
    cpu().compute(&graph).expect("computed");
    let mut have = vec![0u8; rows.bytes()];
    rows.read(0, &mut have).expect("bytes");
    assert!(have[..68] == bytes[136..] && have[68..] == bytes[68..]);
}

/// Weights 1 : 3, of logits 0 and ln 3.
#[test]
fn attention_in_one_operation_equals_a_calculation_by_hand() {
    let with = |hidden: bool, sink: Option<f32>| {
        let ctx = Context::new(32);
        let [q, k, v] = [[8, 1, 1], [8, 2, 1], [8, 2, 1]].map(|shape| ctx.input("x", Type::F32, shape));
        let mask = ctx.input("mask", Type::F32, [2, 1]);
        let sinks = ctx.input("sinks", Type::F32, [1]).output();
        let logits = Logits { scale: 1.0, softcap: None };
        let mask_f16 = ctx.cast(&mask, Type::F16);
        // Sink logits that the graph computes.
        let computed_sinks = sink.map(|_| ctx.scale_add(&ctx.scale(&sinks, 2.0), 1.0, -1.0));
        let out = ctx.flash_attention(&q, [&k, &v], &mask_f16, logits, computed_sinks.as_ref());
        computed(&ctx, &out, || {
            q.write(0, &[1f32, 0., 0., 0., 0., 0., 0., 0.]).expect("a query");
            let row = |first: f32| [first, 0., 0., 0., 0., 0., 0., 0.];
            k.write(0, &[row(0.0), row(3f32.ln())].concat()).expect("keys");
            v.write(0, &[row(4.0), row(8.0)].concat()).expect("values");
            mask.write(0, &[if hidden { f32::NEG_INFINITY } else { 0.0 }, 0.0]).expect("a mask");
            if let Some(sink) = sink {
                sinks.write(0, &[sink]).expect("sink logits");
            }
        })[0]
    };
    assert!((with(false, None) - 7.0).abs() < 1e-4);
    assert!((with(true, None) - 8.0).abs() < 1e-4);
    assert!((with(false, Some((4f32.ln() + 1.0) / 2.0)) - 3.5).abs() < 1e-4);
}

/// Logits of 0 and a sink logit of ln 2 that the graph computes: each weighs a quarter.
#[test]
fn a_softmax_takes_sink_logits_that_are_computed() {
    let ctx = Context::new(16);
    let [x, mask] = [(); 2].map(|()| ctx.input("x", Type::F32, [2, 1, 1]));
    let sinks = ctx.log(&ctx.reshape(&ctx.arange(2, 1), [1]));
    let weights = ctx.soft_max_with_sink_logits(&x, &mask, 1.0, Some(&sinks));
    let have = computed(&ctx, &weights, || {
        for zeros in [&x, &mask] {
            zeros.write(0, &[0f32; 2]).expect("zeros");
        }
    });
    assert!(have.iter().all(|weight| (weight - 0.25).abs() < 1e-6), "{have:?}");
}

#[test]
fn elements_and_their_groups() {
    let unary = |of: fn(&Context, &Tensor) -> Tensor, x: &[f32]| {
        let ctx = Context::new(16);
        let input = ctx.input("x", Type::F32, [x.len()]);
        computed(&ctx, &of(&ctx, &input), || input.write(0, x).expect("numbers"))
    };
    assert_eq!(unary(|ctx, x| ctx.sqrt(x), &[4.0, 0.0]), [2.0, 0.0]);
    assert_eq!(unary(|ctx, x| ctx.abs(x), &[-4.0, 1.0]), [4.0, 1.0]);
    assert_eq!(unary(|ctx, x| ctx.neg(x), &[-4.0, 1.0]), [4.0, -1.0]);
    assert_eq!(unary(|ctx, x| ctx.step(x), &[-4.0, 0.0, 0.5]), [0.0, 0.0, 1.0]);
    assert_eq!(unary(|ctx, x| ctx.log(&ctx.step(x)), &[-4.0, 0.5]), [f32::NEG_INFINITY, 0.0]);
    assert_eq!(unary(|ctx, x| ctx.max_of(x, 2), &[-4.0, -1.0, 3.0, 2.0]), [-1.0, 3.0]);
    assert_eq!(unary(|ctx, x| ctx.mean(x), &[-4.0, -1.0, 3.0, 2.0]), [0.0]);
    assert_eq!(unary(|ctx, x| ctx.transposed(&ctx.reshape(x, [2, 2])), &[1., 2., 3., 4.]), [1., 3., 2., 4.]);
    let there_and_back = |ctx: &Context, x: &Tensor, ty| ctx.cast(&ctx.cast(x, ty), Type::F32);
    assert_eq!(unary(|ctx, x| ctx.cast(&ctx.cast(x, Type::I32), Type::F32), &[1.9, -1.9]), [1.0, -1.0]);
    let ctx = Context::new(8);
    let x = ctx.input("x", Type::F32, [32]);
    let have =
        computed(&ctx, &there_and_back(&ctx, &x, Type::Q8_0), || x.write(0, &[127f32; 32]).expect("numbers"));
    assert_eq!(have, [127.0; 32]);
}

#[test]
fn rows_that_ggml_cannot_write_are_refused() {
    let table = |ctx: &Context| f32s(ctx, [4, 3, 1, 1]);
    let numbers = |ctx: &Context, shape: [usize; 2]| ctx.input("numbers", Type::I32, shape);
    let rows = |ctx: &Context, shape: [usize; 4]| f32s(ctx, shape);
    refused("wider rows", |ctx| ctx.set_rows(&table(ctx), &rows(ctx, [5, 1, 1, 1]), &numbers(ctx, [1, 1])));
    refused("fewer rows", |ctx| ctx.set_rows(&table(ctx), &rows(ctx, [4, 1, 1, 1]), &numbers(ctx, [2, 1])));
    refused("more heads", |ctx| ctx.set_rows(&table(ctx), &rows(ctx, [4, 1, 2, 1]), &numbers(ctx, [1, 1])));
    refused("numbers of other heads", |ctx| {
        ctx.set_rows(&f32s(ctx, [4, 3, 4, 1]), &rows(ctx, [4, 1, 4, 1]), &numbers(ctx, [1, 3]))
    });
    refused("a fourth dimension", |ctx| {
        ctx.set_rows(&f32s(ctx, [4, 3, 1, 2]), &rows(ctx, [4, 1, 1, 2]), &numbers(ctx, [1, 1]))
    });
    refused("rows that are no floats", |ctx| {
        ctx.set_rows(&table(ctx), &ctx.tensor(Type::F16, [4, 1]), &numbers(ctx, [1, 1]))
    });
    refused("a table of integers", |ctx| {
        ctx.set_rows(&ctx.tensor(Type::I32, [4, 3]), &rows(ctx, [4, 1, 1, 1]), &numbers(ctx, [1, 1]))
    });
    refused("a table that floats are not converted to", |ctx| {
        let table = ctx.tensor(Type::from_id(16).expect("iq2_xxs"), [256, 3]);
        ctx.set_rows(&table, &rows(ctx, [256, 1, 1, 1]), &numbers(ctx, [1, 1]))
    });
    refused("a table across", |ctx| {
        let table = ctx.permute(&table(ctx), [1, 0, 2, 3]);
        ctx.set_rows(&table, &rows(ctx, [3, 1, 1, 1]), &numbers(ctx, [1, 1]))
    });
    refused("numbers that are no integers", |ctx| {
        ctx.set_rows(&table(ctx), &rows(ctx, [4, 1, 1, 1]), &ctx.input("numbers", Type::I64, [1]))
    });
    refused("numbers that nothing bounds", |ctx| {
        let computed = ctx.cast(&f32s(ctx, [1, 1, 1, 1]), Type::I32);
        ctx.set_rows(&table(ctx), &rows(ctx, [4, 1, 1, 1]), &computed)
    });
    refused("numbers with other bounds", |ctx| {
        let computed = ctx.bounded_rows(&f32s(ctx, [1, 1, 1, 1]), 4);
        ctx.set_rows(&table(ctx), &rows(ctx, [4, 1, 1, 1]), &computed)
    });
    refused("numbers below 0", |ctx| {
        let computed = ctx.cast(&ctx.clamp(&f32s(ctx, [1, 1, 1, 1]), 2.0), Type::I32);
        ctx.get_rows(&table(ctx), &computed)
    });
    refused("bounds of no rows", |ctx| ctx.bounded_rows(&f32s(ctx, [1, 1, 1, 1]), 0));
    refused("bounds beyond f32", |ctx| ctx.bounded_rows(&f32s(ctx, [1, 1, 1, 1]), (1 << 24) + 1));
    refused("more rows than there are", |ctx| ctx.row_numbers(&numbers(ctx, [1, 1]), 4, 3));
    refused("several first rows", |ctx| ctx.row_numbers(&numbers(ctx, [2, 1]), 1, 3));
    let error = error_of("rows of the table itself", |ctx| {
        let table = table(ctx);
        ctx.set_rows(&table, &ctx.view(&table, [4, 1], [16; 3], 0), &numbers(ctx, [1, 1]))
    });
    assert!(matches!(error, Error::Overlap { op: "set_rows", .. }), "{error}");
}

/// The numbers of one table may be the words of another: then a graph that selects by them may not write them.
#[test]
fn numbers_are_not_written_as_words() {
    let error = error_of("numbers that are written as words", |ctx| {
        let numbers = ctx.input("numbers", Type::I32, [2]);
        let taken = ctx.get_rows(&f32s(ctx, [4, 3, 1, 1]), &numbers);
        let words = ctx.words(&numbers, [1, 2]);
        ctx.set_rows(&words, &f32s(ctx, [1, 1, 1, 1]), &ctx.constant(&[0]));
        taken
    });
    assert!(matches!(error, Error::Overlap { .. }), "{error}");
    // Another graph that writes them makes what is known of them unknown.
    let memory = Context::new(2);
    let numbers = memory.tensor(Type::I32, [1]).named("numbers");
    memory.allocate(&BufferType::cpu()).expect("memory");
    let select = Context::new(8);
    let rows = select.get_rows(&select.reshape(&select.arange(0, 3), [1, 3]), &numbers).output();
    let (_select, selecting) = ready(&select, &rows);
    let write = Context::new(8);
    let value = write.input("value", Type::F32, [1, 1]);
    let written = write.set_rows(&write.words(&numbers, [1, 1]), &value, &write.constant(&[0]));
    let (_write, writing) = ready(&write, &written);
    let run = |number: i32| {
        numbers.write(0, &[2]).expect("a number");
        cpu().compute(&selecting).expect("a row");
        value.write(0, &[f32::from_bits(number as u32)]).expect("a value");
        cpu().compute(&writing).expect("written");
        cpu().compute(&selecting).map(|()| rows.to_vec::<f32>().expect("a row")[0])
    };
    assert_eq!(run(1).expect("a row"), 1.0);
    assert!(matches!(run(3), Err(Error::Row { row: 3, .. })));
}

#[test]
fn operations_of_other_shapes_are_refused() {
    let x = |ctx: &Context| f32s(ctx, [4, 3, 1, 1]);
    let across = |ctx: &Context| ctx.permute(&x(ctx), [1, 0, 2, 3]);
    refused("arange", |ctx| ctx.arange(0, 0));
    refused("arange", |ctx| ctx.arange(0, (1 << 24) + 1));
    refused("arange", |ctx| ctx.arange(i32::MIN, 1));
    refused("arange", |ctx| ctx.arange(0, usize::MAX));
    refused("cast", |ctx| ctx.cast(&x(ctx), Type::Q8_0));
    refused("cast", |ctx| ctx.cast(&ctx.tensor(Type::I64, [4]), Type::F32));
    refused("cast", |ctx| ctx.cast(&ctx.tensor(Type::F16, [4]), Type::I32));
    refused("cast", |ctx| ctx.cast(&ctx.tensor(Type::Q8_0, [32]), Type::F16));
    refused("max_of", |ctx| ctx.max_of(&x(ctx), 3));
    refused("max_of", |ctx| ctx.max_of(&x(ctx), 0));
    refused("max_of", |ctx| ctx.max_of(&across(ctx), 3));
    refused("mean", |ctx| ctx.mean(&across(ctx)));
    refused("sqrt", |ctx| ctx.sqrt(&across(ctx)));
    refused("log", |ctx| ctx.log(&ctx.tensor(Type::I32, [4])));
    refused("step", |ctx| ctx.step(&across(ctx)));
    refused("abs", |ctx| ctx.abs(&across(ctx)));
    refused("neg", |ctx| ctx.neg(&across(ctx)));
    refused("transposed", |ctx| ctx.transposed(&ctx.tensor(Type::Q8_0, [32, 2])));
    refused("words", |ctx| ctx.words(&across(ctx), [12]));
    refused("words", |ctx| ctx.words(&x(ctx), [11]));
    refused("words", |ctx| ctx.words(&ctx.tensor(Type::Q8_0, [32, 1]), [8]));
    refused("words", |ctx| {
        let halves = ctx.tensor(Type::F16, [8]);
        ctx.words(&ctx.view(&halves, [2], [4; 3], 2), [1])
    });
    refused("after", |ctx| {
        let node = x(ctx);
        ctx.after(&node, &[&node; 10])
    });
}

#[test]
fn attention_that_ggml_asserts_on_is_refused() {
    let with = |what: &str,
                q: [usize; 4],
                k: [usize; 4],
                v: [usize; 4],
                mask: (Type, [usize; 2]),
                cap: Option<f32>| {
        refused(what, |ctx| {
            let [q, k, v] = [q, k, v].map(|shape| f32s(ctx, shape));
            let mask = ctx.tensor(mask.0, mask.1);
            ctx.flash_attention(&q, [&k, &v], &mask, Logits { scale: 1.0, softcap: cap }, None)
        });
    };
    let (q, rows, mask) = ([8, 2, 4, 1], [8, 5, 2, 1], (Type::F16, [5, 2]));
    with("queries of another size", [16, 2, 4, 1], rows, rows, mask, None);
    with("heads that do not divide", [8, 2, 3, 1], rows, rows, mask, None);
    with("fewer values", q, rows, [8, 4, 2, 1], mask, None);
    with("values of other heads", q, rows, [8, 5, 1, 1], mask, None);
    with("a mask of f32", q, rows, rows, (Type::F32, [5, 2]), None);
    with("a mask of fewer rows", q, rows, rows, (Type::F16, [4, 2]), None);
    with("a mask of fewer queries", q, rows, rows, (Type::F16, [5, 1]), None);
    with("several batches", [8, 2, 4, 2], [8, 5, 2, 2], [8, 5, 2, 2], mask, None);
    with("a cap of nothing", q, rows, rows, mask, Some(0.0));
    with("a cap that is no number", q, rows, rows, mask, Some(f32::NAN));
    refused("keys of integers", |ctx| {
        let (q, k) = (f32s(ctx, q), ctx.tensor(Type::I32, [8, 5, 2]));
        let mask = ctx.tensor(Type::F16, [5, 2]);
        ctx.flash_attention(&q, [&k, &k], &mask, Logits { scale: 1.0, softcap: None }, None)
    });
    refused("sink logits of other heads", |ctx| {
        let (q, k) = (f32s(ctx, q), f32s(ctx, rows));
        let mask = ctx.tensor(Type::F16, [5, 2]);
        let sinks = f32s(ctx, [3, 1, 1, 1]);
        ctx.flash_attention(&q, [&k, &k], &mask, Logits { scale: 1.0, softcap: None }, Some(&sinks))
    });
}
