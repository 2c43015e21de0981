//! The store: the lanes' memory, which rows are live, and what leaves when.
//!
//! Live rows of a lane are contiguous: a lane grows at its end, and when rows leave, the last ones fill the holes. A lane that is
//! compensated has its compensation entry in row 0 from the beginning, unused (log-weight -inf) until something has left.
//! The host keeps which position each row holds; scores, sums and rows stay where the lanes are.

use super::layout::{LaneLayout, Layout};
use crate::EngineError;
use crate::random::Random;
use ggml::{Backend, Context, GraphAllocator, Tensor, Type};
use kernels::graph::{self, Departure, GraphLane, MAX_LANES, Selection};
use kernels::rows::fill_holes;

/// The rows of one session.
pub struct Store {
    layout: Layout,
    layers: Vec<Vec<Lane>>,
    /// Tokens seen, evicted ones included: the position of the next one.
    seen: usize,
    bytes: usize,
}

struct Lane {
    graph: GraphLane,
    /// Running sums of what left, `[head_dim, heads, 2]` f32, K then V.
    sums: Option<Tensor>,
    layout: LaneLayout,
    /// Rows that hold something, the compensation entry's row included.
    live: usize,
    /// Rows the compensation entry stands for.
    departed: usize,
    /// `[heads][live - first]`: the position each row was made at; not kept for lanes that keep everything.
    positions: Vec<Vec<u32>>,
    /// Tokens seen when rows last left: those after it lie in order at the end.
    settled: usize,
}

impl Lane {
    /// The first row that holds a token.
    fn first(&self) -> usize {
        usize::from(self.layout.compensated())
    }

    fn clear(&mut self) {
        self.live = self.first();
        self.departed = 0;
        self.settled = 0;
        self.positions.iter_mut().for_each(Vec::clear);
    }

    /// Records that the tokens at `from..to` were written behind the live rows.
    fn grow(&mut self, from: usize, to: usize) {
        self.live += to - from;
        for head in &mut self.positions {
            head.extend(from as u32..to as u32);
        }
    }

    /// Puts the lane into the state in which `n` tokens were seen and everything that no bound keeps has left. Gives the
    /// positions kept and those that left.
    fn take(&mut self, n: usize) -> (Vec<u32>, Vec<u32>) {
        let gone = match &self.layout.bounds {
            Some(bounds) if bounds.sinks < n => bounds.sinks..bounds.horizon(n).min(n),
            _ => 0..0,
        };
        let kept: Vec<u32> = (0..n as u32).filter(|row| !gone.contains(&(*row as usize))).collect();
        self.clear();
        self.live += kept.len();
        self.departed = gone.len();
        self.settled = if gone.is_empty() { 0 } else { n };
        self.positions.iter_mut().for_each(|head| head.clone_from(&kept));
        (kept, gone.map(|row| row as u32).collect())
    }

    /// Rows beyond sinks and window after `seen` tokens.
    fn excess(&self, seen: usize) -> usize {
        self.layout.bounds.as_ref().map_or(0, |bounds| {
            (self.live - self.first()).saturating_sub(bounds.sinks.min(seen) + bounds.window(seen))
        })
    }

    fn log_weight(&self) -> f32 {
        if self.departed == 0 { f32::NEG_INFINITY } else { (self.departed as f32).ln() }
    }
}

impl Store {
    /// Allocates the lanes in the backend's memory.
    pub fn new(layout: Layout, backend: &Backend) -> Result<Store, EngineError> {
        let lanes = layout.layers.iter().map(Vec::len).sum::<usize>();
        let context = Context::new(3 * lanes + 1);
        let tensor = |ty: Type, capacity: usize, lane: &LaneLayout| {
            context.tensor(ty, [layout.head_dim, capacity, lane.kv_heads.len()])
        };
        let layers = layout
            .layers
            .iter()
            .map(|lanes| {
                let lanes = lanes.iter().map(|lane| {
                    let graph = GraphLane {
                        k: tensor(layout.k_type, lane.capacity, lane),
                        v: tensor(layout.v_type, lane.capacity, lane),
                        kv_heads: lane.kv_heads.as_slice().into(),
                        compensated: lane.compensated(),
                    };
                    let sums = lane
                        .compensated()
                        .then(|| context.tensor(Type::F32, [layout.head_dim, lane.kv_heads.len(), 2]));
                    let heads = if lane.bounds.is_some() { lane.kv_heads.len() } else { 0 };
                    let capacity = lane.capacity;
                    let mut lane = Lane {
                        graph,
                        sums,
                        layout: lane.clone(),
                        live: 0,
                        departed: 0,
                        positions: vec![Vec::with_capacity(capacity); heads],
                        settled: 0,
                    };
                    lane.clear();
                    lane
                });
                lanes.collect()
            })
            .collect();
        let buffer = context.allocate(&backend.buffer_type())?;
        let positions: usize = layout
            .layers
            .iter()
            .flatten()
            .filter(|lane| lane.bounds.is_some())
            .map(|lane| 4 * lane.capacity * lane.kv_heads.len())
            .sum();
        let bytes = buffer.map_or(0, |buffer| buffer.bytes()) + positions;
        let mut store = Store { layout, layers, seen: 0, bytes };
        store.clear()?;
        Ok(store)
    }

    /// Forgets everything.
    pub fn clear(&mut self) -> Result<(), EngineError> {
        self.seen = 0;
        for lane in self.layers.iter_mut().flatten() {
            lane.clear();
            let Some(sums) = &lane.sums else { continue };
            sums.clear()?;
            // The compensation entry weighs nothing yet, but nothing times NaN is NaN: fresh memory may hold anything.
            for tensor in [&lane.graph.k, &lane.graph.v] {
                let [_, row, head, _] = tensor.strides();
                for number in 0..tensor.dim(2) {
                    tensor.write(number * head, &vec![0u8; row])?;
                }
            }
        }
        Ok(())
    }

    /// The shape.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Tokens seen, evicted ones included.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the rows that are live now, with the compensation entries that stand for something.
    pub fn live_bytes(&self) -> usize {
        let rows = |lane: &Lane| if lane.departed == 0 { lane.live - lane.first() } else { lane.live };
        let rows: usize =
            self.layers.iter().flatten().map(|lane| rows(lane) * lane.layout.kv_heads.len()).sum();
        rows * self.layout.row_bytes()
    }

    /// A layer's lanes.
    pub fn lanes(&self, layer: usize) -> Vec<GraphLane> {
        self.layers[layer].iter().map(|lane| lane.graph.clone()).collect()
    }

    /// Whether all heads of a layer keep everything.
    pub fn is_dense(&self, layer: usize) -> bool {
        self.layers[layer].iter().all(|lane| lane.layout.bounds.is_none())
    }

    /// How many tokens can be written before rows must leave.
    pub fn room(&self) -> usize {
        let lanes = self.layers.iter().flatten();
        lanes.map(|lane| lane.layout.capacity - lane.live).min().unwrap_or(0)
    }

    /// The two columns of lane state of every layer, `[MAX_LANES, layers]`.
    pub fn state(&self) -> (Vec<i32>, Vec<f32>) {
        let column = |lanes: &Vec<Lane>| {
            let mut rows = [0; MAX_LANES];
            let mut weights = [f32::NEG_INFINITY; MAX_LANES];
            for (number, lane) in lanes.iter().enumerate() {
                rows[number] = lane.live as i32;
                weights[number] = lane.log_weight();
            }
            (rows, weights)
        };
        let (rows, weights): (Vec<_>, Vec<_>) = self.layers.iter().map(column).unzip();
        (rows.concat(), weights.concat())
    }

    /// Records that `n` tokens were written behind the live rows of every lane.
    pub fn advance(&mut self, n: usize) {
        for lane in self.layers.iter_mut().flatten() {
            lane.grow(self.seen, self.seen + n);
        }
        self.seen += n;
    }

    /// Whether some lane has gathered more rows than its slack.
    pub fn is_due(&self) -> bool {
        self.layers.iter().flatten().any(|lane| {
            let bounds = lane.layout.bounds.as_ref();
            bounds.is_some_and(|bounds| lane.excess(self.seen) > bounds.slack(self.layout.context))
        })
    }

    /// Lets everything leave that no bound keeps. Runs to its end whatever the interrupt flag says; after an error the
    /// store is empty.
    pub fn evict(&mut self, backend: &Backend, allocator: &mut GraphAllocator) -> Result<(), EngineError> {
        let done = self.evict_rows(backend, allocator);
        if done.is_err() {
            self.clear()?;
        }
        done
    }

    fn evict_rows(&mut self, backend: &Backend, allocator: &mut GraphAllocator) -> Result<(), EngineError> {
        let seen = self.seen;
        let ctx = Context::new(self.layers.iter().map(Vec::len).sum::<usize>() + 1);
        let mut nodes = Vec::new();
        for lane in self.layers.iter_mut().flatten().filter(|lane| lane.excess(seen) > 0) {
            let Some(bounds) = lane.layout.bounds.clone() else { continue };
            let first = lane.first();
            let gone = bounds.sinks as u32..bounds.horizon(seen) as u32;
            let (mut dropped, mut moves) = (Vec::new(), Vec::new());
            for head in &mut lane.positions {
                // Row numbers count from row `first`; the moves are made on the whole head.
                let rows: Vec<u32> =
                    (0..head.len() as u32).filter(|row| gone.contains(&head[*row as usize])).collect();
                let filled = fill_holes(&rows, head.len());
                for (to, from) in &filled {
                    head[*to as usize] = head[*from as usize];
                }
                head.truncate(head.len() - rows.len());
                let shift = first as u32;
                dropped.push(rows.iter().map(|row| row + shift).collect::<Vec<_>>());
                moves.push(filled.iter().map(|(to, from)| (to + shift, from + shift)).collect());
            }
            let count = dropped.first().map_or(0, Vec::len);
            debug_assert!(
                dropped.iter().all(|rows| rows.len() == count),
                "heads of a lane keep equally many"
            );
            lane.live -= count;
            lane.departed += count;
            lane.settled = seen;
            let departure = Departure { dropped, moves, count: lane.departed };
            nodes.push(graph::depart(&ctx, &lane.graph, lane.sums.as_ref(), departure));
        }
        run(&ctx, &nodes, backend, allocator)
    }

    /// Fills the lanes of a layer from its complete keys and values `[head_dim, n, n_kv_heads]`, as if the `n` tokens had
    /// been seen and everything that no bound keeps had left. The store must be empty; [`Store::finish_exact`] ends it.
    pub fn take_layer(
        &mut self,
        layer: usize,
        (k, v): (&Tensor, &Tensor),
        n: usize,
        backend: &Backend,
        allocator: &mut GraphAllocator,
    ) -> Result<(), EngineError> {
        let ctx = Context::new(self.layers[layer].len() + 1);
        let mut nodes = Vec::new();
        for lane in &mut self.layers[layer] {
            let (kept, dropped) = lane.take(n);
            let heads = lane.layout.kv_heads.len();
            let selection = Selection { kept: vec![kept; heads], dropped: vec![dropped; heads] };
            nodes.push(graph::select(&ctx, (k, v), &lane.graph, lane.sums.as_ref(), selection));
        }
        run(&ctx, &nodes, backend, allocator)
    }

    /// Fills the lanes with random rows, as if `n` tokens had been seen. For measuring.
    pub fn fill_random(&mut self, n: usize, seed: u64) -> Result<(), EngineError> {
        const ROWS: usize = 512;
        let mut random = Random(seed);
        let d = self.layout.head_dim;
        let mut block = |ty: Type| {
            let ty = kernels::graph::row_type(ty).expect("lanes have row types");
            let bytes = ty.row_bytes(d);
            let mut rows = vec![0u8; ROWS * bytes];
            for row in rows.chunks_exact_mut(bytes) {
                let values: Vec<f32> = (0..d).map(|_| random.normal()).collect();
                ty.encode(&values, row);
            }
            rows
        };
        let (k_rows, v_rows) = (block(self.layout.k_type), block(self.layout.v_type));
        for lane in self.layers.iter_mut().flatten() {
            lane.take(n);
            for (tensor, rows) in [(&lane.graph.k, &k_rows), (&lane.graph.v, &v_rows)] {
                let [_, row_bytes, head_bytes, _] = tensor.strides();
                for head in 0..tensor.dim(2) {
                    for first in (0..lane.live).step_by(ROWS) {
                        let bytes = ROWS.min(lane.live - first) * row_bytes;
                        tensor.write(head * head_bytes + first * row_bytes, &rows[..bytes])?;
                    }
                }
            }
        }
        self.seen = n;
        Ok(())
    }

    /// Records that `n` tokens were written to a layer that keeps everything.
    pub fn grow_layer(&mut self, layer: usize, n: usize) {
        for lane in &mut self.layers[layer] {
            lane.grow(self.seen, self.seen + n);
        }
    }

    /// Ends an exact prefill of `n` tokens, in which every layer was filled by [`Store::take_layer`] or grown by
    /// [`Store::grow_layer`].
    pub fn finish_exact(&mut self, n: usize) {
        self.seen = n;
    }

    /// Whether all tokens from position `seen` on can be taken back: only where no rows have left since.
    pub fn can_truncate(&self, seen: usize) -> bool {
        self.layers.iter().flatten().all(|lane| lane.settled <= seen)
    }

    /// Takes back all tokens from position `seen` on, if [`Store::can_truncate`].
    pub fn truncate(&mut self, seen: usize) {
        let back = self.seen - seen;
        for lane in self.layers.iter_mut().flatten() {
            lane.live -= back;
            lane.positions.iter_mut().for_each(|head| head.truncate(head.len() - back));
        }
        self.seen = seen;
    }

    /// The positions that each KV head of a layer holds, ascending.
    pub fn positions(&self, layer: usize) -> Vec<Vec<u32>> {
        let mut all = vec![Vec::new(); self.layout.n_kv_heads];
        for lane in &self.layers[layer] {
            for (number, head) in lane.layout.kv_heads.iter().enumerate() {
                let mut held = match lane.positions.get(number) {
                    Some(positions) => positions.clone(),
                    None => (0..self.seen as u32).collect(),
                };
                held.sort_unstable();
                all[*head as usize] = held;
            }
        }
        all
    }

    /// What the compensation entry of each KV head of a layer stands for: sums of keys and of values `[head_dim]` and
    /// their number; `None` where nothing has left or nothing stands for it.
    #[allow(clippy::type_complexity)]
    pub fn compensation(
        &self,
        layer: usize,
    ) -> Result<Vec<Option<(Vec<f32>, Vec<f32>, usize)>>, EngineError> {
        let mut all = vec![None; self.layout.n_kv_heads];
        for lane in &self.layers[layer] {
            let Some(sums) = lane.sums.as_ref().filter(|_| lane.departed > 0) else { continue };
            let sums: Vec<f32> = sums.to_vec()?;
            let (d, heads) = (self.layout.head_dim, lane.layout.kv_heads.len());
            for (number, head) in lane.layout.kv_heads.iter().enumerate() {
                let part = |which: usize| sums[(which * heads + number) * d..][..d].to_vec();
                all[*head as usize] = Some((part(0), part(1), lane.departed));
            }
        }
        Ok(all)
    }
}

fn run(
    ctx: &Context,
    nodes: &[Tensor],
    backend: &Backend,
    allocator: &mut GraphAllocator,
) -> Result<(), EngineError> {
    if nodes.is_empty() {
        return Ok(());
    }
    let results: Vec<&Tensor> = nodes.iter().collect();
    let graph = allocator.prepare(ctx.graph(&results)?)?;
    Ok(backend.compute_to_end(&graph)?)
}
