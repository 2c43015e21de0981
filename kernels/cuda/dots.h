// Dot products of a few rows with a few queries by one warp, for attention of few queries and for accumulated
// attention.
//
// Thread i of the warp holds elements 2 i, 2 i + 1, 2 i + 64, 2 i + 65 ... of rows and queries: J pairs, J = head_dim /
// 64 rounded up. A thread without a j-th pair has zeros there in its queries and reads the row's last pair. No load is
// conditional, so that all loads of the rows are in flight together. One reduction by halving adds up all rows and
// queries across the warp.
#pragma once

#include "partials.h"
#include "rows.h"

// Rows that a warp processes at a time.
constexpr int ROWS = 4;

// The number of the j-th pair that a thread reads of a row.
__device__ __forceinline__ int pair_of(int j, int head_dim) {
    return min(static_cast<int>(threadIdx.x % 32) + 32 * j, head_dim / 2 - 1);
}

// Loads a query of `head_dim` elements, times `factor`; zeros where `from` is null.
template <int J>
__device__ __forceinline__ void load_query(float2 (&to)[J], const float* from, int head_dim, float factor) {
#pragma unroll
    for (int j = 0; j < J; j++) {
        int p = threadIdx.x % 32 + 32 * j;
        bool valid = from != nullptr && 2 * p < head_dim;
        to[j] = valid ? load<float2>(from + 2 * p) : make_float2(0.0f, 0.0f);
        to[j].x *= factor;
        to[j].y *= factor;
    }
}

// Adds up v[i] across the warp. Thread t gets sum number t / (32 / N). Each step halves the number of sums of a thread.
template <int N, int LEFT = N / 2, int OFFSET = 16>
__device__ __forceinline__ float add_across(float (&v)[N]) {
    if constexpr (LEFT > 0) {
        bool upper = threadIdx.x & OFFSET;
#pragma unroll
        for (int i = 0; i < LEFT; i++) {
            float keep = upper ? v[i + LEFT] : v[i];
            float send = upper ? v[i] : v[i + LEFT];
            v[i] = keep + __shfl_xor_sync(ALL_LANES, send, OFFSET);
        }
        return add_across<N, LEFT / 2, OFFSET / 2>(v);
    } else {
#pragma unroll
        for (int offset = OFFSET; offset > 0; offset /= 2) v[0] += __shfl_xor_sync(ALL_LANES, v[0], offset);
        return v[0];
    }
}

// q·k of ROWS rows of `bytes` bytes with QT queries. Thread t gets row t / 8 and query t % 8 / (8 / QT). Only the first
// `n` rows exist (n > 0); the results of the others are meaningless.
template <int QT, int J>
__device__ __forceinline__ float dot_rows(
    int type, const unsigned char* rows, int bytes, int n, int head_dim, const float2 (&q)[QT][J]) {
    float dots[ROWS * QT];
#pragma unroll
    for (int i = 0; i < ROWS * QT; i++) dots[i] = 0.0f;
    with_type(type, [&](auto t) {
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const unsigned char* row = rows + min(i, n - 1) * bytes;
#pragma unroll
            for (int j = 0; j < J; j++) {
                float2 x = read_pair<decltype(t)::value>(row, pair_of(j, head_dim));
#pragma unroll
                for (int o = 0; o < QT; o++) {
                    dots[i * QT + o] += x.x * q[o][j].x;
                    dots[i * QT + o] += x.y * q[o][j].y;
                }
            }
        }
    });
    return add_across(dots);
}
