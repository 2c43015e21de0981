// How the rows of all heads of a layer are divided among blocks: laid end to end and cut into equal shares. How many rows there are is
// read on the device, so the blocks are level whatever the lengths of the heads.
//
// For each segment, the rows of one head in one share, a partial result is left (partials.h). A share and a head meet in partial number
// (share + place of the head): along the rows one of the two goes up at each border, so no two meet in the same.
#pragma once

#include "lanes.h"

// Shares are cut at multiples of this many rows of a head.
constexpr int CUT = 32;

// Rows of one head that lie in a block's share.
struct Segment {
    HeadPlace at;
    int place;  // of the head
    int rows;   // of the lane
    int begin;
    int end;
    int cuts;   // of the share
};

__device__ inline int64_t cuts_of(const AttendCall& call) {
    int64_t cuts = 0;
    for (int i = 0; i < call.from.count; i++) {
        const Lane& lane = call.from.lanes[i];
        cuts += static_cast<int64_t>(divide_up(rows_of(lane, call.live[i], call.added), CUT)) * lane.heads;
    }
    return cuts;
}

// Shares that there are: each holds a cut at least.
__device__ inline int shares_of(const AttendCall& call, int64_t cuts) {
    return static_cast<int>(min(static_cast<int64_t>(call.shares), cuts));
}

// The segment that begins at cut `first` of all and ends before `last`.
__device__ inline Segment segment_at(const AttendCall& call, int64_t first, int64_t last) {
    Segment segment = {};
    int place = 0;
    for (int i = 0; i < call.from.count; i++) {
        const Lane& lane = call.from.lanes[i];
        int rows = rows_of(lane, call.live[i], call.added);
        int cuts = divide_up(rows, CUT);
        int64_t all = static_cast<int64_t>(cuts) * lane.heads;
        if (first < all) {
            int head = static_cast<int>(first / cuts), cut = static_cast<int>(first % cuts);
            segment.cuts = static_cast<int>(min(static_cast<int64_t>(cuts - cut), last - first));
            segment.place = place + head;
            segment.at = {i, head, call.from.kv_heads[place + head]};
            segment.rows = rows;
            segment.begin = cut * CUT;
            segment.end = min((cut + segment.cuts) * CUT, rows);
            return segment;
        }
        first -= all;
        last -= all;
        place += lane.heads;
    }
    return segment;
}
