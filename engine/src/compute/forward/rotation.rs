//! Rows of four bits are stored rotated. Blocks of 32 numbers have one scale, so a channel with large numbers takes the
//! precision of its neighbours. A Hadamard matrix spreads each channel over many (QuaRot, arXiv 2404.00456). Queries
//! are rotated as keys are, which leaves their products as they were, and what comes of the values is rotated back.
//!
//! Norms of rows stay what they were. LagKV and SlimKV look at single elements, and see rotated ones. Keys are rotated
//! without their offset (`key_offset`).

use std::cell::RefCell;

use ggml::{Context, Tensor, Type};
use kernels::RowType;
use kernels::graph::{GraphLane, row_type};

use crate::kv::Layout;

/// Numbers that are mixed with each other, at most. Larger matrices cost more and gain nothing for values.
const MAX_KEY_SIZE: usize = 128;
const MAX_VALUE_SIZE: usize = 64;

/// The matrices of one graph, by their size.
#[derive(Default)]
pub(super) struct Rotations(RefCell<Vec<Tensor>>);

/// How the rows of a layer are rotated; `None` for rows that are not.
pub(super) struct LayerRotation {
    keys: Option<Tensor>,
    values: Option<Tensor>,
}

impl Rotations {
    /// The rotation of a layer with these lanes, whose rows have `head_dim` numbers.
    pub(super) fn of_lanes(&self, ctx: &Context, lanes: &[GraphLane], head_dim: usize) -> LayerRotation {
        let matrix = |rows: fn(&GraphLane) -> &Tensor, max: usize| {
            let is_rotated = lanes.first().is_some_and(|lane| is_stored_rotated(rows(lane).ty()));
            is_rotated.then(|| self.matrix(ctx, size(head_dim, max)))
        };
        let keys = matrix(|lane| &lane.k, MAX_KEY_SIZE);
        let values = match lanes.first().is_some_and(GraphLane::has_values_in_keys) {
            true => keys.clone(),
            false => matrix(|lane| &lane.v, MAX_VALUE_SIZE),
        };
        LayerRotation { keys, values }
    }

    /// The matrix `[size, size]` f32.
    fn matrix(&self, ctx: &Context, size: usize) -> Tensor {
        let mut matrices = self.0.borrow_mut();
        if let Some(matrix) = matrices.iter().find(|matrix| matrix.dim(0) == size) {
            return matrix.clone();
        }
        let matrix = ctx.reshape(&ctx.constant_f32(&hadamard(size)), [size, size]);
        matrices.push(matrix.clone());
        matrix
    }
}

impl LayerRotation {
    /// Keys or queries `[head_dim, heads, n]`, rotated as the keys are.
    pub(super) fn of_keys(&self, ctx: &Context, x: Tensor) -> Tensor {
        rotated(ctx, self.keys.as_ref(), x)
    }

    /// Values, or what comes of them, `[head_dim, heads, n]` or `[heads * head_dim, n]`. A second rotation undoes the
    /// first.
    pub(super) fn of_values(&self, ctx: &Context, x: Tensor) -> Tensor {
        rotated(ctx, self.values.as_ref(), x)
    }
}

fn rotated(ctx: &Context, matrix: Option<&Tensor>, x: Tensor) -> Tensor {
    let Some(matrix) = matrix else { return x };
    let shape = x.shape();
    let size = matrix.dim(0);
    let parts = ctx.reshape(&x, [size, shape.elements() / size]);
    ctx.reshape(&ctx.mul_hadamard(matrix, &parts), shape)
}

/// Whether a layer's rows are rotated by products with the matrix where CUDA computes, which has no faster way for such heads.
pub(crate) fn needs_products(layout: &Layout) -> bool {
    let is_small =
        |rows, head_dim, max| is_stored_rotated(rows) && size(head_dim, max) < Context::CUDA_HADAMARD;
    layout.layers.iter().zip(&layout.heads).zip(&layout.k_types).any(|((lanes, heads), k_type)| {
        let of_values = !layout.values_in_keys && is_small(layout.v_type, heads.head_dim, MAX_VALUE_SIZE);
        !lanes.is_empty() && (of_values || is_small(*k_type, heads.head_dim, MAX_KEY_SIZE))
    })
}

fn is_stored_rotated(rows: Type) -> bool {
    row_type(rows).is_some_and(RowType::has_four_bits)
}

/// Keys `[heads * head_dim]` as rows of type `keys` store them.
pub(super) fn stored_keys(rows: &[f32], head_dim: usize, keys: Type) -> Vec<f32> {
    if !is_stored_rotated(keys) {
        return rows.to_vec();
    }
    let size = size(head_dim, MAX_KEY_SIZE);
    let matrix = hadamard(size);
    let product = |part: &[f32], column: &[f32]| column.iter().zip(part).map(|(a, b)| a * b).sum();
    (rows.chunks(size))
        .flat_map(|part| matrix.chunks(size).map(move |column| product(part, column)))
        .collect()
}

/// The largest power of two, at most `max`, that divides `head_dim`.
fn size(head_dim: usize, max: usize) -> usize {
    max.min(1 << head_dim.trailing_zeros())
}

/// Sylvester's Hadamard matrix of a power of two, scaled to be orthonormal. It is symmetric, so it is its own inverse.
fn hadamard(size: usize) -> Vec<f32> {
    let scale = 1.0 / (size as f32).sqrt();
    let sign = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { scale } else { -scale };
    (0..size).flat_map(|i| (0..size).map(move |j| sign(i, j))).collect()
}

#[cfg(test)]
mod tests {
    use kernels::graph::tensor_type;
    use models::shapes::ModelShape;

    use super::*;
    use crate::kv::{PolicyChoice, StoreOptions};

    #[test]
    fn a_rotation_is_its_own_inverse() {
        for size in [2, 32, 64, 128] {
            let matrix = hadamard(size);
            for (i, j) in (0..size).flat_map(|i| (0..size).map(move |j| (i, j))) {
                let product: f32 = (0..size).map(|k| matrix[i * size + k] * matrix[k * size + j]).sum();
                let want = if i == j { 1.0 } else { 0.0 };
                assert!((product - want).abs() < 1e-5, "{size}: {i}, {j}: {product}");
            }
        }
    }

    /// One channel that is far larger than the others takes the precision of its block, unless it is spread.
    #[test]
    fn rotated_rows_are_more_exact() {
        let mut row: Vec<f32> = (0..64).map(|i| (i as f32 * 0.7).sin()).collect();
        row[5] = 30.0;
        for ty in RowType::ALL.into_iter().filter(|ty| ty.has_four_bits()) {
            let error = |row: &[f32]| -> f32 {
                let (mut bytes, mut stored) = (vec![0; ty.row_bytes(64)], vec![0.0; 64]);
                ty.encode(row, &mut bytes);
                ty.decode(&bytes, &mut stored);
                row.iter().zip(&stored).map(|(a, b)| (a - b).powi(2)).sum()
            };
            let (plain, spread) = (error(&row), error(&stored_keys(&row, 64, tensor_type(ty))));
            assert!(spread < 0.5 * plain, "{}: {spread} and {plain}", ty.name());
        }
    }

    #[test]
    fn heads_without_a_fast_transform_need_products() {
        let needs = |head_dim, types| {
            let shape = ModelShape::find("llama-3.2-1b").expect("a shape");
            let spec = ModelShape { head_dim, ..*shape }.spec();
            let options = StoreOptions { context: 100, types, reserve: None };
            needs_products(&Layout::new(&spec, &PolicyChoice::default(), None, options).expect("a layout"))
        };
        let [f16, four_bits] = [(Type::F16, Type::F16), (Type::Q8_0, Type::IQ4_NL)];
        assert_eq!([64, 96, 128].map(|head_dim| needs(head_dim, four_bits)), [false, true, false]);
        assert!(!needs(96, f16));
    }

    #[test]
    fn sizes_divide_rows() {
        let sizes = [(64, 64), (96, 32), (128, 128), (256, 128), (576, 64)];
        for (head_dim, want) in sizes {
            assert_eq!(size(head_dim, MAX_KEY_SIZE), want, "{head_dim}");
        }
        assert_eq!(size(128, MAX_VALUE_SIZE), 64);
    }
}
