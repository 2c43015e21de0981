// Row statistics that policies score by: norms, maxima and spreads (src/measure.rs); and the ring of the last queries.
//
// Elements are the same f32 numbers as on the CPU. Sums are f64 in another order than the CPU's. After rounding to f32
// about one result in ten million differs.
//
// History
//   Not timed alone on a GPU yet.
#include "lanes.h"

namespace {

constexpr int WARPS = 8;
constexpr int THREADS = 32 * WARPS;

// The numbers of src/measure.rs's Measure (src/graph/scores/mod.rs).
enum Measure : int32_t { NORM = 0, SQUARED_NORM = 1, MAX_ABS = 2, SPREAD = 3, OWN_SPREAD = 4 };

__device__ float2 read_pair_of(int type, const unsigned char* row, int p) {
    float2 pair = make_float2(0.0f, 0.0f);
    with_type(type, [&](auto t) { pair = read_pair<decltype(t)::value>(row, p); });
    return pair;
}

// Block (WARPS rows, measured head).
__global__ void measure_rows(const __grid_constant__ MeasureCall call) {
    int number = blockIdx.x * WARPS + threadIdx.x / 32, lane_id = threadIdx.x % 32;
    if (number >= call.count) return;
    List rows = list_at(call.lists, call.heads, blockIdx.y);
    const unsigned char* row = call.rows + call.tensor_heads[blockIdx.y] * call.head_stride +
                               static_cast<size_t>(rows.at[number]) * row_bytes(call.row_type, call.head_dim);
    const float* offset = call.offsets ? call.offsets + blockIdx.y * call.head_dim : nullptr;
    double squares = 0.0;
    float max_abs = 0.0f;
    for (int p = lane_id; 2 * p < call.head_dim; p += 32) {
        float2 x = read_pair_of(call.row_type, row, p);
        if (offset) {
            x.x += offset[2 * p];
            x.y += offset[2 * p + 1];
        }
        squares += static_cast<double>(x.x) * x.x;
        squares += static_cast<double>(x.y) * x.y;
        max_abs = fmaxf(max_abs, fmaxf(fabsf(x.x), fabsf(x.y)));
    }
    squares = add_warp(squares);
    for (int offset = 16; offset > 0; offset /= 2) {
        max_abs = fmaxf(max_abs, __shfl_xor_sync(ALL_LANES, max_abs, offset));
    }
    if (lane_id == 0) {
        float out = call.measure == MAX_ABS ? max_abs : static_cast<float>(call.measure == NORM ? sqrt(squares) : squares);
        call.out[static_cast<size_t>(blockIdx.y) * call.count + number] = out;
    }
}

// The range of each element in the reference partition: its minimum and the reciprocal of its width.
struct Range {
    float low[MAX_HEAD_DIM];
    float factor[MAX_HEAD_DIM];
};

// Block (partition of `lag` rows, measured head). The last complete partition is only a reference; it and the rows
// behind it get 0.
__global__ void measure_spread(const __grid_constant__ MeasureCall call) {
    SHARED(Range, range);
    int partition = blockIdx.x, partitions = call.count / call.lag, d = call.head_dim;
    float* out = call.out + static_cast<size_t>(blockIdx.y) * call.count;
    int first = partition * call.lag, last = min(first + call.lag, call.count);
    if (partition + 1 >= partitions) {
        for (int i = first + threadIdx.x; i < last; i += THREADS) out[i] = 0.0f;
        return;
    }
    List rows = list_at(call.lists, call.heads, blockIdx.y);
    const unsigned char* head = call.rows + call.tensor_heads[blockIdx.y] * call.head_stride;
    int bytes = row_bytes(call.row_type, d);
    int reference = call.measure == OWN_SPREAD ? first : first + call.lag;
    int element = threadIdx.x;
    if (element < d) {
        float low = INFINITY, high = -INFINITY;
        with_type(call.row_type, [&](auto t) {
#pragma unroll 8
            for (int i = reference; i < reference + call.lag; i++) {
                float2 pair = read_pair<decltype(t)::value>(head + static_cast<size_t>(rows.at[i]) * bytes, element / 2);
                float x = element % 2 == 0 ? pair.x : pair.y;
                low = fminf(low, x);
                high = fmaxf(high, x);
            }
        });
        float width = high - low;
        range.low[element] = low;
        range.factor[element] = width > 0.0f ? 1.0f / width : 0.0f;
    }
    __syncthreads();
    for (int i = first + threadIdx.x / 32; i < last; i += WARPS) {
        const unsigned char* row = head + static_cast<size_t>(rows.at[i]) * bytes;
        auto normalised = [&](int p) {
            float2 x = read_pair_of(call.row_type, row, p);
            x.x = (x.x - range.low[2 * p]) * range.factor[2 * p];
            x.y = (x.y - range.low[2 * p + 1]) * range.factor[2 * p + 1];
            return x;
        };
        double sum = 0.0, squares = 0.0;
        for (int p = threadIdx.x % 32; 2 * p < d; p += 32) {
            float2 x = normalised(p);
            sum += x.x;
            sum += x.y;
        }
        double mean = add_warp(sum) / d;
        for (int p = threadIdx.x % 32; 2 * p < d; p += 32) {
            float2 x = normalised(p);
            squares += (x.x - mean) * (x.x - mean);
            squares += (x.y - mean) * (x.y - mean);
        }
        squares = add_warp(squares);
        if (threadIdx.x % 32 == 0) out[i] = static_cast<float>(sqrt(squares / max(d - 1, 1)));
    }
}

// Block (one of the last tokens, query head): stores the token at position p in slot p modulo the window. Positions
// that cannot be are ignored.
__global__ void store_queries(const __grid_constant__ StoreQueriesCall call) {
    int before = gridDim.x - 1 - blockIdx.x;  // tokens before the last
    if (*call.last < before) return;
    int position = *call.last - before;
    int slot = position % call.window;
    const float* from = call.q + blockIdx.y * call.q_head_stride + (call.tokens - 1 - before) * call.q_token_stride;
    float* to = call.ring + (static_cast<size_t>(slot) * call.heads + blockIdx.y) * call.head_dim;
    for (int i = threadIdx.x; i < call.head_dim; i += blockDim.x) to[i] = from[i];
}

}  // namespace

LAUNCHER(measure)(const MeasureCall* call, void* stream) {
    bool spread = call->measure == SPREAD || call->measure == OWN_SPREAD;
    dim3 grid(divide_up(call->count, spread ? call->lag : WARPS), call->heads);
    if (spread) return launch(measure_spread, grid, THREADS, sizeof(Range), stream, *call);
    return launch(measure_rows, grid, THREADS, 0, stream, *call);
}

LAUNCHER(store_queries)(const StoreQueriesCall* call, void* stream) {
    dim3 grid(call->tokens < call->window ? call->tokens : call->window, call->heads);
    return launch(store_queries, grid, 32 * divide_up(call->head_dim, 32), 0, stream, *call);
}
