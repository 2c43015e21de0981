//! The two forms of the operations on lanes, beside each other on the CPU: our own kernels, and ggml's operations. For each
//! operation of a decode step, or of the eviction behind it: what it moves, and its time. The forms alternate, so that the ratio
//! of their times is valid on a shared machine too.
//!
//! `cargo bench -p kernels --bench forms -- [ROWS [THREADS]]` prints a table for one layer of the shape of Llama 3.1 8B, with so
//! many live rows [default: 16384] in a lane with room for as many, and so many threads [default: 2].
//!
//! Bytes of ggml's operations are those of the graph's nodes ([`Graph::traffic`](ggml::Graph::traffic)). Each operand counts
//! once for each node. Bytes of our own kernels follow from the shapes: what they must read and write. Passes are how often the
//! bytes of the lane's live rows are read or written.

use std::sync::Arc;
use std::time::Instant;

use ggml::{Backend, Context, Graph, GraphAllocator, ReadyGraph, Tensor, Traffic, Type};
use kernels::graph::{
    AccumulateAttention, AccumulatingLane, Accumulation, Append, Appended, Attend, AttentionShape, Combine,
    EvictRows, Eviction, Gain, GraphLane, LaneInputs, MAX_LANES, MeasureRows, RowLists, RowSelection,
    SelectRows, Split,
};
use kernels::measure::Measure;
use kernels::rows::fill_holes;
use kernels::{Form, RowType};

const HEADS: usize = 8;
const GROUP: usize = 4;
const HEAD_DIM: usize = 128;
const PAIRS: usize = 15;
/// Of so many rows of each head one is evicted, and one of two is selected.
const EVICTED_SHARE: usize = 64;

/// An operation of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Append,
    Attend,
    Accumulate,
    Measure,
    Evict,
    Select,
}

/// The tensors of a layer.
struct Layer {
    ty: RowType,
    rows: usize,
    lane: GraphLane,
    /// A lane with room for half of the rows.
    smaller: GraphLane,
    accumulated: Tensor,
    /// `[head_dim, query heads, 1]`
    q: Tensor,
    /// `[head_dim, heads, 1]`: a new key, and a new value.
    new: [Tensor; 2],
}

/// A graph of one form, and what it moves.
struct Built {
    ready: ReadyGraph,
    inputs: LaneInputs,
    traffic: Traffic,
    /// The same of the lane's keys and values alone.
    of_rows: Traffic,
}

impl Layer {
    fn new(memory: &Context, backend: &Backend, ty: RowType, rows: usize) -> Layer {
        let tensor_type = kernels::graph::tensor_type(ty);
        let lane = |rows: usize| {
            let tensor = || memory.tensor(tensor_type, [HEAD_DIM, rows, HEADS]);
            GraphLane::new(tensor(), tensor(), (0..HEADS as u32).collect::<Vec<_>>())
        };
        let (mut large, smaller) = (lane(rows), lane(rows / 2));
        let accumulated = memory.tensor(Type::F32, [rows, HEADS]);
        large.accumulated = Some(accumulated.clone());
        let vector = |heads: usize| memory.tensor(Type::F32, [HEAD_DIM, heads, 1]);
        let layer = Layer {
            ty,
            rows,
            lane: large,
            smaller,
            accumulated,
            q: vector(HEADS * GROUP),
            new: [vector(HEADS), vector(HEADS)],
        };
        memory.allocate(&backend.buffer_type()).expect("memory");
        let numbers = |n: usize| (0..n).map(|i| (i as f32 * 0.7391).sin()).collect::<Vec<f32>>();
        for tensor in [&layer.q, &layer.new[0], &layer.new[1]] {
            tensor.write(0, &numbers(tensor.bytes() / 4)).expect("numbers");
        }
        layer.accumulated.clear().expect("zeros");
        let mut row = vec![0; ty.row_bytes(HEAD_DIM)];
        ty.encode(&numbers(HEAD_DIM), &mut row);
        for tensor in layer.lane.tensors().chain(layer.smaller.tensors()) {
            tensor.write(0, &row.repeat(tensor.bytes() / row.len())).expect("rows");
        }
        layer
    }

    /// One row is new in append, attend and accumulate.
    fn live(&self) -> usize {
        self.rows - 1
    }

    /// The rows that each head loses.
    fn evicted(&self) -> Vec<u32> {
        (0..self.rows as u32).step_by(EVICTED_SHARE).collect()
    }

    fn build(&self, backend: &Backend, form: Form, operation: Operation) -> Built {
        let ctx = Context::new(2048);
        let inputs = LaneInputs {
            rows: ctx.input("rows", Type::I32, [MAX_LANES, 1]),
            log_weights: ctx.input("log_weights", Type::F32, [MAX_LANES, 1]),
            positions: ctx.input("positions", Type::I32, [1]),
            layer: 0,
        };
        let shape = AttentionShape::plain(HEADS * GROUP, HEADS, HEAD_DIM);
        let lanes = [self.lane.clone()];
        // Of rows that an earlier graph appended.
        let appended = Appended { node: &inputs.rows, rows: 1 };
        let queries = (&self.q).into();
        let node = match operation {
            Operation::Append => {
                form.nodes(&ctx, Append { k: &self.new[0], v: &self.new[1], lanes: &lanes, inputs: &inputs })
            }
            Operation::Attend => {
                let operands = Attend {
                    shape,
                    queries,
                    appended,
                    lanes: &lanes,
                    inputs: &inputs,
                    groups: None,
                    int8: false,
                };
                form.nodes(&ctx, operands)
            }
            Operation::Accumulate => {
                let heads: Arc<[u32]> = (0..HEADS as u32).collect();
                let to =
                    AccumulatingLane { lane: &self.lane, accumulated: &self.accumulated, number: 0, heads };
                let (combine, gain) = (Combine::Sum, Gain::One);
                let how = Accumulation { queries: 1, replace: false, combine, gain, part: None };
                let operands =
                    AccumulateAttention { shape, queries, appended, to, inputs: &inputs, how, factors: None };
                form.nodes(&ctx, operands)
            }
            Operation::Measure => {
                let rows = Arc::new((0..self.rows as u32).collect::<Vec<u32>>());
                let lists = RowLists { heads: (0..HEADS as u32).collect(), rows: vec![rows; HEADS] };
                let what = Measure::Norm;
                form.nodes(&ctx, MeasureRows { tensor: &self.lane.k, offset: None, lists, what })
            }
            Operation::Evict => {
                let evicted = vec![self.evicted(); HEADS];
                let moves = evicted.iter().map(|rows| fill_holes(rows, self.rows)).collect();
                let eviction = Eviction { evicted, moves, total_evicted: 0, return_rows: false };
                form.nodes(&ctx, EvictRows { lane: &self.lane, sums: None, eviction })
            }
            Operation::Select => {
                let kept = vec![(0..self.rows as u32).step_by(2).collect::<Vec<u32>>(); HEADS];
                let evicted = vec![(1..self.rows as u32).step_by(2).collect::<Vec<u32>>(); HEADS];
                let selection = RowSelection { kept, evicted };
                let (k, v, lane) = (&self.lane.k, &self.lane.v, &self.smaller);
                form.nodes(&ctx, SelectRows { k, v, lane, sums: None, selection })
            }
        };
        let graph: Graph = ctx.graph(&[&node]).expect("a graph");
        let tensors: Vec<&Tensor> = self.lane.tensors().chain(self.smaller.tensors()).collect();
        let (traffic, of_rows) = (graph.traffic(), graph.traffic_in(&tensors));
        let ready = GraphAllocator::new(&backend.buffer_type()).prepare(graph).expect("memory");
        Built { ready, inputs, traffic, of_rows }
    }

    /// What our own kernels must read and write: of all, and of keys and values alone.
    fn own_traffic(&self, operation: Operation, nodes: usize) -> [Traffic; 2] {
        let row = HEADS * self.ty.row_bytes(HEAD_DIM);
        let [query, vector] = [4 * HEAD_DIM * HEADS * GROUP, 4 * HEAD_DIM * HEADS];
        let number = 4 * HEADS;
        // Rows that are read and written, then other bytes.
        let (read, written, more_read, more_written) = match operation {
            Operation::Append => (0, 2 * row, 2 * vector, 0),
            Operation::Attend => (2 * self.rows * row, 0, query, query),
            Operation::Accumulate => (self.rows * row, 0, query + self.rows * number, self.rows * number),
            Operation::Measure => (self.rows * row, 0, 4 * self.rows * HEADS, self.rows * number),
            Operation::Evict => {
                let moves = fill_holes(&self.evicted(), self.rows).len();
                let of_lists = 4 * HEADS * (self.evicted().len() + 2 * moves);
                (2 * moves * row, 2 * moves * row, of_lists + moves * number, moves * number)
            }
            Operation::Select => (self.rows * row, self.rows * row, 4 * HEADS * self.rows, 0),
        };
        let of_rows = Traffic { nodes, read, written };
        [Traffic { nodes, read: read + more_read, written: written + more_written }, of_rows]
    }
}

impl Built {
    /// Seconds of a computation.
    fn time(&self, backend: &Backend, layer: &Layer) -> f64 {
        let fill = |tensor: &Tensor, numbers: &[i32]| {
            if tensor.is_allocated() {
                tensor.write(0, numbers).expect("inputs");
            }
        };
        fill(&self.inputs.rows, &[layer.live() as i32; MAX_LANES]);
        fill(&self.inputs.positions, &[layer.live() as i32]);
        if self.inputs.log_weights.is_allocated() {
            self.inputs.log_weights.write(0, &[f32::NEG_INFINITY; MAX_LANES]).expect("inputs");
        }
        let start = Instant::now();
        backend.compute(&self.ready).expect("computed");
        start.elapsed().as_secs_f64()
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn main() {
    // Cargo passes `--bench`.
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<usize>().ok());
    let rows = numbers.next().unwrap_or(16_384).max(128);
    let threads = numbers.next().unwrap_or(2).max(1);
    let backend = Backend::cpu(threads).expect("the CPU backend is always there");
    println!(
        "One layer, {HEADS} KV heads of {HEAD_DIM}, {GROUP} query heads each, {rows} rows; {threads} threads; medians of \
         {PAIRS} pairs\n"
    );
    println!("| type | operation | form | nodes | MB read | MB written | passes | ms | portable / own |");
    println!("|---|---|---|---:|---:|---:|---:|---:|---:|");
    for ty in [RowType::F16, RowType::Q8_0] {
        let memory = Context::new(16);
        let layer = Layer::new(&memory, &backend, ty, rows);
        let live = (2 * rows * HEADS * ty.row_bytes(HEAD_DIM)) as f64;
        for operation in [
            Operation::Append,
            Operation::Attend,
            Operation::Accumulate,
            Operation::Measure,
            Operation::Evict,
            Operation::Select,
        ] {
            let built = [Form::Own(Split::Threads(threads)), Form::Portable]
                .map(|form| layer.build(&backend, form, operation));
            let mut times = [Vec::new(), Vec::new()];
            for pair in 0..=PAIRS {
                let pair_times = built.each_ref().map(|built| built.time(&backend, &layer));
                // The first pair warms up.
                if pair > 0 {
                    times.iter_mut().zip(pair_times).for_each(|(times, time)| times.push(time));
                }
            }
            let ratio =
                median(times[0].iter().zip(&times[1]).map(|(own, portable)| portable / own).collect());
            let [own, portable] = &built;
            let moved =
                [layer.own_traffic(operation, own.traffic.nodes), [portable.traffic, portable.of_rows]];
            for (number, (form, [all, of_rows])) in ["own", "portable"].into_iter().zip(moved).enumerate() {
                println!(
                    "| {} | {operation:?} | {form} | {} | {:.3} | {:.3} | {:.2} | {:.3} | {} |",
                    ty.name(),
                    all.nodes,
                    all.read as f64 / 1e6,
                    all.written as f64 / 1e6,
                    (of_rows.read + of_rows.written) as f64 / live,
                    1e3 * median(times[number].clone()),
                    if number == 0 { String::new() } else { format!("{ratio:.2}") },
                );
            }
        }
    }
}
