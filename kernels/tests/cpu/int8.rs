//! Prefill in integers of 8 bits against the reference, with a tolerance for the rounding. Where the processor has no
//! products of bytes, the same tests run in f32.

use kernels::{Attention, Isa, RowType, reference};

use crate::common::{Case, Data, OnCpu, lane};
use crate::prefill;

fn run(isa: Isa, call: &Attention, threads: usize) -> (Vec<f32>, Vec<f32>) {
    prefill::run(isa, &Attention { int8: true, ..*call }, threads)
}

/// Compares with the reference: rounding costs about 1 % of the results, more where few rows matter.
#[track_caller]
fn check(case: Case) {
    Data::new(case, 11).with(|call| compare(run, call, 0.02));
}

/// Compares with the reference. The mean error is at most this share of the results' mean size.
#[track_caller]
pub fn compare(run: OnCpu, call: &Attention, share: f64) {
    let size = |x: &[f64]| (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64).sqrt();
    let want = reference::attend(call).unwrap();
    let rows: Vec<usize> = call.lanes.iter().map(|lane| lane.rows).collect();
    let shape = format!("{} wide, {} queries of {}, rows {rows:?}", call.head_dim, call.n_q, call.group);
    for isa in Isa::available() {
        for threads in [1, 3] {
            let (out, lse) = run(isa, call, threads);
            let errors: Vec<f64> = out.iter().zip(&want.out).map(|(a, b)| f64::from(*a) - b).collect();
            let (error, allowed) = (size(&errors), share * size(&want.out) + 1e-6);
            assert!(error <= allowed, "{isa:?}: an error of {error:e}, more than {allowed:e}: {shape}");
            for (got, want) in lse.iter().zip(&want.lse) {
                let same = f64::from(*got) == *want || (f64::from(*got) - want).abs() < share;
                assert!(same, "{isa:?}: a logarithm of {got}, not {want}: {shape}");
            }
        }
    }
}

/// Whether the results with and without bytes are the same, on the best instruction set.
fn is_same(case: Case) -> bool {
    Data::new(case, 3).with(|call| {
        let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let (exact, rounded) = (prefill::run(Isa::best(), call, 1), run(Isa::best(), call, 1));
        bits(exact.0) == bits(rounded.0) && bits(exact.1) == bits(rounded.1)
    })
}

#[test]
fn old_rows_alone_are_rounded() {
    let case = Case { n_q: 40, ..Case::plain(64, 2, 900) };
    assert_eq!(is_same(case.clone()), !Isa::best().has_bytes());
    for other in [
        Case { lanes: vec![lane(&[0, 1], 480 + 39, None)], ..case.clone() },
        Case { n_q: 31, ..case.clone() },
        Case { max_alibi_bias: Some(8.0), ..case.clone() },
        Case { softcap: Some(2.0), ..case.clone() },
        Case { window: Some(500), ..case.clone() },
        Case { window: Some(400), is_ordered: true, ..case.clone() },
    ] {
        assert!(is_same(other.clone()), "{other:?}");
    }
}

#[test]
fn threads_do_not_change_results() {
    Data::new(Case { n_q: 300, group: 3, ..Case::plain(64, 2, 1500) }, 6).with(|call| {
        for isa in Isa::available() {
            assert!(run(isa, call, 1) == run(isa, call, 3), "{isa:?}");
        }
    });
}

#[test]
fn every_pair_of_row_types() {
    for k_type in RowType::ALL {
        for v_type in RowType::ALL {
            check(Case { k_type, v_type, group: 2, n_q: 35, ..Case::plain(64, 2, 700) });
        }
    }
}

#[test]
fn every_head_size() {
    for head_dim in [8, 24, 32, 40, 64, 72, 80, 96, 112, 128, 192, 256, 320, 576] {
        check(Case { group: 3, n_q: 40, ..Case::plain(head_dim, 1, 650) });
    }
}

#[test]
fn query_counts_around_tile_borders() {
    for n_q in [32, 33, 47, 48, 49, 63, 64, 65, 80, 128, 129, 191, 255, 256, 257, 320, 513] {
        check(Case { n_q, ..Case::plain(32, 1, 520 + n_q) });
    }
}

#[test]
fn every_group() {
    for group in 1..=9 {
        check(Case { group, n_q: 33, ..Case::plain(64, 2, 640) });
    }
}

#[test]
fn row_counts_around_block_borders() {
    for rows in [478, 479, 480, 481, 575, 671, 672, 673, 863, 864, 865, 1100] {
        for n_q in [32, 41] {
            check(Case { n_q, group: 2, ..Case::plain(64, 1, rows + n_q) });
        }
    }
}

#[test]
fn unequal_lanes_with_log_weights_and_sinks() {
    check(Case {
        n_q: 50,
        group: 4,
        has_sink_logits: true,
        lanes: vec![
            lane(&[3, 0], 1200, None),
            lane(&[1, 5, 2], 601, Some(&[3.5, 0.0, f32::NEG_INFINITY])),
            lane(&[4], 50, Some(&[f32::NEG_INFINITY])),
            lane(&[6], 0, None),
        ],
        ..Case::plain(64, 1, 1)
    });
}

#[test]
fn windows_of_ordered_rows() {
    for (window, n_q) in [(800, 40), (900, 150), (1000, 300)] {
        check(Case { window: Some(window), is_ordered: true, n_q, group: 2, ..Case::plain(64, 2, 1400) });
    }
}

/// Where attention looks at few rows, an error of a logit is one of the weights, in proportion.
#[test]
fn larger_logits_have_larger_errors() {
    for (key_size, share) in [(3.0, 0.05), (10.0, 0.3)] {
        let case = Case { key_size, group: 2, n_q: 40, ..Case::plain(128, 2, 1000) };
        Data::new(case, 5).with(|call| compare(run, call, share));
    }
}

/// Where one row has all of the attention, results stay means of values.
#[test]
fn huge_logits_do_not_overflow() {
    for key_size in [1e3, 1e5, 1e8] {
        let case = Case { key_size, k_type: RowType::F32, group: 2, n_q: 40, ..Case::plain(64, 1, 900) };
        Data::new(case, 11).with(|call| {
            for isa in Isa::available() {
                let (out, lse) = run(isa, call, 1);
                assert!(out.iter().all(|x| x.abs() < 8.0), "{isa:?}, {key_size}");
                assert!(lse.iter().all(|x| x.is_finite()), "{isa:?}, {key_size}");
            }
        });
    }
}

/// What all keys have in common costs no accuracy, however large it is. Without taking it off, the rounding of keys would be
/// 40 times as coarse.
#[test]
fn a_mean_key_is_taken_off() {
    let case = Case { group: 2, n_q: 40, k_type: RowType::F32, ..Case::plain(64, 1, 800) };
    let data = Data::new(case, 7);
    let shifted = data.with(|call| {
        let k = &call.lanes[0].k;
        let mut keys = k.data.to_vec();
        for row in keys.chunks_exact_mut(k.row_stride).take(call.lanes[0].rows) {
            let mut x = vec![0f32; call.head_dim];
            k.ty.decode(row, &mut x);
            x[5] += 100.0;
            x[40] -= 60.0;
            k.ty.encode(&x, row);
        }
        keys
    });
    data.with_keys(&shifted, |call| compare(run, call, 0.02));
}

#[test]
fn nan_in_an_old_row_reaches_the_output() {
    let data = Data::new(Case { group: 2, n_q: 40, ..Case::plain(64, 2, 900) }, 8);
    data.with(|call| {
        let (k, v) = (&call.lanes[0].k, &call.lanes[0].v);
        for row in [96, 300, 671] {
            for special in [f32::NAN, f32::INFINITY] {
                let with = |rows: &kernels::RowTensor| {
                    let mut bytes = rows.data.to_vec();
                    let mut x = vec![0f32; call.head_dim];
                    let at = row * rows.row_stride..(row + 1) * rows.row_stride;
                    rows.ty.decode(&bytes[at.clone()], &mut x);
                    x[17] = special;
                    rows.ty.encode(&x, &mut bytes[at]);
                    bytes
                };
                let (keys, values) = (with(k), with(v));
                for (k, v) in [(&keys[..], v.data), (k.data, &values[..])] {
                    let lane = kernels::LaneView {
                        k: kernels::RowTensor { data: k, ..call.lanes[0].k },
                        v: kernels::RowTensor { data: v, ..call.lanes[0].v },
                        ..call.lanes[0]
                    };
                    let lanes = [lane];
                    for isa in Isa::available() {
                        let call = Attention { lanes: &lanes, ..*call };
                        let is_finite = |(out, _): &(Vec<f32>, Vec<f32>)| -> Vec<bool> {
                            out.iter().map(|x| x.is_finite()).collect()
                        };
                        let (exact, rounded) = (prefill::run(isa, &call, 1), run(isa, &call, 1));
                        assert_eq!(is_finite(&exact), is_finite(&rounded), "{isa:?}, row {row}, {special}");
                        assert!(is_finite(&exact).contains(&false), "{isa:?}, row {row}, {special}");
                    }
                }
            }
        }
    });
}
