//! Nodes of the kernels that safe code builds of the wrong tensors, or fills with the wrong numbers, are errors.

use std::slice::from_ref;
use std::sync::Arc;

use ggml::{Backend, BufferType, Context, Error, GraphAllocator, Tensor, Type};
use kernels::Form;
use kernels::graph::{
    AccumulateAttention, AccumulatingLane, Accumulation, Append, Appended, Attend, AttentionShape, Combine,
    EvictRows, Eviction, Gain, GraphLane, LaneInputs, MAX_LANES, MeasureRows, PredictScores, RowLists,
    RowPositions, RowSelection, SeenPart, SelectRows, Split, StoreQueries, WeightFactors, WindowAttention,
    WindowQueries, predictor_len,
};
use kernels::measure::Measure;

use crate::common::{OWN, lane_inputs};

const D: usize = 32;
const CAPACITY: usize = 16;
const HEADS: usize = 2;
const GROUP: usize = 3;
const TOKENS: usize = 4;
const WINDOW: usize = 8;
const SHAPE: AttentionShape = AttentionShape {
    head_dim: D,
    n_kv_heads: HEADS,
    group: GROUP,
    scale: 0.25,
    softcap: None,
    max_alibi_bias: None,
};

/// Everything that the nodes are built of, and fits.
struct NodeParts {
    ctx: Context,
    k: Tensor,
    v: Tensor,
    q: Tensor,
    maps: Tensor,
    lane: GraphLane,
    accumulated: Tensor,
    sums: Tensor,
    ring: Tensor,
    inputs: LaneInputs,
    stored: Tensor,
}

impl NodeParts {
    fn new() -> NodeParts {
        let memory = Context::new(8);
        let rows = |ty| memory.tensor(ty, [D, CAPACITY, HEADS]);
        let (k, v) = (rows(Type::F16), rows(Type::F16));
        let accumulated = memory.tensor(Type::F32, [CAPACITY, HEADS]);
        let sums = memory.tensor(Type::F32, [D, HEADS, 2]);
        let ring = memory.tensor(Type::F32, [D, HEADS * GROUP, WINDOW]);
        memory.allocate(&BufferType::cpu()).expect("memory");
        let ctx = Context::new(32);
        NodeParts {
            k: ctx.input("k", Type::F32, [D, HEADS, TOKENS]),
            v: ctx.input("v", Type::F32, [D, HEADS, TOKENS]),
            q: ctx.input("q", Type::F32, [D, HEADS * GROUP, TOKENS]),
            maps: ctx.input("maps", Type::F32, [predictor_len(D, D), HEADS]),
            lane: GraphLane { accumulated: Some(accumulated.clone()), ..GraphLane::new(k, v, [1, 0]) },
            accumulated,
            sums,
            ring,
            inputs: lane_inputs(&ctx, TOKENS),
            stored: ctx.input("stored", Type::F32, [1]),
            ctx,
        }
    }

    fn append(&self) -> Tensor {
        self.append_to(from_ref(&self.lane))
    }

    fn append_to(&self, lanes: &[GraphLane]) -> Tensor {
        OWN.nodes(&self.ctx, Append { k: &self.k, v: &self.v, lanes, inputs: &self.inputs })
    }

    fn attend(&self, split: Split) -> Tensor {
        self.attend_by(&self.q, split)
    }

    fn attend_by(&self, q: &Tensor, split: Split) -> Tensor {
        let attend = Attend {
            shape: SHAPE,
            queries: q.into(),
            appended: Appended { node: &self.stored, rows: TOKENS },
            lanes: from_ref(&self.lane),
            inputs: &self.inputs,
            groups: None,
            int8: false,
        };
        Form::Own(split).nodes(&self.ctx, attend)
    }

    fn accumulate(&self, number: usize, heads: &[u32]) -> Tensor {
        self.accumulate_part(number, heads, None)
    }

    fn accumulate_part(&self, number: usize, heads: &[u32], part: Option<SeenPart>) -> Tensor {
        self.accumulate_with(number, heads, (Combine::Sum, part), None)
    }

    fn accumulate_with(
        &self,
        number: usize,
        heads: &[u32],
        (combine, part): (Combine, Option<SeenPart>),
        factors: Option<WeightFactors>,
    ) -> Tensor {
        let (lane, gain) = (&self.lane, Gain::One);
        let accumulate = AccumulateAttention {
            shape: SHAPE,
            queries: (&self.q).into(),
            appended: Appended { node: &self.stored, rows: TOKENS },
            to: AccumulatingLane { lane, accumulated: &self.accumulated, number, heads: heads.into() },
            inputs: &self.inputs,
            how: Accumulation { queries: TOKENS, replace: false, combine, gain, part },
            factors,
        };
        OWN.nodes(&self.ctx, accumulate)
    }

    fn predict(&self) -> Tensor {
        self.predict_for(0, &[0, 1])
    }

    fn predict_for(&self, number: usize, heads: &[u32]) -> Tensor {
        let NodeParts { ctx, k, v, maps, lane, accumulated, inputs, .. } = self;
        let to = AccumulatingLane { lane, accumulated, number, heads: heads.into() };
        OWN.nodes(ctx, PredictScores { k, v, maps, to, inputs })
    }

    fn evict(&self, evicted: [u32; 2], moves: [(u32, u32); 2], sums: bool) -> Tensor {
        let eviction = Eviction {
            evicted: evicted.map(|row| vec![row]).to_vec(),
            moves: moves.map(|pair| vec![pair]).to_vec(),
            total_evicted: 1,
            return_rows: true,
        };
        let sums = sums.then_some(&self.sums);
        OWN.nodes(&self.ctx, EvictRows { lane: &self.lane, sums, eviction })
    }

    fn select(&self, kept: [Vec<u32>; 2]) -> Tensor {
        let [k, v] = [(); 2].map(|()| self.ctx.input("rows", Type::F16, [D, 8, HEADS]));
        let selection = RowSelection { kept: kept.to_vec(), evicted: vec![vec![7]; 2] };
        let (lane, sums) = (&self.lane, Some(&self.sums));
        OWN.nodes(&self.ctx, SelectRows { k: &k, v: &v, lane, sums, selection })
    }

    fn measure(&self, head: u32, rows: [u32; 2]) -> Tensor {
        let lists = RowLists { heads: vec![0, head], rows: rows.map(|row| Arc::new(vec![row])).to_vec() };
        let (tensor, offset, what) = (&self.lane.k, None, Measure::Norm);
        OWN.nodes(&self.ctx, MeasureRows { tensor, offset, lists, what })
    }

    fn window(&self, heads: [u32; 2], rows: usize, change: impl FnOnce(&mut WindowQueries)) -> Tensor {
        let positions = RowLists {
            heads: heads.to_vec(),
            rows: [(); 2].map(|()| Arc::new((0..rows as u32).collect())).to_vec(),
        };
        let mut window = WindowQueries {
            positions: 0..WINDOW,
            gain: Gain::One,
            kv_heads: vec![0, 1],
            first: 0,
            log_weight: 0.0,
            sink_logits: None,
        };
        change(&mut window);
        let (shape, k, ring) = (SHAPE, &self.lane.k, &self.ring);
        OWN.nodes(&self.ctx, WindowAttention { shape, k, ring, positions, window })
    }

    fn store(&self) -> Tensor {
        let NodeParts { ctx, q, inputs, ring, .. } = self;
        OWN.nodes(ctx, StoreQueries { q, positions: &inputs.positions, ring })
    }
}

/// Builds a node of parts that `spoil` has changed. The graph must have an error that names `op` and `part`.
#[track_caller]
fn refused(
    op: &str,
    part: &str,
    spoil: impl FnOnce(&mut NodeParts),
    build: impl FnOnce(&NodeParts) -> Tensor,
) {
    let mut parts = NodeParts::new();
    spoil(&mut parts);
    let node = build(&parts);
    match parts.ctx.graph(&[&node]).err() {
        Some(Error::Unfit { op: found, problem }) if found == op && problem.contains(part) => (),
        other => panic!("{op} with wrong {part}: {other:?}"),
    }
}

/// A tensor that has memory already.
fn placed(ty: Type, shape: [usize; 3]) -> Tensor {
    let memory = Context::new(1);
    let tensor = memory.tensor(ty, shape);
    memory.allocate(&BufferType::cpu()).expect("memory");
    tensor
}

type Spoil = fn(&mut NodeParts);

/// What is wrong with a lane: the part, as errors name it, and how to spoil it.
fn wrong_lanes() -> Vec<(&'static str, Spoil)> {
    vec![
        ("values", |p| p.lane.v = placed(Type::F16, [D, CAPACITY - 1, HEADS])),
        ("values", |p| p.lane.v = placed(Type::F16, [D, CAPACITY, HEADS - 1])),
        ("keys", |p| p.lane.k = placed(Type::F16, [D / 2, CAPACITY, HEADS])),
        ("keys", |p| p.lane.k = placed(Type::I32, [D, CAPACITY, HEADS])),
        ("keys", |p| {
            p.lane.k =
                p.ctx.view(&placed(Type::F16, [D, CAPACITY, 9]), [D, CAPACITY, HEADS], [64, 2048, 64], 0)
        }),
        ("KV head", |p| p.lane.kv_heads = Arc::new([0])),
        ("KV head", |p| p.lane.kv_heads = Arc::new([0, 7])),
        ("KV head", |p| p.lane.kv_heads = Arc::new([1, 1])),
        ("accumulated", |p| p.lane.accumulated = Some(placed(Type::F32, [CAPACITY, 1, 1]))),
        ("positions", |p| {
            let all = placed(Type::I32, [CAPACITY * HEADS, 1, 1]);
            p.lane.positions = Some(RowPositions { all, first: 1 });
        }),
        ("positions", |p| {
            let all = placed(Type::I32, [CAPACITY * HEADS, 1, 1]);
            (p.lane.positions, p.lane.compensated) = (Some(RowPositions { all, first: 0 }), true);
        }),
    ]
}

#[test]
fn append_refuses_what_does_not_fit() {
    for (part, spoil) in wrong_lanes() {
        refused("append", part, spoil, NodeParts::append);
    }
    refused(
        "append",
        "keys",
        |p| p.k = p.ctx.input("k", Type::F32, [D, HEADS, TOKENS, 2]),
        NodeParts::append,
    );
    refused("append", "keys", |p| p.k = p.ctx.input("k", Type::F16, [D, HEADS, TOKENS]), NodeParts::append);
    refused("append", "values", |p| p.v = p.ctx.input("v", Type::F32, [D, HEADS, 1]), NodeParts::append);
    refused("append", "layer", |p| p.inputs.layer = 2, NodeParts::append);
    refused("append", "rows", |p| p.inputs.rows = p.ctx.input("r", Type::I32, [1, 2]), NodeParts::append);
    refused("append", "lanes", |_| (), |p| p.append_to(&vec![p.lane.clone(); MAX_LANES + 1]));
    refused("append", "lanes", |_| (), |p| p.append_to(&[]));
}

/// Two threads would write the same bytes.
#[test]
fn rows_that_share_memory_are_refused() {
    let mut parts = NodeParts::new();
    let [_, row, head, all] = parts.lane.k.strides();
    parts.lane.v = parts.ctx.view(&parts.lane.k, parts.lane.k.shape(), [row, head, all], 0);
    let node = parts.append();
    let error = parts.ctx.graph(&[&node]).err().expect("keys that are values too");
    assert!(matches!(&error, Error::Overlap { .. }), "{error}");
    refused("accumulate_attention", "head", |_| (), |p| p.accumulate(0, &[1, 1]));
}

#[test]
fn attend_refuses_what_does_not_fit() {
    let threads = |p: &NodeParts| p.attend(Split::Threads(2));
    for (part, spoil) in wrong_lanes() {
        refused("attend", part, spoil, threads);
    }
    refused("attend", "queries", |p| p.q = p.ctx.input("q", Type::F32, [D, 5, TOKENS]), threads);
    refused("attend", "queries", |p| p.q = p.ctx.input("q", Type::F16, [D, HEADS * GROUP, TOKENS]), threads);
    refused("attend", "log-weights", |p| p.inputs.log_weights = p.inputs.rows.clone(), threads);
    refused("attend", "split", |_| (), |p| p.attend(Split::Threads(0)));
    refused("attend", "split", |_| (), |p| p.attend(Split::Blocks(usize::MAX)));
}

#[test]
fn accumulate_refuses_what_does_not_fit() {
    refused("accumulate_attention", "lane", |_| (), |p| p.accumulate(MAX_LANES, &[0]));
    refused("accumulate_attention", "head", |_| (), |p| p.accumulate(0, &[2]));
    let spoil = |p: &mut NodeParts| p.q = p.ctx.input("q", Type::F32, [D, HEADS, TOKENS]);
    refused("accumulate_attention", "queries", spoil, |p| p.accumulate(0, &[0]));
    let spoil = |p: &mut NodeParts| p.inputs.positions = p.ctx.input("p", Type::F32, [TOKENS]);
    refused("accumulate_attention", "positions", spoil, |p| p.accumulate(0, &[0]));
    for [first, from, to, last] in [
        [2, 1, 3, 3],
        [0, 2, 2, 2],
        [0, 3, 1, 3],
        [0, 1, 3, 2],
        [0, 0, CAPACITY + 1, CAPACITY + 1],
        [0, 0, 1, usize::MAX],
    ] {
        let part = SeenPart { first, from, to, last };
        refused("accumulate_attention", "rows", |_| (), |p| p.accumulate_part(0, &[0], Some(part)));
    }
    let part = SeenPart { first: 0, from: 0, to: 1, last: 1 };
    let compensated = |p: &mut NodeParts| p.lane.compensated = true;
    refused("accumulate_attention", "compensated", compensated, |p| p.accumulate_part(0, &[0], Some(part)));
}

#[test]
fn accumulate_refuses_factors_that_do_not_fit() {
    let of_three_rows = Some(SeenPart { first: 0, from: 1, to: 4, last: 4 });
    let right = [3, SHAPE.group, HEADS];
    for (problem, how, [rows, group, heads], tokens, ty) in [
        ("largest", (Combine::Sum, of_three_rows), right, TOKENS, Type::F32),
        ("largest", (Combine::Max, None), right, TOKENS, Type::F32),
        ("factors of rows", (Combine::Max, of_three_rows), [4, SHAPE.group, HEADS], TOKENS, Type::F32),
        ("factors of rows", (Combine::Max, of_three_rows), [3, SHAPE.group + 1, HEADS], TOKENS, Type::F32),
        ("factors of rows", (Combine::Max, of_three_rows), [3, SHAPE.group, HEADS - 1], TOKENS, Type::F32),
        ("factors of rows", (Combine::Max, of_three_rows), right, TOKENS, Type::I32),
        ("factors of tokens", (Combine::Max, of_three_rows), right, TOKENS + 1, Type::F32),
    ] {
        refused(
            "accumulate_attention",
            problem,
            |_| (),
            |p| {
                let rows = p.ctx.input("factors", ty, [rows, group, heads]);
                let tokens = p.ctx.input("factors", Type::F32, [tokens]);
                p.accumulate_with(0, &[0, 1], how, Some(WeightFactors { rows: &rows, tokens: &tokens }))
            },
        );
    }
}

#[test]
fn predict_refuses_what_does_not_fit() {
    let predict = NodeParts::predict;
    for (part, spoil) in wrong_lanes() {
        refused("predict_scores", part, spoil, predict);
    }
    for shape in [[predictor_len(D, D) - 1, HEADS, 1], [predictor_len(D, D), HEADS + 1, 1]] {
        refused("predict_scores", "maps", |p| p.maps = placed(Type::F32, shape), predict);
    }
    let shape = [predictor_len(D, D), HEADS, 1];
    refused("predict_scores", "maps", |p| p.maps = placed(Type::F16, shape), predict);
    refused("predict_scores", "maps", |p| p.v = placed(Type::F32, [D / 2, HEADS, TOKENS]), predict);
    refused("predict_scores", "keys", |p| p.k = placed(Type::F16, [D, HEADS, TOKENS]), predict);
    refused("predict_scores", "values", |p| p.v = placed(Type::F32, [D, HEADS, TOKENS - 1]), predict);
    refused("predict_scores", "values", |p| p.v = placed(Type::F32, [D, 1, TOKENS]), predict);
    let spoil = |p: &mut NodeParts| p.accumulated = placed(Type::F32, [CAPACITY - 1, HEADS, 1]);
    refused("predict_scores", "accumulated", spoil, predict);
    refused("predict_scores", "layer", |p| p.inputs.layer = 2, predict);
    refused("predict_scores", "lane", |_| (), |p| p.predict_for(MAX_LANES, &[0]));
    for heads in [&[2][..], &[1, 1], &[]] {
        refused("predict_scores", "head", |_| (), |p| p.predict_for(0, heads));
    }
}

#[test]
fn evict_and_select_refuse_what_does_not_fit() {
    let compensate = |p: &mut NodeParts| p.lane.compensated = true;
    refused("evict_rows", "row", |_| (), |p| p.evict([0, 16], [(0, 1); 2], false));
    refused("evict_rows", "row", |_| (), |p| p.evict([0, 1], [(0, 1), (0, 16)], false));
    refused("evict_rows", "row", |_| (), |p| p.evict([0, 1], [(0, 1), (16, 0)], false));
    refused("evict_rows", "sums", compensate, |p| p.evict([0, 1], [(0, 1); 2], false));
    let spoil = |p: &mut NodeParts| (p.lane.compensated, p.sums) = (true, placed(Type::F32, [D, HEADS, 1]));
    refused("evict_rows", "sums", spoil, |p| p.evict([0, 1], [(0, 1); 2], true));
    refused("select_rows", "row", |_| (), |p| p.select([vec![8], vec![0]]));
    refused("select_rows", "row", compensate, |p| p.select([vec![0; CAPACITY], vec![0]]));
    refused(
        "select_rows",
        "keys",
        |p| p.lane.k = placed(Type::F32, [D, CAPACITY, HEADS]),
        |p| p.select([vec![0], vec![0]]),
    );
    refused(
        "select_rows",
        "KV head",
        |p| p.lane.kv_heads = Arc::new([0, 2]),
        |p| p.select([vec![0], vec![0]]),
    );
}

#[test]
fn scores_refuse_what_does_not_fit() {
    refused("measure_rows", "row", |_| (), |p| p.measure(1, [0, 16]));
    refused("measure_rows", "head", |_| (), |p| p.measure(2, [0, 1]));
    refused(
        "measure_rows",
        "keys",
        |p| p.lane.k = placed(Type::I32, [D, CAPACITY, HEADS]),
        |p| p.measure(1, [0; 2]),
    );
    refused("window_attention", "row", |_| (), |p| p.window([0, 1], CAPACITY + 1, |_| ()));
    refused("window_attention", "head", |_| (), |p| p.window([0, 2], 4, |_| ()));
    refused("window_attention", "head", |_| (), |p| p.window([0, 1], 4, |w| w.kv_heads = vec![0]));
    refused("window_attention", "head", |_| (), |p| p.window([0, 1], 4, |w| w.kv_heads = vec![0, 2]));
    refused("window_attention", "token", |_| (), |p| p.window([0, 1], 4, |w| w.positions = 0..usize::MAX));
    refused("window_attention", "row", |_| (), |p| p.window([0, 1], 4, |w| w.first = usize::MAX));
    let spoil = |p: &mut NodeParts| p.ring = placed(Type::F32, [D, HEADS, WINDOW]);
    refused("window_attention", "queries", spoil, |p| p.window([0, 1], 4, |_| ()));
    let store = NodeParts::store;
    refused("store_queries", "ring", |p| p.ring = placed(Type::F32, [D, HEADS, WINDOW]), store);
    refused("store_queries", "ring", |p| p.ring = placed(Type::F16, [D, HEADS * GROUP, WINDOW]), store);
    refused("store_queries", "positions", |p| p.inputs.positions = p.ring.clone(), store);
}

/// Computes a node with wrong numbers in its inputs. On the CPU this is an error; a device cannot report it,
/// and must only stay inside its memory.
fn run(
    backend: &Backend,
    live: i32,
    position: i32,
    build: impl Fn(&NodeParts) -> Tensor,
) -> Result<(), Error> {
    let parts = NodeParts::new();
    let node = build(&parts);
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(parts.ctx.graph(&[&node]).expect("a graph")).expect("memory");
    let inputs = &parts.inputs;
    let write = |tensor: &Tensor, numbers: &[i32]| {
        if tensor.is_allocated() {
            tensor.write(0, numbers).expect("numbers");
        }
    };
    write(&inputs.rows, &[live; 2 * MAX_LANES]);
    write(&inputs.positions, &[position; TOKENS]);
    backend.compute(&graph)
}

#[test]
fn wrong_numbers_of_rows_are_errors() {
    // The emulator, because a GPU does not reach the memory of these rows.
    let [cpu, device] =
        [Backend::cpu(2), emulator::backend(None)].map(|backend| backend.expect("threads start"));
    for live in [-1, -5, 13, i32::MAX] {
        let failed = |part: &str, build: fn(&NodeParts) -> Tensor| {
            let error = run(&cpu, live, 0, build).expect_err("more rows than there are");
            assert!(matches!(&error, Error::Failed(problem) if problem.contains(part)), "{error}");
            run(&device, live, 0, build).expect("a device ignores them");
        };
        failed("append", NodeParts::append);
        failed("predict_scores", NodeParts::predict);
        failed("accumulate", |p| p.accumulate(0, &[0, 1]));
        failed("accumulate", |p| {
            p.accumulate_part(0, &[0, 1], Some(SeenPart { first: 1, from: 2, to: 3, last: 3 }))
        });
        let blocks = |p: &NodeParts| p.attend(Split::Blocks(4));
        run(&device, live, 0, blocks).expect("a device ignores them");
        let error =
            run(&cpu, live, 0, |p| p.attend(Split::Threads(2))).expect_err("more rows than there are");
        assert!(matches!(&error, Error::Failed(problem) if problem.contains("attend")), "{error}");
    }
    for position in [-1, i32::MIN] {
        let store = NodeParts::store;
        assert!(matches!(run(&cpu, 0, position, store), Err(Error::Failed(_))), "position {position}");
        run(&device, 0, position, store).expect("a device ignores them");
    }
}

/// A graph that was built for fewer threads than compute it, and then works again elsewhere.
#[test]
fn more_threads_than_a_graph_was_built_for_are_an_error() {
    let cpu = Backend::cpu(3).expect("the CPU backend starts");
    let one_token = |p: &NodeParts| {
        let q =
            p.ctx.view(&p.q, [D, HEADS * GROUP, 1], [4 * D, 4 * D * HEADS * GROUP, 4 * D * HEADS * GROUP], 0);
        p.attend_by(&q, Split::Threads(2))
    };
    let error = run(&cpu, 0, 0, one_token).expect_err("3 threads");
    assert!(matches!(&error, Error::Failed(problem) if problem.contains("2 threads")), "{error}");
}
