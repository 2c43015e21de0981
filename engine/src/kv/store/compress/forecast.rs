//! The graphs with which policies act, as a plan measures them: over tensors without memory, for as many rows as there may
//! be. Portable operations have large intermediate tensors, so that these graphs may take more than those of the model.

use std::sync::Arc;

use ggml::{Context, Graph, Tensor};
use kernels::Form;
use kernels::graph::{AttentionShape, EvictRows, Eviction, GraphLane, RowSelection, SelectRows};
use kernels::rows::fill_holes;

use super::complement;
use super::selection::Source;
use crate::EngineError;
use crate::kv::layout::{LaneLayout, Layout};
use crate::kv::policy::{Event, LaneStatus};
use crate::kv::tensors::LayerTensors;

/// Rows that are evicted, of each head.
type EvictedRows = Vec<Vec<u32>>;

/// The lanes of a layer of a store, with tensors that have no memory.
pub(crate) struct LayerForecast<'a> {
    pub(crate) form: Form,
    pub(crate) shape: AttentionShape,
    pub(crate) lanes: &'a [LaneLayout],
    pub(crate) tensors: &'a LayerTensors,
    pub(crate) sink_logits: Option<Tensor>,
    /// Tokens of the session.
    pub(crate) context: usize,
}

/// Rows from which a policy evicts some.
struct FilledRows<'a> {
    tensors: &'a GraphLane,
    /// For each head of the lane its number in the tensors.
    heads: Vec<u32>,
    /// The first row that holds a token.
    first: usize,
    /// Rows that hold a token.
    count: usize,
}

impl<'a> LayerForecast<'a> {
    /// The forecast for a layer of a layout.
    pub(crate) fn new(
        form: Form,
        layout: &'a Layout,
        layer: usize,
        tensors: &'a LayerTensors,
        sink_logits: Option<Tensor>,
    ) -> LayerForecast<'a> {
        let (shape, lanes, context) = (layout.heads[layer], &layout.layers[layer], layout.context);
        LayerForecast { form, shape, lanes, tensors, sink_logits, context }
    }

    /// The graphs that fill the lanes from `n` complete rows of each head.
    pub(crate) fn after_exact_prefill(
        &self,
        complete: &GraphLane,
        n: usize,
    ) -> Result<Vec<Graph>, EngineError> {
        let of_lane = |lane: &GraphLane| self.form.max_tensors(lane, 0, 0);
        let tensors = self.tensors.lanes.iter().map(|lane| of_lane(&lane.graph).max(of_lane(complete)));
        let ctx = Context::new(tensors.sum::<usize>() + 1);
        let (mut graphs, mut nodes) = (Vec::new(), Vec::new());
        for (lane, tensors) in self.lanes.iter().zip(&self.tensors.lanes) {
            let rows = FilledRows { tensors: complete, heads: lane.kv_heads.clone(), first: 0, count: n };
            let (graph, evicted) = self.evicted(lane, Event::ExactPrefill, rows)?;
            graphs.extend(graph);
            let evicted = evicted.unwrap_or_else(|| vec![Vec::new(); lane.kv_heads.len()]);
            let selection = RowSelection {
                kept: evicted.iter().map(|evicted| complement(evicted, n)).collect(),
                evicted,
            };
            let (k, v, sums) = (&complete.k, &complete.v, tensors.sums.as_ref());
            nodes.push(self.form.nodes(&ctx, SelectRows { k, v, lane: &tensors.graph, sums, selection }));
        }
        graphs.push(ctx.graph(&nodes.iter().collect::<Vec<_>>())?);
        Ok(graphs)
    }

    /// The graphs that score the rows of lanes that are full, and for each lane what is evicted then.
    fn of_full_lanes(&self) -> Result<(Vec<Graph>, Vec<Option<Eviction>>), EngineError> {
        let (mut graphs, mut evictions) = (Vec::new(), Vec::new());
        for (lane, tensors) in self.lanes.iter().zip(&self.tensors.lanes) {
            let first = usize::from(lane.compensated);
            let rows = FilledRows {
                tensors: &tensors.graph,
                heads: (0..lane.kv_heads.len() as u32).collect(),
                first,
                count: lane.capacity - first,
            };
            let (graph, evicted) = self.evicted(lane, Event::Chunk, rows)?;
            graphs.extend(graph);
            evictions.push(evicted.filter(|rows| !rows[0].is_empty()).map(|evicted| {
                let behind_entry = |row: u32| row + first as u32;
                let moves = |rows: &Vec<u32>| {
                    let filled = fill_holes(rows, lane.capacity - first).into_iter();
                    filled.map(|(to, from)| (behind_entry(to), behind_entry(from))).collect()
                };
                Eviction {
                    moves: evicted.iter().map(moves).collect(),
                    total_evicted: evicted[0].len(),
                    evicted: (evicted.into_iter())
                        .map(|rows| rows.into_iter().map(behind_entry).collect())
                        .collect(),
                    return_rows: true,
                }
            }));
        }
        Ok((graphs, evictions))
    }

    /// The graph that scores rows, and those that are evicted of each head; `None` where the policy evicts none.
    fn evicted(
        &self,
        lane: &LaneLayout,
        event: Event,
        rows: FilledRows,
    ) -> Result<(Option<Graph>, Option<EvictedRows>), EngineError> {
        let status = LaneStatus {
            event,
            forced: event == Event::Chunk,
            seen: rows.count,
            live: rows.count,
            scanned_until: 0,
            prompt_rows_kept: 0,
            context: self.context,
        };
        let plan = lane.policy.as_ref().and_then(|policy| policy.plan_eviction(&status));
        let Some(plan) = plan else { return Ok((None, None)) };
        let positions = Arc::new((0..rows.count as u32).collect::<Vec<_>>());
        let source = Source {
            form: self.form,
            lane,
            log_weight: 0.0,
            rows: rows.tensors,
            queries: self.tensors.recorded.queries.as_ref(),
            sink_logits: self.sink_logits.as_ref(),
            key_offset: None,
            positions: vec![positions; rows.heads.len()],
            heads: rows.heads,
            first: rows.first,
            status,
        };
        let (graph, evicted) = source.forecast(self.shape, &plan)?;
        Ok((graph, Some(evicted)))
    }
}

/// The graphs with which policies make room in lanes that are full, of layers in one place.
pub(crate) fn making_room(layers: &[LayerForecast]) -> Result<Vec<Graph>, EngineError> {
    let (mut graphs, mut evictions) = (Vec::new(), Vec::new());
    for layer in layers {
        let (scoring, of_lanes) = layer.of_full_lanes()?;
        graphs.extend(scoring);
        let lanes = layer.tensors.lanes.iter().zip(of_lanes);
        evictions.extend(lanes.filter_map(|(lane, eviction)| Some((layer.form, lane, eviction?))));
    }
    if evictions.is_empty() {
        return Ok(graphs);
    }
    let tensors = evictions.iter().map(|(form, lane, _)| form.max_tensors(&lane.graph, 0, 0));
    let ctx = Context::new(tensors.sum::<usize>() + 1);
    let nodes: Vec<Tensor> = (evictions.into_iter())
        .map(|(form, lane, eviction)| {
            form.nodes(&ctx, EvictRows { lane: &lane.graph, sums: lane.sums.as_ref(), eviction })
        })
        .collect();
    graphs.push(ctx.graph(&nodes.iter().collect::<Vec<_>>())?);
    Ok(graphs)
}
