//! The numbers that policies score by, of device kernels on a GPU or the emulator and of portable operations, against the CPU:
//! accumulated attention, window attention, stored queries and measured rows. Predicted scores are compared with the formula.

use std::sync::Arc;

use crate::common::predicted::{PredictCase, predicted};
use crate::common::{OWN, Place, Random, bits, compute, lane_inputs, places, write_rows};
use ggml::{Context, Tensor, Type};
use kernels::graph::{
    AccumulateAttention, AccumulatingLane, Accumulation, Appended, AttentionShape, Combine, Gain, GraphLane,
    MAX_LANES, MeasureRows, QueryHeads, RowLists, RowPositions, SeenPart, StoreQueries, WeightFactors,
    WindowAttention, WindowQueries, tensor_type,
};
use kernels::measure::Measure;
use kernels::{Form, RowType};

/// The shape of a layer with three KV heads.
fn shape(head_dim: usize, group: usize) -> AttentionShape {
    AttentionShape { scale: 0.125, ..AttentionShape::plain(3 * group, 3, head_dim) }
}

fn capped(head_dim: usize, group: usize) -> AttentionShape {
    AttentionShape { softcap: Some(0.7), ..shape(head_dim, group) }
}

fn with_alibi(head_dim: usize, group: usize) -> AttentionShape {
    AttentionShape { max_alibi_bias: Some(8.5), ..shape(head_dim, group) }
}

/// A sink logit for each query head, in memory that the caller allocates.
struct SinkLogits(Tensor);

impl SinkLogits {
    fn new(memory: &Context, shape: AttentionShape) -> SinkLogits {
        SinkLogits(memory.tensor(Type::F32, [shape.n_kv_heads * shape.group]))
    }

    /// Writes them, and returns them if the case has any.
    fn write(&self, has_sink_logits: bool) -> Option<&Tensor> {
        let logits: Vec<f32> = (0..self.0.dim(0)).map(|head| head as f32 - 2.0).collect();
        self.0.write(0, &logits).expect("sink logits");
        has_sink_logits.then_some(&self.0)
    }
}

fn normal(random: &mut Random, n: usize) -> Vec<f32> {
    (0..n).map(|_| random.normal()).collect()
}

#[track_caller]
fn assert_close(have: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(have.len(), want.len());
    for (i, (have, want)) in have.iter().zip(want).enumerate() {
        let same = have.to_bits() == want.to_bits();
        assert!(same || (have - want).abs() <= tolerance * want.abs().max(1e-3), "[{i}]: {have}, not {want}");
    }
}

/// Compares with the largest number.
#[track_caller]
fn assert_near(what: &str, have: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(have.len(), want.len(), "{what}");
    let largest = want.iter().fold(0f32, |most, x| most.max(x.abs()));
    let worst = have.iter().zip(want).map(|(have, want)| (have - want).abs()).fold(0f32, f32::max);
    assert!(have.iter().all(|x| x.is_finite()), "{what}: {have:?}");
    assert!(worst <= tolerance * largest, "{what}: differs by {worst:e} of {largest:e}");
}

/// Twice what was measured of ggml's products on the CPU, which round queries to the precision of the keys: 8 bits where
/// these are quantised.
fn portable_tolerance(ty: RowType) -> f32 {
    match ty {
        RowType::F32 => 5e-7,
        RowType::F16 => 4e-4,
        _ => 2e-2,
    }
}

#[derive(Clone, Copy, Debug)]
struct AccumulationCase {
    shape: AttentionShape,
    ty: RowType,
    live: usize,
    new: usize,
    queries: usize,
    replace: bool,
    combine: Combine,
    gain: Gain,
    /// `None`: not compensated.
    log_weight: Option<f32>,
    has_sink_logits: bool,
    part: Option<SeenPart>,
    has_factors: bool,
}

/// The accumulated attention of a lane with all KV heads except the first. The last head does not accumulate.
fn accumulated(place: &Place, case: AccumulationCase) -> Vec<f32> {
    let AccumulationCase { shape, ty, live, new, .. } = case;
    let (d, heads, capacity, seen) = (shape.head_dim, shape.n_kv_heads - 1, live + new + 9, 300);
    let mut random = Random::new(31);
    let memory = Context::new(10);
    let k = memory.tensor(tensor_type(ty), [d, capacity, heads]);
    let accumulated = memory.tensor(Type::F32, [capacity, heads]);
    let positions = memory.tensor(Type::I32, [7 + capacity * heads]);
    let q = memory.tensor(Type::F32, [d, shape.n_kv_heads * shape.group, new]);
    let sink_logits = SinkLogits::new(&memory, shape);
    let scored = case.part.map_or(1, |part| part.to - part.from);
    let of_rows = memory.tensor(Type::F32, [scored, shape.group, heads]);
    let of_tokens = memory.tensor(Type::F32, [case.queries]);
    memory.allocate(&place.backend.buffer_type()).expect("memory");
    let sink_logits = sink_logits.write(case.has_sink_logits);
    let unused = case.log_weight == Some(f32::NEG_INFINITY);
    write_rows(&mut random, place.behind, &k, ty, usize::from(unused), live + new);
    q.write(0, &normal(&mut random, q.bytes() / 4)).expect("queries");
    for (seed, factors) in [(5, &of_rows), (3, &of_tokens)] {
        let numbers = (0..factors.bytes() / 4).map(|i| (i * seed % 11) as f32 / 4.0);
        factors.write(0, &numbers.collect::<Vec<f32>>()).expect("factors");
    }
    let before: Vec<f32> = (0..capacity * heads).map(|i| (i % 13) as f32 / 8.0).collect();
    accumulated.write(0, &before).expect("numbers");
    for head in 0..heads {
        let held: Vec<i32> = (0..live).map(|row| (row * 7 + head) as i32 % seen).collect();
        let held: Vec<i32> = held.into_iter().chain((0..new).map(|t| seen + t as i32)).collect();
        positions.write(4 * (7 + head * capacity), &held).expect("positions");
    }
    let lane = GraphLane {
        compensated: case.log_weight.is_some(),
        accumulated: Some(accumulated.clone()),
        positions: shape.max_alibi_bias.map(|_| RowPositions { all: positions, first: 7 }),
        ..GraphLane::new(k.clone(), k, (1..shape.n_kv_heads as u32).collect::<Vec<_>>())
    };
    let ctx = Context::new(300);
    let inputs = lane_inputs(&ctx, new);
    let stored = ctx.input("stored", Type::F32, [1]);
    let AccumulationCase { queries, replace, combine, gain, part, .. } = case;
    let how = Accumulation { queries, replace, combine, gain, part };
    let accumulating: Arc<[u32]> = (0..(heads as u32 - 1).max(1)).collect();
    let accumulate = AccumulateAttention {
        shape,
        queries: QueryHeads { q: &q, sink_logits },
        appended: Appended { node: &stored, rows: new },
        to: AccumulatingLane { lane: &lane, accumulated: &accumulated, number: 1, heads: accumulating },
        inputs: &inputs,
        how,
        factors: case.has_factors.then_some(WeightFactors { rows: &of_rows, tokens: &of_tokens }),
    };
    let node = place.form.nodes(&ctx, accumulate);
    compute(&place.backend, &ctx, &node, || {
        inputs.rows.write(0, &[-1, -1, -1, -1, live as i32, -1]).expect("rows");
        let mut weights = [f32::NAN; 2 * MAX_LANES];
        weights[MAX_LANES + 1] = case.log_weight.unwrap_or(f32::NAN);
        inputs.log_weights.write(0, &weights).expect("weights");
        let tokens: Vec<i32> = (0..new as i32).map(|t| seen + t).collect();
        inputs.positions.write(0, &tokens).expect("positions");
    });
    accumulated.to_vec().expect("numbers")
}

#[test]
fn accumulated_attention_equals_the_cpus() {
    let [cpu, device] = places();
    let plain = AccumulationCase {
        shape: shape(64, 2),
        ty: RowType::F16,
        live: 100,
        new: 1,
        queries: 1,
        replace: false,
        combine: Combine::Sum,
        gain: Gain::One,
        log_weight: None,
        has_sink_logits: false,
        part: None,
        has_factors: false,
    };
    let part = |first, from, to, last| Some(SeenPart { first, from, to, last });
    let cases = [
        plain,
        AccumulationCase { combine: Combine::Max, ..plain },
        AccumulationCase {
            combine: Combine::Max,
            shape: shape(80, 3),
            ty: RowType::F32,
            new: 9,
            queries: 9,
            ..plain
        },
        AccumulationCase { replace: true, ..plain },
        AccumulationCase { shape: shape(128, 1), ty: RowType::Q8_0, live: 300, ..plain },
        AccumulationCase { shape: shape(80, 3), ty: RowType::F32, new: 9, queries: 7, ..plain },
        AccumulationCase {
            shape: shape(96, 8),
            ty: RowType::Q4_0,
            new: 3,
            queries: 3,
            replace: true,
            ..plain
        },
        AccumulationCase { shape: shape(256, 2), live: 0, new: 5, queries: 5, ..plain },
        AccumulationCase { log_weight: Some(2.5), ..plain },
        AccumulationCase { log_weight: Some(f32::NEG_INFINITY), ..plain },
        AccumulationCase { log_weight: Some(f32::NEG_INFINITY), live: 1, queries: 4, new: 4, ..plain },
        AccumulationCase { shape: with_alibi(64, 2), new: 4, queries: 3, ..plain },
        AccumulationCase { part: part(4, 33, 90, 100), combine: Combine::Max, new: 9, queries: 9, ..plain },
        AccumulationCase {
            part: part(4, 33, 90, 100),
            combine: Combine::Max,
            shape: shape(64, 3),
            new: 9,
            queries: 7,
            has_factors: true,
            ..plain
        },
        AccumulationCase {
            part: part(0, 0, 100, 100),
            combine: Combine::Max,
            shape: with_alibi(80, 2),
            ty: RowType::F32,
            new: 12,
            queries: 12,
            replace: true,
            has_factors: true,
            ..plain
        },
        AccumulationCase {
            part: part(0, 10, 11, 20),
            combine: Combine::Max,
            has_sink_logits: true,
            new: 2,
            queries: 1,
            has_factors: true,
            ..plain
        },
        AccumulationCase { part: part(0, 0, 100, 100), replace: true, ..plain },
        AccumulationCase {
            part: part(5, 7, 8, 93),
            shape: with_alibi(80, 3),
            ty: RowType::F32,
            has_sink_logits: true,
            new: 6,
            queries: 5,
            ..plain
        },
        AccumulationCase { shape: capped(64, 2), new: 4, queries: 3, ..plain },
        AccumulationCase { has_sink_logits: true, new: 4, gain: Gain::Entropy { budget: 60 }, ..plain },
        AccumulationCase { gain: Gain::Entropy { budget: 40 }, new: 4, queries: 4, ..plain },
        AccumulationCase {
            shape: with_alibi(64, 2),
            gain: Gain::Literal { budget: 302 },
            new: 4,
            queries: 4,
            ..plain
        },
    ];
    let [own, portable] = [OWN, Form::Portable].map(Place::cpu);
    for case in cases {
        // Behind the rows, portable operations may clear what is there.
        let rows = |place: &Place| -> Vec<f32> {
            let (seen, capacity) = (case.live + case.new, case.live + case.new + 9);
            accumulated(place, case).chunks(capacity).flat_map(|head| head[..seen].to_vec()).collect()
        };
        assert_near(&format!("{case:?}"), &rows(&portable), &rows(&own), portable_tolerance(case.ty));
        let (want, have) = (accumulated(&cpu, case), accumulated(&device, case));
        assert!(want.iter().all(|x| x.is_finite()), "{case:?}");
        assert_close(&have, &want, 2e-5);
        assert_eq!(
            bits(&accumulated(&device, case)),
            bits(&have),
            "the result depends on the order of threads"
        );
    }
}

/// So many rows and queries that their weights would be too large a tensor: they are computed in parts.
#[test]
fn portable_accumulated_attention_in_parts() {
    let [own, portable] = [OWN, Form::Portable].map(Place::cpu);
    for combine in [Combine::Sum, Combine::Max] {
        let case = AccumulationCase {
            shape: shape(8, 1),
            ty: RowType::F32,
            live: 60_000,
            new: 300,
            queries: 300,
            replace: false,
            combine,
            gain: Gain::One,
            log_weight: None,
            has_sink_logits: false,
            part: None,
            has_factors: false,
        };
        let (have, want) = (accumulated(&portable, case), accumulated(&own, case));
        // Own kernels add each weight to a number of about 1 and round 300 times; portable ones add them up first.
        assert_near(&format!("{case:?}"), &have, &want, 4e-6);
    }
}

#[derive(Clone, Copy, Debug)]
struct WindowCase {
    shape: AttentionShape,
    ty: RowType,
    rows: usize,
    tokens: usize,
    first: usize,
    log_weight: f32,
    gain: Gain,
    has_sink_logits: bool,
}

fn window_attention(place: &Place, case: WindowCase) -> Vec<f32> {
    const RING: usize = 12;
    let WindowCase { shape, ty, rows, tokens, first, .. } = case;
    let mut random = Random::new(77);
    let memory = Context::new(4);
    let k = memory.tensor(tensor_type(ty), [shape.head_dim, first + rows + 3, 2]);
    let ring = memory.tensor(Type::F32, [shape.head_dim, shape.n_kv_heads * shape.group, RING]);
    let sink_logits = SinkLogits::new(&memory, shape);
    memory.allocate(&place.backend.buffer_type()).expect("memory");
    let sink_logits = sink_logits.write(case.has_sink_logits);
    let unused = first > 0 && case.log_weight == f32::NEG_INFINITY;
    write_rows(&mut random, place.behind, &k, ty, usize::from(unused), first + rows);
    ring.write(0, &normal(&mut random, ring.bytes() / 4)).expect("queries");
    let end = 500;
    let listed = |head: usize| -> Arc<Vec<u32>> {
        Arc::new((0..rows).map(|row| ((row * 11 + head * 5) % (end - 40) + 40) as u32).collect())
    };
    let which = RowLists { heads: vec![1, 0], rows: vec![listed(1), listed(0)] };
    let window = WindowQueries {
        positions: end - tokens..end,
        gain: case.gain,
        kv_heads: vec![2, 0],
        first,
        log_weight: case.log_weight,
        sink_logits: sink_logits.cloned(),
    };
    let ctx = Context::new(300);
    let attention = WindowAttention { shape, k: &k, ring: &ring, positions: which, window };
    let node = place.form.nodes(&ctx, attention);
    compute(&place.backend, &ctx, &node, || ());
    node.to_vec().expect("numbers")
}

#[test]
fn window_attention_equals_the_cpus() {
    let [cpu, device] = places();
    let plain = WindowCase {
        shape: shape(64, 2),
        ty: RowType::F16,
        rows: 150,
        tokens: 10,
        first: 0,
        log_weight: 0.0,
        gain: Gain::One,
        has_sink_logits: false,
    };
    let cases = [
        plain,
        WindowCase { shape: shape(128, 4), ty: RowType::Q8_0, tokens: 1, ..plain },
        WindowCase { shape: shape(96, 1), ty: RowType::Q4_0, tokens: 9, rows: 65, ..plain },
        WindowCase { shape: shape(80, 3), ty: RowType::F32, first: 1, log_weight: 1.5, ..plain },
        WindowCase { first: 1, log_weight: f32::NEG_INFINITY, ..plain },
        WindowCase { shape: capped(64, 2), has_sink_logits: true, ..plain },
        WindowCase {
            shape: capped(64, 2),
            has_sink_logits: true,
            gain: Gain::Entropy { budget: 60 },
            ..plain
        },
        WindowCase { shape: with_alibi(64, 2), gain: Gain::Entropy { budget: 60 }, ..plain },
    ];
    let [own, portable] = [OWN, Form::Portable].map(Place::cpu);
    for case in cases {
        let (want, have) = (window_attention(&own, case), window_attention(&portable, case));
        assert_near(&format!("{case:?}"), &have, &want, portable_tolerance(case.ty));
        let (want, have) = (window_attention(&cpu, case), window_attention(&device, case));
        assert!(want.iter().all(|x| x.is_finite()) && want.iter().any(|x| *x > 0.0), "{case:?}");
        assert_close(&have, &want, 2e-5);
        assert_eq!(window_attention(&device, case), have, "the result depends on the order of threads");
    }
}

#[test]
fn stored_queries_equal_the_cpus() {
    let [cpu, device] = places();
    let stored = |place: &Place, tokens: usize| -> Vec<f32> {
        let mut random = Random::new(4);
        let memory = Context::new(4);
        let q = memory.tensor(Type::F32, [40, 6, tokens]);
        let ring = memory.tensor(Type::F32, [40, 6, 5]);
        memory.allocate(&place.backend.buffer_type()).expect("memory");
        q.write(0, &normal(&mut random, 240 * tokens)).expect("queries");
        ring.write(0, &vec![-7f32; 40 * 6 * 5]).expect("ring");
        let ctx = Context::new(300);
        // There are positions of two more tokens than queries.
        let positions = ctx.input("positions", Type::I32, [tokens + 2]);
        let node = place.form.nodes(&ctx, StoreQueries { q: &q, positions: &positions, ring: &ring });
        compute(&place.backend, &ctx, &node, || {
            let all: Vec<i32> = (0..tokens as i32 + 2).map(|t| 43 + t).collect();
            positions.write(0, &all).expect("positions");
        });
        ring.to_vec().expect("ring")
    };
    for tokens in [1, 3, 5, 8] {
        let want = stored(&cpu, tokens);
        assert_eq!(stored(&device, tokens), want, "{tokens} tokens");
        assert_eq!(stored(&Place::cpu(Form::Portable), tokens), want, "{tokens} tokens, portable");
    }
}

#[test]
fn measured_rows_equal_the_cpus() {
    let [cpu, device] = places();
    let measured = |place: &Place, ty: RowType, head_dim: usize, offset: bool, what: Measure| -> Vec<f32> {
        let mut random = Random::new(12);
        let memory = Context::new(2);
        let tensor = memory.tensor(tensor_type(ty), [head_dim, 60, 3]);
        memory.allocate(&place.backend.buffer_type()).expect("memory");
        write_rows(&mut random, place.behind, &tensor, ty, 0, 55);
        let listed = |head: u32| Arc::new((0..50u32).map(|row| (row * 3 + head) % 55).collect::<Vec<u32>>());
        let which = RowLists { heads: vec![2, 0], rows: vec![listed(2), listed(0)] };
        let ctx = Context::new(300);
        let offset = offset.then(|| {
            let numbers = normal(&mut random, 2 * head_dim);
            ctx.reshape(&ctx.constant_f32(&numbers), [head_dim, 2])
        });
        let measure = MeasureRows { tensor: &tensor, offset: offset.as_ref(), lists: which, what };
        let node = place.form.nodes(&ctx, measure);
        compute(&place.backend, &ctx, &node, || ());
        node.to_vec().expect("numbers")
    };
    let portable = Place::cpu(Form::Portable);
    let spreads = [(8, false), (8, true), (25, false), (60, false)];
    let spreads = spreads.map(|(lag, own)| Measure::Spread { lag, own });
    for ty in RowType::ALL {
        for head_dim in [8, 64, 80, 96, 128, 256] {
            if head_dim % ty.granule() != 0 {
                continue;
            }
            for what in [Measure::Norm, Measure::SquaredNorm, Measure::MaxAbs].into_iter().chain(spreads) {
                for offset in [false, true] {
                    let [have, want] = [&device, &cpu].map(|on| measured(on, ty, head_dim, offset, what));
                    assert!(want.iter().all(|x| x.is_finite()), "{ty:?} {head_dim} {offset} {what:?}");
                    // The sums are f64 in another order, rounded to f32.
                    assert_close(&have, &want, 1.2e-7);
                    let have = measured(&portable, ty, head_dim, offset, what);
                    // Sums of f32.
                    assert_near(&format!("{ty:?} {head_dim} {offset} {what:?}"), &have, &want, 4e-7);
                }
            }
        }
    }
}

#[test]
fn predicted_scores_equal_the_formula() {
    let [_, device] = places();
    for case in PredictCase::all() {
        let have = predicted(&device, case);
        assert_eq!(
            bits(&predicted(&device, case)),
            bits(&have),
            "the result depends on the order of threads"
        );
    }
}
