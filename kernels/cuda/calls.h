// What the launchers are told: the structs of src/device.rs, field by field. They are the kernels' parameters as they are, by value.
// Addresses are the device's; strides of q, k and v are in floats, all others as said.
#pragma once

#include "device.h"

constexpr int MAX_LANES = 3;
constexpr int MAX_KV_HEADS = 256;

// KV heads that keep the same number of rows: K and V [head_dim, capacity, heads], rows without gaps between them. Each begins at a
// multiple of 16 bytes and may be read up to the next multiple behind its end.
struct Lane {
    unsigned char* k;
    unsigned char* v;
    uint64_t k_head_stride;  // bytes
    uint64_t v_head_stride;  // bytes
    int32_t heads;
    int32_t capacity;        // rows
    int32_t first_position;  // where the lane's [capacity, heads] positions begin in the layer's
    int32_t compensated;     // whether row 0 weighs what log_weights says
};
static_assert(sizeof(Lane) == 48);

// The lanes of a layer and which KV heads of the model their heads are, lane after lane.
struct Lanes {
    Lane lanes[MAX_LANES];
    int32_t count;
    int32_t head_dim;
    int32_t k_type;
    int32_t v_type;
    uint8_t kv_heads[MAX_KV_HEADS];
};
static_assert(sizeof(Lanes) == 416);

// Writes new rows behind the live ones. k and v are f32 [head_dim, n_kv_heads, tokens].
struct AppendCall {
    Lanes to;
    const float* k;
    const float* v;
    uint64_t k_head_stride;
    uint64_t k_token_stride;
    uint64_t v_head_stride;
    uint64_t v_token_stride;
    const int32_t* live;  // [MAX_LANES]: rows there are
    int32_t tokens;
    int32_t unused;
};
static_assert(sizeof(AppendCall) == 480);

// Writes the new tokens' positions behind those of the live rows.
struct PositionsCall {
    Lanes to;
    int32_t* all;
    const int32_t* tokens;  // [count]
    const int32_t* live;    // [MAX_LANES]
    int32_t count;
    int32_t unused;
};
static_assert(sizeof(PositionsCall) == 448);

// Attends with q f32 [head_dim, n_kv_heads * group, n_q] to live + added rows of each lane; out is [head_dim, heads, n_q].
struct AttendCall {
    Lanes from;
    const float* q;
    uint64_t q_head_stride;
    uint64_t q_token_stride;
    const int32_t* live;         // [MAX_LANES]
    const float* log_weights;    // [MAX_LANES], of the compensated lanes' rows 0; unused under ALiBi
    const int32_t* positions;    // those of the layer's rows under ALiBi, otherwise null
    float* partials;             // [head_dim + 2, group * n_q, shares + n_kv_heads], for few queries
    float* out;
    int32_t added;
    int32_t n_kv_heads;
    int32_t group;
    int32_t n_q;
    int32_t shares;
    float scale;
};
static_assert(sizeof(AttendCall) == 504);
