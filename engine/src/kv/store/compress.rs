//! How rows leave: a policy says who competes and by which numbers, the numbers are taken where the rows lie, and of every head
//! the lowest scores go. The same for the complete rows of a text and for the rows of a lane.

use super::undo::Departed;
use super::{Lane, Store};
use crate::backends::Backends;
use crate::kv::policy::{Basis, Cut, Event, HeadRows, Moment, Scored, ScoredRows};
use crate::placement::Place;
use crate::workspace::Workspace;
use crate::{EngineError, Hint};
use ggml::{Context, Tensor};
use kernels::graph::{self, AttentionShape, Eviction, GraphLane, RowSelection, WindowQueries};
use kernels::rows::fill_holes;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// The rows of a lane's heads: in the lane itself, or complete in a scratch tensor.
struct Source<'a> {
    lane: &'a Lane,
    rows: &'a GraphLane,
    queries: Option<&'a Tensor>,
    /// Per head of the lane its number in the tensors.
    heads: Vec<u32>,
    /// Per head the positions of its rows, from row `first` on.
    positions: Vec<Arc<Vec<u32>>>,
    /// The first row that holds a token.
    first: usize,
    moment: Moment,
}

/// What becomes of a lane's rows.
struct Decision {
    /// Per head the rows that leave, ascending, counted from the first that holds a token.
    dropped: Vec<Vec<u32>>,
    /// Per head what the rows have gathered from now on, if that changes.
    gathered: Option<Vec<Vec<f32>>>,
}

impl Store {
    /// Lets policies act on what has happened: rows leave where there are too many. With `forced`, also those leave that a
    /// policy would let gather. Runs to its end whatever the interrupt flag says; after an error the store is empty.
    pub fn compress(
        &mut self,
        event: Event,
        forced: bool,
        backends: &Backends,
        workspace: &mut Workspace,
    ) -> Result<(), EngineError> {
        let done = self.compress_lanes(event, forced, backends, workspace);
        if done.is_err() {
            self.clear()?;
        }
        done
    }

    fn compress_lanes(
        &mut self,
        event: Event,
        forced: bool,
        backends: &Backends,
        workspace: &mut Workspace,
    ) -> Result<(), EngineError> {
        let (seen, context) = (self.seen, self.layout.context);
        let mut decisions = Vec::new();
        for (l, layer) in self.layers.iter().enumerate() {
            let place = backends.placement().of(l);
            for (number, lane) in layer.lanes.iter().enumerate() {
                let Some(policy) = &lane.layout.policy else { continue };
                let moment = lane.moment(event, forced, seen, context);
                let Some(cut) = policy.cut(&moment) else { continue };
                let source = Source {
                    lane,
                    rows: &lane.graph,
                    queries: layer.queries.as_ref(),
                    heads: (0..lane.layout.kv_heads.len() as u32).collect(),
                    positions: lane.positions.clone(),
                    first: lane.first(),
                    moment,
                };
                let decision = decide((self.layout.heads, &source, &cut), (backends, place), workspace)?;
                decisions.push(((l, number), decision, end(&cut)));
            }
        }

        let contexts = Place::ALL.map(|_| Context::new(2 * decisions.len() + 1));
        let mut nodes = [Vec::new(), Vec::new()];
        // What is kept of the rows that leave, and the nodes that give the rows themselves.
        let (mut left, mut wanted) = (Vec::new(), Vec::new());
        for ((l, number), decision, end) in decisions {
            let lane = &mut self.layers[l].lanes[number];
            lane.state.done = lane.state.done.max(end);
            if let Some(gathered) = &decision.gathered {
                lane.write_received(gathered)?;
            }
            let count = decision.dropped.first().map_or(0, Vec::len);
            if count == 0 {
                continue;
            }
            let (first, live) = (lane.first() as u32, lane.tokens());
            let (mut dropped, mut moves, mut gone) = (decision.dropped, Vec::new(), Vec::new());
            for (rows, head) in dropped.iter_mut().zip(lane.positions.iter_mut().map(Arc::make_mut)) {
                gone.push(rows.iter().map(|row| head[*row as usize]).collect());
                let filled = fill_holes(rows, live);
                for (to, from) in &filled {
                    head[*to as usize] = head[*from as usize];
                }
                head.truncate(live - count);
                // Rows count from `first`; what follows works on the whole head.
                rows.iter_mut().for_each(|row| *row += first);
                moves.push(filled.into_iter().map(|(to, from)| (to + first, from + first)).collect());
            }
            lane.state.live -= count;
            lane.state.departed += count;
            lane.state.settled = seen;
            lane.write_positions()?;
            let aside = self.undo.wants((l, number), count);
            if aside {
                let (live, dropped, moves) = (lane.state.live, dropped.clone(), moves.clone());
                let departed =
                    Departed { place: (l, number), live, dropped, moves, rows: Vec::new(), positions: gone };
                left.push(departed);
            }
            let eviction =
                Eviction { evicted: dropped, moves, total_evicted: lane.state.departed, return_rows: aside };
            let place = backends.placement().of(l) as usize;
            let node = graph::evict_rows(&contexts[place], &lane.graph, lane.sums.as_ref(), eviction);
            if aside {
                wanted.push(node.clone());
            }
            nodes[place].push(node);
        }
        for place in Place::ALL {
            workspace.run(backends, place, &contexts[place as usize], &nodes[place as usize])?;
        }
        for (departed, rows) in left.into_iter().zip(wanted) {
            self.undo.keep(Departed { rows: rows.to_vec()?, ..departed });
        }
        Ok(())
    }

    /// Fills the lanes of a layer from its complete rows, `n` of them in `complete`, a lane of all KV heads: what its policy
    /// would keep of a text read with full attention. The store must be empty; [`Store::finish_exact`] ends it.
    pub fn take_layer(
        &mut self,
        layer: usize,
        complete: &GraphLane,
        n: usize,
        backends: &Backends,
        workspace: &mut Workspace,
    ) -> Result<(), EngineError> {
        let (context, place) = (self.layout.context, backends.placement().of(layer));
        let identity = Arc::new((0..n as u32).collect::<Vec<_>>());
        let mut decisions: Vec<(Decision, usize)> = Vec::new();
        let queries = self.layers[layer].queries.clone();
        for lane in &self.layers[layer].lanes {
            let heads = lane.layout.kv_heads.len();
            let moment = Moment { live: n, ..lane.moment(Event::Text, false, n, context) };
            let cut = lane.layout.policy.as_ref().and_then(|policy| policy.cut(&moment));
            let Some(cut) = cut else {
                decisions.push((Decision { dropped: vec![Vec::new(); heads], gathered: None }, 0));
                continue;
            };
            let source = Source {
                lane,
                rows: complete,
                queries: queries.as_ref(),
                heads: lane.layout.kv_heads.clone(),
                positions: vec![identity.clone(); heads],
                first: 0,
                moment,
            };
            let decision = decide((self.layout.heads, &source, &cut), (backends, place), workspace)?;
            decisions.push((decision, end(&cut)));
        }

        let ctx = Context::new(2 * self.layers[layer].lanes.len() + 1);
        let mut nodes = Vec::new();
        for (lane, (decision, end)) in self.layers[layer].lanes.iter_mut().zip(decisions) {
            let kept: Vec<Vec<u32>> = decision.dropped.iter().map(|dropped| others(dropped, n)).collect();
            lane.settle(&kept, n, end);
            lane.write_positions()?;
            if lane.graph.accumulated.is_some() {
                let gathered = match decision.gathered {
                    Some(gathered) => gathered,
                    None => (lane.layout.kv_heads.iter())
                        .map(|head| read_column(complete.accumulated.as_ref(), *head as usize, n))
                        .collect::<Result<_, _>>()?,
                };
                let of_kept = |(column, kept): (&Vec<f32>, &Vec<u32>)| {
                    kept.iter().map(|row| column[*row as usize]).collect()
                };
                lane.write_received(&gathered.iter().zip(&kept).map(of_kept).collect::<Vec<_>>())?;
            }
            let selection = RowSelection { kept, evicted: decision.dropped };
            let sums = lane.sums.as_ref();
            nodes.push(graph::select_rows(&ctx, (&complete.k, &complete.v), &lane.graph, sums, selection));
        }
        workspace.run(backends, place, &ctx, &nodes)
    }
}

impl Lane {
    /// Puts the lane into the state in which `kept` positions of `n` tokens are left of a text, cut up to position `done`.
    fn settle(&mut self, kept: &[Vec<u32>], n: usize, done: usize) {
        self.clear();
        let count = kept.first().map_or(0, Vec::len);
        self.state.live += count;
        self.state.departed = n - count;
        self.state.done = done;
        self.state.of_text = count;
        self.state.settled = if count < n { n } else { 0 };
        self.positions.iter_mut().zip(kept).for_each(|(head, kept)| Arc::make_mut(head).clone_from(kept));
    }

    /// What the rows of head `number` have gathered, from the first that holds a token.
    pub(super) fn received(&self, tensor: &Tensor, number: usize) -> Result<Vec<f32>, EngineError> {
        let mut column = read_column(Some(tensor), number, self.state.live)?;
        Ok(column.split_off(self.first()))
    }

    /// Sets what the rows of every head have gathered.
    fn write_received(&self, columns: &[Vec<f32>]) -> Result<(), EngineError> {
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

/// The end of the positions that a cut has dealt with.
fn end(cut: &Cut) -> usize {
    cut.regions.last().map_or(0, |region| region.positions.end)
}

/// The rows of `0..n` that are not among `dropped` (ascending).
fn others(dropped: &[u32], n: usize) -> Vec<u32> {
    let mut dropped = dropped.iter().peekable();
    (0..n as u32).filter(|row| dropped.next_if_eq(&row).is_none()).collect()
}

/// Takes the numbers that a cut asks for, and picks what leaves.
fn decide(
    (shape, source, cut): (AttentionShape, &Source, &Cut),
    (backends, place): (&Backends, Place),
    workspace: &mut Workspace,
) -> Result<Decision, EngineError> {
    let Some(scored) = &cut.scored else {
        let dropped = |positions: &Arc<Vec<u32>>| losers(cut, positions, &vec![0.0; positions.len()]);
        let dropped: Vec<Vec<u32>> = source.positions.iter().map(dropped).collect();
        alike(&dropped)?;
        return Ok(Decision { dropped, gathered: None });
    };
    let ctx = Context::new(3 * scored.by.len() + 1);
    let measured = Measured::new(&ctx, shape, source, scored)?;
    let nodes: Vec<Tensor> = measured.nodes.iter().flatten().cloned().collect();
    workspace.run(backends, place, &ctx, &nodes)?;
    measured.decide(shape, source, (cut, scored))
}

/// The numbers of a lane's rows, when they have been computed.
struct Measured {
    /// Per head the rows that are scored, counted from the first that holds a token; `None` for all, as they lie.
    rows: Option<Vec<Vec<u32>>>,
    /// Per basis the node that computes it; none for what is gathered already.
    nodes: Vec<Option<Tensor>>,
}

impl Measured {
    fn new(
        ctx: &Context,
        shape: AttentionShape,
        source: &Source,
        scored: &Scored,
    ) -> Result<Measured, EngineError> {
        let rows = scored.ordered.as_ref().map(|range| {
            let of_head = |positions: &Arc<Vec<u32>>| {
                let within = |row: &u32| range.contains(&(positions[*row as usize] as usize));
                let mut rows: Vec<u32> = (0..positions.len() as u32).filter(within).collect();
                if !rows.is_sorted_by_key(|row| positions[*row as usize]) {
                    rows.sort_unstable_by_key(|row| positions[*row as usize]);
                }
                rows
            };
            source.positions.iter().map(of_head).collect::<Vec<_>>()
        });
        alike(rows.as_deref().unwrap_or_default())?;
        let first = source.first as u32;
        let measured = || graph::RowLists {
            heads: source.heads.clone(),
            rows: match &rows {
                Some(rows) => {
                    (rows.iter()).map(|rows| Arc::new(rows.iter().map(|row| row + first).collect())).collect()
                }
                None => {
                    let live = source.positions.first().map_or(0, |head| head.len()) as u32;
                    let all = Arc::new((first..first + live).collect::<Vec<_>>());
                    source.heads.iter().map(|_| all.clone()).collect()
                }
            },
        };
        let seen = source.moment.seen;
        let nodes = scored
            .by
            .iter()
            .map(|basis| match basis {
                Basis::Key(what) => Some(graph::measure_rows(ctx, &source.rows.k, measured(), *what)),
                Basis::Value(what) => Some(graph::measure_rows(ctx, &source.rows.v, measured(), *what)),
                Basis::Gathered => None,
                Basis::Window { queries, gain } => {
                    let ring = source.queries?;
                    let window = WindowQueries {
                        positions: seen - (*queries).min(seen)..seen,
                        gain: *gain,
                        kv_heads: source.lane.layout.kv_heads.clone(),
                        first: source.first,
                        log_weight: source.lane.log_weight(),
                        alibi: source.lane.graph.positions.is_some(),
                    };
                    let which =
                        graph::RowLists { heads: source.heads.clone(), rows: source.positions.clone() };
                    Some(graph::window_attention(ctx, shape, &source.rows.k, ring, which, window))
                }
            })
            .collect();
        Ok(Measured { rows, nodes })
    }

    fn decide(
        self,
        shape: AttentionShape,
        source: &Source,
        (cut, scored): (&Cut, &Scored),
    ) -> Result<Decision, EngineError> {
        let Some(policy) = &source.lane.layout.policy else {
            return Ok(Decision { dropped: vec![Vec::new(); source.heads.len()], gathered: None });
        };
        let positions = |number: usize| match &self.rows {
            None => source.positions[number].clone(),
            Some(rows) => {
                let positions = &source.positions[number];
                Arc::new(rows[number].iter().map(|row| positions[*row as usize]).collect())
            }
        };
        // Of numbers as the rows lie, those of the rows that are scored.
        let scored_of = |number: usize, all: &[f32]| -> Vec<f32> {
            let all = &all[source.first..];
            match &self.rows {
                None => all.to_vec(),
                Some(rows) => rows[number].iter().map(|row| all[*row as usize]).collect(),
            }
        };
        let mut heads: Vec<HeadRows> = (0..source.heads.len())
            .map(|number| HeadRows { positions: positions(number), numbers: Vec::new() })
            .collect();
        for (basis, node) in scored.by.iter().zip(&self.nodes) {
            // At once: from a device every read is a journey.
            let numbers = node.as_ref().or(source.rows.accumulated.as_ref());
            let all: Vec<f32> = numbers.map_or(Ok(Vec::new()), Tensor::to_vec)?;
            let capacity = source.rows.k.dim(1);
            for (number, head) in heads.iter_mut().enumerate() {
                let (n, live) = (head.positions.len(), source.first + source.positions[number].len());
                head.numbers.push(match basis {
                    Basis::Key(_) | Basis::Value(_) => all[number * n..][..n].to_vec(),
                    Basis::Gathered => {
                        let column = source.heads[number] as usize * capacity;
                        scored_of(number, &all[column..][..live])
                    }
                    Basis::Window { .. } => {
                        let members =
                            all[number * shape.group * live..][..shape.group * live].chunks_exact(live);
                        members.flat_map(|member| scored_of(number, member)).collect()
                    }
                });
            }
        }
        let positions: Vec<Arc<Vec<u32>>> = heads.iter().map(|head| head.positions.clone()).collect();
        let scores = policy.score(ScoredRows { moment: source.moment, group: shape.group, heads });
        let dropped = positions.iter().zip(&scores).enumerate().map(|(number, (positions, scores))| {
            let mut dropped = losers(cut, positions, scores);
            if let Some(rows) = &self.rows {
                dropped.iter_mut().for_each(|index| *index = rows[number][*index as usize]);
                dropped.sort_unstable();
            }
            dropped
        });
        let dropped: Vec<Vec<u32>> = dropped.collect();
        alike(&dropped)?;
        let gathered = scored.remembered.then(|| match self.rows {
            None => scores,
            Some(rows) => (rows.iter().zip(&scores).zip(&source.positions))
                .map(|((rows, scores), positions)| {
                    let mut column = vec![0f32; positions.len()];
                    rows.iter().zip(scores).for_each(|(row, score)| column[*row as usize] = *score);
                    column
                })
                .collect(),
        });
        Ok(Decision { dropped, gathered })
    }
}

/// Checks that there are as many rows of each head. In a store that made itself there are; in one from a file, heads may hold other
/// positions than policies ever leave them.
fn alike(rows: &[Vec<u32>]) -> Result<(), EngineError> {
    match rows.windows(2).all(|pair| pair[0].len() == pair[1].len()) {
        true => Ok(()),
        false => Err(EngineError::Setting {
            what: "the restored session".into(),
            reason: "heads that evict the same number of rows hold rows of different positions".into(),
            hint: Hint::advice("its file is damaged; read the text again"),
        }),
    }
}

/// Which of some rows leave, ascending: of each region all but the `keep` best, where of equal scores the smaller position wins.
fn losers(cut: &Cut, positions: &[u32], scores: &[f32]) -> Vec<u32> {
    if let [region] = &cut.regions[..] {
        let end = region.positions.end.min(u32::MAX as usize);
        let range = region.positions.start as u32..end as u32;
        let leaving = positions.iter().filter(|p| range.contains(p)).count().saturating_sub(region.keep);
        if leaving <= FEW {
            return worst(leaving, range, positions, scores);
        }
    }
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); cut.regions.len()];
    for (row, position) in (0..).zip(positions) {
        let position = *position as usize;
        let after = cut.regions.partition_point(|region| region.positions.start <= position);
        if let Some(number) = after.checked_sub(1)
            && cut.regions[number].positions.contains(&position)
        {
            rows[number].push(row);
        }
    }
    let mut dropped = Vec::new();
    for (mut rows, region) in rows.into_iter().zip(&cut.regions) {
        let leaving = rows.len().saturating_sub(region.keep);
        if leaving > 0 && region.keep > 0 {
            // The worst first.
            rows.select_nth_unstable_by(leaving, |a, b| {
                let (a, b) = (*a as usize, *b as usize);
                scores[a].total_cmp(&scores[b]).then(positions[b].cmp(&positions[a]))
            });
        }
        dropped.extend_from_slice(&rows[..leaving]);
    }
    dropped.sort_unstable();
    dropped
}

/// So few rows are found by looking for them instead of ordering all: decode steps let one leave.
const FEW: usize = 4;

/// The `leaving` worst rows whose positions lie in `range`, ascending.
fn worst(leaving: usize, range: Range<u32>, positions: &[u32], scores: &[f32]) -> Vec<u32> {
    let mut dropped: Vec<u32> = Vec::with_capacity(leaving);
    for _ in 0..leaving {
        let mut found: Option<(u32, f32, u32)> = None;
        for ((row, position), score) in (0..).zip(positions).zip(scores) {
            let worse = match &found {
                None => true,
                Some((_, lowest, latest)) => {
                    score.total_cmp(lowest).then(latest.cmp(position)) == Ordering::Less
                }
            };
            if worse && range.contains(position) && !dropped.contains(&row) {
                found = Some((row, *score, *position));
            }
        }
        dropped.extend(found.map(|(row, ..)| row));
    }
    dropped.sort_unstable();
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::policy::Region;

    #[test]
    fn the_lowest_scores_leave_and_of_equal_ones_the_later() {
        let positions = [6, 1, 2, 5, 4, 3, 0];
        let scores = [-9.0, 1.0, 3.0, 1.0, 0.0, 1.0, -9.0];
        // Positions 0 and 6 do not compete; rows 4, 3 and 5 hold positions 4, 5 and 3.
        assert_eq!(losers(&Cut::one(1..6, 4, None), &positions, &scores), [4]);
        assert_eq!(losers(&Cut::one(1..6, 2, None), &positions, &scores), [3, 4, 5]);
        assert_eq!(losers(&Cut::one(1..6, 0, None), &positions, &scores), [1, 2, 3, 4, 5]);
        assert_eq!(losers(&Cut::one(1..6, 5, None), &positions, &scores), [0; 0]);
    }

    /// Looking for a few and ordering all come to the same.
    #[test]
    fn few_and_many_agree_with_sorting() {
        let n = 64u32;
        let positions: Vec<u32> = (0..n).map(|row| row * 37 % n).collect();
        let scores: Vec<f32> = (0..n).map(|row| (row * 29 % 7) as f32).collect();
        let mut worst: Vec<u32> = (0..n).collect();
        worst.sort_by_key(|row| (scores[*row as usize] as u32, u32::MAX - positions[*row as usize]));
        for leaving in 0..=n as usize {
            let cut = Cut::one(0..n as usize, n as usize - leaving, None);
            let mut want = worst[..leaving].to_vec();
            want.sort_unstable();
            assert_eq!(losers(&cut, &positions, &scores), want, "{leaving}");
        }
    }

    #[test]
    fn regions_compete_by_themselves() {
        let regions = vec![Region { positions: 0..2, keep: 1 }, Region { positions: 3..5, keep: 1 }];
        let cut = Cut { regions, scored: None };
        assert_eq!(losers(&cut, &[0, 1, 2, 3, 4], &[5.0, 6.0, 0.0, 2.0, 1.0]), [0, 4]);
    }

    #[test]
    fn scores_that_are_no_numbers_do_no_harm() {
        let scores = [f32::NAN, f32::INFINITY, -f32::NAN];
        assert_eq!(losers(&Cut::one(0..3, 1, None), &[0, 1, 2], &scores).len(), 2);
    }

    #[test]
    fn what_does_not_leave_stays() {
        assert_eq!(others(&[0, 2], 4), [1, 3]);
        assert_eq!(others(&[], 2), [0, 1]);
    }
}
