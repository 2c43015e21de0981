// What kernels ask about the lanes of a layer.
#pragma once

#include "calls.h"
#include "rows.h"

// Rows of a lane that are there. Never beyond the capacity, whatever the numbers say.
__device__ inline int rows_of(const Lane& lane, int live, int added) {
    return max(0, min(live + added, lane.capacity));
}

// A head of a lane by its place among all heads of the layer, lane after lane.
struct HeadPlace {
    int lane;
    int head;
    int kv_head;
};

__device__ inline HeadPlace head_at(const Lanes& lanes, int place) {
    HeadPlace at = {0, place, lanes.kv_heads[place]};
    while (at.lane < lanes.count - 1 && at.head >= lanes.lanes[at.lane].heads) {
        at.head -= lanes.lanes[at.lane].heads;
        at.lane++;
    }
    return at;
}

// The slope of ALiBi for a query head, as src/attention.rs has it.
__device__ inline float alibi_slope(int head, int heads) {
    int p = 1;
    while (2 * p <= heads) p *= 2;
    double exponent = head < p ? -8.0 * (head + 1) / p : -8.0 * (2 * (head - p) + 1) / (2 * p);
    return static_cast<float>(exp2(exponent));
}

// Lists of numbers in one array: where each of `lists` begins behind the offsets, and where the last ends; then all entries.
struct List {
    const int32_t* at;
    int count;
};
__device__ inline List list_at(const int32_t* packed, int lists, int number) {
    int first = packed[number];
    return {packed + lists + 1 + first, packed[number + 1] - first};
}
