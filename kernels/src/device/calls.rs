// The parameters of the device kernels: the one list for Rust and C++. src/device/mod.rs makes Rust structs of
// it, build/sources.rs the header calls.h. Kernels get the structs by value. Addresses are the device's. Strides of
// q, k and v in f32 are in floats, strides of K and V tensors in bytes.

device_calls! {
    constants {
        /// Maximum number of lanes of a layer.
        MAX_LANES = 3;
        /// Maximum number of KV heads of a layer.
        MAX_KV_HEADS = 256;
        /// Maximum number of elements of a head.
        MAX_HEAD_DIM = 256;
        /// Maximum number of queries of a KV head (query heads of its group times tokens) that
        /// `attend_decode` takes.
        MAX_DECODE_QUERIES = 16;
        /// Queries of a KV head that a block of `attend_prefill` takes.
        TILE_QUERIES = 64;
    }

    /// KV heads that keep the same number of rows: K and V `[head_dim, capacity, heads]`, rows without gaps
    /// between them. Both tensors begin at a multiple of 16 bytes and may be read up to the next multiple of
    /// 16 bytes behind their end.
    struct Lane {
        k: *mut u8,
        v: *mut u8,
        /// Bytes.
        k_head_stride: u64,
        /// Bytes.
        v_head_stride: u64,
        heads: i32,
        /// Rows.
        capacity: i32,
        /// Index of the lane's `[capacity, heads]` positions in those of the layer.
        first_position: i32,
        /// Whether row 0 is a compensation entry, with a log-weight.
        compensated: i32,
    }

    /// The lanes of a layer.
    struct Lanes {
        lanes: [Lane; MAX_LANES],
        count: i32,
        head_dim: i32,
        k_type: i32,
        v_type: i32,
        /// The KV heads of the model, lane after lane.
        kv_heads: [u8; MAX_KV_HEADS],
    }

    /// Writes new rows behind the live ones. k and v are f32 `[head_dim, n_kv_heads, tokens]`.
    struct AppendCall {
        lanes: Lanes,
        k: *const f32,
        v: *const f32,
        k_head_stride: u64,
        k_token_stride: u64,
        v_head_stride: u64,
        v_token_stride: u64,
        /// `[MAX_LANES]`: live rows of each lane.
        live: *const i32,
        tokens: i32,
        unused: i32,
    }

    /// Writes the positions of new tokens behind those of the live rows.
    struct PositionsCall {
        lanes: Lanes,
        /// Positions of all rows of the layer.
        row_positions: *mut i32,
        /// `[count]`
        token_positions: *const i32,
        /// `[MAX_LANES]`
        live: *const i32,
        count: i32,
        unused: i32,
    }

    /// Attends with q f32 `[head_dim, n_kv_heads * group, n_q]` to live + added rows of each lane.
    struct AttendCall {
        lanes: Lanes,
        q: *const f32,
        q_head_stride: u64,
        q_token_stride: u64,
        /// `[MAX_LANES]`
        live: *const i32,
        /// `[MAX_LANES]`: of row 0 of the compensated lanes. Not used under ALiBi.
        log_weights: *const f32,
        /// Positions of the layer's rows under ALiBi, and with a window where rows are in no order. Otherwise
        /// null.
        positions: *const i32,
        /// `[n_kv_heads * group]`: a logit without a row for each query head, or null.
        sink_logits: *const f32,
        /// `[head_dim + 2, group * n_q, splits + n_kv_heads]` where rows are split.
        partials: *mut f32,
        /// `[head_dim, n_kv_heads * group, n_q]`
        out: *mut f32,
        added: i32,
        n_kv_heads: i32,
        group: i32,
        n_q: i32,
        /// Maximum number of splits of all rows; 0 where rows are not split.
        max_splits: i32,
        scale: f32,
        /// The soft cap of logits; 0 for none.
        softcap: f32,
        /// Tokens that a query sees, its own included; 0 for all.
        window: i32,
        /// The maximum bias of ALiBi; 0 without ALiBi.
        max_alibi_bias: f32,
        unused: i32,
    }

    /// Evicts rows of a lane: adds them to the sums, writes the mean as row 0 and fills the holes.
    struct EvictCall {
        lane: Lane,
        /// Packed: per head the evicted rows, then per head the moves, pairs (to, from).
        lists: *const i32,
        /// `[head_dim, heads, 2]` where the lane is compensated.
        sums: *mut f32,
        /// Accumulated attention `[capacity, heads]`, or null.
        accumulated: *mut f32,
        /// Where the evicted rows are copied, K then V, head after head; or null.
        evicted: *mut u8,
        head_dim: i32,
        k_type: i32,
        v_type: i32,
        /// Rows that the compensation entry stands for.
        total_evicted: i32,
    }

    /// Fills an empty lane from complete rows `[head_dim, rows, n_kv_heads]` of the lane's types.
    struct SelectCall {
        lane: Lane,
        k: *const u8,
        v: *const u8,
        /// Bytes.
        k_head_stride: u64,
        /// Bytes.
        v_head_stride: u64,
        /// Packed: per head the rows to keep, then per head the others.
        lists: *const i32,
        /// `[head_dim, heads, 2]` where the lane is compensated.
        sums: *mut f32,
        head_dim: i32,
        k_type: i32,
        v_type: i32,
        /// Maximum number of rows that a head keeps.
        max_kept: i32,
        kv_heads: [u8; MAX_KV_HEADS],
    }

    /// Stores the queries q f32 `[head_dim, heads, tokens]` of the last tokens in `ring`
    /// `[head_dim, heads, window]`.
    struct StoreQueriesCall {
        q: *const f32,
        q_head_stride: u64,
        q_token_stride: u64,
        /// Position of the last token.
        last: *const i32,
        ring: *mut f32,
        head_dim: i32,
        heads: i32,
        tokens: i32,
        window: i32,
    }

    /// Measures `count` rows of each of some heads of a K or V tensor: out is `[count, heads]`.
    struct MeasureCall {
        rows: *const u8,
        /// Bytes.
        head_stride: u64,
        /// Packed: the rows of each measured head.
        lists: *const i32,
        /// `[head_dim, heads]`: what is added to the rows of each measured head, but for spreads. May be null.
        offsets: *const f32,
        out: *mut f32,
        row_type: i32,
        head_dim: i32,
        /// Heads that are measured.
        heads: i32,
        count: i32,
        /// Number of the `Measure`.
        measure: i32,
        lag: i32,
        /// Index of each measured head in the tensor.
        tensor_heads: [u8; MAX_KV_HEADS],
    }

    /// Writes predicted scores of new rows behind the live ones of some of a lane's heads. k and v are f32
    /// `[k_elements, n_kv_heads, tokens]` and `[v_elements, n_kv_heads, tokens]`.
    struct PredictCall {
        k: *const f32,
        v: *const f32,
        k_head_stride: u64,
        k_token_stride: u64,
        v_head_stride: u64,
        v_token_stride: u64,
        /// `[3 * (k_elements + v_elements) + 5, n_kv_heads]`
        maps: *const f32,
        /// Live rows of the lane.
        live: *const i32,
        /// `[capacity, heads of the lane]`
        scores: *mut f32,
        k_elements: i32,
        v_elements: i32,
        tokens: i32,
        capacity: i32,
        /// Heads that get scores.
        heads: i32,
        unused: i32,
        /// Index in the lane of each head that gets scores.
        tensor_heads: [u8; MAX_KV_HEADS],
        /// KV head of the model of each head that gets scores.
        kv_heads: [u8; MAX_KV_HEADS],
    }

    /// Adds up the attention weights that rows get from scoring queries: the queries of some tokens, all
    /// query heads of a group, token after token.
    ///
    /// Accumulation (`live` is not null): the scoring tokens are the last of the computation. out is
    /// `[capacity, heads of the lane]`, the mean over the group.
    ///
    /// Window (`live` is null): the scoring tokens are at positions `window_start ..` and their queries in a
    /// ring. `lists` has the rows' positions, behind `first` rows without one. out is
    /// `[first + rows, group, heads]`.
    struct AccumulateCall {
        k: *const u8,
        /// Bytes.
        k_head_stride: u64,
        /// `[head_dim, query heads of the model, q_tokens]`
        q: *const f32,
        q_head_stride: u64,
        q_token_stride: u64,
        /// Accumulation: rows of the lane before those of this computation.
        live: *const i32,
        /// Accumulation: of row 0 where the lane is compensated, otherwise null.
        log_weight: *const f32,
        /// Accumulation: position of the last token.
        last: *const i32,
        /// Accumulation under ALiBi: positions of the rows, `[capacity, heads of the lane]`.
        positions: *const i32,
        /// Window, packed: positions of the rows of each scored head.
        lists: *const i32,
        /// `[n_query_heads]`: a logit without a row for each query head, or null.
        sink_logits: *const f32,
        /// Accumulation: `[rows of the part, group, heads of the lane]`, or null: factors on the weights of each row.
        row_factors: *const f32,
        /// Accumulation: `[tokens]`, or null: factors on the weights of each token's queries.
        token_factors: *const f32,
        /// `[2, splits, tokens * group, heads]`: maximum logit and denominator of each scoring query.
        stats: *mut f32,
        out: *mut f32,
        k_type: i32,
        head_dim: i32,
        /// Heads that are scored.
        heads: i32,
        n_query_heads: i32,
        group: i32,
        capacity: i32,
        /// Accumulation: rows behind the live ones. Window: rows with a position.
        added: i32,
        /// Window: rows before the first with a position.
        first: i32,
        /// Tokens of q.
        q_tokens: i32,
        /// Scoring tokens.
        tokens: i32,
        window_start: i32,
        /// Accumulation: whether earlier numbers are overwritten.
        replace: i32,
        /// The maximum bias of ALiBi; 0 without ALiBi.
        max_alibi_bias: f32,
        /// Number of the `Gain`.
        gain: i32,
        budget: i32,
        splits: i32,
        scale: f32,
        /// Window: log-weight of row 0 where `first` is not 0.
        window_log_weight: f32,
        /// The soft cap of logits; 0 for none.
        softcap: f32,
        /// Accumulation: whether the largest weight counts, not the sum of all.
        maximum: i32,
        /// Accumulation: the fields of the `SeenPart`. If `part_to` is 0 all rows are seen.
        part_first: i32,
        part_from: i32,
        part_to: i32,
        part_last: i32,
        /// Index of each scored head in the tensor.
        tensor_heads: [u8; MAX_KV_HEADS],
        /// KV head of the model of each scored head.
        kv_heads: [u8; MAX_KV_HEADS],
    }
}
