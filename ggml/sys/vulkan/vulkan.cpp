// ggml's Vulkan backend, behind a guard (../device/guard.h): ggml's functions throw C++ exceptions.
//
// The functions of a device that failed do nothing but free memory. A new backend opens the device once more.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

// ggml needs the headers of these extensions where the compiler of shaders knows them.
#include <vulkan/vulkan_core.h>
#ifndef VK_KHR_cooperative_matrix
#undef GGML_VULKAN_COOPMAT_GLSLC_SUPPORT
#endif
#ifndef VK_NV_cooperative_matrix2
#undef GGML_VULKAN_COOPMAT2_GLSLC_SUPPORT
#endif

// ggml writes what goes wrong to standard error. A library does not: here it goes to ggml's log (class Log).
#define cerr clog
#include "ggml-vulkan/ggml-vulkan-types.h"
#include "old_headers.h"

#include "ggml-vulkan/ggml-vulkan.cpp"
#include "ggml-vulkan/ggml-vulkan-buffers.cpp"
#include "ggml-vulkan/ggml-vulkan-debug.cpp"
#undef cerr

#include "../device/gpu.h"
#include "../device/guard.h"

// Where the SPIR-V modules of ggml-vulkan-shaders.hpp are unpacked to.
extern "C" {
alignas(16) unsigned char longhand_vulkan_shaders[longhand_vulkan_shaders_bytes];

// Their bytes.
size_t longhand_vulkan_shaders_size() {
    return longhand_vulkan_shaders_bytes;
}
}

// Sends whole lines to ggml's log.
class Log : public std::streambuf {
    int overflow(int character) override {
        static thread_local std::string line;
        if (character == '\n') {
            GGML_LOG_WARN("%s\n", line.c_str());
            line.clear();
        } else if (character != EOF) {
            line += char(character);
        }
        return 0;
    }
};

// What has been opened, and what is wrong with it.
struct Opened {
    std::mutex mutex;
    bool       tried = false;
    // Why there is no Vulkan; empty where there is.
    std::string problem;
    // Those that failed. None is ever closed, so that the addresses of all stay theirs.
    std::vector<vk_device> lost;
};

static Opened & opened() {
    static Opened * const everything = new Opened;  // never destroyed: devices outlive all statics
    return *everything;
}

// Frees something, of a device that failed too.
template <typename Call> static void freed(ggml_backend_buffer_type_t type, Call call) noexcept {
    try {
        std::lock_guard<std::recursive_mutex> lock(guard_of(type).mutex);
        call();
    } catch (...) {
    }
}

static ggml_backend_buffer_type_t type_of(ggml_backend_t backend) {
    return &((ggml_backend_vk_context *) backend->context)->device->buffer_type;
}

// Memory

static void guarded_free_buffer(ggml_backend_buffer_t buffer) {
    freed(buffer->buft, [&] { ggml_backend_vk_buffer_free_buffer(buffer); });
}

// Within a device. From one to another, ggml goes through main memory where this is false.
static bool guarded_copy(ggml_backend_buffer_t buffer, const ggml_tensor * from, ggml_tensor * to) {
    if (from->buffer->buft != buffer->buft) {
        return false;
    }
    guarded(buffer->buft, [&] { ggml_backend_vk_buffer_cpy_tensor(buffer, from, to); });
    return true;
}

// Refused memory is no failure of the device.
static ggml_backend_buffer_t guarded_alloc(ggml_backend_buffer_type_t type, size_t size) {
    return guarded(type, ggml_backend_buffer_t(nullptr), [&]() -> ggml_backend_buffer_t {
        try {
            ggml_backend_buffer_t buffer = ggml_backend_vk_buffer_type_alloc_buffer(type, size);
            if (buffer != nullptr) {
                GuardedBuffer<ggml_backend_vk_buffer_interface>::guard(buffer);
                buffer->iface.free_buffer = guarded_free_buffer;
                buffer->iface.cpy_tensor  = guarded_copy;
            }
            return buffer;
        } catch (const vk::OutOfDeviceMemoryError &) {
            return nullptr;
        } catch (const vk::OutOfHostMemoryError &) {
            return nullptr;
        }
    });
}

// Computing

static void guarded_free(ggml_backend_t backend) {
    const vk_device device = ((ggml_backend_vk_context *) backend->context)->device;  // lives as long as its guard is held
    freed(&device->buffer_type, [&] { ggml_backend_vk_free(backend); });
}

static void guarded_synchronize(ggml_backend_t backend) {
    guarded(type_of(backend), [&] { ggml_backend_vk_synchronize(backend); });
}

// Returns when all is computed.
static ggml_status guarded_compute(ggml_backend_t backend, ggml_cgraph * graph) {
    return guarded(type_of(backend), GGML_STATUS_FAILED, [&] {
        const ggml_status status = ggml_backend_vk_graph_compute(backend, graph);
        ggml_backend_vk_synchronize(backend);
        return status;
    });
}

// Whether ggml computes an operation rightly where this operand, or the result (-1), begins between two addresses to which a buffer
// can be bound. For others it gives up, or in GGML_OP_ROPE reads the wrong positions.
static bool may_begin_anywhere(ggml_op op, int operand) {
    switch (op) {
        case GGML_OP_CLAMP:
        case GGML_OP_CONT:
        case GGML_OP_DUP:
        case GGML_OP_LOG:
        case GGML_OP_MEAN:
        case GGML_OP_PAD:
        case GGML_OP_REPEAT:
        case GGML_OP_ROPE:
        case GGML_OP_SCALE:
        case GGML_OP_SQR:
        case GGML_OP_SQRT:
        case GGML_OP_SUM_ROWS:
        case GGML_OP_UNARY:
            return operand < 1;
        case GGML_OP_ADD:
        case GGML_OP_CONCAT:
        case GGML_OP_CPY:
        case GGML_OP_DIV:
        case GGML_OP_GET_ROWS:
        case GGML_OP_GLU:
        case GGML_OP_MUL:
        case GGML_OP_RMS_NORM:
        case GGML_OP_SUB:
            return operand < 2;
        case GGML_OP_SET_ROWS:  // the last one is where the rows are written to
            return operand < 3;
        case GGML_OP_NONE:
        case GGML_OP_PERMUTE:
        case GGML_OP_RESHAPE:
        case GGML_OP_TRANSPOSE:
        case GGML_OP_VIEW:
            return true;
        default:
            return false;
    }
}

// Whether a tensor has memory, and begins between two addresses to which a buffer can be bound.
static bool begins_between(const ggml_tensor * tensor, size_t alignment) {
    return tensor->buffer != nullptr && ggml_backend_buffer_is_vk(tensor->buffer) &&
           (vk_tensor_offset(tensor) + tensor->view_offs) % alignment != 0;
}

static bool guarded_supports_op(ggml_backend_dev_t device, const ggml_tensor * node) {
    try {
        const size_t index     = ((ggml_backend_vk_device_context *) device->context)->device;
        const size_t alignment = ggml_vk_get_device(index)->properties.limits.minStorageBufferOffsetAlignment;
        for (int operand = -1; operand < GGML_MAX_SRC; operand++) {
            const ggml_tensor * tensor = operand < 0 ? node : node->src[operand];
            if (tensor != nullptr && begins_between(tensor, alignment) && !may_begin_anywhere(node->op, operand)) {
                return false;
            }
        }
        return ggml_backend_vk_device_supports_op(device, node);
    } catch (...) {
        return false;
    }
}

extern "C" {

const char * longhand_vulkan_open();

// Starts Vulkan, once, and counts its devices. Returns false, with a reason of at most `size` bytes, where that fails.
bool longhand_vulkan_count(size_t * count, char * why, size_t size) {
    try {
        Opened & all = opened();
        std::lock_guard<std::mutex> lock(all.mutex);
        if (!all.tried) {
            all.tried = true;
            const char * message = longhand_vulkan_open();
            if (message != nullptr) {
                all.problem = message;
            } else {
                static Log log;
                std::clog.rdbuf(&log);
                try {
                    ggml_vk_instance_init();
                } catch (...) {
                    all.problem = exception_text();
                }
            }
        }
        if (!all.problem.empty()) {
            write(why, size, all.problem);
            return false;
        }
        *count = vk_instance.device_indices.size();
        return true;
    } catch (...) {
        write(why, size, "an unknown exception");
        return false;
    }
}

// Describes a device with a number below the count. Returns false, with a reason, where the driver refuses.
bool longhand_vulkan_describe(size_t index, longhand_portable_gpu * device, char * why, size_t size) {
    try {
        Opened & all = opened();
        std::lock_guard<std::mutex> lock(all.mutex);
        size_t free = 0, total = 0;
        ggml_backend_vk_get_device_description(int(index), device->name, sizeof(device->name));
        ggml_backend_vk_get_device_memory(int(index), &free, &total);
        // What is used may be more than the driver's budget; ggml subtracts without a look.
        device->free  = free > total ? 0 : free;
        device->total = total;
        device->is_integrated = ggml_backend_vk_get_device_type(int(index)) == vk::PhysicalDeviceType::eIntegratedGpu;
        return true;
    } catch (...) {
        write(why, size, exception_text());
        return false;
    }
}

// The backend of a device with a number below the count. Null, with a reason, where it cannot be used. longhand_vulkan_shaders
// have been unpacked.
ggml_backend_t longhand_vulkan_backend(size_t index, char * why, size_t size) {
    try {
        Opened & all = opened();
        vk_device & device = vk_instance.devices[index];
        {
            std::lock_guard<std::mutex> lock(all.mutex);
            if (device != nullptr && has_problem(&device->buffer_type, why, size)) {
                all.lost.push_back(device);
                device = nullptr;
            }
            try {
                ggml_vk_get_device(index);
            } catch (...) {
                all.lost.push_back(device);  // ggml keeps a device that it could not open
                device = nullptr;
                throw;
            }
        }
        Guard & guard = guard_of(&device->buffer_type);
        std::lock_guard<std::recursive_mutex> lock(guard.mutex);
        ggml_backend_t backend = ggml_backend_vk_init(index);
        device->buffer_type.iface.alloc_buffer = guarded_alloc;
        backend->device->iface.supports_op     = guarded_supports_op;
        replace_functions(backend, guarded_free, guarded_synchronize, guarded_compute);
        return backend;
    } catch (...) {
        write(why, size, exception_text());
        return nullptr;
    }
}

// Whether memory of this type belongs to a Vulkan device that has failed; then also the device's name in ggml, and why.
bool longhand_vulkan_problem(ggml_backend_buffer_type_t type, char * why, size_t size) {
    return type->iface.get_name == ggml_backend_vk_buffer_type_name && has_problem(type, why, size);
}

// Makes a device fail, for tests.
void longhand_vulkan_lose(ggml_backend_t backend) {
    guarded(type_of(backend), [] { throw vk::DeviceLostError("a test"); });
}

}  // extern "C"
