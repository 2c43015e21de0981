// CUDA's words for a host compiler: the kernels run block by block, each thread of a block as a fiber that runs until it must wait
// for others. For tests: slow, exact about what threads may rely on, and unforgiving.
//
// - Shared memory is filled with NaN (all bits set) before each block and fenced behind.
// - Threads of a warp that wait in different places, or for one that has left, abort with a message instead of hanging.
// - Asynchronous copies are carried out when they are waited for, not before; two of a thread at once to the same place abort.
// - Loads and stores must be aligned as on the device.
// - A warp goes as far as it can before the next one does, and from each launch of a kernel to the next the order of threads, warps
//   and blocks is reversed: where a barrier is missing, one of two launches reads what is not there yet or not there any more.
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
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
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

// What a thread can put before the others of its warp.
constexpr int SLOT = 32;
struct alignas(16) Slot {
    unsigned char bytes[SLOT];
};

// Shows `bytes` of each thread of the warp to all of them, in the collective called `name`: their 32 slots, which stay readable
// until the collective after the next.
const Slot* share(const char* name, const void* data, size_t bytes);
void barrier(const char* name);
unsigned char* shared_memory();
void queue_copy(void* to, const void* from, int bytes);
void commit_copies();
void finish_copies(int groups);
[[noreturn]] void fail(const char* what, const char* where);

// Runs `thread(argument)` as every thread of the grid; `kernel` is what is counted as launched once more.
int run(const void* kernel, dim3 grid, unsigned threads, size_t shared, void (*thread)(const void*), const void* argument);

inline int lane() { return threadIdx.x % 32; }

inline void check_aligned(const void* at, size_t bytes, const char* what) {
    if (reinterpret_cast<uintptr_t>(at) % bytes != 0) fail("is not aligned", what);
}

template <typename T>
T from_lane(const char* name, T value, int lane) {
    static_assert(sizeof(T) <= SLOT);
    T out;
    std::memcpy(&out, share(name, &value, sizeof(T))[lane & 31].bytes, sizeof(T));
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

// Blocks follow each other. Fewer than there may be, as on a GPU: who relies on `most` is found out.
template <typename Call>
static int blocks_at_once(void (*)(Call), unsigned, size_t, int most) {
    return most - most / 4;
}

inline void __syncthreads() { emulator::barrier("__syncthreads"); }
inline void __syncwarp() { emulator::share("__syncwarp", nullptr, 0); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int offset) {
    return emulator::from_lane("__shfl_xor_sync", value, emulator::lane() ^ offset);
}
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
    return emulator::from_lane("__shfl_sync", value, lane);
}
inline int __any_sync(unsigned, int predicate) {
    const emulator::Slot* slots = emulator::share("__any_sync", &predicate, sizeof predicate);
    int any = 0;
    for (int i = 0; i < 32; i++) {
        int of_lane;
        std::memcpy(&of_lane, slots[i].bytes, sizeof of_lane);
        any |= of_lane != 0;
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

// Sums and products of halves rounded to floats first: those have more than twice the places, so the second rounding is the only one
// that shows.
inline __half2 __hsub2(__half2 a, __half2 b) {
    return __floats2half2_rn(__half2float(a.x) - __half2float(b.x), __half2float(a.y) - __half2float(b.y));
}
inline __half2 __hmul2(__half2 a, __half2 b) {
    return __floats2half2_rn(__half2float(a.x) * __half2float(b.x), __half2float(a.y) * __half2float(b.y));
}
// Byte i of the result is that of the eight bytes of b:a which bits 4 i .. 4 i + 2 of `which` name; bit 4 i + 3 is not used.
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t which) {
    uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) out |= static_cast<uint32_t>(both >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
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
inline void copy_async_or_zeros(void* to, const void* from, bool there) {
    static const uint4 zeros = {};
    copy_async<16>(to, there ? from : &zeros);
}
inline void copy_commit() { emulator::commit_copies(); }
template <int GROUPS>
void copy_wait() {
    emulator::finish_copies(GROUPS);
}

void load_matrices(uint32_t (&to)[4], const void* row);
void load_matrices_transposed(uint32_t (&to)[4], const void* row);
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
