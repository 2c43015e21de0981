//! The operations, as methods of the context that records them.
//!
//! Shapes in the comments are in ggml's order. Each operation checks the shapes that ggml would assert, and
//! that activations are f32. Weights may be of every type that [`Type::from_id`] gives and ggml multiplies.
//!
//! - [`attention`]: softmax, and attention in one operation;
//! - [`rows`]: rows of tables that are taken and written by number, and the memory of a tensor seen as something else.

mod attention;
mod rows;

use ggml_sys as sys;

pub use self::attention::Logits;

use crate::{Context, Operand, Shape, Tensor, Type};

/// Which pairs of a head's elements RoPE rotates together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeMode {
    /// Neighbours (2i, 2i+1): Llama files.
    Norm,
    /// Halves (i, i + n/2): GPT-NeoX, Qwen.
    Neox,
}

/// Parameters of rotary position embedding, YaRN included (Peng et al. 2023).
#[derive(Clone, Copy, Debug)]
pub struct RopeParameters {
    /// Number of rotated elements of a head.
    pub dims: usize,
    /// Pairing.
    pub mode: RopeMode,
    /// Base of the geometric series of frequencies.
    pub base: f32,
    /// Factor on the positions (1 / linear scaling factor).
    pub frequency_scale: f32,
    /// Context of the original training, for YaRN.
    pub original_context: usize,
    /// YaRN: mix of interpolation and extrapolation (0 = off).
    pub ext_factor: f32,
    /// Factor on the rotated vector's length.
    pub attention_factor: f32,
    /// YaRN: rotations above which a dimension is extrapolated.
    pub beta_fast: f32,
    /// YaRN: rotations below which a dimension is interpolated.
    pub beta_slow: f32,
}

/// Whether every extent of `small` divides that of `large`.
fn repeats(small: &Tensor, large: &Tensor) -> bool {
    small.shape().0.iter().zip(large.shape().0).all(|(s, l)| l.is_multiple_of(*s))
}

/// Whether `a` is what ggml's operations on activations take: f32, the elements of a row neighbours, and not
/// more elements than an i32 counts.
fn is_activation(a: &Tensor) -> bool {
    a.ty() == Type::F32 && a.has_dense_rows() && a.shape().elements() <= i32::MAX as usize
}

/// Whether all rows of `a` are equally far apart, as some of ggml's operations require.
fn has_even_rows(a: &Tensor) -> bool {
    let ([_, n1, n2, n3], [_, s1, s2, s3]) = (a.shape().0, a.strides());
    (n2 == 1 || s2 == s1 * n1) && (n3 == 1 || s3 == s1 * n1 * n2)
}

/// Whether ggml can scale `a`.
fn can_scale(a: &Tensor) -> bool {
    // ggml compares strides that mean nothing, those of single matrices, too.
    let ([_, n1, n2, _], [_, s1, s2, s3]) = (a.shape().0, a.strides());
    is_activation(a) && a.is_contiguous() && s2 == s1 * n1 && s3 == s2 * n2
}

/// Whether ggml can multiply `up` by a function of `gate`.
fn gates(gate: &Tensor, up: &Tensor) -> bool {
    // SAFETY: live descriptors, of which only what never changes is read.
    let contiguous = |a: &Tensor| unsafe { sys::ggml_is_contiguous_1(a.raw.as_ptr()) };
    let rows = |a: &Tensor| is_activation(a) && contiguous(a) && has_even_rows(a);
    gate.shape() == up.shape() && rows(gate) && rows(up)
}

/// Whether `a` is a contiguous vector of i32.
fn is_index(a: &Tensor) -> bool {
    a.ty() == Type::I32 && a.is_contiguous() && a.shape().0[1..] == [1; 3]
}

/// Whether `ids` `[k, n]` are the first `k` numbers of a ranking of `count` candidates for each of `n` tokens.
/// Such numbers are in range, and different for a token, whatever was ranked.
fn is_ranking(ids: &Tensor, count: usize) -> bool {
    // SAFETY: fields of a live descriptor that never change.
    let (op, candidates) = unsafe { ((*ids.root().as_ptr()).op, (*ids.root().as_ptr()).ne[0]) };
    // SAFETY: as above.
    let is_at_the_start = unsafe { (*ids.raw.as_ptr()).view_offs } == 0;
    let row = candidates as usize * size_of::<i32>();
    let [k, n, n2, n3] = ids.shape().0;
    op == sys::GGML_OP_ARGSORT
        && candidates as usize == count
        && ids.ty() == Type::I32
        && ids.has_dense_rows()
        && is_at_the_start
        && k <= count
        && (n == 1 || ids.strides()[1] == row)
        && (n2, n3) == (1, 1)
}

/// Up to here f32 has all whole numbers.
const MAX_WHOLE: i64 = 1 << 24;

const FLOATS: [Type; 3] = [Type::F32, Type::F16, Type::BF16];

/// Whether ggml can convert the elements of `from` to a new tensor of type `to`.
fn casts(from: &Tensor, to: Type) -> bool {
    let a = from.ty();
    match (a.block_elements(), to.block_elements()) {
        (1, 1) => {
            FLOATS.contains(&a) && FLOATS.contains(&to)
                || matches!((a, to), (Type::F32, Type::I32) | (Type::I32, Type::F32))
        }
        (1, block) => {
            FLOATS.contains(&a)
                && from.has_dense_rows()
                && from.dim(0).is_multiple_of(block)
                && to.takes_floats()
        }
        _ => to == Type::F32 && from.is_contiguous() && a.has_rows(),
    }
}

/// Whether ggml can copy and convert the elements of `from` to `to`, of which there are as many.
fn converts(from: &Tensor, to: &Tensor) -> bool {
    let (a, b) = (from.ty(), to.ty());
    let contiguous = from.is_contiguous() && to.is_contiguous();
    if a == b {
        return a.block_elements() == 1 || contiguous || from.shape() == to.shape();
    }
    let has_blocks = a.block_elements() > 1 || b.block_elements() > 1;
    casts(from, b) && (!has_blocks || to.is_contiguous())
}

impl Context {
    /// Matrix product: `a` [k, m, ...] and `b` [k, n, ...] give [m, n, ...] = aᵀ·b in f32; the outer
    /// dimensions of `a` are repeated to those of `b`.
    pub fn mul_mat(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let (x, y) = (a.shape().0, b.shape().0);
        let fits = x[0] == y[0]
            && y[2].is_multiple_of(x[2])
            && y[3].is_multiple_of(x[3])
            && a.ty().has_products()
            && a.has_dense_rows()
            && a.strides()[1] >= a.strides()[0]
            && is_activation(b);
        self.op("mul_mat", &[a, b], fits, |raw| {
            // SAFETY: live operands, shapes checked.
            unsafe { sys::ggml_mul_mat(raw, a.raw.as_ptr(), b.raw.as_ptr()) }
        })
    }

    /// The numbers of the `k` largest elements of each row of `scores` `[count, n]`, the largest first: `[k, n]`
    /// i32. NaN has no certain place among them.
    pub fn top_k(&self, scores: &Tensor, k: usize) -> Tensor {
        let [count, n, n2, n3] = scores.shape().0;
        let fits =
            is_activation(scores) && scores.is_contiguous() && k <= count && k > 0 && (n2, n3) == (1, 1);
        // Sorting needs numbers that can be compared. Those of a softmax can, or all of them are NaN.
        // SAFETY: a field of a live descriptor that never changes.
        let is_softmax = unsafe { (*scores.raw.as_ptr()).op } == sys::GGML_OP_SOFT_MAX;
        let scores = if is_softmax { scores.clone() } else { self.clamp(scores, f32::MAX) };
        let ranking = self.op("top_k", &[&scores], fits, |raw| {
            // SAFETY: a live operand with rows without gaps.
            unsafe { sys::ggml_argsort(raw, scores.raw.as_ptr(), sys::GGML_SORT_ORDER_DESC) }
        });
        let row = count * size_of::<i32>();
        self.view(&ranking, [k, n], [row, row * n, row * n], 0)
    }

    /// For each token the elements of `table` `[count, n]` at `ids` `[k, n]` of [`Context::top_k`]: `[1, k, n]`.
    pub fn get_ranked(&self, table: &Tensor, ids: &Tensor) -> Tensor {
        let [count, n, n2, n3] = table.shape().0;
        let fits = is_activation(table) && is_ranking(ids, count) && ids.dim(1) == n && (n2, n3) == (1, 1);
        let rows = self.reshape(table, [1, count, n]);
        self.read_ids(ids);
        self.op("get_ranked", &[&rows, ids], fits, |raw| {
            // SAFETY: live operands, shapes checked; the numbers are below `count`.
            unsafe { sys::ggml_get_rows(raw, rows.raw.as_ptr(), ids.raw.as_ptr()) }
        })
    }

    /// Products of `b` with chosen ones of `matrices` `[k, m, count]`: `[m, used, n]`. For each of n tokens `ids`
    /// `[used, n]`, a result of [`Context::top_k`], has the numbers of the matrices. `b` is `[k, used, n]`, or
    /// `[k, 1, n]` where all matrices of a token have the same column.
    pub fn mul_mat_id(&self, matrices: &Tensor, b: &Tensor, ids: &Tensor) -> Tensor {
        let (x, y) = (matrices.shape().0, b.shape().0);
        let fits = x[0] == y[0]
            && x[3] == 1
            && y[3] == 1
            && is_ranking(ids, x[2])
            && y[2] == ids.dim(1)
            && (y[1] == 1 || y[1] == ids.dim(0))
            && matrices.ty().has_products()
            && matrices.is_contiguous()
            && is_activation(b)
            && b.is_contiguous();
        self.read_ids(ids);
        self.op("mul_mat_id", &[matrices, b, ids], fits, |raw| {
            // SAFETY: live operands, shapes checked; the ids are numbers of matrices, different for a token.
            unsafe { sys::ggml_mul_mat_id(raw, matrices.raw.as_ptr(), b.raw.as_ptr(), ids.raw.as_ptr()) }
        })
    }

    /// `a` `[m, used, n]` plus, for each token, the chosen rows of `rows` `[m, count]`; `ids` `[used, n]` of
    /// [`Context::top_k`].
    pub fn add_id(&self, a: &Tensor, rows: &Tensor, ids: &Tensor) -> Tensor {
        let [m, used, n, outer] = a.shape().0;
        let fits = is_activation(a)
            && a.is_contiguous()
            && is_activation(rows)
            && rows.is_contiguous()
            && rows.shape().0 == [m, rows.dim(1), 1, 1]
            && is_ranking(ids, rows.dim(1))
            && ids.shape().0 == [used, n, 1, 1]
            && outer == 1;
        self.read_ids(ids);
        self.op("add_id", &[a, rows, ids], fits, |raw| {
            // SAFETY: live operands, shapes checked; the ids are numbers of rows.
            unsafe { sys::ggml_add_id(raw, a.raw.as_ptr(), rows.raw.as_ptr(), ids.raw.as_ptr()) }
        })
    }

    /// Remembers that an operation relies on these numbers: the graph may not write to them.
    fn read_ids(&self, ids: &Tensor) {
        self.inner.write().parts.rankings.push(ids.raw);
    }

    /// As [`Context::mul_mat`], in f32 throughout also on devices that would add up in f16 otherwise.
    pub fn mul_mat_precise(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let product = self.mul_mat(a, b);
        if self.check().is_err() {
            return product;
        }
        // SAFETY: a product that was just recorded.
        product.change(|raw| unsafe { sys::ggml_mul_mat_set_prec(raw, sys::GGML_PREC_F32) })
    }

    /// The product of each row of `b` `[n, ...]` f32, contiguous, with `matrix` `[n, n]` f32: Sylvester's Hadamard matrix of a
    /// power of two, scaled to be orthonormal. ggml's backends have a fast transform for it and do not read the matrix.
    /// Where they have none for this `n`, they multiply: on NVIDIA GPUs below [`CUDA_HADAMARD`], by cuBLAS.
    ///
    /// [`CUDA_HADAMARD`]: Self::CUDA_HADAMARD
    pub fn mul_hadamard(&self, matrix: &Tensor, b: &Tensor) -> Tensor {
        let n = matrix.dim(0);
        let fits = n.is_power_of_two()
            && matrix.shape().0 == [n, n, 1, 1]
            && (matrix.ty(), b.ty()) == (Type::F32, Type::F32)
            && b.dim(0) == n
            && b.is_contiguous();
        self.op("mul_hadamard", &[matrix, b], fits, |raw| {
            // SAFETY: live operands, shapes checked; the product was just recorded.
            unsafe {
                let product = sys::ggml_mul_mat(raw, matrix.raw.as_ptr(), b.raw.as_ptr());
                sys::ggml_mul_mat_set_hint(product, sys::GGML_HINT_SRC0_IS_HADAMARD);
                product
            }
        })
    }

    /// The smallest matrix of [`Context::mul_hadamard`] that ggml's CUDA has a fast transform for.
    pub const CUDA_HADAMARD: usize = 64;

    /// a + b, `b` repeated to the shape of `a`.
    pub fn add(&self, a: &Tensor, b: &Tensor) -> Tensor {
        self.op("add", &[a, b], repeats(b, a) && is_activation(a) && b.ty() == Type::F32, |raw| {
            // SAFETY: live operands, shapes checked.
            unsafe { sys::ggml_add(raw, a.raw.as_ptr(), b.raw.as_ptr()) }
        })
    }

    /// a - b element by element, `b` repeated to the shape of `a`.
    pub fn sub(&self, a: &Tensor, b: &Tensor) -> Tensor {
        self.op("sub", &[a, b], repeats(b, a) && is_activation(a) && b.ty() == Type::F32, |raw| {
            // SAFETY: live operands, shapes checked.
            unsafe { sys::ggml_sub(raw, a.raw.as_ptr(), b.raw.as_ptr()) }
        })
    }

    /// a · b element by element, `b` repeated to the shape of `a`.
    pub fn mul(&self, a: &Tensor, b: &Tensor) -> Tensor {
        self.op("mul", &[a, b], repeats(b, a) && is_activation(a) && b.ty() == Type::F32, |raw| {
            // SAFETY: live operands, shapes checked.
            unsafe { sys::ggml_mul(raw, a.raw.as_ptr(), b.raw.as_ptr()) }
        })
    }

    /// a / b element by element, `b` repeated to the shape of `a`.
    pub fn div(&self, a: &Tensor, b: &Tensor) -> Tensor {
        self.op("div", &[a, b], repeats(b, a) && is_activation(a) && b.ty() == Type::F32, |raw| {
            // SAFETY: live operands, shapes checked.
            unsafe { sys::ggml_div(raw, a.raw.as_ptr(), b.raw.as_ptr()) }
        })
    }

    /// a · factor.
    pub fn scale(&self, a: &Tensor, factor: f32) -> Tensor {
        self.op("scale", &[a], can_scale(a), |raw| {
            // SAFETY: live operand, layout checked.
            unsafe { sys::ggml_scale(raw, a.raw.as_ptr(), factor) }
        })
    }

    /// a · factor + summand.
    pub fn scale_add(&self, a: &Tensor, factor: f32, summand: f32) -> Tensor {
        self.op("scale_add", &[a], can_scale(a), |raw| {
            // SAFETY: live operand, layout checked.
            unsafe { sys::ggml_scale_bias(raw, a.raw.as_ptr(), factor, summand) }
        })
    }

    /// a / rms(a) along the first dimension.
    pub fn rms_norm(&self, a: &Tensor, epsilon: f32) -> Tensor {
        self.op("rms_norm", &[a], is_activation(a) && epsilon >= 0.0, |raw| {
            // SAFETY: live operand.
            unsafe { sys::ggml_rms_norm(raw, a.raw.as_ptr(), epsilon) }
        })
    }

    /// (a - mean(a)) / sqrt(variance(a) + epsilon) along the first dimension.
    pub fn layer_norm(&self, a: &Tensor, epsilon: f32) -> Tensor {
        self.op("layer_norm", &[a], is_activation(a) && epsilon >= 0.0, |raw| {
            // SAFETY: live operand.
            unsafe { sys::ggml_norm(raw, a.raw.as_ptr(), epsilon) }
        })
    }

    /// silu(gate) · up.
    pub fn swiglu(&self, gate: &Tensor, up: &Tensor) -> Tensor {
        self.op("swiglu", &[gate, up], gates(gate, up), |raw| {
            // SAFETY: live operands of equal shape.
            unsafe { sys::ggml_swiglu_split(raw, gate.raw.as_ptr(), up.raw.as_ptr()) }
        })
    }

    /// gelu(gate) · up, with the GELU of [`Context::gelu`].
    pub fn geglu(&self, gate: &Tensor, up: &Tensor) -> Tensor {
        self.op("geglu", &[gate, up], gates(gate, up), |raw| {
            // SAFETY: live operands of equal shape.
            unsafe { sys::ggml_geglu_split(raw, gate.raw.as_ptr(), up.raw.as_ptr()) }
        })
    }

    /// silu, steeper by 1.702, of min(gate, limit), times up + 1, where up is bounded to -limit..=limit (gpt-oss).
    pub fn swiglu_oai(&self, gate: &Tensor, up: &Tensor, limit: f32) -> Tensor {
        const SLOPE: f32 = 1.702;
        self.op("swiglu_oai", &[gate, up], gates(gate, up), |raw| {
            // SAFETY: live operands of equal shape.
            unsafe { sys::ggml_swiglu_oai(raw, gate.raw.as_ptr(), up.raw.as_ptr(), SLOPE, limit) }
        })
    }

    /// 1 / (1 + e^-a).
    pub fn sigmoid(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("sigmoid", a, |raw, a| unsafe { sys::ggml_sigmoid(raw, a) })
    }

    /// a / (1 + e^-a).
    pub fn silu(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("silu", a, |raw, a| unsafe { sys::ggml_silu(raw, a) })
    }

    /// ln(1 + e^a).
    pub fn softplus(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("softplus", a, |raw, a| unsafe { sys::ggml_softplus(raw, a) })
    }

    /// GELU, approximated by tanh. The CPU looks it up in a table of f16.
    pub fn gelu(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("gelu", a, |raw, a| unsafe { sys::ggml_gelu(raw, a) })
    }

    /// GELU with the error function.
    pub fn gelu_erf(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("gelu_erf", a, |raw, a| unsafe { sys::ggml_gelu_erf(raw, a) })
    }

    /// max(a, 0).
    pub fn relu(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("relu", a, |raw, a| unsafe { sys::ggml_relu(raw, a) })
    }

    /// a².
    pub fn square(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("square", a, |raw, a| unsafe { sys::ggml_sqr(raw, a) })
    }

    /// The square root of a.
    pub fn sqrt(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("sqrt", a, |raw, a| unsafe { sys::ggml_sqrt(raw, a) })
    }

    /// The natural logarithm of a; `-inf` for 0.
    pub fn log(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("log", a, |raw, a| unsafe { sys::ggml_log(raw, a) })
    }

    /// The absolute value of a.
    pub fn abs(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("abs", a, |raw, a| unsafe { sys::ggml_abs(raw, a) })
    }

    /// -a.
    pub fn neg(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("neg", a, |raw, a| unsafe { sys::ggml_neg(raw, a) })
    }

    /// 1 where a is above 0, otherwise 0.
    pub fn step(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("step", a, |raw, a| unsafe { sys::ggml_step(raw, a) })
    }

    /// tanh(a).
    pub fn tanh(&self, a: &Tensor) -> Tensor {
        // SAFETY: a live operand.
        self.unary("tanh", a, |raw, a| unsafe { sys::ggml_tanh(raw, a) })
    }

    /// a, bounded to -bound..=bound.
    pub fn clamp(&self, a: &Tensor, bound: f32) -> Tensor {
        // SAFETY: a live operand.
        self.unary("clamp", a, |raw, a| unsafe { sys::ggml_clamp(raw, a, -bound, bound) })
    }

    /// max(a, bound).
    pub fn at_least(&self, a: &Tensor, bound: f32) -> Tensor {
        // SAFETY: a live operand.
        self.unary("at_least", a, |raw, a| unsafe { sys::ggml_clamp(raw, a, bound, f32::INFINITY) })
    }

    /// An operation on each element of a contiguous tensor.
    fn unary(
        &self,
        name: &'static str,
        a: &Tensor,
        make: impl FnOnce(*mut sys::ggml_context, *mut sys::ggml_tensor) -> *mut sys::ggml_tensor,
    ) -> Tensor {
        let fits = is_activation(a) && a.is_contiguous() && has_even_rows(a);
        self.op(name, &[a], fits, |raw| make(raw, a.raw.as_ptr()))
    }

    /// A convolution of each channel over time: `x` `[kernel - 1 + n, channels]` and weights `kernels` `[kernel,
    /// channels]` give `[channels, n]`, f32. GPUs have it for the kernel sizes of [`Context::CONV_KERNELS`] only.
    pub fn ssm_conv(&self, x: &Tensor, kernels: &Tensor) -> Tensor {
        let ([columns, channels, outer, _], [kernel, ..]) = (x.shape().0, kernels.shape().0);
        let fits = is_activation(x)
            && x.is_contiguous()
            && is_activation(kernels)
            && kernels.is_contiguous()
            && kernels.shape() == Shape::from([kernel, channels])
            && x.shape() == Shape::from([columns, channels])
            && outer == 1
            && Context::CONV_KERNELS.contains(&kernel)
            && columns >= kernel;
        self.op("ssm_conv", &[x, kernels], fits, |raw| {
            // SAFETY: live operands, shapes checked.
            unsafe { sys::ggml_ssm_conv(raw, x.raw.as_ptr(), kernels.raw.as_ptr()) }
        })
    }

    /// The kernel sizes of [`Context::ssm_conv`].
    pub const CONV_KERNELS: [usize; 5] = [3, 4, 5, 9, 15];

    /// The head sizes of [`Context::gated_delta_net`].
    pub const DELTA_NET_HEADS: [usize; 4] = [16, 32, 64, 128];

    /// The gated delta rule (Yang et al. 2024, arXiv 2412.06464, eq. 10). `q` and `k` are `[d, key_heads, n]`, `v`
    /// `[d, heads, n]`, `log_decay` and `beta` `[1, heads, n]`, and `state` `[d, d, heads]` is the state before the
    /// first token. Value head i uses key head i modulo `key_heads`. Queries are divided by sqrt(d).
    /// Gives `[d * heads, n + d]`: the outputs `[d, heads, n]`, and behind them the state after the last token.
    pub fn gated_delta_net(
        &self,
        [q, k, v]: [&Tensor; 3],
        log_decay: &Tensor,
        beta: &Tensor,
        state: &Tensor,
    ) -> Tensor {
        let ([d, heads, n, outer], key_heads) = (v.shape().0, q.dim(1));
        let contiguous = |a: &Tensor| is_activation(a) && a.is_contiguous();
        let fits = Context::DELTA_NET_HEADS.contains(&d)
            && outer == 1
            && [q, k, v].iter().all(|a| is_activation(a))
            && [q, k].iter().all(|a| a.shape() == Shape::from([d, key_heads, n]))
            && q.strides() == k.strides()
            && heads.is_multiple_of(key_heads)
            && [log_decay, beta].iter().all(|a| contiguous(a) && a.shape() == Shape::from([1, heads, n]))
            && contiguous(state)
            && state.shape() == Shape::from([d, d, heads])
            && (d * heads).checked_mul(n + d).is_some_and(|elements| elements <= i32::MAX as usize);
        self.op("gated_delta_net", &[q, k, v, log_decay, beta, state], fits, |raw| {
            // SAFETY: live operands, shapes checked; only the last state is wanted.
            unsafe {
                let [q, k, v] = [q, k, v].map(|a| a.raw.as_ptr());
                let (decay, beta, state) = (log_decay.raw.as_ptr(), beta.raw.as_ptr(), state.raw.as_ptr());
                sys::ggml_gated_delta_net(raw, q, k, v, decay, beta, state, 1)
            }
        })
    }

    /// Rotary position embedding of `a` [head_dim, heads, n] at `positions` `[n]` (i32); `factors`
    /// [dims / 2] divide the frequencies (Llama 3.1).
    pub fn rope(
        &self,
        a: &Tensor,
        positions: &Tensor,
        factors: Option<&Tensor>,
        p: &RopeParameters,
    ) -> Tensor {
        let fits = is_activation(a)
            && a.dim(2) == positions.dim(0)
            && is_index(positions)
            && (2..=a.dim(0)).contains(&p.dims)
            && p.dims.is_multiple_of(2)
            && i32::try_from(p.original_context).is_ok()
            && factors.is_none_or(|f| f.dim(0) >= p.dims / 2 && is_activation(f));
        let mode = match p.mode {
            RopeMode::Norm => sys::GGML_ROPE_TYPE_NORMAL,
            RopeMode::Neox => sys::GGML_ROPE_TYPE_NEOX,
        };
        let mut inputs = vec![a, positions];
        inputs.extend(factors);
        self.op("rope", &inputs, fits, |raw| {
            let factors = factors.map_or(std::ptr::null_mut(), |f| f.raw.as_ptr());
            // SAFETY: live operands, shapes checked; a null `factors` means none.
            unsafe {
                sys::ggml_rope_ext(
                    raw,
                    a.raw.as_ptr(),
                    positions.raw.as_ptr(),
                    factors,
                    p.dims as i32,
                    mode as i32,
                    p.original_context as i32,
                    p.base,
                    p.frequency_scale,
                    p.ext_factor,
                    p.attention_factor,
                    p.beta_fast,
                    p.beta_slow,
                )
            }
        })
    }

    /// Sums along the first dimension: [n, ...] to [1, ...].
    pub fn sum_rows(&self, a: &Tensor) -> Tensor {
        self.op("sum_rows", &[a], is_activation(a), |raw| {
            // SAFETY: live operand.
            unsafe { sys::ggml_sum_rows(raw, a.raw.as_ptr()) }
        })
    }

    /// Means along the first dimension: [n, ...] to [1, ...].
    pub fn mean(&self, a: &Tensor) -> Tensor {
        self.op("mean", &[a], is_activation(a), |raw| {
            // SAFETY: live operand.
            unsafe { sys::ggml_mean(raw, a.raw.as_ptr()) }
        })
    }

    /// The maximum of each `n` neighbours along the first dimension: [n * m, ...] to [m, ...].
    pub fn max_of(&self, a: &Tensor, n: usize) -> Tensor {
        let length = i32::try_from(n).ok().filter(|n| *n > 0);
        let fits = is_activation(a)
            && a.is_contiguous()
            && has_even_rows(a)
            && length.is_some()
            && a.dim(0).is_multiple_of(n.max(1));
        self.op("max_of", &[a], fits, |raw| {
            let n = length.unwrap_or(1);
            // SAFETY: a live operand, whose rows are whole numbers of n elements.
            unsafe { sys::ggml_pool_1d(raw, a.raw.as_ptr(), sys::GGML_OP_POOL_MAX, n, n, 0) }
        })
    }

    /// The whole numbers `first`, `first` + 1, ... as f32 `[n]`, all of them below 2^24 and above -2^24, so that f32
    /// has them.
    pub fn arange(&self, first: i32, n: usize) -> Tensor {
        let end = i64::try_from(n).ok().and_then(|n| i64::from(first).checked_add(n));
        let exact = -MAX_WHOLE..=MAX_WHOLE;
        let fits = n > 0 && exact.contains(&i64::from(first)) && end.is_some_and(|end| exact.contains(&end));
        self.record("arange", &[("f32", Shape::from([n]))], &[], fits, |raw| {
            let end = end.unwrap_or(1);
            // SAFETY: the end is behind the start, and all numbers between are exact.
            unsafe { sys::ggml_arange(raw, first as f32, end as f32, 1.0) }
        })
    }

    /// The elements of `a` as another type. f32 becomes i32 by dropping what is behind the point.
    pub fn cast(&self, a: &Tensor, ty: Type) -> Tensor {
        let shape = a.shape();
        let fits = shape.bytes(ty).is_some() && shape.elements() <= i32::MAX as usize && casts(a, ty);
        self.op("cast", &[a], fits, |raw| {
            // SAFETY: a live operand, whose type and layout ggml can convert.
            unsafe { sys::ggml_cast(raw, a.raw.as_ptr(), ty.raw()) }
        })
    }

    /// `a` [n, m, ...] as [m, n, ...] without gaps. Types with blocks cannot be transposed.
    pub fn transposed(&self, a: &Tensor) -> Tensor {
        self.cont(&self.permute(a, [1, 0, 2, 3]))
    }

    /// Another shape over the same elements; `a` must be contiguous.
    pub fn reshape(&self, a: &Tensor, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let elements = a.shape().elements() == shape.elements();
        let fits = a.is_contiguous() && elements && shape.bytes(a.ty()).is_some();
        let [n0, n1, n2, n3] = shape.0.map(|n| n as i64);
        self.op("reshape", &[a], fits, |raw| {
            // SAFETY: live contiguous operand with as many elements.
            unsafe { sys::ggml_reshape_4d(raw, a.raw.as_ptr(), n0, n1, n2, n3) }
        })
    }

    /// A window into `a`: extents, strides in bytes of dimensions 1 to 3, offset in bytes.
    pub fn view(&self, a: &Tensor, shape: impl Into<Shape>, strides: [usize; 3], offset: usize) -> Tensor {
        let shape = shape.into();
        let row = (shape.0[0] / a.ty().block_elements()).saturating_mul(a.ty().block_bytes());
        let outer = (1..4).map(|i| shape.0[i].saturating_sub(1).saturating_mul(strides[i - 1]));
        let extent = outer.fold(row, usize::saturating_add);
        let inside = |bytes: usize| offset.checked_add(bytes).is_some_and(|end| end <= a.bytes());
        let whole = |bytes: &usize| bytes.is_multiple_of(a.ty().block_bytes());
        // ggml also requires room for the elements without gaps.
        let fits = whole(&offset)
            && strides.iter().all(whole)
            && inside(extent)
            && shape.bytes(a.ty()).is_some_and(inside);
        let [n0, n1, n2, n3] = shape.0.map(|n| n as i64);
        let [s1, s2, s3] = strides;
        self.op("view", &[a], fits, |raw| {
            // SAFETY: the window lies inside the live operand (checked).
            unsafe { sys::ggml_view_4d(raw, a.raw.as_ptr(), n0, n1, n2, n3, s1, s2, s3, offset) }
        })
    }

    /// Rows `[first, first + n)` of dimension 1: [d, rows, ...] to [d, n, ...].
    pub fn rows(&self, a: &Tensor, first: usize, n: usize) -> Tensor {
        let [d, _, n2, n3] = a.shape().0;
        let [_, s1, s2, s3] = a.strides();
        self.view(a, [d, n, n2, n3], [s1, s2, s3], first.saturating_mul(s1))
    }

    /// Dimension i of `a` becomes dimension `order[i]` of the result. The first dimension of types with blocks
    /// stays the first.
    pub fn permute(&self, a: &Tensor, order: [usize; 4]) -> Tensor {
        let mut sorted = order;
        sorted.sort_unstable();
        let fits = sorted == [0, 1, 2, 3] && (order[0] == 0 || a.ty().block_elements() == 1);
        let [o0, o1, o2, o3] = order.map(|n| n as i32);
        self.op("permute", &[a], fits, |raw| {
            // SAFETY: live operand, a true permutation.
            unsafe { sys::ggml_permute(raw, a.raw.as_ptr(), o0, o1, o2, o3) }
        })
    }

    /// The rows of `a` [d, ...], each followed by the row of `b` [e, ...] at the same place: [d + e, ...].
    pub fn concat(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let ([d, n1, n2, n3], [e, ..]) = (a.shape().0, b.shape().0);
        let fits = [a, b].iter().all(|part| part.ty() == Type::F32)
            && a.shape().0[1..] == b.shape().0[1..]
            && d.checked_add(e).is_some_and(|sum| Shape([sum, n1, n2, n3]).bytes(Type::F32).is_some());
        self.op("concat", &[a, b], fits, |raw| {
            // SAFETY: live operands, whose shapes differ in the first extent only.
            unsafe { sys::ggml_concat(raw, a.raw.as_ptr(), b.raw.as_ptr(), 0) }
        })
    }

    /// `a` [d, ...] with `more` zeros behind each row: [d + more, ...].
    pub fn pad(&self, a: &Tensor, more: usize) -> Tensor {
        let [d, n1, n2, n3] = a.shape().0;
        let shape = d.checked_add(more).map(|sum| Shape([sum, n1, n2, n3]));
        let fits = is_activation(a)
            && a.is_contiguous()
            && i32::try_from(more).is_ok()
            && shape.is_some_and(|shape| shape.bytes(Type::F32).is_some());
        self.op("pad", &[a], fits, |raw| {
            // SAFETY: a live contiguous operand, and a result that is not too large.
            unsafe { sys::ggml_pad(raw, a.raw.as_ptr(), more as i32, 0, 0, 0) }
        })
    }

    /// `a` `[d, 1, ...]` `n` times along the second dimension: `[d, n, ...]`.
    pub fn repeat(&self, a: &Tensor, n: usize) -> Tensor {
        let [d, one, n2, n3] = a.shape().0;
        let shape = Shape([d, n, n2, n3]);
        let fits = is_activation(a) && a.is_contiguous() && one == 1 && shape.bytes(Type::F32).is_some();
        self.op("repeat", &[a], fits, |raw| {
            let [n0, n1, n2, n3] = shape.0.map(|n| n as i64);
            // SAFETY: a live operand, whose extents divide those of the result.
            unsafe { sys::ggml_repeat_4d(raw, a.raw.as_ptr(), n0, n1, n2, n3) }
        })
    }

    /// A contiguous copy.
    pub fn cont(&self, a: &Tensor) -> Tensor {
        self.op("cont", &[a], true, |raw| {
            // SAFETY: live operand.
            unsafe { sys::ggml_cont(raw, a.raw.as_ptr()) }
        })
    }

    /// A contiguous copy with which a stage of the graph ends: before the next stage the caller may read it and
    /// write other numbers to it. See [`ReadyGraph::into_stages`](crate::ReadyGraph::into_stages).
    pub fn exchange(&self, a: &Tensor) -> Tensor {
        let copy = self.cont(a).named("exchange");
        self.inner.write().parts.exchanges.push(copy.raw);
        copy
    }

    /// Copies the elements of `from` to `to`, which has as many, and converts them to its type. Returns `to`,
    /// as operand for what must come after. `to` may not lie in read-only memory, nor share memory with
    /// `from`.
    pub fn copy(&self, from: &Tensor, to: &Tensor) -> Tensor {
        let elements = from.shape().elements();
        let fits = elements == to.shape().elements() && elements <= i32::MAX as usize && converts(from, to);
        self.op_using("copy", &[Operand::Read(from), Operand::Write(to)], fits, |raw| {
            // SAFETY: live operands with as many elements, of types and layouts that ggml can convert.
            unsafe { sys::ggml_cpy(raw, from.raw.as_ptr(), to.raw.as_ptr()) }
        })
    }
}
