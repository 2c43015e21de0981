// The lanes of a layer, as kernels look at them. calls.h is generated from src/device/calls.rs.
#pragma once

#include "calls.h"
#include "rows.h"

// Rows of a lane after `added` rows are written. Never more than the capacity.
__device__ inline int rows_of(int capacity, int live, int added) {
    int64_t rows = min(static_cast<int64_t>(live) + added, static_cast<int64_t>(capacity));
    return static_cast<int>(max(rows, static_cast<int64_t>(0)));
}
__device__ inline int rows_of(const Lane& lane, int live, int added) { return rows_of(lane.capacity, live, added); }

// Tensors with rows of a lane: keys and values, or only keys, where values are in their rows.
inline unsigned tensors_of(const Lane& lane) { return lane.k == lane.v ? 1 : 2; }

// Where a head of the layer is found.
struct HeadIndex {
    int lane;
    int head;     // in the lane
    int kv_head;  // in the model
};

// Head number `index` of all heads of the layer, counted lane after lane.
__device__ inline HeadIndex head_at(const Lanes& lanes, int index) {
    HeadIndex at = {0, index, lanes.kv_heads[index]};
    while (at.lane < lanes.count - 1 && at.head >= lanes.lanes[at.lane].heads) {
        at.head -= lanes.lanes[at.lane].heads;
        at.lane++;
    }
    return at;
}

// The ALiBi slope of a query head, as in src/attention.rs.
__device__ inline float alibi_slope(int head, int heads, float max_bias) {
    int p = 1;
    while (2 * p <= heads) p *= 2;
    double step = head < p ? (head + 1.0) / p : (2.0 * (head - p) + 1.0) / (2.0 * p);
    return static_cast<float>(exp2(-static_cast<double>(max_bias) * step));
}

// What a query sees of a lane's rows. A row is hidden behind the query's own, and before the window.
struct Sight {
    int rows;       // the query sees rows before this one
    int position;   // of the query; of its own row where rows lie in order
    int from;       // the first position that it sees

    // A query that sees the first `visible` rows of a lane, whose positions may be null.
    __device__ Sight(int visible, int window, const int32_t* positions) : rows(visible), position(0), from(INT32_MIN) {
        if (visible > 0) position = positions == nullptr ? visible - 1 : positions[visible - 1];
        if (window > 0) from = position - window + 1;
    }
    __device__ Sight() : rows(0), position(0), from(INT32_MIN) {}

    __device__ bool hides(int row, int row_position) const { return row >= rows || row_position < from; }
};

// The logit x after the soft cap, both in units of log 2.
__device__ inline float soft_cap(float x, float cap) { return cap * tanhf(x / cap); }

// Packed lists (src/graph/lists.rs): the offset of each list, the end of the last one, then all entries.
struct List {
    const int32_t* at;
    int count;
};
// List `number` of `lists` packed lists.
__device__ inline List list_at(const int32_t* packed, int lists, int number) {
    int first = packed[number];
    return {packed + lists + 1 + first, packed[number + 1] - first};
}
