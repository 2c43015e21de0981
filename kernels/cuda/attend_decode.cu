// Attention of few query tokens over long caches: at most 16 queries of a KV head (query heads of its group times
// tokens). Memory bound: each row is read once, in wide loads, with many loads in flight.
//
// Data flow
//   - The rows of all KV heads are divided into equal splits (splits.h), one per block. There are as many blocks as the
//     GPU can hold at once (registers and shared memory allow two to four per multiprocessor).
//   - A block processes its rows in stages of up to 16 KiB of K and V. Stages are copied asynchronously and
//     unconverted, 16 bytes per thread, into a ring of three stages in shared memory: two are loaded while one is
//     processed. Rows are converted when they are read from shared memory, so the loads are wide for every type and
//     alignment. Common types and head sizes have specialised kernels.
//   - Each of the four warps processes a quarter of a stage (with more than 8 queries: half of a stage, for half of the
//     queries), four rows at a time. Thread i holds elements 2 i, 2 i + 1, 2 i + 64 ... of a row and of its queries in
//     registers. 4 x 8 dot products are reduced across the warp at once, by halving, so that each thread gets one
//     logit. Each exponential is computed once; the weights are exchanged by shuffles and multiplied with the values.
//   - At the end of a segment the block merges its warps and writes one partial (partials.h). The kernel `combine`
//     merges the partials of each query.
//
// Costs of a row of K and V (d = head_dim, g = queries)
//   - Memory: 4 d bytes with f16, 2.125 d with q8_0; the same once into and once or twice out of shared memory.
//   - Arithmetic: 2 d g multiply-adds in f32 and about 3 g shuffles. With d = 128 and g = 4 a warp issues 102
//     instructions on sm_89 with f16, 132 with q8_0 and 145 with q4_0. A multiprocessor with four blocks issues three
//     instructions per clock. This model (a prediction) gives, in bytes per clock and multiprocessor, 12.4 (f16), 6.3
//     (q8_0) or 3.2 (q4_0) on an RTX 4090, whose memory delivers 3.1; and 17, 7.2 or 3.3 on an H200, whose memory
//     delivers 18.
//   - Partials: (splits + heads) * g * (d + 2) * 4 bytes, written and read once. With 256 splits, 8 heads, d = 128 and
//     g = 4 this is 2 % of the bytes of 16,000 rows.
//
// History
//   - On an H200, with 100,000 rows in each of 8 heads and 32 layers (d = 128, g = 4): 4.3 ms a token with f16, which is 3.0 TB/s
//     or 13 bytes per clock and multiprocessor; 4.8 ms with q8_0, 1.5 TB/s or 6.3 bytes. A copy moves 4.2 TB/s there. These
//     are differences of whole decode steps. Instruction counts are those of the compiled code.
//   - With a condition around each pair of elements every load of a row waited for the previous one (137 instructions
//     per row and warp on sm_89 with f16, d = 128 and g = 4; 112 without). A switch over the type for every four rows
//     took 10 more and 151 registers, which allow 3 blocks.
#include "dots.h"
#include "splits.h"

namespace {

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
constexpr int STAGES = 3;
constexpr int STAGE_BYTES = 16 * 1024;

// The layout of a stage in shared memory.
struct Stage {
    int rows;
    int v_offset;          // bytes
    int positions_offset;  // bytes
    int bytes;

    __host__ __device__ Stage(int k_bytes, int v_bytes) {
        rows = UNIT;
        while (rows > WARPS && rows * (k_bytes + v_bytes) > STAGE_BYTES) rows /= 2;
        // Rows keep their offset from a multiple of 16 bytes.
        v_offset = (rows * k_bytes + 31) / 16 * 16;
        positions_offset = v_offset + (rows * v_bytes + 31) / 16 * 16;
        bytes = positions_offset + rows * 4;
        bytes = (bytes + 15) / 16 * 16;
    }
};

// Copies all 16-byte words that overlap [from, from + bytes).
__device__ void fetch(unsigned char* to, const unsigned char* from, int bytes) {
    size_t before = reinterpret_cast<uintptr_t>(from) % 16;
    int words = static_cast<int>((before + bytes + 15) / 16);
    from -= before;
    for (int word = threadIdx.x; word < words; word += THREADS) {
        copy_async<16>(to + 16 * word, from + 16 * word);
    }
}

// In place of a type: a kernel for all types of K and V and all head sizes.
constexpr int ANY = -1;

// Queries of a KV head are numbered token after token: i = token * group + query head in the group. QT: queries of a
// warp. J: pairs of elements of a thread. TYPE: the type of K and V where they have the same type and head_dim is 64 J,
// otherwise ANY.
template <int QT, int J, int TYPE>
__global__ void __launch_bounds__(THREADS, 2) attend_rows(const __grid_constant__ AttendCall call) {
    SHARED(unsigned char, shared);
    constexpr int COPIES = 8 / QT;  // threads that hold the same logit
    // Constants in the specialised kernels. Otherwise there is a switch over the type for every four rows.
    const int d = TYPE == ANY ? call.lanes.head_dim : 64 * J, queries = call.group * call.n_q;
    const int k_type = TYPE == ANY ? call.lanes.k_type : TYPE, v_type = TYPE == ANY ? call.lanes.v_type : TYPE;
    const int k_bytes = row_bytes(k_type, d), v_bytes = row_bytes(v_type, d);
    const Stage stage(k_bytes, v_bytes);
    int warp = threadIdx.x / 32, lane_id = threadIdx.x % 32;
    int tiles = divide_up(queries, QT), parts = WARPS / tiles;
    int tile = warp % tiles, part = warp / tiles, own_rows = stage.rows / parts;
    // The row and the query of this thread's logits.
    int own_row = lane_id / 8, own_query = lane_id % 8 / COPIES;
    int query = tile * QT + own_query;

    int64_t units = count_units(call);
    int splits = count_splits(call, units), split = blockIdx.x;
    if (split >= splits) return;
    int64_t first = units * split / splits, last = units * (split + 1) / splits;
    while (first < last) {
        Segment segment = segment_at(call, first, last);
        first += segment.units;
        const Lane& lane = call.lanes.lanes[segment.at.lane];
        const unsigned char* k = lane.k + segment.at.head * lane.k_head_stride;
        const unsigned char* v = lane.v + segment.at.head * lane.v_head_stride;
        const int32_t* positions = nullptr;
        if (call.positions != nullptr) {
            positions = call.positions + lane.first_position + static_cast<size_t>(segment.at.head) * lane.capacity;
        }
        float log_weight = lane.compensated ? call.log_weights[segment.at.lane] : 0.0f;
        // A row 0 that is not used may hold any bytes and is not read.
        int begin = segment.begin == 0 && log_weight == -INFINITY ? 1 : segment.begin;
        int end = segment.end;

        // Rows before all windows are not read where rows lie in order.
        if (call.window > 0 && positions == nullptr) {
            begin = max(begin, segment.rows - (call.n_q - 1) - call.window);
        }
        Sight sight;
        float slope = 0.0f;
        if (query < queries) {
            int visible = max(0, segment.rows - (call.n_q - 1 - query / call.group));
            sight = Sight(visible, call.window, positions);
            if (call.max_alibi_bias > 0.0f) {
                int head = segment.at.kv_head * call.group + query % call.group;
                slope = alibi_slope(head, call.n_kv_heads * call.group, call.max_alibi_bias) * LOG2_E;
            }
        }
        float2 q[QT][J];
        float2 sums[QT][J];
#pragma unroll
        for (int i = 0; i < QT; i++) {
            int number = tile * QT + i;
            int head = segment.at.kv_head * call.group + number % call.group;
            const float* from = call.q + head * call.q_head_stride + number / call.group * call.q_token_stride;
            load_query(q[i], number < queries ? from : nullptr, d, call.scale * LOG2_E);
#pragma unroll
            for (int j = 0; j < J; j++) sums[i][j] = make_float2(0.0f, 0.0f);
        }
        float largest = EMPTY_BASE, total = 0.0f;

        auto fetch_stage = [&](int number) {
            int from = begin + number * stage.rows, rows = min(stage.rows, end - from);
            if (rows > 0) {
                unsigned char* to = &shared + number % STAGES * stage.bytes;
                fetch(to, k + static_cast<size_t>(from) * k_bytes, rows * k_bytes);
                fetch(to + stage.v_offset, v + static_cast<size_t>(from) * v_bytes, rows * v_bytes);
                if (positions != nullptr && static_cast<int>(threadIdx.x) < rows) {
                    copy_async<4>(to + stage.positions_offset + 4 * threadIdx.x, positions + from + threadIdx.x);
                }
            }
            copy_commit();
        };
        for (int i = 0; i < STAGES - 1; i++) fetch_stage(i);
        for (int number = 0; begin + number * stage.rows < end; number++) {
            copy_wait<STAGES - 2>();
            __syncthreads();
            // Reuses the stage that all warps have finished.
            fetch_stage(number + STAGES - 1);

            int from = begin + number * stage.rows;
            const unsigned char* in = &shared + number % STAGES * stage.bytes;
            const unsigned char* k_rows = in + reinterpret_cast<uintptr_t>(k + static_cast<size_t>(from) * k_bytes) % 16;
            const unsigned char* v_rows =
                in + stage.v_offset + reinterpret_cast<uintptr_t>(v + static_cast<size_t>(from) * v_bytes) % 16;
            int r_end = min(min(stage.rows, end - from), (part + 1) * own_rows);
            for (int r = part * own_rows; r < r_end; r += ROWS) {
                int n = min(ROWS, r_end - r);
                float logit = dot_rows(k_type, k_rows + r * k_bytes, k_bytes, n, d, q);
                if (call.softcap > 0.0f) logit = soft_cap(logit, call.softcap * LOG2_E);
                int row = from + r + own_row, position = row;
                if (positions != nullptr && own_row < n) {
                    position = load<int32_t>(in + stage.positions_offset + 4 * (r + own_row));
                    logit += slope * static_cast<float>(position - sight.position);
                }
                if (row == 0) logit += log_weight * LOG2_E;
                if (own_row >= n || sight.hides(row, position)) logit = -INFINITY;

                float top = fmaxf(largest, logit);
                top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 8));
                top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 16));
                float factor = exp2f(largest - top), weight = exp2f(logit - top);
                total = total * factor + weight;
                if (__any_sync(ALL_LANES, top != largest)) {
#pragma unroll
                    for (int o = 0; o < QT; o++) {
                        float query_factor = __shfl_sync(ALL_LANES, factor, o * COPIES);
#pragma unroll
                        for (int j = 0; j < J; j++) {
                            sums[o][j].x *= query_factor;
                            sums[o][j].y *= query_factor;
                        }
                    }
                }
                largest = top;
                with_type(v_type, [&](auto type) {
#pragma unroll
                    for (int i = 0; i < ROWS; i++) {
                        float weights[QT];  // 0 for rows that do not exist
#pragma unroll
                        for (int o = 0; o < QT; o++) {
                            weights[o] = __shfl_sync(ALL_LANES, weight, i * 8 + o * COPIES);
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

        // The memory of the stages is reused for the warps' sums [64 J, QT, WARPS], bases [QT, WARPS] and denominators
        // [QT, WARPS].
        constexpr int WIDTH = 64 * J;
        float* all_sums = reinterpret_cast<float*>(&shared);
        float* all_largest = all_sums + WARPS * QT * WIDTH;
        float* all_totals = all_largest + WARPS * QT;
#pragma unroll
        for (int o = 0; o < QT; o++) {
#pragma unroll
            for (int j = 0; j < J; j++) {
                float* to = all_sums + (warp * QT + o) * WIDTH + 2 * (lane_id + 32 * j);
                to[0] = sums[o][j].x;
                to[1] = sums[o][j].y;
            }
        }
        if (own_row == 0 && lane_id % COPIES == 0) {
            all_largest[warp * QT + own_query] = largest;
            all_totals[warp * QT + own_query] = total;
        }
        __syncthreads();
        float* partial =
            call.partials + static_cast<size_t>(split + segment.head_index) * queries * (d + 2);
        for (int i = threadIdx.x; i < queries * d; i += THREADS) {
            int number = i / d, element = i % d;
            float base = EMPTY_BASE, denominator = 0.0f, sum = 0.0f;
            for (int w = 0; w < parts; w++) base = fmaxf(base, all_largest[number + w * tiles * QT]);
            for (int w = 0; w < parts; w++) {
                int at = number + w * tiles * QT;  // warps with the same queries are `tiles` apart
                float factor = exp2f(all_largest[at] - base);
                denominator += all_totals[at] * factor;
                sum += all_sums[at * WIDTH + element] * factor;
            }
            partial[number * (d + 2) + element] = sum;
            if (element == 0) {
                partial[number * (d + 2) + d] = base;
                partial[number * (d + 2) + d + 1] = denominator;
            }
        }
        __syncthreads();
    }
}

// Block (query of a KV head, head of the layer): merges the partials of all splits with rows of the head.
__global__ void combine(const __grid_constant__ AttendCall call) {
    SHARED(float, shared);
    int d = call.lanes.head_dim, queries = call.group * call.n_q;
    int head_index = blockIdx.y;
    HeadIndex at = head_at(call.lanes, head_index);
    int64_t all_units = count_units(call), start = 0, units = 0;
    for (int i = 0; i <= at.lane; i++) {
        units = divide_up(rows_of(call.lanes.lanes[i], call.live[i], call.added), UNIT);
        start += units * (i < at.lane ? call.lanes.lanes[i].heads : at.head);
    }
    int query = blockIdx.x;
    int head = at.kv_head * call.group + query % call.group, token = query / call.group;
    float* out = call.out + (static_cast<size_t>(token) * call.n_kv_heads * call.group + head) * d;
    // Split i has unit u where all_units * i / splits <= u < all_units * (i + 1) / splits.
    int splits = count_splits(call, all_units);
    auto split_of = [&](int64_t unit) {
        return static_cast<int>(((unit + 1) * splits + all_units - 1) / all_units - 1);
    };
    int first = units > 0 ? split_of(start) : 0, end = units > 0 ? split_of(start + units - 1) + 1 : 0;
    size_t stride = static_cast<size_t>(queries) * (d + 2);
    const float* from = call.partials + (first + head_index) * stride + query * (d + 2);
    Sink sink;
    // The partials of attend_prefill have a common factor.
    if (call.sink_logits != nullptr) sink = {call.sink_logits[head] * LOG2_E, queries > MAX_DECODE_QUERIES ? exp2f(WEIGHT_SCALE) : 1.0f};
    merge_partials(&shared, from, stride, end - first, d, sink, out);
}

// Phase 1 of a call: the kernel, the shared memory of a block, and the call with `max_splits` reduced to the blocks
// that the GPU holds.
struct Phase {
    void (*kernel)(AttendCall);
    size_t shared;
    AttendCall call;
};

template <int QT, int J, int TYPE>
Phase phase(const AttendCall& call) {
    Stage stage(row_bytes(call.lanes.k_type, call.lanes.head_dim), row_bytes(call.lanes.v_type, call.lanes.head_dim));
    size_t sums = WARPS * QT * (64 * J + 2) * sizeof(float);
    size_t stages = static_cast<size_t>(STAGES) * stage.bytes;
    Phase phase = {attend_rows<QT, J, TYPE>, max(sums, stages), call};
    phase.call.max_splits = resident_blocks(phase.kernel, THREADS, phase.shared, call.max_splits);
    return phase;
}

template <int QT, int J>
Phase phase(const AttendCall& call) {
    if (call.lanes.k_type == call.lanes.v_type && call.lanes.head_dim == 64 * J) {
        if (call.lanes.k_type == F16) return phase<QT, J, F16>(call);
        if (call.lanes.k_type == Q8_0) return phase<QT, J, Q8_0>(call);
        if (call.lanes.k_type == Q4_0) return phase<QT, J, Q4_0>(call);
        if (call.lanes.k_type == Iq4Nl) return phase<QT, J, Iq4Nl>(call);
    }
    return phase<QT, J, ANY>(call);
}

template <int QT>
Phase phase(const AttendCall& call) {
    if (call.lanes.head_dim <= 64) return phase<QT, 1>(call);
    if (call.lanes.head_dim <= 128) return phase<QT, 2>(call);
    return phase<QT, 4>(call);
}

Phase phase_one(const AttendCall& call) {
    int queries = call.group * call.n_q;
    if (queries == 1) return phase<1>(call);
    if (queries == 2) return phase<2>(call);
    if (queries <= 4) return phase<4>(call);
    return phase<8>(call);
}

}  // namespace

// Phase 1: writes the partials.
LAUNCHER(attend_decode)(const AttendCall* call, void* stream) {
    Phase phase = phase_one(*call);
    return launch(phase.kernel, dim3(phase.call.max_splits), THREADS, phase.shared, stream, phase.call);
}

// Phase 2: writes the result. Also phase 2 of attend_prefill where that splits rows. The number of splits is that of
// phase 1.
LAUNCHER(combine)(const AttendCall* call, void* stream) {
    dim3 grid(call->group * call->n_q, call->n_kv_heads);
    unsigned threads = 32 * divide_up(min(call->lanes.head_dim, 128), 32);
    AttendCall same = call->group * call->n_q <= MAX_DECODE_QUERIES ? phase_one(*call).call : *call;
    return launch(combine, grid, threads, merge_bytes(same.max_splits), stream, same);
}
