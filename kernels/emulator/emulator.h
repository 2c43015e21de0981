// CUDA for a host compiler, for tests without a GPU. Kernels run block by block. Each thread of a block is a fiber that
// runs until it waits for other threads.
//
// What the emulator proves: the index arithmetic, the data flow and the results of the kernels are right, for all types
// and shapes that the tests run. These mistakes end the process with a message:
// - Threads of a warp wait in different collectives, or for a thread that has left the kernel (a GPU would hang).
// - A write behind the end of shared memory, a misaligned load or store, a grid or block size that CUDA does not allow.
// - Two unfinished asynchronous copies of a thread have the same destination.
//
// Reads of uninitialised shared memory, and of copies that were not waited for, give NaN: shared memory is filled with
// ones before each block, and copies are executed when they are waited for. A missing barrier changes results: a warp
// runs as far as it can before the next one, and every other launch of a kernel runs threads, warps and blocks in
// reverse order, so that one of two launches reads data too early or too late. Tests launch each kernel twice and
// compare the bits.
//
// What it cannot prove: speed, occupancy, limits of registers and shared memory; the GPU's memory model and races
// between blocks, which run one after the other here; accesses outside global memory that hit other memory of the host;
// the rounding of hardware instructions (exp2f, sums of tensor cores, fused multiply-adds that nvcc makes); the inline
// PTX of device.h; streams and CUDA graphs, which the mock of CUDA's runtime library checks (tests/mock-cuda).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }

inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

// The bytes that a thread passes to the others of its warp.
constexpr int SLOT_BYTES = 48;
struct alignas(16) Slot {
    unsigned char bytes[SLOT_BYTES];
};

// Passes `bytes` of each thread of the warp to all of them, in the collective `name`. Returns their 32 slots, which
// stay valid until the collective after the next.
const Slot* exchange(const char* name, const void* data, size_t bytes);
void barrier(const char* name);
unsigned char* shared_memory();
void queue_copy(void* to, const void* from, int bytes);
void commit_copies();
void finish_copies(int groups);
[[noreturn]] void fail(const char* what, const char* where);

// Runs `thread(argument)` as every thread of the grid. Launches are counted per `kernel`.
int run(const void* kernel, dim3 grid, unsigned threads, size_t shared, void (*thread)(const void*), const void* argument);

inline int lane_id() { return threadIdx.x % 32; }

inline void check_aligned(const void* at, size_t bytes, const char* what) {
    if (reinterpret_cast<uintptr_t>(at) % bytes != 0) fail("is not aligned", what);
}

template <typename T>
T from_lane(const char* name, T value, int lane) {
    static_assert(sizeof(T) <= SLOT_BYTES);
    T out;
    std::memcpy(&out, exchange(name, &value, sizeof(T))[lane & 31].bytes, sizeof(T));
    return out;
}

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);

}  // namespace emulator

#define SHARED(Type, name) Type& name = *reinterpret_cast<Type*>(emulator::shared_memory())

// Runs `run(launch)` later, when `stream` comes to it; `launch` is copied. `call` is the part of it that the kernel is given. Only the
// mock of CUDA's runtime library (tests/mock-cuda) has streams and defines this.
extern "C" __attribute__((weak)) int longhand_emulator_enqueue(
    void* stream, int (*run)(const void*), const void* launch, size_t bytes, const void* call, size_t call_bytes);

// Runs `kernel(call)`: now, or on a stream of the mock.
template <typename Call>
static int launch(void (*kernel)(Call), dim3 grid, unsigned threads, size_t shared, void* stream, const Call& call) {
    struct Launch {
        void (*kernel)(Call);
        dim3 grid;
        unsigned threads;
        size_t shared;
        Call call;
    } launch = {kernel, grid, threads, shared, call};
    int (*run)(const void*) = [](const void* data) {
        const Launch& launch = *static_cast<const Launch*>(data);
        auto thread = [](const void* data) {
            const Launch& launch = *static_cast<const Launch*>(data);
            launch.kernel(launch.call);
        };
        return emulator::run(
            reinterpret_cast<const void*>(launch.kernel), launch.grid, launch.threads, launch.shared, thread, data);
    };
    if (stream == nullptr) return run(&launch);
    return longhand_emulator_enqueue(stream, run, &launch, sizeof launch, &launch.call, sizeof launch.call);
}

// Fewer than the maximum, as on a GPU, so that code that relies on the maximum fails.
template <typename Call>
static int resident_blocks(void (*)(Call), unsigned, size_t, int max_blocks) {
    return max_blocks - max_blocks / 4;
}

inline void __syncthreads() { emulator::barrier("__syncthreads"); }
inline void __syncwarp() { emulator::exchange("__syncwarp", nullptr, 0); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int offset) {
    return emulator::from_lane("__shfl_xor_sync", value, emulator::lane_id() ^ offset);
}
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
    return emulator::from_lane("__shfl_sync", value, lane);
}
inline int __any_sync(unsigned, int predicate) {
    const emulator::Slot* slots = emulator::exchange("__any_sync", &predicate, sizeof predicate);
    int any = 0;
    for (int i = 0; i < 32; i++) {
        int value;
        std::memcpy(&value, slots[i].bytes, sizeof value);
        any |= value != 0;
    }
    return any;
}

struct __half {
    uint16_t bits;
};
struct alignas(4) __half2 {
    __half x, y;
};
inline float __half2float(__half x) { return emulator::half_to_float(x.bits); }
inline __half __float2half_rn(float x) { return {emulator::float_to_half(x)}; }
inline float2 __half22float2(__half2 x) { return {__half2float(x.x), __half2float(x.y)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }

// Sums and products of halves are computed in f32 and then rounded. f32 has more than twice the bits of precision, so
// the first rounding does not change the result.
inline __half2 __hsub2(__half2 a, __half2 b) {
    return __floats2half2_rn(__half2float(a.x) - __half2float(b.x), __half2float(a.y) - __half2float(b.y));
}
inline __half2 __hmul2(__half2 a, __half2 b) {
    return __floats2half2_rn(__half2float(a.x) * __half2float(b.x), __half2float(a.y) * __half2float(b.y));
}
// Byte i of the result is the byte of b:a (eight bytes) whose number is in bits 4 i .. 4 i + 2 of `selector`. Bit 4 i +
// 3 is not used.
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) out |= static_cast<uint32_t>(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return out;
}

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }

template <typename T>
T min(T a, T b) {
    return b < a ? b : a;
}
template <typename T>
T max(T a, T b) {
    return a < b ? b : a;
}

template <typename T>
T load(const void* at) {
    emulator::check_aligned(at, sizeof(T), "load");
    T out;
    std::memcpy(&out, at, sizeof(T));
    return out;
}

template <typename T>
void store(void* at, T value) {
    emulator::check_aligned(at, sizeof(T), "store");
    std::memcpy(at, &value, sizeof(T));
}

template <int BYTES>
void copy_async(void* to, const void* from) {
    emulator::check_aligned(to, BYTES, "copy_async");
    emulator::check_aligned(from, BYTES, "copy_async");
    emulator::queue_copy(to, from, BYTES);
}
inline void copy_async_or_zeros(void* to, const void* from, bool valid) {
    static const uint4 zeros = {};
    copy_async<16>(to, valid ? from : &zeros);
}
inline void copy_commit() { emulator::commit_copies(); }
template <int GROUPS>
void copy_wait() {
    emulator::finish_copies(GROUPS);
}

void load_matrices(uint32_t (&to)[4], const void* row);
void load_matrices_transposed(uint32_t (&to)[4], const void* row);
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
