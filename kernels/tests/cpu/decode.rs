//! The decode kernel against the reference, on every instruction set of this processor: row types, odd
//! lengths, head sizes, groups, tokens, thread counts, lanes and log-weights.

use crate::common::{Case, Data, Random, bits, check_nan_on_cpu, check_on_cpu, lane};
use kernels::decode::{combine, combine_range, partial, partial_on, partials_len};
use kernels::{Attention, Isa, LaneView, Queries, RowTensor, RowType, ShapeError, Window};

/// Runs both phases, thread after thread. Buffers are NaN at first, so that reads of unwritten numbers fail
/// the tests.
fn decode(isa: Isa, call: &Attention, nth: usize) -> (Vec<f32>, Vec<f32>) {
    let len = partials_len(call.head_dim, call.n_kv_heads, call.group, call.n_q);
    let mut partials = vec![f32::NAN; len * nth];
    for (ith, own) in partials.chunks_exact_mut(len).enumerate() {
        partial_on(isa, call, ith, nth, own).unwrap();
    }
    let (mut out, mut lse) = (Vec::new(), Vec::new());
    for ith in 0..nth {
        let range = combine_range(call, ith, nth);
        let mut part = vec![f32::NAN; range.len() * call.head_dim];
        let mut part_lse = vec![f32::NAN; range.len()];
        combine(call, nth, &partials, range, &mut part, Some(&mut part_lse)).unwrap();
        out.extend(part);
        lse.extend(part_lse);
    }
    (out, lse)
}

/// What the rounding of queries and weights to 16 bits adds to the tolerance for quantised rows: about twice the worst error
/// seen, 1.4e-4. The rounding of Q8_0 rows themselves is hundreds of times as large.
fn rounding(case: &Case) -> f64 {
    if case.k_type.is_quantised() || case.v_type.is_quantised() { 3e-4 } else { 0.0 }
}

#[track_caller]
fn check_threads(case: Case, threads: &[usize]) {
    check_on_cpu(decode, rounding(&case), case, 7, threads);
}

#[track_caller]
fn check(case: Case) {
    check_threads(case, &[1, 3]);
}

#[test]
fn every_pair_of_row_types() {
    for k_type in RowType::ALL {
        for v_type in RowType::ALL {
            check(Case { k_type, v_type, group: 3, ..Case::plain(64, 2, 77) });
        }
    }
}

#[test]
fn every_head_size() {
    for head_dim in [8, 24, 32, 40, 64, 72, 80, 96, 112, 128, 192, 256, 320] {
        for group in [1, 4] {
            check(Case { group, ..Case::plain(head_dim, 2, 45) });
        }
    }
}

#[test]
fn every_group() {
    for group in (1..=9).chain([12, 16, 23]) {
        check(Case { group, ..Case::plain(64, 2, 70) });
    }
}

#[test]
fn row_counts_around_block_borders() {
    for rows in (0..=35).chain([47, 48, 49, 63, 64, 65, 95, 96, 97, 127, 128, 129, 200]) {
        check(Case { group: 2, ..Case::plain(32, 1, rows) });
    }
}

#[test]
fn several_tokens_are_causal() {
    for n_q in 1..=8 {
        for rows in [0, 1, 3, 8, 33, 64, 66, 130] {
            check(Case { n_q, group: 1 + n_q % 3, ..Case::plain(64, 2, rows) });
        }
    }
}

#[test]
fn more_and_fewer_threads_than_rows() {
    for rows in [1, 31, 100, 513] {
        check_threads(Case::plain(64, 3, rows), &[1, 2, 3, 4, 5, 17, 64]);
    }
}

#[test]
fn unequal_lanes_with_log_weights() {
    let lanes = vec![
        lane(&[3, 0], 700, None),
        lane(&[1, 5, 2], 41, Some(&[3.5, 0.0, f32::NEG_INFINITY])),
        lane(&[4], 0, Some(&[1.0])),
        lane(&[6], 1, Some(&[f32::NEG_INFINITY])),
        lane(&[], 50, None),
        lane(&[7], 1, Some(&[9.25])),
    ];
    for n_q in [1, 3] {
        for group in [1, 4] {
            check_threads(Case { n_q, group, lanes: lanes.clone(), ..Case::plain(64, 1, 1) }, &[1, 2, 5]);
        }
    }
}

#[test]
fn alibi_adds_biases_by_distance() {
    for n_q in [1, 4] {
        for group in [1, 3] {
            for rows in [1, 2, 5, 32, 33, 200] {
                check(Case { max_alibi_bias: Some(8.0), n_q, group, ..Case::plain(64, 5, rows) });
            }
        }
    }
    let lanes =
        vec![lane(&[2, 0], 300, None), lane(&[1], 41, Some(&[f32::NEG_INFINITY])), lane(&[3], 0, None)];
    check(Case { max_alibi_bias: Some(8.0), n_q: 3, lanes, ..Case::plain(64, 1, 1) });
}

#[test]
fn windows_hide_older_rows() {
    for is_ordered in [true, false] {
        for n_q in [1, 4] {
            for (window, rows) in [(1, 40), (5, 3), (5, 40), (31, 96), (32, 97), (33, 98), (500, 97)] {
                check(Case { window: Some(window), is_ordered, n_q, group: 3, ..Case::plain(64, 2, rows) });
            }
        }
    }
}

#[test]
fn soft_caps_and_sink_logits() {
    let lanes = vec![lane(&[3, 0], 300, None), lane(&[1, 2], 41, Some(&[1.5, f32::NEG_INFINITY]))];
    for n_q in [1, 4] {
        let case = Case { n_q, group: 3, lanes: lanes.clone(), ..Case::plain(64, 1, 1) };
        check(Case { softcap: Some(0.7), ..case.clone() });
        check(Case { has_sink_logits: true, ..case.clone() });
        check(Case { softcap: Some(50.0), has_sink_logits: true, key_size: 30.0, ..case });
    }
    check(Case { has_sink_logits: true, n_q: 4, ..Case::plain(64, 2, 2) });
}

#[test]
fn a_log_weight_equals_copies_of_the_row() {
    // A log-weight of log 5 on row 0 must equal five copies of row 0.
    let data =
        Data::new(Case { lanes: vec![lane(&[0], 30, Some(&[5f32.ln()]))], ..Case::plain(64, 1, 1) }, 3);
    data.with(|call| {
        let (out, lse) = decode(Isa::best(), call, 2);
        let lane = call.lanes[0];
        let copied = |rows: kernels::RowTensor| {
            let bytes = rows.ty.row_bytes(64);
            let mut copy = rows.data[..bytes].repeat(4);
            copy.extend(&rows.data[..30 * bytes]);
            copy
        };
        let (k, v) = (copied(lane.k), copied(lane.v));
        let lanes = [kernels::LaneView {
            k: kernels::RowTensor::contiguous(&k, RowType::F16, 64, 34),
            v: kernels::RowTensor::contiguous(&v, RowType::F16, 64, 34),
            rows: 34,
            kv_heads: &[0],
            log_weight: None,
        }];
        let (out2, lse2) = decode(Isa::best(), &Attention { lanes: &lanes, ..*call }, 1);
        for (a, b) in out.iter().chain(&lse).zip(out2.iter().chain(&lse2)) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    });
}

#[test]
fn huge_logits_do_not_overflow() {
    for key_size in [30.0, 1e3, 1e4] {
        for k_type in [RowType::F16, RowType::F32] {
            check(Case { key_size, k_type, group: 2, ..Case::plain(64, 1, 200) });
        }
    }
}

#[test]
fn nan_in_a_row_reaches_the_output() {
    check_nan_on_cpu(decode, 1);
}

/// Quantised rows, which some instruction sets multiply in integers.
#[test]
fn every_shape_of_quantised_rows() {
    let mut random = Random::new(21);
    for ty in [RowType::Q8_0, RowType::Q4_0, RowType::Iq4Nl] {
        for head_dim in [32, 64, 96, 128, 256] {
            for group in 1..=8 {
                let n_q = 1 + random.below(4);
                let rows = 1 + random.below(150);
                check(Case { k_type: ty, v_type: ty, group, n_q, ..Case::plain(head_dim, 2, rows) });
            }
        }
    }
}

/// A call with the rows of `data`, whose keys and values have the scale `scale` in one block of one row.
fn decode_with_scale(isa: Isa, data: &Data, of_keys: bool, scale: f32) -> (Vec<f32>, Vec<f32>) {
    data.with(|call| {
        let lane = call.lanes[0];
        let rows = if of_keys { lane.k } else { lane.v };
        let mut bytes = rows.data.to_vec();
        // The last block of row 5 of KV head 0.
        let at = 6 * rows.row_stride - rows.ty.block_bytes();
        bytes[at..at + 2].copy_from_slice(&half::f16::from_f32(scale).to_le_bytes());
        let changed = kernels::RowTensor { data: &bytes, ..rows };
        let lanes = [match of_keys {
            true => kernels::LaneView { k: changed, ..lane },
            false => kernels::LaneView { v: changed, ..lane },
        }];
        let call = Attention { lanes: &lanes, ..*call };
        let (out, lse) = decode(isa, &call, 1);
        if scale.is_finite() {
            // Errors are relative to the largest number.
            let want = kernels::reference::attend(&call).unwrap();
            let largest = want.out.iter().fold(1f64, |most, x| most.max(x.abs()));
            for (a, b) in out.iter().zip(&want.out) {
                assert!((f64::from(*a) - b).abs() < 1e-4 * largest, "{isa:?} {scale}: {a}, not {b}");
            }
        }
        (out, lse)
    })
}

#[test]
fn scales_of_any_size() {
    for ty in [RowType::Q8_0, RowType::Q4_0, RowType::Iq4Nl] {
        let data = Data::new(Case { k_type: ty, v_type: ty, group: 3, ..Case::plain(64, 2, 41) }, 4);
        for isa in Isa::available() {
            for of_keys in [true, false] {
                for scale in [0.0, -0.0, 6e-8, -0.5, 1.0] {
                    decode_with_scale(isa, &data, of_keys, scale);
                }
                for scale in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let (out, lse) = decode_with_scale(isa, &data, of_keys, scale);
                    // The last 32 elements of KV head 0 have the scale of the values.
                    for (head, out) in out.chunks_exact(64).enumerate() {
                        let from = if of_keys { 0 } else { 32 };
                        let reached = head < 3;
                        assert!(
                            out[from..].iter().all(|x| x.is_finite() != reached),
                            "{isa:?} {ty:?} {scale}"
                        );
                        assert!(out[..from].iter().all(|x| x.is_finite()), "{isa:?} {ty:?} {scale}");
                        assert_eq!(lse[head].is_nan(), reached && of_keys, "{isa:?} {ty:?} {scale}");
                    }
                }
            }
            // The largest scale of all: of values, the result is huge; of keys, one row has all the weight.
            for of_keys in [true, false] {
                for scale in [65504.0, -65504.0] {
                    decode_with_scale(isa, &data, of_keys, scale);
                }
            }
        }
    }
}

#[test]
fn nan_in_a_query_reaches_its_results_alone() {
    for ty in RowType::ALL {
        let case = Case { k_type: ty, v_type: ty, group: 3, n_q: 2, ..Case::plain(64, 1, 41) };
        Data::new(case, 4).with(|call| {
            for bad in [f32::NAN, f32::INFINITY] {
                let mut q = call.q.data.to_vec();
                q[4 * 64 + 40] = bad; // of head 1, token 1
                let call = Attention { q: kernels::Queries { data: &q, ..call.q }, ..*call };
                for isa in Isa::available() {
                    let (out, lse) = decode(isa, &call, 1);
                    for (i, (out, lse)) in out.chunks_exact(64).zip(lse).enumerate() {
                        assert!(out.iter().all(|x| x.is_nan() == (i == 4)), "{isa:?} {ty:?} {bad} {i}");
                        assert_eq!(lse.is_nan(), i == 4, "{isa:?} {ty:?} {bad} {i}");
                    }
                }
            }
        });
    }
}

/// Drafts rely on it: a token's result is that of a call without the tokens after it, and that of a head is that of a
/// call with this head alone.
#[test]
fn results_do_not_depend_on_other_queries() {
    for ty in RowType::ALL {
        for (head_dim, group, n_q, rows) in [(64, 7, 1, 75), (128, 4, 4, 66), (96, 1, 3, 65), (64, 5, 2, 33)]
        {
            let case = Case { k_type: ty, v_type: ty, group, n_q, ..Case::plain(head_dim, 1, rows) };
            Data::new(case, 6).with(|call| {
                for isa in Isa::available() {
                    let (all, all_lse) = decode(isa, call, 1);
                    for t in 0..n_q {
                        for head in 0..group {
                            let at = t * group + head;
                            let q = kernels::Queries::contiguous(&call.q.data[at * head_dim..], head_dim, 1);
                            let lanes = [kernels::LaneView { rows: call.visible(rows, t), ..call.lanes[0] }];
                            let alone = Attention { group: 1, n_q: 1, q, lanes: &lanes, ..*call };
                            let (out, lse) = decode(isa, &alone, 1);
                            assert_eq!(bits(&out), bits(&all[at * head_dim..][..head_dim]), "{isa:?} {ty:?}");
                            assert_eq!(bits(&lse), bits(&all_lse[at..=at]), "{isa:?} {ty:?}");
                        }
                    }
                }
            });
        }
    }
}

#[test]
fn random_calls() {
    let mut random = Random::new(99);
    for seed in 0..150 {
        let types = RowType::ALL;
        let mut heads: Vec<u32> = (0..1 + random.below(6) as u32).collect();
        for i in 0..heads.len() {
            heads.swap(i, random.below(i + 1));
        }
        let mut lanes = Vec::new();
        while !heads.is_empty() {
            let some: Vec<u32> = heads.drain(..1 + random.below(heads.len())).collect();
            let weights: Vec<f32> = some.iter().map(|_| random.normal() * 4.0).collect();
            let rows = [random.below(20), random.below(150), random.below(600)][random.below(3)];
            lanes.push(lane(&some, rows, (random.below(2) == 0).then_some(&weights[..])));
        }
        let case = Case {
            head_dim: 32 * (1 + random.below(4)),
            group: 1 + random.below(8),
            n_q: 1 + random.below(4),
            k_type: types[random.below(types.len())],
            v_type: types[random.below(types.len())],
            key_size: 1.0,
            max_alibi_bias: [None, None, Some(8.0), Some(5.5)][random.below(4)],
            window: (random.below(3) == 0).then(|| 1 + random.below(200)),
            is_ordered: random.below(2) == 0,
            softcap: (random.below(3) == 0).then_some(1.5),
            has_sink_logits: random.below(3) == 0,
            lanes,
        };
        let nth = 1 + random.below(5);
        check_on_cpu(decode, rounding(&case), case, seed, &[nth]);
    }
}

#[test]
fn strided_queries_and_rows() {
    // Queries are a permuted tensor [head_dim, n_q, n_heads], and there is a gap after each row.
    let data = Data::new(Case { n_q: 3, group: 2, ..Case::plain(64, 2, 50) }, 5);
    data.with(|call| {
        let (want, _) = decode(Isa::best(), call, 2);
        let (heads, n_q, d) = (4, 3, 64);
        let mut q = vec![f32::NAN; d * heads * n_q];
        for h in 0..heads {
            for t in 0..n_q {
                let from = &call.q.data[h * call.q.head_stride + t * call.q.token_stride..][..d];
                q[(h * n_q + t) * d..][..d].copy_from_slice(from);
            }
        }
        let with_gaps = |rows: kernels::RowTensor| {
            let mut bytes = vec![0xff; 2 * 60 * 160];
            for h in 0..2 {
                for r in 0..50 {
                    let from = &rows.data[h * rows.head_stride + r * rows.row_stride..][..128];
                    bytes[h * 60 * 160 + r * 160..][..128].copy_from_slice(from);
                }
            }
            bytes
        };
        let (k, v) = (with_gaps(call.lanes[0].k), with_gaps(call.lanes[0].v));
        let rows =
            |data| kernels::RowTensor { data, ty: RowType::F16, row_stride: 160, head_stride: 60 * 160 };
        let lanes = [kernels::LaneView { k: rows(&k), v: rows(&v), ..call.lanes[0] }];
        let strided = Attention {
            q: kernels::Queries { data: &q, head_stride: d * n_q, token_stride: d },
            lanes: &lanes,
            ..*call
        };
        assert_eq!(decode(Isa::best(), &strided, 2).0, want);
    });
}

fn compute_part(call: &Attention) -> Result<(), ShapeError> {
    let mut own = vec![0.0; partials_len(call.head_dim, call.n_kv_heads, call.group, call.n_q)];
    partial(call, 0, 1, &mut own)
}

#[test]
fn shapes_that_do_not_fit_are_rejected() {
    let data = Data::new(Case::plain(64, 2, 50), 1);
    data.with(|call| {
        let mut own = vec![0.0; partials_len(64, 2, 1, 1)];
        let mut rejected = |call: Attention| partial(&call, 0, 1, &mut own).unwrap_err();
        let lane = call.lanes[0];
        assert!(matches!(
            rejected(Attention { head_dim: 60, ..*call }),
            ShapeError::HeadDim { granule: 8, .. }
        ));
        assert!(matches!(rejected(Attention { group: 0, ..*call }), ShapeError::Count { .. }));
        assert!(matches!(
            rejected(Attention { group: 2, ..*call }),
            ShapeError::Memory { what: "queries", .. }
        ));
        assert!(matches!(rejected(Attention { n_kv_heads: usize::MAX, ..*call }), ShapeError::Count { .. }));
        assert!(matches!(
            rejected(Attention {
                n_q: usize::MAX / 64,
                q: kernels::Queries { token_stride: 0, ..call.q },
                ..*call
            }),
            ShapeError::Count { .. }
        ));
        let rejected_lane = |lane: kernels::LaneView| {
            let mut own = vec![0.0; partials_len(64, 2, 1, 1)];
            let lanes = [lane];
            partial(&Attention { lanes: &lanes, ..*call }, 0, 1, &mut own).unwrap_err()
        };
        assert!(matches!(
            rejected_lane(kernels::LaneView { rows: 5000, ..lane }),
            ShapeError::Memory { what: "keys", .. }
        ));
        assert!(matches!(
            rejected_lane(kernels::LaneView { rows: usize::MAX, ..lane }),
            ShapeError::Memory { .. }
        ));
        assert!(matches!(
            rejected_lane(kernels::LaneView { v: kernels::RowTensor { row_stride: 0, ..lane.v }, ..lane }),
            ShapeError::Stride { what: "values", need: 128, .. }
        ));
        assert!(matches!(
            rejected_lane(kernels::LaneView { kv_heads: &[0, 0], ..lane }),
            ShapeError::LaneHead { head: 0, .. }
        ));
        assert!(matches!(
            rejected_lane(kernels::LaneView { kv_heads: &[0, 2], ..lane }),
            ShapeError::LaneHead { head: 2, .. }
        ));
        assert!(matches!(
            rejected_lane(kernels::LaneView { kv_heads: &[1], ..lane }),
            ShapeError::MissingHeads { heads: 1, .. }
        ));
        assert!(matches!(
            rejected_lane(kernels::LaneView { log_weight: Some(&[0.0]), ..lane }),
            ShapeError::LogWeights { .. }
        ));
        assert!(matches!(partial(call, 1, 1, &mut own), Err(ShapeError::Thread { ith: 1, nth: 1 })));
        let distances = |slopes: usize, rows: usize| {
            let mut own = vec![0.0; partials_len(64, 2, 1, 1)];
            let (slopes, positions) = (vec![0.5; slopes], vec![0; rows]);
            let positions = [positions.as_slice(); 2];
            let alibi = Some(kernels::Alibi { slopes: &slopes, positions: &positions });
            partial(&Attention { alibi, ..*call }, 0, 1, &mut own)
        };
        assert!(matches!(distances(1, 50), Err(ShapeError::Numbers { what: "slopes", have: 1, need: 2 })));
        assert!(matches!(
            distances(2, 49),
            Err(ShapeError::Numbers { what: "positions", have: 49, need: 50 })
        ));
        assert!(distances(2, 50).is_ok());
        let window = |tokens, positions| {
            compute_part(&Attention { window: Some(Window { tokens, positions }), ..*call })
        };
        assert!(matches!(window(0, None), Err(ShapeError::Numbers { what: "tokens of the window", .. })));
        let short: [&[i32]; 2] = [&[0; 50], &[0; 49]];
        assert!(matches!(window(3, Some(&short)), Err(ShapeError::Numbers { have: 49, need: 50, .. })));
        assert!(matches!(window(3, Some(&short[..1])), Err(ShapeError::Numbers { have: 1, need: 2, .. })));
        for cap in [0.0, -1.0, f32::NAN] {
            let result = compute_part(&Attention { softcap: Some(cap), ..*call });
            assert!(matches!(result, Err(ShapeError::Softcap)));
        }
        let result = compute_part(&Attention { sink_logits: Some(&[0.0; 3]), ..*call });
        assert!(matches!(result, Err(ShapeError::Numbers { what: "sink logits", have: 3, need: 2 })));
        let short = own.len() - 1;
        assert!(matches!(
            partial(call, 0, 1, &mut own[..short]),
            Err(ShapeError::Buffer { what: "partials", .. })
        ));
        let mut out = [0.0; 64];
        assert!(matches!(
            combine(call, 1, &own, 0..2, &mut out, None),
            Err(ShapeError::Buffer { what: "output", .. })
        ));
        assert!(combine(call, 1, &own, 1..3, &mut [0.0; 128], None).is_err());
    });
}

/// What is prefetched behind a row is computed from its stride, which may be anything where there is a single row.
#[test]
fn a_single_row_may_have_any_stride() {
    let mut data = vec![0; RowType::Q8_0.row_bytes(32)];
    RowType::Q8_0.encode(&[1.0; 32], &mut data);
    let rows =
        RowTensor { data: &data, ty: RowType::Q8_0, row_stride: usize::MAX / 2, head_stride: data.len() };
    let lanes = [LaneView { k: rows, v: rows, rows: 1, kv_heads: &[0], log_weight: None }];
    let q = [0.5; 32];
    let call = Attention {
        head_dim: 32,
        n_kv_heads: 1,
        group: 1,
        n_q: 1,
        scale: 1.0,
        q: Queries::contiguous(&q, 32, 1),
        lanes: &lanes,
        alibi: None,
        window: None,
        softcap: None,
        sink_logits: None,
        groups: None,
        int8: false,
    };
    for isa in Isa::available() {
        let mut partials = vec![0.0; partials_len(32, 1, 1, 1)];
        partial_on(isa, &call, 0, 1, &mut partials).expect("a row");
        let mut out = [0.0; 32];
        combine(&call, 1, &partials, 0..1, &mut out, None).expect("partials");
        assert!(out.iter().all(|x| (x - 1.0).abs() < 1e-3), "{isa:?}: {out:?}");
    }
}
