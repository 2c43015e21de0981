// New rows behind the live ones of each lane, rounded to the lane's type; and their positions, for models with ALiBi.
//
// How many rows are live is read on the device, so that one launch serves every step. A row that would not fit the capacity is not
// written.
#include "lanes.h"

namespace {

// Block (token, head of a lane by its place, K or V); a warp writes 32 elements at a time.
__global__ void append_rows(const __grid_constant__ AppendCall call) {
    int token = blockIdx.x;
    HeadPlace at = head_at(call.to, blockIdx.y);
    const Lane& lane = call.to.lanes[at.lane];
    int row = call.live[at.lane] + token;
    if (row < 0 || row >= lane.capacity) return;
    bool values = blockIdx.z == 1;
    int type = values ? call.to.v_type : call.to.k_type;
    const float* from = values ? call.v + at.kv_head * call.v_head_stride + token * call.v_token_stride
                               : call.k + at.kv_head * call.k_head_stride + token * call.k_token_stride;
    unsigned char* to = values ? lane.v + at.head * lane.v_head_stride : lane.k + at.head * lane.k_head_stride;
    to += static_cast<size_t>(row) * row_bytes(type, call.to.head_dim);
    for (int first = threadIdx.x / 32 * 32; first < call.to.head_dim; first += blockDim.x) {
        int element = first + threadIdx.x % 32;
        bool valid = element < call.to.head_dim;
        write_block(type, to, first, valid ? from[element] : 0.0f, valid);
    }
}

// Block (tokens, head of a lane by its place).
__global__ void append_positions(const __grid_constant__ PositionsCall call) {
    int token = blockIdx.x * blockDim.x + threadIdx.x;
    HeadPlace at = head_at(call.to, blockIdx.y);
    const Lane& lane = call.to.lanes[at.lane];
    int row = call.live[at.lane] + token;
    if (token >= call.count || row < 0 || row >= lane.capacity) return;
    call.all[lane.first_position + static_cast<size_t>(at.head) * lane.capacity + row] = call.tokens[token];
}

unsigned heads_of(const Lanes& lanes) {
    unsigned heads = 0;
    for (int i = 0; i < lanes.count; i++) heads += lanes.lanes[i].heads;
    return heads;
}

}  // namespace

LAUNCHER(append)(const AppendCall* call, void* stream) {
    dim3 grid(call->tokens, heads_of(call->to), 2);
    return launch(append_rows, grid, 32 * divide_up(call->to.head_dim, 32), 0, stream, *call);
}

LAUNCHER(append_positions)(const PositionsCall* call, void* stream) {
    dim3 grid(divide_up(call->count, 128), heads_of(call->to));
    return launch(append_positions, grid, 128, 0, stream, *call);
}
