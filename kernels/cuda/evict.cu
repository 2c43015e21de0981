// Evicts rows of a lane and fills empty lanes. Results equal the CPU's (src/rows.rs) byte for byte: rows are added in
// f64 in the order of the lists, element by element.
//
// Costs: each evicted row is read once, each moved row is read and written once. The fixed order of additions leaves
// one thread per element of a head; eight rows are loaded at a time.
//
// History
//   Not timed alone on a GPU yet.
#include "lanes.h"

namespace {

constexpr int THREADS = 256;
// Rows that a block of select_rows copies.
constexpr int BLOCK_ROWS = 64;

// Copies a row. Called by a whole warp.
__device__ void copy_row(unsigned char* to, const unsigned char* from, int bytes) {
    int lane_id = threadIdx.x % 32;
    uintptr_t all = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(bytes);
    if (all % 16 == 0) {
        for (int i = 16 * lane_id; i < bytes; i += 16 * 32) store(to + i, load<uint4>(from + i));
    } else {
        // Rows of quantised types begin at even addresses.
        for (int i = 2 * lane_id; i < bytes; i += 2 * 32) store(to + i, load<uint16_t>(from + i));
    }
}

// Adds the listed rows to `total`, and writes the sum and the mean of `count` rows. The mean becomes row 0 of `to`.
__device__ void sum_rows(
    const unsigned char* from, List rows, int type, int head_dim, double total, float* sum, unsigned char* to, int count) {
    int element = threadIdx.x, bytes = row_bytes(type, head_dim);
    bool valid = element < head_dim;
    float mean = 0.0f;
    if (valid) {
        with_type(type, [&](auto t) {
#pragma unroll 8
            for (int i = 0; i < rows.count; i++) {
                const unsigned char* row = from + static_cast<size_t>(rows.at[i]) * bytes;
                float2 pair = read_pair<decltype(t)::value>(row, element / 2);
                total += static_cast<double>(element % 2 == 0 ? pair.x : pair.y);
            }
        });
        sum[element] = static_cast<float>(total);
        mean = static_cast<float>(static_cast<double>(sum[element]) / max(count, 1));
    }
    // All rows must be read before row 0 is written.
    __syncthreads();
    int first = element / 32 * 32;
    if (first < head_dim) write_block(type, to, first, mean, valid);
}

// Block (head, K or V). No move reads a row that another move writes.
__global__ void evict_rows(const __grid_constant__ EvictCall call) {
    int head = blockIdx.x, heads = call.lane.heads;
    bool values = blockIdx.y == 1;
    int type = values ? call.v_type : call.k_type;
    int bytes = row_bytes(type, call.head_dim);
    unsigned char* rows = values ? call.lane.v + head * call.lane.v_head_stride : call.lane.k + head * call.lane.k_head_stride;
    List evicted = list_at(call.lists, 2 * heads, head);
    if (call.evicted != nullptr) {
        unsigned char* to = call.evicted + static_cast<size_t>(head) * evicted.count * bytes;
        if (values) to += static_cast<size_t>(heads) * evicted.count * row_bytes(call.k_type, call.head_dim);
        for (int i = threadIdx.x / 32; i < evicted.count; i += THREADS / 32) {
            copy_row(to + static_cast<size_t>(i) * bytes, rows + static_cast<size_t>(evicted.at[i]) * bytes, bytes);
        }
        __syncthreads();
    }
    if (call.lane.compensated) {
        float* sum = call.sums + (static_cast<size_t>(blockIdx.y) * heads + head) * call.head_dim;
        double before = static_cast<int>(threadIdx.x) < call.head_dim ? sum[threadIdx.x] : 0.0f;
        sum_rows(rows, evicted, type, call.head_dim, before, sum, rows, call.total_evicted);
    }
    List moves = list_at(call.lists, 2 * heads, heads + head);
    for (int i = threadIdx.x / 32; i < moves.count / 2; i += THREADS / 32) {
        copy_row(rows + static_cast<size_t>(moves.at[2 * i]) * bytes, rows + static_cast<size_t>(moves.at[2 * i + 1]) * bytes, bytes);
    }
    if (call.accumulated != nullptr && !values) {
        float* column = call.accumulated + static_cast<size_t>(head) * call.lane.capacity;
        for (int i = threadIdx.x; i < moves.count / 2; i += THREADS) column[moves.at[2 * i]] = column[moves.at[2 * i + 1]];
    }
}

// Block (BLOCK_ROWS kept rows, head of the lane, K or V). In a compensated lane the first block adds up the other rows
// instead.
__global__ void select_rows(const __grid_constant__ SelectCall call) {
    int head = blockIdx.y, heads = call.lane.heads, kv_head = call.kv_heads[head];
    bool values = blockIdx.z == 1;
    int type = values ? call.v_type : call.k_type;
    int bytes = row_bytes(type, call.head_dim);
    const unsigned char* from = values ? call.v + kv_head * call.v_head_stride : call.k + kv_head * call.k_head_stride;
    unsigned char* to = values ? call.lane.v + head * call.lane.v_head_stride : call.lane.k + head * call.lane.k_head_stride;
    int block = blockIdx.x;
    if (call.lane.compensated) {
        if (block == 0) {
            List others = list_at(call.lists, 2 * heads, heads + head);
            float* sum = call.sums + (static_cast<size_t>(blockIdx.z) * heads + head) * call.head_dim;
            sum_rows(from, others, type, call.head_dim, 0.0, sum, to, others.count);
            return;
        }
        block--;
        to += bytes;
    }
    List kept = list_at(call.lists, 2 * heads, head);
    int last = min(kept.count, min((block + 1) * BLOCK_ROWS, call.lane.capacity - (call.lane.compensated ? 1 : 0)));
    for (int i = block * BLOCK_ROWS + threadIdx.x / 32; i < last; i += THREADS / 32) {
        copy_row(to + static_cast<size_t>(i) * bytes, from + static_cast<size_t>(kept.at[i]) * bytes, bytes);
    }
}

}  // namespace

LAUNCHER(evict)(const EvictCall* call, void* stream) {
    return launch(evict_rows, dim3(call->lane.heads, tensors_of(call->lane)), THREADS, 0, stream, *call);
}

LAUNCHER(select)(const SelectCall* call, void* stream) {
    dim3 grid(divide_up(call->max_kept, BLOCK_ROWS) + (call->lane.compensated ? 1 : 0), call->lane.heads, tensors_of(call->lane));
    return launch(select_rows, grid, THREADS, 0, stream, *call);
}
