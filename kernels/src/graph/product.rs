//! Nodes of products of quantised matrices. One node quantises the activations, the other multiplies; ggml's barrier is
//! between them.

use ggml::{Context, CustomTask, RawTensor, Tensor, Type};

use super::operands::{CpuNode, Operands, TensorAt};
use super::progress::Progress;
#[cfg(target_arch = "x86_64")]
use crate::Isa;
use crate::product::{self, Product, Unit, WeightType, column_words};

/// The number of columns from which [`multiply`] is faster than ggml's product of the file's layout on this processor, where that
/// was measured. With AVX-512 and VNNI one column is included. There q6_K and q8_0 are as fast as with ggml in a matrix that a
/// cache holds, and have 0.85 of its speed in others. In return an answer alone has the same bits as beside others, unless
/// another layout is used for it. On ARM no time was measured; 64 is a guess from instructions that QEMU counted, without those of
/// ggml's own matrix-multiply instructions (i8mm).
fn min_columns() -> Option<usize> {
    match Unit::best() {
        Unit::Plain => None,
        #[cfg(target_arch = "x86_64")]
        Unit::Avx512Vnni => Some(1),
        // ggml uses AVX-512 here, and the kernels do not.
        #[cfg(target_arch = "x86_64")]
        Unit::Avx2 if Isa::best() == Isa::Avx512 => Some(32),
        #[cfg(target_arch = "x86_64")]
        Unit::Avx2 => Some(2),
        // One column is ggml's. Fewer would make an answer beside others differ in rounding from one alone.
        #[cfg(target_arch = "x86_64")]
        Unit::AvxVnni => Some(32),
        #[cfg(target_arch = "aarch64")]
        Unit::NeonMatrix | Unit::NeonDot | Unit::Neon => Some(64),
    }
}

/// Whether [`multiply`] is faster than ggml's product with so many columns.
pub fn multiplies_columns(n: usize) -> bool {
    min_columns().is_some_and(|min| n >= min)
}

/// Whether [`multiply`] is faster than ggml's product for matrices of this type with many columns.
pub fn multiplies_many(ty: Type) -> bool {
    WeightType::from_name(ty.name()).is_some() && min_columns().is_some()
}

/// Whether matrices of this type need no other layout than that of files: [`multiply`] is faster with several columns, and
/// with one, it or ggml's product is as fast. With q4_0, iq4_nl and one column the other layout is 1.2 times as fast, with
/// AVX-512 also with q4_K. With AVX-VNNI that was not measured.
pub fn multiplies_few(ty: Type) -> bool {
    let Some(ty) = WeightType::from_name(ty.name()) else { return false };
    match (Unit::best(), ty) {
        #[cfg(target_arch = "x86_64")]
        (Unit::Avx512Vnni, ty) => !matches!(ty, WeightType::Q4K | WeightType::Q4_0 | WeightType::Iq4Nl),
        #[cfg(target_arch = "x86_64")]
        (Unit::Avx2, ty) => Isa::best() == Isa::Avx2 && !matches!(ty, WeightType::Q4_0 | WeightType::Iq4Nl),
        _ => false,
    }
}

/// Whether [`multiply`] takes the matrix `[n_in, n_out]`, and is faster than ggml's product with `n` columns.
pub fn multiplies(matrix: &Tensor, n: usize) -> bool {
    weight_type(matrix).is_some() && multiplies_columns(n)
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
