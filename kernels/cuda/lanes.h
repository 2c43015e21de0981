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
__device__ inline float alibi_slope(int head, int heads) {
    int p = 1;
    while (2 * p <= heads) p *= 2;
    double exponent = head < p ? -8.0 * (head + 1) / p : -8.0 * (2 * (head - p) + 1) / (2 * p);
    return static_cast<float>(exp2(exponent));
}

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
