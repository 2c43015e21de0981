//! The store: the lanes' memory, which rows are live, and what leaves when.
//!
//! Live rows of a lane are contiguous: a lane grows at its end, and when rows leave, the last ones fill the holes. A lane that is
//! compensated has its compensation entry in row 0 from the beginning, unused (log-weight -inf) until something has left.
//! The host keeps which position each row holds; scores, sums and rows stay where the lanes are. How rows are chosen and leave is
//! in [`compress`], how a turn is taken back in [`undo`], how all of it becomes bytes in [`snapshot`].

mod compress;
mod snapshot;
mod undo;

use super::LaneValues;
use super::layout::{LaneLayout, Layout};
use super::policy::{Counted, Event, Gathered, Moment};
use crate::EngineError;
use crate::backends::Backends;
use crate::placement::Place;
use ggml::{Context, Tensor, Type};
use kernels::graph::{GraphLane, MAX_LANES, RowPositions};
use std::sync::Arc;
use undo::Undo;

/// The rows of one session.
pub struct Store {
    layout: Layout,
    layers: Vec<Layer>,
    /// Tokens seen, evicted ones included: the position of the next one.
    seen: usize,
    bytes: usize,
    undo: Undo,
}

struct Layer {
    lanes: Vec<Lane>,
    /// Queries of the last tokens, `[head_dim, n_heads, tokens]` f32, where a policy asks for them.
    queries: Option<Tensor>,
}

struct Lane {
    graph: GraphLane,
    /// Running sums of what left, `[head_dim, heads, 2]` f32, K then V.
    sums: Option<Tensor>,
    layout: LaneLayout,
    state: LaneState,
    /// `[heads][live - first]`: the position each row was made at; not kept for lanes that keep everything.
    positions: Vec<Arc<Vec<u32>>>,
}

/// What is known of a lane as a whole.
#[derive(Clone, Copy, Debug)]
struct LaneState {
    /// Rows that hold something, the compensation entry's row included.
    live: usize,
    /// Rows the compensation entry stands for.
    departed: usize,
    /// End of the positions that were cut so far.
    done: usize,
    /// Rows that were kept of a text read with full attention.
    of_text: usize,
    /// Tokens seen when rows last left: those after it lie in order at the end.
    settled: usize,
}

/// What a layer's part of a graph reads and writes.
#[derive(Clone)]
pub struct LayerRows {
    /// The lanes.
    pub lanes: Vec<GraphLane>,
    /// What policies ask for of the attention.
    pub observers: Vec<Observer>,
}

/// What the policy of one store asks for of a layer's attention.
#[derive(Clone)]
pub struct Observer {
    /// Where queries are kept, `[head_dim, n_heads, tokens]` f32.
    pub queries: Option<Tensor>,
    /// What is gathered.
    pub watched: Option<Watched>,
}

/// Attention that a lane's rows gather.
#[derive(Clone)]
pub struct Watched {
    /// The lane, with what its rows have received.
    pub rows: GraphLane,
    /// Its place in the layer.
    pub number: usize,
    /// Which of its heads.
    pub heads: Arc<[u32]>,
    /// From which queries, and how.
    pub gathered: Gathered,
}

impl LayerRows {
    /// Of how many of the last tokens queries are needed beside those that attend, in a computation of `n` tokens.
    pub fn observed(&self, n: usize) -> usize {
        self.observers.iter().map(|observer| observer.queries_of(n)).max().unwrap_or(0)
    }
}

impl Observer {
    fn queries_of(&self, n: usize) -> usize {
        let kept = self.queries.as_ref().map_or(0, |queries| queries.dim(2).min(n));
        let gathered = match &self.watched {
            Some(_) if n == 1 => 1,
            Some(watched) => match watched.gathered.chunk {
                Some(Counted::All) => n,
                Some(Counted::Last) => 1,
                None => 0,
            },
            None => 0,
        };
        kept.max(gathered)
    }
}

impl Lane {
    /// The first row that holds a token.
    fn first(&self) -> usize {
        usize::from(self.layout.compensated)
    }

    fn clear(&mut self) {
        self.state = LaneState { live: self.first(), departed: 0, done: 0, of_text: 0, settled: 0 };
        self.positions.iter_mut().for_each(|head| Arc::make_mut(head).clear());
    }

    /// Records that the tokens at `from..to` were written behind the live rows.
    fn grow(&mut self, from: usize, to: usize) {
        self.state.live += to - from;
        for head in &mut self.positions {
            Arc::make_mut(head).extend(from as u32..to as u32);
        }
    }

    /// Rows that hold a token.
    fn tokens(&self) -> usize {
        self.state.live - self.first()
    }

    fn moment(&self, event: Event, forced: bool, seen: usize, context: usize) -> Moment {
        let LaneState { done, of_text, .. } = self.state;
        Moment { event, forced, seen, live: self.tokens(), done, of_text, context }
    }

    /// Writes down where the rows were made, for attention that depends on distances.
    fn write_positions(&self) -> Result<(), EngineError> {
        let Some(to) = &self.graph.positions else { return Ok(()) };
        for head in 0..self.layout.kv_heads.len() {
            let held: Vec<i32> = match self.positions.get(head) {
                Some(held) => held.iter().map(|position| *position as i32).collect(),
                None => (0..self.state.live as i32).collect(),
            };
            to.all.write(size_of::<i32>() * (to.first + head * self.layout.capacity), &held)?;
        }
        Ok(())
    }

    fn log_weight(&self) -> f32 {
        if self.state.departed == 0 { f32::NEG_INFINITY } else { (self.state.departed as f32).ln() }
    }
}

impl Store {
    /// Allocates each layer's lanes where the layer is computed.
    pub fn new(layout: Layout, backends: &Backends) -> Result<Store, EngineError> {
        let count = layout.layers.iter().map(|lanes| 5 * lanes.len() + 1).sum::<usize>();
        let contexts = Place::ALL.map(|_| Context::new(count + 1));
        let heads = layout.heads;
        let tensor = |context: &Context, ty: Type, lane: &LaneLayout| {
            context.tensor(ty, [heads.head_dim, lane.capacity, lane.kv_heads.len()])
        };
        let new_lane = |context: &Context, lane: &LaneLayout, positions: Option<RowPositions>| {
            let n = lane.kv_heads.len();
            let gathers = lane.needs().gathered.is_some();
            let mut lane = Lane {
                graph: GraphLane {
                    k: tensor(context, layout.k_type, lane),
                    v: tensor(context, layout.v_type, lane),
                    kv_heads: lane.kv_heads.as_slice().into(),
                    compensated: lane.compensated,
                    accumulated: gathers.then(|| context.tensor(Type::F32, [lane.capacity, n])),
                    positions,
                },
                sums: lane.compensated.then(|| context.tensor(Type::F32, [heads.head_dim, n, 2])),
                layout: lane.clone(),
                state: LaneState { live: 0, departed: 0, done: 0, of_text: 0, settled: 0 },
                positions: match lane.policy {
                    Some(_) => vec![Arc::default(); n],
                    None => Vec::new(),
                },
            };
            lane.clear();
            lane
        };
        let new_layer = |layer: usize| {
            let context = &contexts[backends.placement().of(layer) as usize];
            Layer {
                lanes: (layout.layers[layer].iter())
                    .zip(layout.row_positions(context, &layout.layers[layer]))
                    .map(|(lane, positions)| new_lane(context, lane, positions))
                    .collect(),
                queries: match layout.queries(layer) {
                    0 => None,
                    tokens => {
                        let n_heads = heads.n_kv_heads * heads.group;
                        Some(context.tensor(Type::F32, [heads.head_dim, n_heads, tokens]))
                    }
                },
            }
        };
        let layers: Vec<Layer> = (0..layout.layers.len()).map(new_layer).collect();
        let mut allocated = 0;
        for (place, context) in Place::ALL.into_iter().zip(&contexts) {
            if !backends.placement().layers(place).is_empty() {
                allocated += context.allocate(&backends.at(place).buffer_type())?;
            }
        }
        let positions: usize = layout
            .layers
            .iter()
            .flatten()
            .filter(|lane| lane.policy.is_some())
            .map(|lane| 4 * lane.capacity * lane.kv_heads.len())
            .sum();
        let bytes = allocated + positions;
        let mut store = Store { layout, layers, seen: 0, bytes, undo: Undo::default() };
        // Only now: where there is no memory for the rows, that is an error; here it would be the end of the process.
        for lane in store.lanes_mut() {
            let capacity = lane.layout.capacity;
            lane.positions.iter_mut().for_each(|head| *head = Arc::new(Vec::with_capacity(capacity)));
        }
        store.clear()?;
        Ok(store)
    }

    /// Forgets everything.
    pub fn clear(&mut self) -> Result<(), EngineError> {
        self.seen = 0;
        self.undo = Undo::default();
        for queries in self.layers.iter().filter_map(|layer| layer.queries.as_ref()) {
            queries.clear()?;
        }
        for lane in self.lanes_mut() {
            lane.clear();
            if let Some(received) = &lane.graph.accumulated {
                received.clear()?;
            }
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

    /// Bytes of the rows that are live now, compensation entries in use included.
    pub fn live_bytes(&self) -> usize {
        let rows: usize = self
            .all_lanes()
            .map(|lane| {
                (lane.tokens() + usize::from(lane.state.departed > 0 && lane.layout.compensated), lane)
            })
            .map(|(rows, lane)| rows * lane.layout.kv_heads.len())
            .sum();
        rows * self.layout.row_bytes()
    }

    fn all_lanes(&self) -> impl Iterator<Item = &Lane> {
        self.layers.iter().flat_map(|layer| &layer.lanes)
    }

    fn lanes_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.layers.iter_mut().flat_map(|layer| &mut layer.lanes)
    }

    /// What a graph reads and writes of a layer.
    pub fn rows(&self, layer: usize) -> LayerRows {
        let Layer { lanes, queries } = &self.layers[layer];
        let watched = lanes.iter().enumerate().find_map(|(number, lane)| {
            let heads = (0..lane.layout.kv_heads.len() as u32).collect();
            let gathered = lane.layout.needs().gathered?;
            Some(Watched { rows: lane.graph.clone(), number, heads, gathered })
        });
        LayerRows {
            lanes: lanes.iter().map(|lane| lane.graph.clone()).collect(),
            observers: vec![Observer { queries: queries.clone(), watched }],
        }
    }

    /// What is asked for of a layer's attention while its complete rows lie in `scratch`, the only lane, of all KV heads.
    pub fn observer_of(&self, layer: usize, scratch: &GraphLane) -> Observer {
        let Layer { lanes, queries } = &self.layers[layer];
        let watched = lanes.iter().find_map(|lane| {
            let gathered = lane.layout.needs().gathered?;
            Some(Watched { rows: scratch.clone(), number: 0, heads: lane.graph.kv_heads.clone(), gathered })
        });
        Observer { queries: queries.clone(), watched }
    }

    /// Whether all heads of a layer keep everything.
    pub fn is_dense(&self, layer: usize) -> bool {
        self.layers[layer].lanes.iter().all(|lane| lane.layout.policy.is_none())
    }

    /// How many tokens can be written before rows must leave.
    pub fn room(&self) -> usize {
        self.all_lanes().map(|lane| lane.layout.capacity - lane.state.live).min().unwrap_or(0)
    }

    /// The values of the graphs' lane inputs.
    pub fn state(&self) -> LaneValues {
        let column = |layer: &Layer| {
            let mut rows = [0; MAX_LANES];
            let mut weights = [f32::NEG_INFINITY; MAX_LANES];
            for (number, lane) in layer.lanes.iter().enumerate() {
                rows[number] = lane.state.live as i32;
                weights[number] = lane.log_weight();
            }
            (rows, weights)
        };
        let (rows, log_weights): (Vec<_>, Vec<_>) = self.layers.iter().map(column).unzip();
        LaneValues { rows: rows.concat(), log_weights: log_weights.concat() }
    }

    /// Records that `n` tokens were written behind the live rows of every lane.
    pub fn advance(&mut self, n: usize) {
        let seen = self.seen;
        self.lanes_mut().for_each(|lane| lane.grow(seen, seen + n));
        self.seen += n;
    }

    /// Records that `n` tokens were written to a layer that keeps everything.
    pub fn grow_layer(&mut self, layer: usize, n: usize) {
        let seen = self.seen;
        self.layers[layer].lanes.iter_mut().for_each(|lane| lane.grow(seen, seen + n));
    }

    /// Ends an exact prefill of `n` tokens, in which every layer was filled by [`Store::take_layer`] or grown by
    /// [`Store::grow_layer`].
    pub fn finish_exact(&mut self, n: usize) {
        self.seen = n;
    }

    /// The positions that each KV head of a layer holds, ascending.
    pub fn positions(&self, layer: usize) -> Vec<Vec<u32>> {
        let mut all = vec![Vec::new(); self.layout.heads.n_kv_heads];
        for lane in &self.layers[layer].lanes {
            for (number, head) in lane.layout.kv_heads.iter().enumerate() {
                let mut held = match lane.positions.get(number) {
                    Some(positions) => positions.to_vec(),
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
        let mut all = vec![None; self.layout.heads.n_kv_heads];
        for lane in &self.layers[layer].lanes {
            let Some(sums) = lane.sums.as_ref().filter(|_| lane.state.departed > 0) else { continue };
            let sums: Vec<f32> = sums.to_vec()?;
            let (d, heads) = (self.layout.heads.head_dim, lane.layout.kv_heads.len());
            for (number, head) in lane.layout.kv_heads.iter().enumerate() {
                let part = |which: usize| sums[(which * heads + number) * d..][..d].to_vec();
                all[*head as usize] = Some((part(0), part(1), lane.state.departed));
            }
        }
        Ok(all)
    }

    /// What the rows of each KV head of a layer have gathered, in the order of their positions; `None` where nothing is.
    pub fn gathered(&self, layer: usize) -> Result<Vec<Option<Vec<f32>>>, EngineError> {
        let mut all = vec![None; self.layout.heads.n_kv_heads];
        for lane in &self.layers[layer].lanes {
            let Some(received) = &lane.graph.accumulated else { continue };
            for (number, head) in lane.layout.kv_heads.iter().enumerate() {
                let column = lane.received(received, number)?;
                let mut order: Vec<usize> = (0..lane.tokens()).collect();
                order.sort_unstable_by_key(|row| lane.positions[number][*row]);
                all[*head as usize] = Some(order.into_iter().map(|row| column[row]).collect());
            }
        }
        Ok(all)
    }
}
