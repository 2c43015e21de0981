//! Accumulated attention: combines, row by row, the attention weights that rows get from some queries. Flash
//! attention never stores these weights, so they are computed again from queries and keys. The logits of up
//! to eight queries are in memory at a time; the whole matrix of queries and rows never is.

use std::f32::consts::LOG2_E;
use std::marker::PhantomData;
use std::ops::Range;

use crate::attention::{RowTensor, ShapeError};
use crate::decode::{Dot, DotArgs, ROW_GROUP, padded, tile_width, with_width};
use crate::exp::{SoftCap, exp2};
use crate::quant::load::with_loader;
use crate::simd::{Isa, Kernel, Loop, Simd};

/// How the weights that a row gets from several queries become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// They are added up.
    Sum,
    /// The largest counts.
    Max,
}

/// The keys of one KV head.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// The tensor `[head_dim, capacity, heads]`.
    pub rows: RowTensor<'a>,
    /// The head's index in the tensor.
    pub head: usize,
    /// The rows that are seen, ascending. Logits and output have a number for each of them.
    pub seen: &'a [Range<usize>],
    /// Log-weight (natural logarithm) added to the logit of the first of them; `-inf` where it is not used.
    pub log_weight: f32,
    /// Elements of a row.
    pub head_dim: usize,
    /// The soft cap of logits, before the queries' gains; above 0.
    pub softcap: Option<f32>,
}

/// A query whose attention weights are added up.
#[derive(Clone, Copy, Debug)]
pub struct ScoringQuery<'a> {
    /// `[head_dim]`
    pub data: &'a [f32],
    /// Factor of q·k.
    pub scale: f32,
    /// Factor on the query's logits, after the soft cap.
    pub gain: f32,
    /// A logit without a row, before the gain, that the softmax has too; `-inf` for none.
    pub sink: f32,
    /// Factor on its attention weights.
    pub factor: f32,
    /// The row of the output that the weights are added to.
    pub target: usize,
}

/// Combines the attention weights of every query, times the query's factor, with row `target` of `out`
/// `[seen, targets]`.
///
/// `adjust(i, logits)` may change the logits `[seen]` of query number `i`, which are in units of log 2: it
/// sets those of hidden rows to `-inf` and adds biases. `scratch` grows to the size of eight queries' logits
/// and can be reused by later calls. An error if keys, queries or targets are outside their memory.
pub fn add_weights(
    keys: &Keys,
    queries: &[ScoringQuery],
    combine: Combine,
    adjust: impl Fn(usize, &mut [f32]),
    out: &mut [f32],
    scratch: &mut Vec<f32>,
) -> Result<(), ShapeError> {
    let Keys { rows, head, seen, head_dim, .. } = *keys;
    let end = seen.iter().map(|range| range.end).max().unwrap_or(0);
    rows.check("keys", 0, head_dim, end, head.saturating_add(1))?;
    let live: usize = seen.iter().map(Range::len).sum();
    for query in queries {
        let need = query.target.saturating_add(1).saturating_mul(live);
        for (what, have, need) in [("output", out.len(), need), ("queries", query.data.len(), head_dim)] {
            if have < need {
                return Err(ShapeError::Buffer { what, have, need });
            }
        }
    }
    if live == 0 || queries.is_empty() {
        return Ok(());
    }
    let isa = Isa::best();
    let width = tile_width(isa, queries.len());
    // Whole groups of logits are written: those of the last range may end in another group.
    let (d_padded, n_padded) = (padded(head_dim), (live + ROW_GROUP).next_multiple_of(ROW_GROUP));
    scratch.resize(width * (d_padded + n_padded), 0.0);
    let (q, logits) = scratch.split_at_mut(width * d_padded);
    let k = &rows.data[head * rows.head_stride..];
    for (number, tile) in queries.chunks(width).enumerate() {
        for (q, query) in q.chunks_exact_mut(d_padded).zip(tile) {
            q.fill(0.0);
            for (q, x) in q.iter_mut().zip(&query.data[..head_dim]) {
                *q = x * (query.scale * query.gain * LOG2_E);
            }
        }
        let mut at = 0;
        for range in seen.iter().filter(|range| !range.is_empty()) {
            let args = DotArgs {
                q: q.as_ptr(),
                d_padded,
                head_dim,
                k: k[range.start * rows.row_stride..].as_ptr(),
                row_stride: rows.row_stride,
                n: range.len(),
                logits: logits[at..].as_mut_ptr(),
                stride: n_padded,
            };
            with_loader!(rows.ty, L => with_width!(tile.len(), QT => {
                // SAFETY: the best instruction set is present; the rows are inside their tensor (checked); the
                // scratch holds the tile's queries and logits.
                unsafe { isa.enter(Dot::<L, QT>(args, PhantomData)) }
            }));
            at += range.len();
        }
        for (i, (logits, query)) in logits.chunks_exact_mut(n_padded).zip(tile).enumerate() {
            if let Some(cap) = keys.softcap {
                let cap = cap * query.gain * LOG2_E;
                // SAFETY: the best instruction set is present; the logits are padded to whole groups.
                unsafe { isa.enter(SoftCap { logits, cap }) };
            }
            logits[0] = match keys.log_weight {
                // The row may hold any bytes.
                f32::NEG_INFINITY => f32::NEG_INFINITY,
                log_weight => logits[0] + log_weight * LOG2_E,
            };
            adjust(number * width + i, &mut logits[..live]);
            logits[live..].fill(f32::NEG_INFINITY);
            let sums = &mut out[query.target * live..][..live];
            let (sink, factor) = (query.sink * query.gain * LOG2_E, query.factor);
            // SAFETY: the best instruction set is present; the logits are padded to whole groups.
            unsafe { isa.enter(AddSoftmax { logits, sums, combine, factor, sink }) };
        }
    }
    Ok(())
}

/// Combines `factor · softmax(logits)` with `sums`; the softmax has a `sink` without a row. Logits are in units of
/// log 2. Their number is a multiple of [`ROW_GROUP`].
struct AddSoftmax<'a> {
    logits: &'a mut [f32],
    sums: &'a mut [f32],
    combine: Combine,
    factor: f32,
    sink: f32,
}

impl Kernel for AddSoftmax<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let vectors = self.logits.len() / S::LANES;
        let whole = self.sums.len() / S::LANES;
        let logits = self.logits.as_mut_ptr();
        // SAFETY: c counts whole vectors of the slices.
        unsafe {
            let mut largest = S::load(logits);
            for c in Loop(1, vectors) {
                largest = S::max(largest, S::load(logits.add(c * S::LANES)));
            }
            let largest = S::largest(largest);
            let largest = if self.sink > largest { self.sink } else { largest };
            if largest == f32::NEG_INFINITY {
                return; // the query sees no row
            }
            let base = S::splat(largest);
            let mut total = S::splat(0.0);
            for c in Loop(0, vectors) {
                let p = exp2::<S>(S::sub(S::load(logits.add(c * S::LANES)), base));
                S::store(logits.add(c * S::LANES), p);
                total = S::add(total, p);
            }
            let factor = self.factor / (S::sum(total) + (self.sink - largest).exp2());
            let sums = self.sums.as_mut_ptr();
            for c in Loop(0, whole) {
                let p = S::load(logits.add(c * S::LANES));
                let sum = S::load(sums.add(c * S::LANES));
                let combined = match self.combine {
                    Combine::Sum => S::fma(p, S::splat(factor), sum),
                    Combine::Max => S::max(S::mul(p, S::splat(factor)), sum),
                };
                S::store(sums.add(c * S::LANES), combined);
            }
            for at in Loop(whole * S::LANES, self.sums.len()) {
                let weight = factor * *logits.add(at);
                self.sums[at] = match self.combine {
                    Combine::Sum => self.sums[at] + weight,
                    Combine::Max => self.sums[at].max(weight),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowType;

    #[test]
    fn weights_equal_the_formula_in_f64() {
        check_weights(Combine::Sum, None, f32::NEG_INFINITY);
        check_weights(Combine::Max, None, f32::NEG_INFINITY);
    }

    #[test]
    fn weights_with_a_soft_cap_and_a_sink_equal_the_formula_in_f64() {
        check_weights(Combine::Sum, Some(1.5), 0.4);
        check_weights(Combine::Max, Some(1.5), 0.4);
    }

    /// Random keys and queries, with hidden rows and a log-weight on row 0.
    fn check_weights(combine: Combine, softcap: Option<f32>, sink: f32) {
        let (d, live, scale) = (24usize, 37usize, 0.3f32);
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let keys: Vec<f32> = (0..2 * live * d).map(|_| random() * 2.0).collect();
        let queries: Vec<f32> = (0..11 * d).map(|_| random() * 2.0).collect();
        for ty in [RowType::F32, RowType::F16] {
            let mut data = vec![0u8; 2 * live * ty.row_bytes(d)];
            let mut stored = vec![0f32; 2 * live * d];
            for (row, values) in keys.chunks_exact(d).enumerate() {
                ty.encode(values, &mut data[row * ty.row_bytes(d)..][..ty.row_bytes(d)]);
                ty.decode(&data[row * ty.row_bytes(d)..][..ty.row_bytes(d)], &mut stored[row * d..][..d]);
            }
            let rows = RowTensor::contiguous(&data, ty, d, live);
            let seen = [0..5, 5..5, 5..live];
            let keys = Keys { rows, head: 1, seen: &seen, log_weight: 0.7, head_dim: d, softcap };
            let queries: Vec<ScoringQuery> = queries
                .chunks_exact(d)
                .enumerate()
                .map(|(i, data)| ScoringQuery {
                    data,
                    scale,
                    gain: 1.0 + i as f32,
                    sink,
                    factor: 0.5,
                    target: i % 2,
                })
                .collect();
            let mut out = vec![0.01f32; 2 * live];
            let adjust = |i: usize, logits: &mut [f32]| logits[live - 1 - i..].fill(f32::NEG_INFINITY);
            add_weights(&keys, &queries, combine, adjust, &mut out, &mut Vec::new()).unwrap();

            let mut want = vec![f64::from(0.01f32); 2 * live];
            for (i, query) in queries.iter().enumerate() {
                let seen = live - 1 - i;
                let logits: Vec<f64> = (0..seen)
                    .map(|row| {
                        let key = &stored[(live + row) * d..][..d];
                        let dot: f64 =
                            key.iter().zip(query.data).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                        let logit = match softcap.map(f64::from) {
                            Some(cap) => cap * (dot * f64::from(query.scale) / cap).tanh(),
                            None => dot * f64::from(query.scale),
                        };
                        logit * f64::from(query.gain) + if row == 0 { 0.7 } else { 0.0 }
                    })
                    .collect();
                let sink = f64::from(query.sink * query.gain);
                let largest = logits.iter().copied().fold(sink.max(f64::MIN), f64::max);
                let total = logits.iter().map(|x| (x - largest).exp()).sum::<f64>() + (sink - largest).exp();
                for (row, logit) in logits.iter().enumerate() {
                    let (want, weight) =
                        (&mut want[query.target * live + row], 0.5 * (logit - largest).exp() / total);
                    *want = match combine {
                        Combine::Sum => *want + weight,
                        Combine::Max => want.max(weight),
                    };
                }
            }
            for (have, want) in out.iter().zip(want) {
                assert!((f64::from(*have) - want).abs() < 2e-5, "{ty:?}: {have} {want}");
            }
        }
    }

    #[test]
    fn a_query_that_sees_no_row_adds_nothing() {
        let keys = [0u8; 32];
        let rows = RowTensor::contiguous(&keys, RowType::F32, 8, 1);
        let seen = [0..1, 1..1];
        let keys =
            Keys { rows, head: 0, seen: &seen, log_weight: f32::NEG_INFINITY, head_dim: 8, softcap: None };
        let mut out = [3f32];
        let query = ScoringQuery {
            data: &[1.0; 8],
            scale: 1.0,
            gain: 1.0,
            sink: f32::NEG_INFINITY,
            factor: 1.0,
            target: 0,
        };
        add_weights(&keys, &[query], Combine::Sum, |_, _| (), &mut out, &mut Vec::new()).unwrap();
        assert_eq!(out, [3.0]);
    }

    /// With strides whose products overflow, rows far outside would seem to be inside.
    #[test]
    fn keys_outside_their_memory_are_an_error() {
        let data = [0u8; 64];
        let seen = [0..1, 2..3];
        let add = |row_stride: usize, head_stride: usize, head: usize, head_dim: usize, target: usize| {
            let rows = RowTensor { data: &data, ty: RowType::F32, row_stride, head_stride };
            let keys = Keys { rows, head, seen: &seen, log_weight: 0.0, head_dim, softcap: None };
            let query = ScoringQuery {
                data: &[1.0; 8],
                scale: 1.0,
                gain: 1.0,
                sink: f32::NEG_INFINITY,
                factor: 1.0,
                target,
            };
            add_weights(&keys, &[query], Combine::Sum, |_, _| (), &mut [0.0; 3], &mut Vec::new())
        };
        assert!(matches!(add(usize::MAX / 2 + 1, 32, 0, 8, 0), Err(ShapeError::Memory { .. })));
        assert!(matches!(add(32, usize::MAX / 2 + 1, 2, 8, 0), Err(ShapeError::Memory { .. })));
        assert!(matches!(add(32, 32, usize::MAX, 8, 0), Err(ShapeError::Memory { .. })));
        assert!(matches!(add(0, 0, 0, 8, 0), Err(ShapeError::Stride { .. })));
        assert!(matches!(add(32, 32, 0, 0, 0), Err(ShapeError::HeadDim { .. })));
        let rows = RowTensor { data: &[0; 96], ty: RowType::F32, row_stride: 32, head_stride: 96 };
        let keys = Keys { rows, head: 0, seen: &seen, log_weight: 0.0, head_dim: 8, softcap: None };
        for (data, target) in [(&[1.0; 8][..], 1), (&[1.0; 8], usize::MAX), (&[1.0; 7], 0)] {
            let query =
                ScoringQuery { data, scale: 1.0, gain: 1.0, sink: f32::NEG_INFINITY, factor: 1.0, target };
            let result =
                add_weights(&keys, &[query], Combine::Sum, |_, _| (), &mut [0.0; 3], &mut Vec::new());
            assert!(matches!(result, Err(ShapeError::Buffer { .. })));
        }
    }
}
