//! Device kernels that append rows and attend, on a GPU or the emulator, against the reference and the CPU's
//! bytes; and the portable operations. Each call runs twice. The emulator reverses the order of threads the second time; the results must
//! be equal bit for bit.

use crate::common::{
    Case, Data, LaneCase, OWN, Place, Random, assert_one_step, backends, bits, bytes_of, compute,
    lane_inputs, places,
};
use ggml::{Backend, Context, GraphAllocator, Tensor, Type};
use kernels::graph::{
    Append, Appended, Attend, AttentionShape, GraphLane, MAX_LANES, QueryHeads, RowPositions, Split,
    tensor_type,
};
use kernels::{Attention, Form, LaneView, Queries, RowTensor, RowType, reference};

/// Rows of a lane in which those that no query sees have the bytes `behind`.
fn with_behind(lane: &LaneView, rows: &RowTensor, head_dim: usize, behind: u8) -> Vec<u8> {
    let (heads, row) = (lane.kv_heads.len(), rows.ty.row_bytes(head_dim));
    let mut all = rows.data.to_vec();
    for (head, rows) in all.chunks_exact_mut(rows.data.len() / heads).enumerate() {
        let is_unused = lane.log_weight.is_some_and(|weights| weights[head] == f32::NEG_INFINITY);
        rows[lane.rows * row..].fill(behind);
        if is_unused {
            rows[..row].fill(behind);
        }
    }
    all
}

/// A place's result of a call, split over `blocks` on the device. A lane has the log-weight of its first head.
fn attend(place: &Place, call: &Attention, max_alibi_bias: Option<f32>, blocks: usize) -> Vec<f32> {
    attend_within(place, call, max_alibi_bias, blocks, |_, capacity| capacity)
}

/// The same, where lanes are read as far as `reach` says of a lane and its capacity.
fn attend_within(
    place: &Place,
    call: &Attention,
    max_alibi_bias: Option<f32>,
    blocks: usize,
    reach: fn(&LaneView, usize) -> usize,
) -> Vec<f32> {
    let backend = &place.backend;
    let memory = Context::new(16);
    let of_window = call.window.and_then(|window| window.positions);
    let all_positions = call.alibi.map(|alibi| alibi.positions).or(of_window);
    let mut first = 0;
    let lanes: Vec<(Tensor, Tensor, usize, usize)> = (call.lanes.iter())
        .map(|lane| {
            let heads = lane.kv_heads.len();
            let capacity = lane.k.data.len() / lane.k.ty.row_bytes(call.head_dim) / heads;
            let shape = [call.head_dim, capacity, heads];
            let tensor = |ty| memory.tensor(tensor_type(ty), shape);
            first += capacity * heads;
            let k = tensor(lane.k.ty);
            // Values that are the keys are in their rows.
            let within = std::ptr::eq(lane.k.data, lane.v.data);
            let v = if within { k.clone() } else { tensor(lane.v.ty) };
            (k, v, capacity, first - capacity * heads)
        })
        .collect();
    let positions = memory.tensor(Type::I32, [first.max(1)]);
    let q = memory.tensor(Type::F32, [call.head_dim, call.n_heads(), call.n_q]);
    let sink_logits = memory.tensor(Type::F32, [call.n_heads()]);
    memory.allocate(&backend.buffer_type()).expect("memory");
    let mut rows = [0i32; 2 * MAX_LANES];
    let mut weights = [f32::NAN; 2 * MAX_LANES];
    for (number, (lane, (k, v, capacity, first))) in call.lanes.iter().zip(&lanes).enumerate() {
        k.write(0, &with_behind(lane, &lane.k, call.head_dim, place.behind)).expect("keys");
        v.write(0, &with_behind(lane, &lane.v, call.head_dim, place.behind)).expect("values");
        rows[MAX_LANES + number] = lane.rows as i32;
        weights[MAX_LANES + number] = lane.log_weight.map_or(f32::NAN, |weights| weights[0]);
        for (at, head) in lane.kv_heads.iter().enumerate() {
            if let Some(all) = all_positions {
                let held = all[*head as usize];
                positions.write(4 * (first + at * capacity), held).expect("positions");
            }
        }
    }
    q.write(0, call.q.data).expect("queries");
    if let Some(logits) = call.sink_logits {
        sink_logits.write(0, logits).expect("sink logits");
    }
    let lanes: Vec<GraphLane> = (call.lanes.iter().zip(lanes))
        .map(|(lane, (k, v, capacity, first))| GraphLane {
            reach: if all_positions.is_some() { capacity } else { reach(lane, capacity) },
            compensated: lane.log_weight.is_some() && all_positions.is_none(),
            positions: all_positions.map(|_| RowPositions { all: positions.clone(), first }),
            window: call.window.map(|window| window.tokens),
            ..GraphLane::new(k, v, lane.kv_heads)
        })
        .collect();

    let ctx = Context::new(500);
    let inputs = lane_inputs(&ctx, 1);
    let stored = ctx.input("stored", Type::F32, [1]);
    let shape = AttentionShape {
        head_dim: call.head_dim,
        n_kv_heads: call.n_kv_heads,
        group: call.group,
        scale: call.scale,
        softcap: call.softcap,
        max_alibi_bias,
    };
    let appended = Appended { node: &stored, rows: 0 };
    let queries = QueryHeads { q: &q, sink_logits: call.sink_logits.map(|_| &sink_logits) };
    let attend =
        Attend { shape, queries, appended, lanes: &lanes, inputs: &inputs, groups: None, int8: false };
    let out = match place.form {
        Form::Own(_) => Form::Own(Split::Blocks(blocks)).nodes(&ctx, attend),
        Form::Portable => ctx.cont(&Form::Portable.nodes(&ctx, attend)),
    };
    let out = out.output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let ready = allocator.prepare(ctx.graph(&[&out]).expect("a graph")).expect("memory");
    let run = || -> Vec<f32> {
        inputs.rows.write(0, &rows).expect("rows");
        if all_positions.is_none() {
            inputs.log_weights.write(0, &weights).expect("weights");
        }
        backend.compute(&ready).expect("computed");
        out.to_vec().expect("a result")
    };
    let (once, again) = (run(), run());
    assert_eq!(bits(&once), bits(&again), "the result depends on the order of threads");
    once
}

/// Compares the device's results with the reference.
#[track_caller]
fn check_blocks(case: Case, blocks: &[usize]) {
    let data = Data::new(case, 7);
    data.with(|call| {
        let want = reference::attend(call).expect("shapes fit");
        compare_portable(&data.case, call, &want);
        let (want, [_, device]) = (want.out, places());
        for &blocks in blocks {
            let out = attend(&device, call, data.case.max_alibi_bias, blocks);
            assert_eq!(out.len(), want.len());
            for (i, (a, b)) in out.iter().zip(&want).enumerate() {
                let close = (f64::from(*a) - b).abs() < tolerance(&data.case);
                assert!(close, "{:?}, {blocks} blocks: out[{i}] = {a}, not {b}", data.case);
            }
        }
    });
}

/// Compares portable attention with the reference, for queries that see a row: where whole lanes are read, and no further than
/// rows are live.
#[track_caller]
fn compare_portable(case: &Case, call: &Attention, want: &reference::Attended) {
    let place = Place::cpu(Form::Portable);
    compare_attended(case, &attend(&place, call, case.max_alibi_bias, 1), want);
    let live = |lane: &LaneView, _| lane.rows.max(1);
    compare_attended(case, &attend_within(&place, call, case.max_alibi_bias, 1, live), want);
}

#[track_caller]
fn compare_attended(case: &Case, out: &[f32], want: &reference::Attended) {
    let d = case.head_dim;
    let mut worst = 0f64;
    for (query, _) in want.lse.iter().enumerate().filter(|(_, lse)| lse.is_finite()) {
        for (a, b) in out[query * d..][..d].iter().zip(&want.out[query * d..][..d]) {
            assert!(a.is_finite(), "{case:?}: query {query} gives {a}, not {b}");
            worst = worst.max((f64::from(*a) - b).abs());
        }
    }
    assert!(worst < portable_tolerance(case), "{case:?}: portable attention differs by {worst:e}");
}

/// Twice what was measured on ggml's CPU. It rounds queries to the precision of the keys: 8 bits where these are
/// quantised. It adds up f16 values in f16, before they are divided by the sum of the weights. Of f32, only the shift
/// of log-weights is wrong, by the rounding of an f16 below 0.004.
fn portable_tolerance(case: &Case) -> f64 {
    let of_keys: f64 = match case.k_type {
        RowType::F32 => 1e-5,
        RowType::F16 => 1e-3,
        _ => 2.5e-2,
    };
    let of_values = if case.v_type == RowType::F16 { 3e-2 } else { 0.0 };
    of_keys.max(of_values) + 1e-6 * f64::from(case.key_size)
}

/// The tolerance: f32 rounding for few queries, f16 rounding of queries, rows and weights for many.
fn tolerance(case: &Case) -> f64 {
    if case.group * case.n_q > 16 { 4e-3 } else { 2e-5 + 1e-6 * f64::from(case.key_size) }
}

#[track_caller]
fn check(case: Case) {
    let split = splitting(&case, 5);
    check_blocks(case, &[3, split]);
}

/// A number of blocks with which the rows of many queries are split too, into slightly more than `splits`
/// splits per head.
fn splitting(case: &Case, splits: usize) -> usize {
    let tiles = (case.group * case.n_q).div_ceil(64);
    2 * tiles * (splits * case.kv_heads() + 1)
}

fn lane(heads: &[u32], rows: usize, log_weight: Option<f32>) -> LaneCase {
    LaneCase { heads: heads.to_vec(), rows, log_weight: log_weight.map(|weight| vec![weight; heads.len()]) }
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
fn every_head_size_in_every_type() {
    for head_dim in [8, 24, 32, 40, 64, 72, 80, 96, 112, 128, 160, 192, 256] {
        for ty in RowType::ALL {
            if head_dim % ty.granule() == 0 {
                check(Case { group: 2, k_type: ty, v_type: ty, ..Case::plain(head_dim, 2, 45) });
            }
        }
    }
}

#[test]
fn every_group() {
    for group in (1..=9).chain([12, 16]) {
        check(Case { group, ..Case::plain(64, 2, 70) });
    }
}

#[test]
fn row_counts_around_unit_borders() {
    for rows in (0..=10).chain([31, 32, 33, 63, 64, 65, 95, 96, 97, 128, 129, 200]) {
        check(Case { group: 2, ..Case::plain(32, 1, rows) });
    }
}

#[test]
fn several_tokens_are_causal() {
    for n_q in 1..=5 {
        for rows in [0, 1, 3, 33, 66, 130] {
            check(Case { n_q, group: 1 + n_q % 3, ..Case::plain(64, 2, rows) });
        }
    }
}

#[test]
fn more_and_fewer_blocks_than_units() {
    for rows in [1, 31, 100, 513] {
        check_blocks(Case::plain(32, 3, rows), &[1, 2, 5, 17, 64]);
    }
}

#[test]
fn unequal_lanes_with_log_weights() {
    for (weights, n_q) in
        [([None, Some(3.5), Some(9.25)], 1), ([Some(f32::NEG_INFINITY), None, Some(0.5)], 3)]
    {
        for rows in [[700, 41, 1], [1, 0, 65]] {
            let lanes = vec![
                lane(&[3, 0], rows[0], weights[0]),
                lane(&[1, 5, 2], rows[1], weights[1]),
                lane(&[4], rows[2], weights[2]),
            ];
            for (group, ty) in [(1, RowType::F16), (4, RowType::Q8_0)] {
                let case = Case { n_q, group, k_type: ty, lanes: lanes.clone(), ..Case::plain(64, 1, 1) };
                check_blocks(case, &[1, 7]);
            }
        }
    }
}

#[test]
fn alibi_adds_biases_by_distance() {
    for (n_q, group) in [(1, 1), (4, 3)] {
        for rows in [1, 2, 5, 33, 200] {
            check(Case { max_alibi_bias: Some(8.0), n_q, group, ..Case::plain(64, 5, rows) });
        }
    }
    let lanes = vec![lane(&[2, 0], 300, None), lane(&[1], 41, None), lane(&[3], 0, None)];
    check(Case { max_alibi_bias: Some(8.0), n_q: 3, lanes, ..Case::plain(64, 1, 1) });
}

#[test]
fn many_queries_of_every_head_size_in_every_type() {
    for head_dim in [8, 40, 64, 80, 96, 112, 128, 160, 256] {
        for ty in RowType::ALL {
            if head_dim % ty.granule() == 0 {
                let v_type =
                    RowType::ALL[(ty as usize + usize::from(head_dim % 64 == 0)) % RowType::ALL.len()];
                check(Case { group: 2, n_q: 20, k_type: ty, v_type, ..Case::plain(head_dim, 2, 85) });
            }
        }
    }
}

#[test]
fn many_queries_around_tile_borders() {
    for (n_q, group) in [(17, 1), (64, 1), (65, 1), (13, 5), (1, 20)] {
        for rows in [0, 1, 16, 63, 64, 65, 128, 150] {
            check(Case { n_q, group, ..Case::plain(64, 1, rows) });
        }
    }
}

#[test]
fn many_queries_over_unequal_lanes() {
    for weights in [[None, Some(3.5), Some(f32::NEG_INFINITY)], [Some(f32::NEG_INFINITY), None, Some(9.25)]] {
        let lanes =
            vec![lane(&[3, 0], 210, weights[0]), lane(&[1, 2], 41, weights[1]), lane(&[4], 66, weights[2])];
        for n_q in [1, 40] {
            check(Case { n_q, group: 18, lanes: lanes.clone(), ..Case::plain(64, 1, 1) });
        }
    }
    check(Case { max_alibi_bias: Some(8.0), n_q: 21, group: 3, ..Case::plain(64, 5, 130) });
    let lanes = vec![lane(&[2, 0], 150, None), lane(&[1], 41, None), lane(&[3], 0, None)];
    check(Case { max_alibi_bias: Some(8.0), n_q: 30, lanes, ..Case::plain(128, 1, 1) });
}

#[test]
fn many_queries_split_rows() {
    let lanes = |rows: [usize; 3], weights: [Option<f32>; 3]| {
        vec![
            lane(&[3], rows[0], weights[0]),
            lane(&[1, 0], rows[1], weights[1]),
            lane(&[2], rows[2], weights[2]),
        ]
    };
    let weights = [[None; 3], [Some(f32::NEG_INFINITY), None, Some(9.25)], [Some(2.5), Some(-1.0), None]];
    for (number, rows) in [[700, 41, 1], [33, 0, 260], [160, 150, 32]].into_iter().enumerate() {
        // The first tiles of 150 tokens do not see the last rows, so there are splits of which a tile sees no
        // row.
        for (n_q, group) in [(1, 17), (9, 4), (150, 1)] {
            let max_alibi_bias = (number == 0).then_some(16.0);
            let case = Case {
                max_alibi_bias,
                n_q,
                group,
                lanes: lanes(rows, weights[number]),
                ..Case::plain(64, 1, 1)
            };
            let blocks = [2, 3, 11, 40].map(|splits| splitting(&case, splits));
            check_blocks(case, &blocks);
        }
    }
}

/// The weight of each row is below the smallest half, but their sum matters.
#[test]
fn many_queries_add_up_small_weights() {
    let (d, rows, n_q) = (64, 200, 20);
    let data = Data::new(Case { n_q, ..Case::plain(d, 1, rows) }, 9);
    data.with(|call| {
        let lane = call.lanes[0];
        let encode = |first: f32, others: f32, at: usize| {
            let mut bytes = lane.k.data.to_vec();
            for (row, bytes) in bytes.chunks_mut(lane.k.row_stride).enumerate() {
                let mut x = vec![0.0; d];
                x[at] = if row == 0 { first } else { others };
                lane.k.ty.encode(&x, bytes);
            }
            bytes
        };
        // The first row weighs e^19 = 2^27.4 times as much as each other row.
        let (k, v) = (encode(19.0 * 8.0, 0.0, 0), encode(0.0, 30_000.0, 1));
        let q: Vec<f32> = (0..d * n_q).map(|i| if i % d == 0 { 1.0 } else { 0.0 }).collect();
        let lanes =
            [LaneView { k: RowTensor { data: &k, ..lane.k }, v: RowTensor { data: &v, ..lane.v }, ..lane }];
        let call = Attention { lanes: &lanes, q: Queries::contiguous(&q, d, 1), ..*call };
        let want = reference::attend(&call).expect("shapes fit").out;
        for blocks in [1, splitting(&data.case, 4)] {
            for (a, b) in attend(&places()[1], &call, None, blocks).iter().zip(&want) {
                assert!((f64::from(*a) - b).abs() < 1e-2 * b.abs() + 1e-6, "{a}, not {b}");
            }
        }
        assert!(want[1] > 0.02);
    });
}

#[test]
fn huge_logits_do_not_overflow() {
    for key_size in [30.0, 1e3, 1e4] {
        check(Case { key_size, k_type: RowType::F32, group: 2, ..Case::plain(64, 1, 100) });
    }
}

/// Windows, soft caps and sink logits, for few and many queries, with and without splits of the rows.
#[test]
fn windows_soft_caps_and_sink_logits() {
    for is_ordered in [true, false] {
        for (n_q, group) in [(1, 2), (4, 3), (21, 3), (150, 1)] {
            let case = Case { is_ordered, n_q, group, ..Case::plain(64, 2, 160) };
            check(Case { window: Some(40), ..case.clone() });
            check(Case { window: Some(500), softcap: Some(0.7), has_sink_logits: true, ..case });
        }
    }
    for (n_q, group) in [(1, 2), (4, 3), (21, 3), (150, 1)] {
        let lanes = vec![lane(&[3, 0], 210, None), lane(&[1, 2], 41, Some(1.5))];
        let case = Case { n_q, group, lanes, ..Case::plain(64, 1, 1) };
        check(Case { softcap: Some(1.3), ..case.clone() });
        check(Case { has_sink_logits: true, ..case });
    }
}

#[test]
fn nan_in_a_row_reaches_the_output() {
    let data = Data::new(Case { group: 2, ..Case::plain(64, 2, 100) }, 8);
    for place in [&places()[1], &Place::cpu(Form::Portable)] {
        let out = data.with_keys(&data.keys_with_nan(), |call| attend(place, call, None, 4));
        assert!(out[..2 * 64].iter().all(|x| x.is_nan()));
        assert!(out[2 * 64..].iter().all(|x| x.is_finite()));
    }
}

#[test]
fn random_calls() {
    let mut random = Random::new(99);
    for _ in 0..25 {
        let types = RowType::ALL;
        let mut heads: Vec<u32> = (0..1 + random.below(6) as u32).collect();
        for i in 0..heads.len() {
            heads.swap(i, random.below(i + 1));
        }
        let mut lanes = Vec::new();
        while !heads.is_empty() {
            let some = if lanes.len() + 1 == MAX_LANES { heads.len() } else { 1 + random.below(heads.len()) };
            let some: Vec<u32> = heads.drain(..some).collect();
            let weight = (random.below(2) == 0).then_some(random.normal() * 4.0);
            lanes.push(lane(&some, [random.below(20), random.below(150)][random.below(2)], weight));
        }
        let case = Case {
            head_dim: 32 * (1 + random.below(4)),
            group: 1 + random.below(4),
            n_q: 1 + random.below(4),
            k_type: types[random.below(types.len())],
            v_type: types[random.below(types.len())],
            key_size: 1.0,
            max_alibi_bias: [None, None, Some(8.0), Some(5.5)][random.below(4)],
            lanes,
            ..Case::plain(64, 1, 1)
        };
        if case.max_alibi_bias.is_some() && case.lanes.iter().any(|lane| lane.log_weight.is_some()) {
            continue; // lanes with positions are not compensated
        }
        check_blocks(case, &[1 + random.below(9)]);
    }
}

/// All bytes of two lanes and of their positions after a backend has appended some tokens.
fn appended(
    place: &Place,
    types: (RowType, RowType),
    head_dim: usize,
    tokens: usize,
    alibi: bool,
) -> Vec<Vec<u8>> {
    let (memory, heads) = (Context::new(16), [vec![2u32, 0], vec![1, 3, 4]]);
    let (live, capacities) = ([5usize, 0], [5 + tokens, 17 + tokens]);
    let mut random = Random::new(3);
    let q = [head_dim, 5, tokens];
    let (k, v) = (memory.tensor(Type::F32, q), memory.tensor(Type::F32, q));
    let held: Vec<(Tensor, Tensor)> = (heads.iter().zip(capacities))
        .map(|(heads, capacity)| {
            let tensor = |ty| memory.tensor(tensor_type(ty), [head_dim, capacity, heads.len()]);
            (tensor(types.0), tensor(types.1))
        })
        .collect();
    let positions = memory.tensor(Type::I32, [2 * capacities[0] + 3 * capacities[1]]);
    memory.allocate(&place.backend.buffer_type()).expect("memory");
    for tensor in [&k, &v] {
        let mut x: Vec<f32> = (0..head_dim * 5 * tokens).map(|_| random.normal() * 3.0).collect();
        x[..head_dim.min(32)].fill(0.0); // a block of zeros
        x[1] = -0.0;
        tensor.write(0, &x).expect("rows");
    }
    for tensor in held.iter().flat_map(|(k, v)| [k, v]) {
        tensor.write(0, &vec![0x11u8; tensor.bytes()]).expect("bytes");
    }
    positions.write(0, &vec![-1i32; positions.dim(0)]).expect("positions");
    let lanes: Vec<GraphLane> = (held.iter().zip(&heads).enumerate())
        .map(|(number, ((k, v), heads))| GraphLane {
            positions: alibi
                .then(|| RowPositions { all: positions.clone(), first: number * 2 * capacities[0] }),
            ..GraphLane::new(k.clone(), v.clone(), heads.as_slice())
        })
        .collect();
    let ctx = Context::new(300);
    let inputs = lane_inputs(&ctx, tokens);
    let node = place.form.nodes(&ctx, Append { k: &k, v: &v, lanes: &lanes, inputs: &inputs });
    compute(&place.backend, &ctx, &node, || {
        inputs.rows.write(0, &[-1, -1, -1, live[0] as i32, live[1] as i32, 0]).expect("rows");
        if alibi {
            let new: Vec<i32> = (0..tokens as i32).map(|t| 900 + t).collect();
            inputs.positions.write(0, &new).expect("positions");
        }
    });
    bytes_of(&held.iter().flat_map(|(k, v)| [k, v]).chain([&positions]).collect::<Vec<_>>())
}

#[test]
fn appended_bytes_equal_the_cpus() {
    let ([cpu, device], portable) = (places(), Place::cpu(Form::Portable));
    for ty in RowType::ALL {
        for head_dim in [8, 32, 80, 96, 128, 256] {
            if head_dim % ty.granule() == 0 {
                for tokens in [1, 3] {
                    let types = (ty, RowType::ALL[(ty as usize + 1 + usize::from(head_dim % 32 != 0)) % 2]);
                    let alibi = tokens == 3;
                    let want = appended(&cpu, types, head_dim, tokens, alibi);
                    assert!(want.iter().flatten().any(|byte| *byte != 0x11));
                    assert_eq!(appended(&device, types, head_dim, tokens, alibi), want, "{ty:?} {head_dim}");
                    let have = appended(&portable, types, head_dim, tokens, alibi);
                    for (number, (have, want)) in have.iter().zip(&want).enumerate().take(4) {
                        assert_one_step([types.0, types.1][number % 2], head_dim, have, want);
                    }
                    assert!(have[4] == want[4], "positions");
                }
            }
        }
    }
}

/// Blocks with all kinds of scales, and numbers between two steps.
#[test]
fn rounded_blocks_equal_the_cpus() {
    let mut random = Random::new(17);
    let (n, d) = (600, 32);
    let x: Vec<f32> = (0..n * d)
        .map(|i| match i / d % 4 {
            0 => random.normal() * (2f32).powi((i / d) as i32 % 60 - 40),
            1 => (random.below(255) as f32 - 127.0) / 2.0, // multiples of 1/2: ties
            2 => (random.below(17) as f32 - 8.0) * 0.5,
            _ => random.normal() * 1e-41, // below the smallest normal number
        })
        .collect();
    let bytes = |backend: &Backend, ty: RowType| -> Vec<u8> {
        let memory = Context::new(4);
        let k = memory.tensor(Type::F32, [d, 1, n]);
        let [held, values] = [(); 2].map(|()| memory.tensor(tensor_type(ty), [d, n, 1]));
        memory.allocate(&backend.buffer_type()).expect("memory");
        k.write(0, &x).expect("rows");
        held.write(0, &vec![0u8; held.bytes()]).expect("bytes");
        let lane = GraphLane::new(held.clone(), values, [0]);
        let ctx = Context::new(8);
        let inputs = lane_inputs(&ctx, 1);
        let node = OWN.nodes(&ctx, Append { k: &k, v: &k, lanes: &[lane], inputs: &inputs });
        compute(backend, &ctx, &node, || {
            inputs.rows.write(0, &[0; 2 * MAX_LANES]).expect("rows");
        });
        bytes_of(&[&held]).concat()
    };
    let [cpu, device] = backends();
    for ty in RowType::ALL {
        assert_eq!(bytes(&device, ty), bytes(&cpu, ty), "{ty:?}");
    }
}

/// The nearest f16 of ln 98,765 is wrong by 2e-3; a mask of it alone would be seen here.
#[test]
fn portable_compensation_entries_weigh_what_they_stand_for() {
    let weight = 98_765f32.ln();
    for (n_q, has_sink_logits) in [(1, false), (5, false), (3, true)] {
        let lanes = vec![lane(&[0, 1], 300, Some(weight))];
        let case = Case {
            k_type: RowType::F32,
            v_type: RowType::F32,
            group: 3,
            n_q,
            has_sink_logits,
            key_size: 0.1,
            lanes,
            ..Case::plain(64, 1, 1)
        };
        let data = Data::new(case.clone(), 5);
        data.with(|call| compare_portable(&case, call, &reference::attend(call).expect("shapes fit")));
    }
}

/// Sizes of heads that own kernels of devices do not have, and values in the rows of keys.
#[test]
fn portable_attention_of_large_heads() {
    for head_dim in [320, 512, 576] {
        for ty in [RowType::F32, RowType::F16, RowType::Q8_0] {
            let case = Case { group: 4, n_q: 3, k_type: ty, v_type: ty, ..Case::plain(head_dim, 1, 90) };
            let data = Data::new(case.clone(), 5);
            data.with(|call| {
                compare_portable(&case, call, &reference::attend(call).expect("shapes fit"));
                let lanes = [LaneView { v: call.lanes[0].k, ..call.lanes[0] }];
                let latent = Attention { lanes: &lanes, ..*call };
                compare_portable(&case, &latent, &reference::attend(&latent).expect("shapes fit"));
            });
        }
        let plain = Case { group: 2, n_q: 5, ..Case::plain(head_dim, 1, 90) };
        let compensated = vec![lane(&[1, 0], 60, Some(2.5))];
        for case in [Case { window: Some(40), ..plain.clone() }, Case { lanes: compensated, ..plain }] {
            let data = Data::new(case.clone(), 5);
            data.with(|call| compare_portable(&case, call, &reference::attend(call).expect("shapes fit")));
        }
    }
}

/// So many rows, tokens or heads that intermediate tensors would be too large: they are computed in parts.
#[test]
fn portable_attention_in_parts() {
    let plain =
        |heads, rows| Case { k_type: RowType::F32, v_type: RowType::F32, ..Case::plain(8, heads, rows) };
    for case in [
        Case { n_q: 300, ..plain(1, 60_000) },
        Case { n_q: 300, max_alibi_bias: Some(8.0), ..plain(1, 60_000) },
        Case { max_alibi_bias: Some(8.0), ..plain(32, 70_000) },
    ] {
        let data = Data::new(case.clone(), 5);
        data.with(|call| compare_portable(&case, call, &reference::attend(call).expect("shapes fit")));
    }
}

/// Rows behind those that are read, of which a lane has four more, are an error before anything is computed.
#[test]
fn portable_rows_without_room_are_an_error() {
    let place = Place::cpu(Form::Portable);
    let memory = Context::new(4);
    let [k, v] = [(); 2].map(|()| memory.tensor(Type::F16, [64, 12, 1]));
    memory.allocate(&place.backend.buffer_type()).expect("memory");
    let ctx = Context::new(100);
    let inputs = lane_inputs(&ctx, 3);
    let new = ctx.input("new", Type::F32, [64, 1, 3]);
    let lanes = [GraphLane { reach: 8, ..GraphLane::new(k.clone(), v, [0]) }];
    let node = place.form.nodes(&ctx, Append { k: &new, v: &new, lanes: &lanes, inputs: &inputs });
    let mut allocator = GraphAllocator::new(&place.backend.buffer_type());
    let ready = allocator.prepare(ctx.graph(&[&node]).expect("a graph")).expect("memory");
    let run = |live: i32| {
        k.clear().expect("zeros");
        new.write(0, &[1f32; 3 * 64]).expect("rows");
        inputs.rows.write(0, &[0, 0, 0, live, 0, 0]).expect("rows");
        place.backend.compute(&ready)
    };
    for live in [0, 5] {
        run(live).expect("there is room");
    }
    for live in [6, 8, 1000, i32::MAX, -1, i32::MIN] {
        assert!(matches!(run(live), Err(ggml::Error::Row { row, .. }) if row == live), "{live}");
        assert!(bytes_of(&[&k])[0].iter().all(|byte| *byte == 0), "nothing was written");
    }
}
