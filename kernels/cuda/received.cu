// How much attention rows receive from some queries (src/received.rs): the softmax that attention never writes down, in two passes
// over the keys. No matrix of queries and rows exists, and the order of adding is fixed.
//
// Data flow
//   1. Block (8 watchers, split of the rows, head): largest logit and denominator of each watcher over the split. Splits are as many
//      as it takes to fill the device where watchers are few.
//   2. Block (64 rows, head): the denominators of the splits are merged, then each of the four warps computes the logits of its 16
//      rows and all watchers again, 4 rows and 8 watchers at a time, and adds the weights up in registers: first over the tiles of 8,
//      then across the threads.
//   Logits are computed as in attend_few.cu (dots.h), in f32, but from rows where they lie: what hides the latency of memory is the
//   loads of four rows at once and the number of warps.
//
// Costs: keys are read twice for each 8 watchers (the second time from the caches, where watchers are many), 2 d multiply-adds a row
// and watcher.
//
// History
//   Nothing here was timed on a GPU yet. With a condition around each pair of elements every load of a row waited for the one before
//   (eight waits for four rows with d = 128, now one). Tensor cores would do for many watchers; f32 keeps the choices of policies the CPU's.
#include "dots.h"
#include "lanes.h"

namespace {

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
// Watchers that a warp looks at at once.
constexpr int QT = 8;
// Groups of ROWS rows that a warp adds up for.
constexpr int GROUPS = 4;
constexpr int TILE_ROWS = WARPS * GROUPS * ROWS;

// The numbers that src/device.rs gives src/graph/watch.rs's Gain.
enum Gain : int32_t { ONE = 0, ENTROPY = 1, LITERAL = 2 };

// How much sharper the row of the `seen`-th token is taken.
__device__ float gain_at(const ReceivedCall& call, int seen) {
    if (call.gain == ONE || seen <= call.budget) return 1.0f;
    double gain = sqrt(2.0 * log(static_cast<double>(seen) / max(call.budget, 1)));
    return static_cast<float>(call.gain == LITERAL ? gain / sqrt(static_cast<double>(call.head_dim)) : gain);
}

// What there is to see.
struct View {
    const unsigned char* keys;
    const int32_t* positions;  // of row `first` on, or null
    int bytes;
    int first;
    int rows;
    float row_weight;  // of row 0
    int begin;         // 1 where row 0 may hold anything

    __device__ View(const ReceivedCall& call, int head) {
        bool gather = call.live != nullptr;
        keys = call.k + call.which[head] * call.k_head_stride;
        bytes = row_bytes(call.k_type, call.head_dim);
        first = gather ? 0 : call.first;
        rows = max(0, min(gather ? *call.live + call.added : call.first + call.added, call.capacity));
        if (gather) {
            positions = call.positions == nullptr ? nullptr : call.positions + static_cast<size_t>(call.which[head]) * call.capacity;
            row_weight = call.log_weight == nullptr ? 0.0f : *call.log_weight;
        } else {
            positions = list_at(call.lists, call.heads, head).at;
            row_weight = call.first > 0 ? call.row_weight : 0.0f;
        }
        begin = row_weight == -INFINITY ? 1 : 0;
    }
};

// A watcher: a query and what it sees.
struct Watcher {
    const float* query;  // null where there is none
    float factor;        // of q·k, in units of log 2
    float slope;         // of ALiBi
    int own;             // its position
    int visible;         // rows

    __device__ Watcher() : query(nullptr), factor(0.0f), slope(0.0f), own(0), visible(0) {}

    __device__ Watcher(const ReceivedCall& call, const View& view, int head, int number) : Watcher() {
        if (number >= call.tokens * call.group) return;
        int token = number / call.group, later = call.tokens - 1 - token;
        int query_head = call.kv_heads[head] * call.group + number % call.group;
        int at;
        if (call.live != nullptr) {
            at = call.all_tokens - 1 - later;
            own = *call.last - later;
            visible = view.rows - later;
        } else {
            own = call.start + token;
            at = own % call.all_tokens;
            visible = view.rows;
        }
        float gain = gain_at(call, own + 1);
        query = call.q + query_head * call.q_head_stride + at * call.q_token_stride;
        factor = call.scale * gain * LOG2_E;
        if (call.alibi) slope = alibi_slope(query_head, call.model_heads) * gain * LOG2_E;
    }

    // Its logit of a row, of which `dot` is the product; -inf where it does not see it.
    __device__ float logit(const ReceivedCall& call, const View& view, int row, float dot) const {
        if (row >= visible || query == nullptr) return -INFINITY;
        if (row == 0) dot += view.row_weight * LOG2_E;
        if (view.positions != nullptr && row >= view.first) {
            int position = view.positions[row - view.first];
            if (call.live == nullptr && position > own) return -INFINITY;
            if (call.alibi) dot += slope * (static_cast<float>(position) - static_cast<float>(own));
        }
        return dot;
    }
};

// The queries of eight watchers, of which the threads' own is `own`.
template <int J>
__device__ void load_watchers(float2 (&q)[QT][J], const ReceivedCall& call, const Watcher& own) {
#pragma unroll
    for (int i = 0; i < QT; i++) {
        // Thread i looks at watcher i % 8.
        const float* query = reinterpret_cast<const float*>(__shfl_sync(ALL_LANES, reinterpret_cast<unsigned long long>(own.query), i));
        load_query(q[i], query, call.head_dim, __shfl_sync(ALL_LANES, own.factor, i));
    }
}

__device__ float* stats_of(const ReceivedCall& call, int head, int split, int watcher) {
    size_t watchers = static_cast<size_t>(call.tokens) * call.group;
    return call.stats + 2 * ((static_cast<size_t>(head) * watchers + watcher) * call.splits + split);
}

struct WarpStats {
    float largest[WARPS][QT];
    float total[WARPS][QT];
};

// Block (eight watchers, split, looked-at head).
template <int J>
__global__ void __launch_bounds__(THREADS) find_totals(const __grid_constant__ ReceivedCall call) {
    SHARED(WarpStats, shared);
    int split = blockIdx.y, head = blockIdx.z, warp = threadIdx.x / 32;
    View view(call, head);
    int number = blockIdx.x * QT + threadIdx.x % QT;
    Watcher own(call, view, head, number);
    float2 q[QT][J];
    load_watchers(q, call, own);
    int groups = divide_up(view.rows, ROWS);
    int first = static_cast<int>(static_cast<int64_t>(groups) * split / call.splits);
    int last = static_cast<int>(static_cast<int64_t>(groups) * (split + 1) / call.splits);
    float largest = NOTHING, total = 0.0f;
    for (int group = first + warp; group < last; group += WARPS) {
        int row = group * ROWS;
        const unsigned char* rows = view.keys + static_cast<size_t>(row) * view.bytes;
        float dot = dot_rows(call.k_type, rows, view.bytes, min(ROWS, view.rows - row), call.head_dim, q);
        row += threadIdx.x % 32 / 8;
        float logit = row < view.begin ? -INFINITY : own.logit(call, view, row, dot);
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
    if (warp == 0 && threadIdx.x < QT && own.query != nullptr) {
        for (int i = 1; i < WARPS; i++) merge(shared.largest[i][threadIdx.x], shared.total[i][threadIdx.x]);
        float* stats = stats_of(call, head, split, number);
        stats[0] = largest;
        stats[1] = total;
    }
}

// Block (TILE_ROWS rows, looked-at head).
template <int J>
__global__ void __launch_bounds__(THREADS) add_weights(const __grid_constant__ ReceivedCall call) {
    int head = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    View view(call, head);
    int tile = blockIdx.x * TILE_ROWS + warp * GROUPS * ROWS;
    if (tile >= view.rows) return;
    bool gather = call.live != nullptr;
    int watchers = call.tokens * call.group;
    // One number a row of all watchers, or one for each member of the group.
    int targets = gather ? 1 : call.group, of_target = watchers / targets;
    for (int target = 0; target < targets; target++) {
        float sums[GROUPS] = {};
        for (int first = 0; first < of_target; first += QT) {
            int at = first + lane % QT;
            int number = gather ? at : at * call.group + target;
            Watcher own = at < of_target ? Watcher(call, view, head, number) : Watcher();
            float largest = NOTHING, total = 0.0f;
            if (own.query != nullptr) {
                for (int split = 0; split < call.splits; split++) largest = fmaxf(largest, stats_of(call, head, split, number)[0]);
                for (int split = 0; split < call.splits; split++) {
                    const float* stats = stats_of(call, head, split, number);
                    total += stats[1] * exp2f(stats[0] - largest);
                }
            }
            // Who sees nothing adds nothing.
            float factor = total == 0.0f ? 0.0f : (gather ? 1.0f / call.group : 1.0f) / total;
            float2 q[QT][J];
            load_watchers(q, call, own);
            // Not unrolled: eight queries fill the registers as it is.
#pragma unroll 1
            for (int i = 0; i < GROUPS; i++) {
                int row = tile + i * ROWS;
                if (row >= view.rows) break;
                const unsigned char* rows = view.keys + static_cast<size_t>(row) * view.bytes;
                float dot = dot_rows(call.k_type, rows, view.bytes, min(ROWS, view.rows - row), call.head_dim, q);
                row += lane / 8;
                float logit = row < view.begin ? -INFINITY : own.logit(call, view, row, dot);
                float weight = exp2f(logit - largest) * factor;
#pragma unroll
                for (int j = 0; j < GROUPS; j++) sums[j] += i == j ? weight : 0.0f;
            }
        }
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            for (int offset = 1; offset < QT; offset *= 2) sums[i] += __shfl_xor_sync(ALL_LANES, sums[i], offset);
            int row = tile + i * ROWS + lane / 8;
            if (lane % 8 != 0 || row >= view.rows) continue;
            if (gather) {
                float* out = call.out + static_cast<size_t>(call.which[head]) * call.capacity + row;
                *out = (call.replace || row >= *call.live ? 0.0f : *out) + sums[i];
            } else {
                call.out[(static_cast<size_t>(head) * call.group + target) * view.rows + row] = sums[i];
            }
        }
    }
}

template <int J>
int launch_both(const ReceivedCall& call, void* stream) {
    // Watchers may be more than y takes.
    dim3 watchers(divide_up(call.tokens * call.group, QT), call.splits, call.heads);
    int error = launch(find_totals<J>, watchers, THREADS, sizeof(WarpStats), stream, call);
    if (error != 0) return error;
    int most = call.live != nullptr ? call.capacity : call.first + call.added;
    return launch(add_weights<J>, dim3(divide_up(most, TILE_ROWS), call.heads), THREADS, 0, stream, call);
}

}  // namespace

LAUNCHER(received)(const ReceivedCall* call, void* stream) {
    if (call->head_dim <= 64) return launch_both<1>(*call, stream);
    if (call->head_dim <= 128) return launch_both<2>(*call, stream);
    return launch_both<4>(*call, stream);
}
