// ggml-cuda compiled as HIP, behind a guard (../device/guard.h). What ggml would end the program for is an error:
// - An error of HIP or hipBLAS is an exception, which stops here. The driver may not compute any more after one. So the GPU is not
//   used again until the program is started again.
// - Attention for which ggml has no kernel, though it says that it can, is refused before.
//
// The functions of ROCm's libraries are those of loader.cpp.

#include "ggml-cuda/common.cuh"

#include <exception>
#include <stdexcept>

// All files of ggml-cuda call ggml_cuda_error(), which is ours. ggml's own, which ends the program, has another name here. So this
// file calls ours by a name of its own.
[[noreturn]] static void call_failed(const char * call, const char * func, const char * file, int line, const char * message) {
    ggml_cuda_error(call, func, file, line, message);
}

#undef CUDA_CHECK_GEN
#define CUDA_CHECK_GEN(call, success, text)                                     \
    do {                                                                        \
        const auto result_ = (call);                                            \
        if (result_ != (success)) {                                             \
            call_failed(#call, __func__, __FILE__, __LINE__, text(result_));    \
        }                                                                       \
    } while (0)

#define ggml_cuda_error longhand_hip_end_program
#include "ggml-cuda/ggml-cuda.cu"
#undef ggml_cuda_error

#include "../device/gpu.h"
#include "../device/guard.h"

// Whether this thread frees something.
static thread_local bool is_freeing = false;

[[noreturn]] void ggml_cuda_error(const char * call, const char * func, const char * file, int line, const char * message) {
    // Destructors cannot throw, those on the way of an exception neither.
    if (is_freeing || std::uncaught_exceptions() > 0) {
        longhand_hip_end_program(call, func, file, line, message);
    }
    throw std::runtime_error(std::string(message) + ", in " + func);
}

static ggml_backend_buffer_type_t type_of(ggml_backend_t backend) {
    return ggml_backend_cuda_buffer_type(((ggml_backend_cuda_context *) backend->context)->device);
}

// Makes the GPU with memory of this type the one of the calling thread.
static void use(ggml_backend_buffer_type_t type) {
    ggml_cuda_set_device(((ggml_backend_cuda_buffer_type_context *) type->context)->device);
}

// Memory

using Buffer = GuardedBuffer<ggml_backend_cuda_buffer_interface>;

// ggml ends the program where something cannot be freed. So a GPU that has failed, or does so now, keeps it.
template <typename Free> static void freed(ggml_backend_buffer_type_t type, Free free) {
    guarded(type, [&] {
        use(type);
        CUDA_CHECK(hipDeviceSynchronize());
        is_freeing = true;
        free();
        is_freeing = false;
    });
}

static void guarded_free_buffer(ggml_backend_buffer_t buffer) {
    freed(buffer->buft, [&] { ggml_backend_cuda_buffer_free_buffer(buffer); });
}

// Within a GPU. From one to another, ggml goes through main memory where this is false.
static bool guarded_copy(ggml_backend_buffer_t buffer, const ggml_tensor * from, ggml_tensor * to) {
    if (from->buffer->buft != buffer->buft) {
        return false;
    }
    guarded(buffer->buft, [&] {
        use(buffer->buft);
        CUDA_CHECK(hipMemcpyAsync(to->data, from->data, ggml_nbytes(from), hipMemcpyDeviceToDevice, hipStreamPerThread));
        CUDA_CHECK(hipStreamSynchronize(hipStreamPerThread));
    });
    return true;
}

// Refused memory is no failure of the GPU.
static ggml_backend_buffer_t guarded_alloc(ggml_backend_buffer_type_t type, size_t size) {
    return guarded(type, ggml_backend_buffer_t(nullptr), [&] {
        ggml_backend_buffer_t buffer = ggml_backend_cuda_buffer_type_alloc_buffer(type, size);
        if (buffer != nullptr) {
            Buffer::guard(buffer);
            buffer->iface.init_tensor = Buffer::init;
            buffer->iface.free_buffer = guarded_free_buffer;
            buffer->iface.cpy_tensor  = guarded_copy;
        }
        return buffer;
    });
}

// Computing

static void guarded_free(ggml_backend_t backend) {
    freed(type_of(backend), [&] { ggml_backend_cuda_free(backend); });
}

static void guarded_synchronize(ggml_backend_t backend) {
    guarded(type_of(backend), [&] { ggml_backend_cuda_synchronize(backend); });
}

// Returns when all is computed.
static ggml_status guarded_compute(ggml_backend_t backend, ggml_cgraph * graph) {
    return guarded(type_of(backend), GGML_STATUS_FAILED, [&] {
        const ggml_status status = ggml_backend_cuda_graph_compute(backend, graph);
        ggml_backend_cuda_synchronize(backend);
        return status;
    });
}

// Whether ggml has a kernel for an attention that it says it can compute. It does not ask for the cap of logits.
static bool has_attention_kernel(const ggml_tensor * node) {
    float softcap = 0.0f;
    memcpy(&softcap, (const float *) node->op_params + 2, sizeof(softcap));
    const int64_t head_dim = node->src[1]->ne[0];
    return softcap == 0.0f || head_dim == 128 || head_dim == 256;
}

static bool guarded_supports_op(ggml_backend_dev_t device, const ggml_tensor * node) {
    try {
        return (node->op != GGML_OP_FLASH_ATTN_EXT || has_attention_kernel(node)) &&
               ggml_backend_cuda_device_supports_op(device, node);
    } catch (...) {
        return false;
    }
}

extern "C" {

// Counts the GPUs that HIP shows. Returns false, with a reason of at most `size` bytes, where that fails.
bool longhand_hip_count(size_t * count, char * why, size_t size) {
    int              found = 0;
    const hipError_t error = hipGetDeviceCount(&found);
    if (error != hipSuccess && error != hipErrorNoDevice) {
        snprintf(why, size, "%s", hipGetErrorString(error));
        return false;
    }
    if (found > GGML_CUDA_MAX_DEVICES) {
        snprintf(why, size, "there are more than %d GPUs; HIP_VISIBLE_DEVICES=0,1 takes two of them", GGML_CUDA_MAX_DEVICES);
        return false;
    }
    *count = found;
    return true;
}

// Describes a GPU with a number below the count, and writes its architecture, such as `gfx90a:sramecc+:xnack-`, in at most
// `arch_size` bytes. Returns false, with a reason, where the driver refuses.
bool longhand_hip_describe(
        size_t index, longhand_portable_gpu * gpu, char * arch, size_t arch_size, char * why, size_t size) {
    hipDeviceProp_t properties;
    size_t          free = 0, total = 0;
    hipError_t      error = hipGetDeviceProperties(&properties, int(index));
    if (error == hipSuccess) {
        error = hipSetDevice(int(index));
    }
    if (error == hipSuccess) {
        error = hipMemGetInfo(&free, &total);
    }
    if (error != hipSuccess) {
        (void) hipGetLastError();
        snprintf(why, size, "GPU %zu: %s", index, hipGetErrorString(error));
        return false;
    }
    snprintf(gpu->name, sizeof(gpu->name), "%s", properties.name);
    snprintf(arch, arch_size, "%s", properties.gcnArchName);
    gpu->total         = total;
    gpu->free          = free;
    gpu->is_integrated = properties.integrated != 0;
    return true;
}

// A new backend of a GPU with a number below the count. Null, with a reason, where it cannot be used.
ggml_backend_t longhand_hip_backend(size_t index, char * why, size_t size) {
    try {
        static std::mutex mutex;
        std::lock_guard<std::mutex> lock(mutex);
        const ggml_backend_buffer_type_t type = ggml_backend_cuda_buffer_type(int(index));
        if (type == nullptr) {
            write(why, size, "ggml does not show it; GGML_CUDA_DEVICES may hide it");
            return nullptr;
        }
        if (has_problem(type, why, size)) {
            return nullptr;
        }
        type->iface.alloc_buffer        = guarded_alloc;
        type->device->iface.supports_op = guarded_supports_op;
        const ggml_backend_t backend    = ggml_backend_cuda_init(int(index));
        if (backend == nullptr) {
            write(why, size, "ggml does not start it");
            return nullptr;
        }
        replace_functions(backend, guarded_free, guarded_synchronize, guarded_compute);
        return backend;
    } catch (...) {
        write(why, size, exception_text());
        return nullptr;
    }
}

// Whether memory of this type belongs to a GPU of HIP that has failed; then also its name in ggml, and why.
bool longhand_hip_problem(ggml_backend_buffer_type_t type, char * why, size_t size) {
    return ggml_backend_buft_is_cuda(type) && has_problem(type, why, size);
}

// Makes a GPU fail, for tests.
void longhand_hip_lose(ggml_backend_t backend) {
    guarded(type_of(backend), [] { throw std::runtime_error("a test"); });
}

}  // extern "C"
