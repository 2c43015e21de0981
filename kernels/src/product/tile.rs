//! The kernel of the products, written once for all instruction sets whose integer sums are each of one row and one column. A
//! *tile* is some rows of a panel, two vectors of them, times some columns. The integer sums of a group stay in registers. The
//! sums of a slab are scaled and added up where the whole panel's are.

use super::{ColumnLayout, Format, PANEL_SLABS, Panel, Product, ROWS, ResultPart, SLAB, Slab};
use crate::simd::{Loop, Simd, WordSimd};

/// The maximum of [`TileKernel::COLUMNS`].
const MAX_COLUMNS: usize = 6;
/// The maximum of [`Multiplier::STEPS`].
pub(super) const MAX_STEPS: usize = 2;
/// The maximum of [`Simd::LANES`].
const MAX_SIMD_LANES: usize = 16;

/// How an instruction set multiplies tiles. All functions are unsafe because it must be present.
pub(super) trait TileKernel: Copy {
    /// For what is not integer.
    type Floats: Simd;
    /// Columns of a tile, at most [`MAX_COLUMNS`].
    const COLUMNS: usize;
    /// Whether the codes of a panel are signed: [`fill`](Self::fill) has taken off their offset.
    const SIGNED: bool;

    /// Fills the panel with the elements from `first` on of the rows `rows`, as the products read them. The bytes `ahead` are
    /// weights that are needed later.
    unsafe fn fill(product: &Product, rows: [usize; 2], first: usize, ahead: &[u8], panel: &mut Panel);
    /// Multiplies a tile of C columns in a function that is compiled for the instruction set and not inlined. Inlined, q6_K
    /// had two thirds of its speed on AVX-512: the compiler moved the float sums to memory.
    unsafe fn enter<const C: usize, const GROUP: usize, const BY_SLAB: bool, const MINIMA: bool>(tile: Tile);
}

/// Integer sums, or four bytes in the place of each.
pub(super) type Integers<M> = <<M as TileKernel>::Floats as WordSimd>::Integers;

/// Integer products of an instruction set, for [`Tile::columns`]: each sum is of one row and one column.
pub(super) trait Multiplier: TileKernel<Floats: WordSimd> {
    /// Groups of four bytes that are multiplied at a time: 1 or [`MAX_STEPS`].
    const STEPS: usize;

    /// `sum` and the products of codes `w` and activations `x`, the first [`STEPS`](Self::STEPS) of each.
    unsafe fn add(
        sum: Integers<Self>,
        w: [Integers<Self>; MAX_STEPS],
        x: [Integers<Self>; MAX_STEPS],
    ) -> Integers<Self>;
}

/// A [`Multiplier`]: its steps, whether codes are signed, its instructions, and how products are added. The module has what the
/// multipliers of an instruction set share: `Floats`, `TILE_COLUMNS` and `fill`.
macro_rules! multiplier {
    (
        $(#[$doc:meta])* $name:ident, $steps:expr, $is_signed:expr, $features:literal,
        ($sum:ident, $w:ident, $x:ident) => $add:expr
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name;

        impl $crate::product::tile::TileKernel for $name {
            type Floats = Floats;
            const COLUMNS: usize = TILE_COLUMNS;
            const SIGNED: bool = $is_signed;

            #[inline(always)]
            unsafe fn fill(
                product: &$crate::product::Product,
                rows: [usize; 2],
                first: usize,
                ahead: &[u8],
                panel: &mut $crate::product::Panel,
            ) {
                // SAFETY: the instruction set is present.
                unsafe { fill::<$is_signed>(product, rows, first, ahead, panel) }
            }

            #[inline(always)]
            unsafe fn enter<const C: usize, const GROUP: usize, const BY_SLAB: bool, const MINIMA: bool>(
                tile: $crate::product::tile::Tile,
            ) {
                #[target_feature(enable = $features)]
                #[inline(never)]
                unsafe fn columns<
                    const C: usize,
                    const GROUP: usize,
                    const BY_SLAB: bool,
                    const MINIMA: bool,
                >(
                    tile: $crate::product::tile::Tile,
                ) {
                    // SAFETY: the caller's promise.
                    unsafe { tile.columns::<$name, C, GROUP, BY_SLAB, MINIMA>() }
                }
                // SAFETY: the caller's promise.
                unsafe { columns::<C, GROUP, BY_SLAB, MINIMA>(tile) }
            }
        }

        impl $crate::product::tile::Multiplier for $name {
            const STEPS: usize = $steps;

            #[inline(always)]
            unsafe fn add(
                $sum: $crate::product::tile::Integers<Self>,
                $w: [$crate::product::tile::Integers<Self>; $crate::product::tile::MAX_STEPS],
                $x: [$crate::product::tile::Integers<Self>; $crate::product::tile::MAX_STEPS],
            ) -> $crate::product::tile::Integers<Self> {
                // SAFETY: the instruction set is present.
                unsafe { $add }
            }
        }
    };
}
pub(super) use multiplier;

/// Computes a part of the result.
///
/// # Safety
/// The instruction set is present. `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
#[inline(always)]
pub(super) unsafe fn multiply<M: TileKernel>(
    product: &Product,
    part: ResultPart,
    panel: &mut Panel,
    out: *mut f32,
) {
    let Format { group, minima, activations, .. } = product.ty.format();
    let layout = ColumnLayout::of(product.ty.format(), product.n_in);
    let (n_out, n_in) = (product.n_out(), product.n_in);
    let height = 2 * M::Floats::LANES;
    let panels = n_in.div_ceil(PANEL_SLABS * SLAB);
    let ahead =
        &product.rows[part.next_rows[0] * product.row_bytes()..part.next_rows[1] * product.row_bytes()];
    let mut ahead = ahead.chunks(ahead.len().div_ceil(panels).max(1));
    for first in (0..n_in).step_by(PANEL_SLABS * SLAB) {
        let end = n_in.min(first + PANEL_SLABS * SLAB);
        // SAFETY: the caller's promise.
        unsafe { M::fill(product, part.rows, first, ahead.next().unwrap_or_default(), panel) };
        let slabs = &panel.slabs;
        for column in (part.columns[0]..part.columns[1]).step_by(M::COLUMNS) {
            for row in (part.rows[0]..part.rows[1]).step_by(height) {
                let tile = Tile {
                    slabs,
                    first,
                    end,
                    offset: row - part.rows[0],
                    columns: product.columns.as_ptr().wrapping_add(column * layout.words),
                    layout,
                    out: out.wrapping_add(column * n_out + row),
                    n_out,
                    rows: height.min(part.rows[1] - row),
                };
                let count = M::COLUMNS.min(part.columns[1] - column);
                // SAFETY: the rows and columns are inside the panel, the columns and the result.
                unsafe {
                    match (activations, group, minima) {
                        (32, _, false) => tile.run::<M, 32, false, false>(count),
                        (_, 32, false) => tile.run::<M, 32, true, false>(count),
                        // Of these formats none has signed codes.
                        _ if const { M::SIGNED } => {
                            unreachable!("codes of 8 bits have a scale for each 32, and no minima")
                        }
                        (32, _, true) => tile.run::<M, 32, false, true>(count),
                        (_, 16, _) => tile.run::<M, 16, true, false>(count),
                        _ => tile.run::<M, 32, true, true>(count),
                    }
                }
            }
        }
    }
}

/// Computes a part of the result with one of two multipliers: one for codes of up to 6 bits, one for signed codes of 8 bits.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
pub(super) unsafe fn multiply_by_size<Small: TileKernel, Signed: TileKernel>(
    product: &Product,
    part: ResultPart,
    panel: &mut Panel,
    out: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if product.ty.format().offset == 128 {
            multiply::<Signed>(product, part, panel, out);
        } else {
            multiply::<Small>(product, part, panel, out);
        }
    }
}

/// Rows of a panel times some columns.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    pub(super) slabs: &'a [Slab; PANEL_SLABS],
    /// First element of the panel.
    pub(super) first: usize,
    /// Element behind the panel's last.
    pub(super) end: usize,
    /// The first row, counted from the panel's.
    pub(super) offset: usize,
    /// The first of the columns.
    pub(super) columns: *const u32,
    pub(super) layout: ColumnLayout,
    /// The first row's result in the first column.
    out: *mut f32,
    n_out: usize,
    rows: usize,
}

impl Tile<'_> {
    /// Multiplies with `count` columns, which are there.
    #[inline(always)]
    unsafe fn run<M: TileKernel, const GROUP: usize, const BY_SLAB: bool, const MINIMA: bool>(
        self,
        count: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match count {
                1 => M::enter::<1, GROUP, BY_SLAB, MINIMA>(self),
                2 => M::enter::<2, GROUP, BY_SLAB, MINIMA>(self),
                3 => M::enter::<3, GROUP, BY_SLAB, MINIMA>(self),
                4 => M::enter::<4, GROUP, BY_SLAB, MINIMA>(self),
                _ if const { M::COLUMNS == 4 } => unreachable!("a tile has four columns at most"),
                5 => M::enter::<5, GROUP, BY_SLAB, MINIMA>(self),
                _ => M::enter::<MAX_COLUMNS, GROUP, BY_SLAB, MINIMA>(self),
            }
        }
    }

    /// C columns; scales for each GROUP; activations have a scale for each slab or each 32; with minima or without.
    #[inline(always)]
    pub(super) unsafe fn columns<
        M: Multiplier,
        const C: usize,
        const GROUP: usize,
        const BY_SLAB: bool,
        const MINIMA: bool,
    >(
        self,
    ) {
        let lanes = M::Floats::LANES;
        // SAFETY: the caller's promise: the instruction set is present, and the groups are in the slabs and the
        // columns.
        unsafe {
            let zero = M::Floats::splat(0.0);
            let mut columns = [self.columns; C];
            for c in Loop(0, C) {
                columns[c] = self.columns.add(c * self.layout.words);
            }
            let mut totals = [[zero; 2]; C];
            for number in Loop(0, (self.end - self.first).div_ceil(SLAB)) {
                let slab = &*self.slabs.as_ptr().add(number);
                let at = self.first + number * SLAB;
                let mut sums = if BY_SLAB { [[zero; 2]; C] } else { totals };
                for g in Loop(0, SLAB.min(self.end - at) / GROUP) {
                    let group = at / GROUP + g;
                    let mut products = [[M::Floats::zeros(); 2]; C];
                    if !MINIMA && !M::SIGNED {
                        for c in Loop(0, C) {
                            let start = columns[c].add(self.layout.sums + group);
                            products[c] = [M::Floats::splat_word(start.cast()); 2];
                        }
                    }
                    let codes = slab.codes.as_ptr().add(g * GROUP / 4).cast::<u8>().add(4 * self.offset);
                    for k in Loop(0, GROUP / 4 / M::STEPS) {
                        let mut w = [[M::Floats::zeros(); MAX_STEPS]; 2];
                        for s in Loop(0, M::STEPS) {
                            let step = codes.add(4 * ROWS * (k * M::STEPS + s));
                            w[0][s] = M::Floats::load_words(step);
                            w[1][s] = M::Floats::load_words(step.add(4 * lanes));
                        }
                        for c in Loop(0, C) {
                            let mut x = [M::Floats::zeros(); MAX_STEPS];
                            for s in Loop(0, M::STEPS) {
                                let word = columns[c].add(group * GROUP / 4 + k * M::STEPS + s);
                                x[s] = M::Floats::splat_word(word.cast());
                            }
                            products[c][0] = M::add(products[c][0], w[0], x);
                            products[c][1] = M::add(products[c][1], w[1], x);
                        }
                    }
                    for v in Loop(0, 2) {
                        let row = self.offset + v * lanes;
                        let scale = M::Floats::load(slab.scales.get_unchecked(g).as_ptr().add(row));
                        for c in Loop(0, C) {
                            let by = if BY_SLAB {
                                scale
                            } else {
                                let x = columns[c].add(self.layout.scales + group).cast::<f32>().read();
                                M::Floats::mul(scale, M::Floats::splat(x))
                            };
                            sums[c][v] = M::Floats::fma(M::Floats::floats(products[c][v]), by, sums[c][v]);
                        }
                        if MINIMA {
                            let min = M::Floats::load(slab.minima.get_unchecked(g).as_ptr().add(row));
                            for c in Loop(0, C) {
                                let x = columns[c].add(self.layout.sums + group).cast::<f32>().read();
                                sums[c][v] = M::Floats::fma(M::Floats::splat(x), min, sums[c][v]);
                            }
                        }
                    }
                }
                for c in Loop(0, C) {
                    for v in Loop(0, 2) {
                        totals[c][v] = if BY_SLAB {
                            let x = columns[c].add(self.layout.scales + at / SLAB).cast::<f32>().read();
                            M::Floats::fma(sums[c][v], M::Floats::splat(x), totals[c][v])
                        } else {
                            sums[c][v]
                        };
                    }
                }
            }
            for c in Loop(0, C) {
                self.write::<M::Floats>(c, totals[c]);
            }
        }
    }

    /// Writes the sums of column `c`, or adds them to what earlier panels gave. The rows are there.
    #[inline(always)]
    pub(super) unsafe fn write<S: Simd>(&self, c: usize, sums: [S::V; 2]) {
        for v in Loop(0, 2) {
            let to = self.out.wrapping_add(c * self.n_out + v * S::LANES);
            let rows = self.rows.saturating_sub(v * S::LANES).min(S::LANES);
            // SAFETY: the caller's promise.
            unsafe {
                if rows == S::LANES {
                    let before = if self.first == 0 { S::splat(0.0) } else { S::load(to) };
                    S::store(to, S::add(before, sums[v]));
                } else {
                    let mut last = [0.0; MAX_SIMD_LANES];
                    S::store(last.as_mut_ptr(), sums[v]);
                    for row in Loop(0, rows) {
                        let before = if self.first == 0 { 0.0 } else { to.add(row).read() };
                        to.add(row).write(before + last[row]);
                    }
                }
            }
        }
    }
}
