// Predicted scores of new rows, written behind the live rows of a lane's numbers (src/predict.rs).
//
// The number of live rows is read on the device, so that one launch serves every step. Rows beyond the capacity get no
// score. Sums are f32 in another order than the CPU's.
//
// History
//   Not timed alone on a GPU yet.
#include "lanes.h"

namespace {

constexpr int WARPS = 8;
constexpr int THREADS = 32 * WARPS;
// As in src/predict.rs.
constexpr float MIN_NORM_SQUARED = 1e-20f;

// A thread's share of the sums over the elements of a key or a value.
struct Sums {
    float products = 0.0f;
    float norm = 0.0f;     // squared
    float centred = 0.0f;  // the squared norm without the means
};

// Neighbouring threads read neighbouring elements. `map` has the means of these elements, `stride` numbers behind them
// the weights, and behind these the weights of squares.
__device__ Sums sums_of(const float* x, int count, const float* map, int stride) {
    Sums sums;
    for (int i = threadIdx.x % 32; i < count; i += 32) {
        float element = x[i];
        float centred = element - map[i];
        sums.products += (map[stride + i] + map[2 * stride + i] * centred) * centred;
        sums.norm += element * element;
        sums.centred += centred * centred;
    }
    return sums;
}

__device__ float logarithm(float squared_norm) { return logf(fmaxf(squared_norm, MIN_NORM_SQUARED)); }

// Block (WARPS tokens, head that gets scores). A warp for each token.
__global__ void predict_scores(const __grid_constant__ PredictCall call) {
    int token = blockIdx.x * WARPS + threadIdx.x / 32;
    int64_t row = static_cast<int64_t>(*call.live) + token;
    if (token >= call.tokens || row < 0 || row >= call.capacity) return;
    int kv_head = call.kv_heads[blockIdx.y], elements = call.k_elements + call.v_elements;
    const float* map = call.maps + static_cast<size_t>(kv_head) * (3 * elements + 5);
    const float* numbers = map + 3 * elements;
    const float* k = call.k + kv_head * call.k_head_stride + token * call.k_token_stride;
    const float* v = call.v + kv_head * call.v_head_stride + token * call.v_token_stride;
    Sums of_key = sums_of(k, call.k_elements, map, elements);
    Sums of_value = sums_of(v, call.v_elements, map + call.k_elements, elements);
    float products = add_warp(of_key.products + of_value.products);
    float key_norm = add_warp(of_key.norm), key_centred = add_warp(of_key.centred);
    float value_norm = add_warp(of_value.norm), value_centred = add_warp(of_value.centred);
    if (threadIdx.x % 32 == 0) {
        float score = numbers[0] + products;
        score += numbers[1] * logarithm(key_norm) + numbers[2] * logarithm(key_centred);
        score += numbers[3] * logarithm(value_norm) + numbers[4] * logarithm(value_centred);
        call.scores[static_cast<size_t>(call.tensor_heads[blockIdx.y]) * call.capacity + row] = score;
    }
}

}  // namespace

LAUNCHER(predict)(const PredictCall* call, void* stream) {
    dim3 grid(divide_up(call->tokens, WARPS), call->heads);
    return launch(predict_scores, grid, THREADS, 0, stream, *call);
}
