// How the rows of all heads of a layer are divided among blocks. The rows are laid end to end and cut into equal
// splits. The number of rows is read on the device, so the blocks have equal work whatever the lengths of the heads.
//
// The rows of one head in one split are a segment. A block writes one partial result per segment (partials.h), at
// number (split + index of the head). Two segments never have the same number: along the rows either the split or the
// head goes up by one from each segment to the next.
#pragma once

#include "lanes.h"

// Rows of a unit. Splits begin and end at units; the last unit of a head may have fewer rows.
constexpr int UNIT = 32;

// The rows of one head in one split.
struct Segment {
    HeadIndex at;
    int head_index;  // of all heads of the layer
    int rows;        // of the lane
    int begin;       // first row
    int end;         // row behind the last
    int units;
};

// Units of all heads.
__device__ inline int64_t count_units(const AttendCall& call) {
    int64_t units = 0;
    for (int i = 0; i < call.lanes.count; i++) {
        const Lane& lane = call.lanes.lanes[i];
        units += static_cast<int64_t>(divide_up(rows_of(lane, call.live[i], call.added), UNIT)) * lane.heads;
    }
    return units;
}

// Number of splits: every split has at least one unit.
__device__ inline int count_splits(const AttendCall& call, int64_t units) {
    return static_cast<int>(min(static_cast<int64_t>(call.max_splits), units));
}

// The segment that begins at unit `first` of all units and ends before unit `last`.
__device__ inline Segment segment_at(const AttendCall& call, int64_t first, int64_t last) {
    Segment segment = {};
    int head_index = 0;
    for (int i = 0; i < call.lanes.count; i++) {
        const Lane& lane = call.lanes.lanes[i];
        int rows = rows_of(lane, call.live[i], call.added);
        int units = divide_up(rows, UNIT);
        int64_t lane_units = static_cast<int64_t>(units) * lane.heads;
        if (first < lane_units) {
            int head = static_cast<int>(first / units), unit = static_cast<int>(first % units);
            segment.units = static_cast<int>(min(static_cast<int64_t>(units - unit), last - first));
            segment.head_index = head_index + head;
            segment.at = {i, head, call.lanes.kv_heads[head_index + head]};
            segment.rows = rows;
            segment.begin = unit * UNIT;
            segment.end = min((unit + segment.units) * UNIT, rows);
            return segment;
        }
        first -= lane_units;
        last -= lane_units;
        head_index += lane.heads;
    }
    return segment;
}
