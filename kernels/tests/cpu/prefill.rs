//! The prefill kernel against the reference, on every instruction set of this processor.

use std::sync::atomic::AtomicUsize;

use crate::common::{Case, Data, Random, check_nan_on_cpu, check_on_cpu, lane};
use kernels::prefill::{prefill_on, scratch_len};
use kernels::{Attention, Isa, RowType, ShapeError};

/// Runs the call on `threads` threads. Buffers are NaN at first, so that reads of unwritten numbers fail the
/// tests.
pub fn run(isa: Isa, call: &Attention, threads: usize) -> (Vec<f32>, Vec<f32>) {
    let mut out = vec![f32::NAN; call.out_len()];
    let mut lse = vec![f32::NAN; call.n_heads() * call.n_q];
    let (out_at, lse_at) = (out.as_mut_ptr() as usize, lse.as_mut_ptr() as usize);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut scratch = vec![f32::NAN; scratch_len(call)];
                // SAFETY: the buffers have the shapes asked for, and all threads share the counter.
                unsafe { prefill_on(isa, call, &next, &mut scratch, out_at as *mut f32, lse_at as *mut f32) }
                    .unwrap();
            });
        }
    });
    (out, lse)
}

#[track_caller]
fn check(case: Case) {
    check_on_cpu(run, 0.0, case, 11, &[1, 3]);
}

#[test]
fn every_pair_of_row_types() {
    for k_type in RowType::ALL {
        for v_type in RowType::ALL {
            check(Case { k_type, v_type, group: 2, n_q: 19, ..Case::plain(64, 2, 130) });
        }
    }
}

#[test]
fn every_head_size() {
    for head_dim in [8, 24, 32, 40, 64, 72, 80, 96, 112, 128, 192, 256, 320] {
        check(Case { group: 3, n_q: 24, ..Case::plain(head_dim, 1, 101) });
    }
}

#[test]
fn query_counts_around_tile_borders() {
    for n_q in (1..=20).chain([31, 32, 33, 47, 63, 64, 65, 80, 127, 128, 129, 200]) {
        check(Case { n_q, ..Case::plain(32, 1, 210) });
    }
}

#[test]
fn every_group() {
    for group in 1..=9 {
        check(Case { group, n_q: 33, ..Case::plain(64, 2, 70) });
    }
}

#[test]
fn row_counts_around_block_borders() {
    for rows in [0, 1, 5, 6, 7, 90, 95, 96, 97, 98, 191, 192, 193, 300] {
        for n_q in [1, 7, 40] {
            check(Case { n_q, group: 2, ..Case::plain(64, 1, rows) });
        }
    }
}

#[test]
fn first_queries_see_nothing_where_queries_exceed_rows() {
    check(Case { n_q: 150, ..Case::plain(64, 2, 20) });
}

#[test]
fn unequal_lanes_with_log_weights() {
    check(Case {
        n_q: 50,
        group: 4,
        lanes: vec![
            lane(&[3, 0], 700, None),
            lane(&[1, 5, 2], 61, Some(&[3.5, 0.0, f32::NEG_INFINITY])),
            lane(&[4], 50, Some(&[f32::NEG_INFINITY])),
            lane(&[6], 0, None),
        ],
        ..Case::plain(64, 1, 1)
    });
}

#[test]
fn alibi_adds_biases_by_distance() {
    for n_q in [1, 19, 70, 150] {
        for group in [1, 3] {
            for rows in [1, 20, 97, 300] {
                check(Case { max_alibi_bias: Some(8.0), n_q, group, ..Case::plain(64, 5, rows) });
            }
        }
    }
}

#[test]
fn huge_logits_do_not_overflow() {
    for key_size in [30.0, 1e3, 1e4] {
        check(Case { key_size, group: 2, n_q: 40, ..Case::plain(64, 1, 200) });
    }
}

#[test]
fn nan_in_a_row_reaches_the_output() {
    check_nan_on_cpu(run, 20);
}

#[test]
fn windows_hide_older_rows() {
    for is_ordered in [true, false] {
        for (n_q, group) in [(1, 20), (19, 1), (70, 3), (150, 1)] {
            for (window, rows) in [(1, 200), (8, 5), (95, 300), (96, 300), (97, 301), (500, 300)] {
                check(Case { window: Some(window), is_ordered, n_q, group, ..Case::plain(64, 2, rows) });
            }
        }
    }
}

#[test]
fn soft_caps_and_sink_logits() {
    for (n_q, rows) in [(19, 130), (150, 20), (70, 300)] {
        let case = Case { n_q, group: 3, ..Case::plain(64, 2, rows) };
        check(Case { softcap: Some(0.7), ..case.clone() });
        check(Case { has_sink_logits: true, ..case.clone() });
        check(Case { softcap: Some(50.0), has_sink_logits: true, key_size: 30.0, ..case });
    }
}

#[test]
fn random_calls() {
    let mut random = Random::new(5);
    for seed in 0..16 {
        let heads = 1 + random.below(4) as u32;
        let case = Case {
            group: 1 + random.below(8),
            n_q: 1 + random.below(160),
            k_type: RowType::ALL[random.below(RowType::ALL.len())],
            v_type: RowType::ALL[random.below(RowType::ALL.len())],
            max_alibi_bias: [None, None, Some(8.0), Some(5.5)][random.below(4)],
            window: (random.below(3) == 0).then(|| 1 + random.below(200)),
            is_ordered: random.below(2) == 0,
            softcap: (random.below(3) == 0).then_some(1.5),
            has_sink_logits: random.below(3) == 0,
            ..Case::plain(32 * (1 + random.below(4)), heads, random.below(300))
        };
        check_on_cpu(run, 0.0, case, seed, &[2]);
    }
}

#[test]
fn too_little_scratch_is_rejected() {
    let data = Data::new(Case::plain(64, 1, 10), 1);
    data.with(|call| {
        let mut out = vec![0.0; call.out_len()];
        let mut scratch = vec![0.0; scratch_len(call) - 1];
        // SAFETY: the output has the shape asked for.
        let result = unsafe {
            prefill_on(
                Isa::best(),
                call,
                &AtomicUsize::new(0),
                &mut scratch,
                out.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        assert!(matches!(result, Err(ShapeError::Buffer { what: "scratch", .. })));
    });
}
