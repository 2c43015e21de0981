//! Sparse prefill: a query reads old rows in groups, and row by row only where that matters.
//!
//! A *group* is [`GROUP`] neighbouring rows of a KV head. Its mean key and mean value stand for its rows, with their
//! number as weight: one row of a matrix product instead of [`GROUP`]. A panel of queries computes the logits of means, a
//! block of groups at a time, from the last groups to the first. Where a group has at least `share` of the softmax of any
//! query of the panel, its rows are read instead. The first rows, to which most heads attend, and the last ones are always
//! read.
//!
//! Whole blocks of means, and of rows of groups, are multiplied in integers of 8 bits where exact prefill does so (`int8.rs`).
//! All panels of a tile share the rounding of means. Each rounds the rows of the groups that it has chosen.
//!
//! So every row counts for every query. What is lost is how the rows of a group differ, where the group matters little.
//! Block-sparse methods (XAttention, arXiv 2503.16428; FlashPrefill, arXiv 2603.06199) choose blocks in similar ways and
//! leave the others out. Means for what is left out are RazorAttention's compensation entry (arXiv 2407.15891), here for
//! each group instead of each head.
//!
//! The logit of a mean is the mean of the logits, and the softmax of a mean is less than the mean of the softmaxes: groups
//! would count too little. How much is measured for each query at the first of the recent rows, which are read and whose
//! means are known: their part of the softmax, divided by that of their means, is a factor for all groups.
//!
//! The denominator of a query's softmax is not known before all groups are. It is compared with what was added up so far,
//! and only grows: some groups are read that need not be, none is left out. Logits without a row (sinks) are not in it.
//!
//! # History
//! Relative error of attention's result (mean, 99th percentile), with rows and queries of Qwen2.5-Coder 1.5B behind 8,192 tokens
//! of a novel, where 10 % of the groups are read:
//! - this way: 0.09 and 0.55
//! - without the factor: 0.10 and 0.75
//! - without the means, the other groups are left out: 0.13 and 0.82
//! - without the factor, groups chosen by their real weights: 0.08 and 0.42
//!
//! Time, with 37,494 tokens of a novel and the 0.5B model on a Xeon with AVX-512, in f32: the means took 16 seconds of 91 to 98,
//! and the rows of groups 10 to 18. In its first 16 layers a panel read 1,153 means, 1,300 rows of groups and 336 rows that are
//! always read. In 8 bits means are multiplied 1.8 times as fast behind 32,768 rows (512 queries, one thread, f16, with the rows
//! that are always read), and 2.1 to 2.3 times behind 98,304. Rows of groups are 1.75 to 1.95 times as fast. When each panel
//! rounded the means for itself, they were 1.3 to 1.45 times as fast: reading them from memory took a quarter of the time.
//!
//! Not better at the same price: half of the variance of a group's logits (key elements taken as independent) instead of the
//! factor; bounds from the smallest and largest elements for the choice. Groups of 8 without the factor: 0.09, at twice the
//! price.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::int8::{self, Bytes};
use super::{BLOCK, PANEL, Panel, Scratch, Tile};
use crate::attention::{Attention, Groups, LaneView, RowTensor, ShapeError};
use crate::decode::padded;
use crate::quant::load::{Load, with_loader};
use crate::simd::{Isa, Kernel, Loop, Simd};

/// Rows of a group.
pub const GROUP: usize = 16;
/// The first rows, which are always read.
pub const FIRST_ROWS: usize = 4 * GROUP;
/// The last rows that a panel's first query sees, which are always read, with up to a group more.
pub const RECENT_ROWS: usize = 256;
/// The largest factor for means. Queries that find nothing in the recent rows would otherwise get an arbitrary one.
const MAX_FACTOR: f32 = 16.0;
/// Groups whose means a thread computes at a time.
const GROUPS_AT_ONCE: usize = 64;

/// How many groups a text of so many tokens can have; 0 where all of its rows are read.
pub fn groups_of(tokens: usize) -> usize {
    if tokens > FIRST_ROWS + RECENT_ROWS { tokens / GROUP } else { 0 }
}

/// Computes the means of all whole groups of a call's lanes together with the other threads, which pass the same arguments.
/// `next` starts at 0 and is shared. When every thread has returned, the result is complete: see [`Groups::means`], of which
/// each KV head has `count`.
///
/// # Safety
/// `out` is valid for writes of `[2 * head_dim, count, n_kv_heads]` floats and not used by anything else meanwhile. All threads
/// that write there share `next`.
pub unsafe fn mean_groups(
    call: &Attention,
    next: &AtomicUsize,
    count: usize,
    out: *mut f32,
) -> Result<(), ShapeError> {
    call.check()?;
    let (isa, d) = (Isa::best(), call.head_dim);
    let heads: Vec<(&LaneView, usize)> =
        call.lanes.iter().flat_map(|lane| (0..lane.kv_heads.len()).map(move |head| (lane, head))).collect();
    let pieces = count.div_ceil(GROUPS_AT_ONCE).max(1);
    loop {
        let item = next.fetch_add(1, Ordering::Relaxed);
        let Some((lane, head)) = heads.get(item / pieces) else { return Ok(()) };
        let first = item % pieces * GROUPS_AT_ONCE;
        // The first rows are always read, and row 0 may hold any bytes.
        let range = first.max(FIRST_ROWS / GROUP)..(first + GROUPS_AT_ONCE).min(lane.rows / GROUP).min(count);
        if !range.is_empty() {
            let at = 2 * d * (count * lane.kv_heads[*head] as usize + range.start);
            // SAFETY: in the column of this KV head, which is below their number (`check`), by the caller's promise; the
            // shared counter gives each piece to one thread.
            let out = unsafe { std::slice::from_raw_parts_mut(out.add(at), 2 * d * range.len()) };
            means(isa, lane, d, *head, range, out);
        }
    }
}

/// Computes the means of the groups `range` of one head of a lane into `out` `[2 * head_dim, groups]`: keys, then values.
/// The lane has been checked, and has the rows.
fn means(isa: Isa, lane: &LaneView, head_dim: usize, head: usize, range: Range<usize>, out: &mut [f32]) {
    for (rows, first) in [(&lane.k, 0), (&lane.v, head_dim)] {
        for (at, group) in range.clone().enumerate() {
            let args = MeanArgs {
                rows: rows.data[head * rows.head_stride + group * GROUP * rows.row_stride..].as_ptr(),
                row_stride: rows.row_stride,
                head_dim,
                to: out[2 * head_dim * at + first..][..head_dim].as_mut_ptr(),
            };
            // SAFETY: isa is present; the rows are inside the lane's tensors, which were checked; `to` has head_dim floats.
            with_loader!(rows.ty, L => unsafe { isa.enter(Mean::<L>(args, PhantomData)) });
        }
    }
}

impl Tile<'_> {
    /// The groups of old rows that every query of the tile sees.
    fn old_groups(&self, groups: &Groups) -> Range<usize> {
        let old = self.sees(0).saturating_sub(RECENT_ROWS) / GROUP;
        let known = groups.count.saturating_sub(RECENT_ROWS / GROUP);
        FIRST_ROWS / GROUP..old.min(known)
    }

    /// Attends with all queries. The scratch memory is prepared, and sums and states are empty.
    pub(super) fn attend_to_groups(&self, queries: usize, groups: &Groups, scratch: &mut Scratch) {
        let old = self.old_groups(groups);
        let end = self.sees(queries - 1);
        if old.is_empty() {
            return self.attend_to_rows(self.first_row()..end, queries, scratch);
        }
        let recent = old.end * GROUP..old.end * GROUP + RECENT_ROWS;
        self.attend_to_rows(recent.clone(), queries, scratch);
        let recent_groups = old.end..recent.end / GROUP;
        let reader = |first| self.reader(first, queries, recent_groups.clone(), groups, scratch);
        let mut readers: Vec<Reader> = (0..queries).step_by(PANEL).map(reader).collect();
        self.attend_to_rows(recent.end..end, queries, scratch);
        self.attend_to_rows(self.first_row()..FIRST_ROWS, queries, scratch);
        let mut bytes = scratch.bytes.take().filter(|_| old.len() >= int8::BLOCK);
        if let Some(of_tile) = &mut bytes {
            self.find_mean(&(FIRST_ROWS..recent.start), of_tile);
            if !self.round_queries(queries, scratch, of_tile) {
                bytes = None;
            }
        }
        self.read_groups(old, &mut readers, bytes, scratch);
    }

    /// Attends to the means of the groups `old`, and to the rows of those that the readers choose.
    fn read_groups(
        &self,
        old: Range<usize>,
        readers: &mut [Reader],
        mut bytes: Option<Bytes>,
        scratch: &mut Scratch,
    ) {
        let groups = readers[0].groups;
        let block = if bytes.is_some() { int8::BLOCK } else { BLOCK };
        let mut last = old.end;
        while last > old.start {
            let range = last.saturating_sub(block).max(old.start)..last;
            last = range.start;
            let is_rounded = bytes.as_mut().is_some_and(|bytes| self.round_means(&range, groups, bytes));
            for reader in &mut *readers {
                match &mut bytes {
                    Some(bytes) if is_rounded => {
                        self.attend_to_rounded_means(range.start, reader, scratch, bytes)
                    }
                    _ => self.attend_to_means(range.clone(), reader, scratch),
                }
            }
            for reader in &mut *readers {
                while let Some(some) = reader.next_chosen(block / GROUP) {
                    let is_rounded = bytes.as_mut().is_some_and(|bytes| self.round_rows_of(&some, bytes));
                    match &mut bytes {
                        Some(bytes) if is_rounded => self.attend_to_rounded_rows(reader, scratch, bytes),
                        _ => self.attend_to_rows_of(&some, reader, scratch),
                    }
                }
            }
        }
        for reader in readers {
            self.attend_to_rows_of(&reader.chosen, reader, scratch);
        }
    }

    /// The panel of queries from `first` on. `range`: groups whose rows, and no others, were attended to.
    fn reader<'g>(
        &self,
        first: usize,
        queries: usize,
        range: Range<usize>,
        groups: &'g Groups,
        scratch: &mut Scratch,
    ) -> Reader<'g> {
        let columns = PANEL.min(queries - first);
        let logarithms = [(GROUP as f32).log2(); PANEL];
        let mut reader = Reader { groups, first, columns, logarithms, chosen: Vec::new() };
        let n = range.len();
        let means = self.means(&range, groups);
        self.multiply_keys(&reader.panel(n), (means.as_ptr(), 2 * self.call.head_dim), scratch);
        let (largest, totals) = scratch.state[3 * first..].split_at(PANEL);
        for (i, weight) in reader.logarithms[..columns].iter_mut().enumerate() {
            let of_means: f32 =
                (0..n).map(|r| (scratch.logits[r * PANEL + i] + *weight - largest[i]).exp2()).sum();
            *weight += (totals[i] / of_means).clamp(1.0, MAX_FACTOR).log2();
        }
        reader
    }

    /// Attends to the means of groups, but for those that have to be read.
    fn attend_to_means(&self, range: Range<usize>, reader: &mut Reader, scratch: &mut Scratch) {
        let mut last = range.end;
        while last > range.start {
            let range = last.saturating_sub(BLOCK).max(range.start)..last;
            last = range.start;
            let panel = reader.panel(range.len());
            let (means, distance) = (self.means(&range, reader.groups), 2 * self.call.head_dim);
            self.multiply_keys(&panel, (means.as_ptr(), distance), scratch);
            let logits = &mut scratch.logits[..panel.n * PANEL];
            for logits in logits.chunks_exact_mut(PANEL) {
                logits.iter_mut().zip(&reader.logarithms).for_each(|(logit, weight)| *logit += weight);
            }
            choose_rows(self.isa, logits, &reader.limits(scratch.state), range.start, &mut reader.chosen);
            self.add_values(&panel, (means[self.call.head_dim..].as_ptr(), distance), scratch);
        }
    }

    /// Rounds a block of means. Whether it is a whole one, and all of them can be.
    fn round_means(&self, range: &Range<usize>, groups: &Groups, bytes: &mut Bytes) -> bool {
        let d = self.call.head_dim;
        let means = self.means(range, groups);
        let copy = |from: usize, to: &mut [f32]| {
            for (mean, to) in means.chunks_exact(2 * d).zip(to.chunks_exact_mut(padded(d))) {
                to[..d].copy_from_slice(&mean[from..][..d]);
                to[d..].fill(0.0);
            }
        };
        range.len() == int8::BLOCK && self.round_block(|to| copy(0, to), |to| copy(d, to), bytes)
    }

    /// Attends to the rounded means of groups from `first` on, but for those that have to be read.
    fn attend_to_rounded_means(
        &self,
        first: usize,
        reader: &mut Reader,
        scratch: &mut Scratch,
        bytes: &mut Bytes,
    ) {
        let (panel, columns) = (reader.first, reader.columns);
        let limits = reader.limits(scratch.state);
        self.multiply_rounded_keys(panel, columns, scratch.d, bytes);
        bytes.with_weights(panel, &reader.logarithms, |bytes| {
            if bytes.choose(self.isa, panel, &limits, first, &mut reader.chosen) {
                self.add_rounded_values(panel, columns, scratch, bytes);
            }
        });
    }

    /// Attends to the rows of groups, which all queries see.
    fn attend_to_rows_of(&self, groups: &[usize], reader: &Reader, scratch: &mut Scratch) {
        for groups in groups.chunks(BLOCK / GROUP) {
            self.convert_groups(&self.lane.k, groups, scratch.k);
            self.convert_groups(&self.lane.v, groups, scratch.v);
            let panel = reader.panel(groups.len() * GROUP);
            self.multiply_keys(&panel, (scratch.k.as_ptr(), scratch.d), scratch);
            self.add_values(&panel, (scratch.v.as_ptr(), scratch.d), scratch);
        }
    }

    /// Rounds the rows of groups, which are a block. Whether all can be.
    fn round_rows_of(&self, groups: &[usize], bytes: &mut Bytes) -> bool {
        let keys = |to: &mut [f32]| self.convert_groups(&self.lane.k, groups, to);
        let values = |to: &mut [f32]| self.convert_groups(&self.lane.v, groups, to);
        self.round_block(keys, values, bytes)
    }

    /// Attends to the rounded rows.
    fn attend_to_rounded_rows(&self, reader: &Reader, scratch: &mut Scratch, bytes: &mut Bytes) {
        self.multiply_rounded_keys(reader.first, reader.columns, scratch.d, bytes);
        self.add_rounded_values(reader.first, reader.columns, scratch, bytes);
    }

    /// The rows of groups as f32, `[padded, GROUP, groups]`.
    fn convert_groups(&self, rows: &RowTensor, groups: &[usize], to: &mut [f32]) {
        for (group, to) in groups.iter().zip(to.chunks_exact_mut(GROUP * padded(self.call.head_dim))) {
            self.convert(rows, group * GROUP, GROUP, to);
        }
    }

    /// `[2 * head_dim, groups]`: the mean keys of some groups, each with its mean value behind it.
    fn means<'a>(&self, range: &Range<usize>, groups: &Groups<'a>) -> &'a [f32] {
        let d = self.call.head_dim;
        let kv_head = self.lane.kv_heads[self.head] as usize;
        &groups.means[2 * d * (kv_head * groups.count + range.start)..][..2 * d * range.len()]
    }
}

/// A panel of queries, which chooses groups to read.
struct Reader<'a> {
    groups: &'a Groups<'a>,
    /// The tile's number of the first query.
    first: usize,
    columns: usize,
    /// The logarithms of what means count for each query, relative to a row: the rows of a group, and a factor.
    logarithms: [f32; PANEL],
    /// Groups that were chosen, and not read yet.
    chosen: Vec<usize>,
}

impl Reader<'_> {
    /// Its queries against `n` rows that all of them see.
    fn panel(&self, n: usize) -> Panel {
        Panel { first: self.first, columns: self.columns, start: 0, n }
    }

    /// For each query, a logit above this has the share from which a group is read. Columns without a query have none.
    fn limits(&self, state: &[f32]) -> [f32; PANEL] {
        let mut limits = [f32::INFINITY; PANEL];
        let (largest, totals) = state[3 * self.first..].split_at(PANEL);
        for ((limit, largest), total) in limits[..self.columns].iter_mut().zip(largest).zip(totals) {
            *limit = largest + (total * self.groups.share).log2();
        }
        limits
    }

    /// So many chosen groups, which are read next.
    fn next_chosen(&mut self, n: usize) -> Option<Vec<usize>> {
        self.chosen.len().checked_sub(n).map(|rest| self.chosen.split_off(rest))
    }
}

/// Hides the rows of logits `[PANEL, n]` of which any is above the limit of its query. Their numbers, from `first` on, are added
/// to `chosen`.
pub(super) fn choose_rows(
    isa: Isa,
    logits: &mut [f32],
    limits: &[f32; PANEL],
    first: usize,
    chosen: &mut Vec<usize>,
) {
    // SAFETY: isa is present.
    unsafe { isa.enter(Choose { logits, limits, first, chosen }) }
}

/// See [`choose_rows`].
struct Choose<'a> {
    logits: &'a mut [f32],
    limits: &'a [f32; PANEL],
    first: usize,
    chosen: &'a mut Vec<usize>,
}

impl Kernel for Choose<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for (row, logits) in self.logits.chunks_exact_mut(PANEL).enumerate() {
            let mut is_above = false;
            for x in Loop(0, PANEL / S::LANES) {
                let at = x * S::LANES;
                // SAFETY: both are a panel.
                is_above |= unsafe {
                    S::any_greater(S::load(logits[at..].as_ptr()), S::load(self.limits[at..].as_ptr()))
                };
            }
            if is_above {
                logits.fill(f32::NEG_INFINITY);
                self.chosen.push(self.first + row);
            }
        }
    }
}

/// The mean of [`GROUP`] rows of any type.
/// Safety: the rows are at `rows`; `head_dim` floats may be written at `to`.
struct Mean<L>(MeanArgs, PhantomData<L>);

struct MeanArgs {
    rows: *const u8,
    row_stride: usize,
    head_dim: usize,
    to: *mut f32,
}

impl<L: Load> Kernel for Mean<L> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let MeanArgs { rows, row_stride, head_dim, to } = self.0;
        let whole = head_dim / S::LANES;
        // SAFETY: the struct's contract. Where half a vector is left, half of one is stored.
        unsafe {
            let scale = S::splat(1.0 / GROUP as f32);
            for c in Loop(0, whole) {
                let mut sum = S::splat(0.0);
                for r in Loop(0, GROUP) {
                    sum = S::add(sum, L::load::<S>(rows.add(r * row_stride), c));
                }
                S::store(to.add(c * S::LANES), S::mul(sum, scale));
            }
            if !head_dim.is_multiple_of(S::LANES) {
                let mut sum = S::splat(0.0);
                for r in Loop(0, GROUP) {
                    sum = S::add(sum, L::load_half::<S>(rows.add(r * row_stride), whole));
                }
                let mut half = [0.0; 16];
                S::store(half.as_mut_ptr(), S::mul(sum, scale));
                std::ptr::copy_nonoverlapping(half.as_ptr(), to.add(whole * S::LANES), head_dim % S::LANES);
            }
        }
    }
}
