// Combines the attention weights that rows get from scoring queries (src/accumulate.rs), by sum or maximum. Flash
// attention never stores these weights; two passes over the keys compute them again. There is no matrix of queries
// and rows, and the order of additions is fixed.
//
// Data flow
//   1. Block (8 queries, split of the rows, head): maximum logit and denominator of each query over the split. Where
//      queries are few, there are enough splits to fill the device.
//      Queries see all rows, or the first ones, a part and the last ones. Only the part's rows get numbers then.
//   2. Block (64 rows, head): merges the denominators of the splits. Each of the four warps computes the logits of its
//      16 rows and all queries again, 4 rows and 8 queries at a time, and adds up the weights in registers: first over
//      the tiles of 8 queries, then across the threads.
//     Weights may have factors: one for each row and query head, and one for each token.
//   - Logits are computed in f32 as in attend_decode.cu (dots.h), but from global memory. The loads of four rows at a
//     time and the number of warps hide the latency.
//
// Costs: keys are read twice for each 8 queries (with many queries the second time from the caches); 2 d multiply-adds
// per row and query.
//
// History
//   - Not timed alone on a GPU yet.
//   - With a condition around each pair of elements every load of a row waited for the previous one (eight waits for
//     four rows with d = 128, now one).
//   - Tensor cores would be faster for many queries; with f32 policies choose as on the CPU.
#include "dots.h"
#include "lanes.h"

namespace {

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
// Queries that a warp processes at a time.
constexpr int QT = 8;
// Groups of ROWS rows of a warp.
constexpr int GROUPS = 4;
constexpr int TILE_ROWS = WARPS * GROUPS * ROWS;

// The numbers of src/graph/scores/mod.rs's Gain.
enum Gain : int32_t { ONE = 0, ENTROPY = 1, LITERAL = 2 };

// The factor on the logits of the `seen`-th token, counted from 1.
__device__ float gain_at(const AccumulateCall& call, int seen) {
    if (call.gain == ONE || seen <= call.budget) return 1.0f;
    double gain = sqrt(2.0 * log(static_cast<double>(seen) / max(call.budget, 1)));
    return static_cast<float>(call.gain == LITERAL ? gain / sqrt(static_cast<double>(call.head_dim)) : gain);
}

// Rows that are next to each other.
struct Rows {
    int from, to;
};

// The rows of a scored head.
struct View {
    const unsigned char* keys;
    const int32_t* positions;  // from row `first` on, or null
    int bytes;                 // of a row
    int first;
    int rows;
    float log_weight;  // of row 0
    int begin;         // 1 where row 0 is not used and may hold any bytes, otherwise 0
    Rows seen[3];      // ascending
    Rows scored;       // those that get numbers

    __device__ View(const AccumulateCall& call, int head) {
        bool accumulates = call.live != nullptr;
        keys = call.k + call.tensor_heads[head] * call.k_head_stride;
        bytes = row_bytes(call.k_type, call.head_dim);
        first = accumulates ? 0 : call.first;
        rows = rows_of(call.capacity, accumulates ? *call.live : call.first, call.added);
        if (accumulates) {
            positions = call.positions == nullptr ? nullptr : call.positions + static_cast<size_t>(call.tensor_heads[head]) * call.capacity;
            log_weight = call.log_weight == nullptr ? 0.0f : *call.log_weight;
        } else {
            positions = list_at(call.lists, call.heads, head).at;
            log_weight = call.first > 0 ? call.window_log_weight : 0.0f;
        }
        begin = log_weight == -INFINITY ? 1 : 0;
        if (call.part_to > 0) {
            seen[0] = {0, call.part_first};
            seen[1] = scored = {call.part_from, call.part_to};
            seen[2] = {min(call.part_last, rows), rows};
        } else {
            scored = seen[0] = {0, rows};
            seen[1] = seen[2] = {rows, rows};
        }
    }

    // The factors of the rows' weights for a query head of the group, by the rows' numbers; null where they are 1.
    __device__ const float* factors_of(const AccumulateCall& call, int head, int member) const {
        if (call.row_factors == nullptr) return nullptr;
        size_t column = static_cast<size_t>(call.tensor_heads[head]) * call.group + member;
        return call.row_factors + column * (scored.to - scored.from) - scored.from;
    }

    __device__ static int groups_of(Rows range) { return divide_up(range.to - range.from, ROWS); }

    __device__ static Rows group_of(Rows range, int number) {
        int from = range.from + number * ROWS;
        return {from, min(from + ROWS, range.to)};
    }

    // Groups of up to ROWS rows that are seen.
    __device__ int groups() const { return groups_of(seen[0]) + groups_of(seen[1]) + groups_of(seen[2]); }

    __device__ Rows group(int number) const {
        int first = groups_of(seen[0]), second = first + groups_of(seen[1]);
        if (number < first) return group_of(seen[0], number);
        return number < second ? group_of(seen[1], number - first) : group_of(seen[2], number - second);
    }
};

// A scoring query and what it sees.
struct ScoringQuery {
    const float* data;  // null where there is no query
    float factor;       // of q·k, with log2 e
    float slope;        // of ALiBi, with gain and log2 e
    float cap;          // of the logit, with gain and log2 e; 0 for none
    float sink;         // a logit without a row, with gain and log2 e
    float weight;       // factor of its weights
    int member;         // of its query head in the group
    int position;       // of its token
    int visible;        // rows

    __device__ ScoringQuery() : data(nullptr), factor(0.0f), slope(0.0f), cap(0.0f), sink(-INFINITY), weight(1.0f), member(0), position(0), visible(0) {}

    __device__ ScoringQuery(const AccumulateCall& call, const View& view, int head, int number) : ScoringQuery() {
        if (number >= call.tokens * call.group) return;
        int token = number / call.group, later = call.tokens - 1 - token;
        member = number % call.group;
        int query_head = call.kv_heads[head] * call.group + member;
        if (call.token_factors != nullptr) weight = call.token_factors[token];
        int at;
        if (call.live != nullptr) {
            at = call.q_tokens - 1 - later;
            position = *call.last - later;
            visible = view.rows - later;
        } else {
            position = call.window_start + token;
            at = position % call.q_tokens;
            visible = view.rows;
        }
        float gain = gain_at(call, position + 1);
        data = call.q + query_head * call.q_head_stride + at * call.q_token_stride;
        factor = call.scale * gain * LOG2_E;
        cap = call.softcap * gain * LOG2_E;
        if (call.sink_logits != nullptr) sink = call.sink_logits[query_head] * gain * LOG2_E;
        if (call.max_alibi_bias > 0.0f) {
            slope = alibi_slope(query_head, call.n_query_heads, call.max_alibi_bias) * gain * LOG2_E;
        }
    }

    // The logit of a row, from the dot product `dot`; -inf where the query does not see the row.
    __device__ float logit(const AccumulateCall& call, const View& view, int row, float dot) const {
        if (row >= visible || data == nullptr) return -INFINITY;
        if (cap > 0.0f) dot = soft_cap(dot, cap);
        if (row == 0) dot += view.log_weight * LOG2_E;
        if (view.positions != nullptr && row >= view.first) {
            int row_position = view.positions[row - view.first];
            if (call.live == nullptr && row_position > position) return -INFINITY;
            if (call.max_alibi_bias > 0.0f) dot += slope * (static_cast<float>(row_position) - static_cast<float>(position));
        }
        return dot;
    }
};

// Loads the eight queries of which thread i has number i % 8 as `own`.
template <int J>
__device__ void load_queries(float2 (&q)[QT][J], const AccumulateCall& call, const ScoringQuery& own) {
#pragma unroll
    for (int i = 0; i < QT; i++) {
        const float* data = reinterpret_cast<const float*>(__shfl_sync(ALL_LANES, reinterpret_cast<unsigned long long>(own.data), i));
        load_query(q[i], data, call.head_dim, __shfl_sync(ALL_LANES, own.factor, i));
    }
}

__device__ float* stats_of(const AccumulateCall& call, int head, int split, int query) {
    size_t queries = static_cast<size_t>(call.tokens) * call.group;
    return call.stats + 2 * ((static_cast<size_t>(head) * queries + query) * call.splits + split);
}

struct WarpStats {
    float largest[WARPS][QT];
    float total[WARPS][QT];
};

// Block (QT queries, split, scored head): maximum logits and denominators.
template <int J>
__global__ void __launch_bounds__(THREADS) find_totals(const __grid_constant__ AccumulateCall call) {
    SHARED(WarpStats, shared);
    int split = blockIdx.y, head = blockIdx.z, warp = threadIdx.x / 32;
    View view(call, head);
    int number = blockIdx.x * QT + threadIdx.x % QT;
    ScoringQuery own(call, view, head, number);
    float2 q[QT][J];
    load_queries(q, call, own);
    int groups = view.groups();
    int first = static_cast<int>(static_cast<int64_t>(groups) * split / call.splits);
    int last = static_cast<int>(static_cast<int64_t>(groups) * (split + 1) / call.splits);
    float largest = EMPTY_BASE, total = 0.0f;
    for (int group = first + warp; group < last; group += WARPS) {
        Rows range = view.group(group);
        const unsigned char* rows = view.keys + static_cast<size_t>(range.from) * view.bytes;
        float dot = dot_rows(call.k_type, rows, view.bytes, range.to - range.from, call.head_dim, q);
        int row = range.from + threadIdx.x % 32 / 8;
        float logit = row < view.begin || row >= range.to ? -INFINITY : own.logit(call, view, row, dot);
        float top = fmaxf(largest, logit);
        total = total * exp2f(largest - top) + exp2f(logit - top);
        largest = top;
    }
    auto merge = [&](float other_largest, float other_total) {
        float top = fmaxf(largest, other_largest);
        total = total * exp2f(largest - top) + other_total * exp2f(other_largest - top);
        largest = top;
    };
    for (int offset = 8; offset < 32; offset *= 2) {
        float other = __shfl_xor_sync(ALL_LANES, largest, offset);
        merge(other, __shfl_xor_sync(ALL_LANES, total, offset));
    }
    if (threadIdx.x % 32 < QT) {
        shared.largest[warp][threadIdx.x % 32] = largest;
        shared.total[warp][threadIdx.x % 32] = total;
    }
    __syncthreads();
    if (warp == 0 && threadIdx.x < QT && own.data != nullptr) {
        for (int i = 1; i < WARPS; i++) merge(shared.largest[i][threadIdx.x], shared.total[i][threadIdx.x]);
        float* stats = stats_of(call, head, split, number);
        stats[0] = largest;
        stats[1] = total;
    }
}

// The sum of two weights, or the larger one.
__device__ float combined(bool maximum, float a, float b) { return maximum ? fmaxf(a, b) : a + b; }

// Block (TILE_ROWS rows, scored head): combines the weights.
template <int J>
__global__ void __launch_bounds__(THREADS) add_weights(const __grid_constant__ AccumulateCall call) {
    int head = blockIdx.y, warp = threadIdx.x / 32, lane_id = threadIdx.x % 32;
    View view(call, head);
    int tile = view.scored.from + blockIdx.x * TILE_ROWS + warp * GROUPS * ROWS, end = view.scored.to;
    if (tile >= end) return;
    bool accumulates = call.live != nullptr, maximum = call.maximum != 0;
    int queries = call.tokens * call.group;
    // One sum per row, or one per row and query head of the group.
    int targets = accumulates ? 1 : call.group, target_queries = queries / targets;
    for (int target = 0; target < targets; target++) {
        float sums[GROUPS] = {};
        for (int first = 0; first < target_queries; first += QT) {
            int at = first + lane_id % QT;
            int number = accumulates ? at : at * call.group + target;
            ScoringQuery own = at < target_queries ? ScoringQuery(call, view, head, number) : ScoringQuery();
            float largest = fmaxf(EMPTY_BASE, own.sink), total = 0.0f;
            if (own.data != nullptr) {
                for (int split = 0; split < call.splits; split++) largest = fmaxf(largest, stats_of(call, head, split, number)[0]);
                for (int split = 0; split < call.splits; split++) {
                    const float* stats = stats_of(call, head, split, number);
                    total += stats[1] * exp2f(stats[0] - largest);
                }
                total += exp2f(own.sink - largest);
            }
            // A query that sees no row adds nothing.
            float factor = total == 0.0f ? 0.0f : (accumulates && !maximum ? 1.0f / call.group : own.weight) / total;
            const float* row_factors = view.factors_of(call, head, own.member);
            float2 q[QT][J];
            load_queries(q, call, own);
            // Not unrolled: eight queries already fill the registers.
#pragma unroll 1
            for (int i = 0; i < GROUPS; i++) {
                int row = tile + i * ROWS;
                if (row >= end) break;
                const unsigned char* rows = view.keys + static_cast<size_t>(row) * view.bytes;
                float dot = dot_rows(call.k_type, rows, view.bytes, min(ROWS, end - row), call.head_dim, q);
                row += lane_id / 8;
                float logit = row < view.begin ? -INFINITY : own.logit(call, view, row, dot);
                float weight = exp2f(logit - largest) * factor;
                if (row_factors != nullptr && row < end) weight *= row_factors[row];
#pragma unroll
                for (int j = 0; j < GROUPS; j++) sums[j] = combined(maximum, sums[j], i == j ? weight : 0.0f);
            }
        }
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            for (int offset = 1; offset < QT; offset *= 2) sums[i] = combined(maximum, sums[i], __shfl_xor_sync(ALL_LANES, sums[i], offset));
            int row = tile + i * ROWS + lane_id / 8;
            if (lane_id % 8 != 0 || row >= end) continue;
            if (accumulates) {
                float* out = call.out + static_cast<size_t>(call.tensor_heads[head]) * call.capacity + row;
                *out = combined(maximum, call.replace || row >= *call.live ? 0.0f : *out, sums[i]);
            } else {
                call.out[(static_cast<size_t>(head) * call.group + target) * view.rows + row] = sums[i];
            }
        }
    }
}

template <int J>
int launch_both(const AccumulateCall& call, void* stream) {
    // Queries are in x, because there may be more than y allows.
    dim3 queries(divide_up(call.tokens * call.group, QT), call.splits, call.heads);
    int error = launch(find_totals<J>, queries, THREADS, sizeof(WarpStats), stream, call);
    if (error != 0) return error;
    int max_rows = call.live != nullptr ? call.capacity : call.first + call.added;
    if (call.part_to > 0) max_rows = call.part_to - call.part_from;
    return launch(add_weights<J>, dim3(divide_up(max_rows, TILE_ROWS), call.heads), THREADS, 0, stream, call);
}

}  // namespace

LAUNCHER(accumulate)(const AccumulateCall* call, void* stream) {
    if (call->head_dim <= 64) return launch_both<1>(*call, stream);
    if (call->head_dim <= 128) return launch_both<2>(*call, stream);
    return launch_both<4>(*call, stream);
}
