// The list of GPUs. It is read before ggml-cuda is used, which aborts the process when it finds a GPU that it cannot
// use. Every function returns cudaError_t as int and leaves no pending error.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// longhand_gpu in src/lib.rs has the same layout.
struct longhand_gpu {
    char     name[256];
    int32_t  major;
    int32_t  minor;
    uint64_t total; // bytes
};

static int settle(cudaError_t error) {
    if (error != cudaSuccess) {
        (void) cudaGetLastError();
    }
    return error;
}

// CUDA versions as 1000 * major + 10 * minor: of the linked runtime, and the newest that the driver knows (0 without
// a driver).
extern "C" int longhand_cuda_versions(int * runtime, int * driver) {
    const cudaError_t error = cudaRuntimeGetVersion(runtime);
    return settle(error == cudaSuccess ? cudaDriverGetVersion(driver) : error);
}

extern "C" int longhand_cuda_count(int * count) {
    return settle(cudaGetDeviceCount(count));
}

extern "C" int longhand_cuda_gpu(int index, longhand_gpu * gpu) {
    cudaDeviceProp    found;
    const cudaError_t error = cudaGetDeviceProperties(&found, index);
    if (error == cudaSuccess) {
        std::memcpy(gpu->name, found.name, sizeof(gpu->name));
        gpu->name[sizeof(gpu->name) - 1] = '\0';
        gpu->major                       = found.major;
        gpu->minor                       = found.minor;
        gpu->total                       = found.totalGlobalMem;
    }
    return settle(error);
}

// Bytes of its memory that are free. Creates a CUDA context on the GPU, which takes some of them, and leaves this GPU
// selected: to select another one again would create a context there too. Whatever uses a GPU selects it first.
extern "C" int longhand_cuda_free_memory(int index, uint64_t * free) {
    std::size_t unused = 0;
    std::size_t total  = 0;
    cudaError_t error  = cudaSetDevice(index);
    if (error == cudaSuccess) {
        error = cudaMemGetInfo(&unused, &total);
    }
    *free = unused;
    return settle(error);
}
