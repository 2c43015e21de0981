// The language the kernels are written in: CUDA C++ under nvcc, and under the host's own compiler the same words given a meaning by
// emulator.h. What both need beyond CUDA's own vocabulary is here: how a kernel is launched, how its shared memory is laid out, loads
// of a given width, asynchronous copies, and the tensor cores' instructions.
//
// Rules for everything that is compiled both ways: blocks are one-dimensional and whole warps; every collective is called by all 32
// threads of a warp; shared memory is one struct a kernel (SHARED); what is wider than an element goes through load<T>() and store<T>().
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__

#include <cuda_fp16.h>
#include <cuda_runtime.h>

// Names of the two builds differ, so that a program can hold both.
#define LAUNCHER(name) extern "C" int longhand_cuda_##name

// The block's shared memory as a `Type`. Its content is undefined at first.
#define SHARED(Type, name)                                            \
    extern __shared__ __align__(16) unsigned char longhand_shared[]; \
    Type& name = *reinterpret_cast<Type*>(longhand_shared)

// The functions below are of this file alone: the emulator's are others. What fails leaves no pending error, which ggml would take
// for its own.
static cudaError_t settle(cudaError_t error) {
    if (error != cudaSuccess) (void) cudaGetLastError();
    return error;
}

// Lets blocks of `kernel` have `shared` bytes of shared memory.
template <typename Call>
static cudaError_t allow(void (*kernel)(Call), size_t shared) {
    if (shared <= 48 * 1024) return cudaSuccess;
    return settle(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
}

// Runs `kernel(call)` on a grid of blocks with `shared` bytes of shared memory each. Gives CUDA's error.
template <typename Call>
static int launch(void (*kernel)(Call), dim3 grid, unsigned threads, size_t shared, void* stream, const Call& call) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
    if (cudaError_t error = allow(kernel, shared); error != cudaSuccess) return error;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = static_cast<cudaStream_t>(stream);
    return settle(cudaLaunchKernelEx(&config, kernel, call));
}

// How many blocks of `kernel` the GPU holds at once, `most` at most. Legal while a stream is captured.
template <typename Call>
static int blocks_at_once(void (*kernel)(Call), unsigned threads, size_t shared, int most) {
    int device = 0, multiprocessors = 0, of_each = 0;
    cudaError_t error = allow(kernel, shared);
    if (error == cudaSuccess) error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess) error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_each, kernel, threads, shared);
    int blocks = settle(error) == cudaSuccess ? multiprocessors * of_each : 0;
    return blocks > 0 && blocks < most ? blocks : most;  // what fails here fails at the launch, which says so
}

// A `T` at an address that is a multiple of its size.
template <typename T>
__device__ __forceinline__ T load(const void* at) {
    return *static_cast<const T*>(at);
}

template <typename T>
__device__ __forceinline__ void store(void* at, T value) {
    *static_cast<T*>(at) = value;
}

// Copies BYTES (4 or 16) from device to shared memory some time before copy_wait() says so. Both addresses are multiples of BYTES.
template <int BYTES>
__device__ __forceinline__ void copy_async(void* to, const void* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(BYTES) : "memory");
    }
}

// Copies 16 bytes in the same way, or sets them to zero: `from` is not read then.
__device__ __forceinline__ void copy_async_or_zeros(void* to, const void* from, bool there) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0) : "memory");
}

// Ends a group of this thread's copies.
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the latest GROUPS groups of this thread's copies are done.
template <int GROUPS>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

// Four 8 x 8 matrices of halves from shared memory: thread i gives the address of row i % 8 of matrix i / 8 and receives elements
// (i / 4, i % 4 * 2 .. + 2) of each.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const void* row) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

// The same with each matrix transposed.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&to)[4], const void* row) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

// c [16, 8] += a [16, 16] b [16, 8] in f32, from halves. Of thread i, with g = i / 4 and t = i % 4 (PTX ISA, mma.m16n8k16):
//   a: (g, 2t..), (g + 8, 2t..), (g, 2t + 8..), (g + 8, 2t + 8..)   b: (2t.., g), (2t + 8.., g)   c: (g, 2t..), (g + 8, 2t..)
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#else

#include "emulator.h"

#define LAUNCHER(name) extern "C" int longhand_emulated_##name

#endif

constexpr unsigned ALL_LANES = 0xffffffff;

// log2 e: logits are kept in units of log 2.
constexpr float LOG2_E = 1.44269504088896340736f;

__host__ __device__ constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
