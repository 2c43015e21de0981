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
        let (scales, minima) = match rows[0] + number < rows[1] {
            true => row::<S>(product, rows[0] + number, first, &mut codes[number]),
            false => ([0.0; SLAB / 16], [0.0; SLAB / 16]),
        };
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

/// Unpacks the elements from `first` on of a row, one slab or what is left, to `codes`. Returns the scales and minima of
/// their groups: zeros for what is not there.
#[inline(always)]
fn row<S: Simd>(
    product: &Product,
    row: usize,
    first: usize,
    to: &mut [u8; SLAB],
) -> ([f32; SLAB / 16], [f32; SLAB / 16]) {
    let ty = product.ty;
    let blocks = SLAB.min(product.n_in - first) / ty.block_elements();
    let (mut scales, mut minima) = ([0.0; SLAB / 16], [0.0; SLAB / 16]);
    let start = row * product.row_bytes() + first / ty.block_elements() * ty.block_bytes();
    let bytes = &product.rows[start..start + blocks * ty.block_bytes()];
    // SAFETY: the instruction set is the caller's.
    unsafe {
        match ty {
            WeightType::Q4_0 | WeightType::Iq4Nl => q4::<S, 2>(bytes, to, &mut scales, &mut minima),
            WeightType::Q4_1 => q4::<S, 4>(bytes, to, &mut scales, &mut minima),
            WeightType::Q5_0 => q5::<S, 2>(bytes, to, &mut scales, &mut minima),
            WeightType::Q5_1 => q5::<S, 4>(bytes, to, &mut scales, &mut minima),
            WeightType::Q8_0 => q8_0::<S>(bytes, to, &mut scales),
            WeightType::Q4K => q4_k::<S>(bytes, to, &mut scales, &mut minima),
            WeightType::Q5K => q5_k::<S>(bytes, to, &mut scales, &mut minima),
            WeightType::Q6K => q6_k::<S>(bytes, to, &mut scales),
            WeightType::Iq4Xs => iq4_xs::<S>(bytes, to, &mut scales),
        }
    }
    (scales, minima)
}

/// The f16 at the start of the bytes.
#[inline(always)]
unsafe fn half<S: Simd>(bytes: &[u8]) -> f32 {
    let bytes: &[u8; 2] = bytes[..2].try_into().expect("two bytes");
    // SAFETY: two bytes are there; the instruction set is the caller's.
    unsafe { S::first(S::splat_f16(bytes.as_ptr())) }
}

/// Eight bytes. The compiler does not always make vectors of a loop over bytes here, which was several times as slow.
#[inline(always)]
fn word(bytes: &[u8], number: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * number..][..8].try_into().expect("eight bytes"))
}

#[inline(always)]
fn set_word(bytes: &mut [u8], number: usize, word: u64) {
    bytes[8 * number..][..8].copy_from_slice(&word.to_le_bytes());
}

/// This byte, eight times.
const fn bytes_of(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Low nibbles of N bytes, then high nibbles.
#[inline(always)]
fn nibbles<const N: usize>(from: &[u8], to: &mut [u8]) {
    let from: &[u8; N] = from[..N].try_into().expect("N bytes");
    let (low, high) = to[..2 * N].split_at_mut(N);
    for i in Loop(0, N / 8) {
        set_word(low, i, word(from, i) & bytes_of(15));
        set_word(high, i, word(from, i) >> 4 & bytes_of(15));
    }
}

/// Adds the bits MASK of 32 bytes, from bit `shift` on, to as many codes of four bits.
#[inline(always)]
fn high_bits<const MASK: u8>(from: &[u8; 32], shift: usize, to: &mut [u8]) {
    for i in Loop(0, 4) {
        set_word(to, i, word(to, i) | (word(from, i) >> shift & bytes_of(MASK)) << 4);
    }
}

/// The scale of a block of 32, and its minimum where its HEAD has four bytes. It is added, not taken off.
#[inline(always)]
unsafe fn head<S: Simd, const HEAD: usize>(block: &[u8], scale: &mut f32, minimum: &mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        *scale = half::<S>(block);
        if HEAD == 4 {
            *minimum = half::<S>(&block[2..]);
        }
    }
}

#[inline(always)]
unsafe fn q4<S: Simd, const HEAD: usize>(
    bytes: &[u8],
    to: &mut [u8; SLAB],
    scales: &mut [f32; SLAB / 16],
    minima: &mut [f32; SLAB / 16],
) {
    let size = HEAD + 16;
    for b in Loop(0, bytes.len() / size) {
        let block = &bytes[b * size..][..size];
        // SAFETY: the caller's promise.
        unsafe { head::<S, HEAD>(block, &mut scales[b], &mut minima[b]) };
        nibbles::<16>(&block[HEAD..], &mut to[b * 32..]);
    }
}

#[inline(always)]
unsafe fn q5<S: Simd, const HEAD: usize>(
    bytes: &[u8],
    to: &mut [u8; SLAB],
    scales: &mut [f32; SLAB / 16],
    minima: &mut [f32; SLAB / 16],
) {
    let size = HEAD + 20;
    for b in Loop(0, bytes.len() / size) {
        let block = &bytes[b * size..][..size];
        // SAFETY: the caller's promise.
        unsafe { head::<S, HEAD>(block, &mut scales[b], &mut minima[b]) };
        let to = &mut to[b * 32..][..32];
        nibbles::<16>(&block[HEAD + 4..], to);
        // Bit i of the word belongs to element i: each of the four bytes has those of eight elements. Byte j of the product has
        // the bits from j on, of which the lowest counts.
        for i in Loop(0, 4) {
            let bits = u64::from(block[HEAD + i]);
            let spread = ((bits & 0x7f) * 0x0002_0408_1020_4081) & bytes_of(1) | bits >> 7 << 56;
            set_word(to, i, word(to, i) | spread << 4);
        }
    }
}

#[inline(always)]
unsafe fn q8_0<S: Simd>(bytes: &[u8], to: &mut [u8; SLAB], scales: &mut [f32; SLAB / 16]) {
    for b in Loop(0, bytes.len() / 34) {
        let block: &[u8; 34] = bytes[b * 34..][..34].try_into().expect("a block");
        // SAFETY: the caller's promise.
        scales[b] = unsafe { half::<S>(block) };
        let to: &mut [u8; 32] = (&mut to[b * 32..][..32]).try_into().expect("32 codes");
        for i in Loop(0, 4) {
            set_word(to, i, word(&block[2..], i) ^ bytes_of(128)); // plus 128
        }
    }
}

/// `factor` times each of these numbers.
#[inline(always)]
unsafe fn scaled<S: Simd, const N: usize>(numbers: &[u8; 16], factor: f32, to: &mut [f32; SLAB / 16]) {
    // SAFETY: the caller's promise; there are 16 numbers and 16 results.
    unsafe {
        for at in (0..N).step_by(S::LANES) {
            let number = S::load_i8(numbers.as_ptr().add(at));
            S::store(to.as_mut_ptr().add(at), S::mul(number, S::splat(factor)));
        }
    }
}

/// The scales and minima of Q4_K and Q5_K: 8 of each, 6 bits wide, in 12 bytes.
#[inline(always)]
unsafe fn k_scales<S: Simd>(block: &[u8], scales: &mut [f32; SLAB / 16], minima: &mut [f32; SLAB / 16]) {
    /// The low and the high two bits of a six-bit number's upper half.
    const LOW: u32 = u32::from_le_bytes([15; 4]);
    const HIGH: u32 = u32::from_le_bytes([0x30; 4]);
    let packed = |i: usize| u32::from_le_bytes(block[4 + 4 * i..][..4].try_into().expect("four bytes"));
    let [a, b, c] = [packed(0), packed(1), packed(2)];
    let (mut six, mut six_min) = ([0; 16], [0; 16]);
    six[..4].copy_from_slice(&(a & (LOW | HIGH)).to_le_bytes());
    six[4..8].copy_from_slice(&(c & LOW | a >> 2 & HIGH).to_le_bytes());
    six_min[..4].copy_from_slice(&(b & (LOW | HIGH)).to_le_bytes());
    six_min[4..8].copy_from_slice(&(c >> 4 & LOW | b >> 2 & HIGH).to_le_bytes());
    // SAFETY: the caller's promise.
    unsafe {
        scaled::<S, 8>(&six, half::<S>(block), scales);
        scaled::<S, 8>(&six_min, -half::<S>(&block[2..]), minima);
    }
}

#[inline(always)]
unsafe fn q4_k<S: Simd>(
    block: &[u8],
    to: &mut [u8; SLAB],
    scales: &mut [f32; SLAB / 16],
    minima: &mut [f32; SLAB / 16],
) {
    // SAFETY: the caller's promise.
    unsafe { k_scales::<S>(block, scales, minima) };
    for quarter in Loop(0, 4) {
        nibbles::<32>(&block[16 + 32 * quarter..], &mut to[64 * quarter..]);
    }
}

#[inline(always)]
unsafe fn q5_k<S: Simd>(
    block: &[u8],
    to: &mut [u8; SLAB],
    scales: &mut [f32; SLAB / 16],
    minima: &mut [f32; SLAB / 16],
) {
    // SAFETY: the caller's promise.
    unsafe { k_scales::<S>(block, scales, minima) };
    let high: &[u8; 32] = block[16..][..32].try_into().expect("32 bytes");
    for quarter in Loop(0, 4) {
        nibbles::<32>(&block[48 + 32 * quarter..], &mut to[64 * quarter..]);
    }
    // Bit g of byte i belongs to element i of group g.
    for g in Loop(0, 8) {
        high_bits::<1>(high, g, &mut to[32 * g..]);
    }
}

#[inline(always)]
unsafe fn q6_k<S: Simd>(block: &[u8], to: &mut [u8; SLAB], scales: &mut [f32; SLAB / 16]) {
    let of_groups: &[u8; 16] = block[192..][..16].try_into().expect("16 scales");
    // SAFETY: the caller's promise.
    unsafe { scaled::<S, 16>(of_groups, half::<S>(&block[208..]), scales) };
    for part in Loop(0, 2) {
        let to = &mut to[128 * part..][..128];
        nibbles::<64>(&block[64 * part..], to);
        let high: &[u8; 32] = block[128 + 32 * part..][..32].try_into().expect("32 bytes");
        for g in Loop(0, 4) {
            high_bits::<3>(high, 2 * g, &mut to[32 * g..]);
        }
    }
}

#[inline(always)]
unsafe fn iq4_xs<S: Simd>(block: &[u8], to: &mut [u8; SLAB], scales: &mut [f32; SLAB / 16]) {
    // SAFETY: the caller's promise.
    let d = unsafe { half::<S>(block) };
    let high = u16::from_le_bytes([block[2], block[3]]);
    for g in Loop(0, 8) {
        let low = block[4 + g / 2] >> (4 * (g % 2)) & 15;
        let six = i32::from(low) | i32::from(high >> (2 * g) & 3) << 4;
        scales[g] = d * (six - 32) as f32;
        nibbles::<16>(&block[8 + 16 * g..], &mut to[32 * g..]);
    }
}
