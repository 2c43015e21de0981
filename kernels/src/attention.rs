//! The description of an attention call, for decode, prefill and the reference.
//!
//! `out[h] = softmax_j(scale * q[h]·k[j] + bias[j]) · v[j]`, where query head `h` reads KV head `h / group`
//! and `j` runs over the rows of its KV head. KV heads are grouped in *lanes*: the heads of a lane share
//! tensors, a capacity and a number of rows; lanes differ in length. Row 0 of a lane may be a compensation
//! entry, with a log-weight that is added to its logit (RazorAttention eq. 5: a mean key that stands for N
//! evicted keys weighs N, that is log N on the logit). Under ALiBi the bias of row j is
//! `slope[h] * (position of j - position of the query)`, so the call has the position of each row.
//!
//! Three parts that some models have: a soft cap `c` turns `scale * q·k` into `c * tanh(scale * q·k / c)`. A *sink
//! logit* of a query head adds `exp(sink)` to the softmax's denominator. With a window, a query sees the rows of the
//! last tokens only.
//!
//! Rows are in any order, except that with several query tokens the last `n_q` rows are those of the query
//! tokens, in order. Query token `t` does not see the rows after its own.

use std::fmt;

use crate::quant::RowType;

/// Maximum number of KV heads of a call.
pub const MAX_KV_HEADS: usize = 1024;

/// A K or V tensor `[head_dim, capacity, heads]`: bytes, element type and strides.
#[derive(Clone, Copy, Debug)]
pub struct RowTensor<'a> {
    /// All bytes, the first row of the first head at offset 0.
    pub data: &'a [u8],
    /// Element type.
    pub ty: RowType,
    /// Bytes from one row to the next (ggml's `nb[1]`).
    pub row_stride: usize,
    /// Bytes from one head to the next (ggml's `nb[2]`).
    pub head_stride: usize,
}

/// KV heads that keep the same number of rows, with views of their K and V tensors.
#[derive(Clone, Copy, Debug)]
pub struct LaneView<'a> {
    /// Keys `[head_dim, capacity, heads]`, after RoPE.
    pub k: RowTensor<'a>,
    /// Values `[head_dim, capacity, heads]`.
    pub v: RowTensor<'a>,
    /// Live rows, the same for all heads of the lane; at most the capacity.
    pub rows: usize,
    /// `[heads]`: the KV head of the model of each head.
    pub kv_heads: &'a [u32],
    /// `[heads]`: log-weight (natural logarithm) added to the logit of row 0; `-inf` where row 0 is not used,
    /// which is then not read. `None` is all zeros.
    pub log_weight: Option<&'a [f32]>,
}

/// Attention with linear biases (Press et al. 2022, arXiv 2108.12409). The position of a query is that of the
/// last row that it sees.
#[derive(Clone, Copy, Debug)]
pub struct Alibi<'a> {
    /// `[n_heads]`: by how much a query head's logits decrease per token of distance.
    pub slopes: &'a [f32],
    /// `[n_kv_heads][rows of its lane]`: positions of the rows.
    pub positions: &'a [&'a [i32]],
}

/// A sliding window: the query of the token at position p sees the rows at positions above p - `tokens`. The position
/// of a query is that of the last row that it sees.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Tokens that a query sees, its own included; at least 1.
    pub tokens: usize,
    /// `[n_kv_heads][rows of its lane]`: positions of the rows. `None` where rows lie in the order of their
    /// positions, without gaps.
    pub positions: Option<&'a [&'a [i32]]>,
}

/// The ALiBi slopes of `n_heads` query heads, with a maximum bias B. The first p heads have 2^(-B(i+1)/p),
/// where p is the largest power of two up to `n_heads`. The others have every second slope of the series for
/// 2p heads.
pub fn alibi_slopes(n_heads: usize, max_bias: f32) -> Vec<f64> {
    let p = 1 << n_heads.max(1).ilog2();
    let slope = |i: usize, p: usize| (-f64::from(max_bias) * (i + 1) as f64 / p as f64).exp2();
    (0..n_heads).map(|i| if i < p { slope(i, p) } else { slope(2 * (i - p), 2 * p) }).collect()
}

/// Queries `[head_dim, n_heads, n_q]` in f32. The strides allow permuted tensors without a copy.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// The floats; head 0 of token 0 is at index 0.
    pub data: &'a [f32],
    /// Floats from one query head to the next.
    pub head_stride: usize,
    /// Floats from one token to the next.
    pub token_stride: usize,
}

/// One attention call.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// Elements of a head; a multiple of 8 (of 32 with quantised rows).
    pub head_dim: usize,
    /// KV heads, all lanes together.
    pub n_kv_heads: usize,
    /// Query heads per KV head.
    pub group: usize,
    /// Query tokens.
    pub n_q: usize,
    /// Factor of q·k, usually 1 / sqrt(head_dim).
    pub scale: f32,
    /// `[head_dim, n_heads, n_q]`.
    pub q: Queries<'a>,
    /// Every KV head appears in exactly one lane.
    pub lanes: &'a [LaneView<'a>],
    /// Biases by distance, for models with ALiBi.
    pub alibi: Option<Alibi<'a>>,
    /// What a query sees, for layers with a sliding window.
    pub window: Option<Window<'a>>,
    /// The soft cap of logits, above 0 (Gemma 2).
    pub softcap: Option<f32>,
    /// `[n_heads]`: a logit without a row, which every query of the head adds to its softmax (gpt-oss).
    pub sink_logits: Option<&'a [f32]>,
    /// What stands for old rows in sparse [`prefill`](crate::prefill), which alone looks at it. Not for layers with ALiBi or
    /// a sliding window.
    pub groups: Option<Groups<'a>>,
    /// Whether [`prefill`](crate::prefill) may multiply old rows in integers of few bits, where the processor is fast at that.
    pub int8: bool,
}

/// The means of groups of [`GROUP`](crate::prefill::GROUP) neighbouring rows, from row 0 on.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    /// `[2 * head_dim, count, n_kv_heads]`: the mean key of each group, and behind it the mean value. Undefined for
    /// groups of the first rows, and for those that are not whole in a head's lane.
    pub means: &'a [f32],
    /// Groups of each KV head.
    pub count: usize,
    /// The rows of a group are read where it has at least this share of any query's softmax. With 0 all are.
    pub share: f32,
}

impl<'a> Attention<'a> {
    /// Query heads.
    pub fn n_heads(&self) -> usize {
        self.n_kv_heads * self.group
    }

    /// Floats of the output `[head_dim, n_heads, n_q]`.
    pub fn out_len(&self) -> usize {
        self.head_dim * self.n_heads() * self.n_q
    }

    /// The number of a lane's `rows` that query token `t` sees.
    pub fn visible(&self, rows: usize, t: usize) -> usize {
        rows.saturating_sub(self.n_q.saturating_sub(t + 1))
    }

    /// The position of query token `t` for KV head `kv_head`, whose lane has `rows` rows; 0 where the query
    /// sees none.
    pub(crate) fn position(&self, alibi: &Alibi<'a>, rows: usize, kv_head: usize, t: usize) -> i32 {
        self.visible(rows, t).checked_sub(1).map_or(0, |last| alibi.positions[kv_head][last])
    }

    /// The first row that query token `t` sees of a lane with `rows` rows, where these lie in order; otherwise 0.
    pub(crate) fn first_seen(&self, rows: usize, t: usize) -> usize {
        match self.window {
            Some(Window { tokens, positions: None }) => self.visible(rows, t).saturating_sub(tokens),
            _ => 0,
        }
    }

    /// Where rows have positions, those that query token `t` sees: from this one on. See [`Window`].
    pub(crate) fn first_position(&self, positions: &[i32], rows: usize, t: usize) -> i32 {
        let tokens = self.window.map_or(0, |window| window.tokens).min(i32::MAX as usize) as i32;
        let own = self.visible(rows, t).checked_sub(1).map_or(0, |last| positions[last]);
        own.saturating_sub(tokens).saturating_add(1)
    }

    /// The sink logit of a query head; `-inf` where there is none.
    pub(crate) fn sink_logit(&self, head: usize) -> f32 {
        self.sink_logits.map_or(f32::NEG_INFINITY, |sink_logits| sink_logits[head])
    }

    /// The query of a head and token.
    pub(crate) fn query(&self, head: usize, t: usize) -> &'a [f32] {
        &self.q.data[head * self.q.head_stride + t * self.q.token_stride..][..self.head_dim]
    }

    /// Checks every shape against its memory. Afterwards all addresses of rows and queries are in bounds.
    /// Every entry point calls this, so that it is safe; it takes a few hundred nanoseconds.
    pub fn check(&self) -> Result<(), ShapeError> {
        let Attention { head_dim, n_kv_heads, group, n_q, .. } = *self;
        if head_dim == 0 || !head_dim.is_multiple_of(8) {
            return Err(ShapeError::HeadDim { head_dim, granule: 8, ty: "any" });
        }
        // Buffer lengths are products of these counts, so the products must not overflow.
        let floats = [group, n_q, head_dim, 16].into_iter().try_fold(n_kv_heads, usize::checked_mul);
        if floats.is_none_or(|floats| floats == 0) || n_kv_heads > MAX_KV_HEADS {
            return Err(ShapeError::Count { n_kv_heads, group, n_q });
        }
        let queries =
            last(&[(n_kv_heads.saturating_mul(group), self.q.head_stride), (n_q, self.q.token_stride)])
                .and_then(|at| at.checked_add(head_dim));
        if queries.is_none_or(|need| need > self.q.data.len()) {
            return Err(ShapeError::Memory {
                what: "queries",
                lane: 0,
                have: self.q.data.len(),
                need: queries.unwrap_or(usize::MAX),
            });
        }
        if let Some(alibi) = &self.alibi {
            for (what, have, need) in [
                ("slopes", alibi.slopes.len(), n_kv_heads * group),
                ("heads with positions", alibi.positions.len(), n_kv_heads),
            ] {
                if have != need {
                    return Err(ShapeError::Numbers { what, have, need });
                }
            }
        }
        let window_positions = self.window.and_then(|window| window.positions);
        let windowed = window_positions.map_or(n_kv_heads, <[&[i32]]>::len);
        let sink_logits = self.sink_logits.map_or(n_kv_heads * group, <[f32]>::len);
        for (what, have, need) in [
            ("tokens of the window", self.window.map_or(1, |window| window.tokens.min(1)), 1),
            ("heads with positions in the window", windowed, n_kv_heads),
            ("sink logits", sink_logits, n_kv_heads * group),
        ] {
            if have != need {
                return Err(ShapeError::Numbers { what, have, need });
            }
        }
        if let Some(Groups { means, count, share }) = self.groups {
            let need = [2, head_dim, count].into_iter().try_fold(n_kv_heads, usize::checked_mul);
            let need = need.unwrap_or(usize::MAX);
            if need > means.len() {
                return Err(ShapeError::Buffer { what: "means of groups", have: means.len(), need });
            }
            if self.alibi.is_some() || self.window.is_some() || share.is_nan() || share < 0.0 {
                return Err(ShapeError::Groups);
            }
        }
        if self.softcap.is_some_and(|cap| cap.is_nan() || cap <= 0.0) {
            return Err(ShapeError::Softcap);
        }
        let mut seen = [0u64; MAX_KV_HEADS / 64];
        let mut heads = 0;
        for (number, lane) in self.lanes.iter().enumerate() {
            lane.check(number, head_dim)?;
            for &head in lane.kv_heads {
                let head = head as usize;
                if head >= n_kv_heads || seen[head / 64] >> (head % 64) & 1 == 1 {
                    return Err(ShapeError::LaneHead { lane: number, head, n_kv_heads });
                }
                seen[head / 64] |= 1 << (head % 64);
                heads += 1;
                let of_alibi = self.alibi.map_or(lane.rows, |alibi| alibi.positions[head].len());
                let of_window = window_positions.map_or(lane.rows, |positions| positions[head].len());
                let have = of_alibi.min(of_window);
                if have < lane.rows {
                    return Err(ShapeError::Numbers { what: "positions", have, need: lane.rows });
                }
            }
        }
        if heads != n_kv_heads {
            return Err(ShapeError::MissingHeads { heads, n_kv_heads });
        }
        Ok(())
    }
}

impl LaneView<'_> {
    fn check(&self, number: usize, head_dim: usize) -> Result<(), ShapeError> {
        if self.log_weight.is_some_and(|weights| weights.len() != self.kv_heads.len()) {
            return Err(ShapeError::LogWeights {
                lane: number,
                weights: self.log_weight.map_or(0, <[f32]>::len),
                heads: self.kv_heads.len(),
            });
        }
        self.k.check("keys", number, head_dim, self.rows, self.kv_heads.len())?;
        self.v.check("values", number, head_dim, self.rows, self.kv_heads.len())
    }

    /// Log-weight of row 0 of the lane's head number `head`.
    pub(crate) fn log_weight(&self, head: usize) -> f32 {
        self.log_weight.map_or(0.0, |weights| weights[head])
    }
}

impl<'a> RowTensor<'a> {
    /// A contiguous tensor: `data` is `[head_dim, capacity, heads]` without gaps.
    pub fn contiguous(data: &'a [u8], ty: RowType, head_dim: usize, capacity: usize) -> RowTensor<'a> {
        let row_stride = ty.row_bytes(head_dim);
        RowTensor { data, ty, row_stride, head_stride: row_stride.saturating_mul(capacity) }
    }

    /// Checks that the first `rows` rows of `heads` heads are in the memory.
    pub(crate) fn check(
        &self,
        what: &'static str,
        lane: usize,
        head_dim: usize,
        rows: usize,
        heads: usize,
    ) -> Result<(), ShapeError> {
        let RowTensor { data, ty, row_stride, head_stride } = *self;
        if head_dim == 0 || !head_dim.is_multiple_of(ty.granule()) {
            return Err(ShapeError::HeadDim { head_dim, granule: ty.granule(), ty: ty.name() });
        }
        if rows == 0 || heads == 0 {
            return Ok(());
        }
        let row_bytes = ty.row_bytes(head_dim);
        if row_stride < row_bytes {
            return Err(ShapeError::Stride { what, lane, stride: row_stride, need: row_bytes });
        }
        let need = last(&[(rows, row_stride), (heads, head_stride)]).and_then(|at| at.checked_add(row_bytes));
        match need.filter(|need| *need <= data.len()) {
            Some(_) => Ok(()),
            None => {
                Err(ShapeError::Memory { what, lane, have: data.len(), need: need.unwrap_or(usize::MAX) })
            }
        }
    }

    /// Bytes of one row.
    pub(crate) fn row(&self, head_dim: usize, head: usize, row: usize) -> &'a [u8] {
        let at = head * self.head_stride + row * self.row_stride;
        &self.data[at..][..self.ty.row_bytes(head_dim)]
    }
}

impl<'a> Queries<'a> {
    /// `data` is `[head_dim, n_heads, n_q]` without gaps.
    pub fn contiguous(data: &'a [f32], head_dim: usize, n_heads: usize) -> Queries<'a> {
        Queries { data, head_stride: head_dim, token_stride: head_dim * n_heads }
    }
}

/// Offset of the last element of a strided array, `None` if it overflows. `dims` has (count, stride) pairs.
fn last(dims: &[(usize, usize)]) -> Option<usize> {
    dims.iter().try_fold(0usize, |at, &(count, stride)| at.checked_add((count - 1).checked_mul(stride)?))
}

/// Shapes of an attention call that do not fit each other or their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// The head size is not a multiple of what the row type needs.
    HeadDim {
        /// Elements of a head.
        head_dim: usize,
        /// The number that it must be a multiple of.
        granule: usize,
        /// The row type that needs it.
        ty: &'static str,
    },
    /// A count is zero or too large.
    Count {
        /// KV heads.
        n_kv_heads: usize,
        /// Query heads per KV head.
        group: usize,
        /// Query tokens.
        n_q: usize,
    },
    /// A tensor is larger than the memory behind it.
    Memory {
        /// Which tensor.
        what: &'static str,
        /// Number of the lane it belongs to.
        lane: usize,
        /// Elements or bytes of the memory.
        have: usize,
        /// Elements or bytes that the shape needs.
        need: usize,
    },
    /// Rows overlap.
    Stride {
        /// Which tensor.
        what: &'static str,
        /// Number of the lane it belongs to.
        lane: usize,
        /// Bytes from one row to the next.
        stride: usize,
        /// Bytes of a row.
        need: usize,
    },
    /// A lane has a KV head that does not exist or is in another lane.
    LaneHead {
        /// Number of the lane.
        lane: usize,
        /// The KV head.
        head: usize,
        /// KV heads of the call.
        n_kv_heads: usize,
    },
    /// Some KV heads are in no lane.
    MissingHeads {
        /// Heads in the lanes.
        heads: usize,
        /// KV heads of the call.
        n_kv_heads: usize,
    },
    /// The number of log-weights of a lane is not that of its heads.
    LogWeights {
        /// Number of the lane.
        lane: usize,
        /// Log-weights.
        weights: usize,
        /// Heads of the lane.
        heads: usize,
    },
    /// Slopes, positions or sink logits do not fit the heads or rows.
    Numbers {
        /// What the numbers are.
        what: &'static str,
        /// The number given.
        have: usize,
        /// The number needed.
        need: usize,
    },
    /// Groups of rows with ALiBi or a window, or a share that is not at least 0.
    Groups,
    /// The soft cap of logits is not a positive number.
    Softcap,
    /// A buffer of the caller is too short.
    Buffer {
        /// Which buffer.
        what: &'static str,
        /// Floats of the buffer.
        have: usize,
        /// Floats needed.
        need: usize,
    },
    /// A thread number is not below the number of threads.
    Thread {
        /// The thread's number.
        ith: usize,
        /// Number of threads.
        nth: usize,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::HeadDim { head_dim, granule, ty } => write!(
                f,
                "head size {head_dim} is not a positive multiple of {granule}, which {ty} rows need"
            ),
            ShapeError::Count { n_kv_heads, group, n_q } => write!(
                f,
                "{n_kv_heads} KV heads (1 to {MAX_KV_HEADS}), {group} query heads per KV head (at least 1), \
                 {n_q} query tokens (at least 1, and no overflow of their product)"
            ),
            ShapeError::Memory { what, lane, have, need } => write!(
                f,
                "the {what} of lane {lane} need {need} elements of memory, but there are only {have}"
            ),
            ShapeError::Stride { what, lane, stride, need } => {
                write!(
                    f,
                    "rows of the {what} of lane {lane} are {need} bytes long, but only {stride} bytes apart"
                )
            }
            ShapeError::LaneHead { lane, head, n_kv_heads } => {
                write!(
                    f,
                    "lane {lane} has KV head {head}, which is not below {n_kv_heads} or is already in a lane"
                )
            }
            ShapeError::MissingHeads { heads, n_kv_heads } => {
                write!(f, "the lanes have {heads} KV heads in total, the call has {n_kv_heads}")
            }
            ShapeError::LogWeights { lane, weights, heads } => {
                write!(f, "lane {lane} has {weights} log-weights for {heads} heads")
            }
            ShapeError::Numbers { what, have, need } => write!(f, "there are {have} {what}, not {need}"),
            ShapeError::Groups => {
                write!(
                    f,
                    "groups of rows in a layer with ALiBi or a window, or with a share that is not at least 0"
                )
            }
            ShapeError::Softcap => write!(f, "the soft cap of logits is not a positive number"),
            ShapeError::Buffer { what, have, need } => {
                write!(f, "the {what} buffer has {have} floats and needs {need}")
            }
            ShapeError::Thread { ith, nth } => write!(f, "there is no thread {ith} of {nth}"),
        }
    }
}

impl std::error::Error for ShapeError {}

#[cfg(test)]
mod tests {
    use super::alibi_slopes;

    #[test]
    fn alibi_slopes_are_those_of_the_paper() {
        assert_eq!(
            alibi_slopes(8, 8.0),
            [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]
        );
        assert_eq!(alibi_slopes(3, 8.0), [0.0625, 0.00390625, 0.25]); // both slopes for 2 heads, then the first for 4
        assert_eq!((alibi_slopes(1, 8.0), alibi_slopes(0, 8.0)), (vec![0.00390625], vec![]));
        assert_eq!(alibi_slopes(3, 4.0), [0.25, 0.0625, 0.5]);
    }
}
