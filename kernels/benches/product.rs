//! Speed of products of quantised matrices, by every unit of the processor. Beside them are ggml's
//! products of the same tensors, in the layout of files and, where there is one, in the repacked layout. They are
//! computed in turn. Speeds are those of the fastest pass, because other programs only slow passes down. Ratios are to
//! ggml's faster one.
//!
//! `cargo bench -p kernels --bench product -- [WORD…]` prints the rows whose label contains all words. With `--features
//! ggml/portable` ggml has AVX2 only.

use std::time::Instant;

use ggml::{Backend, BufferType, Context, GraphAllocator, ReadyGraph, Type};
use kernels::graph;
use kernels::product::{Unit, WeightType};

const TYPES: [&str; 10] = ["q4_0", "q5_0", "q8_0", "iq4_nl", "q4_K", "q5_K", "q6_K", "iq4_xs", "f16", "bf16"];

fn main() {
    // Cargo passes `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let mut units = Unit::available();
    units.retain(|unit| *unit != Unit::Plain);
    let names: String = units.iter().map(|unit| format!(" {unit:?} | ratio |")).collect();
    println!("In billions of multiply-adds a second:\n");
    println!("| matrix | columns | threads | type | ggml | ggml, repacked |{names}");
    println!("|---|---|---|---|---|---|{}", "---|---|".repeat(units.len()));
    for (n_in, n_out) in [(1536, 1536), (1536, 8960), (8960, 1536), (896, 4864)] {
        for n in [1, 2, 3, 4, 8, 16, 31, 32, 64, 512] {
            for threads in [1, 2] {
                for name in TYPES {
                    let label = format!("| {n_in} x {n_out} | {n} | {threads} | {name} |");
                    let ty = (0..64).filter_map(Type::from_id).find(|ty| ty.name() == name).expect("a type");
                    if words.iter().all(|word| label.contains(word.as_str()))
                        && n_in % ty.block_elements() == 0
                    {
                        measure(&label, &units, ty, [n_in, n_out, n], threads);
                    }
                }
            }
        }
    }
}

/// Who multiplies.
#[derive(Clone, Copy)]
enum Program {
    Ggml,
    Repacked,
    Unit(Unit),
}

fn measure(label: &str, units: &[Unit], ty: Type, [n_in, n_out, n]: [usize; 3], threads: usize) {
    let repacked = BufferType::cpu_repacked().filter(|kind| kind.accepts_matrices(ty, [n_in, n_out, 1]));
    let units = if WeightType::from_name(ty.name()).is_some() { units } else { &[] };
    let programs = [Program::Ggml].into_iter().chain(repacked.is_some().then_some(Program::Repacked));
    let programs: Vec<Program> = programs.chain(units.iter().copied().map(Program::Unit)).collect();

    // Any codes, and scales that are small numbers.
    let weights_in = |kind: &BufferType| {
        let memory = Context::new(4);
        let weights = memory.tensor(ty, [n_in, n_out]);
        memory.allocate(kind).expect("memory");
        let bytes: Vec<u8> =
            (0..weights.bytes()).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8 & 0x3b).collect();
        weights.write(0, &bytes).expect("weights");
        (memory, weights)
    };
    let (_memory, weights) = weights_in(&BufferType::cpu());
    let repacked = repacked.as_ref().map(weights_in);
    let backend = Backend::cpu(threads).expect("the CPU");
    let mut allocators: Vec<_> =
        programs.iter().map(|_| GraphAllocator::new(&backend.buffer_type())).collect();
    let graphs: Vec<(Context, ReadyGraph)> = programs
        .iter()
        .zip(&mut allocators)
        .map(|(program, allocator)| {
            let ctx = Context::new(8);
            let x = ctx.input("x", Type::F32, [n_in, n]);
            let out = match (program, &repacked) {
                (Program::Unit(unit), _) => graph::multiply_by(*unit, &ctx, &weights, &x),
                (Program::Repacked, Some((_, repacked))) => ctx.mul_mat(repacked, &x),
                _ => ctx.mul_mat(&weights, &x),
            };
            let ready = allocator.prepare(ctx.graph(&[&out.output()]).expect("a graph")).expect("memory");
            let activations: Vec<f32> = (0..n_in * n).map(|i| (i as f32 * 0.319).cos()).collect();
            x.write(0, &activations).expect("activations");
            (ctx, ready)
        })
        .collect();
    let mut best = vec![f64::INFINITY; programs.len()];
    for _ in 0..30 {
        for ((_, graph), best) in graphs.iter().zip(&mut best) {
            let start = Instant::now();
            backend.compute(graph).expect("a result");
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }

    let mut row = label.to_owned();
    let mut ggml: f64 = 0.0;
    for (program, best) in programs.iter().zip(best) {
        let speed = (n_in * n_out * n) as f64 / best / 1e9;
        match program {
            Program::Ggml | Program::Repacked => {
                ggml = ggml.max(speed);
                row += &format!(" {speed:.0} |");
            }
            Program::Unit(_) => row += &format!(" {speed:.0} | {:.2} |", speed / ggml),
        }
        if matches!(program, Program::Ggml) && repacked.is_none() {
            row += " |";
        }
    }
    println!("{row}");
}
