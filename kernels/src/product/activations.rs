//! Quantised activations, with the rounding of ggml's Q8_0 and Q8_K.

use super::{ColumnLayout, Format, SLAB, Unit, WeightType};
use crate::Isa;
use crate::simd::{Kernel, Loop, Simd};

/// Quantises a column of activations for products with weights of type `ty`. `to` has
/// [`column_words`](super::column_words) words.
pub fn quantize(unit: Unit, ty: WeightType, x: &[f32], to: &mut [u32]) {
    let format = ty.format();
    let layout = ColumnLayout::of(format, x.len());
    assert!(x.len().is_multiple_of(ty.block_elements()) && to.len() == layout.words, "columns do not fit");
    let isa = if unit == Unit::Plain { Isa::Scalar } else { Isa::best() };
    // SAFETY: the instruction set is present; the lengths fit.
    unsafe {
        match format.activations {
            SLAB => isa.enter(Quantize::<SLAB> { format, layout, x, to }),
            _ => isa.enter(Quantize::<32> { format, layout, x, to }),
        }
    }
}

/// [`quantize`] in blocks of N elements. Safety: the lengths fit.
struct Quantize<'a, const N: usize> {
    format: Format,
    layout: ColumnLayout,
    x: &'a [f32],
    to: &'a mut [u32],
}

impl<const N: usize> Kernel for Quantize<'_, N> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Quantize { format, layout, x, to } = self;
        for b in Loop(0, x.len() / N) {
            // SAFETY: b counts whole blocks of the column, whose parts are where the layout says.
            unsafe {
                let x = &*x.as_ptr().add(b * N).cast::<[f32; N]>();
                let codes = &mut *to.as_mut_ptr().add(b * N / 4).cast::<[i8; N]>();
                let scale = block(x, codes);
                *to.get_unchecked_mut(layout.scales + b) = scale.to_bits();
                for g in Loop(0, N / format.group) {
                    let mut sum = 0;
                    for i in Loop(0, format.group) {
                        sum += i32::from(*codes.get_unchecked(g * format.group + i));
                    }
                    let word = match format.minima {
                        true if N == SLAB => (sum as f32).to_bits(),
                        true => (scale * sum as f32).to_bits(),
                        false => (-format.offset * sum).cast_unsigned(),
                    };
                    *to.get_unchecked_mut(layout.sums + b * N / format.group + g) = word;
                }
            }
        }
    }
}

/// Quantises a block and returns its scale. Numbers that are not finite give arbitrary codes.
#[inline(always)]
fn block<const N: usize>(x: &[f32; N], codes: &mut [i8; N]) -> f32 {
    /// Added to a small number, it leaves the nearest integer in the lowest bits.
    const TO_INTEGER: f32 = 12_582_912.0;
    // The order of absolute values is that of their bits.
    let mut largest = 0;
    for i in Loop(0, N) {
        largest = largest.max(x[i].to_bits() & 0x7fff_ffff);
    }
    let largest = f32::from_bits(largest);
    let inverse = if largest == 0.0 { 0.0 } else { 127.0 / largest };
    for i in Loop(0, N) {
        codes[i] = (x[i] * inverse + TO_INTEGER).to_bits() as i8;
    }
    match N {
        _ if largest == 0.0 => 0.0,
        SLAB => 1.0 / inverse,
        _ => half::f16::from_f32(largest / 127.0).to_f32(),
    }
}
