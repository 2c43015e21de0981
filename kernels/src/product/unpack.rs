//! Weights as codes and scales. Blocks are those of ggml's types.

use super::{Product, ROWS, SLAB, Slab, WeightType};
use crate::quant::IQ4_VALUES;
use crate::simd::{Loop, Simd};

/// The values of the 16 codes of IQ4_NL and IQ4_XS, plus 128.
pub(super) const IQ4_CODES: [u8; 16] = {
    let mut codes = [0; 16];
    let mut code = 0;
    while code < 16 {
        codes[code] = (IQ4_VALUES[code] as i16 + 128) as u8;
        code += 1;
    }
    codes
};

/// Whether the unpacked codes are indices of [`IQ4_CODES`].
pub(super) const fn has_table(ty: WeightType) -> bool {
    matches!(ty, WeightType::Iq4Nl | WeightType::Iq4Xs)
}

/// The code of an unpacked one.
pub(super) fn plain_code(ty: WeightType, code: u8) -> u8 {
    if has_table(ty) { IQ4_CODES[usize::from(code & 15)] } else { code }
}

/// Unpacks the elements from `first` on of the rows `rows`, one slab or what is left of the row, to `codes`. Writes
/// scales and minima to `slab`: zeros for rows that are not there.
#[inline(always)]
pub(super) fn slab<S: Simd>(
    product: &Product,
    rows: [usize; 2],
    first: usize,
    codes: &mut [[u8; SLAB]; ROWS],
    slab: &mut Slab,
) {
    let format = product.ty.format();
    for number in Loop(0, ROWS) {
        let mut of_row = Scales::default();
        if rows[0] + number < rows[1] {
            let blocks = blocks(product, rows[0] + number, first);
            self::codes::<S>(product.ty, blocks, &mut codes[number]);
            of_row = scales::<S>(product.ty, blocks);
        }
        let [scales, minima] = of_row;
        let groups = SLAB / format.group;
        for g in Loop(0, groups) {
            slab.scales[g][number] = scales[g];
        }
        if format.minima {
            for g in Loop(0, groups) {
                slab.minima[g][number] = minima[g];
            }
        }
    }
}

/// The scales of the groups of a slab of a row, and what is added to their weights.
type Scales = [[f32; SLAB / 16]; 2];

/// The blocks of a row from `first` on, one slab or what is left.
#[inline(always)]
fn blocks<'a>(product: &Product<'a>, row: usize, first: usize) -> &'a [u8] {
    let ty = product.ty;
    let blocks = SLAB.min(product.n_in - first) / ty.block_elements();
    let start = row * product.row_bytes() + first / ty.block_elements() * ty.block_bytes();
    &product.rows[start..start + blocks * ty.block_bytes()]
}

/// Elements that are unpacked at a time.
const VECTOR: usize = 32;

/// Unpacks the blocks of a slab, or fewer, to `to`.
#[inline(always)]
fn codes<S: Simd>(ty: WeightType, blocks: &[u8], to: &mut [u8; SLAB]) {
    let elements = blocks.len() / ty.block_bytes() * ty.block_elements();
    for v in Loop(0, elements.min(SLAB) / VECTOR) {
        // SAFETY: the instruction set is the caller's; there are so many elements, and room for them.
        unsafe { S::store_bytes(to.as_mut_ptr().add(VECTOR * v), vector::<S>(ty, blocks.as_ptr(), v)) };
    }
}

/// The codes of vector `v` of the slab at `from`.
///
/// # Safety
/// The instruction set is present, and the slab has the vector.
#[inline(always)]
unsafe fn vector<S: Simd>(ty: WeightType, from: *const u8, v: usize) -> S::Bytes {
    // SAFETY: the caller's promise.
    unsafe {
        // For blocks of 32.
        let block = from.wrapping_add(v * ty.block_bytes());
        match ty {
            WeightType::Q4_0 | WeightType::Iq4Nl => S::load_nibbles(block.add(2)),
            WeightType::Q4_1 => S::load_nibbles(block.add(4)),
            WeightType::Q5_0 => five_bits::<S>(block.add(2)),
            WeightType::Q5_1 => five_bits::<S>(block.add(4)),
            WeightType::Q8_0 => S::plus_128(S::load_bytes(block.add(2))),
            WeightType::Q4K => nibbles::<S>(from.add(16 + 32 * (v / 2)), v % 2 == 1),
            WeightType::Q5K => {
                // Bit g of byte i belongs to element i of group g.
                let high = S::bits_above_nibbles(S::load_bytes(from.add(16)), v, 1);
                S::or(nibbles::<S>(from.add(48 + 32 * (v / 2)), v % 2 == 1), high)
            }
            WeightType::Q6K => {
                let (half, g) = (v / 4, v % 4);
                let high = S::bits_above_nibbles(S::load_bytes(from.add(128 + 32 * half)), 2 * g, 3);
                S::or(nibbles::<S>(from.add(64 * half + 32 * (g % 2)), g >= 2), high)
            }
            WeightType::Iq4Xs => S::load_nibbles(from.add(8 + 16 * v)),
        }
    }
}

/// The low or the high nibbles of 32 bytes: blocks of 256 have two vectors in the same bytes.
///
/// # Safety
/// The instruction set is present, and the bytes are there.
#[inline(always)]
unsafe fn nibbles<S: Simd>(from: *const u8, is_high: bool) -> S::Bytes {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = S::load_bytes(from);
        if is_high { S::high_nibbles(bytes) } else { S::low_nibbles(bytes) }
    }
}

/// Codes of 5 bits: the fifth bit of each, then the others.
///
/// # Safety
/// The instruction set is present, and the block's 20 bytes are there.
#[inline(always)]
unsafe fn five_bits<S: Simd>(from: *const u8) -> S::Bytes {
    // SAFETY: the caller's promise.
    unsafe {
        let fifth = u32::from_le(from.cast::<u32>().read_unaligned());
        S::or(S::load_nibbles(from.add(4)), S::spread_bits(fifth))
    }
}

/// The scales and minima in these blocks: zeros for what is not there.
#[inline(always)]
fn scales<S: Simd>(ty: WeightType, blocks: &[u8]) -> Scales {
    let mut scales = [[0.0; SLAB / 16]; 2];
    // SAFETY: the instruction set is the caller's.
    unsafe {
        if ty.block_elements() == SLAB {
            let Integers { scales: integers, minima, scale, minimum } = integers::<S>(ty, blocks);
            scaled::<S>(&integers, scale, &mut scales[0]);
            if ty.format().minima {
                scaled::<S>(&minima, minimum, &mut scales[1]);
            }
        } else {
            let size = ty.block_bytes();
            for b in Loop(0, blocks.len() / size) {
                let block = &blocks[b * size..][..size];
                scales[0][b] = half::<S>(block);
                if ty.format().minima {
                    scales[1][b] = half::<S>(&block[2..]);
                }
            }
        }
    }
    scales
}

/// The scales of a block of 256: for each group a signed byte times what all share.
struct Integers {
    scales: [u8; SLAB / 16],
    minima: [u8; SLAB / 16],
    scale: f32,
    /// Negative: minima are added.
    minimum: f32,
}

/// The scales of a block of 256.
///
/// # Safety
/// The instruction set is present.
#[inline(always)]
unsafe fn integers<S: Simd>(ty: WeightType, block: &[u8]) -> Integers {
    // SAFETY: the caller's promise.
    unsafe {
        match ty {
            WeightType::Q4K | WeightType::Q5K => {
                let [scales, minima] = k_scales(block);
                let (scale, minimum) = (half::<S>(block), -half::<S>(&block[2..]));
                Integers { scales, minima, scale, minimum }
            }
            WeightType::Q6K => {
                let scales: &[u8; 16] = block[192..][..16].try_into().expect("16 scales");
                Integers { scales: *scales, minima: [0; 16], scale: half::<S>(&block[208..]), minimum: 0.0 }
            }
            WeightType::Iq4Xs => {
                Integers { scales: iq4_scales(block), minima: [0; 16], scale: half::<S>(block), minimum: 0.0 }
            }
            _ => unreachable!("{ty:?} has blocks of 32"),
        }
    }
}

/// The f16 at the start of the bytes.
///
/// # Safety
/// The instruction set is present.
#[inline(always)]
unsafe fn half<S: Simd>(bytes: &[u8]) -> f32 {
    let bytes: &[u8; 2] = bytes[..2].try_into().expect("two bytes");
    // SAFETY: two bytes are there; the instruction set is the caller's.
    unsafe { S::first(S::splat_f16(bytes.as_ptr())) }
}

/// `factor` times each of these signed bytes.
///
/// # Safety
/// The instruction set is present.
#[inline(always)]
unsafe fn scaled<S: Simd>(numbers: &[u8; SLAB / 16], factor: f32, to: &mut [f32; SLAB / 16]) {
    // SAFETY: the caller's promise; there are 16 numbers and 16 results.
    unsafe {
        for at in (0..SLAB / 16).step_by(S::LANES) {
            let number = S::load_i8(numbers.as_ptr().add(at));
            S::store(to.as_mut_ptr().add(at), S::mul(number, S::splat(factor)));
        }
    }
}

/// The scales and minima of Q4_K and Q5_K: 8 of each, 6 bits wide, in 12 bytes.
#[inline(always)]
fn k_scales(block: &[u8]) -> [[u8; SLAB / 16]; 2] {
    /// The low and the high two bits of a six-bit number's upper half.
    const LOW: u32 = u32::from_le_bytes([15; 4]);
    const HIGH: u32 = u32::from_le_bytes([0x30; 4]);
    let block: &[u8; 16] = block[..16].try_into().expect("16 bytes");
    let packed = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    let [a, b, c] = [packed(4), packed(8), packed(12)];
    let eight = |low: u32, high: u32| u128::from(low & (LOW | HIGH)) | u128::from(high) << 32;
    let scales = eight(a, c & LOW | a >> 2 & HIGH);
    let minima = eight(b, c >> 4 & LOW | b >> 2 & HIGH);
    [scales.to_le_bytes(), minima.to_le_bytes()]
}

/// The scales of IQ4_XS: 8, 6 bits wide, minus 32.
#[inline(always)]
fn iq4_scales(block: &[u8]) -> [u8; SLAB / 16] {
    let high = u16::from_le_bytes([block[2], block[3]]);
    let mut scales = [0; SLAB / 16];
    for g in Loop(0, 8) {
        let low = block[4 + g / 2] >> (4 * (g % 2)) & 15;
        let high = (high >> (2 * g)) as u8 & 3;
        scales[g] = (low | high << 4).wrapping_sub(32);
    }
    scales
}
