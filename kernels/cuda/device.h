// The base of all kernels. nvcc compiles them as CUDA C++; for the host's compiler emulator.h defines the same
// functions. This file adds what both need: launches, shared memory, loads of a given width, asynchronous copies and
// tensor core instructions.
//
// Rules for all kernels: blocks are one-dimensional and consist of whole warps. All 32 threads of a warp call every
// collective. A kernel has one struct of shared memory (SHARED). Accesses wider than an element use load<T>() and
// store<T>().
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__

#include <cuda_fp16.h>
#include <cuda_runtime.h>

// The names of the two builds differ, so that one program can link both.
#define LAUNCHER(name) extern "C" int longhand_cuda_##name

// The block's shared memory as a `Type`. It is not initialised.
#define SHARED(Type, name)                                            \
    extern __shared__ __align__(16) unsigned char longhand_shared[]; \
    Type& name = *reinterpret_cast<Type*>(longhand_shared)

// The emulator has its own versions of the functions below.

// Clears CUDA's pending error, which ggml would otherwise report as its own.
static cudaError_t clear_error(cudaError_t error) {
    if (error != cudaSuccess) (void) cudaGetLastError();
    return error;
}

// Allows blocks of `kernel` to have `shared` bytes of shared memory.
template <typename Call>
static cudaError_t allow(void (*kernel)(Call), size_t shared) {
    if (shared <= 48 * 1024) return cudaSuccess;
    return clear_error(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
}

// Launches `kernel(call)` on a grid of blocks with `shared` bytes of shared memory each. Returns CUDA's error number.
template <typename Call>
static int launch(void (*kernel)(Call), dim3 grid, unsigned threads, size_t shared, void* stream, const Call& call) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
    if (cudaError_t error = allow(kernel, shared); error != cudaSuccess) return error;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = static_cast<cudaStream_t>(stream);
    return clear_error(cudaLaunchKernelEx(&config, kernel, call));
}

// The number of blocks of `kernel` that are resident on the GPU at the same time, at most `max_blocks`. Legal during
// stream capture.
template <typename Call>
static int resident_blocks(void (*kernel)(Call), unsigned threads, size_t shared, int max_blocks) {
    int device = 0, multiprocessors = 0, blocks_each = 0;
    cudaError_t error = allow(kernel, shared);
    if (error == cudaSuccess) error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess) error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, kernel, threads, shared);
    int blocks = clear_error(error) == cudaSuccess ? multiprocessors * blocks_each : 0;
    return blocks > 0 && blocks < max_blocks ? blocks : max_blocks;  // the launch reports the errors
}

// Loads a `T` from an address that is a multiple of its size.
template <typename T>
__device__ __forceinline__ T load(const void* at) {
    return *static_cast<const T*>(at);
}

template <typename T>
__device__ __forceinline__ void store(void* at, T value) {
    *static_cast<T*>(at) = value;
}

// Copies BYTES (4 or 16) asynchronously from global to shared memory; see copy_wait(). Both addresses are multiples of
// BYTES.
template <int BYTES>
__device__ __forceinline__ void copy_async(void* to, const void* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(BYTES) : "memory");
    }
}

// Copies 16 bytes in the same way. Writes zeros and does not read `from` where `valid` is false.
__device__ __forceinline__ void copy_async_or_zeros(void* to, const void* from, bool valid) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

// Ends a group of this thread's copies.
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the latest GROUPS groups of this thread's copies are done.
template <int GROUPS>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

// Loads four 8 x 8 matrices of halves from shared memory. Thread i passes the address of row i % 8 of matrix i / 8 and
// gets elements (i / 4, i % 4 * 2 .. + 2) of each matrix.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const void* row) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

// Loads the same matrices, each transposed.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&to)[4], const void* row) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

// c [16, 8] += a [16, 16] b [16, 8]: halves in, f32 out. Thread i holds, with g = i / 4 and t = i % 4 (PTX ISA,
// mma.m16n8k16):
//   a: (g, 2t..), (g + 8, 2t..), (g, 2t + 8..), (g + 8, 2t + 8..)   b: (2t.., g), (2t + 8.., g)   c: (g, 2t..), (g + 8,
//   2t..)
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

// Logits are in units of log 2: queries are multiplied by log2 e.
constexpr float LOG2_E = 1.44269504088896340736f;

__host__ __device__ constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
