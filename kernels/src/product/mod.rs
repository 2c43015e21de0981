//! Products of quantised matrices with several columns. Many columns are the prefill of a model, few are drafted tokens and
//! answers that are computed together. Compute bound.
//!
//! The activations are quantised once for a product, as ggml does: blocks of 32 as in Q8_0, or blocks of 256 as in
//! Q8_K. The weights of `ROWS` rows and some slabs of 256 elements are unpacked into a *panel*. It has unsigned bytes
//! ("codes"), and an f32 scale for each group of 16 or 32. The panel stays in the first-level cache while all columns
//! are multiplied with it. All types of weights have the same panel, so there is one kernel for the products.
//!
//! A weight is `scale * (code - offset) + minimum`. The offset of a type is the same for all its codes. It is taken
//! off where an integer sum starts (`-offset * sum of the group's activations`), and costs nothing. Types with minima
//! have no offset; their minima are multiplied with the sums of activations.
//!
//! product/tile.rs is the kernel, for AVX-512 with VNNI (product/vnni.rs), for AVX2 with and without AVX-VNNI
//! (product/avx2.rs), and for NEON with and without dot products (product/neon.rs). ARM's matrix-multiply instructions have another
//! one (product/i8mm.rs). The plain one is the reference of the tests. On other processors ggml's product is used.
//!
//! With few columns, filling the panel takes more time than the products. On x86-64 the blocks of several rows are transposed
//! before they are unpacked (product/pack.rs). A column's result does not depend on how many others there are: all are computed
//! in the same way and order.
//!
//! # History
//! On Zen 5, one thread, 1536 x 8960, 512 columns, beside ggml 0.26 in the same run, in billions of multiply-adds a
//! second. Blocks of 32: 210 to 218 instead of 52 to 68. Blocks of 256: 292 to 308 instead of 188 to 234. The peak is
//! 320 or more.
//! Panels of 1 and 4 slabs were tried, too; the machine was too noisy to tell them apart. Blocks of 32 cost one
//! multiplication more for each group: the scale of the activations.
//!
//! On a Xeon with all three units, beside ggml compiled for AVX2: AVX-VNNI 1.9 to 4.8 times as fast, AVX2 1.15 to 2.6
//! times (`cargo bench -p kernels --features ggml/portable --bench product`).
//!
//! Few columns, on Zen 5 with AVX-512, beside the better one of ggml's layouts: one is 0.9 to 1.6 times as fast, four are 1.2
//! to 4.7 times. All numbers are in tests/results/2026-11-28-few-columns-vnni.md.
//!
//! Panels were once filled row by row: codes, then their transposition. That took 13 of 15 cycles of a product with one column.
//! Few columns had a kernel without panels then, for AVX2. It unpacked two rows at a time, and every product was multiplied with
//! its scale before it was added up. With AVX2 on Zen 5, panels that are transposed first have 1.2 to 1.7 times its speed with 4
//! to 31 columns. With one to three they have 0.75 to 1.3 times, the least with q8_0.
//! Rows were fetched ahead where the next panel reads them, too: with one column and a matrix that no cache holds, a third of
//! the speed of fetching them in the order of memory. Fetching at once instead of in steps cost 15 %, eight steps instead of
//! four as much.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
pub(crate) mod i8mm;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tile;
mod unpack;
#[cfg(target_arch = "x86_64")]
mod vnni;

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use activations::quantize;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::Isa;

/// Rows of a panel.
const ROWS: usize = 32;
/// Elements of a slab: a block of the K-quants, eight blocks of the others.
const SLAB: usize = 256;
/// Slabs of a panel. The panel takes about 22 KiB.
const PANEL_SLABS: usize = 2;
/// Threads share columns in multiples of this, which is a multiple of every tile's columns.
const COLUMNS: usize = 12;

/// A type of weights that these products know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightType {
    /// 4 bits, blocks of 32.
    Q4_0,
    /// 4 bits with minima, blocks of 32.
    Q4_1,
    /// 5 bits, blocks of 32.
    Q5_0,
    /// 5 bits with minima, blocks of 32.
    Q5_1,
    /// 8 bits, blocks of 32.
    Q8_0,
    /// 4 bits by a table, blocks of 32.
    Iq4Nl,
    /// 4 bits with minima, blocks of 256.
    Q4K,
    /// 5 bits with minima, blocks of 256.
    Q5K,
    /// 6 bits, blocks of 256.
    Q6K,
    /// 4 bits by a table, blocks of 256.
    Iq4Xs,
}

/// What the kernels must know of a type.
#[derive(Clone, Copy)]
struct Format {
    /// Elements with the same scale: 16 or 32.
    group: usize,
    /// What is taken off each code.
    offset: i32,
    /// Whether groups have minima. They have no offset then.
    minima: bool,
    /// Elements of a block of activations: 32 or [`SLAB`].
    activations: usize,
}

impl WeightType {
    /// All types.
    pub const ALL: [WeightType; 10] = [
        WeightType::Q4_0,
        WeightType::Q4_1,
        WeightType::Q5_0,
        WeightType::Q5_1,
        WeightType::Q8_0,
        WeightType::Iq4Nl,
        WeightType::Q4K,
        WeightType::Q5K,
        WeightType::Q6K,
        WeightType::Iq4Xs,
    ];

    /// The name in ggml.
    pub const fn name(self) -> &'static str {
        match self {
            WeightType::Q4_0 => "q4_0",
            WeightType::Q4_1 => "q4_1",
            WeightType::Q5_0 => "q5_0",
            WeightType::Q5_1 => "q5_1",
            WeightType::Q8_0 => "q8_0",
            WeightType::Iq4Nl => "iq4_nl",
            WeightType::Q4K => "q4_K",
            WeightType::Q5K => "q5_K",
            WeightType::Q6K => "q6_K",
            WeightType::Iq4Xs => "iq4_xs",
        }
    }

    /// The type with this name in ggml.
    pub fn from_name(name: &str) -> Option<WeightType> {
        WeightType::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// Elements of a block.
    pub const fn block_elements(self) -> usize {
        match self {
            WeightType::Q4K | WeightType::Q5K | WeightType::Q6K | WeightType::Iq4Xs => SLAB,
            _ => 32,
        }
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> usize {
        match self {
            WeightType::Q4_0 | WeightType::Iq4Nl => 18,
            WeightType::Q4_1 => 20,
            WeightType::Q5_0 => 22,
            WeightType::Q5_1 => 24,
            WeightType::Q8_0 => 34,
            WeightType::Q4K => 144,
            WeightType::Q5K => 176,
            WeightType::Q6K => 210,
            WeightType::Iq4Xs => 136,
        }
    }

    const fn format(self) -> Format {
        let (group, offset, minima) = match self {
            WeightType::Q4_0 => (32, 8, false),
            WeightType::Q5_0 => (32, 16, false),
            WeightType::Q8_0 | WeightType::Iq4Nl | WeightType::Iq4Xs => (32, 128, false),
            WeightType::Q4_1 | WeightType::Q5_1 | WeightType::Q4K | WeightType::Q5K => (32, 0, true),
            WeightType::Q6K => (16, 32, false),
        };
        Format { group, offset, minima, activations: self.block_elements() }
    }
}

/// Which kernel multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// AVX2 with AVX-VNNI.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// NEON with matrix-multiply instructions for bytes (i8mm).
    #[cfg(target_arch = "aarch64")]
    NeonMatrix,
    /// NEON with dot products.
    #[cfg(target_arch = "aarch64")]
    NeonDot,
    /// NEON.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// Portable Rust.
    Plain,
}

impl Unit {
    /// All of this processor, best first.
    pub fn available() -> Vec<Unit> {
        let all = [
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512Vnni,
            #[cfg(target_arch = "x86_64")]
            Unit::AvxVnni,
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2,
            #[cfg(target_arch = "aarch64")]
            Unit::NeonMatrix,
            #[cfg(target_arch = "aarch64")]
            Unit::NeonDot,
            #[cfg(target_arch = "aarch64")]
            Unit::Neon,
            Unit::Plain,
        ];
        all.into_iter().filter(|unit| unit.is_present()).collect()
    }

    /// The best one of this processor.
    pub fn best() -> Unit {
        Unit::available()[0]
    }

    /// Whether it multiplies and adds four bytes in one instruction: VNNI.
    pub fn has_vnni(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512Vnni | Unit::AvxVnni => true,
            _ => false,
        }
    }

    fn is_present(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512Vnni => Isa::Avx512.has_bytes(),
            #[cfg(target_arch = "x86_64")]
            Unit::AvxVnni => Isa::AvxVnni.present(),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2 => Isa::Avx2.present(),
            #[cfg(target_arch = "aarch64")]
            Unit::NeonMatrix => i8mm::is_present(),
            #[cfg(target_arch = "aarch64")]
            Unit::NeonDot => Isa::Neon.has_bytes(),
            #[cfg(target_arch = "aarch64")]
            Unit::Neon => Isa::Neon.present(),
            Unit::Plain => true,
        }
    }
}

/// Where the parts of a quantised column are, in words of four bytes. Codes come first.
#[derive(Clone, Copy)]
struct ColumnLayout {
    /// A scale for each block of activations.
    scales: usize,
    /// For each group of weights the sum of its activations, ready for use. For types with an offset it is an integer,
    /// times the negative offset. For types with minima it is a float, in units of the scale that is applied later.
    sums: usize,
    /// All words: an odd number of cache lines, so that the same places of several columns are in different parts of a cache.
    words: usize,
}

impl ColumnLayout {
    fn of(format: Format, n_in: usize) -> ColumnLayout {
        let scales = n_in / 4;
        let sums = scales + n_in / format.activations;
        let lines = (sums + n_in / format.group).div_ceil(16);
        ColumnLayout { scales, sums, words: 16 * (lines | 1) }
    }
}

/// Words of four bytes of a quantised column of `n_in` activations, a multiple of the type's block.
pub fn column_words(ty: WeightType, n_in: usize) -> usize {
    ColumnLayout::of(ty.format(), n_in).words
}

/// A matrix `[n_in, n_out]` times columns `[n_in, n]`.
#[derive(Clone, Copy)]
pub struct Product<'a> {
    /// Type of the weights.
    pub ty: WeightType,
    /// Elements of a row, a multiple of the type's block.
    pub n_in: usize,
    /// `n_out` rows of the weights without gaps, in ggml's layout.
    pub rows: &'a [u8],
    /// `n` columns as [`quantize`] writes them, without gaps.
    pub columns: &'a [u32],
}

impl Product<'_> {
    fn row_bytes(&self) -> usize {
        self.n_in / self.ty.block_elements() * self.ty.block_bytes()
    }

    /// Rows of the matrix.
    pub fn n_out(&self) -> usize {
        self.rows.len() / self.row_bytes()
    }

    /// Number of columns.
    pub fn n(&self) -> usize {
        self.columns.len() / column_words(self.ty, self.n_in)
    }
}

/// Some slabs of [`ROWS`] rows.
#[repr(C, align(64))]
struct Panel {
    slabs: [Slab; PANEL_SLABS],
    /// Codes of one slab, row after row.
    unpacked: [[u8; SLAB]; ROWS],
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Slab {
    /// Codes: four elements of each row, then the next four. With i8mm eight, then the next eight.
    codes: [[[u8; 4]; ROWS]; SLAB / 4],
    /// Scales of each group.
    scales: [[f32; ROWS]; SLAB / 16],
    /// What is added to the weights of each group.
    minima: [[f32; ROWS]; SLAB / 32],
}

impl Panel {
    const EMPTY: Panel = Panel {
        slabs: [Slab {
            codes: [[[0; 4]; ROWS]; SLAB / 4],
            scales: [[0.0; ROWS]; SLAB / 16],
            minima: [[0.0; ROWS]; SLAB / 32],
        }; PANEL_SLABS],
        unpacked: [[0; SLAB]; ROWS],
    };
}

/// A part of the result: rows and columns from the first to, not including, the last.
#[derive(Clone, Copy)]
struct ResultPart {
    rows: [usize; 2],
    columns: [usize; 2],
    /// Rows that the thread multiplies next.
    next_rows: [usize; 2],
}

/// Computes the product together with `threads - 1` other threads, which pass the same arguments. `next` starts at 0
/// and is shared. When every thread has returned, `out` `[n_out, n]` is complete.
///
/// # Safety
/// `out` is valid for writes of this shape, and nothing else uses it meanwhile. All threads that write there share
/// `next`.
pub unsafe fn multiply(unit: Unit, product: &Product, next: &AtomicUsize, threads: usize, out: *mut f32) {
    thread_local! {
        static PANEL: RefCell<Box<Panel>> = RefCell::new(Box::new(Panel::EMPTY));
    }
    /// Columns are split where there are too few rows for all threads, but not further.
    const MIN_COLUMNS: usize = 4 * COLUMNS;
    assert!(unit.is_present(), "{unit:?} is not there");
    assert!(product.n_in > 0 && product.n_in.is_multiple_of(product.ty.block_elements()), "rows are blocks");
    let (n_out, n) = (product.n_out(), product.n());
    let row_tiles = n_out.div_ceil(ROWS);
    let splits = (4 * threads).div_ceil(row_tiles.max(1)).clamp(1, n.div_ceil(MIN_COLUMNS).max(1));
    let width = n.div_ceil(splits).next_multiple_of(COLUMNS);
    // Rounded up, fewer parts may be enough.
    let splits = n.div_ceil(width.max(1)).max(1);
    PANEL.with_borrow_mut(|panel| {
        // Items are taken one ahead, so that the weights of the next one can be fetched; not where that would leave other
        // threads without any.
        let items = row_tiles * splits;
        let is_ahead = items >= 4 * threads;
        let take = || next.fetch_add(1, Ordering::Relaxed);
        let rows = |item: usize| [n_out.min(item / splits * ROWS), n_out.min(item / splits * ROWS + ROWS)];
        let mut item = take();
        while item < items {
            let next_item = if is_ahead { take() } else { items };
            let column = item % splits * width;
            let part = ResultPart {
                rows: rows(item),
                columns: [column.min(n), (column + width).min(n)],
                next_rows: rows(next_item),
            };
            // SAFETY: the shared counter gives each part to one thread, and parts are disjoint in the result.
            unsafe {
                match unit {
                    #[cfg(target_arch = "x86_64")]
                    Unit::Avx512Vnni => vnni::multiply(product, part, panel, out),
                    #[cfg(target_arch = "x86_64")]
                    Unit::AvxVnni => avx2::multiply_vnni(product, part, panel, out),
                    #[cfg(target_arch = "x86_64")]
                    Unit::Avx2 => avx2::multiply(product, part, panel, out),
                    #[cfg(target_arch = "aarch64")]
                    Unit::NeonMatrix => i8mm::multiply(product, part, panel, out),
                    #[cfg(target_arch = "aarch64")]
                    Unit::NeonDot => neon::multiply_dot(product, part, panel, out),
                    #[cfg(target_arch = "aarch64")]
                    Unit::Neon => neon::multiply(product, part, panel, out),
                    Unit::Plain => plain(product, part, panel, out),
                }
            }
            item = if is_ahead { next_item } else { take() };
        }
    });
}

/// Computes a part of the result without special instructions.
///
/// # Safety
/// `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
unsafe fn plain(product: &Product, part: ResultPart, panel: &mut Panel, out: *mut f32) {
    let Format { group, minima, activations, .. } = product.ty.format();
    let layout = ColumnLayout::of(product.ty.format(), product.n_in);
    let n_out = product.n_out();
    for row in part.rows[0]..part.rows[1] {
        for column in part.columns[0]..part.columns[1] {
            // SAFETY: inside the result.
            unsafe { out.add(column * n_out + row).write(0.0) };
        }
    }
    for first in (0..product.n_in).step_by(SLAB) {
        let elements = SLAB.min(product.n_in - first);
        let Panel { slabs, unpacked } = panel;
        let slab = &mut slabs[0];
        unpack::slab::<crate::simd::scalar::Scalar>(product, part.rows, first, unpacked, slab);
        for (row, codes) in unpacked.iter().enumerate().take(part.rows[1] - part.rows[0]) {
            for column in part.columns[0]..part.columns[1] {
                let words = &product.columns[column * layout.words..][..layout.words];
                let mut sum = 0.0;
                for g in 0..elements / group {
                    let at = first + g * group;
                    let starts = words[layout.sums + at / group];
                    let mut total = if minima { 0 } else { starts.cast_signed() };
                    for k in 0..group {
                        let code = unpack::plain_code(product.ty, codes[g * group + k]);
                        let q = words[(at + k) / 4].to_le_bytes()[k % 4].cast_signed();
                        total += i32::from(code) * i32::from(q);
                    }
                    let scale = f32::from_bits(words[layout.scales + at / activations]);
                    sum += scale * slab.scales[g][row] * total as f32;
                    if minima {
                        let by = if activations == SLAB { scale } else { 1.0 };
                        sum += by * slab.minima[g][row] * f32::from_bits(starts);
                    }
                }
                // SAFETY: as above.
                unsafe { *out.add(column * n_out + part.rows[0] + row) += sum };
            }
        }
    }
}
