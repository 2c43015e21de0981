// Writes new rows behind the live rows of each lane, converted to the lane's type, and their positions for models with
// ALiBi.
//
// The number of live rows is read on the device, so that one launch serves every step. Rows beyond the capacity are not
// written.
#include "lanes.h"

namespace {

// Block (token, head of the layer, K or V). A warp writes 32 elements at a time.
__global__ void append_rows(const __grid_constant__ AppendCall call) {
    int token = blockIdx.x;
    HeadIndex at = head_at(call.lanes, blockIdx.y);
    const Lane& lane = call.lanes.lanes[at.lane];
    int64_t row = static_cast<int64_t>(call.live[at.lane]) + token;
    if (row < 0 || row >= lane.capacity) return;
    bool values = blockIdx.z == 1;
    int type = values ? call.lanes.v_type : call.lanes.k_type;
    const float* from = values ? call.v + at.kv_head * call.v_head_stride + token * call.v_token_stride
                               : call.k + at.kv_head * call.k_head_stride + token * call.k_token_stride;
    unsigned char* to = values ? lane.v + at.head * lane.v_head_stride : lane.k + at.head * lane.k_head_stride;
    to += static_cast<size_t>(row) * row_bytes(type, call.lanes.head_dim);
    for (int first = threadIdx.x / 32 * 32; first < call.lanes.head_dim; first += blockDim.x) {
        int element = first + threadIdx.x % 32;
        bool valid = element < call.lanes.head_dim;
        write_block(type, to, first, valid ? from[element] : 0.0f, valid);
    }
}

// Block (tokens, head of the layer).
__global__ void append_positions(const __grid_constant__ PositionsCall call) {
    int token = blockIdx.x * blockDim.x + threadIdx.x;
    HeadIndex at = head_at(call.lanes, blockIdx.y);
    const Lane& lane = call.lanes.lanes[at.lane];
    int64_t row = static_cast<int64_t>(call.live[at.lane]) + token;
    if (token >= call.count || row < 0 || row >= lane.capacity) return;
    size_t position = lane.first_position + static_cast<size_t>(at.head) * lane.capacity + row;
    call.row_positions[position] = call.token_positions[token];
}

unsigned heads_of(const Lanes& lanes) {
    unsigned heads = 0;
    for (int i = 0; i < lanes.count; i++) heads += lanes.lanes[i].heads;
    return heads;
}

}  // namespace

LAUNCHER(append)(const AppendCall* call, void* stream) {
    dim3 grid(call->tokens, heads_of(call->lanes), tensors_of(call->lanes.lanes[0]));
    return launch(append_rows, grid, 32 * divide_up(call->lanes.head_dim, 32), 0, stream, *call);
}

LAUNCHER(append_positions)(const PositionsCall* call, void* stream) {
    dim3 grid(divide_up(call->count, 128), heads_of(call->lanes));
    return launch(append_positions, grid, 128, 0, stream, *call);
}
