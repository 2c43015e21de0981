// Attention of few query tokens over long caches: at most 16 queries of a KV head (query heads of its group times tokens). Bound by
// memory, so everything serves to read each row once, in wide loads, with enough of them under way.
//
// Data flow
//   All rows of all KV heads are divided into equal shares (shares.h), one a block: as many as the GPU holds at once (registers and
//   shared memory allow two to four a multiprocessor).
//   A block takes its rows in stages of up to 16 KiB of K and V: copied as they are, 16 bytes a thread and asynchronously, into a
//   ring of three stages of shared memory, where two are on their way while one is worked on. Types matter only when rows are read from
//   there, so every type has the same wide loads, whatever its alignment. The usual types and sizes have kernels of their own.
//   Each of the four warps takes its quarter of a stage (with more than 8 queries: half of a stage, for half of the queries), four
//   rows at a time: thread i holds elements 2 i, 2 i + 1, 2 i + 64 ... of a row and of all its queries, in registers; 4 x 8 sums of
//   products are added up across the warp at once, by halving, so that each thread is left with one logit; then the exponentials,
//   each computed once, and the values, weighted by what the threads hand each other.
//   At the end of a head's rows in its share the block merges its warps and leaves one partial (partials.h). The second kernel merges
//   the partials of each query.
//
// Costs of a row of K and V (d = head_dim, g = queries)
//   Bytes: 4 d with f16, 2.125 d with q8_0, from memory; the same once into and once or twice out of shared memory.
//   Arithmetic: 2 d g multiply-adds in f32, some 3 g shuffles. With d = 128 and g = 4 a warp issues 102 instructions on sm_89 with f16,
//   132 with q8_0 and 145 with q4_0, and a multiprocessor three a clock where it holds four blocks. By that model (a prediction) an
//   RTX 4090 works on 12.4 bytes a clock and multiprocessor (f16), 6.3 (q8_0) or 3.2 (q4_0), where memory brings 3.1; an H200 on 17,
//   7.2 or 3.3 of 18.
//   Partials: (shares + heads) * g * (d + 2) * 4 bytes, written and read once: with 256 shares, 8 heads, d = 128 and g = 4 a fiftieth
//   of 16,000 rows.
//
// History
//   Nothing here was timed on a GPU yet. What is said of costs is counted in the compiled code, not measured.
//   With a condition around each pair of elements every load of a row waited for the one before (137 instructions a row and warp on
//   sm_89 with f16, d = 128 and g = 4; 112 without). Types told apart for every four rows took 10 more, and 151 registers: 3 blocks.
#include "dots.h"
#include "shares.h"

namespace {

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
constexpr int STAGES = 3;
constexpr int STAGE_BYTES = 16 * 1024;

// How a stage lies in shared memory.
struct Stage {
    int rows;
    int v_at;          // bytes
    int positions_at;  // bytes
    int bytes;

    __host__ __device__ Stage(int k_bytes, int v_bytes) {
        rows = CUT;
        while (rows > WARPS && rows * (k_bytes + v_bytes) > STAGE_BYTES) rows /= 2;
        // Rows may begin anywhere between two multiples of 16 and keep that place.
        v_at = (rows * k_bytes + 31) / 16 * 16;
        positions_at = v_at + (rows * v_bytes + 31) / 16 * 16;
        bytes = positions_at + rows * 4;
        bytes = (bytes + 15) / 16 * 16;
    }
};

// Copies the units of 16 bytes in which [from, from + bytes) lies.
__device__ void fetch(unsigned char* to, const unsigned char* from, int bytes) {
    size_t before = reinterpret_cast<uintptr_t>(from) % 16;
    int units = static_cast<int>((before + bytes + 15) / 16);
    from -= before;
    for (int unit = threadIdx.x; unit < units; unit += THREADS) {
        copy_async<16>(to + 16 * unit, from + 16 * unit);
    }
}

// Said instead of a type: K and V and the head's size may be any.
constexpr int ANY = -1;

// Queries of a KV head are numbered token after token: i = token * group + member of the group.
// QT: queries of a warp; J: pairs of elements of a thread; TYPE: that of K and V where it is the same and head_dim is 64 J, or ANY.
template <int QT, int J, int TYPE>
__global__ void __launch_bounds__(THREADS, 2) attend_rows(const __grid_constant__ AttendCall call) {
    SHARED(unsigned char, shared);
    constexpr int SPREAD = 8 / QT;  // threads that end up with the same logit
    // Constants where they can be: types are told apart for every four rows otherwise.
    const int d = TYPE == ANY ? call.from.head_dim : 64 * J, queries = call.group * call.n_q;
    const int k_type = TYPE == ANY ? call.from.k_type : TYPE, v_type = TYPE == ANY ? call.from.v_type : TYPE;
    const int k_bytes = row_bytes(k_type, d), v_bytes = row_bytes(v_type, d);
    const Stage stage(k_bytes, v_bytes);
    int warp = threadIdx.x / 32, lane_id = threadIdx.x % 32;
    int tiles = divide_up(queries, QT), parts = WARPS / tiles;
    int tile = warp % tiles, part = warp / tiles, own_rows = stage.rows / parts;
    // What this thread's logits belong to.
    int own_row = lane_id / 8, own_query = lane_id % 8 / SPREAD;
    int query = tile * QT + own_query;

    int64_t cuts = cuts_of(call);
    int shares = shares_of(call, cuts), share = blockIdx.x;
    if (share >= shares) return;
    int64_t first = cuts * share / shares, last = cuts * (share + 1) / shares;
    while (first < last) {
        Segment segment = segment_at(call, first, last);
        first += segment.cuts;
        const Lane& lane = call.from.lanes[segment.at.lane];
        const unsigned char* k = lane.k + segment.at.head * lane.k_head_stride;
        const unsigned char* v = lane.v + segment.at.head * lane.v_head_stride;
        const int32_t* positions = nullptr;
        if (call.positions != nullptr) {
            positions = call.positions + lane.first_position + static_cast<size_t>(segment.at.head) * lane.capacity;
        }
        float log_weight = lane.compensated ? call.log_weights[segment.at.lane] : 0.0f;
        // A row that is not used may hold anything.
        int begin = segment.begin == 0 && log_weight == -INFINITY ? 1 : segment.begin;
        int end = segment.end;

        int visible = 0;
        float slope = 0.0f;
        int own_position = 0;
        if (query < queries) {
            visible = max(0, segment.rows - (call.n_q - 1 - query / call.group));
            if (positions != nullptr && visible > 0) {
                int head = segment.at.kv_head * call.group + query % call.group;
                slope = alibi_slope(head, call.n_kv_heads * call.group) * LOG2_E;
                own_position = positions[visible - 1];
            }
        }
        float2 q[QT][J];
        float2 sums[QT][J];
#pragma unroll
        for (int i = 0; i < QT; i++) {
            int of_tile = tile * QT + i;
            int head = segment.at.kv_head * call.group + of_tile % call.group;
            const float* from = call.q + head * call.q_head_stride + of_tile / call.group * call.q_token_stride;
            load_query(q[i], of_tile < queries ? from : nullptr, d, call.scale * LOG2_E);
#pragma unroll
            for (int j = 0; j < J; j++) sums[i][j] = make_float2(0.0f, 0.0f);
        }
        float largest = NOTHING, total = 0.0f;

        auto fetch_stage = [&](int number) {
            int from = begin + number * stage.rows, rows = min(stage.rows, end - from);
            if (rows > 0) {
                unsigned char* to = &shared + number % STAGES * stage.bytes;
                fetch(to, k + static_cast<size_t>(from) * k_bytes, rows * k_bytes);
                fetch(to + stage.v_at, v + static_cast<size_t>(from) * v_bytes, rows * v_bytes);
                if (positions != nullptr && static_cast<int>(threadIdx.x) < rows) {
                    copy_async<4>(to + stage.positions_at + 4 * threadIdx.x, positions + from + threadIdx.x);
                }
            }
            copy_commit();
        };
        for (int i = 0; i < STAGES - 1; i++) fetch_stage(i);
        for (int number = 0; begin + number * stage.rows < end; number++) {
            copy_wait<STAGES - 2>();
            __syncthreads();
            // Into the stage that all have left.
            fetch_stage(number + STAGES - 1);

            int from = begin + number * stage.rows;
            const unsigned char* in = &shared + number % STAGES * stage.bytes;
            const unsigned char* k_rows = in + reinterpret_cast<uintptr_t>(k + static_cast<size_t>(from) * k_bytes) % 16;
            const unsigned char* v_rows =
                in + stage.v_at + reinterpret_cast<uintptr_t>(v + static_cast<size_t>(from) * v_bytes) % 16;
            int r_end = min(min(stage.rows, end - from), (part + 1) * own_rows);
            for (int r = part * own_rows; r < r_end; r += ROWS) {
                int n = min(ROWS, r_end - r);
                float logit = dot_rows(k_type, k_rows + r * k_bytes, k_bytes, n, d, q);
                int row = from + r + own_row;
                if (positions != nullptr && own_row < n) {
                    int position = load<int32_t>(in + stage.positions_at + 4 * (r + own_row));
                    logit += slope * static_cast<float>(position - own_position);
                }
                if (row == 0) logit += log_weight * LOG2_E;
                if (own_row >= n || row >= visible) logit = -INFINITY;

                float top = fmaxf(largest, logit);
                top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 8));
                top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 16));
                float factor = exp2f(largest - top), weight = exp2f(logit - top);
                total = total * factor + weight;
                if (__any_sync(ALL_LANES, top != largest)) {
#pragma unroll
                    for (int o = 0; o < QT; o++) {
                        float of_query = __shfl_sync(ALL_LANES, factor, o * SPREAD);
#pragma unroll
                        for (int j = 0; j < J; j++) {
                            sums[o][j].x *= of_query;
                            sums[o][j].y *= of_query;
                        }
                    }
                }
                largest = top;
                with_type(v_type, [&](auto type) {
#pragma unroll
                    for (int i = 0; i < ROWS; i++) {
                        float weights[QT];  // zeros of rows that are not there
#pragma unroll
                        for (int o = 0; o < QT; o++) {
                            weights[o] = __shfl_sync(ALL_LANES, weight, i * 8 + o * SPREAD);
                        }
                        const unsigned char* row = v_rows + (r + min(i, n - 1)) * v_bytes;
#pragma unroll
                        for (int j = 0; j < J; j++) {
                            float2 x = read_pair<decltype(type)::value>(row, pair_of(j, d));
#pragma unroll
                            for (int o = 0; o < QT; o++) {
                                sums[o][j].x += weights[o] * x.x;
                                sums[o][j].y += weights[o] * x.y;
                            }
                        }
                    }
                });
            }
        }
        total += __shfl_xor_sync(ALL_LANES, total, 8);
        total += __shfl_xor_sync(ALL_LANES, total, 16);
        copy_wait<0>();
        __syncthreads();

        // The stages are done with: their memory takes the warps' sums [64 J, QT, WARPS], then bases and denominators [QT, WARPS].
        constexpr int LONG = 64 * J;
        float* all_sums = reinterpret_cast<float*>(&shared);
        float* all_largest = all_sums + WARPS * QT * LONG;
        float* all_totals = all_largest + WARPS * QT;
#pragma unroll
        for (int o = 0; o < QT; o++) {
#pragma unroll
            for (int j = 0; j < J; j++) {
                float* to = all_sums + (warp * QT + o) * LONG + 2 * (lane_id + 32 * j);
                to[0] = sums[o][j].x;
                to[1] = sums[o][j].y;
            }
        }
        if (own_row == 0 && lane_id % SPREAD == 0) {
            all_largest[warp * QT + own_query] = largest;
            all_totals[warp * QT + own_query] = total;
        }
        __syncthreads();
        float* partial =
            call.partials + static_cast<size_t>(share + segment.place) * queries * (d + 2);
        for (int i = threadIdx.x; i < queries * d; i += THREADS) {
            int of_query = i / d, element = i % d;
            float base = NOTHING, denominator = 0.0f, sum = 0.0f;
            for (int w = 0; w < parts; w++) base = fmaxf(base, all_largest[of_query + w * tiles * QT]);
            for (int w = 0; w < parts; w++) {
                int at = of_query + w * tiles * QT;  // the parts of a tile's rows are `tiles` warps apart
                float factor = exp2f(all_largest[at] - base);
                denominator += all_totals[at] * factor;
                sum += all_sums[at * LONG + element] * factor;
            }
            partial[of_query * (d + 2) + element] = sum;
            if (element == 0) {
                partial[of_query * (d + 2) + d] = base;
                partial[of_query * (d + 2) + d + 1] = denominator;
            }
        }
        __syncthreads();
    }
}

// Block (query of a KV head, place of the head): merges the partials of the shares that hold rows of it.
__global__ void combine(const __grid_constant__ AttendCall call) {
    SHARED(float, shared);
    int d = call.from.head_dim, queries = call.group * call.n_q;
    int place = blockIdx.y;
    HeadPlace at = head_at(call.from, place);
    int64_t total_cuts = cuts_of(call), start = 0, cuts = 0;
    for (int i = 0; i <= at.lane; i++) {
        cuts = divide_up(rows_of(call.from.lanes[i], call.live[i], call.added), CUT);
        start += cuts * (i < at.lane ? call.from.lanes[i].heads : at.head);
    }
    int query = blockIdx.x;
    int head = at.kv_head * call.group + query % call.group, token = query / call.group;
    float* out = call.out + (static_cast<size_t>(token) * call.n_kv_heads * call.group + head) * d;
    // Share i holds cut c where total * i / shares <= c < total * (i + 1) / shares.
    int shares = shares_of(call, total_cuts);
    auto share_of = [&](int64_t cut) {
        return static_cast<int>(((cut + 1) * shares + total_cuts - 1) / total_cuts - 1);
    };
    int first = cuts > 0 ? share_of(start) : 0, end = cuts > 0 ? share_of(start + cuts - 1) + 1 : 0;
    size_t stride = static_cast<size_t>(queries) * (d + 2);
    const float* from = call.partials + (first + place) * stride + query * (d + 2);
    merge_partials(&shared, from, stride, end - first, d, out);
}

// Phase 1 as it is for a call: its kernel, a block's shared memory, and the call with as many shares as blocks fit, of those that
// there is memory for.
struct Phase {
    void (*kernel)(AttendCall);
    size_t shared;
    AttendCall call;
};

template <int QT, int J, int TYPE>
Phase phase(const AttendCall& call) {
    Stage stage(row_bytes(call.from.k_type, call.from.head_dim), row_bytes(call.from.v_type, call.from.head_dim));
    size_t merging = WARPS * QT * (64 * J + 2) * sizeof(float);
    size_t stages = static_cast<size_t>(STAGES) * stage.bytes;
    Phase phase = {attend_rows<QT, J, TYPE>, max(merging, stages), call};
    phase.call.shares = blocks_at_once(phase.kernel, THREADS, phase.shared, call.shares);
    return phase;
}

template <int QT, int J>
Phase phase(const AttendCall& call) {
    if (call.from.k_type == call.from.v_type && call.from.head_dim == 64 * J) {
        if (call.from.k_type == F16) return phase<QT, J, F16>(call);
        if (call.from.k_type == Q8_0) return phase<QT, J, Q8_0>(call);
        if (call.from.k_type == Q4_0) return phase<QT, J, Q4_0>(call);
    }
    return phase<QT, J, ANY>(call);
}

template <int QT>
Phase phase(const AttendCall& call) {
    if (call.from.head_dim <= 64) return phase<QT, 1>(call);
    if (call.from.head_dim <= 128) return phase<QT, 2>(call);
    return phase<QT, 4>(call);
}

Phase phase_of(const AttendCall& call) {
    int queries = call.group * call.n_q;
    if (queries == 1) return phase<1>(call);
    if (queries == 2) return phase<2>(call);
    if (queries <= 4) return phase<4>(call);
    return phase<8>(call);
}

}  // namespace

// Phase 1: the partials.
LAUNCHER(attend_few)(const AttendCall* call, void* stream) {
    Phase phase = phase_of(*call);
    return launch(phase.kernel, dim3(phase.call.shares), THREADS, phase.shared, stream, phase.call);
}

// Phase 2: the result, also of attend_many where it splits rows. Its shares are those of phase 1.
LAUNCHER(combine)(const AttendCall* call, void* stream) {
    dim3 grid(call->group * call->n_q, call->n_kv_heads);
    unsigned threads = 32 * divide_up(min(call->from.head_dim, 128), 32);
    AttendCall same = call->group * call->n_q <= FEW_QUERIES ? phase_of(*call).call : *call;
    return launch(combine, grid, threads, merging_bytes(same.shares), stream, same);
}
