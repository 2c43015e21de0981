// Attention of many query tokens: more than 16 queries of a KV head. Compute bound, so it uses the tensor cores
// (FlashAttention-2, Dao 2023, arXiv 2307.08691).
//
// Data flow
//   - Block (tile of 64 queries, KV head). The queries are those of all query heads of the group, token after token, so
//     that each row of K and V is read for all of them. A warp has 16 queries, scaled in f32 and kept as f16 fragments
//     in registers (head_dim above 128: in shared memory). Their 16 x head_dim sums, maximum logits and denominators
//     are f32.
//   - Rows are processed in tiles of 64 (head_dim above 128: 32), converted to f16 in shared memory. V's tile is loaded
//     while K's is processed, and the next K's while V's is processed. f16 rows are copied asynchronously; other types
//     are converted by the threads, a block of 32 elements each, in half precision.
//   - Logits S = Q K^T and sums += P V are mma m16n8k16 with f16 inputs and f32 outputs. P replaces S in registers. The
//     log-weight, the ALiBi bias and the causal limit are applied to S in f32; there is no mask tensor.
//   - Rows that no query of the tile sees are not read. The tiles that see most rows start first.
//   - Where tiles and heads are too few to fill the GPU (a short question after a long document), a block processes a
//     tile of queries and a split of the rows of all heads (splits.h), and writes partials. The kernel `combine` of
//     attend_decode.cu merges them. The number of splits is fixed when the graph is built.
//
// Rounding: queries, keys, values and weights are rounded to f16 (relative error 2^-11 each; values above 65,504 become
// infinite). All other numbers are f32. Weights are multiplied by 2^12, because the smallest half is 2^-24 and the sum
// of very many smaller weights matters. Outputs differ from the f64 reference by about 1e-3 of the values' magnitude.
//
// Costs of a tile of 64 queries and 64 rows: 2 * 64 * 64 * head_dim multiply-adds of the tensor cores, 64 * 64
// exponentials, and 2 * 64 * head_dim converted elements. With head_dim = 128 a warp issues 685 instructions per tile
// of f16 rows on sm_89, 128 of them for the tensor cores, and 1,060 with q8_0 or q4_0.
//
// History
//   - Not timed alone on a GPU yet. On an H200 512 tokens of an 8B model behind 32,768 lose 0.2 ms in each layer against ggml's
//     kernel, by differences of whole runs. Instruction counts are those of the compiled code.
//   - Computing type and address for every 16 bytes of a tile took 1,123 instructions with f16, and 2,907 with q8_0,
//     with eight loads at a time and conversion one by one.
//   - Known limits: the conversion of types other than f16 does not overlap with memory latency. On an H200, four warps
//     of 16 queries read K and V from shared memory too often to reach a third of the tensor cores' peak.
#include "partials.h"
#include "rows.h"
#include "splits.h"

namespace {

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
static_assert(TILE_QUERIES == 16 * WARPS);

// Rows of a tile. D: head_dim rounded up to a multiple of 16.
template <int D>
constexpr int TILE_ROWS = D <= 128 ? 64 : 32;

// A row of a tile has 16 bytes of padding, so that eight rows lie in different banks.
template <int D>
struct Tiles {
    static constexpr int STRIDE = D + 8;
    // Whether queries are kept in registers. They are then loaded through V's memory.
    static constexpr bool Q_IN_REGISTERS = D <= 128;
    __half k[TILE_ROWS<D>][STRIDE];
    __half v[TILE_ROWS<D>][STRIDE];
    __half q_memory[Q_IN_REGISTERS ? 1 : TILE_QUERIES][STRIDE];
    int32_t positions[TILE_ROWS<D>];

    __device__ __half (*q())[STRIDE] { return Q_IN_REGISTERS ? v : q_memory; }
};

// Elements that a thread converts at a time: 16 bytes of halves, or a whole block.
template <int TYPE>
constexpr int STEP_ELEMENTS = BLOCK_ELEMENTS<TYPE> == 1 ? 8 : BLOCK_ELEMENTS<TYPE>;

// Converts STEP_ELEMENTS elements to f16, or writes zeros where `valid` is false.
template <int TYPE>
__device__ __forceinline__ void read_elements(__half* to, const unsigned char* from, bool valid) {
    if constexpr (TYPE == F16) {
        copy_async_or_zeros(to, from, valid);
    } else {
        alignas(16) __half2 out[STEP_ELEMENTS<TYPE> / 2] = {};
        if (valid) read_halves<TYPE>(out, from);
#pragma unroll
        for (int i = 0; i < STEP_ELEMENTS<TYPE> / 8; i++) store(to + 8 * i, load<uint4>(out + 4 * i));
    }
}

// Converts rows `first .. first + n` of a head to f16. Rows behind them and elements from head_dim on become zeros. A
// thread converts the same elements of every STEP-th row, so that one addition gives the next address.
template <int D>
__device__ __forceinline__ void read_tile(
    __half (*to)[D + 8], int type, const unsigned char* head, int first, int n, int head_dim) {
    with_type(type, [&](auto t) {
        constexpr int TYPE = decltype(t)::value, STEPS_OF_ROW = D / STEP_ELEMENTS<TYPE>, STEP = THREADS / STEPS_OF_ROW;
        int row = threadIdx.x / STEPS_OF_ROW, element = threadIdx.x % STEPS_OF_ROW * STEP_ELEMENTS<TYPE>;
        int bytes = row_bytes(TYPE, head_dim);
        const unsigned char* from = head + static_cast<size_t>(first + row) * bytes + row_bytes(TYPE, element);
        if (element >= head_dim) n = 0;
#pragma unroll(TYPE == F16 ? TILE_ROWS<D> : 1)
        for (int i = 0; i < TILE_ROWS<D>; i += STEP, row += STEP, from += STEP * bytes) {
            // Where the threads are not a multiple of the steps of a row, some threads have no work.
            if (TILE_ROWS<D> % STEP == 0 || (threadIdx.x < STEP * STEPS_OF_ROW && row < TILE_ROWS<D>)) {
                read_elements<TYPE>(&to[row][element], from, row < n);
            }
        }
    });
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
    __half2 both = __floats2half2_rn(low, high);
    return load<uint32_t>(&both);
}

// Attention of the block's tile of queries to rows `from .. to` of a head. Writes the result, or where `partials` [d +
// 2, queries] is not null, the partials of these rows. Queries of a KV head are numbered token after token: i = token *
// group + query head in the group.
template <int D>
__device__ __forceinline__ void attend_range(
    Tiles<D>& tiles, const AttendCall& call, HeadIndex at, int from, int to, float* partials) {
    constexpr int ROWS = TILE_ROWS<D>;
    int d = call.lanes.head_dim, queries = call.group * call.n_q;
    int warp = threadIdx.x / 32, lane_id = threadIdx.x % 32;
    int g = lane_id / 4, t = lane_id % 4;
    const Lane& lane = call.lanes.lanes[at.lane];
    const unsigned char* k = lane.k + at.head * lane.k_head_stride;
    const unsigned char* v = lane.v + at.head * lane.v_head_stride;
    int all = rows_of(lane, call.live[at.lane], call.added);
    const int32_t* positions = nullptr;
    if (call.positions != nullptr) {
        positions = call.positions + lane.first_position + static_cast<size_t>(at.head) * lane.capacity;
    }
    float log_weight = lane.compensated ? call.log_weights[at.lane] : 0.0f;
    // A row 0 that is not used may hold any bytes and is not read.
    int begin = from == 0 && log_weight == -INFINITY ? 1 : from;
    // The last tiles see most rows, so the first blocks take them.
    int first_query = (gridDim.x - 1 - blockIdx.x) * TILE_QUERIES;
    int last_query = min(first_query + TILE_QUERIES, queries) - 1;
    auto visible_rows = [&](int query) { return max(0, all - (call.n_q - 1 - query / call.group)); };
    int all_see = min(to, visible_rows(first_query)), end = min(to, visible_rows(last_query));
    // Rows before all windows of the tile are not read where rows lie in order.
    if (call.window > 0 && positions == nullptr) begin = max(begin, visible_rows(first_query) - call.window);

    // Scaled queries as f16; zeros behind the last query.
    for (int i = threadIdx.x; i < TILE_QUERIES * (D / 2); i += THREADS) {
        int row = i / (D / 2), element = i % (D / 2) * 2, query = first_query + row;
        float2 x = make_float2(0.0f, 0.0f);
        if (query < queries && element < d) {
            int head = at.kv_head * call.group + query % call.group;
            x = load<float2>(call.q + head * call.q_head_stride + query / call.group * call.q_token_stride + element);
        }
        float factor = call.scale * LOG2_E;
        store(&tiles.q()[row][element], __floats2half2_rn(x.x * factor, x.y * factor));
    }

    // This thread's two queries are g and g + 8 of its warp's 16.
    int own_query[2];
    Sight sight[2];
    float slope[2], largest[2] = {EMPTY_BASE, EMPTY_BASE}, total[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        own_query[i] = first_query + warp * 16 + g + 8 * i;
        sight[i] = Sight(own_query[i] < queries ? visible_rows(own_query[i]) : 0, call.window, positions);
        slope[i] = 0.0f;
        if (call.max_alibi_bias > 0.0f) {
            int head = at.kv_head * call.group + own_query[i] % call.group;
            slope[i] = alibi_slope(head, call.n_kv_heads * call.group, call.max_alibi_bias) * LOG2_E;
        }
        sight[i].rows = min(sight[i].rows, to);
    }
    float sums[D / 8][4];
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) sums[n][i] = 0.0f;
    }

    __syncthreads();
    // Matrices: rows 0-7 and 8-15 of the warp's queries, elements 0-7, then the same, elements 8-15.
    auto load_queries = [&](uint32_t(&to)[4], int step) {
        load_matrices(to, &tiles.q()[warp * 16 + lane_id % 16][step * 16 + lane_id / 16 * 8]);
    };
    constexpr int STEPS = Tiles<D>::Q_IN_REGISTERS ? D / 16 : 1;
    uint32_t fragments[STEPS][4];
    if constexpr (Tiles<D>::Q_IN_REGISTERS) {
#pragma unroll
        for (int step = 0; step < STEPS; step++) load_queries(fragments[step], step);
        __syncthreads();
    }

    if (begin < end) read_tile<D>(tiles.k, call.lanes.k_type, k, begin, min(ROWS, end - begin), d);
    copy_commit();
    for (int start = begin; start < end; start += ROWS) {
        int rows = min(ROWS, end - start);
        read_tile<D>(tiles.v, call.lanes.v_type, v, start, rows, d);
        if (positions != nullptr && static_cast<int>(threadIdx.x) < rows) {
            tiles.positions[threadIdx.x] = positions[start + threadIdx.x];
        }
        copy_commit();
        copy_wait<1>();  // K is loaded
        __syncthreads();

        float logits[ROWS / 8][4];
#pragma unroll
        for (int n = 0; n < ROWS / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) logits[n][i] = 0.0f;
        }
#pragma unroll
        for (int step = 0; step < D / 16; step++) {
            if constexpr (!Tiles<D>::Q_IN_REGISTERS) load_queries(fragments[0], step);
            const uint32_t(&a)[4] = fragments[Tiles<D>::Q_IN_REGISTERS ? step : 0];
#pragma unroll
            for (int n = 0; n < ROWS / 16; n++) {
                uint32_t b[4];
                // Matrices: keys 0-7, elements 0-7 and 8-15, then keys 8-15.
                load_matrices(b, &tiles.k[n * 16 + lane_id % 8 + lane_id / 16 * 8][step * 16 + lane_id / 8 % 2 * 8]);
                multiply_add(logits[2 * n], a, b[0], b[1]);
                multiply_add(logits[2 * n + 1], a, b[2], b[3]);
            }
        }

        if (call.softcap > 0.0f) {
#pragma unroll
            for (int n = 0; n < ROWS / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) logits[n][i] = soft_cap(logits[n][i], call.softcap * LOG2_E);
            }
        }
        if (call.max_alibi_bias > 0.0f) {
#pragma unroll
            for (int n = 0; n < ROWS / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int row = n * 8 + 2 * t + i % 2;
                    if (row < rows) logits[n][i] += slope[i / 2] * static_cast<float>(tiles.positions[row] - sight[i / 2].position);
                }
            }
        }
        if (start == 0 && t == 0) {
            logits[0][0] += log_weight * LOG2_E;
            logits[0][2] += log_weight * LOG2_E;
        }
        if (call.window > 0 || start + ROWS > all_see) {
#pragma unroll
            for (int n = 0; n < ROWS / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int in_tile = n * 8 + 2 * t + i % 2, row = start + in_tile, position = row;
                    if (call.window > 0 && positions != nullptr && in_tile < rows) position = tiles.positions[in_tile];
                    if (sight[i / 2].hides(row, position)) logits[n][i] = -INFINITY;
                }
            }
        }
        // Turns logits into weights relative to each query's new maximum logit. Four threads share a query.
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float top = largest[i];
#pragma unroll
            for (int n = 0; n < ROWS / 8; n++) top = fmaxf(top, fmaxf(logits[n][2 * i], logits[n][2 * i + 1]));
            top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 1));
            top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 2));
            float factor = exp2f(largest[i] - top), sum = 0.0f, base = top - WEIGHT_SCALE;
            largest[i] = top;
#pragma unroll
            for (int n = 0; n < ROWS / 8; n++) {
                logits[n][2 * i] = exp2f(logits[n][2 * i] - base);
                logits[n][2 * i + 1] = exp2f(logits[n][2 * i + 1] - base);
                sum += logits[n][2 * i] + logits[n][2 * i + 1];
            }
            total[i] = total[i] * factor + sum;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                sums[n][2 * i] *= factor;
                sums[n][2 * i + 1] *= factor;
            }
        }

        copy_wait<0>();
        __syncthreads();  // V is loaded, and all warps are done with K
        int next = start + ROWS;
        if (next < end) read_tile<D>(tiles.k, call.lanes.k_type, k, next, min(ROWS, end - next), d);
        copy_commit();
        __syncwarp();  // the matrices below are loaded by whole warps
#pragma unroll
        for (int step = 0; step < ROWS / 16; step++) {
            // The weights of two groups of 8 rows are the fragment of 16 rows.
            const float(*p)[4] = &logits[2 * step];
            uint32_t a[4] = {pack(p[0][0], p[0][1]), pack(p[0][2], p[0][3]), pack(p[1][0], p[1][1]), pack(p[1][2], p[1][3])};
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                uint32_t b[4];
                // Matrices: rows 0-7 and 8-15, elements 0-7, then elements 8-15; transposed.
                load_matrices_transposed(b, &tiles.v[step * 16 + lane_id % 16][n * 16 + lane_id / 16 * 8]);
                multiply_add(sums[2 * n], a, b[0], b[1]);
                multiply_add(sums[2 * n + 1], a, b[2], b[3]);
            }
        }
        __syncthreads();  // all warps are done with V
    }

#pragma unroll
    for (int i = 0; i < 2; i++) {
        total[i] += __shfl_xor_sync(ALL_LANES, total[i], 1);
        total[i] += __shfl_xor_sync(ALL_LANES, total[i], 2);
        if (own_query[i] >= queries) continue;
        int head = at.kv_head * call.group + own_query[i] % call.group, token = own_query[i] / call.group;
        if (call.sink_logits != nullptr && partials == nullptr) {
            Sink sink = {call.sink_logits[head] * LOG2_E, exp2f(WEIGHT_SCALE)};
            total[i] += sink.weight(largest[i]);
        }
        // The denominator is 0 where no row was seen and there is no sink, otherwise at least 2^WEIGHT_SCALE or NaN. It
        // is infinite where a sink outweighs all rows by far.
        float factor = total[i] == 0.0f ? 0.0f : 1.0f / total[i];
        if (partials != nullptr) factor = 1.0f;
        float* out = call.out + (static_cast<size_t>(token) * call.n_kv_heads * call.group + head) * d;
        if (partials != nullptr) {
            out = partials + static_cast<size_t>(own_query[i]) * (d + 2);
            if (t == 0) {
                out[d] = largest[i];
                out[d + 1] = total[i];
            }
        }
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            int element = n * 8 + 2 * t;
            if (element < d) {
                out[element] = sums[n][2 * i] * factor;
                out[element + 1] = sums[n][2 * i + 1] * factor;
            }
        }
    }
}

// Block (tile of queries, head of the layer): writes the result.
template <int D>
__global__ void __launch_bounds__(THREADS) attend_tiles(const __grid_constant__ AttendCall call) {
    SHARED(Tiles<D>, tiles);
    attend_range(tiles, call, head_at(call.lanes, blockIdx.y), 0, INT32_MAX, nullptr);
}

// Block (tile of queries, split of the rows of all heads): writes partials.
template <int D>
__global__ void __launch_bounds__(THREADS) attend_splits(const __grid_constant__ AttendCall call) {
    SHARED(Tiles<D>, tiles);
    int64_t units = count_units(call);
    int splits = count_splits(call, units), split = blockIdx.y;
    if (split >= splits) return;
    int64_t first = units * split / splits, last = units * (split + 1) / splits;
    size_t size = static_cast<size_t>(call.group) * call.n_q * (call.lanes.head_dim + 2);
    while (first < last) {
        Segment segment = segment_at(call, first, last);
        first += segment.units;
        float* partials = call.partials + (split + segment.head_index) * size;
        attend_range(tiles, call, segment.at, segment.begin, segment.end, partials);
    }
}

template <int D>
int launch_tiles(const AttendCall& call, void* stream) {
    bool split = call.max_splits > 0;
    dim3 grid(divide_up(call.group * call.n_q, TILE_QUERIES), split ? call.max_splits : call.n_kv_heads);
    return launch(split ? attend_splits<D> : attend_tiles<D>, grid, THREADS, sizeof(Tiles<D>), stream, call);
}

}  // namespace

LAUNCHER(attend_prefill)(const AttendCall* call, void* stream) {
    int d = call->lanes.head_dim;
    if (d <= 64) return launch_tiles<64>(*call, stream);
    if (d <= 96) return launch_tiles<96>(*call, stream);
    if (d <= 128) return launch_tiles<128>(*call, stream);
    return launch_tiles<256>(*call, stream);
}
