//! Fills panels on x86-64. Blocks are transposed before they are unpacked: 16 bytes of several rows become four vectors of 32-bit
//! words, one of each row. Such a word has the codes of up to eight elements, and what is unpacked of it is stored where the
//! products read it. Scales are read in the same way. So nothing is done row by row.

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::marker::PhantomData;
use std::slice::Chunks;

use super::unpack::IQ4_CODES;
use super::{PANEL_SLABS, Panel, Product, ROWS, SLAB, Slab, WeightType};
use crate::quant::IQ4_VALUES;
use crate::simd::{Loop, Simd};

/// The maximum of [`Words::ROWS`].
pub(super) const MAX_ROWS: usize = 16;

/// Steps of a slab in which weights are fetched ahead, evenly.
const STEPS: usize = 4;

/// Vectors of 32-bit words, one of each row. All functions are unsafe because the instruction set must be present.
pub(super) trait Words: Copy {
    /// For scales: as many lanes.
    type Floats: Simd;
    type V: Copy;
    const ROWS: usize;

    /// The 16 bytes from byte `at` on of the first pointers. Result w has word w of each.
    unsafe fn load(rows: &[*const u8; MAX_ROWS], at: usize) -> [Self::V; 4];
    /// The 32 bytes from there on.
    unsafe fn load_eight(rows: &[*const u8; MAX_ROWS], at: usize) -> [Self::V; 8];
    unsafe fn store(to: *mut u8, v: Self::V);
    unsafe fn splat(word: u32) -> Self::V;
    unsafe fn and(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn xor(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn shift_left(v: Self::V, bits: usize) -> Self::V;
    unsafe fn shift_right(v: Self::V, bits: usize) -> Self::V;
    /// With copies of the sign.
    unsafe fn shift_signed(v: Self::V, bits: usize) -> Self::V;
    /// For each byte, which is less than 16, the byte of the table.
    unsafe fn look_up(table: *const u8, codes: Self::V) -> Self::V;
    /// `codes`, and 16 in the bytes whose bit is set: those of word `w` of eight.
    unsafe fn with_fifth_bits(codes: Self::V, bits: Self::V, w: usize) -> Self::V;
    /// The f16 in the low half of each word.
    unsafe fn halves(v: Self::V) -> <Self::Floats as Simd>::V;
    unsafe fn to_floats(v: Self::V) -> <Self::Floats as Simd>::V;
}

/// Defines `fill`, [`TileKernel::fill`](super::tile::TileKernel::fill) of an instruction set with these [`Words`]: a function for each
/// type, in which the type is a constant.
macro_rules! filler {
    ($words:ident, $features:literal) => {
        $crate::product::pack::filler!(
            $words, $features, Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Iq4Nl Q4K Q5K Q6K Iq4Xs
        );
    };
    ($words:ident, $features:literal, $($ty:ident)*) => {
        /// [`TileKernel::fill`](tile::TileKernel::fill), whole blocks of several rows at a time.
        ///
        /// # Safety
        /// The instruction set is present.
        #[target_feature(enable = $features)]
        #[inline]
        unsafe fn fill<const SIGNED: bool>(
            product: &Product,
            rows: [usize; 2],
            first: usize,
            ahead: &[u8],
            panel: &mut Panel,
        ) {
            #[target_feature(enable = $features)]
            #[inline(never)]
            unsafe fn of_type<const T: usize, const SIGNED: bool>(
                product: &Product,
                rows: [usize; 2],
                first: usize,
                ahead: &[u8],
                panel: &mut Panel,
            ) {
                // SAFETY: the caller's promise.
                unsafe { pack::fill::<$words, T, SIGNED>(product, rows, first, ahead, panel) }
            }
            // SAFETY: the caller's promise.
            unsafe {
                match product.ty {
                    $($crate::product::WeightType::$ty => of_type::<
                        { $crate::product::WeightType::$ty as usize },
                        SIGNED,
                    >(product, rows, first, ahead, panel),)*
                }
            }
        }
    };
}
pub(super) use filler;

/// Fills the panel with the elements from `first` on of the rows `rows`. Rows that are not there are like the last one. `SIGNED`
/// codes of 8 bits are written as signed bytes, without their offset. The bytes `ahead` are fetched meanwhile.
///
/// # Safety
/// The instruction set is present. T is the number of the type in [`WeightType::ALL`].
#[inline(always)]
pub(super) unsafe fn fill<W: Words, const T: usize, const SIGNED: bool>(
    product: &Product,
    rows: [usize; 2],
    first: usize,
    ahead: &[u8],
    panel: &mut Panel,
) {
    const ELEMENTS: usize = PANEL_SLABS * SLAB;
    let ty = const { WeightType::ALL[T] };
    if const { SIGNED && WeightType::ALL[T].format().offset != 128 } {
        unreachable!("codes of fewer than 8 bits are not signed");
    }
    let bytes = |elements: usize| elements / ty.block_elements() * ty.block_bytes();
    let (row_bytes, elements) = (product.row_bytes(), ELEMENTS.min(product.n_in - first));
    let slabs = elements.div_ceil(SLAB);
    let mut ahead = ahead.chunks(ahead.len().div_ceil(STEPS * slabs * ROWS / W::ROWS).max(1));
    for start in (0..rows[1] - rows[0]).step_by(W::ROWS) {
        let mut of_rows = [product.rows.as_ptr(); MAX_ROWS];
        for r in Loop(0, W::ROWS) {
            let row = (rows[0] + start + r).min(rows[1] - 1);
            of_rows[r] = product.rows.as_ptr().wrapping_add(row * row_bytes + bytes(first));
        }
        for number in Loop(0, slabs) {
            let at = number * bytes(SLAB);
            let slab = &mut panel.slabs[number];
            let ahead = &mut ahead;
            let mut part =
                SlabRows::<W, T, SIGNED> { rows: &of_rows, at, slab, start, ahead, words: PhantomData };
            // SAFETY: the caller's promise; the rows have these elements.
            unsafe {
                if ty.block_elements() == SLAB {
                    part.fill_slab();
                } else {
                    for b in Loop(0, SLAB.min(elements - number * SLAB) / 32) {
                        part.fill_block(b);
                    }
                }
            }
        }
    }
}

/// The rows of a slab that are filled at a time.
struct SlabRows<'a, 'b, W, const T: usize, const SIGNED: bool> {
    /// Where each of them is in the panel.
    rows: &'a [*const u8; MAX_ROWS],
    /// Bytes from there to the slab.
    at: usize,
    slab: &'a mut Slab,
    /// The first one's number in the slab.
    start: usize,
    /// What is fetched ahead, a piece in each step.
    ahead: &'a mut Chunks<'b, u8>,
    words: PhantomData<W>,
}

impl<W: Words, const T: usize, const SIGNED: bool> SlabRows<'_, '_, W, T, SIGNED> {
    const TY: WeightType = WeightType::ALL[T];

    /// Fetches the next piece ahead.
    #[inline(always)]
    fn step(&mut self) {
        let ahead = self.ahead.next().unwrap_or_default();
        for line in Loop(0, ahead.len().div_ceil(64)) {
            // SAFETY: any address will do.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(ahead.as_ptr().wrapping_add(64 * line).cast()) };
        }
    }

    /// The 16 bytes at byte `at` of the rows' slabs.
    #[inline(always)]
    unsafe fn load(&self, at: usize) -> [W::V; 4] {
        // SAFETY: the caller's promise.
        unsafe { W::load(self.rows, self.at + at) }
    }

    /// The 32 bytes there.
    #[inline(always)]
    unsafe fn load_eight(&self, at: usize) -> [W::V; 8] {
        // SAFETY: the caller's promise.
        unsafe { W::load_eight(self.rows, self.at + at) }
    }

    /// Writes the codes of word `w` of the slab.
    #[inline(always)]
    unsafe fn store(&mut self, w: usize, codes: W::V) {
        // SAFETY: the caller's promise: the slab has the word.
        unsafe { W::store(self.slab.codes.as_mut_ptr().add(w).cast::<u8>().add(4 * self.start), codes) }
    }

    /// The codes of indices of the table.
    #[inline(always)]
    unsafe fn look_up(codes: W::V) -> W::V {
        let table = if SIGNED { IQ4_VALUES.as_ptr().cast() } else { IQ4_CODES.as_ptr() };
        // SAFETY: the table has 16 bytes.
        unsafe { W::look_up(table, codes) }
    }

    #[inline(always)]
    unsafe fn low_nibbles(v: W::V) -> W::V {
        // SAFETY: the instruction set is present.
        unsafe { W::and(v, W::splat(0x0f0f_0f0f)) }
    }

    #[inline(always)]
    unsafe fn high_nibbles(v: W::V) -> W::V {
        // SAFETY: the instruction set is present.
        unsafe { Self::low_nibbles(W::shift_right(v, 4)) }
    }

    /// These bits of each byte, from `bit` on, moved to its bits 4 and up: the `mask` says which of them.
    #[inline(always)]
    unsafe fn above_nibbles(v: W::V, bit: usize, mask: u8) -> W::V {
        // SAFETY: the instruction set is present.
        unsafe {
            let moved = if bit < 4 { W::shift_left(v, 4 - bit) } else { W::shift_right(v, bit - 4) };
            W::and(moved, W::splat(u32::from_le_bytes([mask; 4])))
        }
    }

    /// Number `k` of a word's four signed bytes.
    #[inline(always)]
    unsafe fn signed_byte(v: W::V, k: usize) -> <W::Floats as Simd>::V {
        // SAFETY: the instruction set is present.
        unsafe { W::to_floats(W::shift_signed(W::shift_left(v, 24 - 8 * k), 24)) }
    }

    #[inline(always)]
    unsafe fn store_scale(&mut self, group: usize, scale: <W::Floats as Simd>::V) {
        // SAFETY: the caller's promise: there is such a group.
        unsafe {
            W::Floats::store(self.slab.scales.as_mut_ptr().add(group).cast::<f32>().add(self.start), scale)
        }
    }

    #[inline(always)]
    unsafe fn store_minimum(&mut self, group: usize, minimum: <W::Floats as Simd>::V) {
        // SAFETY: the caller's promise: there is such a group.
        unsafe {
            W::Floats::store(self.slab.minima.as_mut_ptr().add(group).cast::<f32>().add(self.start), minimum)
        }
    }

    /// A block of 32.
    #[inline(always)]
    unsafe fn fill_block(&mut self, b: usize) {
        let at = b * Self::TY.block_bytes();
        if b.is_multiple_of(2) {
            self.step();
        }
        // SAFETY: the caller's promise: the rows have this block, and loads stay inside it.
        unsafe {
            let head = self.load(at);
            self.store_scale(b, W::halves(head[0]));
            if Self::TY.format().minima {
                self.store_minimum(b, W::halves(W::shift_right(head[0], 16)));
            }
            if Self::TY.block_bytes() == 34 {
                let codes = self.load_eight(at + 2);
                for w in Loop(0, 8) {
                    let offset = W::splat(if SIGNED { 0 } else { 0x8080_8080 });
                    self.store(8 * b + w, W::xor(codes[w], offset));
                }
                return;
            }
            let fifth = match Self::TY {
                WeightType::Q5_0 => W::or(W::shift_right(head[0], 16), W::shift_left(head[1], 16)),
                _ => head[1],
            };
            let packed = self.load(at + Self::TY.block_bytes() - 16);
            for w in Loop(0, 4) {
                let nibbles = [Self::low_nibbles(packed[w]), Self::high_nibbles(packed[w])];
                for high in Loop(0, 2) {
                    let codes = nibbles[high];
                    let codes = match Self::TY {
                        WeightType::Q5_0 | WeightType::Q5_1 => W::with_fifth_bits(codes, fifth, w + 4 * high),
                        WeightType::Iq4Nl => Self::look_up(codes),
                        _ => codes,
                    };
                    self.store(8 * b + w + 4 * high, codes);
                }
            }
        }
    }

    /// A block of 256.
    #[inline(always)]
    unsafe fn fill_slab(&mut self) {
        // SAFETY: the caller's promise: the rows have this block, and loads stay inside it.
        unsafe {
            match Self::TY {
                WeightType::Q4K => {
                    self.k_scales();
                    for pair in Loop(0, 4) {
                        self.step();
                        let packed = self.load_eight(16 + 32 * pair);
                        for w in Loop(0, 8) {
                            self.store(16 * pair + w, Self::low_nibbles(packed[w]));
                            self.store(16 * pair + 8 + w, Self::high_nibbles(packed[w]));
                        }
                    }
                }
                WeightType::Q5K => {
                    self.k_scales();
                    // Bit g of a byte belongs to group g.
                    let fifth = self.load_eight(16);
                    for pair in Loop(0, 4) {
                        self.step();
                        let packed = self.load_eight(48 + 32 * pair);
                        for w in Loop(0, 8) {
                            let low = Self::above_nibbles(fifth[w], 2 * pair, 0x10);
                            let high = Self::above_nibbles(fifth[w], 2 * pair + 1, 0x10);
                            self.store(16 * pair + w, W::or(Self::low_nibbles(packed[w]), low));
                            self.store(16 * pair + 8 + w, W::or(Self::high_nibbles(packed[w]), high));
                        }
                    }
                }
                WeightType::Q6K => {
                    // The scales of the groups 14 and 15 are beside the scale of all.
                    let all = W::halves(W::shift_right(self.load(194)[3], 16));
                    let scales = self.load(192);
                    for g in Loop(0, 16) {
                        let scale = Self::signed_byte(scales[g / 4], g % 4);
                        self.store_scale(g, W::Floats::mul(scale, all));
                    }
                    for half in Loop(0, 2) {
                        let high = self.load_eight(128 + 32 * half);
                        for v in Loop(0, 2) {
                            self.step();
                            let packed = self.load_eight(64 * half + 32 * v);
                            for w in Loop(0, 8) {
                                let bits = [
                                    Self::above_nibbles(high[w], 2 * v, 0x30),
                                    Self::above_nibbles(high[w], 2 * v + 4, 0x30),
                                ];
                                let to = 32 * half + 8 * v + w;
                                self.store(to, W::or(Self::low_nibbles(packed[w]), bits[0]));
                                self.store(to + 16, W::or(Self::high_nibbles(packed[w]), bits[1]));
                            }
                        }
                    }
                }
                WeightType::Iq4Xs => {
                    let [head, low, ..] = self.load(0);
                    let (all, high) = (W::halves(head), W::shift_right(head, 16));
                    for g in Loop(0, 8) {
                        if g % 2 == 0 {
                            self.step();
                        }
                        let low = W::and(W::shift_right(low, 4 * g), W::splat(15));
                        let high = W::and(W::shift_left(W::shift_right(high, 2 * g), 4), W::splat(0x30));
                        let scale = W::sub(W::or(low, high), W::splat(32));
                        self.store_scale(g, W::Floats::mul(W::to_floats(scale), all));
                        let packed = self.load(8 + 16 * g);
                        for w in Loop(0, 4) {
                            self.store(8 * g + w, Self::look_up(Self::low_nibbles(packed[w])));
                            self.store(8 * g + 4 + w, Self::look_up(Self::high_nibbles(packed[w])));
                        }
                    }
                }
                _ => unreachable!("blocks of 32"),
            }
        }
    }

    /// The scales of Q4_K and Q5_K: 8, and 8 minima, 6 bits wide, in 12 bytes.
    #[inline(always)]
    unsafe fn k_scales(&mut self) {
        // SAFETY: the caller's promise: a block is there.
        unsafe {
            let [all, a, b, c] = self.load(0);
            let scale = W::halves(all);
            let minimum = W::Floats::sub(W::Floats::splat(0.0), W::halves(W::shift_right(all, 16)));
            let (low, high) = (W::splat(0x0f0f_0f0f), W::splat(0x3030_3030));
            let first = W::splat(0x3f3f_3f3f);
            let upper = |of: W::V, four: W::V| W::or(W::and(four, low), W::and(W::shift_right(of, 2), high));
            let scales = [W::and(a, first), upper(a, c)];
            let minima = [W::and(b, first), upper(b, W::shift_right(c, 4))];
            for g in Loop(0, 8) {
                // No byte is negative.
                self.store_scale(g, W::Floats::mul(Self::signed_byte(scales[g / 4], g % 4), scale));
                self.store_minimum(g, W::Floats::mul(Self::signed_byte(minima[g / 4], g % 4), minimum));
            }
        }
    }
}
