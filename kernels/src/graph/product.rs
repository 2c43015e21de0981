//! Nodes of products of quantised matrices. One node quantises the activations, the other multiplies; ggml's barrier is
//! between them.

use ggml::{Context, CustomTask, RawTensor, Tensor, Type};

use super::operands::{CpuNode, Operands, TensorAt};
use super::progress::Progress;
use crate::product::{self, Product, Unit, WeightType, column_words};

/// The number of columns from which [`multiply`] multiplies by panels and is faster than ggml's product on this processor, for
/// the types where that was measured. Unpacking takes a larger share with few columns. With AVX-512 and 32 columns, q4_K, q5_K
/// and iq4_xs had 0.6 of ggml's speed on Zen 5, and 1.4 with 512. All others are faster with 32 columns (iq4_xs with AVX2: 1.24).
/// On ARM no time was measured; 64 is a guess from instructions that QEMU counted.
fn min_columns(ty: WeightType) -> Option<usize> {
    match (Unit::best(), ty) {
        (Unit::Plain, _) => None,
        #[cfg(target_arch = "x86_64")]
        (Unit::Avx512Vnni, WeightType::Q4K | WeightType::Q5K | WeightType::Iq4Xs) => Some(512),
        #[cfg(target_arch = "aarch64")]
        (Unit::NeonDot | Unit::Neon, _) => Some(64),
        #[cfg(target_arch = "x86_64")]
        _ => Some(32),
    }
}

/// The number of columns up to which [`multiply`] is faster than ggml's product on this processor, from two columns on. One
/// takes 1.0 to 1.3 times as long as with ggml. 0 where that was not measured: on processors with AVX-VNNI or AVX-512, which
/// ggml uses, too.
fn max_few_columns() -> usize {
    #[cfg(target_arch = "x86_64")]
    if Unit::best() == Unit::Avx2 && crate::Isa::best() == crate::Isa::Avx2 {
        return product::MAX_FEW_COLUMNS;
    }
    0
}

/// Whether [`multiply`] is faster than ggml's product for matrices of this type with many columns.
pub fn multiplies_many(ty: Type) -> bool {
    WeightType::from_name(ty.name()).and_then(min_columns).is_some()
}

/// Whether matrices of this type need no other layout than that of files: [`multiply`] is faster with several columns, and
/// ggml's product is as fast with one. With q4_0 and iq4_nl the other layout is 1.2 times as fast with one column.
pub fn multiplies_few(ty: Type) -> bool {
    let ty = WeightType::from_name(ty.name());
    ty.is_some_and(|ty| !matches!(ty, WeightType::Q4_0 | WeightType::Iq4Nl)) && max_few_columns() > 0
}

/// Whether [`multiply`] takes the matrix `[n_in, n_out]`, and is faster than ggml's product with `n` columns.
pub fn multiplies(matrix: &Tensor, n: usize) -> bool {
    let is_faster = |ty| (2..=max_few_columns()).contains(&n) || min_columns(ty).is_some_and(|min| n >= min);
    weight_type(matrix).is_some_and(is_faster)
}

/// The type of a matrix in the layout of files, without gaps, that the kernels know.
fn weight_type(matrix: &Tensor) -> Option<WeightType> {
    let ty = WeightType::from_name(matrix.ty().name())?;
    let [n_in, n_out, others @ ..] = matrix.shape().0;
    let fits = n_in > 0 && n_out > 0 && n_in.is_multiple_of(ty.block_elements()) && others == [1, 1];
    (fits && matrix.is_contiguous() && !matrix.is_repacked()).then_some(ty)
}

/// The product of `matrix` `[n_in, n_out]` and activations `x` `[n_in, n]` f32, on the CPU: `[n_out, n]` f32.
pub fn multiply(ctx: &Context, matrix: &Tensor, x: &Tensor) -> Tensor {
    multiply_by(Unit::best(), ctx, matrix, x)
}

/// [`multiply`] by one of this processor's units.
pub fn multiply_by(unit: Unit, ctx: &Context, matrix: &Tensor, x: &Tensor) -> Tensor {
    let ([n_in, n_out, ..], columns) = (matrix.shape().0, x.shape().0);
    let n = columns[1];
    let is_activation =
        x.ty() == Type::F32 && columns == [n_in, n, 1, 1] && x.strides()[0] == size_of::<f32>();
    let (Some(ty), true) = (weight_type(matrix), is_activation) else {
        return ctx.refuse("multiply", format!("the product of {matrix:?} and {x:?}"));
    };
    let words = column_words(ty, n_in);
    let mut operands = Operands::default();
    let node = Quantize { x: operands.read(x), unit, ty, n_in, n };
    let quantized = operands.cpu_node(ctx, Type::I32, [words, n], node);
    let mut operands = Operands::default();
    let node = Multiply {
        matrix: operands.read(matrix),
        columns: operands.read(&quantized),
        unit,
        ty,
        n_in,
        progress: Progress::default(),
    };
    operands.cpu_node(ctx, Type::F32, [n_out, n], node)
}

/// The node that quantises activations.
struct Quantize {
    /// `[n_in, n]` f32
    x: TensorAt,
    unit: Unit,
    /// The type of the matrix.
    ty: WeightType,
    n_in: usize,
    n: usize,
}

impl CpuNode for Quantize {
    fn on_cpu(&self, task: &CustomTask) {
        let Quantize { unit, ty, n_in, n, .. } = *self;
        let words = column_words(ty, n_in);
        let (x, to) = (self.x.of(task), task.result());
        for column in (task.thread..n).step_by(task.threads) {
            // SAFETY: columns are inside both tensors, whose rows have no gaps; each is written by one thread.
            let (x, to) = unsafe {
                let x = x.data.add(column * x.strides[1]).cast::<f32>();
                let to = to.data.cast::<u32>().add(column * words);
                (std::slice::from_raw_parts(x, n_in), std::slice::from_raw_parts_mut(to, words))
            };
            product::quantize(unit, ty, x, to);
        }
    }
}

/// The node that multiplies.
struct Multiply {
    /// `[n_in, n_out]`
    matrix: TensorAt,
    /// `[words, n]`: the quantised activations.
    columns: TensorAt,
    unit: Unit,
    ty: WeightType,
    n_in: usize,
    progress: Progress,
}

impl CpuNode for Multiply {
    fn on_cpu(&self, task: &CustomTask) {
        let Multiply { unit, ty, n_in, .. } = *self;
        let share = self.progress.share(task.threads);
        // SAFETY: the tensors have no gaps (`weight_type`, and results have none); nothing writes to them meanwhile.
        let (rows, columns) = unsafe { (elements(self.matrix.of(task)), elements(self.columns.of(task))) };
        let product = Product { ty, n_in, rows, columns };
        // SAFETY: the result is [n_out, n] f32, written by this node's threads only, which share the counter.
        unsafe { product::multiply(unit, &product, share.next(), task.threads, task.result().data.cast()) };
    }
}

/// All elements of a matrix.
///
/// # Safety
/// It has no gaps, its elements are T or blocks of bytes, and nothing writes to it while the slice is used.
unsafe fn elements<'a, T>(tensor: RawTensor) -> &'a [T] {
    let bytes = tensor.strides[1] * tensor.shape[1];
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(tensor.data.cast(), bytes / size_of::<T>()) }
}
