//! Device kernels that evict and select rows, on a GPU or the emulator. Their bytes must equal the CPU's.
#![cfg(any(feature = "testing", feature = "cuda"))]

use crate::common::{Random, backends, bytes_of, compute, write_rows};
use ggml::{Backend, Context, Tensor, Type};
use kernels::RowType;
use kernels::graph::{self, Eviction, GraphLane, RowSelection, tensor_type};
use kernels::rows::fill_holes;

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
fn evicted(backend: &Backend, types: (RowType, RowType), head_dim: usize, kind: Kind) -> Vec<Vec<u8>> {
    let Kind { compensated, .. } = kind;
    const CAPACITY: usize = 61;
    let mut random = Random::new(head_dim as u64 + 1);
    let memory = Context::new(8);
    let tensor = |ty: RowType| memory.tensor(tensor_type(ty), [head_dim, CAPACITY, HEADS]);
    let (k, v) = (tensor(types.0), tensor(types.1));
    let accumulated = memory.tensor(Type::F32, [CAPACITY, HEADS]);
    let sums = memory.tensor(Type::F32, [head_dim, HEADS, 2]);
    memory.allocate(&backend.buffer_type()).expect("memory");
    write_rows(&mut random, &k, types.0, 0, 60);
    write_rows(&mut random, &v, types.1, 0, 60);
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
        let ctx = Context::new(8);
        let node = graph::evict_rows(&ctx, &lane, compensated.then_some(&sums), eviction);
        compute(backend, &ctx, &node, || ());
        bytes.push(node.to_vec::<u8>().expect("evicted rows"));
    }
    bytes.extend(bytes_of(&[&k, &v, &accumulated, &sums]));
    bytes
}

#[test]
fn evicted_lanes_equal_the_cpus_byte_for_byte() {
    let [cpu, device] = backends();
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

/// A lane filled from complete rows, and its sums.
fn selected(
    backend: &Backend,
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
    memory.allocate(&backend.buffer_type()).expect("memory");
    write_rows(&mut random, &k, types.0, 0, ROWS - 1);
    write_rows(&mut random, &v, types.1, 0, ROWS - 1);
    for tensor in [&to_k, &to_v, &sums] {
        tensor.write(0, &vec![0xffu8; tensor.bytes()]).expect("bytes");
    }
    let lane = GraphLane { compensated, ..kind.lane(&to_k, &to_v) };
    let kept: Vec<Vec<u32>> = (0..HEADS).map(|_| some_of(&mut random, 0, ROWS - 1, kept)).collect();
    let others = |kept: &Vec<u32>| (0..ROWS as u32 - 1).filter(|row| !kept.contains(row)).collect();
    let evicted = kept.iter().map(others).collect();
    let ctx = Context::new(8);
    let sums_taken = compensated.then_some(&sums);
    let node = graph::select_rows(&ctx, (&k, &v), &lane, sums_taken, RowSelection { kept, evicted });
    compute(backend, &ctx, &node, || ());
    bytes_of(&[&to_k, &to_v, &sums])
}

#[test]
fn selected_rows_equal_the_cpus_byte_for_byte() {
    let [cpu, device] = backends();
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
    for backend in backends() {
        for kind in APART {
            let in_keys = Kind { values_in_keys: true, ..kind };
            let (apart, within) = (evicted(&backend, TYPES, 64, kind), evicted(&backend, TYPES, 64, in_keys));
            for (apart, within) in apart.iter().zip(&within).take(2) {
                assert!(apart[..apart.len() / 2] == within[..], "evicted rows are those of keys");
            }
            assert!(apart[2] == within[2], "the keys that stay, compensated: {}", kind.compensated);
            let (apart, within) =
                (selected(&backend, TYPES, 64, 70, kind), selected(&backend, TYPES, 64, 70, in_keys));
            assert!(apart[0] == within[0], "selected keys, compensated: {}", kind.compensated);
        }
    }
}
