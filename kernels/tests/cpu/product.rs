//! Products of quantised matrices, beside ggml's product and beside f64.

use std::sync::atomic::AtomicUsize;

use ggml::{Backend, BufferType, Context, GraphAllocator, Tensor, Type};
use kernels::graph;
use kernels::product::{Product, Unit, WeightType, column_words, multiply, quantize};

use crate::common::Random;

fn tensor_type(ty: WeightType) -> Type {
    (0..64).filter_map(Type::from_id).find(|t| t.name() == ty.name()).expect("ggml has the type")
}

/// Random blocks: any codes and packed scales, and small numbers where a block has an f16.
fn random_rows(random: &mut Random, ty: WeightType, n_in: usize, n_out: usize) -> Vec<u8> {
    let halves: &[usize] = match ty {
        WeightType::Q4_1 | WeightType::Q5_1 | WeightType::Q4K | WeightType::Q5K => &[0, 2],
        WeightType::Q6K => &[208],
        _ => &[0],
    };
    let count = n_in / ty.block_elements() * n_out;
    let mut rows = Vec::new();
    for _ in 0..count {
        let mut block: Vec<u8> = (0..ty.block_bytes()).map(|_| random.below(256) as u8).collect();
        for at in halves {
            let scale = half::f16::from_f32(random.normal() * 0.01);
            block[*at..*at + 2].copy_from_slice(&scale.to_le_bytes());
        }
        rows.extend(block);
    }
    rows
}

/// The product `[n_out, n]`, computed by some threads.
fn product_of(unit: Unit, ty: WeightType, n_in: usize, rows: &[u8], x: &[f32], threads: usize) -> Vec<f32> {
    let words = column_words(ty, n_in);
    let mut columns = vec![0; x.len() / n_in * words];
    for (x, column) in x.chunks(n_in).zip(columns.chunks_mut(words)) {
        quantize(unit, ty, x, column);
    }
    let product = Product { ty, n_in, rows, columns: &columns };
    let mut out = vec![f32::NAN; product.n_out() * product.n()];
    let (at, next) = (out.as_mut_ptr() as usize, AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            // SAFETY: the result has the shape of the product; all threads use the same counter.
            scope.spawn(|| unsafe { multiply(unit, &product, &next, threads, at as *mut f32) });
        }
    });
    out
}

/// The product `[n_out, n]` in f64, of the weights as floats and unrounded activations. With it the root of the sum of
/// the squares of everything that is added up.
fn exact(ty: WeightType, n_in: usize, rows: &[u8], x: &[f32]) -> (Vec<f64>, f64) {
    let mut weights = vec![0f32; rows.len() / ty.block_bytes() * ty.block_elements()];
    assert!(tensor_type(ty).dequantize(rows, &mut weights));
    let (mut product, mut squares) = (Vec::new(), 0.0);
    for x in x.chunks(n_in) {
        for w in weights.chunks(n_in) {
            let terms = w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x));
            product.push(terms.clone().sum());
            squares += terms.map(|term| term * term).sum::<f64>();
        }
    }
    (product, squares.sqrt())
}

fn normals(random: &mut Random, n: usize) -> Vec<f32> {
    (0..n).map(|_| random.normal()).collect()
}

/// Root of the sum of the squares of the differences.
fn difference(found: &[f32], expected: &[f64]) -> f64 {
    found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum::<f64>().sqrt()
}

/// Panics where a product is not near that of plain Rust, which may be of more columns.
#[track_caller]
fn assert_near(found: &[f32], plain: &[f32], what: &str) {
    let size = plain.iter().fold(0f32, |m, y| m.max(y.abs()));
    for (i, (a, b)) in found.iter().zip(plain).enumerate() {
        assert!((a - b).abs() <= 2e-6 * size, "{what}, {i}: {a} not {b}");
    }
}

#[test]
fn products_equal_f64_within_the_rounding_of_activations() {
    let mut random = Random::new(1);
    for ty in WeightType::ALL {
        for (blocks, n_out, n) in [(1, 1, 1), (3, 37, 6), (7, 33, 13), (17, 64, 5)] {
            let n_in = blocks * ty.block_elements();
            let rows = random_rows(&mut random, ty, n_in, n_out);
            let x = normals(&mut random, n_in * n);
            let (expected, size) = exact(ty, n_in, &rows, &x);
            for unit in Unit::available() {
                let found = product_of(unit, ty, n_in, &rows, &x, 2);
                let error = difference(&found, &expected) / size;
                // Activations are rounded to steps of about 1/42 standard deviations: an error of 0.007, or three times
                // as much for a single number.
                assert!(error < 0.02, "{ty:?} {unit:?} [{n_in}, {n_out}] x {n}: error {error}");
            }
        }
    }
}

#[test]
fn all_numbers_of_columns_and_threads_give_the_same_product() {
    let mut random = Random::new(2);
    for ty in WeightType::ALL {
        let (n_in, n_out) = (3 * 256, 50);
        let rows = random_rows(&mut random, ty, n_in, n_out);
        let x = normals(&mut random, n_in * 70);
        let plain = product_of(Unit::Plain, ty, n_in, &rows, &x, 1);
        for unit in Unit::available() {
            for n in 1..=70 {
                let found = product_of(unit, ty, n_in, &rows, &x[..n_in * n], 1 + n % 4);
                assert_near(&found, &plain, &format!("{ty:?} {unit:?} n {n}"));
            }
        }
    }
}

/// One thread, whole tiles and several panels: `scripts/arm/instructions.sh` counts what this test runs.
#[test]
fn every_unit_multiplies_many_columns() {
    let mut random = Random::new(6);
    for ty in WeightType::ALL {
        let (n_in, n_out, n) = (1280, 64, 66);
        let rows = random_rows(&mut random, ty, n_in, n_out);
        let x = normals(&mut random, n_in * n);
        let plain = product_of(Unit::Plain, ty, n_in, &rows, &x, 1);
        for unit in Unit::available().into_iter().filter(|unit| *unit != Unit::Plain) {
            let found = product_of(unit, ty, n_in, &rows, &x, 1);
            assert_near(&found, &plain, &format!("{ty:?} {unit:?}"));
        }
    }
}

/// Sums of integers have no rounding. So what differs between units is how many floats they add up at a time, and in which order.
#[test]
fn units_of_the_same_vectors_give_the_same_bits() {
    let same: Vec<Unit> = Unit::available().into_iter().filter(|unit| is_one_of_several(*unit)).collect();
    // Such as AVX2 without AVX-VNNI: there is nothing to compare.
    let [first, others @ ..] = same.as_slice() else { return };
    if others.is_empty() {
        return;
    }
    let mut random = Random::new(5);
    for ty in WeightType::ALL {
        for (blocks, n_out) in [(1, 15), (19, 35), (33, 64)] {
            let n_in = blocks * ty.block_elements();
            let rows = random_rows(&mut random, ty, n_in, n_out);
            for n in [1, 2, 3, 4, 5, 6, 7, 23] {
                let x = normals(&mut random, n_in * n);
                let of = |unit: Unit| product_of(unit, ty, n_in, &rows, &x, 2);
                let expected = of(*first);
                for unit in others {
                    assert_eq!(of(*unit), expected, "{ty:?} {unit:?} and {first:?} [{n_in}, {n_out}] x {n}");
                }
            }
        }
    }
}

/// Whether there are several units with vectors of this one's size and the same order of sums.
fn is_one_of_several(unit: Unit) -> bool {
    match unit {
        #[cfg(target_arch = "x86_64")]
        Unit::AvxVnni | Unit::Avx2 => true,
        #[cfg(target_arch = "aarch64")]
        Unit::NeonMatrix | Unit::NeonDot | Unit::Neon => true,
        _ => false,
    }
}

#[test]
fn a_columns_product_does_not_depend_on_the_others() {
    /// Answers that are computed together, or drafted tokens.
    const COLUMNS: usize = 31;
    let mut random = Random::new(4);
    for ty in WeightType::ALL {
        for (blocks, n_out) in [(19, 35), (64, 16)] {
            let n_in = blocks * ty.block_elements();
            let rows = random_rows(&mut random, ty, n_in, n_out);
            let x = normals(&mut random, n_in * COLUMNS);
            for unit in Unit::available() {
                let all = product_of(unit, ty, n_in, &rows, &x, 2);
                let some = [(1, 0), (2, 5), (3, 28), (4, 1), (5, 11), (6, 7), (7, 24), (13, 17)];
                for (n, first) in some {
                    let some = product_of(unit, ty, n_in, &rows, &x[first * n_in..][..n * n_in], 1);
                    assert_eq!(some, all[first * n_out..][..n * n_out], "{ty:?} {unit:?} n {n}");
                }
            }
        }
    }
}

/// A matrix in the layout of files, and its bytes.
fn matrix(
    memory: &Context,
    random: &mut Random,
    ty: WeightType,
    n_in: usize,
    n_out: usize,
) -> (Tensor, Vec<u8>) {
    (memory.tensor(tensor_type(ty), [n_in, n_out]), random_rows(random, ty, n_in, n_out))
}

#[test]
fn nodes_equal_ggml_products() {
    let mut random = Random::new(3);
    for ty in WeightType::ALL {
        for (n_in, n_out, n, threads) in [(512, 96, 33, 1), (1024, 70, 64, 2), (768, 32, 1, 3)] {
            let memory = Context::new(4);
            let (weights, bytes) = matrix(&memory, &mut random, ty, n_in, n_out);
            memory.allocate(&BufferType::cpu()).expect("memory");
            weights.write(0, &bytes).expect("weights");
            let ctx = Context::new(16);
            // Columns of a wider tensor: their strides are not those of a matrix.
            let wide = ctx.input("x", Type::F32, [n_in + 32, n]);
            let stride = wide.strides()[1];
            let x = ctx.view(&wide, [n_in, n], [stride; 3], 0);
            let ours = graph::multiply(&ctx, &weights, &x).output();
            let theirs = ctx.mul_mat(&weights, &x).output();
            let graph = ctx.graph(&[&ours, &theirs]).expect("a graph");
            let backend = Backend::cpu(threads).expect("the CPU");
            let mut allocator = GraphAllocator::new(&backend.buffer_type());
            let ready = allocator.prepare(graph).expect("memory");
            for repetition in 0..2 {
                wide.write(0, &normals(&mut random, (n_in + 32) * n)).expect("activations");
                backend.compute(&ready).expect("a result");
                let ours = ours.to_vec::<f32>().expect("floats");
                let theirs = theirs.to_vec::<f32>().expect("floats");
                let theirs: Vec<f64> = theirs.into_iter().map(f64::from).collect();
                let size = theirs.iter().map(|y| y * y).sum::<f64>().sqrt();
                let error = difference(&ours, &theirs) / size;
                // With minima and blocks of 32, ggml rounds the sums of activations to f16.
                let bound = if matches!(ty, WeightType::Q4_1 | WeightType::Q5_1) { 1e-4 } else { 1e-5 };
                assert!(error < bound, "{ty:?} [{n_in}, {n_out}] x {n}, {repetition}: error {error}");
            }
        }
    }
}
