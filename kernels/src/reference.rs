//! The reference for all attention kernels: f64, two passes, one query at a time. Slow.

use crate::attention::{Attention, ShapeError};

/// Output and log-sum-exp of every query.
#[derive(Clone, Debug, PartialEq)]
pub struct Attended {
    /// `[head_dim, n_heads, n_q]`; zeros where a query sees no row.
    pub out: Vec<f64>,
    /// `[n_heads, n_q]`: natural log of the softmax's denominator; `-inf` where a query sees no row.
    pub lse: Vec<f64>,
}

/// Computes an attention call.
pub fn attend(call: &Attention) -> Result<Attended, ShapeError> {
    call.check()?;
    let d = call.head_dim;
    let mut out = vec![0.0; call.out_len()];
    let mut lse = vec![f64::NEG_INFINITY; call.n_heads() * call.n_q];
    let mut row = vec![0f32; d];
    for lane in call.lanes {
        for (at, &kv_head) in lane.kv_heads.iter().enumerate() {
            for member in 0..call.group * call.n_q {
                let head = kv_head as usize * call.group + member % call.group;
                let t = member / call.group;
                let q = call.query(head, t);
                let (slope, position) = call.alibi.map_or((0.0, 0), |alibi| {
                    let position = call.position(&alibi, lane.rows, kv_head as usize, t);
                    (f64::from(alibi.slopes[head]), position)
                });
                let mut logits = Vec::new();
                let first = usize::from(lane.log_weight(at) == f32::NEG_INFINITY); // row 0 is not used
                let seen_from = |positions: &[i32]| call.first_position(positions, lane.rows, t);
                let window = call.window.and_then(|window| Some(window.positions?[kv_head as usize]));
                let window = window.map(|positions| (positions, seen_from(positions)));
                let first = first.max(call.first_seen(lane.rows, t));
                for j in first..call.visible(lane.rows, t) {
                    lane.k.ty.decode(lane.k.row(d, at, j), &mut row);
                    let dot: f64 = q.iter().zip(&row).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    let mut bias = if j == 0 { f64::from(lane.log_weight(at)) } else { 0.0 };
                    if let Some(alibi) = &call.alibi {
                        bias +=
                            slope * (f64::from(alibi.positions[kv_head as usize][j]) - f64::from(position));
                    }
                    let mut logit = dot * f64::from(call.scale);
                    if let Some(cap) = call.softcap.map(f64::from) {
                        logit = cap * (logit / cap).tanh();
                    }
                    let hidden = window.is_some_and(|(positions, first)| positions[j] < first);
                    logits.push(if hidden { f64::NEG_INFINITY } else { logit + bias });
                }
                let sink = f64::from(call.sink_logit(head));
                let largest = logits.iter().copied().fold(sink, f64::max);
                if largest == f64::NEG_INFINITY {
                    continue;
                }
                let total = logits.iter().map(|s| (s - largest).exp()).sum::<f64>() + (sink - largest).exp();
                lse[t * call.n_heads() + head] = largest + total.ln();
                let out = &mut out[(t * call.n_heads() + head) * d..][..d];
                for (s, j) in logits.iter().zip(first..) {
                    lane.v.ty.decode(lane.v.row(d, at, j), &mut row);
                    let p = (s - largest).exp() / total;
                    for (o, v) in out.iter_mut().zip(&row) {
                        *o += p * f64::from(*v);
                    }
                }
            }
        }
    }
    Ok(Attended { out, lse })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Alibi, LaneView, Queries, RowTensor, RowType, Window};

    /// Logits are ln 4 (the log-weight of row 0), ln 2 and ln 2, so that the weights are 4 : 2 : 2.
    #[test]
    fn weighted_rows_equal_a_calculation_by_hand() {
        let d = 8;
        let rows = |firsts: [f32; 3]| {
            let x: Vec<f32> = firsts.iter().flat_map(|&f| [f, 0., 0., 0., 0., 0., 0., 0.]).collect();
            let mut bytes = vec![0; 3 * 32];
            RowType::F32.encode(&x, &mut bytes);
            bytes
        };
        let (k, v) = (rows([0.0, 1.0, 1.0]), rows([1.0, 2.0, 4.0]));
        let mut q = [0.0; 8];
        q[0] = 2.0 * 2f32.ln();
        let lanes = [LaneView {
            k: RowTensor::contiguous(&k, RowType::F32, d, 3),
            v: RowTensor::contiguous(&v, RowType::F32, d, 3),
            rows: 3,
            kv_heads: &[0],
            log_weight: Some(&[4f32.ln()]),
        }];
        let call = Attention {
            head_dim: d,
            n_kv_heads: 1,
            group: 1,
            n_q: 1,
            scale: 0.5,
            q: Queries::contiguous(&q, d, 1),
            lanes: &lanes,
            alibi: None,
            window: None,
            softcap: None,
            sink_logits: None,
            groups: None,
            int8: false,
        };
        let got = attend(&call).unwrap();
        assert!((got.out[0] - (0.5 * 1.0 + 0.25 * 2.0 + 0.25 * 4.0)).abs() < 1e-6);
        assert!((got.lse[0] - 8f64.ln()).abs() < 1e-6);
        assert!(got.out[1..].iter().all(|&x| x == 0.0));
    }

    /// Equal keys at positions 5, 2 and 7 (the query's own), slope ln 2: the weights are 1/4 : 1/32 : 1.
    #[test]
    fn alibi_equals_a_calculation_by_hand() {
        let d = 8;
        let k = vec![0; 3 * 32];
        let x: Vec<f32> = [1.0, 2.0, 4.0].iter().flat_map(|&f| [f, 0., 0., 0., 0., 0., 0., 0.]).collect();
        let mut v = vec![0; 3 * 32];
        RowType::F32.encode(&x, &mut v);
        let lanes = [LaneView {
            k: RowTensor::contiguous(&k, RowType::F32, d, 3),
            v: RowTensor::contiguous(&v, RowType::F32, d, 3),
            rows: 3,
            kv_heads: &[0],
            log_weight: None,
        }];
        let call = Attention {
            head_dim: d,
            n_kv_heads: 1,
            group: 1,
            n_q: 1,
            scale: 1.0,
            q: Queries::contiguous(&[1.0; 8], d, 1),
            lanes: &lanes,
            alibi: Some(Alibi { slopes: &[2f32.ln()], positions: &[&[5, 2, 7]] }),
            window: None,
            softcap: None,
            sink_logits: None,
            groups: None,
            int8: false,
        };
        let got = attend(&call).unwrap();
        let total = 0.25 + 0.03125 + 1.0;
        assert!((got.out[0] - (0.25 * 1.0 + 0.03125 * 2.0 + 4.0) / total).abs() < 1e-6);
        assert!((got.lse[0] - total.ln()).abs() < 1e-6);
    }
    /// A call of two query tokens over four keys of 0, whose values are 1, 2, 4 and 8.
    fn with_parts<R>(
        window: Option<Window>,
        softcap: Option<f32>,
        sink_logits: Option<&[f32]>,
        key: f32,
        read: impl Fn(Attended) -> R,
    ) -> R {
        let rows = |firsts: [f32; 4]| {
            let x: Vec<f32> = firsts.iter().flat_map(|first| [*first, 0., 0., 0., 0., 0., 0., 0.]).collect();
            let mut bytes = vec![0; 4 * 32];
            RowType::F32.encode(&x, &mut bytes);
            bytes
        };
        let (k, v) = (rows([key, 0.0, 0.0, 0.0]), rows([1.0, 2.0, 4.0, 8.0]));
        let [k, v] = [&k, &v].map(|rows| RowTensor::contiguous(rows, RowType::F32, 8, 4));
        let lanes = [LaneView { k, v, rows: 4, kv_heads: &[0], log_weight: None }];
        read(
            attend(&Attention {
                head_dim: 8,
                n_kv_heads: 1,
                group: 1,
                n_q: 2,
                scale: 1.0,
                q: Queries::contiguous(&[1.0; 16], 8, 1),
                lanes: &lanes,
                alibi: None,
                window,
                softcap,
                sink_logits,
                groups: None,
                int8: false,
            })
            .expect("shapes fit"),
        )
    }

    #[test]
    fn a_window_has_the_last_tokens_up_to_the_querys_own() {
        let out = |window| with_parts(Some(window), None, None, 0.0, |got| [got.out[0], got.out[8]]);
        assert_eq!(out(Window { tokens: 2, positions: None }), [3.0, 6.0]);
        assert_eq!(out(Window { tokens: 1, positions: None }), [4.0, 8.0]);
        // Rows at positions 8, 3, 9 and 10: the first is in the window of both queries, the second in none.
        assert_eq!(out(Window { tokens: 3, positions: Some(&[&[8, 3, 9, 10]]) }), [2.5, 13.0 / 3.0]);
    }

    /// The first row weighs e^(2 tanh(3 / 2)) times as much as each other row.
    #[test]
    fn a_soft_cap_bounds_logits() {
        let weight = (2.0 * 1.5f64.tanh()).exp();
        let want = (weight + 2.0 + 4.0 + 8.0) / (weight + 3.0);
        let have = with_parts(None, Some(2.0), None, 3.0, |got| got.out[8]);
        assert!((have - want).abs() < 1e-12, "{have}, not {want}");
    }

    /// A sink of ln 4 weighs as much as the four rows together.
    #[test]
    fn a_sink_takes_its_share_of_the_weights() {
        let (out, lse) = with_parts(None, None, Some(&[4f32.ln()]), 0.0, |got| (got.out[8], got.lse[1]));
        assert!((out - 15.0 / 8.0).abs() < 1e-6 && (lse - 8f64.ln()).abs() < 1e-6);
    }
}
