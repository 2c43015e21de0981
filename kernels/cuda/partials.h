// Partial results of attention, and how they are merged. Where the rows of a head are divided among blocks (shares.h), each block
// leaves for each of its queries the sum of the values it saw, weighted relative to the largest logit it saw (its base, in units of
// log 2), then that base and the denominator: d + 2 floats. Sums and denominators may have a factor in common, the same for all blocks.
#pragma once

#include "device.h"

// The base of weights where nothing was seen yet: finite, so that infinity is never subtracted from itself.
constexpr float NOTHING = -3.402823466e38f;

// Bytes of shared memory for merging `n` partials.
__host__ __device__ inline size_t merging_bytes(int n) { return 3 * sizeof(float) * static_cast<size_t>(n); }

// One query's output [d] from its `n` partials, `stride` floats apart, by a whole block. Bases come into shared memory by all threads
// at once and factors are computed once, so that nothing stands between the loads of the sums: they wait for memory together.
__device__ inline void merge_partials(float* shared, const float* from, size_t stride, int n, int d, float* out) {
    float *bases = shared, *totals = shared + n, *factors = shared + 2 * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        bases[i] = from[i * stride + d];
        totals[i] = from[i * stride + d + 1];
    }
    __syncthreads();
    float base = NOTHING;
    for (int i = threadIdx.x % 32; i < n; i += 32) base = fmaxf(base, bases[i]);
    for (int offset = 16; offset > 0; offset /= 2) base = fmaxf(base, __shfl_xor_sync(ALL_LANES, base, offset));
    for (int i = threadIdx.x; i < n; i += blockDim.x) factors[i] = exp2f(bases[i] - base);
    __syncthreads();
    for (int element = threadIdx.x; element < d; element += blockDim.x) {
        float sum = 0.0f, denominator = 0.0f;
#pragma unroll 8
        for (int i = 0; i < n; i++) {
            sum += from[i * stride + element] * factors[i];
            denominator += totals[i] * factors[i];
        }
        // Zero where no row was seen; otherwise at least the common factor, or NaN where something was.
        out[element] = denominator == 0.0f ? 0.0f : sum / denominator;
    }
}
