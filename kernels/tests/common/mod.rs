//! Devices, tensor types and attention calls with random numbers, for all tests.
#![allow(dead_code)] // no test uses everything

pub mod predicted;

use ggml::{Backend, Context, GraphAllocator, Tensor, Type};
use kernels::attention::alibi_slopes;
use kernels::graph::{LaneInputs, MAX_LANES, Split};
use kernels::{Alibi, Attention, Form, Isa, LaneView, Queries, RowTensor, RowType, Window, reference};

/// The device under test: the first GPU where `LONGHAND_TEST_DEVICE` is `cuda`, otherwise the emulator.
pub fn device() -> Backend {
    match std::env::var("LONGHAND_TEST_DEVICE").as_deref() {
        Ok("cuda") => Backend::cuda(0, None).expect("there is a GPU"),
        _ => emulator::backend(None).expect("threads start"),
    }
}

/// The CPU and the device under test.
pub fn backends() -> [Backend; 2] {
    [Backend::cpu(2).expect("the CPU backend is always there"), device()]
}

/// Own kernels. Tests of attention split the rows in their own way.
pub const OWN: Form = Form::Own(Split::Threads(2));

/// A backend, and the form in which it has the operations.
pub struct Place {
    pub backend: Backend,
    pub form: Form,
    /// The bytes of rows that no query sees. Own kernels do not read them: they decode to NaN or huge numbers. Portable
    /// operations need numbers there, which are huge.
    pub behind: u8,
}

impl Place {
    /// The CPU, where portable operations are compared with own ones that find the same behind the rows.
    pub fn cpu(form: Form) -> Place {
        Place { backend: Backend::cpu(2).expect("the CPU backend is always there"), form, behind: 0x5a }
    }
}

/// The CPU and the device under test, with own kernels.
pub fn places() -> [Place; 2] {
    backends().map(|backend| Place { backend, form: OWN, behind: 0xff })
}

/// The difference between two neighbouring numbers of a row type, as a fraction of the largest of a block: half of it for
/// the rounding of each of two encoders, which may choose other scales.
pub fn step(ty: RowType) -> f32 {
    match ty {
        RowType::F32 => 1e-6,
        RowType::F16 => 1e-3,
        RowType::Q8_0 => 1.0 / 127.0,
        RowType::Q4_0 => 1.0 / 8.0,
        RowType::Iq4Nl => 24.0 / 113.0,
    }
}

/// Compares rows `[head_dim, n]`, which may differ by one step of their type.
#[track_caller]
pub fn assert_one_step(ty: RowType, head_dim: usize, have: &[u8], want: &[u8]) {
    assert_eq!(have.len(), want.len());
    let bytes = ty.row_bytes(head_dim);
    for (have, want) in have.chunks_exact(bytes).zip(want.chunks_exact(bytes)) {
        let [have, want] = [have, want].map(|row| {
            let mut numbers = vec![0f32; head_dim];
            ty.decode(row, &mut numbers);
            numbers
        });
        let largest = want.iter().fold(0f32, |most, x| most.max(x.abs()));
        for (a, b) in have.iter().zip(&want) {
            assert!((a - b).abs() <= largest * step(ty) * 1.01, "{ty:?}: {a}, not {b}");
        }
    }
}

/// The bytes of tensors.
pub fn bytes_of(tensors: &[&Tensor]) -> Vec<Vec<u8>> {
    tensors
        .iter()
        .map(|tensor| {
            let mut bytes = vec![0u8; tensor.bytes()];
            tensor.read(0, &mut bytes).expect("bytes");
            bytes
        })
        .collect()
}

/// Writes random rows `begin .. live` to a tensor `[head_dim, capacity, heads]`. The others have the bytes `behind`.
pub fn write_rows(random: &mut Random, behind: u8, tensor: &Tensor, ty: RowType, begin: usize, live: usize) {
    let (d, capacity, heads) = (tensor.dim(0), tensor.dim(1), tensor.dim(2));
    let bytes = ty.row_bytes(d);
    let mut all = vec![behind; bytes * capacity * heads];
    for head in 0..heads {
        for row in begin..live {
            let x: Vec<f32> = (0..d).map(|_| random.normal()).collect();
            ty.encode(&x, &mut all[(head * capacity + row) * bytes..][..bytes]);
        }
    }
    tensor.write(0, &all).expect("rows");
}

/// The lane inputs of layer 1 of 2, for `tokens` new tokens.
pub fn lane_inputs(ctx: &Context, tokens: usize) -> LaneInputs {
    LaneInputs {
        rows: ctx.input("rows", Type::I32, [MAX_LANES, 2]),
        log_weights: ctx.input("log_weights", Type::F32, [MAX_LANES, 2]),
        positions: ctx.input("positions", Type::I32, [tokens]),
        layer: 1,
    }
}

/// Computes `node` on a backend. `fill` writes the inputs once they have memory.
pub fn compute(backend: &Backend, ctx: &Context, node: &Tensor, fill: impl Fn()) {
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[node]).expect("a graph")).expect("memory");
    fill();
    backend.compute(&graph).expect("computed");
}

/// The bits of numbers, which are equal where NaN equals NaN and 0 differs from -0.
pub fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// A random number generator (xorshift64*) with the same numbers on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }
    /// A roughly normal number with unit deviation.
    pub fn normal(&mut self) -> f32 {
        (0..4).map(|_| (self.next() >> 40) as f32 / (1u64 << 24) as f32 - 0.5).sum::<f32>() * 1.7
    }
}

/// One lane of a case.
#[derive(Clone, Debug)]
pub struct LaneCase {
    pub heads: Vec<u32>,
    pub rows: usize,
    pub log_weight: Option<Vec<f32>>,
}

/// The shapes of a call. Its numbers are random.
#[derive(Clone, Debug)]
pub struct Case {
    pub head_dim: usize,
    pub group: usize,
    pub n_q: usize,
    pub k_type: RowType,
    pub v_type: RowType,
    /// Factor of the random keys.
    pub key_size: f32,
    /// The maximum bias of ALiBi. With it rows have positions in no order.
    pub max_alibi_bias: Option<f32>,
    /// Tokens of a sliding window; rows then have positions in no order.
    pub window: Option<usize>,
    /// Whether rows lie in order instead, and the call has no positions for the window.
    pub is_ordered: bool,
    pub softcap: Option<f32>,
    /// Whether query heads have random sink logits.
    pub has_sink_logits: bool,
    pub lanes: Vec<LaneCase>,
}

/// A lane of these heads, which may have log-weights of their own.
pub fn lane(heads: &[u32], rows: usize, log_weight: Option<&[f32]>) -> LaneCase {
    LaneCase { heads: heads.to_vec(), rows, log_weight: log_weight.map(<[f32]>::to_vec) }
}

impl Case {
    /// One lane of `heads` KV heads with `rows` rows, f16, one query head per KV head, one token.
    pub fn plain(head_dim: usize, heads: u32, rows: usize) -> Case {
        Case {
            head_dim,
            group: 1,
            n_q: 1,
            k_type: RowType::F16,
            v_type: RowType::F16,
            key_size: 1.0,
            max_alibi_bias: None,
            window: None,
            is_ordered: false,
            softcap: None,
            has_sink_logits: false,
            lanes: vec![LaneCase { heads: (0..heads).collect(), rows, log_weight: None }],
        }
    }

    pub fn kv_heads(&self) -> usize {
        self.lanes.iter().map(|lane| lane.heads.len()).sum()
    }
}

/// The memory of a case. Rows behind the live ones, and rows 0 that are not used, have bytes that decode to
/// NaN or huge numbers, so that reads of them change the result.
pub struct Data {
    pub case: Case,
    q: Vec<f32>,
    k: Vec<Vec<u8>>,
    v: Vec<Vec<u8>>,
    capacity: Vec<usize>,
    slopes: Vec<f32>,
    sink_logits: Vec<f32>,
    /// By KV head.
    positions: Vec<Vec<i32>>,
}

impl Data {
    pub fn new(case: Case, seed: u64) -> Data {
        let mut random = Random::new(seed);
        let d = case.head_dim;
        let heads = case.kv_heads() * case.group;
        let q = (0..d * heads * case.n_q).map(|_| random.normal()).collect();
        let capacity: Vec<usize> = case.lanes.iter().map(|lane| lane.rows + 1 + random.below(40)).collect();
        let mut tensor = |ty: RowType, size: f32, lane: &LaneCase, capacity: usize| {
            let row_bytes = ty.row_bytes(d);
            let mut bytes = vec![0xff; row_bytes * capacity * lane.heads.len()];
            for head in 0..lane.heads.len() {
                let unused = lane.log_weight.as_ref().is_some_and(|w| w[head] == f32::NEG_INFINITY);
                for row in usize::from(unused)..lane.rows {
                    let x: Vec<f32> = (0..d).map(|_| random.normal() * size).collect();
                    ty.encode(&x, &mut bytes[(head * capacity + row) * row_bytes..][..row_bytes]);
                }
            }
            bytes
        };
        let k = case
            .lanes
            .iter()
            .zip(&capacity)
            .map(|(lane, &capacity)| tensor(case.k_type, case.key_size, lane, capacity))
            .collect();
        let v = case
            .lanes
            .iter()
            .zip(&capacity)
            .map(|(lane, &capacity)| tensor(case.v_type, 1.0, lane, capacity))
            .collect();
        let mut positions = vec![Vec::new(); case.kv_heads()];
        for lane in &case.lanes {
            for &head in &lane.heads {
                // The query tokens' rows are last, in order. The others have earlier positions in no order.
                const FIRST_QUERY: i32 = 100_000;
                let older = lane.rows.saturating_sub(case.n_q);
                let far = (0..older).map(|_| FIRST_QUERY - 1 - random.below(3 * older) as i32);
                positions[head as usize] = far.chain(FIRST_QUERY..).take(lane.rows).collect();
            }
        }
        let slopes = alibi_slopes(heads, case.max_alibi_bias.unwrap_or(8.0))
            .into_iter()
            .map(|slope| slope as f32)
            .collect();
        let sink_logits = (0..heads).map(|_| 3.0 * random.normal()).collect();
        Data { case, q, k, v, capacity, slopes, sink_logits, positions }
    }

    /// Runs `f` on the call, with `keys` in place of the keys of its only lane.
    pub fn with_keys<R>(&self, keys: &[u8], f: impl FnOnce(&Attention) -> R) -> R {
        self.with(|call| {
            let lane = call.lanes[0];
            let lanes = [LaneView { k: RowTensor { data: keys, ..lane.k }, ..lane }];
            f(&Attention { lanes: &lanes, ..*call })
        })
    }

    /// The keys of the only lane, of type f16, with a NaN in row 40 of head 0.
    pub fn keys_with_nan(&self) -> Vec<u8> {
        let mut k = self.k[0].clone();
        k[40 * self.case.k_type.row_bytes(self.case.head_dim)..][..2].copy_from_slice(&NAN);
        k
    }

    /// Runs `f` on the call.
    pub fn with<R>(&self, f: impl FnOnce(&Attention) -> R) -> R {
        let case = &self.case;
        let d = case.head_dim;
        let lanes: Vec<LaneView> = case
            .lanes
            .iter()
            .enumerate()
            .map(|(i, lane)| LaneView {
                k: RowTensor::contiguous(&self.k[i], case.k_type, d, self.capacity[i]),
                v: RowTensor::contiguous(&self.v[i], case.v_type, d, self.capacity[i]),
                rows: lane.rows,
                kv_heads: &lane.heads,
                log_weight: lane.log_weight.as_deref(),
            })
            .collect();
        let positions: Vec<&[i32]> = self.positions.iter().map(Vec::as_slice).collect();
        f(&Attention {
            head_dim: d,
            n_kv_heads: case.kv_heads(),
            group: case.group,
            n_q: case.n_q,
            scale: 1.0 / (d as f32).sqrt(),
            q: Queries::contiguous(&self.q, d, case.kv_heads() * case.group),
            lanes: &lanes,
            alibi: case.max_alibi_bias.map(|_| Alibi { slopes: &self.slopes, positions: &positions }),
            window: (case.window)
                .map(|tokens| Window { tokens, positions: (!case.is_ordered).then_some(&positions[..]) }),
            softcap: case.softcap,
            sink_logits: case.has_sink_logits.then_some(&self.sink_logits[..]),
            groups: None,
            int8: false,
        })
    }
}

/// The two bytes of a NaN in f16.
const NAN: [u8; 2] = [0, 0x7e];

/// What computes a call on the CPU with some threads: the results, and the logs of the denominators.
pub type OnCpu = fn(Isa, &Attention, usize) -> (Vec<f32>, Vec<f32>);

/// Compares a kernel with the reference, on every instruction set of this processor and with these numbers of threads.
/// `rounding` is what the kernel's own rounding adds to the tolerance.
#[track_caller]
pub fn check_on_cpu(run: OnCpu, rounding: f64, case: Case, seed: u64, threads: &[usize]) {
    let data = Data::new(case, seed);
    data.with(|call| {
        let want = reference::attend(call).unwrap();
        for isa in Isa::available() {
            for &nth in threads {
                let (out, lse) = run(isa, call, nth);
                compare(&format!("{isa:?}, {nth} threads"), &data.case, rounding, &out, &lse, &want);
            }
        }
    });
}

/// A NaN in a row of one KV head reaches the results of its two query heads, and no others. Where all rows are NaN the
/// results are too, not zero.
#[track_caller]
pub fn check_nan_on_cpu(run: OnCpu, n_q: usize) {
    let data = Data::new(Case { group: 2, n_q, ..Case::plain(64, 2, 100) }, 8);
    let all_nan: Vec<u8> = NAN.repeat(data.k[0].len() / 2);
    for isa in Isa::available() {
        let (out, lse) = data.with_keys(&data.keys_with_nan(), |call| run(isa, call, 2));
        for (token, lse) in out.chunks_exact(4 * 64).zip(lse.chunks_exact(4)) {
            assert!(token[..2 * 64].iter().chain(&lse[..2]).all(|x| x.is_nan()), "{isa:?}");
            assert!(token[2 * 64..].iter().chain(&lse[2..]).all(|x| x.is_finite()), "{isa:?}");
        }
        let (out, lse) = data.with_keys(&all_nan, |call| run(isa, call, 2));
        assert!(out.iter().chain(&lse).all(|x| x.is_nan()), "{isa:?}");
    }
}

/// Compares with the reference. The tolerance for f32 rounding grows with the size of the logits, whose
/// relative error becomes an absolute error of the exponent. `rounding` is added to it.
#[track_caller]
pub fn compare(what: &str, case: &Case, rounding: f64, out: &[f32], lse: &[f32], want: &reference::Attended) {
    let tolerance = f64::from(2e-5 + 1e-6 * case.key_size) + rounding;
    let mut worst = 0f64;
    for (i, (a, b)) in out.iter().zip(&want.out).enumerate() {
        assert!(a.is_finite() && b.is_finite(), "{what} {case:?}: out[{i}] = {a}, not {b}");
        worst = worst.max((f64::from(*a) - b).abs());
    }
    assert!(worst < tolerance, "{what} {case:?}: out differs by {worst:e}");
    for (i, (a, b)) in lse.iter().zip(&want.lse).enumerate() {
        let same = f64::from(*a) == *b || (f64::from(*a) - b).abs() < tolerance * (1.0 + b.abs() / 10.0);
        assert!(same, "{what} {case:?}: lse[{i}] = {a}, not {b}");
    }
    assert_eq!((out.len(), lse.len()), (want.out.len(), want.lse.len()));
}
