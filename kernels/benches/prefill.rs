//! Speed of the prefill kernel as a fraction of the processor's multiply-add peak: 4 * head_dim operations
//! per visible pair of query and key. The kernel and the peak are measured alternately.
//!
//! `cargo bench -p kernels --bench prefill -- [--avx2] [WORD…]` prints the rows whose label contains all
//! words. Where the processor multiplies bytes, each is measured in f32 and with old rows in integers of 8 bits in turn.

use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use kernels::machine::Arithmetic;
use kernels::prefill::{prefill_on, scratch_len};
use kernels::{Attention, Isa, LaneView, Queries, RowTensor, RowType};

fn main() {
    // Cargo passes `--bench`.
    let mut words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let avx2 = words.iter().position(|w| w == "--avx2").map(|i| words.remove(i)).is_some();
    let isa = *Isa::available().get(usize::from(avx2)).unwrap_or(&Isa::Scalar);
    println!("{isa:?}; fraction = median of the passes' kernel / (threads * peak)");
    println!(
        "| shape | queries | rows | type | threads | GFLOP/s | peak per thread | fraction | int8, fraction | int8 / f32 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (name, kv_heads, group, d) in [
        ("MHA 12 d64", 12, 1, 64),
        ("GQA 32/8 d64", 8, 4, 64),
        ("GQA 32/8 d128", 8, 4, 128),
        ("GQA 28/4 d128", 4, 7, 128),
        ("MHA 8 d80", 8, 1, 80),
    ] {
        for ty in [RowType::F16, RowType::F32, RowType::Q8_0, RowType::Q4_0, RowType::Iq4Nl] {
            for rows in [512, 2048, 8192, 32768] {
                for threads in [1, 2] {
                    let label = format!("| {name} | 512 | {rows} | {} | {threads} |", ty.name());
                    if !words.iter().all(|w| label.contains(w.as_str())) || d % ty.granule() != 0 {
                        continue;
                    }
                    measure(isa, &label, kv_heads, group, d, ty, rows, threads);
                }
            }
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "called in one place")]
fn measure(
    isa: Isa,
    label: &str,
    kv_heads: usize,
    group: usize,
    d: usize,
    ty: RowType,
    rows: usize,
    threads: usize,
) {
    let n_q = 512;
    let row_bytes = ty.row_bytes(d);
    let mut kv = vec![0u8; row_bytes * rows * kv_heads];
    for (i, row) in kv.chunks_exact_mut(row_bytes).enumerate() {
        let x: Vec<f32> = (0..d).map(|j| ((i * 31 + j) as f32 * 0.7391).sin()).collect();
        ty.encode(&x, row);
    }
    let q: Vec<f32> = (0..d * kv_heads * group * n_q).map(|i| (i as f32 * 0.319).cos()).collect();
    let heads: Vec<u32> = (0..kv_heads as u32).collect();
    let lanes = [LaneView {
        k: RowTensor::contiguous(&kv, ty, d, rows),
        v: RowTensor::contiguous(&kv, ty, d, rows),
        rows,
        kv_heads: &heads,
        log_weight: None,
    }];
    let call = Attention {
        head_dim: d,
        n_kv_heads: kv_heads,
        group,
        n_q,
        scale: 0.1,
        q: Queries::contiguous(&q, d, kv_heads * group),
        lanes: &lanes,
        alibi: None,
        window: None,
        softcap: None,
        sink_logits: None,
        groups: None,
        int8: false,
    };
    let pairs: usize = (0..n_q).map(|t| call.visible(rows, t)).sum();
    let operations = (pairs * call.n_heads() * 4 * d) as f64;
    let mut out = vec![0f32; call.out_len()];
    let at = out.as_mut_ptr() as usize;
    let mut peak = 0f64;
    let mut ways = vec![Way { int8: false, best: 0.0, fractions: Vec::new() }];
    if isa.has_bytes() {
        ways.push(Way { int8: true, ..ways[0].clone() });
    }
    for _ in 0..7 {
        let now = Arithmetic::measure(1, 0.05).floats;
        peak = peak.max(now);
        for way in &mut ways {
            let call = Attention { int8: way.int8, ..call };
            let next = AtomicUsize::new(0);
            let work = || {
                let mut scratch = vec![0f32; scratch_len(&call)];
                // SAFETY: the output has the shape asked for; all threads use the same counter.
                unsafe { prefill_on(isa, &call, &next, &mut scratch, at as *mut f32, std::ptr::null_mut()) }
                    .expect("shapes fit");
            };
            let start = Instant::now();
            std::thread::scope(|scope| {
                for _ in 1..threads {
                    scope.spawn(work);
                }
                work();
            });
            let speed = operations / start.elapsed().as_secs_f64();
            way.fractions.push(speed / now / threads as f64);
            way.best = way.best.max(speed);
        }
    }
    print!("{label} {:.0} | {:.0} |", ways[0].best / 1e9, peak / 1e9);
    for way in &mut ways {
        way.fractions.sort_by(f64::total_cmp);
        print!(" {:.2} |", way.fractions[way.fractions.len() / 2]);
    }
    println!(" {:.2} |", ways[ways.len() - 1].best / ways[0].best);
}

/// How old rows are multiplied.
#[derive(Clone)]
struct Way {
    int8: bool,
    /// Operations a second.
    best: f64,
    /// Of the peak.
    fractions: Vec<f64>,
}
