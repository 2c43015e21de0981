// ggml's Metal backend, behind a guard:
// - A computation that failed on the GPU is an error of that computation. ggml finds out when it waits, and says so at the next.
// - C++ exceptions stop here: of main memory that is short, and of a kernel that macOS did not compile, for which ggml would end the
//   program. Such a computation stays in the queue that all backends share, unfinished. So none computes any more.
// - What ggml would give up for is refused before: a GPU that is not there, attention for which it has no kernel, and memory that
//   the processor does not share, to which it cannot copy from any address.
//
// All is encoded by the thread that computes: no other could pass an exception on. Segments of a graph are too short for a second one.
//
// Operations are not fused. Where ggml fuses some, it has its scheduler keep their operands longer; there is no scheduler here.

#include <cstdio>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "metal.h"

// ggml frees its devices when the program ends, and aborts if some of their memory is in use then, by another thread. So here they
// are never freed.
#define ggml_metal_device_free longhand_metal_keep_device
#include "ggml-metal-device.cpp"
#include "ggml-metal.cpp"
#undef ggml_metal_device_free

extern "C" void longhand_metal_keep_device(ggml_metal_device_t) {}

// Memory. Refused memory is no failure of the GPU.
static ggml_backend_buffer_t guarded_alloc(ggml_backend_buffer_type_t type, size_t size) {
    try {
        return ggml_backend_metal_buffer_type_shared_alloc_buffer(type, size);
    } catch (...) {
        return nullptr;
    }
}

static void write(char * to, size_t size, const char * text) {
    snprintf(to, size, "%s", text);
}

// Why the queue of all backends is not usable any more; empty while it is.
struct Queue {
    std::mutex mutex;
    char       problem[256] = "";

    // Writes the problem, if there is one.
    bool has_problem(char * why, size_t size) {
        std::lock_guard<std::mutex> lock(mutex);
        if (problem[0] != 0) {
            write(why, size, problem);
        }
        return problem[0] != 0;
    }

    void set_problem(const char * text) {
        std::lock_guard<std::mutex> lock(mutex);
        snprintf(problem, sizeof(problem), "MTL0: %s; this lasts until the program is started again", text);
    }
};

static Queue & queue() {
    static Queue * const the_queue = new Queue;  // never destroyed: other threads may compute when the program ends
    return *the_queue;
}

extern "C" {

void longhand_metal_set_pipeline(ggml_metal_encoder_t encoder, ggml_metal_pipeline_with_params pipeline);

void ggml_metal_encoder_set_pipeline(ggml_metal_encoder_t encoder, ggml_metal_pipeline_with_params pipeline) {
    if (pipeline.pipeline == nullptr) {
        throw std::runtime_error("macOS did not compile a kernel");
    }
    longhand_metal_set_pipeline(encoder, pipeline);
}

// Whether a backend computes nothing any more; then also its name, and why.
bool longhand_metal_problem(ggml_backend_t backend, char * why, size_t size) {
    return queue().has_problem(why, size) || longhand_metal_error(backend, why, size);
}

}  // extern "C"

// Returns when all is computed, or has failed.
static ggml_status guarded_compute(ggml_backend_t backend, ggml_cgraph * graph) {
    char why[1];
    if (longhand_metal_problem(backend, why, sizeof(why))) {
        return GGML_STATUS_FAILED;
    }
    try {
        const ggml_status status = ggml_backend_metal_graph_compute(backend, graph);
        ggml_backend_metal_synchronize(backend);
        return longhand_metal_problem(backend, why, sizeof(why)) ? GGML_STATUS_FAILED : status;
    } catch (const std::exception & error) {
        queue().set_problem(error.what());
    } catch (...) {
        queue().set_problem("an unknown exception");
    }
    return GGML_STATUS_FAILED;
}

static void guarded_free(ggml_backend_t backend) {
    try {
        ggml_backend_metal_free(backend);
    } catch (...) {
    }
}

// Whether ggml has a kernel for an attention that it says it can compute. It asks for the sizes of queries alone.
static bool has_attention_kernel(const ggml_tensor * node) {
    const int64_t k = node->src[1]->ne[0];
    const int64_t v = node->src[2]->ne[0];
    const bool has_sizes = (k == v && k != 320 && k != 576) || (k == 96 && v == 64) || (k == 192 && v == 128) ||
                           (k == 320 && v == 256) || (k == 576 && v == 512);
    return has_sizes && node->src[0]->ne[1] < 65536;
}

static bool guarded_supports_op(ggml_backend_dev_t device, const ggml_tensor * node) {
    try {
        return (node->op != GGML_OP_FLASH_ATTN_EXT || has_attention_kernel(node)) &&
               ggml_backend_metal_device_supports_op(device, node);
    } catch (...) {
        return false;
    }
}

// The backend of the GPU; null where it cannot be used. The first call compiles ggml's kernels.
ggml_backend_t longhand_metal_backend(char * why, size_t size) {
    if (queue().has_problem(why, size)) {
        return nullptr;
    }
    try {
        static std::mutex mutex;
        std::lock_guard<std::mutex> lock(mutex);
        const ggml_backend_reg_t reg = ggml_backend_metal_reg();
        if (ggml_backend_reg_dev_count(reg) == 0) {
            write(why, size, "GGML_METAL_DEVICES hides it");
            return nullptr;
        }
        const ggml_backend_dev_t  device = ggml_backend_reg_dev_get(reg, 0);
        const ggml_metal_device_t gpu    = (ggml_metal_device_t) device->context;
        if (ggml_metal_device_get_obj(gpu) == nullptr || ggml_metal_device_get_queue(gpu) == nullptr) {
            write(why, size, "macOS does not open it");
            return nullptr;
        }
        if (ggml_metal_device_get_library(gpu) == nullptr) {
            write(why, size, "macOS does not compile ggml's kernels for it");
            return nullptr;
        }
        if (!ggml_metal_device_get_props(gpu)->use_shared_buffers) {
            write(why, size, "it does not share the processor's memory, or GGML_METAL_SHARED_BUFFERS_DISABLE is set");
            return nullptr;
        }
        ggml_metal_fusion_info_set_enabled(ggml_metal_device_get_fusion_info(gpu), false);
        device->iface.supports_op                               = guarded_supports_op;
        ggml_backend_dev_buffer_type(device)->iface.alloc_buffer = guarded_alloc;
        const ggml_backend_t backend = ggml_backend_metal_init();
        if (backend == nullptr) {
            write(why, size, "ggml does not start it");
            return nullptr;
        }
        ggml_backend_metal_set_n_cb(backend, 0);
        // Without the asynchronous functions, ggml uses the others.
        ggml_backend_i functions{};
        functions.get_name      = backend->iface.get_name;
        functions.free          = guarded_free;
        functions.synchronize   = backend->iface.synchronize;
        functions.graph_compute = guarded_compute;
        backend->iface          = functions;
        return backend;
    } catch (const std::exception & error) {
        write(why, size, error.what());
        return nullptr;
    } catch (...) {
        write(why, size, "an unknown exception");
        return nullptr;
    }
}
