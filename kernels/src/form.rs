//! In which form the operations on a layer's lanes are computed: as this crate's own kernels ([`graph`]), which CPUs and
//! NVIDIA GPUs have, or as ggml's own nodes ([`portable`]), which all of its backends have.

use ggml::{Context, Tensor};

use crate::graph::{
    self, AccumulatingLane, Accumulation, Appended, AttentionShape, Eviction, GraphLane, LaneInputs,
    QueryHeads, RowLists, RowSelection, Split, WindowQueries,
};
use crate::measure::Measure;
use crate::portable;

/// The form that a place has. Each method is described by the function of its name in [`graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Kernels of this crate.
    Own,
    /// Nodes of ggml. What they need beyond the others is in [`portable`].
    Portable,
}

impl Form {
    /// Writes the rows of new tokens.
    pub fn append(
        self,
        ctx: &Context,
        kv: (&Tensor, &Tensor),
        lanes: &[GraphLane],
        inputs: &LaneInputs,
    ) -> Tensor {
        match self {
            Form::Own => graph::append(ctx, kv, lanes, inputs),
            Form::Portable => portable::append(ctx, kv, lanes, inputs),
        }
    }

    /// Attends to rows. Only own kernels need to know what rows are split over.
    #[allow(clippy::too_many_arguments, reason = "those of the function of this name, and the form")]
    pub fn attend<'a>(
        self,
        ctx: &Context,
        shape: AttentionShape,
        queries: impl Into<QueryHeads<'a>>,
        appended: Appended,
        lanes: &[GraphLane],
        inputs: &LaneInputs,
        split: Split,
    ) -> Tensor {
        match self {
            Form::Own => graph::attend(ctx, shape, queries, appended, lanes, inputs, split),
            Form::Portable => portable::attend(ctx, shape, queries, appended, lanes, inputs),
        }
    }

    /// Combines attention weights with those of earlier queries.
    #[allow(clippy::too_many_arguments, reason = "those of the function of this name, and the form")]
    pub fn accumulate_attention<'a>(
        self,
        ctx: &Context,
        shape: AttentionShape,
        queries: impl Into<QueryHeads<'a>>,
        appended: Appended,
        to: AccumulatingLane,
        inputs: &LaneInputs,
        how: Accumulation,
    ) -> Option<Tensor> {
        match self {
            Form::Own => graph::accumulate_attention(ctx, shape, queries, appended, to, inputs, how),
            Form::Portable => portable::accumulate_attention(ctx, shape, queries, appended, to, inputs, how),
        }
    }

    /// Stores the last queries in a ring.
    pub fn store_queries(self, ctx: &Context, q: &Tensor, positions: &Tensor, ring: &Tensor) -> Tensor {
        match self {
            Form::Own => graph::store_queries(ctx, q, positions, ring),
            Form::Portable => portable::store_queries(ctx, q, positions, ring),
        }
    }

    /// The attention that rows get from stored queries.
    pub fn window_attention(
        self,
        ctx: &Context,
        shape: AttentionShape,
        k: &Tensor,
        ring: &Tensor,
        positions: RowLists,
        window: WindowQueries,
    ) -> Tensor {
        match self {
            Form::Own => graph::window_attention(ctx, shape, k, ring, positions, window),
            Form::Portable => portable::window_attention(ctx, shape, k, ring, positions, window),
        }
    }

    /// Measures rows.
    pub fn measure_rows(
        self,
        ctx: &Context,
        tensor: &Tensor,
        offset: Option<&Tensor>,
        lists: RowLists,
        what: Measure,
    ) -> Tensor {
        match self {
            Form::Own => graph::measure_rows(ctx, tensor, offset, lists, what),
            Form::Portable => portable::measure_rows(ctx, tensor, offset, lists, what),
        }
    }

    /// Takes rows out of a lane.
    pub fn evict_rows(
        self,
        ctx: &Context,
        lane: &GraphLane,
        sums: Option<&Tensor>,
        eviction: Eviction,
    ) -> Tensor {
        match self {
            Form::Own => graph::evict_rows(ctx, lane, sums, eviction),
            Form::Portable => portable::evict_rows(ctx, lane, sums, eviction),
        }
    }

    /// Fills a lane from complete rows.
    pub fn select_rows(
        self,
        ctx: &Context,
        complete: (&Tensor, &Tensor),
        lane: &GraphLane,
        sums: Option<&Tensor>,
        selection: RowSelection,
    ) -> Tensor {
        match self {
            Form::Own => graph::select_rows(ctx, complete, lane, sums, selection),
            Form::Portable => portable::select_rows(ctx, complete, lane, sums, selection),
        }
    }
}
