// ggml's Vulkan backend, behind a guard. ggml's functions throw C++ exceptions: of memory that the driver refuses, of a device that
// is lost. Neither C nor Rust can pass them on. So each function of a backend and of its memory is called by one of ours here,
// which catches what it throws and remembers it: whoever uses the device then asks longhand_vulkan_problem().
//
// A device that failed is not used again; its functions do nothing but free memory. A new backend opens the device once more.
//
// No function lets a C++ exception out.

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

// What is known of a device.
struct Guard {
    // Held while the device is used.
    std::recursive_mutex mutex;
    // Why it cannot be used any more; empty while it can.
    std::string problem;
};

// What has been opened, and what is wrong with it.
struct Opened {
    std::mutex mutex;
    bool       tried = false;
    // Why there is no Vulkan; empty where there is.
    std::string problem;
    // Of all devices that were ever used. Their addresses stay theirs, because none is ever closed.
    std::map<const vk_device_struct *, Guard> guards;
    std::vector<vk_device>                    lost;
};

static Opened & opened() {
    static Opened * const everything = new Opened;  // never destroyed: devices outlive all statics
    return *everything;
}

static Guard & guard_of(const vk_device & device) {
    Opened & all = opened();
    std::lock_guard<std::mutex> lock(all.mutex);
    return all.guards[device.get()];
}

// The text of the exception that is being handled.
static std::string exception_text() {
    try {
        throw;
    } catch (const std::exception & error) {
        return error.what();
    } catch (...) {
        return "an unknown exception";
    }
}

// Calls a function that uses a device. Where the device failed, now or earlier, the result is `otherwise`.
template <typename Result, typename Call> static Result guarded(const vk_device & device, Result otherwise, Call call) noexcept {
    try {
        Guard & guard = guard_of(device);
        std::lock_guard<std::recursive_mutex> lock(guard.mutex);
        if (!guard.problem.empty()) {
            return otherwise;
        }
        try {
            return call();
        } catch (...) {
            guard.problem = exception_text();
            return otherwise;
        }
    } catch (...) {
        return otherwise;
    }
}

template <typename Call> static void guarded(const vk_device & device, Call call) noexcept {
    guarded(device, false, [&] {
        call();
        return true;
    });
}

// Frees something, of a device that failed too.
template <typename Call> static void freed(const vk_device & device, Call call) noexcept {
    try {
        std::lock_guard<std::recursive_mutex> lock(guard_of(device).mutex);
        call();
    } catch (...) {
    }
}

static vk_device device_of(ggml_backend_buffer_t buffer) {
    return ((ggml_backend_vk_buffer_context *) buffer->context)->dev_buffer->device;
}

static vk_device & device_of(ggml_backend_buffer_type_t type) {
    return ((ggml_backend_vk_buffer_type_context *) type->context)->device;
}

static vk_device & device_of(ggml_backend_t backend) {
    return ((ggml_backend_vk_context *) backend->context)->device;
}

// Memory

static void guarded_free_buffer(ggml_backend_buffer_t buffer) {
    freed(device_of(buffer), [&] { ggml_backend_vk_buffer_free_buffer(buffer); });
}

static void guarded_memset(ggml_backend_buffer_t buffer, ggml_tensor * tensor, uint8_t value, size_t offset, size_t size) {
    guarded(device_of(buffer), [&] { ggml_backend_vk_buffer_memset_tensor(buffer, tensor, value, offset, size); });
}

static void guarded_set(ggml_backend_buffer_t buffer, ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    guarded(device_of(buffer), [&] { ggml_backend_vk_buffer_set_tensor(buffer, tensor, data, offset, size); });
}

static void guarded_get(ggml_backend_buffer_t buffer, const ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    guarded(device_of(buffer), [&] { ggml_backend_vk_buffer_get_tensor(buffer, tensor, data, offset, size); });
}

static void guarded_set_2d(
        ggml_backend_buffer_t buffer, ggml_tensor * tensor, const void * data, size_t offset, size_t size, size_t copies,
        size_t stride_tensor, size_t stride_data) {
    guarded(device_of(buffer), [&] {
        ggml_backend_vk_buffer_set_tensor_2d(buffer, tensor, data, offset, size, copies, stride_tensor, stride_data);
    });
}

static void guarded_get_2d(
        ggml_backend_buffer_t buffer, const ggml_tensor * tensor, void * data, size_t offset, size_t size, size_t copies,
        size_t stride_tensor, size_t stride_data) {
    guarded(device_of(buffer), [&] {
        ggml_backend_vk_buffer_get_tensor_2d(buffer, tensor, data, offset, size, copies, stride_tensor, stride_data);
    });
}

// Within a device. From one to another, ggml goes through main memory where this is false.
static bool guarded_copy(ggml_backend_buffer_t buffer, const ggml_tensor * from, ggml_tensor * to) {
    if (!ggml_backend_buffer_is_vk(from->buffer) || device_of(from->buffer) != device_of(buffer)) {
        return false;
    }
    guarded(device_of(buffer), [&] { ggml_backend_vk_buffer_cpy_tensor(buffer, from, to); });
    return true;
}

static void guarded_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    guarded(device_of(buffer), [&] { ggml_backend_vk_buffer_clear(buffer, value); });
}

// Refused memory is no failure of the device.
static ggml_backend_buffer_t guarded_alloc(ggml_backend_buffer_type_t type, size_t size) {
    return guarded(device_of(type), ggml_backend_buffer_t(nullptr), [&]() -> ggml_backend_buffer_t {
        try {
            ggml_backend_buffer_t buffer = ggml_backend_vk_buffer_type_alloc_buffer(type, size);
            if (buffer == nullptr) {
                return nullptr;
            }
            ggml_backend_buffer_i & functions = buffer->iface;
            functions.free_buffer   = guarded_free_buffer;
            functions.memset_tensor = guarded_memset;
            functions.set_tensor    = guarded_set;
            functions.get_tensor    = guarded_get;
            functions.set_tensor_2d = guarded_set_2d;
            functions.get_tensor_2d = guarded_get_2d;
            functions.cpy_tensor    = guarded_copy;
            functions.clear         = guarded_clear;
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
    const vk_device device = device_of(backend);
    freed(device, [&] { ggml_backend_vk_free(backend); });
}

static void guarded_synchronize(ggml_backend_t backend) {
    guarded(device_of(backend), [&] { ggml_backend_vk_synchronize(backend); });
}

// Returns when all is computed.
static ggml_status guarded_compute(ggml_backend_t backend, ggml_cgraph * graph) {
    return guarded(device_of(backend), GGML_STATUS_FAILED, [&] {
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

static void write(char * text, size_t size, const std::string & message) {
    snprintf(text, size, "%s", message.c_str());
}

// A device. ggml/sys/src/lib.rs has the same struct.
struct longhand_portable_gpu {
    char     name[256];
    // Bytes of its memory, and of those that are free: where the driver does not say, all.
    uint64_t total;
    uint64_t free;
    // Whether it is part of the processor, with whose memory it computes.
    bool     is_integrated;
};

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
            const auto known = all.guards.find(device.get());
            if (device != nullptr && known != all.guards.end() && !known->second.problem.empty()) {
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
        Guard & guard = guard_of(device);
        std::lock_guard<std::recursive_mutex> lock(guard.mutex);
        ggml_backend_t backend = ggml_backend_vk_init(index);
        device->buffer_type.iface.alloc_buffer = guarded_alloc;
        backend->device->iface.supports_op     = guarded_supports_op;
        // Without the asynchronous functions, ggml uses the others.
        ggml_backend_i functions{};
        functions.get_name      = backend->iface.get_name;
        functions.free          = guarded_free;
        functions.synchronize   = guarded_synchronize;
        functions.graph_compute = guarded_compute;
        backend->iface          = functions;
        return backend;
    } catch (...) {
        write(why, size, exception_text());
        return nullptr;
    }
}

// Whether memory of this type belongs to a Vulkan device that has failed; then also the device's name in ggml, and why.
bool longhand_vulkan_problem(ggml_backend_buffer_type_t type, char * why, size_t size) {
    if (type->iface.get_name != ggml_backend_vk_buffer_type_name) {
        return false;
    }
    try {
        Guard & guard = guard_of(device_of(type));
        std::lock_guard<std::recursive_mutex> lock(guard.mutex);
        if (guard.problem.empty()) {
            return false;
        }
        write(why, size, std::string(type->iface.get_name(type)) + ": " + guard.problem);
        return true;
    } catch (...) {
        write(why, size, "an unknown exception");
        return true;
    }
}

// Makes a device fail, for tests.
void longhand_vulkan_lose(ggml_backend_t backend) {
    guarded(device_of(backend), [] { throw vk::DeviceLostError("a test"); });
}

}  // extern "C"
