//! What recorded queries attend to, computed when it is asked for.
//!
//! Not every head looks for what the model writes next. Those that do are found by the answer itself: they attend to
//! earlier occurrences of the token that follows, as in the retrieval score of Wu et al. 2024 (arXiv 2404.15574). So no head
//! profile is needed, and an answer that copies nothing is told from one that does: then no head looks anywhere. Heads whose
//! rows are evicted find nothing, so that those that keep theirs are chosen.
//!
//! A token counts for as much as it is rare in the text: names and numbers much, words such as "the" little, and tokens that
//! the text does not have nothing. The caller may let some count less.

use std::collections::HashMap;
use std::ops::Range;

use ggml::{Context, InterruptFlag, Type};

use super::{AttentionRecord, RecordedLayer};
use crate::EngineError;
use crate::compute::engine::Engine;
use crate::devices::workspace::Workspace;
use crate::kv::HeadKeys;
use crate::session::Session;

/// Query heads that are asked. One finds the place as often as eight (docs/sources.md); four look less at one token.
const HEADS: usize = 4;
/// Queries that choose them.
const CHOOSING: usize = 16;
/// The share of their attention, from 0 to 1, that the best head must pay to the tokens that are copied. It is 0.4 to 1 in
/// answers that come from the text, and 0.01 to 0.1 in answers to questions whose text is gone (docs/sources.md).
const MIN_COPYING: f32 = 0.1;
/// Bytes of attention that are computed at once; those of a token at least.
const BLOCK_BYTES: usize = 4 << 20;

/// What a part of an answer paid to a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PaidAttention {
    /// For each token of the text the sum of the attention weights of a few retrieval heads, more for rare tokens.
    pub paid: Vec<f32>,
    /// How much of the part is copied from the text, from 0 to 1: the sum of `paid`, divided by its largest value. It has that where the
    /// text has each of the part's tokens once, and the heads look at nothing else. Tokens that the text does not have add nothing.
    /// So this is small in a translation, too.
    pub share: f32,
}

/// A token of the answer.
#[derive(Clone, Copy)]
struct Asker {
    /// Index of its query among those that are kept.
    query: usize,
    position: usize,
    /// The token that follows it.
    follower: Option<u32>,
    /// How often the text has that.
    count: usize,
    /// How much that counts: the logarithm of how rare it is in the text.
    weight: f32,
}

/// The query heads of a KV head.
struct Group {
    /// Index of the layer among those that are recorded.
    layer: usize,
    keys: HeadKeys,
    /// Query heads of the layer.
    heads: Vec<usize>,
}

impl Session {
    /// What the parts of an answer paid to the tokens at the positions `to`, those of a text. The heads are the same for all parts.
    /// All is 0 where no head looked for what the answer says. Tokens whose queries were not recorded pay nothing, and so do all
    /// of them to rows that every such head has evicted. Forgets the queries of the tokens before the answer.
    ///
    /// `by`: the positions where the parts begin, ascending, and where the last one ends. `counts`: for each position from the
    /// first on how much the token that follows it counts beside others, from 0 to 1; 1 where it is shorter.
    ///
    /// `None` where attention is not recorded, nothing of `by` was recorded, or the model has no heads that see the whole
    /// text.
    ///
    /// # Errors
    /// Where the computation fails or is interrupted, or there is no memory for it.
    pub fn attention_paid(
        &mut self,
        by: &[usize],
        to: Range<usize>,
        counts: &[f32],
    ) -> Result<Option<Vec<PaidAttention>>, EngineError> {
        let to = to.start.min(self.tokens.len())..to.end.min(self.tokens.len());
        let Some(mut record) = self.attention.take() else { return Ok(None) };
        let paid = self.paid(&mut record, by, to, counts);
        self.attention = Some(record);
        paid
    }

    fn paid(
        &mut self,
        record: &mut AttentionRecord,
        by: &[usize],
        to: Range<usize>,
        counts: &[f32],
    ) -> Result<Option<Vec<PaidAttention>>, EngineError> {
        record.read_rings()?;
        let Some((last, begins @ [first, ..])) = by.split_last() else { return Ok(None) };
        let all = *first..*last;
        record.forget_before(all.start);
        let groups = self.groups(record);
        let asking = self.askers(record, &all, &to);
        if asking.is_empty() || groups.is_empty() {
            return Ok(None);
        }
        let mut parts = vec![PaidAttention { paid: vec![0.0; to.len()], share: 0.0 }; begins.len()];
        let mut max_paid = vec![0.0; begins.len()];
        let max_weight = ((to.len() + 1) as f32).ln();
        let (engine, workspace, interrupt) = (&self.engine, &mut self.workspace, &self.interrupt);
        let mut asked = Asked { engine, workspace, interrupt, record };
        for group in &asked.best_groups(groups, &asking, &self.tokens, &to)? {
            let rows = rows_of(group, &to);
            asked.weights(group, &asking, &mut |_, query, weights| {
                let Asker { position, follower, weight, .. } = asking[query];
                let count = counts.get(position - all.start).copied().unwrap_or(1.0);
                let part = begins.iter().rposition(|begin| *begin <= position).unwrap_or(0);
                if follower.is_some() {
                    max_paid[part] += max_weight * count;
                }
                for (row, at) in &rows {
                    parts[part].paid[*at] += weight * count * weights[*row];
                }
            })?;
        }
        for (part, max_paid) in parts.iter_mut().zip(max_paid) {
            part.share = part.paid.iter().sum::<f32>() / f32::max(max_paid, f32::MIN_POSITIVE);
        }
        Ok(Some(parts))
    }

    /// The queries that were recorded of the tokens `by`.
    fn askers(&self, record: &AttentionRecord, by: &Range<usize>, to: &Range<usize>) -> Vec<Asker> {
        let mut counts: HashMap<u32, usize> = HashMap::new();
        self.tokens[to.clone()].iter().for_each(|token| *counts.entry(*token).or_default() += 1);
        let asker = |(query, &position): (usize, &usize)| {
            let follower = self.tokens.get(position + 1).copied();
            let count = follower.and_then(|token| counts.get(&token).copied()).unwrap_or(0);
            let weight = if count > 0 { ((to.len() + 1) as f32 / count as f32).ln() } else { 0.0 };
            Asker { query, position, follower, count, weight }
        };
        record.positions.iter().enumerate().filter(|(_, at)| by.contains(at)).map(asker).collect()
    }

    /// All query heads that are recorded, by KV head.
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
    /// The [`HEADS`] query heads that attend most to the tokens that follow the queries `asking`; none where no head pays them
    /// [`MIN_COPYING`] of its attention.
    fn best_groups(
        &mut self,
        groups: Vec<Group>,
        asking: &[Asker],
        tokens: &[u32],
        to: &Range<usize>,
    ) -> Result<Vec<Group>, EngineError> {
        let mut choosing = asking.to_vec();
        choosing.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        choosing.truncate(CHOOSING);
        let all: f32 = choosing.iter().map(|asker| asker.weight).sum();
        let mut scores: Vec<(f32, usize, usize)> = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let rows = rows_of(group, to);
            let mut of_heads = vec![0.0; group.heads.len()];
            self.weights(group, &choosing, &mut |member, query, weights| {
                let Asker { follower, count, weight, .. } = choosing[query];
                let (mut paid, mut found) = (0.0, 0.0);
                for (row, at) in &rows {
                    paid += weights[*row];
                    if Some(tokens[to.start + at]) == follower {
                        found += weights[*row];
                    }
                }
                // What a head that looks everywhere would find does not count.
                of_heads[member] += weight * (found - paid * count as f32 / to.len() as f32);
            })?;
            let scored = |(member, score)| (score, number, member);
            scores.extend(of_heads.into_iter().enumerate().map(scored));
        }
        scores.sort_by(|one, other| other.0.total_cmp(&one.0));
        scores.truncate(HEADS);
        if !scores.first().is_some_and(|(best, ..)| all > 0.0 && *best >= MIN_COPYING * all) {
            return Ok(Vec::new());
        }
        let chosen = groups.into_iter().enumerate().filter_map(|(number, group)| {
            let of_group = scores.iter().filter(|(_, of, _)| *of == number);
            let heads: Vec<usize> = of_group.map(|(_, _, member)| group.heads[*member]).collect();
            (!heads.is_empty()).then_some(Group { heads, ..group })
        });
        Ok(chosen.collect())
    }

    /// The attention weights of the query heads of a group, for the queries of tokens: `each` gets the index of the head in the
    /// group, the index of the token in `askers`, and the weights of all live rows.
    fn weights(
        &mut self,
        group: &Group,
        askers: &[Asker],
        each: &mut dyn FnMut(usize, usize, &[f32]),
    ) -> Result<(), EngineError> {
        let block = (BLOCK_BYTES / (4 * group.keys.live * group.heads.len()).max(1)).clamp(1, 64);
        for (number, askers) in askers.chunks(block).enumerate() {
            self.weights_of_block(group, askers, &mut |member, query, weights| {
                each(member, number * block + query, weights);
            })?;
        }
        Ok(())
    }

    fn weights_of_block(
        &mut self,
        group: &Group,
        askers: &[Asker],
        each: &mut dyn FnMut(usize, usize, &[f32]),
    ) -> Result<(), EngineError> {
        let recorded = &self.record.layers[group.layer];
        let shape = self.engine.forward.heads(recorded.layer);
        let place = self.engine.backends.placement().of(recorded.layer);
        let backend = self.engine.backends.at(place);
        let HeadKeys { keys, number, live, log_weight, positions, sink_logits } = &group.keys;
        let (d, n, heads) = (shape.head_dim, askers.len(), group.heads.len());
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
        for (index, Asker { query, .. }) in askers.iter().enumerate() {
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
