// Attention of many query tokens: more than 16 queries of a KV head. Bound by arithmetic, so it is built for the tensor cores
// (FlashAttention-2, Dao 2023, arXiv 2307.08691).
//
// Data flow
//   Block (tile of 64 queries, KV head): queries of all heads of the group, token after token, so that each row of K and V serves
//   them all. A warp has 16 of the queries: as f16 fragments, scaled in f32 before, in registers (heads above 128: in shared
//   memory); beside them 16 x head_dim sums, the largest logits and denominators in f32.
//   Rows come in tiles of 64 (32 for heads above 128), decoded from their type to f16 in shared memory, K and V in turn: V's tile is
//   under way while K's is worked on, and the next K while V is (f16 rows by asynchronous copies; other types are decoded by the
//   threads, a block of 32 elements each in arithmetic of halves). Logits S = Q K^T and sums += P V are mma m16n8k16, f16 in, f32 out; S
//   becomes P where it stands in registers. Log-weight, distances (ALiBi) and the causal end are applied to S in f32; no mask exists.
//   Rows that no query of the tile may see are never touched. The longest tiles begin first.
//   Where tiles and heads are too few to fill the GPU (a short question after a long document), a block takes a tile of queries and a
//   share of the rows of all heads (shares.h) instead, and leaves partials, which attend_few.cu's second kernel merges. The CPU says how
//   many shares there are when the graph is built.
//
// What is rounded: queries, keys, values and weights to f16 (relative 2^-11 each; values beyond 65,504 become infinite), everything
// else is f32. Weights are 2^12 times what they are elsewhere: halves end at 2^-24, and what very many rows add up to below that
// counts. Against the reference in f64 outputs differ by some 1e-3 of the values' size.
//
// Costs of a tile of 64 queries and 64 rows: 2 * 64 * 64 * head_dim multiply-adds of the tensor cores, 64 * 64 exponentials, and
// 2 * 64 * head_dim elements decoded. With head_dim = 128 a warp issues 685 instructions a tile of f16 rows on sm_89, 128 of them for
// the tensor cores, and 1,060 with q8_0 or q4_0.
//
// History
//   Nothing here was timed on a GPU yet; what is said of costs is counted in the compiled code. Type and address found anew for every
//   16 bytes of a tile took 1,123 instructions with f16, and 2,907 with q8_0, eight loads at a time and converted one by one. Known to be
//   wanting: decoding by all warps waits for memory without overlap for types other than f16; on an H200 four warps of 16 queries read
//   K and V from shared memory too often to reach a third of what its tensor cores do.
#include "partials.h"
#include "rows.h"
#include "shares.h"

namespace {

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
constexpr int QUERIES = 16 * WARPS;

// Largest weight of a row, as a power of 2: sums and denominators have it as a common factor.
constexpr float HEADROOM = 12.0f;

// Rows of a tile. D: head_dim rounded up to a multiple of 16.
template <int D>
constexpr int TILE = D <= 128 ? 64 : 32;

// A row of a tile is 16 bytes longer than its elements, so that eight rows lie in different banks.
template <int D>
struct Tiles {
    static constexpr int STRIDE = D + 8;
    // Whether queries stay in registers: they then pass through V's memory.
    static constexpr bool HELD = D <= 128;
    __half k[TILE<D>][STRIDE];
    __half v[TILE<D>][STRIDE];
    __half q_apart[HELD ? 1 : QUERIES][STRIDE];
    int32_t positions[TILE<D>];

    __device__ __half (*q())[STRIDE] { return HELD ? v : q_apart; }
};

// Elements that a thread takes at a time: 16 bytes of halves, or a whole block.
template <int TYPE>
constexpr int PIECE = TYPE == Q8_0 || TYPE == Q4_0 ? BLOCK : 8;

// A piece of a row as f16, zeros where it is not there.
template <int TYPE>
__device__ __forceinline__ void read_piece(__half* to, const unsigned char* from, bool there) {
    if constexpr (TYPE == F16) {
        copy_async_or_zeros(to, from, there);
    } else {
        alignas(16) __half2 out[PIECE<TYPE> / 2] = {};
        if (there) read_halves<TYPE>(out, from);
#pragma unroll
        for (int i = 0; i < PIECE<TYPE> / 8; i++) store(to + 8 * i, load<uint4>(out + 4 * i));
    }
}

// Rows `first .. first + n` of a head as f16, zeros behind them and in elements from head_dim on. A thread has the same piece of every
// STEP-th row, so that the next one is an addition away.
template <int D>
__device__ __forceinline__ void read_tile(
    __half (*to)[D + 8], int type, const unsigned char* head, int first, int n, int head_dim) {
    with_type(type, [&](auto t) {
        constexpr int TYPE = decltype(t)::value, PIECES = D / PIECE<TYPE>, STEP = THREADS / PIECES;
        int row = threadIdx.x / PIECES, element = threadIdx.x % PIECES * PIECE<TYPE>;
        int bytes = row_bytes(TYPE, head_dim);
        const unsigned char* from = head + static_cast<size_t>(first + row) * bytes + row_bytes(TYPE, element);
        if (element >= head_dim) n = 0;
#pragma unroll(TYPE == F16 ? TILE<D> : 1)
        for (int i = 0; i < TILE<D>; i += STEP, row += STEP, from += STEP * bytes) {
            // Where the pieces of a row do not divide the threads, some threads have none.
            if (TILE<D> % STEP == 0 || (threadIdx.x < STEP * PIECES && row < TILE<D>)) {
                read_piece<TYPE>(&to[row][element], from, row < n);
            }
        }
    });
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
    __half2 both = __floats2half2_rn(low, high);
    return load<uint32_t>(&both);
}

// Attention of the block's tile of queries to rows `from .. to` of a head and no others: the result, or what `partials` [d + 2, queries]
// says of these rows. Queries of a KV head are numbered token after token: i = token * group + member of the group.
template <int D>
__device__ __forceinline__ void attend_range(
    Tiles<D>& tiles, const AttendCall& call, HeadPlace at, int from, int to, float* partials) {
    constexpr int ROWS_OF_TILE = TILE<D>;
    int d = call.from.head_dim, queries = call.group * call.n_q;
    int warp = threadIdx.x / 32, lane_id = threadIdx.x % 32;
    int g = lane_id / 4, t = lane_id % 4;
    const Lane& lane = call.from.lanes[at.lane];
    const unsigned char* k = lane.k + at.head * lane.k_head_stride;
    const unsigned char* v = lane.v + at.head * lane.v_head_stride;
    int all = rows_of(lane, call.live[at.lane], call.added);
    const int32_t* positions = nullptr;
    if (call.positions != nullptr) {
        positions = call.positions + lane.first_position + static_cast<size_t>(at.head) * lane.capacity;
    }
    float log_weight = lane.compensated ? call.log_weights[at.lane] : 0.0f;
    // A row that is not used may hold anything.
    int begin = from == 0 && log_weight == -INFINITY ? 1 : from;
    // The last tiles see most.
    int first_query = (gridDim.x - 1 - blockIdx.x) * QUERIES;
    int last_query = min(first_query + QUERIES, queries) - 1;
    auto sees = [&](int query) { return max(0, all - (call.n_q - 1 - query / call.group)); };
    int least = min(to, sees(first_query)), end = min(to, sees(last_query));

    // Queries, scaled, as f16; zeros where there are none.
    for (int i = threadIdx.x; i < QUERIES * (D / 2); i += THREADS) {
        int row = i / (D / 2), element = i % (D / 2) * 2, query = first_query + row;
        float2 x = make_float2(0.0f, 0.0f);
        if (query < queries && element < d) {
            int head = at.kv_head * call.group + query % call.group;
            x = load<float2>(call.q + head * call.q_head_stride + query / call.group * call.q_token_stride + element);
        }
        float factor = call.scale * LOG2_E;
        store(&tiles.q()[row][element], __floats2half2_rn(x.x * factor, x.y * factor));
    }

    // What belongs to this thread's two queries of the tile: g and g + 8 of its warp's 16.
    int own_query[2], visible[2], own_position[2];
    float slope[2], largest[2] = {NOTHING, NOTHING}, total[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        own_query[i] = first_query + warp * 16 + g + 8 * i;
        visible[i] = own_query[i] < queries ? sees(own_query[i]) : 0;
        slope[i] = 0.0f;
        own_position[i] = 0;
        if (positions != nullptr && visible[i] > 0) {
            int head = at.kv_head * call.group + own_query[i] % call.group;
            slope[i] = alibi_slope(head, call.n_kv_heads * call.group) * LOG2_E;
            own_position[i] = positions[visible[i] - 1];
        }
        visible[i] = min(visible[i], to);
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
    constexpr int HELD = Tiles<D>::HELD ? D / 16 : 1;
    uint32_t held[HELD][4];
    if constexpr (Tiles<D>::HELD) {
#pragma unroll
        for (int step = 0; step < HELD; step++) load_queries(held[step], step);
        __syncthreads();
    }

    if (begin < end) read_tile<D>(tiles.k, call.from.k_type, k, begin, min(ROWS_OF_TILE, end - begin), d);
    copy_commit();
    for (int start = begin; start < end; start += ROWS_OF_TILE) {
        int rows = min(ROWS_OF_TILE, end - start);
        read_tile<D>(tiles.v, call.from.v_type, v, start, rows, d);
        if (positions != nullptr && static_cast<int>(threadIdx.x) < rows) {
            tiles.positions[threadIdx.x] = positions[start + threadIdx.x];
        }
        copy_commit();
        copy_wait<1>();  // K is there, V need not be
        __syncthreads();

        float logits[ROWS_OF_TILE / 8][4];
#pragma unroll
        for (int n = 0; n < ROWS_OF_TILE / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) logits[n][i] = 0.0f;
        }
#pragma unroll
        for (int step = 0; step < D / 16; step++) {
            if constexpr (!Tiles<D>::HELD) load_queries(held[0], step);
            const uint32_t(&a)[4] = held[Tiles<D>::HELD ? step : 0];
#pragma unroll
            for (int n = 0; n < ROWS_OF_TILE / 16; n++) {
                uint32_t b[4];
                // Matrices: keys 0-7, elements 0-7 and 8-15, then keys 8-15.
                load_matrices(b, &tiles.k[n * 16 + lane_id % 8 + lane_id / 16 * 8][step * 16 + lane_id / 8 % 2 * 8]);
                multiply_add(logits[2 * n], a, b[0], b[1]);
                multiply_add(logits[2 * n + 1], a, b[2], b[3]);
            }
        }

        if (positions != nullptr) {
#pragma unroll
            for (int n = 0; n < ROWS_OF_TILE / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int row = n * 8 + 2 * t + i % 2;
                    if (row < rows) logits[n][i] += slope[i / 2] * static_cast<float>(tiles.positions[row] - own_position[i / 2]);
                }
            }
        }
        if (start == 0 && t == 0) {
            logits[0][0] += log_weight * LOG2_E;
            logits[0][2] += log_weight * LOG2_E;
        }
        if (start + ROWS_OF_TILE > least) {
#pragma unroll
            for (int n = 0; n < ROWS_OF_TILE / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    if (start + n * 8 + 2 * t + i % 2 >= visible[i / 2]) logits[n][i] = -INFINITY;
                }
            }
        }
        // Logits to weights, relative to each query's new largest logit. Four threads share a query.
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float top = largest[i];
#pragma unroll
            for (int n = 0; n < ROWS_OF_TILE / 8; n++) top = fmaxf(top, fmaxf(logits[n][2 * i], logits[n][2 * i + 1]));
            top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 1));
            top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 2));
            float factor = exp2f(largest[i] - top), sum = 0.0f, base = top - HEADROOM;
            largest[i] = top;
#pragma unroll
            for (int n = 0; n < ROWS_OF_TILE / 8; n++) {
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
        __syncthreads();  // V is there, and all are done with K
        int next = start + ROWS_OF_TILE;
        if (next < end) read_tile<D>(tiles.k, call.from.k_type, k, next, min(ROWS_OF_TILE, end - next), d);
        copy_commit();
#pragma unroll
        for (int step = 0; step < ROWS_OF_TILE / 16; step++) {
            // The logits of two blocks of 8 rows are the weights' fragment of 16.
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
        __syncthreads();  // all are done with V
    }

#pragma unroll
    for (int i = 0; i < 2; i++) {
        total[i] += __shfl_xor_sync(ALL_LANES, total[i], 1);
        total[i] += __shfl_xor_sync(ALL_LANES, total[i], 2);
        if (own_query[i] >= queries) continue;
        // Zero where no row was seen; otherwise at least 2^HEADROOM, or NaN where something was.
        float factor = total[i] == 0.0f ? 0.0f : 1.0f / total[i];
        if (partials != nullptr) factor = 1.0f;
        int head = at.kv_head * call.group + own_query[i] % call.group, token = own_query[i] / call.group;
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

// Block (tile of queries, place of the head): the result.
template <int D>
__global__ void __launch_bounds__(THREADS) attend_tiles(const __grid_constant__ AttendCall call) {
    SHARED(Tiles<D>, tiles);
    attend_range(tiles, call, head_at(call.from, blockIdx.y), 0, INT32_MAX, nullptr);
}

// Block (tile of queries, share of the rows of all heads): partials.
template <int D>
__global__ void __launch_bounds__(THREADS) attend_shares(const __grid_constant__ AttendCall call) {
    SHARED(Tiles<D>, tiles);
    int64_t cuts = cuts_of(call);
    int shares = shares_of(call, cuts), share = blockIdx.y;
    if (share >= shares) return;
    int64_t first = cuts * share / shares, last = cuts * (share + 1) / shares;
    size_t size = static_cast<size_t>(call.group) * call.n_q * (call.from.head_dim + 2);
    while (first < last) {
        Segment segment = segment_at(call, first, last);
        first += segment.cuts;
        float* partials = call.partials + (share + segment.place) * size;
        attend_range(tiles, call, segment.at, segment.begin, segment.end, partials);
    }
}

template <int D>
int launch_tiles(const AttendCall& call, void* stream) {
    bool split = call.shares > 0;
    dim3 grid(divide_up(call.group * call.n_q, QUERIES), split ? call.shares : call.n_kv_heads);
    return launch(split ? attend_shares<D> : attend_tiles<D>, grid, THREADS, sizeof(Tiles<D>), stream, call);
}

}  // namespace

LAUNCHER(attend_many)(const AttendCall* call, void* stream) {
    int d = call->from.head_dim;
    if (d <= 64) return launch_tiles<64>(*call, stream);
    if (d <= 96) return launch_tiles<96>(*call, stream);
    if (d <= 128) return launch_tiles<128>(*call, stream);
    return launch_tiles<256>(*call, stream);
}
