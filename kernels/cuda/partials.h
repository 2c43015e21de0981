// Partial results of attention and how they are merged. Where the rows of a head are divided among blocks (splits.h),
// each block writes d + 2 floats per query: the weighted sum of values, the base and the denominator. The base is the
// largest logit that the block saw, in units of log 2; weights are relative to it. Sums and denominators may have a
// common factor, the same in all blocks.
#pragma once

#include "device.h"

// The base before any logit was seen. It is finite, so that infinity is never subtracted from itself.
constexpr float EMPTY_BASE = -3.402823466e38f;

// The maximum weight of a row in attend_prefill is 2^WEIGHT_SCALE. Its sums and denominators have this common factor.
constexpr float WEIGHT_SCALE = 12.0f;

// A logit without a row, in units of log 2, and the common factor of the sums and denominators.
struct Sink {
    float logit = -INFINITY;
    float factor = 1.0f;

    // What it adds to a denominator relative to `base`.
    __device__ float weight(float base) const { return factor * exp2f(logit - base); }
};

// Bytes of shared memory for merging `n` partials. One float more than they take: nvcc's code reads two factors at a time,
// also where `n` is odd.
__host__ __device__ inline size_t merge_bytes(int n) { return sizeof(float) * (3 * static_cast<size_t>(n) + 1); }

// Merges the `n` partials of one query, `stride` floats apart, into its output [d]. Called by a whole block. All
// threads load the bases into shared memory and each factor is computed once, so that the loads of the sums are in
// flight together.
__device__ inline void merge_partials(float* shared, const float* from, size_t stride, int n, int d, Sink sink, float* out) {
    float *bases = shared, *totals = shared + n, *factors = shared + 2 * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        bases[i] = from[i * stride + d];
        totals[i] = from[i * stride + d + 1];
    }
    __syncthreads();
    float base = fmaxf(EMPTY_BASE, sink.logit);
    for (int i = threadIdx.x % 32; i < n; i += 32) base = fmaxf(base, bases[i]);
    for (int offset = 16; offset > 0; offset /= 2) base = fmaxf(base, __shfl_xor_sync(ALL_LANES, base, offset));
    for (int i = threadIdx.x; i < n; i += blockDim.x) factors[i] = exp2f(bases[i] - base);
    __syncthreads();
    for (int element = threadIdx.x; element < d; element += blockDim.x) {
        float sum = 0.0f, denominator = sink.weight(base);
#pragma unroll 8
        for (int i = 0; i < n; i++) {
            sum += from[i * stride + element] * factors[i];
            denominator += totals[i] * factors[i];
        }
        // The denominator is 0 where no row was seen and there is no sink, otherwise at least the common factor or NaN.
        out[element] = denominator == 0.0f ? 0.0f : sum / denominator;
    }
}
