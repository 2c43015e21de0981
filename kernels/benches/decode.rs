//! Bandwidth of the decode kernel: bytes of K and V per second, compared with a plain sum over the same
//! memory by the same number of threads. The two alternate, so that their ratio is valid on a shared machine
//! too.
//!
//! `cargo bench -p kernels --bench decode -- [--quick] [--avx2] [--cached] [WORD…]` prints the rows whose
//! label contains all words, such as `d128 q8_0`. `--cached` reads one short layer again and again from the
//! cache: the speed without memory limits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use kernels::decode::{combine, combine_range, partial_on, partials_len};
use kernels::machine::read_all;
use kernels::{Attention, Isa, LaneView, Queries, RowTensor, RowType};

/// Bytes of all layers of a measurement: so many that nothing stays in the caches from one pass to the next.
const MEMORY: usize = 512 << 20;

struct Shape {
    name: &'static str,
    kv_heads: usize,
    group: usize,
    head_dim: usize,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "MHA 12 d64", kv_heads: 12, group: 1, head_dim: 64 },
    Shape { name: "GQA 32/8 d64", kv_heads: 8, group: 4, head_dim: 64 },
    Shape { name: "GQA 32/8 d128", kv_heads: 8, group: 4, head_dim: 128 },
    Shape { name: "GQA 28/4 d128", kv_heads: 4, group: 7, head_dim: 128 },
];

/// Bytes per second of a pass.
struct Speeds {
    sum: f64,
    kernel: f64,
}

/// A spinning barrier: a decode step is too short for a system call.
struct Barrier {
    arrived: AtomicUsize,
    threads: usize,
}

impl Barrier {
    fn wait(&self) {
        let ticket = self.arrived.fetch_add(1, Ordering::AcqRel);
        let full = (ticket / self.threads + 1) * self.threads;
        let mut spins = 0;
        while self.arrived.load(Ordering::Acquire) < full {
            std::hint::spin_loop();
            spins += 1;
            if spins > 20_000 {
                std::thread::yield_now();
            }
        }
    }
}

/// The bytes of floats.
fn bytes(data: &[f32]) -> &[u8] {
    // SAFETY: every float is four valid bytes.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), data.len() * 4) }
}

fn fill(memory: &mut [f32], ty: RowType, d: usize) {
    let row = ty.row_bytes(d);
    let x: Vec<f32> = (0..d * 64).map(|i| (i as f32 * 0.7391).sin()).collect();
    let mut pattern = vec![0u8; row * 64];
    for r in 0..64 {
        ty.encode(&x[r * d..][..d], &mut pattern[r * row..][..row]);
    }
    for (i, word) in memory.iter_mut().enumerate() {
        let at = i * 4 % pattern.len();
        *word = f32::from_le_bytes([pattern[at], pattern[at + 1], pattern[at + 2], pattern[at + 3]]);
    }
}

fn main() {
    // Cargo passes `--bench`.
    let mut words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let mut take = |flag: &str| words.iter().position(|w| w == flag).map(|i| words.remove(i)).is_some();
    let quick = take("--quick");
    let avx2 = take("--avx2");
    let isa = *Isa::available().get(usize::from(avx2)).unwrap_or(&Isa::Scalar);
    let passes = if quick { 5 } else { 15 };
    let cached = take("--cached");
    let mut memory = vec![0f32; if cached { 32 << 20 } else { MEMORY } / 4];
    println!("{isa:?}; best of {passes} passes; ratio = median of the passes' kernel / sum");
    println!("| shape | rows | type | tokens | threads | kernel GB/s | sum GB/s | ratio | best/best |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for shape in &SHAPES {
        for ty in [RowType::F16, RowType::Q8_0, RowType::Q4_0, RowType::Iq4Nl] {
            fill(&mut memory, ty, shape.head_dim);
            for rows in if cached { vec![256] } else { vec![4096, 16384, 32768] } {
                for (n_q, threads) in [(1, 1), (1, 2), (4, 2)] {
                    let label = format!("| {} | {rows} | {} | {n_q} | {threads} |", shape.name, ty.name());
                    if (n_q > 1 && words.is_empty()) || !words.iter().all(|w| label.contains(w.as_str())) {
                        continue;
                    }
                    measure(isa, &label, shape, ty, rows, n_q, threads, passes, cached, &memory);
                }
            }
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "called in one place")]
fn measure(
    isa: Isa,
    label: &str,
    shape: &Shape,
    ty: RowType,
    rows: usize,
    n_q: usize,
    threads: usize,
    passes: usize,
    cached: bool,
    memory: &[f32],
) {
    let Shape { kv_heads, group, head_dim: d, .. } = *shape;
    let tensor = ty.row_bytes(d) * rows * kv_heads;
    let layers = (MEMORY / (2 * tensor)).max(1);
    let data = bytes(memory);
    let numbers: Vec<u32> = (0..kv_heads as u32).collect();
    let q: Vec<f32> = (0..d * kv_heads * group * n_q).map(|i| (i as f32 * 0.319).cos()).collect();
    let lane = |layer: usize| LaneView {
        k: RowTensor::contiguous(&data[2 * layer * tensor..][..tensor], ty, d, rows),
        v: RowTensor::contiguous(&data[(2 * layer + 1) * tensor..][..tensor], ty, d, rows),
        rows,
        kv_heads: &numbers,
        log_weight: None,
    };
    let partials_len = partials_len(d, kv_heads, group, n_q);
    let mut partials = vec![0f32; partials_len * threads];
    let partials_at = partials.as_mut_ptr() as usize;
    let barrier = Barrier { arrived: AtomicUsize::new(0), threads };

    // The work of a thread: `passes` times a pass of the sum and a pass of the kernel, in step with the other
    // threads.
    let work = |ith: usize| -> Vec<Speeds> {
        let mut times = Vec::new();
        let mut out = vec![0f32; d * kv_heads * group * n_q];
        let part = memory.len().div_ceil(threads);
        let own_memory = &memory[ith * part..memory.len().min((ith + 1) * part)];
        for _ in 0..passes {
            barrier.wait();
            let start = Instant::now();
            std::hint::black_box(read_all(own_memory));
            barrier.wait();
            let sum = (memory.len() * 4) as f64 / start.elapsed().as_secs_f64();
            let start = Instant::now();
            for layer in 0..layers {
                let lanes = [lane(if cached { 0 } else { layer })];
                let call = Attention {
                    head_dim: d,
                    n_kv_heads: kv_heads,
                    group,
                    n_q,
                    scale: 0.125,
                    q: Queries::contiguous(&q, d, kv_heads * group),
                    lanes: &lanes,
                    alibi: None,
                    window: None,
                    softcap: None,
                    sink_logits: None,
                    groups: None,
                    int8: false,
                };
                let all = partials_at as *mut f32;
                // SAFETY: each thread has its own part of the buffer until the barrier, and only reads after
                // it.
                let own =
                    unsafe { std::slice::from_raw_parts_mut(all.add(ith * partials_len), partials_len) };
                partial_on(isa, &call, ith, threads, own).expect("shapes fit");
                barrier.wait();
                // SAFETY: no thread writes between these two barriers.
                let all = unsafe { std::slice::from_raw_parts(all, partials_len * threads) };
                let range = combine_range(&call, ith, threads);
                combine(&call, threads, all, range, &mut out, None).expect("shapes fit");
                barrier.wait();
            }
            let kernel = (layers * 2 * tensor) as f64 / start.elapsed().as_secs_f64();
            times.push(Speeds { sum, kernel });
            std::hint::black_box(&mut out);
        }
        times
    };
    let work = &work;
    let times = std::thread::scope(|scope| {
        for ith in 1..threads {
            scope.spawn(move || work(ith));
        }
        work(0)
    });
    let best = |speed: fn(&Speeds) -> f64| times.iter().map(speed).fold(0.0, f64::max);
    let (sum, kernel) = (best(|speeds| speeds.sum), best(|speeds| speeds.kernel));
    let mut ratios: Vec<f64> = times.iter().map(|speeds| speeds.kernel / speeds.sum).collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "{label} {:.1} | {:.1} | {:.2} | {:.2} |",
        kernel / 1e9,
        sum / 1e9,
        ratios[ratios.len() / 2],
        kernel / sum
    );
}
