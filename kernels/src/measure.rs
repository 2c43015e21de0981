//! One number per row, by which policies without attention score keys and values. Rows are read in their own
//! type and measured in f32.

use std::marker::PhantomData;

use crate::attention::{RowTensor, ShapeError};
use crate::quant::load::{Load, with_loader};
use crate::simd::{Isa, Kernel, Loop, Simd};

/// What is computed of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The Euclidean norm.
    Norm,
    /// Its square.
    SquaredNorm,
    /// The maximum absolute value of its elements.
    MaxAbs,
    /// LagKV eq. 5-7. Rows form partitions of `lag`. Each element is normalised by the minimum and maximum of
    /// the same element in a reference partition: the next one, or with `own` the partition itself. The
    /// result is the unbiased standard deviation of the row's normalised elements. An element that is
    /// constant in the reference counts as 0. The last partition is only a reference; its rows get 0.
    Spread {
        /// Rows of a partition.
        lag: usize,
        /// Whether each partition is its own reference.
        own: bool,
    },
}

/// Measures `rows` of head `head` of a tensor `[head_dim, capacity, heads]` and writes `out` `[rows]`. `offset`
/// `[head_dim]` is added to each row first. An error if a row is outside the tensor, or `out` is shorter than `rows`.
pub fn measure(
    tensor: &RowTensor,
    head_dim: usize,
    head: usize,
    rows: &[u32],
    offset: Option<&[f32]>,
    what: Measure,
    out: &mut [f32],
) -> Result<(), ShapeError> {
    let last = rows.iter().max().map_or(0, |last| *last as usize + 1);
    tensor.check("rows", 0, head_dim, last, head.saturating_add(1))?;
    let have = out.len();
    let Some(out) = out.get_mut(..rows.len()) else {
        return Err(ShapeError::Buffer { what: "output", have, need: rows.len() });
    };
    let read = |row: u32, values: &mut [f32]| {
        read_row(tensor, head_dim, head, row, values);
        values.iter_mut().zip(offset.unwrap_or_default()).for_each(|(x, offset)| *x += offset);
    };
    let mut values = vec![0f32; head_dim];
    match what {
        Measure::Norm | Measure::SquaredNorm | Measure::MaxAbs => {
            for (row, out) in rows.iter().zip(out) {
                read(*row, &mut values);
                *out = match what {
                    Measure::Norm => squared_norm(&values).sqrt() as f32,
                    Measure::SquaredNorm => squared_norm(&values) as f32,
                    _ => values.iter().fold(0f32, |max, x| max.max(x.abs())),
                };
            }
        }
        Measure::Spread { lag, own } => {
            out.fill(0.0);
            let lag = lag.max(1);
            let partitions: Vec<&[u32]> = rows.chunks_exact(lag).collect();
            let (mut low, mut factor) = (vec![0f32; head_dim], vec![0f32; head_dim]);
            for (number, pair) in partitions.windows(2).enumerate() {
                let reference = if own { pair[0] } else { pair[1] };
                low.fill(f32::INFINITY);
                factor.fill(f32::NEG_INFINITY); // the maximum at first
                for row in reference {
                    read(*row, &mut values);
                    for ((low, high), x) in low.iter_mut().zip(&mut factor).zip(&values) {
                        *low = low.min(*x);
                        *high = high.max(*x);
                    }
                }
                for (low, factor) in low.iter().zip(&mut factor) {
                    let range = *factor - low;
                    *factor = if range > 0.0 { 1.0 / range } else { 0.0 };
                }
                for (row, out) in pair[0].iter().zip(&mut out[number * lag..]) {
                    read(*row, &mut values);
                    for ((x, low), factor) in values.iter_mut().zip(&low).zip(&factor) {
                        *x = (*x - low) * factor;
                    }
                    *out = deviation(&values);
                }
            }
        }
    }
    Ok(())
}

fn squared_norm(values: &[f32]) -> f64 {
    values.iter().map(|x| f64::from(*x) * f64::from(*x)).sum()
}

/// The unbiased standard deviation.
fn deviation(values: &[f32]) -> f32 {
    let n = values.len() as f64;
    let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum();
    (squares / (n - 1.0).max(1.0)).sqrt() as f32
}

/// One row as f32.
fn read_row(tensor: &RowTensor, head_dim: usize, head: usize, row: u32, values: &mut [f32]) {
    let row = tensor.row(head_dim, head, row as usize);
    let isa = Isa::best();
    with_loader!(tensor.ty, L => {
        // SAFETY: the best instruction set is present; the row and `values` hold head_dim elements.
        unsafe { isa.enter(Read::<L>(row, values, PhantomData)) }
    });
}

/// Reads a row with as many elements as there are values, a multiple of 8.
struct Read<'a, L>(&'a [u8], &'a mut [f32], PhantomData<L>);

impl<L: Load> Kernel for Read<'_, L> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Read(row, values, _) = self;
        let whole = values.len() / S::LANES;
        let (row, out) = (row.as_ptr(), values.as_mut_ptr());
        // SAFETY: c counts whole vectors of the row; the rest is half a vector of 8 elements.
        unsafe {
            for c in Loop(0, whole / 2) {
                let pair = L::load2::<S>(row, 2 * c);
                S::store(out.add(2 * c * S::LANES), pair[0]);
                S::store(out.add((2 * c + 1) * S::LANES), pair[1]);
            }
            if whole % 2 == 1 {
                S::store(out.add((whole - 1) * S::LANES), L::load::<S>(row, whole - 1));
            }
            if !values.len().is_multiple_of(S::LANES) {
                let mut half = [0f32; 16];
                S::store(half.as_mut_ptr(), L::load_half::<S>(row, whole));
                for j in Loop(whole * S::LANES, values.len()) {
                    values[j] = half[j - whole * S::LANES];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowType;

    /// Also row lengths that are not a whole number of vectors, in every type that allows them.
    #[test]
    fn read_rows_equal_decoded_rows() {
        for (ty, d) in RowType::ALL.into_iter().flat_map(|ty| [8, 24, 32, 40, 96].map(|d| (ty, d))) {
            if !usize::is_multiple_of(d, ty.granule()) {
                continue;
            }
            let values: Vec<f32> = (0..2 * d).map(|i| (i as f32 * 0.7).sin() * 3.0).collect();
            let mut data = vec![0u8; 2 * ty.row_bytes(d)];
            for (row, values) in data.chunks_exact_mut(ty.row_bytes(d)).zip(values.chunks_exact(d)) {
                ty.encode(values, row);
            }
            let mut want = vec![0f32; d];
            ty.decode(&data[ty.row_bytes(d)..], &mut want);
            let mut have = vec![0f32; d];
            read_row(&RowTensor::contiguous(&data, ty, d, 2), d, 0, 1, &mut have);
            assert_eq!(have, want, "{ty:?} {d}");
        }
    }

    fn tensor(rows: &[[f32; 8]]) -> Vec<u8> {
        rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn norms_and_maximum_of_known_rows() {
        let data =
            tensor(&[[3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [-9.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]);
        let rows = RowTensor::contiguous(&data, RowType::F32, 8, 2);
        let of = |what| {
            let mut out = [0f32; 2];
            measure(&rows, 8, 0, &[1, 0], None, what, &mut out).unwrap();
            out
        };
        assert_eq!(of(Measure::Norm), [82f32.sqrt(), 5.0]);
        assert_eq!(of(Measure::SquaredNorm), [82.0, 25.0]);
        assert_eq!(of(Measure::MaxAbs), [9.0, 4.0]);
    }

    /// Vector loads would read behind a row that is no whole number of vectors.
    #[test]
    fn rows_outside_the_tensor_are_an_error() {
        let data = [0u8; 96];
        let of = |ty: RowType, head_dim: usize, head: usize, row: u32, outs: usize| {
            let tensor = RowTensor::contiguous(&data, ty, head_dim, 1);
            measure(&tensor, head_dim, head, &[row], None, Measure::Norm, &mut vec![0.0; outs])
        };
        assert!(matches!(of(RowType::F32, 12, 0, 0, 1), Err(ShapeError::HeadDim { .. })));
        assert!(matches!(of(RowType::Q8_0, 40, 0, 0, 1), Err(ShapeError::HeadDim { .. })));
        assert!(matches!(of(RowType::F32, 8, 0, 3, 1), Err(ShapeError::Memory { .. })));
        assert!(matches!(of(RowType::F32, 8, usize::MAX, 0, 1), Err(ShapeError::Memory { .. })));
        assert!(matches!(of(RowType::F32, 8, 0, 0, 0), Err(ShapeError::Buffer { .. })));
    }

    #[test]
    fn spread_equals_a_calculation_by_hand() {
        // Element 0 of the reference is from 0 to 2, element 1 from 0 to 4; the others are constant.
        let row = |a: f32, b: f32| [a, b, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0];
        let data = tensor(&[row(1.0, 4.0), row(2.0, 0.0), row(0.0, 4.0), row(2.0, 0.0)]);
        let rows = RowTensor::contiguous(&data, RowType::F32, 8, 4);
        let mut out = [9f32; 4];
        measure(&rows, 8, 0, &[0, 1, 2, 3], None, Measure::Spread { lag: 2, own: false }, &mut out).unwrap();
        // z = (0.5, 1, 0 x 6): mean 3/16, and (1, 0, 0 x 6): mean 1/8.
        let want = |z: [f64; 2]| {
            let mean = (z[0] + z[1]) / 8.0;
            let squares = (z[0] - mean).powi(2) + (z[1] - mean).powi(2) + 6.0 * mean * mean;
            (squares / 7.0).sqrt() as f32
        };
        assert_eq!(out, [want([0.5, 1.0]), want([1.0, 0.0]), 0.0, 0.0]);
        let mut own = [9f32; 4];
        measure(&rows, 8, 0, &[0, 1, 2, 3], None, Measure::Spread { lag: 2, own: true }, &mut own).unwrap();
        assert_eq!(own, [want([0.0, 1.0]), want([1.0, 0.0]), 0.0, 0.0]);
    }
}
