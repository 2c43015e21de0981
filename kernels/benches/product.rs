//! Speed of products of quantised matrices with many columns, beside ggml's product of the same tensors. Both are
//! computed alternately. Multiply-adds per second are those of the fastest pass: other programs only slow passes down.
//!
//! `cargo bench -p kernels --bench product -- [WORD…]` prints the rows whose label contains all words.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ggml::{Backend, BufferType, Context, GraphAllocator, ReadyGraph, Tensor, Type};
use kernels::graph;

const TYPES: [&str; 10] = ["q4_0", "q5_0", "q8_0", "iq4_nl", "q4_K", "q5_K", "q6_K", "iq4_xs", "f16", "bf16"];

fn main() {
    // Cargo passes `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    println!("| matrix | columns | threads | type | ggml GMAC/s | kernels GMAC/s | ratio |");
    println!("|---|---|---|---|---|---|---|");
    for (n_in, n_out) in [(1536, 1536), (1536, 8960), (8960, 1536), (896, 4864)] {
        for n in [32, 64, 512] {
            for threads in [1, 2] {
                for name in TYPES {
                    let label = format!("| {n_in} x {n_out} | {n} | {threads} | {name} |");
                    let ty = (0..64).filter_map(Type::from_id).find(|ty| ty.name() == name).expect("a type");
                    if words.iter().all(|word| label.contains(word.as_str()))
                        && n_in % ty.block_elements() == 0
                    {
                        measure(&label, name, ty, [n_in, n_out, n], threads);
                    }
                }
            }
        }
    }
}

fn measure(label: &str, name: &str, ty: Type, [n_in, n_out, n]: [usize; 3], threads: usize) {
    let memory = Context::new(4);
    let weights = memory.tensor(ty, [n_in, n_out]);
    memory.allocate(&BufferType::cpu()).expect("memory");
    // Any codes, and scales that are small numbers.
    let bytes: Vec<u8> =
        (0..weights.bytes()).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8 & 0x3b).collect();
    weights.write(0, &bytes).expect("weights");
    let backend = Backend::cpu(threads, Arc::new(AtomicBool::new(false))).expect("the CPU");
    let fast = kernels::product::WeightType::from_name(name).is_some() && kernels::product::is_fast();
    type Node = fn(&Context, &Tensor, &Tensor) -> Tensor;
    let theirs: Node = |ctx, a, x| ctx.mul_mat(a, x);
    let nodes = if fast { vec![theirs, graph::multiply] } else { vec![theirs] };
    let mut allocators: Vec<_> = nodes.iter().map(|_| GraphAllocator::new(&backend.buffer_type())).collect();
    let graphs: Vec<(Context, ReadyGraph)> = nodes
        .iter()
        .zip(&mut allocators)
        .map(|(node, allocator)| {
            let ctx = Context::new(8);
            let x = ctx.input("x", Type::F32, [n_in, n]);
            let out = node(&ctx, &weights, &x).output();
            let ready = allocator.prepare(ctx.graph(&[&out]).expect("a graph")).expect("memory");
            let activations: Vec<f32> = (0..n_in * n).map(|i| (i as f32 * 0.319).cos()).collect();
            x.write(0, &activations).expect("activations");
            (ctx, ready)
        })
        .collect();
    let mut best = [f64::INFINITY; 2];
    for _ in 0..30 {
        for ((_, graph), best) in graphs.iter().zip(&mut best) {
            let start = Instant::now();
            backend.compute(graph).expect("a result");
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    let speed = |seconds: f64| (n_in * n_out * n) as f64 / seconds / 1e9;
    let (ggml, ours) = (speed(best[0]), speed(best[1]));
    println!("{label} {ggml:.0} | {ours:.0} | {:.2} |", ours / ggml);
}
