//! When rows are evicted, and how: policies are asked for plans, `selection` says which rows leave, and lanes lose
//! them. This is the same for the complete rows of a prompt and for the rows of a lane.

mod forecast;
mod selection;

use std::sync::Arc;

use ggml::{Context, Tensor};
use kernels::graph::{EvictRows, Eviction, GraphLane, RowSelection, SelectRows};
use kernels::rows::fill_holes;

pub(crate) use self::forecast::{LayerForecast, making_room};
use self::selection::{Decision, Source};
use super::undo::EvictedRows;
use super::{Lane, LaneId, Layer, Store};
use crate::EngineError;
use crate::devices::backends::Backends;
use crate::devices::workspace::Workspace;
use crate::kv::policy::{Event, LaneStatus};

/// Evictions that are planned: for each lane the rows, and the end of the positions that the plan covers.
pub struct Evictions(Vec<(LaneId, Decision, usize)>);

impl Store {
    /// Lets the policies act on what has just been computed: plans evictions and carries them out.
    pub fn compress(
        &mut self,
        event: Event,
        forced: bool,
        backends: &Backends,
        workspace: &mut Workspace,
    ) -> Result<(), EngineError> {
        let evictions = self.plan_evictions(event, forced, backends, workspace)?;
        self.evict(evictions, backends, workspace)
    }

    /// Asks the policies which rows to evict where there are too many, with `forced` also rows within their
    /// slack. Changes nothing, and always runs to its end.
    pub fn plan_evictions(
        &self,
        event: Event,
        forced: bool,
        backends: &Backends,
        workspace: &mut Workspace,
    ) -> Result<Evictions, EngineError> {
        let (seen, context) = (self.seen, self.layout.context);
        let mut decisions = Vec::new();
        for (l, layer) in self.layers.iter().enumerate() {
            let place = backends.placement().of(l);
            for (number, lane) in layer.lanes.iter().enumerate() {
                // Policies are asked about rows that are there.
                let Some(policy) = lane.layout.policy.as_ref().filter(|_| lane.tokens() > 0) else {
                    continue;
                };
                let status = lane.status(event, forced, seen, context);
                let Some(plan) = policy.plan_eviction(&status) else { continue };
                let source = Source {
                    form: layer.form,
                    lane: &lane.layout,
                    log_weight: lane.log_weight(),
                    rows: &lane.graph,
                    queries: layer.recorded.queries.as_ref(),
                    sink_logits: layer.sink_logits.as_ref(),
                    key_offset: layer.key_offset.as_deref(),
                    heads: (0..lane.layout.kv_heads.len() as u32).collect(),
                    positions: lane.positions.clone(),
                    first: lane.first(),
                    status,
                };
                let decision = source.decide(self.layout.heads[l], &plan, backends, place, workspace)?;
                decisions.push((LaneId { layer: l, lane: number }, decision, plan.end()));
            }
        }
        Ok(Evictions(decisions))
    }

    /// Evicts rows as planned, without being interrupted. After an error the store is empty.
    pub fn evict(
        &mut self,
        evictions: Evictions,
        backends: &Backends,
        workspace: &mut Workspace,
    ) -> Result<(), EngineError> {
        let result = self.evict_rows(evictions, backends, workspace);
        if result.is_err() {
            self.clear()?;
        }
        result
    }

    fn evict_rows(
        &mut self,
        Evictions(decisions): Evictions,
        backends: &Backends,
        workspace: &mut Workspace,
    ) -> Result<(), EngineError> {
        let seen = self.seen;
        let mut tensors = backends.placement().per_place(|_| 1);
        for (id, ..) in &decisions {
            let Layer { lanes, form, .. } = &self.layers[id.layer];
            let of_lane = form.max_tensors(&lanes[id.lane].graph, 0, 0);
            tensors[backends.placement().of(id.layer)] += of_lane;
        }
        let contexts = tensors.map(Context::new);
        let mut nodes = backends.placement().per_place(|_| Vec::new());
        // What undo needs to know of the evicted rows, and the nodes that give their bytes.
        let mut saved = Vec::new();
        for (id, decision, end) in decisions {
            let lane = self.lane_mut(id);
            lane.state.scanned_until = lane.state.scanned_until.max(end);
            if let Some(accumulated) = &decision.accumulated {
                lane.write_accumulated(accumulated)?;
            }
            let count = decision.evicted.first().map_or(0, Vec::len);
            if count == 0 {
                continue;
            }
            let (first, live) = (lane.first() as u32, lane.tokens());
            let (mut evicted, mut moves, mut positions) = (decision.evicted, Vec::new(), Vec::new());
            for (rows, head) in evicted.iter_mut().zip(lane.positions.iter_mut().map(Arc::make_mut)) {
                positions.push(rows.iter().map(|row| head[*row as usize]).collect());
                let filled = fill_holes(rows, live);
                for (to, from) in &filled {
                    head[*to as usize] = head[*from as usize];
                }
                head.truncate(live - count);
                // Until here rows count from `first`; kernels and undo count from the head's beginning.
                rows.iter_mut().for_each(|row| *row += first);
                moves.push(filled.into_iter().map(|(to, from)| (to + first, from + first)).collect());
            }
            lane.state.live -= count;
            lane.state.evicted += count;
            lane.state.last_eviction_at = seen;
            lane.write_positions()?;
            let save = self.undo.must_save(id, count);
            let Layer { lanes, form, .. } = &self.layers[id.layer];
            let lane = &lanes[id.lane];
            let undo = save.then(|| EvictedRows {
                id,
                live: lane.state.live,
                evicted: evicted.clone(),
                moves: moves.clone(),
                rows: Vec::new(),
                positions,
            });
            let eviction = Eviction { evicted, moves, total_evicted: lane.state.evicted, return_rows: save };
            let place = backends.placement().of(id.layer);
            let evict = EvictRows { lane: &lane.graph, sums: lane.sums.as_ref(), eviction };
            let node = form.nodes(&contexts[place], evict);
            saved.extend(undo.map(|undo| (undo, node.clone())));
            nodes[place].push(node);
        }
        for (place, context) in contexts.iter() {
            workspace.run(backends, place, context, &nodes[place])?;
        }
        for (evicted, bytes) in saved {
            self.undo.save(EvictedRows { rows: bytes.to_vec()?, ..evicted });
        }
        Ok(())
    }

    /// Fills the lanes of a layer from its complete rows, the `n` rows of each head in `complete`, a lane
    /// with all KV heads: with the rows that the layer's policies keep after exact prefill. The store must be
    /// empty; [`Store::finish_exact`] ends it.
    pub fn fill_layer(
        &mut self,
        layer: usize,
        complete: &GraphLane,
        n: usize,
        backends: &Backends,
        workspace: &mut Workspace,
    ) -> Result<(), EngineError> {
        let (context, place) = (self.layout.context, backends.placement().of(layer));
        let all_positions = Arc::new((0..n as u32).collect::<Vec<_>>());
        let mut decisions: Vec<(Decision, usize)> = Vec::new();
        let queries = self.layers[layer].recorded.queries.clone();
        for lane in &self.layers[layer].lanes {
            let heads = lane.layout.kv_heads.len();
            let status = LaneStatus { live: n, ..lane.status(Event::ExactPrefill, false, n, context) };
            let plan = lane.layout.policy.as_ref().and_then(|policy| policy.plan_eviction(&status));
            let Some(plan) = plan else {
                decisions.push((Decision { evicted: vec![Vec::new(); heads], accumulated: None }, 0));
                continue;
            };
            let source = Source {
                form: self.layers[layer].form,
                lane: &lane.layout,
                log_weight: f32::NEG_INFINITY,
                rows: complete,
                queries: queries.as_ref(),
                sink_logits: self.layers[layer].sink_logits.as_ref(),
                key_offset: self.layers[layer].key_offset.as_deref(),
                heads: lane.layout.kv_heads.clone(),
                positions: vec![all_positions.clone(); heads],
                first: 0,
                status,
            };
            let decision = source.decide(self.layout.heads[layer], &plan, backends, place, workspace)?;
            decisions.push((decision, plan.end()));
        }

        let form = self.layers[layer].form;
        let of_lane = |lane: &Lane| form.max_tensors(&lane.graph, 0, 0).max(form.max_tensors(complete, 0, 0));
        let ctx = Context::new(self.layers[layer].lanes.iter().map(of_lane).sum::<usize>() + 1);
        let mut nodes = Vec::new();
        for (lane, (decision, end)) in self.layers[layer].lanes.iter_mut().zip(decisions) {
            let kept: Vec<Vec<u32>> = decision.evicted.iter().map(|evicted| complement(evicted, n)).collect();
            lane.start_after_prompt(&kept, n, end);
            lane.write_positions()?;
            if lane.graph.accumulated.is_some() {
                let accumulated = match decision.accumulated {
                    Some(accumulated) => accumulated,
                    None => (lane.layout.kv_heads.iter())
                        .map(|head| read_column(complete.accumulated.as_ref(), *head as usize, n))
                        .collect::<Result<_, _>>()?,
                };
                let of_kept = |(column, kept): (&Vec<f32>, &Vec<u32>)| {
                    kept.iter().map(|row| column[*row as usize]).collect()
                };
                let of_kept: Vec<Vec<f32>> = accumulated.iter().zip(&kept).map(of_kept).collect();
                lane.write_accumulated(&of_kept)?;
            }
            let selection = RowSelection { kept, evicted: decision.evicted };
            let (k, v, sums) = (&complete.k, &complete.v, lane.sums.as_ref());
            nodes.push(form.nodes(&ctx, SelectRows { k, v, lane: &lane.graph, sums, selection }));
        }
        workspace.run(backends, place, &ctx, &nodes)
    }
}

impl Lane {
    /// Sets the state after an exact prefill of `n` tokens of which the rows `kept` stay; plans have covered
    /// the positions up to `scanned_until`.
    fn start_after_prompt(&mut self, kept: &[Vec<u32>], n: usize, scanned_until: usize) {
        self.clear();
        let count = kept.first().map_or(0, Vec::len);
        self.state.live += count;
        self.state.evicted = n - count;
        self.state.scanned_until = scanned_until;
        self.state.prompt_rows_kept = count;
        self.state.last_eviction_at = if count < n { n } else { 0 };
        self.positions.iter_mut().zip(kept).for_each(|(head, kept)| Arc::make_mut(head).clone_from(kept));
    }

    /// The accumulated attention of the rows of head `number`, from the first that holds a token.
    pub(super) fn read_accumulated(&self, tensor: &Tensor, number: usize) -> Result<Vec<f32>, EngineError> {
        let mut column = read_column(Some(tensor), number, self.state.live)?;
        Ok(column.split_off(self.first()))
    }

    /// Sets the accumulated attention of the rows of every head, from the first row that holds a token.
    fn write_accumulated(&self, columns: &[Vec<f32>]) -> Result<(), EngineError> {
        let Some(tensor) = &self.graph.accumulated else { return Ok(()) };
        for (number, column) in columns.iter().enumerate() {
            tensor.write(number * tensor.strides()[1] + 4 * self.first(), column)?;
        }
        Ok(())
    }
}

fn read_column(tensor: Option<&Tensor>, number: usize, rows: usize) -> Result<Vec<f32>, EngineError> {
    let mut column = vec![0f32; rows];
    if let Some(tensor) = tensor {
        tensor.read(number * tensor.strides()[1], &mut column)?;
    }
    Ok(column)
}

/// The rows of `0..n` that are not in `rows` (ascending).
fn complement(rows: &[u32], n: usize) -> Vec<u32> {
    let mut rows = rows.iter().peekable();
    (0..n as u32).filter(|row| rows.next_if_eq(&row).is_none()).collect()
}

#[cfg(test)]
mod tests {
    use ggml::Type;
    use kernels::graph::AttentionShape;

    use super::*;
    use crate::kv::layout::LaneLayout;
    use crate::kv::policy::{Candidates, EvictionPlan, Gain, Measure, Policy, ScoreInput, Scoring};
    use crate::kv::{Layout, StoreOptions};

    /// A policy that needs no attention and gives a fixed number of scores.
    #[derive(Debug)]
    struct Faulty {
        input: ScoreInput,
        scores: usize,
    }

    impl Policy for Faulty {
        fn budget(&self, _context: usize) -> usize {
            4
        }

        fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
            let scoring = Scoring::of_all_rows(vec![self.input.clone()]);
            Some(EvictionPlan::single(0..status.seen, 4, Some(scoring)))
        }

        fn score(&self, candidates: Candidates) -> Vec<Vec<f32>> {
            vec![vec![0.0; self.scores]; candidates.heads.len()]
        }
    }

    /// A store of one layer with two heads of up to 8 rows.
    fn store(policy: Arc<dyn Policy>, backends: &Backends) -> Store {
        let lane = LaneLayout {
            kv_heads: vec![0, 1],
            capacity: 8,
            policy: Some(policy),
            compensated: false,
            window: None,
        };
        let heads = AttentionShape::plain(2, 2, 8);
        let options = StoreOptions { context: 8, types: (Type::F32, Type::F32), reserve: None };
        let layout = Layout::of_lanes(heads, options, vec![vec![lane]]);
        Store::new(layout, backends).expect("a store")
    }

    /// A policy that evicts nothing and expects rows.
    #[derive(Debug)]
    struct ExpectsRows;

    impl Policy for ExpectsRows {
        fn budget(&self, _context: usize) -> usize {
            4
        }

        fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
            assert!(status.live > 0, "asked about an empty lane");
            None
        }
    }

    #[test]
    fn policies_are_not_asked_about_empty_lanes() {
        let backends = Backends::host();
        let mut workspace = Workspace::new(&backends);
        let mut store = store(Arc::new(ExpectsRows), &backends);
        store.compress(Event::Chunk, true, &backends, &mut workspace).expect("nothing to evict");
        store.advance(1);
        store.compress(Event::Chunk, true, &backends, &mut workspace).expect("nothing to evict");
    }

    #[test]
    fn a_faulty_policy_is_an_error() {
        let backends = Backends::host();
        let mut workspace = Workspace::new(&backends);
        let window = ScoreInput::WindowAttention { queries: 1, gain: Gain::One };
        for (input, scores, reason) in [
            (ScoreInput::Key(Measure::Norm), 8, None),
            (ScoreInput::Key(Measure::Norm), 7, Some("one score a row")),
            (ScoreInput::Accumulated, 8, Some("does not declare")),
            (window, 8, Some("does not declare")),
        ] {
            let mut store = store(Arc::new(Faulty { input, scores }), &backends);
            store.advance(8);
            let result = store.compress(Event::Chunk, false, &backends, &mut workspace);
            match reason {
                None => assert_eq!((result.is_ok(), store.positions(0)), (true, vec![vec![0, 1, 2, 3]; 2])),
                Some(reason) => assert!(result.expect_err(reason).to_string().contains(reason)),
            }
        }
    }

    #[test]
    fn the_complement_is_what_stays() {
        assert_eq!(complement(&[0, 2], 4), [1, 3]);
        assert_eq!(complement(&[], 2), [0, 1]);
    }
}
