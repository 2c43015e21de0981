//! Sparse prefill: where all groups are read it is attention, where none is it is attention to their means, and a group that
//! matters is read.

use std::sync::atomic::AtomicUsize;

use kernels::prefill::{FIRST_ROWS, GROUP, RECENT_ROWS, groups_of, mean_groups};
use kernels::{Attention, Groups, Isa, LaneView, RowTensor, RowType};

use crate::common::{Case, Data, check_nan_on_cpu, check_on_cpu, lane};
use crate::{int8, prefill};

/// Runs the call with groups of all of its rows.
fn run_with(share: f32, isa: Isa, call: &Attention, threads: usize) -> (Vec<f32>, Vec<f32>) {
    let rows = call.lanes.iter().map(|lane| lane.rows).max().unwrap_or(0);
    run_with_means(groups_of(rows), share, isa, call, threads)
}

/// Runs the call with so many groups of each KV head. What no thread writes of the means is NaN.
fn run_with_means(
    count: usize,
    share: f32,
    isa: Isa,
    call: &Attention,
    threads: usize,
) -> (Vec<f32>, Vec<f32>) {
    let mut means = vec![f32::NAN; 2 * call.head_dim * count * call.n_kv_heads];
    let (means_at, next) = (means.as_mut_ptr() as usize, AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            // SAFETY: the memory has the shape asked for, and all threads share the counter.
            scope.spawn(|| unsafe { mean_groups(call, &next, count, means_at as *mut f32) }.unwrap());
        }
    });
    let groups = Some(Groups { means: &means, count, share });
    prefill::run(isa, &Attention { groups, ..*call }, threads)
}

/// Reads all groups.
fn run(isa: Isa, call: &Attention, threads: usize) -> (Vec<f32>, Vec<f32>) {
    run_with(0.0, isa, call, threads)
}

/// The same, with old rows in integers of 8 bits where the processor multiplies bytes.
fn run_in_bytes(isa: Isa, call: &Attention, threads: usize) -> (Vec<f32>, Vec<f32>) {
    run(isa, &Attention { int8: true, ..*call }, threads)
}

#[track_caller]
fn check(case: Case) {
    check_on_cpu(run, 0.0, case, 11, &[1, 3]);
}

/// Rows whose groups are more than a block in bytes.
const ROWS_IN_BYTES: usize = 4000;
/// What rounding may cost, as a share of the results' size. Means of more rows are smaller than in the tests without groups.
const ALLOWED: f64 = 0.03;

#[test]
fn rows_of_every_type_are_read_in_bytes() {
    for ty in RowType::ALL {
        let case = Case { k_type: ty, v_type: ty, group: 3, n_q: 40, ..Case::plain(64, 2, ROWS_IN_BYTES) };
        Data::new(case, 11).with(|call| int8::compare(run_in_bytes, call, ALLOWED));
    }
}

#[test]
fn rows_of_every_head_size_are_read_in_bytes() {
    for head_dim in [8, 24, 40, 80, 128, 256] {
        let case = Case { group: 2, n_q: 40, ..Case::plain(head_dim, 1, ROWS_IN_BYTES) };
        Data::new(case, 11).with(|call| int8::compare(run_in_bytes, call, ALLOWED));
    }
}

#[test]
fn blocks_of_groups_alone_are_rounded() {
    for (share, rows, is_rounded) in
        [(0.0, 3352, false), (0.0, ROWS_IN_BYTES, true), (f32::INFINITY, ROWS_IN_BYTES, true)]
    {
        let data = Data::new(Case { n_q: 40, ..Case::plain(64, 1, rows) }, 3);
        data.with(|call| {
            let [exact, rounded] =
                [false, true].map(|int8| run_with(share, Isa::best(), &Attention { int8, ..*call }, 1));
            assert_eq!(exact != rounded, is_rounded && Isa::best().has_bytes(), "{rows} rows, share {share}");
        });
    }
}

#[test]
fn groups_around_the_borders_of_blocks_in_bytes() {
    for groups in [191, 192, 193, 203, 204, 384, 385] {
        let rows = FIRST_ROWS + RECENT_ROWS + groups * GROUP + 40;
        let case = Case { group: 2, n_q: 40, ..Case::plain(32, 1, rows) };
        Data::new(case, 11).with(|call| int8::compare(run_in_bytes, call, ALLOWED));
    }
}

#[test]
fn lanes_of_different_lengths_in_bytes() {
    let case = Case {
        n_q: 50,
        group: 4,
        has_sink_logits: true,
        lanes: vec![
            lane(&[3, 0], ROWS_IN_BYTES, None),
            lane(&[1, 5, 2], 3601, Some(&[3.5, 0.0, f32::NEG_INFINITY])),
            lane(&[4], 50, Some(&[f32::NEG_INFINITY])),
            lane(&[6], 0, None),
        ],
        ..Case::plain(64, 1, 1)
    };
    Data::new(case, 11).with(|call| int8::compare(run_in_bytes, call, ALLOWED));
}

#[test]
fn rows_of_every_type_are_read() {
    for ty in RowType::ALL {
        check(Case { k_type: ty, v_type: ty, group: 3, n_q: 30, ..Case::plain(64, 2, 700) });
    }
}

#[test]
fn rows_of_every_head_size_are_read() {
    for head_dim in [8, 24, 40, 80, 128, 256] {
        check(Case { group: 2, n_q: 40, ..Case::plain(head_dim, 1, 500) });
    }
}

#[test]
fn numbers_of_rows_around_the_borders_of_groups() {
    let least = FIRST_ROWS + RECENT_ROWS;
    for rows in [0, 1, 60, least - 1, least, least + 1, least + 17, least + 96 * GROUP + 31] {
        for n_q in [1, 70, 150] {
            check(Case { n_q, ..Case::plain(32, 1, rows) });
        }
    }
}

#[test]
fn lanes_of_different_lengths() {
    check(Case {
        n_q: 50,
        group: 4,
        softcap: Some(20.0),
        has_sink_logits: true,
        lanes: vec![
            lane(&[3, 0], 900, None),
            lane(&[1, 5, 2], 461, Some(&[3.5, 0.0, f32::NEG_INFINITY])),
            lane(&[4], 50, Some(&[f32::NEG_INFINITY])),
            lane(&[6], 0, None),
        ],
        ..Case::plain(64, 1, 1)
    });
}

#[test]
fn nan_in_a_row_reaches_the_output() {
    check_nan_on_cpu(run, 20);
}

#[test]
fn nan_in_an_old_row_reaches_the_output() {
    for (rows, int8) in [(1000, false), (ROWS_IN_BYTES, true)] {
        let data = Data::new(Case { n_q: 40, ..Case::plain(64, 1, rows) }, 4);
        data.with(|call| check_nan_in_an_old_row(&Attention { int8, ..*call }));
    }
}

fn check_nan_in_an_old_row(call: &Attention) {
    {
        let lane = call.lanes[0];
        for rows in [&lane.k, &lane.v] {
            let mut bytes = rows.data.to_vec();
            bytes[500 * rows.row_stride..][..2].copy_from_slice(&[0, 0x7e]);
            let with_nan = RowTensor { data: &bytes, ..*rows };
            let is_key = std::ptr::eq(rows, &lane.k);
            let lanes =
                [if is_key { LaneView { k: with_nan, ..lane } } else { LaneView { v: with_nan, ..lane } }];
            for share in [0.0, 0.01, f32::INFINITY] {
                let (out, _) = run_with(share, Isa::best(), &Attention { lanes: &lanes, ..*call }, 1);
                // A value with NaN in one element makes that element NaN.
                assert!(out.chunks(64).all(|token| token[0].is_nan()), "share {share}, a key: {is_key}");
            }
        }
    }
}

/// The query of token `t` of a call with one head.
fn query<'a>(call: &Attention<'a>, t: usize) -> &'a [f32] {
    &call.q.data[t * call.q.token_stride..][..call.head_dim]
}

/// Rows of one head, decoded: `[head_dim, rows]`.
fn decoded(rows: &RowTensor, d: usize, n: usize) -> Vec<Vec<f64>> {
    let row = |i: usize| {
        let mut x = vec![0.0; d];
        rows.ty.decode(&rows.data[i * rows.row_stride..][..rows.ty.row_bytes(d)], &mut x);
        x.into_iter().map(f64::from).collect()
    };
    (0..n).map(row).collect()
}

/// Attention in f64 of query token `t` of a call with one head and fewer queries than a panel has, where no group is read.
fn attention_to_means(call: &Attention, t: usize) -> Vec<f64> {
    let (d, lane) = (call.head_dim, &call.lanes[0]);
    let [k, v] = [&lane.k, &lane.v].map(|rows| decoded(rows, d, lane.rows));
    let old = (call.visible(lane.rows, 0) - RECENT_ROWS) / GROUP * GROUP;
    let mean = |rows: &[Vec<f64>]| -> Vec<f64> {
        (0..d).map(|i| rows.iter().map(|row| row[i]).sum::<f64>() / GROUP as f64).collect()
    };
    let first = (0..FIRST_ROWS).map(|i| (1.0, k[i].clone(), v[i].clone()));
    let dot = |key: &[f64]| -> f64 { query(call, t).iter().zip(key).map(|(q, k)| f64::from(*q) * k).sum() };
    let weight = |key: &[f64]| (dot(key) * f64::from(call.scale)).exp();
    let group = |i: usize| (mean(&k[i..i + GROUP]), mean(&v[i..i + GROUP]));
    // What means count is measured where the rows are read, too.
    let recent = old..old + RECENT_ROWS;
    let of_rows: f64 = recent.clone().map(|i| weight(&k[i])).sum();
    let of_means: f64 = recent.step_by(GROUP).map(|i| GROUP as f64 * weight(&group(i).0)).sum();
    let factor = GROUP as f64 * (of_rows / of_means).clamp(1.0, 16.0);
    let groups = (FIRST_ROWS..old).step_by(GROUP).map(|i| (factor, group(i).0, group(i).1));
    let last = (old..call.visible(lane.rows, t)).map(|i| (1.0, k[i].clone(), v[i].clone()));
    let rows = first.chain(groups).chain(last);
    let weighted: Vec<(f64, Vec<f64>)> =
        rows.map(|(times, key, value)| (times * weight(&key), value)).collect();
    let total: f64 = weighted.iter().map(|(weight, _)| weight).sum();
    (0..d).map(|i| weighted.iter().map(|(weight, value)| weight * value[i]).sum::<f64>() / total).collect()
}

#[test]
fn groups_that_are_not_read_count_with_their_means() {
    // Results are sums of 3,000 numbers of size 1: in bytes they differ by a hundredth of their size.
    for (rows, int8, allowed) in [(2000, false, 1e-5), (ROWS_IN_BYTES, true, 2e-3)] {
        let data = Data::new(Case { n_q: 40, ..Case::plain(40, 1, rows) }, 3);
        for isa in Isa::available() {
            data.with(|call| {
                let (out, _) = run_with(f32::INFINITY, isa, &Attention { int8, ..*call }, 2);
                for (t, got) in out.chunks(call.head_dim).enumerate() {
                    let expected = attention_to_means(call, t);
                    let errors = got.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs());
                    let error = errors.fold(0.0, f64::max);
                    assert!(error < allowed, "{isa:?}: query {t} differs by {error}");
                }
            });
        }
    }
}

#[test]
fn a_group_that_a_query_looks_for_is_read_row_by_row() {
    for (rows, int8) in [(2000, false), (ROWS_IN_BYTES, true)] {
        let case = Case { n_q: 40, k_type: RowType::F32, v_type: RowType::F32, ..Case::plain(64, 1, rows) };
        let data = Data::new(Case { key_size: 0.1, ..case }, 5);
        data.with(|call| check_needle(&Attention { int8, ..*call }));
    }
}

fn check_needle(call: &Attention) {
    const NEEDLE: usize = 777;
    {
        // One key points where the tenth query does.
        let lane = call.lanes[0];
        let mut keys = lane.k.data.to_vec();
        let key: Vec<f32> = query(call, 9).iter().map(|q| 2.0 * q).collect();
        lane.k.ty.encode(&key, &mut keys[NEEDLE * lane.k.row_stride..][..lane.k.row_stride]);
        let lanes = [LaneView { k: RowTensor { data: &keys, ..lane.k }, ..lane }];
        let call = Attention { lanes: &lanes, ..*call };
        let expected = kernels::reference::attend(&call).expect("shapes fit").out;
        let error = |share: f32, t: usize| {
            let (out, _) = run_with(share, Isa::best(), &call, 1);
            let of_token = t * call.head_dim..(t + 1) * call.head_dim;
            let squares = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
            let difference = out[of_token.clone()].iter().zip(&expected[of_token.clone()]);
            squares(&mut difference.map(|(a, b)| f64::from(*a) - b))
                / squares(&mut expected[of_token].iter().copied())
        };
        assert!(error(0.01, 9) < 0.02, "{}", error(0.01, 9));
        assert!(error(f32::INFINITY, 9) > 0.5, "{}", error(f32::INFINITY, 9));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let data = Data::new(Case { n_q: 20, ..Case::plain(32, 1, 700) }, 3);
    let means = [0.0; 2 * 32 * 10];
    data.with(|call| {
        let error = |count: usize, share: f32| {
            let groups = Some(Groups { means: &means, count, share });
            Attention { groups, ..*call }.check().err().map(|error| error.to_string())
        };
        assert_eq!(error(10, 0.0), None);
        assert!(error(11, 0.0).is_some_and(|error| error.contains("has 640 floats and needs 704")));
        assert!(error(usize::MAX, 0.0).is_some());
        assert!(error(10, -0.1).is_some() && error(10, f32::NAN).is_some());
        let window = Some(kernels::Window { tokens: 5, positions: None });
        let with_window =
            Attention { groups: Some(Groups { means: &means, count: 10, share: 0.0 }), window, ..*call };
        assert!(with_window.check().is_err());
    });
}

/// Rows behind the groups of which there are means are read.
#[test]
fn fewer_means_than_rows() {
    let data = Data::new(Case { n_q: 20, ..Case::plain(64, 1, 1500) }, 6);
    data.with(|call| {
        let expected = kernels::reference::attend(call).expect("shapes fit").out;
        for count in [0, 3, 19, 21, 40] {
            let (out, _) = run_with_means(count, 0.0, Isa::best(), call, 1);
            let error = out.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
            assert!(error < 1e-5, "{count} means: {error}");
        }
    });
}
