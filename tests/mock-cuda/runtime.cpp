// CUDA's runtime library as far as ggml-cuda and our own code call it, on the mock of machine.h. The linker reports a
// function that is missing.

#include "machine.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace {

using mock::Kind;

constexpr int MAJOR = LONGHAND_MOCK_ARCHITECTURE / 10;
constexpr int MINOR = LONGHAND_MOCK_ARCHITECTURE % 10;
// The largest opt-in shared memory of a block in bytes. A multiprocessor has one KiB more, and each block takes one
// KiB besides.
constexpr size_t SHARED = MAJOR == 9 || MAJOR == 10 ? 227 * 1024 : MINOR == 0 && MAJOR == 8 ? 163 * 1024 : 99 * 1024;
constexpr int    MULTIPROCESSORS = MAJOR == 9 ? 132 : 128;

thread_local cudaError_t last    = cudaSuccess;
thread_local int         current = 0;

cudaError_t report(cudaError_t error) {
    if (error != cudaSuccess) {
        last = error;
    }
    return error;
}

cudaError_t report(int error) { return report(static_cast<cudaError_t>(error)); }

// Calls that touch the GPU fail once it is known to be lost.
#define UNLESS_LOST                               \
    do {                                          \
        if (mock::lost()) {                       \
            return report(mock::LAUNCH_FAILURE);    \
        }                                         \
    } while (false)

int gpus() { return static_cast<int>(mock::setting("LONGHAND_MOCK_GPUS", 1)); }

int driver() { return static_cast<int>(mock::setting("LONGHAND_MOCK_DRIVER", CUDART_VERSION)); }

mock::Stream* stream(cudaStream_t handle) { return mock::stream_of(handle); }

struct Kernel {
    std::string name;
    size_t      shared = 48 * 1024;  // the largest dynamic shared memory it may be launched with
};

struct Kernels {
    std::mutex                      mutex;
    std::map<const void*, Kernel> known;
};

Kernels& kernels() {
    static Kernels& the = *new Kernels;
    return the;
}

// A registered kernel. If `allow` is not 0, it is the new limit of its shared memory.
Kernel kernel(const void* function, size_t allow = 0) {
    Kernels&                          all = kernels();
    const std::lock_guard<std::mutex> lock(all.mutex);
    auto                              found = all.known.find(function);
    if (found == all.known.end()) {
        mock::fail("%p is not a kernel", function);
    }
    if (allow > 0) {
        found->second.shared = allow;
    }
    return found->second;
}

// Checks a launch. Nothing is computed.
cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t on) {
    UNLESS_LOST;
    const Kernel what = kernel(function);
    const bool   sane = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffff && grid.y <= 65535 &&
                      grid.z <= 65535 && block.x > 0 && block.y > 0 && block.z > 0 && block.z <= 64 &&
                      size_t{block.x} * block.y * block.z <= 1024;
    if (!sane || arguments == nullptr) {
        std::fprintf(stderr, "mock CUDA: %s with grid %u %u %u, block %u %u %u\n", what.name.c_str(), grid.x, grid.y, grid.z,
                     block.x, block.y, block.z);
        return report(cudaErrorInvalidConfiguration);
    }
    if (shared > what.shared) {
        std::fprintf(stderr, "mock CUDA: %s with %zu bytes of shared memory, allowed are %zu\n", what.name.c_str(), shared,
                     what.shared);
        return report(cudaErrorInvalidValue);
    }
    if (mock::emulated == nullptr) {
        mock::fail("%s is launched by a function that the mock does not emulate", what.name.c_str());
    }
    mock::enqueue(stream(on), [] {}, true);
    return cudaSuccess;
}

// Whether a range is the device's memory; otherwise it is the host's.
bool on_device(const void* at, size_t bytes, const char* what) { return mock::is(Kind::Device, at, bytes, what); }

struct Rows {
    size_t bytes, count, to_stride, from_stride;
};

size_t extent(size_t stride, const Rows& rows) { return rows.count == 0 ? 0 : (rows.count - 1) * stride + rows.bytes; }

void move(void* to, const void* from, const Rows& rows) {
    for (size_t i = 0; i < rows.count; i++) {
        std::memmove(static_cast<char*>(to) + i * rows.to_stride, static_cast<const char*>(from) + i * rows.from_stride,
                     rows.bytes);
    }
}

cudaError_t copy(void* to, const void* from, Rows rows, cudaMemcpyKind kind, mock::Stream* on, const char* what) {
    UNLESS_LOST;
    const size_t to_bytes = extent(rows.to_stride, rows), from_bytes = extent(rows.from_stride, rows);
    if (rows.bytes == 0 || rows.count == 0) {
        return cudaSuccess;
    }
    const bool to_device = on_device(to, to_bytes, what), from_device = on_device(from, from_bytes, what);
    if (!to_device && !from_device) {
        mock::fail("%s inside the host", what);
    }
    const bool matches = kind == cudaMemcpyDefault || (kind == cudaMemcpyHostToDevice && to_device && !from_device) ||
                         (kind == cudaMemcpyDeviceToHost && !to_device && from_device) ||
                         (kind == cudaMemcpyDeviceToDevice && to_device && from_device);
    if (!matches) {
        mock::fail("%s of kind %d from %s to %s memory", what, kind, from_device ? "device" : "host",
                   to_device ? "device" : "host");
    }
    if (to_device && from_device) {
        const bool skipped = mock::emulated != nullptr || mock::idle();
        mock::enqueue(on, [=] {
            on_device(to, to_bytes, what);
            on_device(from, from_bytes, what);
            if (!skipped) {
                move(mock::host_alias(to), mock::host_alias(from), rows);
            }
        });
        return cudaSuccess;
    }
    const void* host   = to_device ? from : to;
    const bool  pinned = mock::is(Kind::Pinned, host, to_device ? from_bytes : to_bytes, what);
    if (!pinned && mock::is_recording(on)) {
        mock::fail("%s of memory of the host that is not pinned is recorded", what);
    }
    if (mock::emulated != nullptr) {
        mock::fail("%s between host and device inside an emulated launch", what);
    }
    mock::count_copy(rows.bytes * rows.count, !to_device);
    if (to_device) {
        if (mock::idle()) {
            return cudaSuccess;
        }
        if (pinned) {
            mock::enqueue(on, [=] {
                on_device(to, to_bytes, what);
                move(mock::host_alias(to), from, rows);
            });
        } else {
            // The driver copies it before the call returns.
            auto taken = std::make_shared<std::string>(static_cast<const char*>(from), from_bytes);
            mock::enqueue(on, [=] {
                on_device(to, to_bytes, what);
                move(mock::host_alias(to), taken->data(), rows);
            });
        }
        return cudaSuccess;
    }
    mock::enqueue(on, [=] {
        on_device(from, from_bytes, what);
        if (!mock::idle()) {
            return move(to, mock::host_alias(from), rows);
        }
        for (size_t i = 0; i < rows.count; i++) {
            std::memset(static_cast<char*>(to) + i * rows.to_stride, 0, rows.bytes);
        }
    });
    // The call returns when all of it has arrived.
    return pinned ? cudaSuccess : report(mock::wait(on, what));
}

cudaError_t fill(void* at, int value, size_t bytes, mock::Stream* on) {
    UNLESS_LOST;
    if (!on_device(at, bytes, "cudaMemset")) {
        mock::fail("cudaMemset of memory of the host");
    }
    const bool skipped = mock::emulated != nullptr || mock::idle();
    mock::enqueue(on, [=] {
        on_device(at, bytes, "cudaMemset");
        if (!skipped) {
            std::memset(mock::host_alias(at), value, bytes);
        }
    });
    return cudaSuccess;
}

cudaError_t allocate_memory(Kind kind, void** at, size_t bytes) {
    UNLESS_LOST;
    *at = bytes > 0 ? mock::allocate(kind, bytes) : nullptr;
    return report(bytes > 0 && *at == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t free_memory(Kind kind, void* at) {
    UNLESS_LOST;
    mock::release(kind, at);
    return cudaSuccess;
}

mock::Event* event(cudaEvent_t handle) { return reinterpret_cast<mock::Event*>(handle); }

struct Configuration {
    dim3         grid, block;
    size_t       shared;
    cudaStream_t stream;
};
thread_local Configuration configuration;

}  // namespace

extern "C" {

// ---- The program's own kernels

void** __cudaRegisterFatBinary(void*) {
    static void* handle = nullptr;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
    Kernels&                          all = kernels();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.known[function].name = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st* on) {
    configuration = { grid, block, shared, on };
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* on) {
    *grid                           = configuration.grid;
    *block                          = configuration.block;
    *shared                         = configuration.shared;
    *static_cast<cudaStream_t*>(on) = configuration.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* handle, const void* function) {
    (void) kernel(function);
    *handle = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t on) {
    return launch(function, grid, block, arguments, shared, on);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* function, void** arguments) {
    return launch(function, how->gridDim, how->blockDim, arguments, how->dynamicSmemBytes, how->stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                        cudaStream_t on) {
    return launch(function, grid, block, arguments, shared, on);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
    UNLESS_LOST;
    (void) kernel(function);
    *attributes                    = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs            = 64;
    attributes->binaryVersion      = LONGHAND_MOCK_ARCHITECTURE;
    attributes->ptxVersion         = LONGHAND_MOCK_ARCHITECTURE;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
    UNLESS_LOST;
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || static_cast<size_t>(value) > SHARED) {
            return report(cudaErrorInvalidValue);
        }
        (void) kernel(function, static_cast<size_t>(value));
    }
    return cudaSuccess;
}

// As if registers sufficed for four blocks.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int, size_t shared,
                                                                   unsigned) {
    UNLESS_LOST;
    const size_t room = (SHARED + 1024) / (shared + 1024);
    *blocks           = shared > kernel(function).shared ? 0 : static_cast<int>(room < 4 ? room : 4);
    return cudaSuccess;
}

// ---- Errors

cudaError_t cudaGetLastError() {
    const cudaError_t error = mock::lost() ? static_cast<cudaError_t>(mock::LAUNCH_FAILURE) : last;
    last                    = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError() { return mock::lost() ? static_cast<cudaError_t>(mock::LAUNCH_FAILURE) : last; }

const char* cudaGetErrorString(cudaError_t error) {
    switch (static_cast<int>(error)) {
        case cudaSuccess: return "no error";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInvalidConfiguration: return "invalid configuration argument";
        case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
        case cudaErrorNoDevice: return "no CUDA-capable device is detected";
        case mock::LAUNCH_FAILURE: return "unspecified launch failure";
        default: return "unknown error";
    }
}

// ---- The GPU

cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
    *version = driver();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
    *count = 0;
    if (driver() < CUDART_VERSION / 1000 * 1000) {
        return report(cudaErrorInsufficientDriver);
    }
    *count = gpus();
    return report(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
    UNLESS_LOST;
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    UNLESS_LOST;
    if (device < 0 || device >= gpus()) {
        return report(cudaErrorInvalidDevice);
    }
    current = device;
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    if (device < 0 || device >= gpus()) {
        return report(cudaErrorInvalidDevice);
    }
    *properties = {};
    std::snprintf(properties->name, sizeof(properties->name), "mock of architecture %d.%d", MAJOR, MINOR);
    properties->totalGlobalMem              = mock::total_memory();
    properties->sharedMemPerBlock           = 48 * 1024;
    properties->sharedMemPerBlockOptin      = SHARED;
    properties->sharedMemPerMultiprocessor  = SHARED + 1024;
    properties->regsPerBlock                = 65536;
    properties->regsPerMultiprocessor       = 65536;
    properties->warpSize                    = 32;
    properties->maxThreadsPerBlock          = 1024;
    properties->maxThreadsPerMultiProcessor = MAJOR == 9 ? 2048 : 1536;
    properties->multiProcessorCount         = MULTIPROCESSORS;
    properties->major                       = MAJOR;
    properties->minor                       = MINOR;
    properties->l2CacheSize                 = 72 << 20;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    switch (attribute) {
        case cudaDevAttrCooperativeLaunch: *value = 1; return cudaSuccess;
        case cudaDevAttrMultiProcessorCount: *value = MULTIPROCESSORS; return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(SHARED); return cudaSuccess;
        case cudaDevAttrMaxGridDimX: *value = 0x7fffffff; return cudaSuccess;
        case cudaDevAttrMaxGridDimY:
        case cudaDevAttrMaxGridDimZ: *value = 65535; return cudaSuccess;
        case cudaDevAttrComputeCapabilityMajor: *value = MAJOR; return cudaSuccess;
        case cudaDevAttrComputeCapabilityMinor: *value = MINOR; return cudaSuccess;
        default: mock::fail("attribute %d of a GPU is not supported by the mock", attribute);
    }
}

cudaError_t cudaDeviceGetPCIBusId(char* name, int bytes, int device) {
    std::snprintf(name, bytes, "0000:%02x:00.0", device);
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
    *can = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return report(cudaErrorInvalidDevice); }

cudaError_t cudaDeviceSynchronize() {
    UNLESS_LOST;
    return report(mock::wait_all("cudaDeviceSynchronize"));
}

// ---- Memory

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    UNLESS_LOST;
    *free  = mock::free_memory();
    *total = mock::total_memory();
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** at, size_t bytes) { return allocate_memory(Kind::Device, at, bytes); }
cudaError_t cudaFree(void* at) { return free_memory(Kind::Device, at); }
cudaError_t cudaMallocHost(void** at, size_t bytes) { return allocate_memory(Kind::Pinned, at, bytes); }
cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned) { return allocate_memory(Kind::Pinned, at, bytes); }
cudaError_t cudaFreeHost(void* at) { return free_memory(Kind::Pinned, at); }

cudaError_t cudaMallocManaged(void**, size_t, unsigned) { return report(cudaErrorNotSupported); }
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return report(cudaErrorNotSupported); }
cudaError_t cudaHostUnregister(void*) { return report(cudaErrorNotSupported); }
cudaError_t cudaHostGetDevicePointer(void**, void*, unsigned) { return report(cudaErrorNotSupported); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t on) {
    return copy(to, from, { bytes, 1, bytes, bytes }, kind, stream(on), "cudaMemcpyAsync");
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_stride, const void* from, size_t from_stride, size_t bytes, size_t count,
                              cudaMemcpyKind kind, cudaStream_t on) {
    return copy(to, from, { bytes, count, to_stride, from_stride }, kind, stream(on), "cudaMemcpy2DAsync");
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t on) {
    return copy(to, from, { bytes, 1, bytes, bytes }, cudaMemcpyDeviceToDevice, stream(on), "cudaMemcpyPeerAsync");
}

cudaError_t cudaMemset(void* at, int value, size_t bytes) { return fill(at, value, bytes, stream(nullptr)); }

cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t on) { return fill(at, value, bytes, stream(on)); }

// ---- Streams, events, recordings

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
    UNLESS_LOST;
    *made = reinterpret_cast<cudaStream_t>(mock::make_stream((flags & cudaStreamNonBlocking) == 0));
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t on) {
    UNLESS_LOST;
    mock::end_stream(stream(on));
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t on) {
    UNLESS_LOST;
    return report(mock::wait(stream(on), "cudaStreamSynchronize"));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t on, cudaEvent_t what, unsigned) {
    UNLESS_LOST;
    mock::wait_for_event(stream(on), event(what));
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) {
    UNLESS_LOST;
    *made = reinterpret_cast<cudaEvent_t>(mock::make_event());
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t what) {
    UNLESS_LOST;
    mock::end_event(event(what));
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t what, cudaStream_t on) {
    UNLESS_LOST;
    mock::record(event(what), stream(on));
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t what) {
    UNLESS_LOST;
    return report(mock::wait(event(what), "cudaEventSynchronize"));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t on, cudaStreamCaptureMode mode) {
    UNLESS_LOST;
    if (mode != cudaStreamCaptureModeRelaxed) {
        mock::fail("a recording in which ggml may not allocate");
    }
    mock::begin_recording(stream(on));
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t on, cudaGraph_t* graph) {
    UNLESS_LOST;
    *graph = reinterpret_cast<cudaGraph_t>(new mock::Recording(mock::end_recording(stream(on))));
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
    UNLESS_LOST;
    *made = reinterpret_cast<cudaGraphExec_t>(mock::make_executable(*reinterpret_cast<mock::Recording*>(graph)));
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t on) {
    UNLESS_LOST;
    mock::enqueue(stream(on), *reinterpret_cast<mock::Recording*>(graph));
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    UNLESS_LOST;
    delete reinterpret_cast<mock::Recording*>(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    UNLESS_LOST;
    mock::end_executable(reinterpret_cast<mock::Recording*>(graph));
    return cudaSuccess;
}

}  // extern "C"
