//! Predicted scores of random rows, compared with the formula in f64.

use ggml::{Context, Type};
use kernels::graph::{AccumulatingLane, GraphLane, MAX_LANES, PredictScores, predictor_len};
use kernels::predict::MIN_NORM_SQUARED;

use super::{Place, Random, compute, lane_inputs};

/// KV heads of the model.
const KV_HEADS: usize = 5;
/// The KV heads of the lane.
const OF_LANE: [u32; 4] = [4, 0, 3, 1];
/// Numbers of a row in memory before its key, and between its key and its value.
const GAP: usize = 3;

#[derive(Clone, Copy, Debug)]
pub struct PredictCase {
    d_k: usize,
    d_v: usize,
    /// The heads of the lane that get scores.
    heads: &'static [u32],
    tokens: usize,
    live: usize,
    /// The lane's number in its layer.
    number: usize,
    /// The size of the elements' means. Their deviation is 1.
    mean: f32,
    /// Whether keys and values are views of one tensor.
    is_strided: bool,
}

impl PredictCase {
    pub fn all() -> Vec<PredictCase> {
        let plain = PredictCase {
            d_k: 64,
            d_v: 64,
            heads: &[0, 1, 2, 3],
            tokens: 37,
            live: 0,
            number: 0,
            mean: 1.0,
            is_strided: false,
        };
        vec![
            plain,
            PredictCase { tokens: 1, live: 100, ..plain },
            PredictCase { d_k: 128, d_v: 128, heads: &[3, 0, 2], live: 20, number: 1, ..plain },
            PredictCase { d_k: 80, d_v: 96, heads: &[1], number: 2, is_strided: true, ..plain },
            PredictCase { d_k: 96, d_v: 80, heads: &[2, 3], tokens: 1, number: 1, is_strided: true, ..plain },
            PredictCase { d_k: 192, d_v: 128, mean: 300.0, live: 7, is_strided: true, ..plain },
            PredictCase { d_k: 128, d_v: 128, mean: 300.0, ..plain },
            PredictCase { d_k: 7, d_v: 1, heads: &[3, 1], mean: 0.0, live: 3, ..plain },
        ]
    }
}

/// The numbers of a lane after the scores were written: `[capacity, heads]`. They are compared with the formula; those of
/// other rows and heads must be as before.
#[track_caller]
pub fn predicted(place: &Place, case: PredictCase) -> Vec<f32> {
    let PredictCase { d_k, d_v, heads, tokens, live, number, .. } = case;
    // In some cases the last row is also that of the memory.
    let capacity = live + tokens + case.live % 3;
    let mut random = Random::new((d_k + d_v + tokens) as u64);
    let maps: Vec<Vec<f32>> = (0..KV_HEADS).map(|_| random_map(&mut random, case)).collect();
    let rows = Rows::new(&mut random, case, &maps);

    let memory = Context::new(6);
    let [k, v] = [d_k, d_v].map(|d| memory.tensor(Type::F32, [d, KV_HEADS, tokens]));
    let both = memory.tensor(Type::F32, [2 * GAP + d_k + d_v, KV_HEADS + 1, tokens]);
    let of_maps = memory.tensor(Type::F32, [predictor_len(d_k, d_v), KV_HEADS]);
    // Longer rows than those of keys and values. Nothing reads them.
    let lane_rows = memory.tensor(Type::F16, [256, capacity, OF_LANE.len()]);
    let accumulated = memory.tensor(Type::F32, [capacity, OF_LANE.len()]);
    memory.allocate(&place.backend.buffer_type()).expect("memory");
    k.write(0, &rows.k.concat()).expect("keys");
    v.write(0, &rows.v.concat()).expect("values");
    both.write(0, &rows.with_gaps(case)).expect("rows");
    of_maps.write(0, &maps.concat()).expect("maps");
    let before: Vec<f32> = (0..capacity * OF_LANE.len()).map(|i| i as f32 - 7.5).collect();
    accumulated.write(0, &before).expect("numbers");
    let lane = GraphLane::new(lane_rows.clone(), lane_rows, OF_LANE);

    // Five more for the inputs and the views of keys and values.
    let ctx = Context::new(place.form.max_tensors(&lane, 1, tokens) + 5);
    let inputs = lane_inputs(&ctx, tokens);
    let [_, row, token, _] = both.strides();
    let view = |d: usize, first: usize| {
        ctx.view(&both, [d, KV_HEADS, tokens], [row, token, token * tokens], 4 * first)
    };
    let (k, v) = if case.is_strided { (view(d_k, GAP), view(d_v, 2 * GAP + d_k)) } else { (k, v) };
    let to = AccumulatingLane { lane: &lane, accumulated: &accumulated, number, heads: heads.into() };
    let predict = PredictScores { k: &k, v: &v, maps: &of_maps, to, inputs: &inputs };
    let node = place.form.nodes(&ctx, predict);
    compute(&place.backend, &ctx, &node, || {
        let mut rows = [-1; 2 * MAX_LANES];
        rows[MAX_LANES + number] = live as i32;
        inputs.rows.write(0, &rows).expect("rows");
    });

    let have: Vec<f32> = accumulated.to_vec().expect("numbers");
    for (at, (have, before)) in have.iter().zip(&before).enumerate() {
        let (head, row) = (at / capacity, at % capacity);
        if !heads.contains(&(head as u32)) || !(live..live + tokens).contains(&row) {
            assert_eq!(have, before, "{case:?}: row {row} of head {head}");
            continue;
        }
        let (kv_head, token) = (OF_LANE[head] as usize, row - live);
        let row_at = token * KV_HEADS + kv_head;
        let (want, size) = formula(&rows.k[row_at], &rows.v[row_at], &maps[kv_head]);
        let error = (f64::from(*have) - want).abs();
        // Twice what was measured, with any mean.
        assert!(error <= 2.2e-7 * size, "{case:?}: token {token} of head {head}: {have}, not {want}");
    }
    have
}

/// Means, weights of a size that the products do not outweigh the logarithms, weights of squares and the other numbers.
fn random_map(random: &mut Random, PredictCase { d_k, d_v, mean, .. }: PredictCase) -> Vec<f32> {
    let d = d_k + d_v;
    let means = (0..d).map(|i| if i % 3 == 0 { -mean } else { mean });
    let sizes = [(d, 0.5), (d, 0.1), (d, 0.05), (5, 1.0)];
    let numbers = sizes.iter().flat_map(|(n, size)| std::iter::repeat_n(size, *n));
    let means = means.chain(std::iter::repeat(0.0));
    means.zip(numbers).map(|(mean, size)| mean + size * random.normal()).collect()
}

/// Keys and values, token after token, those of all KV heads.
struct Rows {
    k: Vec<Vec<f32>>,
    v: Vec<Vec<f32>>,
}

impl Rows {
    /// Random ones. The key and value of the first of many tokens are 0, those of the last are at their means.
    fn new(
        random: &mut Random,
        PredictCase { d_k, d_v, tokens, .. }: PredictCase,
        maps: &[Vec<f32>],
    ) -> Rows {
        let (mut k, mut v) = (Vec::new(), Vec::new());
        for token in 0..tokens {
            for map in maps {
                let mut row: Vec<f32> = map[..d_k + d_v].iter().map(|mean| mean + random.normal()).collect();
                if tokens > 1 && token == 0 {
                    row.fill(0.0);
                } else if tokens > 1 && token == tokens - 1 {
                    row.copy_from_slice(&map[..d_k + d_v]);
                }
                v.push(row.split_off(d_k));
                k.push(row);
            }
        }
        Rows { k, v }
    }

    /// Keys and values in one tensor, with numbers around them and a head more that must not be read.
    fn with_gaps(&self, PredictCase { d_k, d_v, tokens, .. }: PredictCase) -> Vec<f32> {
        let of_row = 2 * GAP + d_k + d_v;
        let mut all = vec![f32::NAN; of_row * (KV_HEADS + 1) * tokens];
        for (at, (k, v)) in self.k.iter().zip(&self.v).enumerate() {
            let first = (at / KV_HEADS * (KV_HEADS + 1) + at % KV_HEADS) * of_row + GAP;
            all[first..first + d_k].copy_from_slice(k);
            all[first + d_k + GAP..][..d_v].copy_from_slice(v);
        }
        all
    }
}

/// The score of a row, and the sum of the sizes of all its summands, which errors grow with.
fn formula(k: &[f32], v: &[f32], map: &[f32]) -> (f64, f64) {
    let map: Vec<f64> = map.iter().map(|number| f64::from(*number)).collect();
    let d = k.len() + v.len();
    let x: Vec<f64> = k.iter().chain(v).map(|x| f64::from(*x)).collect();
    let numbers = &map[3 * d..];
    let (mut score, mut size) = (numbers[0], numbers[0].abs());
    for i in 0..d {
        let centred = x[i] - map[i];
        score += (map[d + i] + map[2 * d + i] * centred) * centred;
        size += (map[d + i] * centred).abs() + (map[2 * d + i] * centred * centred).abs();
    }
    for (part, weights) in [(0..k.len(), &numbers[1..3]), (k.len()..d, &numbers[3..5])] {
        let norm: f64 = part.clone().map(|i| x[i] * x[i]).sum();
        let centred: f64 = part.map(|i| (x[i] - map[i]).powi(2)).sum();
        for (weight, squared_norm) in weights.iter().zip([norm, centred]) {
            let logarithm = squared_norm.max(f64::from(MIN_NORM_SQUARED)).ln();
            score += weight * logarithm;
            size += weight.abs() * (1.0 + logarithm.abs());
        }
    }
    (score, size)
}
