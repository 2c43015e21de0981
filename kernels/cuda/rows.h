// The four element types a row of keys or values can have, in ggml's byte layout: the same as src/quant.rs, byte for byte when
// written and bit for bit when read.
#pragma once

#include "device.h"

// The numbers that src/device.rs gives the types.
enum RowType : int32_t { F32 = 0, F16 = 1, Q8_0 = 2, Q4_0 = 3 };

// Elements of a block of the quantised types, and its bytes: an f16 scale, then 32 signed bytes or 16 bytes of which byte j holds
// element j (low nibble) and j + 16 (high), each + 8.
constexpr int BLOCK = 32;
constexpr int Q8_0_BYTES = 34;
constexpr int Q4_0_BYTES = 18;

__host__ __device__ inline int row_bytes(int type, int head_dim) {
    switch (type) {
        case F32: return head_dim * 4;
        case F16: return head_dim * 2;
        case Q8_0: return head_dim / BLOCK * Q8_0_BYTES;
        default: return head_dim / BLOCK * Q4_0_BYTES;
    }
}

// Elements 2 p and 2 p + 1 of a row.
template <int TYPE>
__device__ __forceinline__ float2 read_pair(const unsigned char* row, int p) {
    if constexpr (TYPE == F32) {
        return load<float2>(row + 8 * p);
    } else if constexpr (TYPE == F16) {
        return __half22float2(load<__half2>(row + 4 * p));
    } else if constexpr (TYPE == Q8_0) {
        const unsigned char* block = row + p / 16 * Q8_0_BYTES;
        float scale = __half2float(load<__half>(block));
        uint32_t two = load<uint16_t>(block + 2 + p % 16 * 2);
        float x = static_cast<float>(static_cast<int8_t>(two & 0xff));
        float y = static_cast<float>(static_cast<int8_t>(two >> 8));
        return make_float2(scale * x, scale * y);
    } else {
        const unsigned char* block = row + p / 16 * Q4_0_BYTES;
        float scale = __half2float(load<__half>(block));
        int two = load<uint16_t>(block + 2 + p % 8 * 2) >> (p % 16 < 8 ? 0 : 4);
        float x = static_cast<float>((two & 15) - 8);
        float y = static_cast<float>((two >> 8 & 15) - 8);
        return make_float2(scale * x, scale * y);
    }
}

// Two unsigned bytes, less `zero`, as halves. Exact: 0x6400 + byte is the half 1024 + byte.
__device__ __forceinline__ __half2 bytes_to_halves(uint32_t two, float zero) {
    uint32_t both = __byte_perm(two, 0x64646464, 0x4140);
    return __hsub2(load<__half2>(&both), __floats2half2_rn(1024.0f + zero, 1024.0f + zero));
}

// The first elements of a row, or the block of it that `from` begins with, as halves: those nearest to what read_pair gives, since a
// product with the block's scale is rounded once either way. All loads come before what waits for them.
template <int TYPE, int PAIRS>
__device__ __forceinline__ void read_halves(__half2 (&to)[PAIRS], const unsigned char* from) {
    if constexpr (TYPE == F32) {
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            float2 x = read_pair<TYPE>(from, i);
            to[i] = __floats2half2_rn(x.x, x.y);
        }
    } else {
        constexpr int UNITS = TYPE == Q8_0 ? 16 : 8;
        static_assert(PAIRS == BLOCK / 2);
        __half one = load<__half>(from);
        __half2 scale = {one, one};
        uint32_t two[UNITS];
#pragma unroll
        for (int i = 0; i < UNITS; i++) two[i] = load<uint16_t>(from + 2 + 2 * i);
#pragma unroll
        for (int i = 0; i < UNITS; i++) {
            if constexpr (TYPE == Q8_0) {
                to[i] = __hmul2(bytes_to_halves(two[i] ^ 0x8080, 128.0f), scale);
            } else {
                to[i] = __hmul2(bytes_to_halves(two[i] & 0x0f0f, 8.0f), scale);
                to[i + UNITS] = __hmul2(bytes_to_halves(two[i] >> 4 & 0x0f0f, 8.0f), scale);
            }
        }
    }
}

// Runs `work(Type<T>())` with the type as a constant. No branch remains where the type is one already.
template <int T>
struct Type {
    static constexpr int value = T;
};
template <typename Work>
__device__ __forceinline__ void with_type(int type, Work work) {
    switch (type) {
        case F32: work(Type<F32>()); break;
        case F16: work(Type<F16>()); break;
        case Q8_0: work(Type<Q8_0>()); break;
        default: work(Type<Q4_0>()); break;
    }
}

// Writes 32 elements, one a thread of the warp, as elements `first ..` of a row, rounding as src/quant.rs does. `first` is a multiple
// of 32; threads with `valid` false have no element, which rows without blocks may have.
__device__ inline void write_block(int type, unsigned char* row, int first, float x, bool valid) {
    int lane = threadIdx.x % 32;
    int element = first + lane;
    if (type == F32) {
        if (valid) store(row + 4 * element, x);
        return;
    }
    if (type == F16) {
        if (valid) store(row + 2 * element, __float2half_rn(x));
        return;
    }
    // The element of largest size, with its sign; the first of equals. NaN never is.
    float extreme = fabsf(x) > 0.0f ? x : 0.0f;
    int at = lane;
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(ALL_LANES, extreme, offset);
        int other_at = __shfl_xor_sync(ALL_LANES, at, offset);
        bool larger = fabsf(other) > fabsf(extreme) || (fabsf(other) == fabsf(extreme) && other_at < at);
        extreme = larger ? other : extreme;
        at = larger ? other_at : at;
    }
    if (type == Q8_0) {
        float scale = fabsf(extreme) / 127.0f;
        float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
        float scaled = roundf(__fmul_rn(x, inverse));
        scaled = scaled != scaled ? 0.0f : fminf(fmaxf(scaled, -128.0f), 127.0f);
        unsigned char* block = row + first / BLOCK * Q8_0_BYTES;
        block[2 + lane] = static_cast<unsigned char>(static_cast<int8_t>(scaled));
        if (lane == 0) store(block, __float2half_rn(scale));
    } else {
        float scale = extreme / -8.0f;
        float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
        // Not one fused operation: the plain code rounds twice.
        float scaled = __fadd_rn(__fmul_rn(x, inverse), 8.5f);
        int nibble = static_cast<int>(fminf(fmaxf(scaled, 0.0f), 15.0f));
        int high = __shfl_xor_sync(ALL_LANES, nibble, 16);
        unsigned char* block = row + first / BLOCK * Q4_0_BYTES;
        if (lane < 16) block[2 + lane] = static_cast<unsigned char>(nibble | high << 4);
        if (lane == 0) store(block, __float2half_rn(scale));
    }
}
