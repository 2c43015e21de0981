//! What recorded queries attend to, computed when it is asked for.
//!
//! Not every head looks for what the model writes next. Those that do are found by the answer itself: they attend to
//! earlier occurrences of the token that follows (the retrieval score of Wu et al. 2024, arXiv 2404.15574). So no head
//! profile is needed. Where some heads keep every row, only these are asked.

use std::ops::Range;

use ggml::{Context, InterruptFlag, Type};

use super::{AttentionRecord, RecordedLayer};
use crate::EngineError;
use crate::compute::engine::Engine;
use crate::devices::workspace::Workspace;
use crate::kv::HeadKeys;
use crate::session::Session;

/// Query heads that are asked.
const HEADS: usize = 8;
/// Queries that choose them.
const CHOOSING: usize = 16;
/// Bytes of attention that are computed at once; those of a token at least.
const BLOCK_BYTES: usize = 4 << 20;

/// The query heads of a KV head.
struct Group {
    /// Index of the layer among those that are recorded.
    layer: usize,
    keys: HeadKeys,
    /// Query heads of the layer.
    heads: Vec<usize>,
}

impl Session {
    /// What the tokens at the positions `by`, those of an answer, paid to the tokens at the positions `to`, those of a text:
    /// for each of `to` the sum of the attention weights of some retrieval heads. Tokens whose queries were not recorded pay
    /// nothing, and so do all of them to rows that every such head has evicted. Forgets the queries of the tokens before
    /// `by`.
    ///
    /// `None` where attention is not recorded, nothing of `by` was recorded, or the model has no heads that see the whole
    /// text.
    ///
    /// # Errors
    /// Where the computation fails or is interrupted, or there is no memory for it.
    pub fn attention_paid(
        &mut self,
        by: Range<usize>,
        to: Range<usize>,
    ) -> Result<Option<Vec<f32>>, EngineError> {
        let to = to.start.min(self.tokens.len())..to.end.min(self.tokens.len());
        let Some(mut record) = self.attention.take() else { return Ok(None) };
        let paid = self.paid(&mut record, by, to);
        self.attention = Some(record);
        paid
    }

    fn paid(
        &mut self,
        record: &mut AttentionRecord,
        by: Range<usize>,
        to: Range<usize>,
    ) -> Result<Option<Vec<f32>>, EngineError> {
        record.read_rings()?;
        record.forget_before(by.start);
        let asking: Vec<usize> =
            (0..record.positions.len()).filter(|token| by.contains(&record.positions[*token])).collect();
        let groups = self.groups(record);
        if asking.is_empty() || groups.is_empty() {
            return Ok(None);
        }
        let mut paid = vec![0.0; to.len()];
        let mut asked = Asked {
            engine: &self.engine,
            workspace: &mut self.workspace,
            interrupt: &self.interrupt,
            record,
        };
        let groups = asked.best_groups(groups, &asking, &self.tokens, &to)?;
        for group in &groups {
            let rows = rows_of(group, &to);
            asked.weights(group, &asking, &mut |_, _, weights| {
                for (row, at) in &rows {
                    paid[*at] += weights[*row];
                }
            })?;
        }
        Ok(Some(paid))
    }

    /// The query heads that can be asked, by KV head: those whose KV heads keep every row, if there are any.
    fn groups(&self, record: &AttentionRecord) -> Vec<Group> {
        let mut groups = Vec::new();
        for (index, RecordedLayer { layer, .. }) in record.layers.iter().enumerate() {
            let shape = self.engine.forward.heads(*layer);
            for kv_head in 0..shape.n_kv_heads {
                let heads = (kv_head * shape.group..(kv_head + 1) * shape.group).collect();
                let keys = self.store.head_keys(*layer, kv_head);
                groups.extend(keys.map(|keys| Group { layer: index, keys, heads }));
            }
        }
        if groups.iter().any(|group| group.keys.positions.is_none()) {
            groups.retain(|group| group.keys.positions.is_none());
        }
        groups
    }
}

/// The rows of a KV head that hold tokens of `to`, each with its index there.
fn rows_of(group: &Group, to: &Range<usize>) -> Vec<(usize, usize)> {
    let first = usize::from(group.keys.log_weight.is_some());
    match &group.keys.positions {
        None => to
            .clone()
            .filter(|at| first + at < group.keys.live)
            .map(|at| (first + at, at - to.start))
            .collect(),
        Some(positions) => {
            let rows = positions.iter().enumerate().map(|(row, at)| (first + row, *at as usize));
            rows.filter(|(_, at)| to.contains(at)).map(|(row, at)| (row, at - to.start)).collect()
        }
    }
}

/// Where recorded queries are asked.
struct Asked<'a> {
    engine: &'a Engine,
    workspace: &'a mut Workspace,
    interrupt: &'a InterruptFlag,
    record: &'a AttentionRecord,
}

impl Asked<'_> {
    /// The [`HEADS`] query heads that attend most to the tokens that follow the queries `asking`.
    fn best_groups(
        &mut self,
        groups: Vec<Group>,
        asking: &[usize],
        tokens: &[u32],
        to: &Range<usize>,
    ) -> Result<Vec<Group>, EngineError> {
        let choosing = spread(asking, CHOOSING);
        // For each of them the positions of the token that follows.
        let follow = |query: &usize| tokens.get(self.record.positions[*query] + 1).copied();
        let followers: Vec<Option<u32>> = choosing.iter().map(follow).collect();
        let mut scores: Vec<(f32, usize, usize)> = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let rows = rows_of(group, to);
            let mut of_heads = vec![0.0; group.heads.len()];
            self.weights(group, &choosing, &mut |member, query, weights| {
                let Some(token) = followers[query] else { return };
                let (mut all, mut found, mut count) = (0.0, 0.0, 0);
                for (row, at) in &rows {
                    all += weights[*row];
                    if tokens[to.start + at] == token {
                        found += weights[*row];
                        count += 1;
                    }
                }
                if count > 0 {
                    // What a head that looks everywhere would find does not count.
                    of_heads[member] += found - all * count as f32 / rows.len() as f32;
                }
            })?;
            scores.extend(of_heads.into_iter().enumerate().map(|(member, score)| (score, number, member)));
        }
        scores.sort_by(|one, other| other.0.total_cmp(&one.0));
        scores.truncate(HEADS);
        let chosen = groups.into_iter().enumerate().filter_map(|(number, group)| {
            let members =
                scores.iter().filter(|(_, of, _)| *of == number).map(|(_, _, member)| group.heads[*member]);
            let heads: Vec<usize> = members.collect();
            (!heads.is_empty()).then_some(Group { heads, ..group })
        });
        Ok(chosen.collect())
    }

    /// The attention weights of the query heads of a group, for the kept queries of these indices: `each` gets the index of
    /// the head in the group, the index of the query in `queries`, and the weights of all live rows.
    fn weights(
        &mut self,
        group: &Group,
        queries: &[usize],
        each: &mut dyn FnMut(usize, usize, &[f32]),
    ) -> Result<(), EngineError> {
        let block = (BLOCK_BYTES / (4 * group.keys.live * group.heads.len()).max(1)).clamp(1, 64);
        for (number, queries) in queries.chunks(block).enumerate() {
            self.weights_of_block(group, queries, &mut |member, query, weights| {
                each(member, number * block + query, weights);
            })?;
        }
        Ok(())
    }

    fn weights_of_block(
        &mut self,
        group: &Group,
        queries: &[usize],
        each: &mut dyn FnMut(usize, usize, &[f32]),
    ) -> Result<(), EngineError> {
        let recorded = &self.record.layers[group.layer];
        let shape = self.engine.forward.heads(recorded.layer);
        let place = self.engine.backends.placement().of(recorded.layer);
        let backend = self.engine.backends.at(place);
        let HeadKeys { keys, number, live, log_weight, positions, sink_logits } = &group.keys;
        let (d, n, heads) = (shape.head_dim, queries.len(), group.heads.len());
        backend.check_products(keys.ty())?;

        let ctx = Context::new(16 + 2 * heads);
        let q = ctx.input("q", Type::F32, [d, n * heads]);
        let mask = ctx.input("mask", Type::F32, [*live, n]);
        let [_, row, head, _] = keys.strides();
        let k = ctx.view(keys, [d, *live], [row, head, head], number * head);
        // [live, n, heads]
        let logits = ctx.reshape(&ctx.mul_mat_precise(&k, &q), [*live, n, heads]);
        let (logits, scale) = match shape.softcap {
            Some(cap) => (ctx.scale(&ctx.tanh(&ctx.scale(&logits, shape.scale / cap)), cap), 1.0),
            None => (logits, shape.scale),
        };
        let sink_logits = sink_logits.as_ref().map(|all| {
            let of_head = |head: &usize| ctx.view(all, [1], [4; 3], 4 * head);
            let one = |sum: Option<ggml::Tensor>, head| {
                Some(match sum {
                    Some(sum) => ctx.concat(&sum, &of_head(head)),
                    None => of_head(head),
                })
            };
            group.heads.iter().fold(None, one).unwrap_or_else(|| all.clone())
        });
        let weights = ctx.soft_max_with_sink_logits(&logits, &mask, scale, sink_logits.as_ref()).output();
        let graph = self.workspace.prepare(place, ctx.graph(&[&weights])?)?;

        let mut values = vec![0.0; d * n * heads];
        let mut hidden = vec![0.0; live * n];
        for (index, query) in queries.iter().enumerate() {
            let of_token = recorded.queries(*query);
            for (member, head) in group.heads.iter().enumerate() {
                values[(member * n + index) * d..][..d].copy_from_slice(&of_token[head * d..][..d]);
            }
            let (own, mask) = (self.record.positions[*query], &mut hidden[index * live..][..*live]);
            let first = usize::from(log_weight.is_some());
            mask[..first].fill(log_weight.unwrap_or(0.0));
            for (row, mask) in mask[first..].iter_mut().enumerate() {
                let position = positions.as_ref().map_or(row, |positions| positions[row] as usize);
                if position > own {
                    *mask = f32::NEG_INFINITY;
                }
            }
        }
        q.write(0, &values)?;
        mask.write(0, &hidden)?;
        self.engine.backends.compute(place, &graph, Some(self.interrupt))?;
        let weights: Vec<f32> = weights.to_vec()?;
        for (index, weights) in weights.chunks_exact(*live).enumerate() {
            each(index / n, index % n, weights);
        }
        Ok(())
    }
}

/// At most `most` of the items, evenly spread.
fn spread(items: &[usize], most: usize) -> Vec<usize> {
    let count = items.len().min(most);
    (0..count).map(|number| items[number * items.len() / count]).collect()
}
