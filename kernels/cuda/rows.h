// Reading and writing rows of keys and values in ggml's byte layouts. Written bytes and read numbers are exactly those
// of src/quant/mod.rs. row_types.h is generated from src/quant/types.rs, which describes the layouts.
#pragma once

#include "device.h"
#include "row_types.h"

// Elements of a block, 1 for types without blocks, and its bytes.
template <int TYPE>
constexpr int BLOCK_ELEMENTS = 0;
template <int TYPE>
constexpr int BLOCK_BYTES = 0;
#define BLOCK(TYPE, ELEMENTS, BYTES)                \
    template <>                                     \
    constexpr int BLOCK_ELEMENTS<TYPE> = ELEMENTS; \
    template <>                                     \
    constexpr int BLOCK_BYTES<TYPE> = BYTES;
ROW_TYPES(BLOCK)
#undef BLOCK

__host__ __device__ inline int row_bytes(int type, int head_dim) {
    switch (type) {
#define CASE(TYPE, ELEMENTS, BYTES) \
    case TYPE: return head_dim / ELEMENTS * BYTES;
        ROW_TYPES(CASE)
#undef CASE
    }
    __builtin_unreachable();
}

// The values, plus 128, of four codes of IQ4_NL: the four lowest nibbles of `codes`.
__device__ __forceinline__ uint32_t iq4_values(uint32_t codes) {
    uint32_t low = __byte_perm(0x3f2d1801, 0x766a5d4f, codes & 0x7777);
    uint32_t high = __byte_perm(0xa6998d81, 0xf1d9c5b5, codes & 0x7777);
    return __byte_perm(low, high, 0x3210 | (codes & 0x8888) >> 1);
}

// Reads elements 2 p and 2 p + 1 of a row.
template <int TYPE>
__device__ __forceinline__ float2 read_pair(const unsigned char* row, int p) {
    if constexpr (TYPE == F32) {
        return load<float2>(row + 8 * p);
    } else if constexpr (TYPE == F16) {
        return __half22float2(load<__half2>(row + 4 * p));
    } else if constexpr (TYPE == Q8_0) {
        const unsigned char* block = row + p / 16 * BLOCK_BYTES<TYPE>;
        float scale = __half2float(load<__half>(block));
        uint32_t two = load<uint16_t>(block + 2 + p % 16 * 2);
        float x = static_cast<float>(static_cast<int8_t>(two & 0xff));
        float y = static_cast<float>(static_cast<int8_t>(two >> 8));
        return make_float2(__fmul_rn(scale, x), __fmul_rn(scale, y));
    } else {
        static_assert(TYPE == Q4_0 || TYPE == Iq4Nl);
        const unsigned char* block = row + p / 16 * BLOCK_BYTES<TYPE>;
        float scale = __half2float(load<__half>(block));
        int two = load<uint16_t>(block + 2 + p % 8 * 2) >> (p % 16 < 8 ? 0 : 4);
        int x = (two & 15) - 8;
        int y = (two >> 8 & 15) - 8;
        if constexpr (TYPE == Iq4Nl) {
            uint32_t values = iq4_values((two & 15) | (two >> 4 & 0xf0));
            x = static_cast<int>(values & 0xff) - 128;
            y = static_cast<int>(values >> 8 & 0xff) - 128;
        }
        return make_float2(__fmul_rn(scale, static_cast<float>(x)), __fmul_rn(scale, static_cast<float>(y)));
    }
}

// Two of four unsigned bytes, minus `zero`, as halves. Exact: the bits 0x6400 + byte are the half 1024 + byte.
template <int FIRST = 0, int SECOND = 1>
__device__ __forceinline__ __half2 bytes_to_halves(uint32_t bytes, float zero) {
    uint32_t both = __byte_perm(bytes, 0x64646464, 0x4040 | FIRST | SECOND << 8);
    return __hsub2(load<__half2>(&both), __floats2half2_rn(1024.0f + zero, 1024.0f + zero));
}

// Reads the first elements of a row, or the block at `from`, as halves: the nearest to what read_pair returns, since
// the product with the block's scale is rounded once either way. All loads come before the arithmetic.
template <int TYPE, int PAIRS>
__device__ __forceinline__ void read_halves(__half2 (&to)[PAIRS], const unsigned char* from) {
    if constexpr (TYPE == F32) {
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            float2 x = read_pair<TYPE>(from, i);
            to[i] = __floats2half2_rn(x.x, x.y);
        }
    } else {
        static_assert((TYPE == Q8_0 || TYPE == Q4_0 || TYPE == Iq4Nl) && PAIRS == BLOCK_ELEMENTS<TYPE> / 2);
        constexpr int WORDS = (BLOCK_BYTES<TYPE> - 2) / 2;  // of two bytes, behind the scale
        __half one = load<__half>(from);
        __half2 scale = {one, one};
        uint32_t two[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; i++) two[i] = load<uint16_t>(from + 2 + 2 * i);
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            if constexpr (TYPE == Q8_0) {
                to[i] = __hmul2(bytes_to_halves(two[i] ^ 0x8080, 128.0f), scale);
            } else if constexpr (TYPE == Q4_0) {
                to[i] = __hmul2(bytes_to_halves(two[i] & 0x0f0f, 8.0f), scale);
                to[i + WORDS] = __hmul2(bytes_to_halves(two[i] >> 4 & 0x0f0f, 8.0f), scale);
            } else {
                uint32_t values = iq4_values(two[i]);
                to[i] = __hmul2(bytes_to_halves<0, 2>(values, 128.0f), scale);
                to[i + WORDS] = __hmul2(bytes_to_halves<1, 3>(values, 128.0f), scale);
            }
        }
    }
}

// Calls `work(Type<T>())` with the type as a constant. Where `type` is a constant, no branch remains.
template <int T>
struct Type {
    static constexpr int value = T;
};
template <typename Work>
__device__ __forceinline__ void with_type(int type, Work work) {
    switch (type) {
#define CASE(TYPE, ELEMENTS, BYTES) \
    case TYPE: return work(Type<TYPE>());
        ROW_TYPES(CASE)
#undef CASE
    }
    __builtin_unreachable();
}

#define COUNT(TYPE, ELEMENTS, BYTES) +1
static_assert(ROW_TYPES(COUNT) == 5, "write_block needs a branch for the new type");
#undef COUNT

// The sum of a number of each thread of the warp. The order of the additions is that of src/quant/mod.rs.
template <typename T>
__device__ __forceinline__ T add_warp(T x) {
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
    return x;
}

// The code of IQ4_NL whose value is nearest to `x`. Returns its value too.
__device__ __forceinline__ int nearest_iq4(float x, float& value) {
    constexpr int VALUES[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    int code = 0;
    value = VALUES[0];
#pragma unroll
    for (int i = 0; i + 1 < 16; i++) {
        bool is_above = x > (VALUES[i] + VALUES[i + 1]) / 2.0f;
        code += is_above;
        if (is_above) value = VALUES[i + 1];
    }
    return code;
}

// Writes a block of IQ4_NL. `extreme` is the element with the largest absolute value, `x` that of this thread.
__device__ inline void write_iq4_nl(unsigned char* block, float x, float extreme) {
    int lane_id = threadIdx.x % 32;
    float value;
    int best = nearest_iq4(0.0f, value);
    float best_scale = 0.0f, best_gain = 0.0f;
    for (int i = 0; i < 3; i++) {
        float becomes = i == 0 ? -133.0f : i == 1 ? -121.0f : 113.0f;
        float inverse = extreme == 0.0f ? 0.0f : becomes / extreme;
        int code = nearest_iq4(__fmul_rn(x, inverse), value);
        float products = add_warp(__fmul_rn(value, x));
        float scale = products / add_warp(__fmul_rn(value, value));
        float gain = __fmul_rn(scale, products);
        if (gain > best_gain) {
            best = code;
            best_scale = scale;
            best_gain = gain;
        }
    }
    int high = __shfl_xor_sync(ALL_LANES, best, 16);
    if (lane_id < 16) block[2 + lane_id] = static_cast<unsigned char>(best | high << 4);
    if (lane_id == 0) store(block, __float2half_rn(best_scale));
}

// Writes elements `first .. first + 32` of a row, one per thread of the warp, with the rounding of src/quant/mod.rs.
// `first` is a multiple of 32. Threads with `valid` false have no element; this happens at the end of rows without
// blocks.
__device__ inline void write_block(int type, unsigned char* row, int first, float x, bool valid) {
    int lane_id = threadIdx.x % 32;
    int element = first + lane_id;
    if (type == F32) {
        if (valid) store(row + 4 * element, x);
        return;
    }
    if (type == F16) {
        if (valid) store(row + 2 * element, __float2half_rn(x));
        return;
    }
    // The element with the largest absolute value, with its sign; of equal ones the first. NaN is ignored.
    float extreme = fabsf(x) > 0.0f ? x : 0.0f;
    int at = lane_id;
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
        unsigned char* block = row + first / BLOCK_ELEMENTS<Q8_0> * BLOCK_BYTES<Q8_0>;
        block[2 + lane_id] = static_cast<unsigned char>(static_cast<int8_t>(scaled));
        if (lane_id == 0) store(block, __float2half_rn(scale));
    } else if (type == Iq4Nl) {
        write_iq4_nl(row + first / BLOCK_ELEMENTS<Iq4Nl> * BLOCK_BYTES<Iq4Nl>, x, extreme);
    } else {  // Q4_0
        float scale = extreme / -8.0f;
        float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
        // Not fused: the CPU rounds twice.
        float scaled = __fadd_rn(__fmul_rn(x, inverse), 8.5f);
        int nibble = static_cast<int>(fminf(fmaxf(scaled, 0.0f), 15.0f));
        int high = __shfl_xor_sync(ALL_LANES, nibble, 16);
        unsigned char* block = row + first / BLOCK_ELEMENTS<Q4_0> * BLOCK_BYTES<Q4_0>;
        if (lane_id < 16) block[2 + lane_id] = static_cast<unsigned char>(nibble | high << 4);
        if (lane_id == 0) store(block, __float2half_rn(scale));
    }
}
