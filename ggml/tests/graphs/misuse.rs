//! Whatever safe code does, it gets an error: no abort, no access outside a tensor's memory, none to memory
//! that is gone.

use ggml::{
    Backend, Buffer, BufferType, Context, Error, GraphAllocator, HostMemory, Operand, ReadyGraph, RopeMode,
    RopeParameters, Tensor, Type,
};

fn cpu() -> Backend {
    Backend::cpu(2).expect("the CPU backend starts")
}

/// A tensor of `n` floats in read-only memory.
fn read_only(n: usize) -> Tensor {
    #[repr(align(64))]
    struct Aligned([u8; 4096]);
    static ZEROS: Aligned = Aligned([0; 4096]);
    let buffer = Buffer::over(HostMemory::Static(&ZEROS.0)).expect("aligned");
    let tensor = Context::new(1).tensor(Type::F32, [n]).named("weights");
    buffer.place(&tensor, 0).expect("fits");
    tensor
}

/// Records one operation, or several, and returns the graph's error.
#[track_caller]
pub(crate) fn error_of(what: &str, record: impl FnOnce(&Context) -> Tensor) -> Error {
    let context = Context::new(32);
    let result = record(&context);
    context.graph(&[&result]).err().unwrap_or_else(|| panic!("{what} was accepted: {result:?}"))
}

#[track_caller]
pub(crate) fn refused(what: &str, record: impl FnOnce(&Context) -> Tensor) {
    let error = error_of(what, record);
    assert!(matches!(error, Error::Operands { .. }), "{what}: {error}");
}

pub(crate) fn f32s(ctx: &Context, shape: [usize; 4]) -> Tensor {
    ctx.input("x", Type::F32, shape)
}

#[test]
fn impossible_shapes_are_refused() {
    const MAX: usize = usize::MAX;
    for shape in
        [[0, 1, 1, 1], [4, 0, 1, 1], [0, MAX, MAX, 1], [MAX, 2, 1, 1], [1 << 31, 1, 1, 1], [4, 4, 1, MAX]]
    {
        refused(&format!("tensor {shape:?}"), |ctx| f32s(ctx, shape));
        refused(&format!("custom {shape:?}"), |ctx| ctx.custom(Type::F32, shape, &[], |_| ()));
    }
    refused("half a block", |ctx| ctx.tensor(Type::Q8_0, [48]));
    refused("an empty constant", |ctx| ctx.constant(&[]));
    for n in [MAX, 1 << 40] {
        assert!(Context::new(n).graph(&[]).is_err(), "a context for {n} tensors");
    }
}

#[test]
fn views_that_ggml_cannot_use_are_refused() {
    const MAX: usize = usize::MAX;
    refused("an empty view", |ctx| ctx.view(&f32s(ctx, [8, 1, 1, 1]), [0], [0; 3], 0));
    refused("an odd offset", |ctx| ctx.view(&f32s(ctx, [8, 1, 1, 1]), [1], [4; 3], 2));
    refused("an odd stride", |ctx| ctx.view(&f32s(ctx, [8, 1, 1, 1]), [1, 2], [6; 3], 0));
    refused("rows behind the end", |ctx| ctx.rows(&f32s(ctx, [2, 4, 1, 1]), MAX / 8 + 1, 1));
    refused("half a block", |ctx| ctx.reshape(&ctx.tensor(Type::Q8_0, [64]), [2, 32]));
    refused("an empty shape", |ctx| ctx.reshape(&f32s(ctx, [8, 1, 1, 1]), [0, MAX]));
    // The elements of a block would be apart; the tensor would seem to have more bytes than there are.
    refused("blocks across", |ctx| ctx.permute(&ctx.tensor(Type::Q8_0, [32, 3]), [1, 0, 2, 3]));
}

#[test]
fn recurrent_operations_of_other_shapes_are_refused() {
    let conv = |x: [usize; 4], kernels: [usize; 4]| {
        refused("ssm_conv", |ctx| ctx.ssm_conv(&f32s(ctx, x), &f32s(ctx, kernels)));
    };
    conv([9, 8, 1, 1], [4, 7, 1, 1]);
    conv([3, 8, 1, 1], [4, 8, 1, 1]);
    conv([9, 8, 1, 1], [2, 8, 1, 1]);
    conv([9, 8, 2, 1], [4, 8, 1, 1]);
    // Key heads, value heads, and the size of a head, of the state and of the gates.
    let rule = |keys: usize, heads: usize, d: usize, state: usize, gates: usize| {
        refused("gated_delta_net", |ctx| {
            let [q, k] = [(); 2].map(|()| f32s(ctx, [d, keys, 5, 1]));
            let gates = f32s(ctx, [1, gates, 5, 1]);
            let state = f32s(ctx, [state, state, heads, 1]);
            ctx.gated_delta_net([&q, &k, &f32s(ctx, [d, heads, 5, 1])], &gates, &gates, &state)
        });
    };
    rule(2, 3, 16, 16, 3);
    rule(2, 4, 24, 24, 4);
    rule(2, 4, 16, 32, 4);
    rule(2, 4, 16, 16, 2);
    refused("repeat", |ctx| ctx.repeat(&f32s(ctx, [4, 2, 1, 1]), 3));
    refused("repeat", |ctx| ctx.repeat(&f32s(ctx, [4, 1, 1, 1]), usize::MAX));
}

#[test]
fn layouts_that_ggml_asserts_on_are_refused() {
    let across = |ctx: &Context| ctx.permute(&f32s(ctx, [3, 4, 1, 1]), [1, 0, 2, 3]);
    // Contiguous, and yet its elements are not neighbours.
    let single = |ctx: &Context| ctx.permute(&f32s(ctx, [3, 1, 1, 1]), [1, 0, 2, 3]);
    // One row in each of two matrices, at strides that no fresh tensor has.
    let apart = |ctx: &Context| ctx.view(&f32s(ctx, [16, 1, 1, 1]), [8, 1, 2], [1 << 20, 32, 64], 0);
    refused("scale", |ctx| ctx.scale(&across(ctx), 2.0));
    refused("scale", |ctx| ctx.scale(&single(ctx), 2.0));
    refused("scale", |ctx| ctx.scale(&apart(ctx), 2.0));
    refused("concat", |ctx| ctx.concat(&f32s(ctx, [4, 2, 1, 1]), &f32s(ctx, [4, 3, 1, 1])));
    refused("concat", |ctx| ctx.concat(&f32s(ctx, [4, 1, 1, 1]), &across(ctx)));
    refused("pad", |ctx| ctx.pad(&across(ctx), 4));
    refused("pad", |ctx| ctx.pad(&f32s(ctx, [4, 1, 1, 1]), usize::MAX));
    refused("pad", |ctx| ctx.pad(&f32s(ctx, [4, 1, 1, 1]), i32::MAX as usize + 1));
    refused("rms_norm", |ctx| ctx.rms_norm(&across(ctx), 1e-5));
    refused("rms_norm", |ctx| ctx.rms_norm(&f32s(ctx, [4, 1, 1, 1]), -1.0));
    refused("rms_norm", |ctx| ctx.rms_norm(&f32s(ctx, [4, 1, 1, 1]), f32::NAN));
    refused("add", |ctx| ctx.add(&across(ctx), &f32s(ctx, [4, 3, 1, 1])));
    refused("sub", |ctx| ctx.sub(&single(ctx), &f32s(ctx, [1, 3, 1, 1])));
    refused("mul", |ctx| ctx.mul(&single(ctx), &f32s(ctx, [1, 3, 1, 1])));
    refused("sum_rows", |ctx| ctx.sum_rows(&single(ctx)));
    refused("soft_max", |ctx| ctx.soft_max(&across(ctx), None, 1.0));
    refused("mask", |ctx| ctx.soft_max(&f32s(ctx, [4, 4, 3, 1]), Some(&f32s(ctx, [4, 4, 2, 1])), 1.0));
    refused("layer_norm", |ctx| ctx.layer_norm(&across(ctx), 1e-5));
    refused("layer_norm", |ctx| ctx.layer_norm(&f32s(ctx, [4, 1, 1, 1]), f32::NAN));
    refused("silu", |ctx| ctx.silu(&across(ctx)));
    refused("square", |ctx| ctx.square(&apart(ctx)));
    refused("scale_add", |ctx| ctx.scale_add(&across(ctx), 1.0, 1.0));
    refused("div", |ctx| ctx.div(&across(ctx), &f32s(ctx, [4, 1, 1, 1])));
    refused("geglu", |ctx| ctx.geglu(&apart(ctx), &apart(ctx)));
    refused("swiglu", |ctx| ctx.swiglu(&apart(ctx), &apart(ctx)));
    refused("swiglu", |ctx| {
        let x = ctx.tensor(Type::I32, [4]);
        ctx.swiglu(&x, &x)
    });
    let k = |ctx: &Context| f32s(ctx, [4, 2, 1, 1]);
    refused("mul_mat", |ctx| ctx.mul_mat(&ctx.tensor(Type::I32, [4, 2]), &k(ctx)));
    refused("mul_mat", |ctx| ctx.mul_mat(&k(ctx), &across(ctx)));
    refused("mul_mat", |ctx| ctx.mul_mat(&ctx.view(&k(ctx), [4, 2], [0; 3], 0), &k(ctx)));
    refused("get_rows", |ctx| ctx.get_rows(&ctx.tensor(Type::I8, [4, 2]), &ctx.input("i", Type::I32, [1])));
    refused("get_rows", |ctx| ctx.get_rows(&across(ctx), &ctx.input("i", Type::I32, [1])));
}

#[test]
fn ropes_that_ggml_asserts_on_are_refused() {
    let p = RopeParameters {
        dims: 4,
        mode: RopeMode::Neox,
        base: 10000.0,
        frequency_scale: 1.0,
        original_context: 0,
        ext_factor: 0.0,
        attention_factor: 1.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
    };
    let positions = |ctx: &Context, shape: [usize; 2]| ctx.input("positions", Type::I32, shape);
    let x = |ctx: &Context| f32s(ctx, [4, 2, 3, 1]);
    refused("positions", |ctx| ctx.rope(&x(ctx), &positions(ctx, [3, 2]), None, &p));
    refused("integers", |ctx| ctx.rope(&ctx.tensor(Type::I32, [4, 2, 3]), &positions(ctx, [3, 1]), None, &p));
    refused("no pairs", |ctx| {
        ctx.rope(&x(ctx), &positions(ctx, [3, 1]), None, &RopeParameters { dims: 0, ..p })
    });
    refused("elements apart", |ctx| {
        ctx.rope(
            &ctx.permute(&x(ctx), [1, 0, 2, 3]),
            &positions(ctx, [3, 1]),
            None,
            &RopeParameters { dims: 2, ..p },
        )
    });
    refused("factors apart", |ctx| {
        let factors = ctx.permute(&f32s(ctx, [2, 2, 1, 1]), [1, 0, 2, 3]);
        ctx.rope(&x(ctx), &positions(ctx, [3, 1]), Some(&factors), &p)
    });
    refused("a context beyond i32", |ctx| {
        ctx.rope(&x(ctx), &positions(ctx, [3, 1]), None, &RopeParameters { original_context: 1 << 32, ..p })
    });
}

#[test]
fn copies_that_ggml_cannot_make_are_refused() {
    let quantised = |ctx: &Context, shape: [usize; 2]| ctx.tensor(Type::Q8_0, shape);
    refused("types", |ctx| ctx.copy(&ctx.tensor(Type::I64, [4]), &f32s(ctx, [4, 1, 1, 1])));
    // ggml would write 32 times the bytes of the target.
    refused("blocks of rows that are apart", |ctx| {
        let from = ctx.view(&quantised(ctx, [64, 4]), [32, 4], [68, 272, 272], 0);
        ctx.copy(&from, &quantised(ctx, [128, 1]))
    });
    refused("rows of less than a block", |ctx| ctx.copy(&f32s(ctx, [16, 2, 1, 1]), &quantised(ctx, [32, 1])));
    let error = error_of("overlap", |ctx| {
        let x = ctx.input("x", Type::F32, [12]);
        ctx.copy(&ctx.view(&x, [8], [0; 3], 0), &ctx.view(&x, [8], [0; 3], 16))
    });
    assert!(matches!(&error, Error::Overlap { op: "copy", .. }), "{error}");
}

#[test]
fn bytes_outside_a_tensor_are_not_copied() {
    let context = Context::new(4);
    let [from, to] = [8, 4].map(|n| context.tensor(Type::F32, [n]));
    let copy = |to: &Tensor, at, from: &Tensor, first, bytes| to.copy_from(at, from, first, bytes);
    assert!(matches!(copy(&to, 0, &from, 0, 16), Err(Error::NotAllocated(_))));
    context.allocate(&BufferType::cpu()).expect("memory");
    copy(&to, 0, &from, 16, 16).expect("the whole tensor");
    const MAX: usize = usize::MAX;
    for (at, first, bytes) in [(0, 0, 17), (4, 0, 16), (0, 20, 16), (MAX, 0, 1), (0, MAX, 1), (0, 0, MAX)] {
        let refused = copy(&to, at, &from, first, bytes);
        assert!(matches!(refused, Err(Error::DataSize { .. })), "{at} {first} {bytes}");
    }
    assert!(matches!(copy(&read_only(4), 0, &from, 0, 16), Err(Error::ReadOnly(_))));
    let unplaced = Context::new(1).tensor(Type::F32, [4]);
    assert!(matches!(copy(&to, 0, &unplaced, 0, 16), Err(Error::NotAllocated(_))));
}

/// Without memory of its own, the allocator's memory must not be left behind in tensors of a refused graph.
#[test]
fn a_refused_preparation_gives_no_memory() {
    let context = Context::new(4);
    let x = context.input("x", Type::F32, [64]);
    let copy = context.copy(&x, &read_only(64));
    let mut allocator = GraphAllocator::new(&BufferType::cpu());
    let refused = allocator.prepare(context.graph(&[&copy]).expect("a graph"));
    assert!(matches!(refused, Err(Error::ReadOnly(name)) if name == "weights"));
    assert!(!x.is_allocated(), "memory that is gone when the allocator is dropped");
}

#[test]
fn a_stale_context_gives_no_access_to_freed_memory() {
    let mut allocator = GraphAllocator::new(&BufferType::cpu());
    let mut prepare = |n: usize| {
        let context = Context::new(8);
        let x = context.input("x", Type::F32, [n]);
        let y = context.scale(&x, 2.0).output();
        let graph = allocator.prepare(context.graph(&[&y]).expect("a graph")).expect("memory");
        (context, x, graph)
    };
    let (context, x, graph) = prepare(4);
    let _larger = prepare(1 << 16);
    let view = context.view(&x, [2], [0; 3], 0);
    assert!(matches!(context.allocate(&BufferType::cpu()), Err(Error::StaleGraph)));
    assert!(matches!(view.write(0, &[1f32]), Err(Error::StaleGraph)));
    assert!(matches!(view.to_vec::<f32>(), Err(Error::StaleGraph)));
    assert!(matches!(cpu().compute(&graph), Err(Error::StaleGraph)));
    let error =
        error_of("a target whose memory is gone", |ctx| ctx.copy(&ctx.input("y", Type::F32, [4]), &x));
    assert!(matches!(error, Error::ForeignOperand { op: "copy", .. }), "{error}");
}

#[test]
fn a_context_without_memory_on_purpose_is_not_allocated() {
    let context = Context::new(2);
    let x = context.tensor(Type::F32, [4]);
    Buffer::no_memory().expect("a buffer").mark_unallocated(&x);
    assert!(matches!(context.allocate(&BufferType::cpu()), Err(Error::NotAllocated(_))));
}

#[test]
fn repacked_memory_holds_whole_matrices_only() {
    let Some(repacked) = BufferType::cpu_repacked() else { return };
    let allocate = |ty: Type, shape: [usize; 4]| {
        let context = Context::new(1);
        let tensor = context.tensor(ty, shape);
        context.allocate(&repacked).map(|_| tensor)
    };
    assert!(matches!(allocate(Type::F32, [32, 16, 1, 1]), Err(Error::Repacked { .. })));
    let Ok(matrix) = allocate(Type::Q4_0, [256, 16, 1, 1]) else { return };
    let bytes = vec![0u8; matrix.bytes()];
    matrix.write(0, &bytes).expect("the whole matrix");
    assert!(matches!(matrix.write(0, &bytes[18..]), Err(Error::Repacked { .. })));
    assert!(matches!(matrix.to_vec::<u8>(), Err(Error::Repacked { .. })));
    assert!(matches!(matrix.clear(), Err(Error::Repacked { .. })));

    assert!(matches!(allocate(Type::Q4_0, [256, 16, 2, 2]), Err(Error::Repacked { .. })));
    let experts = allocate(Type::Q4_0, [256, 16, 4, 1]).expect("several matrices");
    experts.write(0, &vec![0u8; experts.bytes()]).expect("all matrices");

    let context = Context::new(8);
    let x = context.input("x", Type::F32, [256, 1]);
    let fine = context.mul_mat(&matrix, &x).output();
    let copy = context.cont(&matrix).output();
    let mut allocator = GraphAllocator::new(&BufferType::cpu());
    let graph = allocator.prepare(context.graph(&[&fine, &copy]).expect("a graph")).expect("memory");
    assert!(matches!(cpu().compute(&graph), Err(Error::Unsupported { op, .. }) if op == "CONT"));

    let context = Context::new(2);
    let y = context.scale(&context.input("x", Type::F32, [4]), 2.0);
    let graph = GraphAllocator::new(&repacked).prepare(context.graph(&[&y]).expect("a graph"));
    assert!(matches!(graph, Err(Error::Repacked { .. })));
}

#[test]
fn rows_that_a_table_does_not_have_are_refused() {
    let (backend, context) = (cpu(), Context::new(8));
    let table = context.input("table", Type::F32, [2, 3]);
    let indices = context.input("tokens", Type::I32, [2]);
    let rows = context.get_rows(&table, &indices).output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(context.graph(&[&rows]).expect("a graph")).expect("memory");
    table.write(0, &[0f32, 1., 2., 3., 4., 5.]).expect("a table");
    for wrong in [-1, 3, i32::MAX] {
        indices.write(0, &[0, wrong]).expect("indices");
        match backend.compute(&graph) {
            Err(Error::Row { tensor, row, rows: 3 }) if row == wrong => assert_eq!(tensor, "tokens"),
            other => panic!("row {wrong} of 3: {other:?}"),
        }
    }
    indices.write(0, &[2, 0]).expect("indices");
    backend.compute(&graph).expect("rows that are there");
    assert_eq!(rows.to_vec::<f32>().expect("rows"), [4., 5., 0., 1.]);

    refused("computed indices", |ctx| {
        let indices = ctx.input("i", Type::I32, [1]);
        ctx.get_rows(&f32s(ctx, [4, 2, 1, 1]), &ctx.cont(&indices))
    });
    let error = error_of("indices that the graph writes", |ctx| {
        let indices = ctx.input("i", Type::I32, [1]);
        let rows = ctx.get_rows(&f32s(ctx, [4, 2, 1, 1]), &indices);
        ctx.copy(&ctx.input("j", Type::I32, [1]), &indices);
        rows
    });
    assert!(matches!(error, Error::Overlap { op: "get_rows", .. }), "{error}");
}

/// A table of 3 rows in memory of its own, and a selection of two of them.
struct Selected {
    memory: Context,
    numbers: Tensor,
    /// `[2, 2]`: the selected rows.
    rows: Tensor,
    graph: ReadyGraph,
    _allocator: GraphAllocator,
}

impl Selected {
    /// `before` gets the selection, in its memory, before it is known as one.
    fn new(before: impl FnOnce(&Tensor)) -> Selected {
        let memory = Context::new(8);
        let table = memory.tensor(Type::F32, [2, 3]);
        let numbers = memory.tensor(Type::I32, [2]).named("numbers");
        memory.allocate(&BufferType::cpu()).expect("memory");
        table.write(0, &[0f32, 1., 2., 3., 4., 5.]).expect("a table");
        before(&numbers);
        let context = Context::new(8);
        let rows = context.get_rows(&table, &numbers).output();
        let mut allocator = GraphAllocator::new(&BufferType::cpu());
        let graph = allocator.prepare(context.graph(&[&rows]).expect("a graph")).expect("memory");
        Selected { memory, numbers, rows, graph, _allocator: allocator }
    }

    /// Computes, and compares the selected rows, or the wrong number, with what is wanted.
    #[track_caller]
    fn check(&self, want: Result<[f32; 4], i32>) {
        match (cpu().compute(&self.graph), want) {
            (Ok(()), Ok(rows)) => assert_eq!(self.rows.to_vec::<f32>().expect("rows"), rows),
            (Err(Error::Row { row, rows: 3, .. }), Err(wrong)) => assert_eq!(row, wrong),
            other => panic!("{other:?}"),
        }
    }
}

/// However a number without a row came into a selection, it does not reach the table.
#[test]
fn wrong_numbers_of_rows_are_found_whatever_wrote_them() {
    let fine = Ok([2., 3., 4., 5.]);
    let written = || Selected::new(|numbers| numbers.write(0, &[1, 2]).expect("numbers"));

    // Before the tensor was known to select rows.
    let selected = Selected::new(|numbers| numbers.write(0, &[1, 3]).expect("numbers"));
    // Another graph selects by the first number only.
    let context = Context::new(8);
    let table = context.input("table", Type::F32, [1, 2]);
    let row = context.get_rows(&table, &context.view(&selected.numbers, [1], [0; 3], 0));
    let mut allocator = GraphAllocator::new(&BufferType::cpu());
    let graph = allocator.prepare(context.graph(&[&row]).expect("a graph")).expect("memory");
    table.clear().expect("a table");
    cpu().compute(&graph).expect("a row that is there");
    selected.check(Err(3));
    let selected = written();
    selected.check(fine);
    selected.check(fine);

    // By a view, by bytes, and by a copy.
    let part = selected.memory.view(&selected.numbers, [1], [0; 3], 4);
    part.write(0, &[5]).expect("a number");
    selected.check(Err(5));
    part.write(0, &[2]).expect("a number");
    selected.check(fine);
    selected.numbers.write(7, &[0x80u8]).expect("a byte");
    selected.check(Err(i32::MIN + 2));
    selected.numbers.write(0, &[1, 2]).expect("numbers");
    selected.numbers.write(5, &[1u8]).expect("a byte");
    selected.check(Err(2 + 256));
    selected.numbers.clear().expect("zeros");
    selected.check(Ok([0., 1., 0., 1.]));
    let others = Context::new(1);
    let other = others.tensor(Type::I32, [2]);
    others.allocate(&BufferType::cpu()).expect("memory");
    other.write(0, &[1, -7]).expect("numbers");
    selected.numbers.copy_from(0, &other, 0, 8).expect("a copy");
    selected.check(Err(-7));
    other.write(0, &[1, 2]).expect("numbers");
    selected.numbers.copy_from(0, &other, 0, 8).expect("a copy");
    selected.check(fine);

    // By a view in another context, and by the graph of another context, of the selection or of a view of it.
    let context = Context::new(8);
    let view = context.view(&selected.numbers, [1], [0; 3], 0);
    view.write(0, &[4]).expect("a number");
    selected.check(Err(4));
    selected.numbers.write(0, &[1, 2]).expect("numbers");
    selected.check(fine);
    let from = context.input("from", Type::I32, [1]);
    let copy = context.copy(&from, &view);
    let mut allocator = GraphAllocator::new(&BufferType::cpu());
    let copies = allocator.prepare(context.graph(&[&copy]).expect("a graph")).expect("memory");
    for (number, want) in [(9, Err(9)), (1, fine)] {
        from.write(0, &[number]).expect("a number");
        cpu().compute(&copies).expect("computes");
        selected.check(want);
    }
}

/// Numbers may have a row of one table and none of another.
#[test]
fn each_table_of_a_selection_has_rows_of_its_own() {
    let context = Context::new(8);
    let [small, large] = [2, 5].map(|rows| context.input("table", Type::F32, [1, rows]));
    let numbers = context.input("numbers", Type::I32, [3]);
    let of_large = context.get_rows(&large, &numbers).output();
    let of_small = context.get_rows(&small, &context.view(&numbers, [1], [0; 3], 4)).output();
    let mut allocator = GraphAllocator::new(&BufferType::cpu());
    let results = context.graph(&[&of_large, &of_small]).expect("a graph");
    let graph = allocator.prepare(results).expect("memory");
    small.write(0, &[10f32, 11.]).expect("a table");
    large.write(0, &[20f32, 21., 22., 23., 24.]).expect("a table");
    numbers.write(0, &[4, 1, 3]).expect("numbers");
    cpu().compute(&graph).expect("the view has rows of the small table");
    assert_eq!(of_small.to_vec::<f32>().expect("rows"), [11.]);
    assert_eq!(of_large.to_vec::<f32>().expect("rows"), [24., 21., 23.]);
    numbers.write(0, &[4, 2, 3]).expect("numbers");
    assert!(matches!(cpu().compute(&graph), Err(Error::Row { row: 2, rows: 2, .. })));
}

/// A graph whose allocator gives the memory of the selection to later results: it is computed with the numbers that
/// were written last, or not at all.
#[test]
fn numbers_whose_memory_was_reused_are_found() {
    let context = Context::new(16);
    let table = context.input("table", Type::F32, [64, 3]).output();
    let numbers = context.input("numbers", Type::I32, [64]).named("numbers");
    let exchanged = context.exchange(&context.get_rows(&table, &numbers));
    // In the second stage the sums of rows take the memory of the numbers.
    let sums = context.sum_rows(&exchanged);
    let result = context.scale(&sums, 2.0).output();
    let mut allocator = GraphAllocator::new(&BufferType::cpu());
    let graph = allocator.prepare(context.graph(&[&result]).expect("a graph")).expect("memory");
    table.write(0, &[1f32; 64 * 3]).expect("a table");
    let intermediates = graph.nodes();
    let stages = graph.into_stages();
    let compute = |stage: usize| cpu().compute(&stages[stage]);
    let fill = || numbers.write(0, &[2i32; 64]).expect("numbers");
    let is_wrong = |result| matches!(result, Err(Error::Row { tensor, .. }) if tensor == "numbers");

    // Computed again without new numbers: at first they are still there.
    fill();
    compute(0).expect("numbers that were written");
    compute(0).expect("the same numbers");
    compute(1).expect("the second stage");
    assert!(is_wrong(compute(0)));

    // Stages in another order.
    fill();
    compute(1).expect("a stage without a selection");
    assert!(is_wrong(compute(0)));

    // Written through each of the tensors, of which some are in the same memory.
    let mut overwritten = 0;
    for other in intermediates {
        fill();
        other.write(0, &vec![0xeeu8; other.bytes()]).expect("bytes");
        let is_kept = numbers.to_vec::<i32>().expect("what is there now") == [2; 64];
        assert_eq!(is_wrong(compute(0)), !is_kept, "{other:?}");
        overwritten += usize::from(!is_kept);
    }
    assert!(overwritten > 0, "the sums are there");

    // Another graph of the allocator: nothing of the first one is used any more.
    fill();
    let other = Context::new(2);
    let y = other.scale(&other.input("x", Type::F32, [1 << 12]), 2.0);
    allocator.prepare(other.graph(&[&y]).expect("a graph")).expect("memory");
    assert!(matches!(compute(0), Err(Error::StaleGraph)));
    assert!(matches!(numbers.write(0, &[0i32; 64]), Err(Error::StaleGraph)));
}

/// Numbers in read-only memory, which nobody writes.
#[test]
fn wrong_numbers_of_rows_in_read_only_memory_are_found() {
    #[repr(align(64))]
    struct Aligned([u8; 64]);
    static NUMBERS: Aligned = {
        let mut bytes = [0; 64];
        bytes[4] = 2; // the numbers 0, 2
        bytes[32] = 3; // the numbers 3, 0
        Aligned(bytes)
    };
    let buffer = Buffer::over(HostMemory::Static(&NUMBERS.0)).expect("aligned");
    for (offset, wrong) in [(0, None), (32, Some(3))] {
        let numbers = Context::new(1).tensor(Type::I32, [2]);
        buffer.place(&numbers, offset).expect("fits");
        let context = Context::new(4);
        let table = context.input("table", Type::F32, [2, 3]).output();
        let rows = context.get_rows(&table, &numbers).output();
        let mut allocator = GraphAllocator::new(&BufferType::cpu());
        let graph = allocator.prepare(context.graph(&[&rows]).expect("a graph")).expect("memory");
        table.write(0, &[0f32, 1., 2., 3., 4., 5.]).expect("a table");
        for _ in 0..2 {
            match (cpu().compute(&graph), wrong) {
                (Ok(()), None) => assert_eq!(rows.to_vec::<f32>().expect("rows"), [0., 1., 4., 5.]),
                (Err(Error::Row { row, .. }), Some(wrong)) => assert_eq!(row, wrong),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn chosen_matrices_that_ggml_asserts_on_are_refused() {
    let scores = |ctx: &Context| f32s(ctx, [4, 3, 1, 1]);
    let ids = |ctx: &Context| ctx.top_k(&scores(ctx), 2);
    let matrices = |ctx: &Context| f32s(ctx, [8, 5, 4, 1]);
    refused("more than there are", |ctx| ctx.top_k(&scores(ctx), 5));
    refused("none", |ctx| ctx.top_k(&scores(ctx), 0));
    refused("scores across", |ctx| ctx.top_k(&ctx.permute(&scores(ctx), [1, 0, 2, 3]), 2));
    refused("other rows", |ctx| ctx.mul_mat_id(&matrices(ctx), &f32s(ctx, [9, 1, 3, 1]), &ids(ctx)));
    refused("other tokens", |ctx| ctx.mul_mat_id(&matrices(ctx), &f32s(ctx, [8, 1, 2, 1]), &ids(ctx)));
    refused("other uses", |ctx| ctx.mul_mat_id(&matrices(ctx), &f32s(ctx, [8, 3, 3, 1]), &ids(ctx)));
    refused("fewer matrices", |ctx| {
        ctx.mul_mat_id(&f32s(ctx, [8, 5, 3, 1]), &f32s(ctx, [8, 1, 3, 1]), &ids(ctx))
    });
    refused("other biases", |ctx| ctx.add_id(&f32s(ctx, [5, 2, 3, 1]), &f32s(ctx, [5, 3, 1, 1]), &ids(ctx)));
    refused("wider biases", |ctx| ctx.add_id(&f32s(ctx, [5, 2, 3, 1]), &f32s(ctx, [6, 4, 1, 1]), &ids(ctx)));
    refused("another table", |ctx| ctx.get_ranked(&f32s(ctx, [5, 3, 1, 1]), &ids(ctx)));
    refused("a gate of another shape", |ctx| {
        ctx.swiglu_oai(&f32s(ctx, [8, 2, 1, 1]), &f32s(ctx, [8, 1, 1, 1]), 7.0)
    });
    // Only a ranking has numbers that are in range and different.
    let x = |ctx: &Context| f32s(ctx, [8, 1, 3, 1]);
    refused("numbers of the caller", |ctx| {
        ctx.mul_mat_id(&matrices(ctx), &x(ctx), &ctx.input("ids", Type::I32, [2, 3]))
    });
    refused("numbers twice", |ctx| {
        ctx.mul_mat_id(&matrices(ctx), &x(ctx), &ctx.view(&ids(ctx), [2, 3], [0; 3], 0))
    });
    refused("a ranking that the caller may write to before its use", |ctx| {
        let ids = ids(ctx);
        let first = ctx.mul_mat_id(&matrices(ctx), &x(ctx), &ids);
        let exchange = ctx.reshape(&ctx.exchange(&first), [5, 2, 3]);
        ctx.add_id(&exchange, &f32s(ctx, [5, 4, 1, 1]), &ids)
    });
    let error = error_of("a ranking that is written to", |ctx| {
        let ids = ids(ctx);
        let product = ctx.mul_mat_id(&matrices(ctx), &x(ctx), &ids);
        ctx.copy(&ctx.input("ids", Type::I32, [2, 3]), &ids);
        product
    });
    assert!(matches!(error, Error::Overlap { .. }), "{error}");
}

#[test]
fn data_of_another_type_is_refused() {
    let context = Context::new(4);
    let halves = context.tensor(Type::F16, [4]).named("halves");
    let integers = context.tensor(Type::I32, [4]);
    context.allocate(&BufferType::cpu()).expect("memory");
    let error = halves.write(0, &[1f32]).expect_err("floats are not halves");
    assert!(matches!(&error, Error::ElementType { tensor, .. } if tensor == "halves"), "{error}");
    assert!(matches!(halves.read(0, &mut [0f32]), Err(Error::ElementType { .. })));
    assert!(matches!(integers.to_vec::<f32>(), Err(Error::ElementType { .. })));
    halves.write(0, &[0x3c00u16; 4]).expect("bits of halves");
    halves.write(0, &[0u8; 8]).expect("bytes");
    integers.write(0, &[1i32; 4]).expect("integers");
}

#[test]
fn a_custom_operation_that_fails_is_an_error() {
    let backend = cpu();
    let run = |work: fn(&ggml::CustomTask)| {
        let context = Context::new(8);
        let x = context.input("x", Type::F32, [1]);
        let node = context.custom(Type::F32, [1], &[Operand::Read(&x)], work);
        let mut allocator = GraphAllocator::new(&backend.buffer_type());
        let graph = allocator.prepare(context.graph(&[&node]).expect("a graph")).expect("memory");
        backend.compute(&graph).map_err(|error| error.to_string())
    };
    assert!(run(|_| panic!("no such row")).is_err_and(|error| error.contains("no such row")));
    assert!(run(|task| _ = task.operand(1)).is_err_and(|error| error.contains("no operand 1")));
    assert!(run(|task| _ = task.operand(99)).is_err_and(|error| error.contains("no operand 99")));
    assert_eq!(run(|_| ()), Ok(()), "the backend still works");
}

/// ggml visits operands recursively: a long chain would need more stack than a thread has.
#[test]
fn a_long_chain_of_operations_needs_no_stack() {
    const LENGTH: usize = 20_000;
    let chain = || {
        let context = Context::new(LENGTH + 1);
        let mut x = context.input("x", Type::F32, [1]);
        for _ in 0..LENGTH {
            x = context.scale(&x, 1.0);
        }
        context.graph(&[&x]).expect("a graph");
    };
    std::thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(chain)
        .expect("a thread")
        .join()
        .expect("no overflow");
}

/// On a GPU, or the CUDA mock: a graph is computed where its memory is.
#[cfg(feature = "cuda")]
#[test]
fn a_graph_in_the_memory_of_another_place_is_refused() {
    if std::env::var("LONGHAND_TEST_DEVICE").as_deref() != Ok("cuda") {
        return;
    }
    let backends = [cpu(), Backend::cuda(0, None).expect("a GPU")];
    for (place, other) in [(0, 1), (1, 0)] {
        let context = Context::new(4);
        let y = context.scale(&context.input("x", Type::F32, [4]), 2.0).output();
        let mut allocator = GraphAllocator::new(&backends[place].buffer_type());
        let graph = allocator.prepare(context.graph(&[&y]).expect("a graph")).expect("memory");
        assert!(matches!(backends[other].compute(&graph), Err(Error::Unreachable { .. })));
        backends[place].compute(&graph).expect("computes");
    }
}
