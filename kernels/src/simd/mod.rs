//! One trait for all instruction sets, so that every kernel is written once. A kernel is a struct that
//! implements [`Kernel`]. [`Isa::enter`] runs it inside a function that is compiled for the instruction set
//! and inlines everything generic.
//!
//! Rule for kernels: `#[inline(always)]` on everything they call, and no iterator adaptors with closures in
//! hot loops. A function that is not inlined is compiled without the instruction set: correct, but slow.

/// Functions of [`Simd`] whose body is one expression of intrinsics and pointer arithmetic.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! ops {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: $ty),*) -> $ret {
            // SAFETY: the trait's contract: the instruction set is present and pointers cover what is read or
            // written.
            unsafe { $body }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
pub(crate) use ops;

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod scalar;

#[cfg(target_arch = "aarch64")]
use std::arch::is_aarch64_feature_detected;

/// An instruction set that the kernels support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 with FMA and F16C, and AVX-VNNI.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// AVX2 with FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// NEON, of ARM's 64-bit processors.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// No special instructions: portable Rust in groups of 8.
    Scalar,
}

impl Isa {
    /// The best instruction set of this processor.
    pub fn best() -> Isa {
        #[cfg(target_arch = "x86_64")]
        for isa in [Isa::Avx512, Isa::AvxVnni, Isa::Avx2] {
            if isa.present() {
                return isa;
            }
        }
        #[cfg(target_arch = "aarch64")]
        if Isa::Neon.present() {
            return Isa::Neon;
        }
        Isa::Scalar
    }

    /// All instruction sets of this processor, best first.
    pub fn available() -> Vec<Isa> {
        let all = [
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon,
            Isa::Scalar,
        ];
        all.into_iter().filter(|isa| isa.present()).collect()
    }

    /// Whether this processor has it. (The answer is cached by the standard library.)
    pub fn present(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && Isa::Avx2.present()
            }
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => Isa::Avx2.present() && is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => is_aarch64_feature_detected!("neon"),
            Isa::Scalar => true,
        }
    }

    /// Accumulators that fit its register file beside a few operands.
    pub(crate) fn accumulators(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512::ACCUMULATORS,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni | Isa::Avx2 => avx2::Avx2::ACCUMULATORS,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => neon::Neon::ACCUMULATORS,
            Isa::Scalar => scalar::Scalar::ACCUMULATORS,
        }
    }

    /// Whether it has products of integers ([`IntegerSimd`]).
    pub(crate) fn has_integers(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::AvxVnni | Isa::Avx2 => true,
            _ => false,
        }
    }

    /// Runs a kernel compiled for this instruction set, which has products of integers.
    ///
    /// # Safety
    /// [`present`](Self::present) holds, and the kernel's own requirements are met.
    #[inline]
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(unused_variables, unused_unsafe, reason = "no other instruction set takes the kernel")
    )]
    pub(crate) unsafe fn enter_with_integers<K: IntegerKernel>(self, kernel: K) {
        // SAFETY: the caller's promise covers the target features and the kernel's requirements.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => avx512::enter_with_integers(kernel),
                #[cfg(target_arch = "x86_64")]
                Isa::AvxVnni | Isa::Avx2 => avx2::enter_with_integers(kernel),
                _ => unreachable!("the caller asks has_integers first"),
            }
        }
    }

    /// Whether it multiplies bytes fast on this processor: with AVX-512 VNNI, AVX-VNNI, AVX2, or ARM's dot products.
    pub fn has_bytes(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => self.present() && is_x86_feature_detected!("avx512vnni"),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni | Isa::Avx2 => self.present(),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => self.present() && is_aarch64_feature_detected!("dotprod"),
            Isa::Scalar => false,
        }
    }

    /// Bytes of a rounded element of queries and keys, where it has products of bytes.
    pub(crate) fn key_bytes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => key_bytes::<avx2::Avx2>(),
            _ => 1,
        }
    }

    /// Runs a kernel compiled for this instruction set and its products of bytes.
    ///
    /// # Safety
    /// [`has_bytes`](Self::has_bytes) holds, and the kernel's own requirements are met.
    #[inline]
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(unused_variables, unused_unsafe, reason = "no other instruction set takes the kernel")
    )]
    pub(crate) unsafe fn enter_with_bytes<K: ByteKernel>(self, kernel: K) -> K::Out {
        // SAFETY: the caller's promise covers the target features and the kernel's requirements.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => avx512::enter_with_bytes(kernel),
                #[cfg(target_arch = "x86_64")]
                Isa::AvxVnni => avx2::enter_with_vnni(kernel),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2::enter_with_bytes(kernel),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon => neon::enter_with_bytes(kernel),
                Isa::Scalar => unreachable!("the caller asks has_bytes first"),
            }
        }
    }

    /// Runs a kernel compiled for this instruction set.
    ///
    /// # Safety
    /// [`present`](Self::present) holds, and the kernel's own requirements are met.
    #[inline]
    pub(crate) unsafe fn enter<K: Kernel>(self, kernel: K) -> K::Out {
        // SAFETY: the caller's promise covers the target features and the kernel's requirements.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => avx512::enter(kernel),
                #[cfg(target_arch = "x86_64")]
                Isa::AvxVnni | Isa::Avx2 => avx2::enter(kernel),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon => neon::enter(kernel),
                Isa::Scalar => scalar::enter(kernel),
            }
        }
    }
}

/// Work that is written once for all instruction sets.
pub(crate) trait Kernel {
    type Out;
    /// # Safety
    /// `S`'s instruction set is present; the implementing struct documents the requirements on its fields.
    unsafe fn run<S: Simd>(self) -> Self::Out;
}

/// Work that is written once for the instruction sets with products of integers.
pub(crate) trait IntegerKernel {
    /// # Safety
    /// `S`'s instruction set is present; the implementing struct documents the requirements on its fields.
    unsafe fn run<S: IntegerSimd>(self);
}

/// Work that is written once for the instruction sets with products of bytes.
pub(crate) trait ByteKernel {
    type Out;
    /// # Safety
    /// `S`'s instruction set is present; the implementing struct documents the requirements on its fields.
    unsafe fn run<S: ByteSimd>(self) -> Self::Out;
}

/// The numbers from the first up to, not including, the second: a `Range` that is inlined in debug builds
/// too.
pub(crate) struct Loop(pub usize, pub usize);

impl Iterator for Loop {
    type Item = usize;
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 < self.1 {
            self.0 += 1;
            Some(self.0 - 1)
        } else {
            None
        }
    }
}

/// Vectors of `LANES` floats (8 or 16), and of 32 bytes. All functions are unsafe for the same reason: the instruction set
/// must be present. Pointers need no alignment.
pub(crate) trait Simd: Copy + 'static {
    type V: Copy;
    /// 32 bytes.
    type Bytes: Copy;
    const LANES: usize;
    /// Accumulators that fit the register file beside a few operands.
    const ACCUMULATORS: usize;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    /// 8 floats, the other lanes zero.
    unsafe fn load_half(p: *const f32) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// b where either is NaN.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// b where either is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// a * b + c.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// To the nearest integer.
    unsafe fn round(a: Self::V) -> Self::V;
    /// p * 2^n for integers n, and 0 where x < -126 (not where it is NaN).
    unsafe fn scale_by_exp2(p: Self::V, n: Self::V, x: Self::V) -> Self::V;

    /// LANES halves as floats.
    unsafe fn load_f16(p: *const u8) -> Self::V;
    /// 8 halves as floats, the other lanes zero.
    unsafe fn load_f16_half(p: *const u8) -> Self::V;
    /// One half in all lanes.
    unsafe fn splat_f16(p: *const u8) -> Self::V;
    /// LANES signed bytes as floats.
    unsafe fn load_i8(p: *const u8) -> Self::V;
    /// The low nibbles of LANES bytes as floats 0..=15.
    unsafe fn load_u4_low(p: *const u8) -> Self::V;
    /// The high nibbles of LANES bytes as floats 0..=15.
    unsafe fn load_u4_high(p: *const u8) -> Self::V;
    /// `IQ4_VALUES` of the low nibbles of LANES bytes.
    unsafe fn load_iq4_low(p: *const u8) -> Self::V;
    /// `IQ4_VALUES` of the high nibbles of LANES bytes.
    unsafe fn load_iq4_high(p: *const u8) -> Self::V;

    /// First step of sums across lanes: each group of 4 lanes of a and b becomes [a0 + a2, a1 + a3, b0 + b2,
    /// b1 + b3].
    unsafe fn halve(a: Self::V, b: Self::V) -> Self::V;
    /// Second step: each group of 4 lanes becomes [a0 + a1, a2 + a3, b0 + b1, b2 + b3].
    unsafe fn halve_again(a: Self::V, b: Self::V) -> Self::V;
    /// Last step: writes 16 floats, number 4 i + j being the sum over the groups of lane j of `quads[i]`.
    unsafe fn store_sums(p: *mut f32, quads: [Self::V; 4]);
    unsafe fn sum(v: Self::V) -> f32;
    /// Whether any lane of a is greater than the same lane of b.
    unsafe fn any_greater(a: Self::V, b: Self::V) -> bool;
    /// Lane 0.
    unsafe fn first(v: Self::V) -> f32;
    unsafe fn largest(v: Self::V) -> f32;

    unsafe fn load_bytes(p: *const u8) -> Self::Bytes;
    unsafe fn store_bytes(p: *mut u8, v: Self::Bytes);
    /// The low nibbles of 16 bytes, then their high nibbles.
    unsafe fn load_nibbles(p: *const u8) -> Self::Bytes;
    unsafe fn low_nibbles(v: Self::Bytes) -> Self::Bytes;
    unsafe fn high_nibbles(v: Self::Bytes) -> Self::Bytes;
    /// The bits `mask` from bit `shift` on of each byte, as bits 4 and up.
    unsafe fn bits_above_nibbles(v: Self::Bytes, shift: usize, mask: u8) -> Self::Bytes;
    /// Bit i as bit 4 of byte i.
    unsafe fn spread_bits(bits: u32) -> Self::Bytes;
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Signed bytes plus 128.
    unsafe fn plus_128(v: Self::Bytes) -> Self::Bytes;

    /// Prefetches the cache line at `p`, which may be any address.
    unsafe fn prefetch(p: *const u8);
}

/// What products of integers have in common. All functions are unsafe as those of [`Simd`] are.
pub(crate) trait WordSimd: Simd {
    /// `LANES` integers of 32 bits, or as many pairs of integers of 16 bits, or as many fours of bytes.
    type Integers: Copy;

    unsafe fn zeros() -> Self::Integers;
    /// Four bytes for each lane.
    unsafe fn load_words(p: *const u8) -> Self::Integers;
    /// Four bytes in all lanes.
    unsafe fn splat_word(p: *const u8) -> Self::Integers;
    /// Integers of 32 bits as floats.
    unsafe fn floats(v: Self::Integers) -> Self::V;
    /// The larger absolute value; NaN is larger than all others.
    unsafe fn larger_magnitude(a: Self::V, b: Self::V) -> Self::V;
    /// The largest of lanes that are not negative; NaN is larger than all others.
    unsafe fn largest_magnitude(v: Self::V) -> f32;
}

/// Products of integers, for the instruction sets that multiply pairs of them in one instruction
/// ([`Isa::has_integers`]). All functions are unsafe as those of [`Simd`] are.
pub(crate) trait IntegerSimd: WordSimd {
    /// The sum of both products of the pairs of a and b, plus c.
    unsafe fn multiply_pairs(a: Self::Integers, b: Self::Integers, c: Self::Integers) -> Self::Integers;
    /// Writes the nearest integers, which have 16 bits.
    unsafe fn store_i16(p: *mut i16, v: Self::V);
    /// The 16 bytes at each address.
    unsafe fn load_two(a: *const u8, b: *const u8) -> Self::Bytes;
    /// The values of bytes below 16.
    unsafe fn look_up(values: &[i8; 16], v: Self::Bytes) -> Self::Bytes;
    /// Number i of the arguments has four words of rows i and i + 4. Number j of the results has word j of eight rows.
    unsafe fn transpose(rows: [Self::Bytes; 4]) -> [Self::Bytes; 4];
    /// Signed bytes 0, 2, 4, … as integers of 16 bits.
    unsafe fn even_bytes(v: Self::Bytes) -> Self::Bytes;
    /// Signed bytes 1, 3, 5, … as integers of 16 bits.
    unsafe fn odd_bytes(v: Self::Bytes) -> Self::Bytes;
    /// Signed bytes as integers of 16 bits, in pairs of one of the first 16 and one of the others.
    unsafe fn interleave(v: Self::Bytes) -> [Self::Bytes; 2];
}

/// Products of bytes, for the instruction sets that multiply four of them for each lane in one instruction, and for AVX2
/// ([`Isa::has_bytes`]). All functions are unsafe as those of [`Simd`] are.
pub(crate) trait ByteSimd: WordSimd {
    /// Bits of the bytes: 8, or 7 where sums of four products must fit 16 bits.
    const BITS: u32;
    /// Bits of queries and keys in attention: as many, or up to 16 where products of such integers are as fast.
    const KEY_BITS: u32;
    /// Whether [`multiply_two`](Self::multiply_two) is faster than twice [`multiply_bytes`](Self::multiply_bytes).
    const IN_TWOS: bool;
    /// Whether the first bytes of [`multiply_bytes`](Self::multiply_bytes) are signed, too. What is unsigned elsewhere then has 128
    /// taken off.
    const SIGNED: bool;

    /// The sum of the products of four bytes of a, unsigned unless [`SIGNED`](Self::SIGNED), and four signed bytes of b, plus c.
    unsafe fn multiply_bytes(a: Self::Integers, b: Self::Integers, c: Self::Integers) -> Self::Integers;
    /// The sum of the products of both, plus c.
    #[inline(always)]
    unsafe fn multiply_two(
        a: [Self::Integers; 2],
        b: [Self::Integers; 2],
        c: Self::Integers,
    ) -> Self::Integers {
        // SAFETY: the caller's promise.
        unsafe { Self::multiply_bytes(a[1], b[1], Self::multiply_bytes(a[0], b[0], c)) }
    }
    /// The sum of the products of words of keys, and words of queries, plus c.
    #[inline(always)]
    unsafe fn multiply_keys(a: Self::Integers, b: Self::Integers, c: Self::Integers) -> Self::Integers {
        // SAFETY: the caller's promise.
        unsafe { Self::multiply_bytes(a, b, c) }
    }
    /// Word i has the lanes i of the arguments: all four, or the first two where keys have more than 8 bits.
    #[inline(always)]
    unsafe fn pack_queries(v: [Self::Integers; 4]) -> Self::Integers {
        // SAFETY: the caller's promise.
        unsafe { Self::pack_signed(v) }
    }
    /// Writes the nearest integers, side by side.
    #[inline(always)]
    unsafe fn store_keys(p: *mut u8, v: Self::V) {
        // SAFETY: the caller's promise.
        unsafe { Self::store_low_bytes(p, Self::nearest(v)) }
    }
    /// The nearest integers.
    unsafe fn nearest(v: Self::V) -> Self::Integers;
    unsafe fn subtract(a: Self::Integers, b: Self::Integers) -> Self::Integers;
    unsafe fn store_integers(p: *mut u8, v: Self::Integers);
    /// Writes the low bytes of the lanes, side by side.
    unsafe fn store_low_bytes(p: *mut u8, v: Self::Integers);
    /// Byte i of each lane is the lane of number i of the arguments, which are signed bytes.
    unsafe fn pack_signed(v: [Self::Integers; 4]) -> Self::Integers;
    /// Byte i of each lane is the lane of number i of the arguments, which are unsigned bytes: less 128 where all are signed.
    unsafe fn pack_unsigned(v: [Self::Integers; 4]) -> Self::Integers;
}

/// Bytes of a rounded element of queries and keys.
pub(crate) const fn key_bytes<S: ByteSimd>() -> usize {
    S::KEY_BITS.div_ceil(8) as usize
}

/// The bytes of [`Simd`], for the instruction sets that have AVX2.
#[cfg(target_arch = "x86_64")]
macro_rules! avx2_bytes {
    () => {
        ops! {
            load_bytes(p: *const u8) -> __m256i = _mm256_loadu_si256(p.cast());
            store_bytes(p: *mut u8, v: __m256i) -> () = _mm256_storeu_si256(p.cast(), v);
            load_nibbles(p: *const u8) -> __m256i = {
                let low = _mm_loadu_si128(p.cast());
                let both = _mm256_set_m128i(_mm_srli_epi16::<4>(low), low);
                _mm256_and_si256(both, _mm256_set1_epi8(15))
            };
            low_nibbles(v: __m256i) -> __m256i = _mm256_and_si256(v, _mm256_set1_epi8(15));
            high_nibbles(v: __m256i) -> __m256i =
                _mm256_and_si256(_mm256_srli_epi16::<4>(v), _mm256_set1_epi8(15));
            bits_above_nibbles(v: __m256i, shift: usize, mask: u8) -> __m256i = {
                let bits = _mm256_srl_epi16(v, _mm_cvtsi32_si128(shift as i32));
                _mm256_slli_epi16::<4>(_mm256_and_si256(bits, _mm256_set1_epi8(mask.cast_signed())))
            };
            spread_bits(bits: u32) -> __m256i = {
                // Each byte of the bits eight times, and in each of these another bit.
                let order = _mm256_set_epi64x(
                    0x0303_0303_0303_0303, 0x0202_0202_0202_0202, 0x0101_0101_0101_0101, 0,
                );
                let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits.cast_signed()), order);
                let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
                let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
                _mm256_and_si256(is_set, _mm256_set1_epi8(16))
            };
            or(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
            plus_128(v: __m256i) -> __m256i = _mm256_xor_si256(v, _mm256_set1_epi8(-128));
        }
    };
}
#[cfg(target_arch = "x86_64")]
use avx2_bytes;

/// For 16 bytes, the order that has bytes 0, 4, 8 and 12 first, then 1, 5, 9 and 13, and so on.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn every_fourth_byte() -> std::arch::x86_64::__m128i {
    let order = [0u8, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
    // SAFETY: 16 bytes; SSE2 is in every x86-64.
    unsafe { std::arch::x86_64::_mm_loadu_si128(order.as_ptr().cast()) }
}

/// The bytes of [`IntegerSimd`], for the instruction sets that have AVX2.
#[cfg(target_arch = "x86_64")]
macro_rules! avx2_integers {
    () => {
        ops! {
            load_two(a: *const u8, b: *const u8) -> __m256i =
                _mm256_inserti128_si256::<1>(
                    _mm256_castsi128_si256(_mm_loadu_si128(a.cast())),
                    _mm_loadu_si128(b.cast()),
                );
            look_up(values: &[i8; 16], v: __m256i) -> __m256i =
                _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(values.as_ptr().cast())), v);
            transpose(rows: [__m256i; 4]) -> [__m256i; 4] = {
                let (a, b) = (_mm256_unpacklo_epi32(rows[0], rows[1]), _mm256_unpacklo_epi32(rows[2], rows[3]));
                let (c, d) = (_mm256_unpackhi_epi32(rows[0], rows[1]), _mm256_unpackhi_epi32(rows[2], rows[3]));
                [
                    _mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b),
                    _mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d),
                ]
            };
            even_bytes(v: __m256i) -> __m256i = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(v));
            odd_bytes(v: __m256i) -> __m256i = _mm256_srai_epi16::<8>(v);
            interleave(v: __m256i) -> [__m256i; 2] = {
                let (a, b) = (_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
                [_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b)), _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b))]
            };
        }
    };
}
#[cfg(target_arch = "x86_64")]
use avx2_integers;

/// The bytes of [`Simd`] in words of eight.
macro_rules! bytes_in_words {
    () => {
        type Bytes = [u64; 4];

        #[inline(always)]
        unsafe fn load_bytes(p: *const u8) -> [u64; 4] {
            // SAFETY: the caller's promise: 32 bytes.
            unsafe { p.cast::<[u64; 4]>().read_unaligned() }
        }
        #[inline(always)]
        unsafe fn store_bytes(p: *mut u8, v: [u64; 4]) {
            // SAFETY: as above.
            unsafe { p.cast::<[u64; 4]>().write_unaligned(v) }
        }
        #[inline(always)]
        unsafe fn load_nibbles(p: *const u8) -> [u64; 4] {
            // SAFETY: the caller's promise: 16 bytes.
            let [a, b] = unsafe { p.cast::<[u64; 2]>().read_unaligned() };
            let low = $crate::simd::bytes_of(15);
            [a & low, b & low, a >> 4 & low, b >> 4 & low]
        }
        #[inline(always)]
        unsafe fn low_nibbles([a, b, c, d]: [u64; 4]) -> [u64; 4] {
            let low = $crate::simd::bytes_of(15);
            [a & low, b & low, c & low, d & low]
        }
        #[inline(always)]
        unsafe fn high_nibbles([a, b, c, d]: [u64; 4]) -> [u64; 4] {
            let low = $crate::simd::bytes_of(15);
            [a >> 4 & low, b >> 4 & low, c >> 4 & low, d >> 4 & low]
        }
        #[inline(always)]
        unsafe fn bits_above_nibbles([a, b, c, d]: [u64; 4], shift: usize, mask: u8) -> [u64; 4] {
            let mask = $crate::simd::bytes_of(mask);
            [
                (a >> shift & mask) << 4,
                (b >> shift & mask) << 4,
                (c >> shift & mask) << 4,
                (d >> shift & mask) << 4,
            ]
        }
        #[inline(always)]
        unsafe fn spread_bits(bits: u32) -> [u64; 4] {
            let [a, b, c, d] = bits.to_le_bytes();
            let spread = $crate::simd::spread_byte;
            [spread(a), spread(b), spread(c), spread(d)]
        }
        #[inline(always)]
        unsafe fn or(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
            [a[0] | b[0], a[1] | b[1], a[2] | b[2], a[3] | b[3]]
        }
        #[inline(always)]
        unsafe fn plus_128([a, b, c, d]: [u64; 4]) -> [u64; 4] {
            let high = $crate::simd::bytes_of(128);
            [a ^ high, b ^ high, c ^ high, d ^ high]
        }
    };
}
use bytes_in_words;

/// This byte, eight times.
const fn bytes_of(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Bit i of a byte as bit 4 of byte i. Byte i of the product has the bits from bit i on, of which the lowest counts.
#[inline(always)]
fn spread_byte(byte: u8) -> u64 {
    let bits = u64::from(byte);
    ((((bits & 0x7f) * 0x0002_0408_1020_4081) & bytes_of(1)) | bits >> 7 << 56) << 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_instruction_set_is_the_first() {
        assert_eq!(Isa::best(), Isa::available()[0]);
        #[cfg(target_arch = "aarch64")]
        assert_eq!(Isa::available(), [Isa::Neon, Isa::Scalar]);
    }
}
