//! The product for NEON: tiles of 16 rows by 6 columns. Of the 32 registers the integer sums take 24; the sums of floats are in
//! memory while a group is multiplied.
//!
//! With dot products, one instruction multiplies and adds four bytes. Without them three or four do, and pairs of products are
//! 16 bits wide in between. Codes of up to 6 bits are small enough for two steps of that. Codes of 8 bits are taken as signed
//! numbers.

use std::arch::aarch64::*;

use super::tile::{self, multiplier};
use super::unpack::{self, IQ4_CODES};
use super::{Panel, Product, ROWS, ResultPart, SLAB, Slab};
use crate::simd::Loop;
use crate::simd::neon::{Neon, dot};

/// Computes a part of the result with dot products.
///
/// # Safety
/// The processor has dot products ([`Isa::has_bytes`](crate::Isa::has_bytes)). `out` `[n_out, n]` is valid for writes, and
/// nothing else uses the part meanwhile.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn multiply_dot(product: &Product, part: ResultPart, panel: &mut Panel, out: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply_by_size::<DotSmall, DotSigned>(product, part, panel, out) }
}

/// Computes a part of the result without dot products.
///
/// # Safety
/// The processor has NEON. `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
#[target_feature(enable = "neon")]
pub(super) unsafe fn multiply(product: &Product, part: ResultPart, panel: &mut Panel, out: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply_by_size::<Small, Signed>(product, part, panel, out) }
}

type Floats = Neon;
const TILE_COLUMNS: usize = 6;

/// `sum` and the products of four bytes for each, of STEPS vectors of signed bytes. Sums of 2 * STEPS products fit 16 bits.
#[target_feature(enable = "neon")]
#[inline]
fn add<const STEPS: usize>(sum: int32x4_t, w: [int32x4_t; STEPS], x: [int32x4_t; STEPS]) -> int32x4_t {
    let (w, x) = (w.map(|w| vreinterpretq_s8_s32(w)), x.map(|x| vreinterpretq_s8_s32(x)));
    let mut low = vmull_s8(vget_low_s8(w[0]), vget_low_s8(x[0]));
    let mut high = vmull_high_s8(w[0], x[0]);
    for step in Loop(1, STEPS) {
        low = vmlal_s8(low, vget_low_s8(w[step]), vget_low_s8(x[step]));
        high = vmlal_high_s8(high, w[step], x[step]);
    }
    vpadalq_s16(sum, vpaddq_s16(low, high))
}

multiplier!(
    /// Codes of up to 6 bits, with dot products.
    DotSmall, 1, false, "neon,dotprod", (sum, w, x) => dot(sum, w[0], x[0])
);

multiplier!(
    /// Codes of 8 bits, minus 128, with dot products.
    DotSigned, 1, true, "neon,dotprod", (sum, w, x) => dot(sum, w[0], x[0])
);

multiplier!(
    /// Codes of up to 6 bits: 4 * 63 * 127 fits 16 bits.
    Small, 2, false, "neon", (sum, w, x) => {
    int32x4x2_t(
        add(sum.0, [w[0].0, w[1].0], [x[0].0, x[1].0]),
        add(sum.1, [w[0].1, w[1].1], [x[0].1, x[1].1]),
    )
});

multiplier!(
    /// Codes of 8 bits, minus 128: 2 * 128 * 127 fits 16 bits.
    Signed, 1, true, "neon", (sum, w, x) => {
    int32x4x2_t(add(sum.0, [w[0].0], [x[0].0]), add(sum.1, [w[0].1], [x[0].1]))
});

/// [`TileKernel::fill`](tile::TileKernel::fill), row by row.
#[target_feature(enable = "neon")]
#[inline]
fn fill<const SIGNED: bool>(
    product: &Product,
    rows: [usize; 2],
    first: usize,
    _ahead: &[u8],
    panel: &mut Panel,
) {
    let Panel { slabs, unpacked } = panel;
    for (slab, at) in slabs.iter_mut().zip((first..product.n_in).step_by(SLAB)) {
        unpack::slab::<Neon>(product, rows, at, unpacked, slab);
        interleave(unpacked, unpack::has_table(product.ty), SIGNED, slab);
    }
}

/// Writes the codes of a slab as the products read them: a transposition of groups of four bytes.
#[target_feature(enable = "neon")]
#[inline]
fn interleave(unpacked: &[[u8; SLAB]; ROWS], has_table: bool, is_signed: bool, slab: &mut Slab) {
    // SAFETY: a table of 16 bytes.
    let table = unsafe { vld1q_u8(IQ4_CODES.as_ptr()) };
    for rows in Loop(0, ROWS / 4) {
        for sixteenth in Loop(0, SLAB / 16) {
            let mut v = [vdupq_n_u32(0); 4];
            for r in Loop(0, 4) {
                // SAFETY: 16 codes of a row.
                let mut codes = unsafe { vld1q_u8(unpacked[4 * rows + r].as_ptr().add(16 * sixteenth)) };
                if has_table {
                    codes = vqtbl1q_u8(table, codes);
                }
                if is_signed {
                    codes = veorq_u8(codes, vdupq_n_u8(128));
                }
                v[r] = vreinterpretq_u32_u8(codes);
            }
            // Words 0 and 2 of two rows, then words 1 and 3.
            let pairs = [
                (vtrn1q_u32(v[0], v[1]), vtrn1q_u32(v[2], v[3])),
                (vtrn2q_u32(v[0], v[1]), vtrn2q_u32(v[2], v[3])),
            ];
            for w in Loop(0, 2) {
                let (a, b) = (vreinterpretq_u64_u32(pairs[w].0), vreinterpretq_u64_u32(pairs[w].1));
                for (word, of_rows) in [(w, vtrn1q_u64(a, b)), (w + 2, vtrn2q_u64(a, b))] {
                    let to = &mut slab.codes[4 * sixteenth + word][4 * rows..][..4];
                    // SAFETY: 4 rows of four bytes.
                    unsafe { vst1q_u64(to.as_mut_ptr().cast(), of_rows) };
                }
            }
        }
    }
}
