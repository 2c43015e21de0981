// What the launchers are told: the structs of src/device.rs, field by field. They are the kernels' parameters as they are, by value.
// Addresses are the device's; strides of q, k and v are in floats, all others as said.
#pragma once

#include "device.h"

constexpr int MAX_LANES = 3;
constexpr int MAX_KV_HEADS = 256;
// The most queries of a KV head that attend_few takes.
constexpr int FEW_QUERIES = 16;

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
    float* partials;             // [head_dim + 2, group * n_q, shares + n_kv_heads], where rows are split
    float* out;
    int32_t added;
    int32_t n_kv_heads;
    int32_t group;
    int32_t n_q;
    int32_t shares;              // at most; 0 where rows are not split
    float scale;
};
static_assert(sizeof(AttendCall) == 504);

// Takes rows out of a lane (rows are [head_dim, capacity, heads]) or fills an empty lane from complete rows: sums of what leaves are
// added up, the mean becomes row 0, rows are moved or copied.
struct DepartCall {
    Lane lane;
    const int32_t* lists;  // per head the rows that leave, then per head the moves: pairs (to, from)
    float* sums;           // [head_dim, heads, 2] where the lane is compensated
    float* received;       // [capacity, heads] or null
    unsigned char* aside;  // where the rows that leave are kept, K then V, head after head; or null
    int32_t head_dim;
    int32_t k_type;
    int32_t v_type;
    int32_t count;         // rows that the mean stands for
};
static_assert(sizeof(DepartCall) == 96);

struct SelectCall {
    Lane to;
    const unsigned char* k;  // [head_dim, rows, n_kv_heads], of the lane's types
    const unsigned char* v;
    uint64_t k_head_stride;  // bytes
    uint64_t v_head_stride;  // bytes
    const int32_t* lists;    // per head the rows that are kept, then per head those that leave
    float* sums;
    int32_t head_dim;
    int32_t k_type;
    int32_t v_type;
    int32_t most;            // the most rows that a head keeps
    uint8_t kv_heads[MAX_KV_HEADS];
};
static_assert(sizeof(SelectCall) == 368);

// Keeps the queries q f32 [head_dim, heads, tokens] of the last tokens in ring [head_dim, heads, window].
struct RememberCall {
    const float* q;
    uint64_t q_head_stride;   // floats
    uint64_t q_token_stride;  // floats
    const int32_t* last;      // the position of the last token
    float* ring;
    int32_t head_dim;
    int32_t heads;
    int32_t tokens;
    int32_t window;
};
static_assert(sizeof(RememberCall) == 56);

// Measures `count` rows of each of some heads of a K or V tensor: out is [count, heads].
struct MeasureCall {
    const unsigned char* rows;
    uint64_t head_stride;  // bytes
    const int32_t* lists;  // per looked-at head the rows
    float* out;
    int32_t type;
    int32_t head_dim;
    int32_t heads;
    int32_t count;
    int32_t what;          // Measure
    int32_t lag;
    uint8_t which[MAX_KV_HEADS];
};
static_assert(sizeof(MeasureCall) == 312);

// Adds up what rows receive from watchers: the queries of some tokens, all query heads of a group, token after token.
//
// gather (live is not null): of the last tokens of a computation, whose rows are the last; out is [capacity, heads] and one number a
// row, the mean over the group, begins anew or goes on.
// window: of tokens at positions `start ..` in a ring; the rows' positions are in `lists`, behind `first` rows without; out is
// [first + rows, group, heads].
struct ReceivedCall {
    const unsigned char* k;
    uint64_t k_head_stride;    // bytes
    const float* q;            // [head_dim, heads of the model, tokens]
    uint64_t q_head_stride;    // floats
    uint64_t q_token_stride;   // floats
    const int32_t* live;       // gather: rows of the lane before the tokens' own
    const float* log_weight;   // gather: of row 0, null where it is a row as others
    const int32_t* last;       // gather: the position of the last token
    const int32_t* positions;  // under ALiBi, gather: those of the rows [capacity, heads of the lane]; window: as `lists`
    const int32_t* lists;      // window: per looked-at head the positions of its rows
    float* stats;              // [2, splits, tokens * group, heads]: largest logit and denominator of each watcher
    float* out;
    int32_t k_type;
    int32_t head_dim;
    int32_t heads;             // looked at
    int32_t model_heads;       // query heads
    int32_t group;
    int32_t capacity;
    int32_t added;             // gather: rows behind the live ones; window: all rows with a position
    int32_t first;             // window
    int32_t all_tokens;        // of q
    int32_t tokens;            // that watch
    int32_t start;             // window
    int32_t replace;           // gather
    int32_t alibi;
    int32_t gain;              // Gain
    int32_t budget;
    int32_t splits;
    float scale;
    float row_weight;          // window: log-weight of row 0 where first > 0
    uint8_t which[MAX_KV_HEADS];
    uint8_t kv_heads[MAX_KV_HEADS];
};
static_assert(sizeof(ReceivedCall) == 680);
