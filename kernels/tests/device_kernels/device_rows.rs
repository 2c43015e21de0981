//! Operations that evict and select rows: those of device kernels, on a GPU or the emulator, whose bytes must equal the
//! CPU's, and the portable ones.

use crate::common::{OWN, Place, Random, assert_one_step, bytes_of, compute, places, write_rows};
use ggml::{Context, Tensor, Type};
use kernels::graph::{EvictRows, Eviction, GraphLane, RowSelection, SelectRows, tensor_type};
use kernels::portable::moves_rows;
use kernels::rows::fill_holes;
use kernels::{Form, RowType};

const HEADS: usize = 3;

/// `count` random numbers from `skip` to below `n`, ascending.
fn some_of(random: &mut Random, skip: usize, n: usize, count: usize) -> Vec<u32> {
    let mut all: Vec<u32> = (skip as u32..n as u32).collect();
    while all.len() > count {
        all.remove(random.below(all.len()));
    }
    all
}

/// Of what kind a lane is.
#[derive(Clone, Copy)]
struct Kind {
    compensated: bool,
    values_in_keys: bool,
}

impl Kind {
    /// A lane of heads of the model, not compensated.
    fn lane(self, k: &Tensor, v: &Tensor) -> GraphLane {
        let v = if self.values_in_keys { k } else { v };
        GraphLane::new(k.clone(), v.clone(), [4, 0, 2])
    }
}

/// Lanes whose keys and values are apart.
const APART: [Kind; 2] =
    [Kind { compensated: false, values_in_keys: false }, Kind { compensated: true, values_in_keys: false }];

/// The evicted rows of two evictions, and afterwards the keys, the values unless they are in the keys, the accumulated
/// attention and the sums.
fn evicted(place: &Place, types: (RowType, RowType), head_dim: usize, kind: Kind) -> Vec<Vec<u8>> {
    let Kind { compensated, .. } = kind;
    const CAPACITY: usize = 61;
    let mut random = Random::new(head_dim as u64 + 1);
    let memory = Context::new(8);
    let tensor = |ty: RowType| memory.tensor(tensor_type(ty), [head_dim, CAPACITY, HEADS]);
    let (k, v) = (tensor(types.0), tensor(types.1));
    let accumulated = memory.tensor(Type::F32, [CAPACITY, HEADS]);
    let sums = memory.tensor(Type::F32, [head_dim, HEADS, 2]);
    memory.allocate(&place.backend.buffer_type()).expect("memory");
    write_rows(&mut random, place.behind, &k, types.0, 0, 60);
    write_rows(&mut random, place.behind, &v, types.1, 0, 60);
    let attention: Vec<f32> = (0..CAPACITY * HEADS).map(|_| random.normal()).collect();
    accumulated.write(0, &attention).expect("numbers");
    let before: Vec<f32> = (0..head_dim * HEADS * 2).map(|_| random.normal()).collect();
    sums.write(0, &before).expect("sums");
    let lane = GraphLane {
        compensated,
        accumulated: (!compensated).then(|| accumulated.clone()),
        ..kind.lane(&k, &v)
    };
    let mut bytes = Vec::new();
    for (live, count) in [(60, 25), (35, 1)] {
        let evicted: Vec<Vec<u32>> =
            (0..HEADS).map(|_| some_of(&mut random, usize::from(compensated), live, count)).collect();
        let moves = evicted.iter().map(|rows| fill_holes(rows, live)).collect();
        let eviction = Eviction { evicted, moves, total_evicted: 25 + count, return_rows: true };
        let ctx = Context::new(300);
        let sums = compensated.then_some(&sums);
        let node = place.form.nodes(&ctx, EvictRows { lane: &lane, sums, eviction });
        compute(&place.backend, &ctx, &node, || ());
        bytes.push(node.to_vec::<u8>().expect("evicted rows"));
    }
    bytes.extend(bytes_of(&[&k, &v, &accumulated, &sums]));
    bytes
}

#[test]
fn evicted_lanes_equal_the_cpus_byte_for_byte() {
    let [cpu, device] = places();
    for ty in RowType::ALL {
        for head_dim in [8, 64, 80, 96, 128, 256] {
            if head_dim % ty.granule() != 0 {
                continue;
            }
            let types = (ty, RowType::F16);
            for kind in APART {
                let want = evicted(&cpu, types, head_dim, kind);
                let have = evicted(&device, types, head_dim, kind);
                assert!(have == want, "{ty:?} {head_dim} {}", kind.compensated);
                assert!(evicted(&device, types, head_dim, kind) == want, "second run");
            }
        }
    }
}

/// Rows `[head_dim, capacity, heads]` of two lanes are the same, but for one step in the first of each head.
#[track_caller]
fn assert_entry_alike(ty: RowType, head_dim: usize, have: &[u8], want: &[u8]) {
    let (row, head) = (ty.row_bytes(head_dim), want.len() / HEADS);
    for (have, want) in have.chunks_exact(head).zip(want.chunks_exact(head)) {
        assert!(have[row..] == want[row..], "{ty:?} {head_dim}: other rows than the entry");
        assert_one_step(ty, head_dim, &have[..row], &want[..row]);
    }
}

/// Rows are moved as they are. Sums are rounded to f32 once more, so that a mean may be rounded to the other side.
#[test]
fn portably_evicted_lanes_equal_the_cpus() {
    let [own, portable] = [OWN, Form::Portable].map(Place::cpu);
    for ty in RowType::ALL {
        for head_dim in [8, 64, 80, 96, 128, 256, 576] {
            if head_dim % ty.granule() != 0 || !moves_rows(tensor_type(ty), head_dim) {
                continue;
            }
            let types = [ty, RowType::F16];
            for kind in APART {
                let want = evicted(&own, types.into(), head_dim, kind);
                let have = evicted(&portable, types.into(), head_dim, kind);
                if !kind.compensated {
                    assert!(have == want, "{ty:?} {head_dim}");
                    continue;
                }
                for same in [0, 1, 4] {
                    assert!(have[same] == want[same], "{ty:?} {head_dim}: {same}");
                }
                for (number, ty) in types.into_iter().enumerate() {
                    assert_entry_alike(ty, head_dim, &have[2 + number], &want[2 + number]);
                }
                assert_one_step(RowType::F32, head_dim, &have[5], &want[5]);
            }
        }
    }
}

/// A lane filled from complete rows, and its sums.
fn selected(
    place: &Place,
    types: (RowType, RowType),
    head_dim: usize,
    kept: usize,
    kind: Kind,
) -> Vec<Vec<u8>> {
    const ROWS: usize = 200;
    let Kind { compensated, .. } = kind;
    let mut random = Random::new(head_dim as u64 + 7);
    let memory = Context::new(8);
    let complete = |ty: RowType| memory.tensor(tensor_type(ty), [head_dim, ROWS, 5]);
    let own = |ty: RowType| memory.tensor(tensor_type(ty), [head_dim, kept + 3, HEADS]);
    let (k, v, to_k, to_v) = (complete(types.0), complete(types.1), own(types.0), own(types.1));
    let sums = memory.tensor(Type::F32, [head_dim, HEADS, 2]);
    memory.allocate(&place.backend.buffer_type()).expect("memory");
    write_rows(&mut random, place.behind, &k, types.0, 0, ROWS - 1);
    write_rows(&mut random, place.behind, &v, types.1, 0, ROWS - 1);
    for tensor in [&to_k, &to_v, &sums] {
        tensor.write(0, &vec![0xffu8; tensor.bytes()]).expect("bytes");
    }
    let lane = GraphLane { compensated, ..kind.lane(&to_k, &to_v) };
    let kept: Vec<Vec<u32>> = (0..HEADS).map(|_| some_of(&mut random, 0, ROWS - 1, kept)).collect();
    let others = |kept: &Vec<u32>| (0..ROWS as u32 - 1).filter(|row| !kept.contains(row)).collect();
    let evicted = kept.iter().map(others).collect();
    let ctx = Context::new(300);
    let select = SelectRows {
        k: &k,
        v: &v,
        lane: &lane,
        sums: compensated.then_some(&sums),
        selection: RowSelection { kept, evicted },
    };
    let node = place.form.nodes(&ctx, select);
    compute(&place.backend, &ctx, &node, || ());
    bytes_of(&[&to_k, &to_v, &sums])
}

#[test]
fn selected_rows_equal_the_cpus_byte_for_byte() {
    let [cpu, device] = places();
    for ty in RowType::ALL {
        for (head_dim, kept) in [(8, 70), (64, 65), (80, 1), (96, 130), (128, 64), (256, 10)] {
            if head_dim % ty.granule() != 0 {
                continue;
            }
            let types = (RowType::F32, ty);
            for kind in APART {
                let want = selected(&cpu, types, head_dim, kept, kind);
                let have = selected(&device, types, head_dim, kept, kind);
                assert!(have == want, "{ty:?} {head_dim} {}", kind.compensated);
                assert!(selected(&device, types, head_dim, kept, kind) == want, "second run");
            }
        }
    }
}

/// Latent attention: the keys become what they become where values are apart.
#[test]
fn values_in_keys_change_nothing_of_keys() {
    const TYPES: (RowType, RowType) = (RowType::F16, RowType::F16);
    for place in places().iter().chain([&Place::cpu(Form::Portable)]) {
        for kind in APART {
            let in_keys = Kind { values_in_keys: true, ..kind };
            let (apart, within) = (evicted(place, TYPES, 64, kind), evicted(place, TYPES, 64, in_keys));
            for (apart, within) in apart.iter().zip(&within).take(2) {
                assert!(apart[..apart.len() / 2] == within[..], "evicted rows are those of keys");
            }
            assert!(apart[2] == within[2], "the keys that stay, compensated: {}", kind.compensated);
            let (apart, within) =
                (selected(place, TYPES, 64, 70, kind), selected(place, TYPES, 64, 70, in_keys));
            assert!(apart[0] == within[0], "selected keys, compensated: {}", kind.compensated);
        }
    }
}

#[test]
fn portably_selected_rows_equal_the_cpus() {
    let [own, portable] = [OWN, Form::Portable].map(Place::cpu);
    for ty in RowType::ALL {
        for (head_dim, kept) in [(8, 70), (64, 65), (80, 1), (96, 130), (128, 64), (576, 10)] {
            if head_dim % ty.granule() != 0 || !moves_rows(tensor_type(ty), head_dim) {
                continue;
            }
            let types = [RowType::F32, ty];
            for kind in APART {
                let want = selected(&own, types.into(), head_dim, kept, kind);
                let have = selected(&portable, types.into(), head_dim, kept, kind);
                for (number, ty) in types.into_iter().enumerate() {
                    if kind.compensated {
                        assert_entry_alike(ty, head_dim, &have[number], &want[number]);
                    } else {
                        assert!(have[number] == want[number], "{ty:?} {head_dim}");
                    }
                }
                if kind.compensated {
                    assert_one_step(RowType::F32, head_dim, &have[2], &want[2]);
                }
            }
        }
    }
}

/// Half a word cannot be moved: the graph says which rows can.
#[test]
fn rows_of_half_words_are_not_moved() {
    let memory = Context::new(4);
    let k = memory.tensor(tensor_type(RowType::Q8_0), [96, 10, 1]);
    memory.allocate(&Place::cpu(Form::Portable).backend.buffer_type()).expect("memory");
    let lane = GraphLane::new(k.clone(), k, [0]);
    let ctx = Context::new(100);
    let eviction =
        Eviction { evicted: vec![vec![1]], moves: vec![vec![(1, 9)]], total_evicted: 1, return_rows: false };
    let node = Form::Portable.nodes(&ctx, EvictRows { lane: &lane, sums: None, eviction });
    let error = ctx.graph(&[&node]).err().expect("refused").to_string();
    assert!(error.contains("rows of 96 elements in q8_0 have 102 bytes") && error.contains("f16"), "{error}");
}
