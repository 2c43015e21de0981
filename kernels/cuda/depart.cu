// Rows that leave: what they leave behind in the sums and the mean of a compensated lane, and how the others close ranks. Everything
// equals the CPU's (src/rows.rs) byte for byte: rows are added in f64 in the order in which they are listed, element by element.
//
// Costs: each row that leaves is read once, each that moves is read and written once. The order of adding leaves one thread per
// element of a head; eight rows are under way at a time.
//
// History
//   Nothing here was timed on a GPU yet.
#include "lanes.h"

namespace {

constexpr int THREADS = 256;
// Kept rows that a block copies.
constexpr int COPIED = 64;

// Copies a row, by a whole warp.
__device__ void copy_row(unsigned char* to, const unsigned char* from, int bytes) {
    int lane = threadIdx.x % 32;
    uintptr_t all = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(bytes);
    if (all % 16 == 0) {
        for (int i = 16 * lane; i < bytes; i += 16 * 32) store(to + i, load<uint4>(from + i));
    } else {
        // Rows of blocks lie at even addresses.
        for (int i = 2 * lane; i < bytes; i += 2 * 32) store(to + i, load<uint16_t>(from + i));
    }
}

// Adds the listed rows to `total` and writes the sum and, as row 0 of `to`, the mean of `count`.
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
    // Rows that leave are not written to before all have been read.
    __syncthreads();
    int first = element / 32 * 32;
    if (first < head_dim) write_block(type, to, first, mean, valid);
}

// Block (head, K or V). No move reads a row that another writes.
__global__ void depart_rows(const __grid_constant__ DepartCall call) {
    int head = blockIdx.x, heads = call.lane.heads;
    bool values = blockIdx.y == 1;
    int type = values ? call.v_type : call.k_type;
    int bytes = row_bytes(type, call.head_dim);
    unsigned char* rows = values ? call.lane.v + head * call.lane.v_head_stride : call.lane.k + head * call.lane.k_head_stride;
    if (call.aside != nullptr) {
        List gone = list_at(call.lists, 2 * heads, head);
        unsigned char* to = call.aside + static_cast<size_t>(head) * gone.count * bytes;
        if (values) to += static_cast<size_t>(heads) * gone.count * row_bytes(call.k_type, call.head_dim);
        for (int i = threadIdx.x / 32; i < gone.count; i += THREADS / 32) {
            copy_row(to + static_cast<size_t>(i) * bytes, rows + static_cast<size_t>(gone.at[i]) * bytes, bytes);
        }
        __syncthreads();
    }
    if (call.lane.compensated) {
        float* sum = call.sums + (static_cast<size_t>(blockIdx.y) * heads + head) * call.head_dim;
        double before = static_cast<int>(threadIdx.x) < call.head_dim ? sum[threadIdx.x] : 0.0f;
        sum_rows(rows, list_at(call.lists, 2 * heads, head), type, call.head_dim, before, sum, rows, call.count);
    }
    List moves = list_at(call.lists, 2 * heads, heads + head);
    for (int i = threadIdx.x / 32; i < moves.count / 2; i += THREADS / 32) {
        copy_row(rows + static_cast<size_t>(moves.at[2 * i]) * bytes, rows + static_cast<size_t>(moves.at[2 * i + 1]) * bytes, bytes);
    }
    if (call.received != nullptr && !values) {
        float* received = call.received + static_cast<size_t>(head) * call.lane.capacity;
        for (int i = threadIdx.x; i < moves.count / 2; i += THREADS) received[moves.at[2 * i]] = received[moves.at[2 * i + 1]];
    }
}

// Block (COPIED kept rows, head of the lane, K or V); the first of a compensated lane adds up what leaves instead.
__global__ void select_rows(const __grid_constant__ SelectCall call) {
    int head = blockIdx.y, heads = call.to.heads, kv_head = call.kv_heads[head];
    bool values = blockIdx.z == 1;
    int type = values ? call.v_type : call.k_type;
    int bytes = row_bytes(type, call.head_dim);
    const unsigned char* from = values ? call.v + kv_head * call.v_head_stride : call.k + kv_head * call.k_head_stride;
    unsigned char* to = values ? call.to.v + head * call.to.v_head_stride : call.to.k + head * call.to.k_head_stride;
    int block = blockIdx.x;
    if (call.to.compensated) {
        if (block == 0) {
            List rows = list_at(call.lists, 2 * heads, heads + head);
            float* sum = call.sums + (static_cast<size_t>(blockIdx.z) * heads + head) * call.head_dim;
            sum_rows(from, rows, type, call.head_dim, 0.0, sum, to, rows.count);
            return;
        }
        block--;
        to += bytes;
    }
    List kept = list_at(call.lists, 2 * heads, head);
    int last = min(kept.count, min((block + 1) * COPIED, call.to.capacity - (call.to.compensated ? 1 : 0)));
    for (int i = block * COPIED + threadIdx.x / 32; i < last; i += THREADS / 32) {
        copy_row(to + static_cast<size_t>(i) * bytes, from + static_cast<size_t>(kept.at[i]) * bytes, bytes);
    }
}

}  // namespace

LAUNCHER(depart)(const DepartCall* call, void* stream) {
    return launch(depart_rows, dim3(call->lane.heads, 2), THREADS, 0, stream, *call);
}

LAUNCHER(select)(const SelectCall* call, void* stream) {
    dim3 grid(divide_up(call->most, COPIED) + (call->to.compensated ? 1 : 0), call->to.heads, 2);
    return launch(select_rows, grid, THREADS, 0, stream, *call);
}
