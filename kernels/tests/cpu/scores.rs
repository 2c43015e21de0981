//! Accumulated attention and window attention under ALiBi, against the formula in f64.

use std::sync::Arc;

use ggml::{Backend, Context, Tensor, Type};
use kernels::attention::alibi_slopes;
use kernels::graph::{
    AccumulateAttention, AccumulatingLane, Accumulation, Appended, AttentionShape, Combine, Gain, GraphLane,
    MAX_LANES, RowLists, RowPositions, SeenPart, WeightFactors, WindowAttention, WindowQueries,
};

use crate::common::{OWN, Random, compute, lane_inputs};

const SHAPE: AttentionShape = AttentionShape {
    head_dim: 16,
    n_kv_heads: 2,
    group: 3,
    scale: 0.25,
    softcap: None,
    max_alibi_bias: Some(MAX_BIAS),
};
const MAX_BIAS: f32 = 6.5;
const HEADS: usize = SHAPE.n_kv_heads * SHAPE.group;
/// Live rows, in no order. Behind them are the rows of the new tokens.
const LIVE: usize = 20;
const NEW: usize = 3;
const ALL: usize = LIVE + NEW;
const CAPACITY: usize = 30;
/// Tokens seen before the new ones.
const SEEN: usize = 50;

struct Data {
    /// `[n_kv_heads][ALL][head_dim]`
    k: Vec<Vec<Vec<f32>>>,
    /// `[NEW][HEADS][head_dim]`
    q: Vec<Vec<Vec<f32>>>,
    /// `[n_kv_heads][ALL]`
    positions: Vec<Vec<u32>>,
}

impl Data {
    fn new() -> Data {
        let mut random = Random::new(5);
        let mut row = || -> Vec<f32> { (0..SHAPE.head_dim).map(|_| random.normal()).collect() };
        let k = (0..SHAPE.n_kv_heads).map(|_| (0..ALL).map(|_| row()).collect()).collect();
        let q = (0..NEW).map(|_| (0..HEADS).map(|_| row()).collect()).collect();
        let scattered = |head: usize| (0..LIVE).map(move |row| ((row * 7 + 3 * head) % SEEN) as u32);
        let positions = (0..SHAPE.n_kv_heads)
            .map(|head| scattered(head).chain(SEEN as u32..(SEEN + NEW) as u32).collect())
            .collect();
        Data { k, q, positions }
    }

    /// The keys as a tensor `[head_dim, CAPACITY, n_kv_heads]`.
    fn keys(&self, ctx: &Context) -> (Tensor, Vec<f32>) {
        let mut all = vec![f32::NAN; SHAPE.head_dim * CAPACITY * SHAPE.n_kv_heads];
        for (head, rows) in self.k.iter().enumerate() {
            all[head * CAPACITY * SHAPE.head_dim..][..ALL * SHAPE.head_dim].copy_from_slice(&rows.concat());
        }
        (ctx.tensor(Type::F32, [SHAPE.head_dim, CAPACITY, SHAPE.n_kv_heads]), all)
    }

    /// The attention weights of the rows of a query head's KV head, for new token `token`.
    fn weights(&self, token: usize, head: usize, gain: Gain) -> Vec<f64> {
        let kv_head = head / SHAPE.group;
        let (own, slope) = (SEEN + token, alibi_slopes(HEADS, MAX_BIAS)[head]);
        let logit = |row: usize| {
            let position = self.positions[kv_head][row] as usize;
            let dot: f64 = (self.q[token][head].iter().zip(&self.k[kv_head][row]))
                .map(|(q, k)| f64::from(*q) * f64::from(*k))
                .sum();
            let logit = f64::from(SHAPE.scale) * dot + slope * (position as f64 - own as f64);
            if position > own { f64::NEG_INFINITY } else { logit * gain.at(own + 1, SHAPE.head_dim) }
        };
        let weights: Vec<f64> = (0..ALL).map(|row| logit(row).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }
}

fn backend() -> Backend {
    Backend::cpu(2).expect("a backend")
}

fn assert_close(have: &[f32], want: &[f64]) {
    assert_eq!(have.len(), want.len());
    for (row, (have, want)) in have.iter().zip(want).enumerate() {
        assert!((f64::from(*have) - want).abs() < 1e-5, "row {row}: {have}, not {want}");
    }
}

#[test]
fn accumulated_attention_has_alibi_biases() {
    let (data, backend) = (Data::new(), backend());
    let part = |first, from, to, last| Some(SeenPart { first, from, to, last });
    for (gain, queries, combine, part, has_factors) in [
        (Gain::One, NEW, Combine::Sum, None, false),
        (Gain::One, 1, Combine::Sum, None, false),
        (Gain::Entropy { budget: 10 }, 2, Combine::Sum, None, false),
        (Gain::One, NEW, Combine::Max, None, false),
        (Gain::One, NEW, Combine::Max, part(3, 5, LIVE - 3, LIVE - 1), false),
        (Gain::One, NEW, Combine::Max, part(3, 5, LIVE - 3, LIVE - 1), true),
        (Gain::One, 2, Combine::Max, part(0, 0, LIVE, LIVE), true),
        (Gain::One, NEW, Combine::Sum, part(0, 0, 1, LIVE), false),
        (Gain::One, 1, Combine::Max, part(2, 2, LIVE, LIVE), false),
    ] {
        let memory = Context::new(6);
        let (k, keys) = data.keys(&memory);
        let scored = part.map_or(0..1, |part| part.from..part.to);
        let of_rows = memory.tensor(Type::F32, [scored.len(), SHAPE.group, SHAPE.n_kv_heads]);
        let of_tokens = memory.tensor(Type::F32, [queries]);
        let accumulated = memory.tensor(Type::F32, [CAPACITY, SHAPE.n_kv_heads]);
        let positions = memory.tensor(Type::I32, [CAPACITY * SHAPE.n_kv_heads]);
        let q = memory.tensor(Type::F32, [SHAPE.head_dim, HEADS, NEW]);
        memory.allocate(&backend.buffer_type()).expect("memory");
        k.write(0, &keys).expect("keys");
        q.write(0, &data.q.concat().concat()).expect("queries");
        accumulated.clear().expect("numbers");
        let row_factor = |row: usize, head: usize| ((row * 7 + head * 3) % 5) as f32 / 2.0;
        let token_factor = |token: usize| 1.5 - token as f32 / 2.0;
        let of_all: Vec<f32> =
            (0..HEADS).flat_map(|head| scored.clone().map(move |row| row_factor(row, head))).collect();
        of_rows.write(0, &of_all).expect("factors");
        of_tokens.write(0, &(NEW - queries..NEW).map(token_factor).collect::<Vec<f32>>()).expect("factors");
        for (head, held) in data.positions.iter().enumerate() {
            let held: Vec<i32> = held.iter().map(|position| *position as i32).collect();
            positions.write(4 * head * CAPACITY, &held).expect("positions");
        }
        let lane = GraphLane {
            accumulated: Some(accumulated.clone()),
            positions: Some(RowPositions { all: positions, first: 0 }),
            ..GraphLane::new(k.clone(), k, [0, 1])
        };

        let ctx = Context::new(8);
        let inputs = lane_inputs(&ctx, NEW);
        let stored = ctx.input("stored", Type::F32, [1]);
        let how = Accumulation { queries, replace: true, combine, gain, part };
        let heads: Arc<[u32]> = Arc::new([0, 1]);
        let accumulate = AccumulateAttention {
            shape: SHAPE,
            queries: (&q).into(),
            appended: Appended { node: &stored, rows: NEW },
            to: AccumulatingLane { lane: &lane, accumulated: &accumulated, number: 0, heads },
            inputs: &inputs,
            how,
            factors: has_factors.then_some(WeightFactors { rows: &of_rows, tokens: &of_tokens }),
        };
        let node = OWN.nodes(&ctx, accumulate);
        compute(&backend, &ctx, &node, || {
            inputs.rows.write(0, &[-1, -1, -1, LIVE as i32, 0, 0]).expect("rows");
            inputs.log_weights.write(0, &[f32::NEG_INFINITY; 2 * MAX_LANES]).expect("weights");
            inputs.positions.write(0, &[SEEN as i32, SEEN as i32 + 1, SEEN as i32 + 2]).expect("positions");
        });

        let have: Vec<f32> = accumulated.to_vec().expect("numbers");
        for kv_head in 0..SHAPE.n_kv_heads {
            let mut want = vec![0.0; ALL];
            for (token, member) in
                (NEW - queries..NEW).flat_map(|token| (0..SHAPE.group).map(move |member| (token, member)))
            {
                let head = kv_head * SHAPE.group + member;
                let weights = data.weights(token, head, gain);
                let mut weights = part.map_or(weights.clone(), |part| of_part(weights, part));
                for (row, weight) in weights.iter_mut().enumerate().filter(|_| has_factors) {
                    *weight *= f64::from(row_factor(row, head) * token_factor(token));
                }
                want.iter_mut().zip(weights).for_each(|(number, x)| match combine {
                    Combine::Sum => *number += x / SHAPE.group as f64,
                    Combine::Max => *number = number.max(x),
                });
            }
            assert_close(&have[kv_head * CAPACITY..][..ALL], &want);
        }
    }
}

/// The weights of a part's rows, in a softmax without the rows that are not seen.
fn of_part(weights: Vec<f64>, part: SeenPart) -> Vec<f64> {
    let scored = part.from..part.to;
    let is_seen = |row: usize| row < part.first || scored.contains(&row) || row >= part.last;
    let seen: f64 = (0..ALL).filter(|row| is_seen(*row)).map(|row| weights[row]).sum();
    (0..ALL).map(|row| if scored.contains(&row) { weights[row] / seen } else { 0.0 }).collect()
}

#[test]
fn window_attention_has_alibi_biases() {
    const RING: usize = 4;
    let (data, backend) = (Data::new(), backend());
    for gain in [Gain::One, Gain::Entropy { budget: 10 }] {
        let memory = Context::new(2);
        let (k, keys) = data.keys(&memory);
        let ring = memory.tensor(Type::F32, [SHAPE.head_dim, HEADS, RING]);
        memory.allocate(&backend.buffer_type()).expect("memory");
        k.write(0, &keys).expect("keys");
        for (token, q) in data.q.iter().enumerate() {
            let slot = (SEEN + token) % RING;
            ring.write(4 * slot * SHAPE.head_dim * HEADS, &q.concat()).expect("queries");
        }
        let ctx = Context::new(3);
        let rows = data.positions.iter().cloned().map(Arc::new).collect();
        let window = WindowQueries {
            positions: SEEN..SEEN + NEW,
            gain,
            kv_heads: vec![0, 1],
            first: 0,
            log_weight: 0.0,
            sink_logits: None,
        };
        let positions = RowLists { heads: vec![0, 1], rows };
        let node = OWN.nodes(&ctx, WindowAttention { shape: SHAPE, k: &k, ring: &ring, positions, window });
        compute(&backend, &ctx, &node, || ());
        let have: Vec<f32> = node.to_vec().expect("numbers");
        for head in 0..HEADS {
            let mut want = vec![0.0; ALL];
            for token in 0..NEW {
                want.iter_mut().zip(data.weights(token, head, gain)).for_each(|(sum, x)| *sum += x);
            }
            assert_close(&have[head * ALL..][..ALL], &want);
        }
    }
}
