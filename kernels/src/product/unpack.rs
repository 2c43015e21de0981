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
    let ty = product.ty;
    let blocks = SLAB.min(product.n_in - first) / ty.block_elements();
    for row in Loop(0, ROWS) {
        let (mut scales, mut minima) = ([0.0; SLAB / 16], [0.0; SLAB / 32]);
        if rows[0] + row < rows[1] {
            let start =
                (rows[0] + row) * product.row_bytes() + first / ty.block_elements() * ty.block_bytes();
            let bytes = &product.rows[start..start + blocks * ty.block_bytes()];
            let to = &mut codes[row];
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
        }
        let groups = SLAB / ty.format().group;
        for g in Loop(0, groups) {
            slab.scales[g][row] = scales[g];
        }
        if ty.format().minima {
            for g in Loop(0, groups) {
                slab.minima[g][row] = minima[g];
            }
        }
    }
}

/// The f16 at the start of the bytes.
#[inline(always)]
unsafe fn half<S: Simd>(bytes: &[u8]) -> f32 {
    let bytes: &[u8; 2] = bytes[..2].try_into().expect("two bytes");
    // SAFETY: two bytes are there; the instruction set is the caller's.
    unsafe { S::first(S::splat_f16(bytes.as_ptr())) }
}

/// Low nibbles of N bytes, then high nibbles.
#[inline(always)]
fn nibbles<const N: usize>(from: &[u8], to: &mut [u8]) {
    let from: &[u8; N] = from[..N].try_into().expect("N bytes");
    let (low, high) = to[..2 * N].split_at_mut(N);
    for i in Loop(0, N) {
        low[i] = from[i] & 15;
        high[i] = from[i] >> 4;
    }
}

/// Adds the bits MASK of 32 bytes, from bit `shift` on, to as many codes of four bits. It takes eight bytes at a time.
/// The compiler does not always make vectors of a loop over bytes here, which was several times as slow.
#[inline(always)]
fn high_bits<const MASK: u8>(from: &[u8; 32], shift: usize, to: &mut [u8]) {
    let mask = u64::from_le_bytes([MASK; 8]);
    for i in Loop(0, 4) {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes[8 * i..][..8].try_into().expect("eight bytes"));
        let codes = word(to) | (word(from) >> shift & mask) << 4;
        to[8 * i..][..8].copy_from_slice(&codes.to_le_bytes());
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
    minima: &mut [f32; SLAB / 32],
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
    minima: &mut [f32; SLAB / 32],
) {
    let size = HEAD + 20;
    for b in Loop(0, bytes.len() / size) {
        let block = &bytes[b * size..][..size];
        // SAFETY: the caller's promise.
        unsafe { head::<S, HEAD>(block, &mut scales[b], &mut minima[b]) };
        let to = &mut to[b * 32..][..32];
        nibbles::<16>(&block[HEAD + 4..], to);
        // Bit i of the word belongs to element i: each of the four bytes has those of eight elements.
        for i in Loop(0, 32) {
            to[i] |= (block[HEAD + i / 8] >> (i % 8) & 1) << 4;
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
        for i in Loop(0, 32) {
            to[i] = block[2 + i] ^ 128; // plus 128
        }
    }
}

/// The scales and minima of Q4_K and Q5_K: 8 of each, 6 bits wide, in 12 bytes.
#[inline(always)]
unsafe fn k_scales<S: Simd>(block: &[u8], scales: &mut [f32; SLAB / 16], minima: &mut [f32; SLAB / 32]) {
    // SAFETY: the caller's promise.
    let (d, min) = unsafe { (half::<S>(block), half::<S>(&block[2..])) };
    let packed: &[u8; 12] = block[4..][..12].try_into().expect("12 bytes");
    let (mut six, mut six_min) = ([0u8; 8], [0u8; 8]);
    for i in Loop(0, 4) {
        six[i] = packed[i] & 63;
        six_min[i] = packed[4 + i] & 63;
        six[4 + i] = packed[8 + i] & 15 | packed[i] >> 6 << 4;
        six_min[4 + i] = packed[8 + i] >> 4 | packed[4 + i] >> 6 << 4;
    }
    for i in Loop(0, 8) {
        scales[i] = d * f32::from(six[i]);
        minima[i] = -min * f32::from(six_min[i]);
    }
}

#[inline(always)]
unsafe fn q4_k<S: Simd>(
    block: &[u8],
    to: &mut [u8; SLAB],
    scales: &mut [f32; SLAB / 16],
    minima: &mut [f32; SLAB / 32],
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
    minima: &mut [f32; SLAB / 32],
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
    // SAFETY: the caller's promise.
    let d = unsafe { half::<S>(&block[208..]) };
    for g in Loop(0, 16) {
        scales[g] = d * f32::from(block[192 + g].cast_signed());
    }
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
