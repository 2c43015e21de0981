// A guard around ggml backends whose functions throw C++ exceptions: of memory that a driver refuses, of a device that is lost.
// Neither C nor Rust can pass them on. So each function of a backend and of its memory is called by one of ours, which catches what
// it throws and remembers it. Whoever uses the device then asks for its problem. A device that failed is not used again.
//
// A device is known by the type of its memory, whose address stays.
//
// No function lets a C++ exception out.
#pragma once

#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <string>

#include "ggml-backend-impl.h"

// What is known of a device.
struct Guard {
    // Held while the device is used.
    std::recursive_mutex mutex;
    // Why it cannot be used any more; empty while it can.
    std::string problem;
};

static inline Guard & guard_of(ggml_backend_buffer_type_t type) {
    struct Guards {
        std::mutex                                  mutex;
        std::map<ggml_backend_buffer_type_t, Guard> of;
    };
    static Guards * const guards = new Guards;  // never destroyed: devices outlive all statics
    std::lock_guard<std::mutex> lock(guards->mutex);
    return guards->of[type];
}

// The text of the exception that is being handled.
static inline std::string exception_text() {
    try {
        throw;
    } catch (const std::exception & error) {
        return error.what();
    } catch (...) {
        return "an unknown exception";
    }
}

static inline void write(char * text, size_t size, const std::string & message) {
    snprintf(text, size, "%s", message.c_str());
}

// Calls a function that uses a device. Where the device failed, now or earlier, the result is `otherwise`.
template <typename Result, typename Call>
static Result guarded(ggml_backend_buffer_type_t type, Result otherwise, Call call) noexcept {
    try {
        Guard & guard = guard_of(type);
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

template <typename Call> static void guarded(ggml_backend_buffer_type_t type, Call call) noexcept {
    guarded(type, false, [&] {
        call();
        return true;
    });
}

// Whether a device has failed; then also its name in ggml, and why.
static inline bool has_problem(ggml_backend_buffer_type_t type, char * why, size_t size) noexcept {
    try {
        Guard & guard = guard_of(type);
        std::lock_guard<std::recursive_mutex> lock(guard.mutex);
        if (guard.problem.empty()) {
            return false;
        }
        write(why, size, std::string(type->iface.get_name(type)) + ": " + guard.problem);
    } catch (...) {
        snprintf(why, size, "an unknown exception");
    }
    return true;
}

// Replaces the functions of a backend but that for its name. Without the asynchronous functions, ggml uses the others.
static inline void replace_functions(
        ggml_backend_t backend, void (*free)(ggml_backend_t), void (*synchronize)(ggml_backend_t),
        ggml_status (*compute)(ggml_backend_t, ggml_cgraph *)) {
    ggml_backend_i functions{};
    functions.get_name      = backend->iface.get_name;
    functions.free          = free;
    functions.synchronize   = synchronize;
    functions.graph_compute = compute;
    backend->iface          = functions;
}

// The functions of a buffer, of which `ggml` has those of the backend.
template <const ggml_backend_buffer_i & ggml> struct GuardedBuffer {
    // Puts them before those of a buffer. Whoever calls this also replaces the functions that free it and copy to it.
    static void guard(ggml_backend_buffer_t buffer) {
        ggml_backend_buffer_i & functions = buffer->iface;

        functions.memset_tensor = memset;
        functions.set_tensor    = set;
        functions.get_tensor    = get;
        functions.set_tensor_2d = set_2d;
        functions.get_tensor_2d = get_2d;
        functions.clear         = clear;
    }

    // For backends that write when they give a tensor its memory. A device that failed says so when it computes.
    static ggml_status init(ggml_backend_buffer_t buffer, ggml_tensor * tensor) {
        return guarded(buffer->buft, GGML_STATUS_SUCCESS, [&] { return ggml.init_tensor(buffer, tensor); });
    }

  private:
    static void memset(ggml_backend_buffer_t buffer, ggml_tensor * tensor, uint8_t value, size_t offset, size_t size) {
        guarded(buffer->buft, [&] { ggml.memset_tensor(buffer, tensor, value, offset, size); });
    }

    static void set(ggml_backend_buffer_t buffer, ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
        guarded(buffer->buft, [&] { ggml.set_tensor(buffer, tensor, data, offset, size); });
    }

    static void get(ggml_backend_buffer_t buffer, const ggml_tensor * tensor, void * data, size_t offset, size_t size) {
        guarded(buffer->buft, [&] { ggml.get_tensor(buffer, tensor, data, offset, size); });
    }

    static void set_2d(
            ggml_backend_buffer_t buffer, ggml_tensor * tensor, const void * data, size_t offset, size_t size, size_t copies,
            size_t stride_tensor, size_t stride_data) {
        guarded(buffer->buft, [&] {
            ggml.set_tensor_2d(buffer, tensor, data, offset, size, copies, stride_tensor, stride_data);
        });
    }

    static void get_2d(
            ggml_backend_buffer_t buffer, const ggml_tensor * tensor, void * data, size_t offset, size_t size, size_t copies,
            size_t stride_tensor, size_t stride_data) {
        guarded(buffer->buft, [&] {
            ggml.get_tensor_2d(buffer, tensor, data, offset, size, copies, stride_tensor, stride_data);
        });
    }

    static void clear(ggml_backend_buffer_t buffer, uint8_t value) {
        guarded(buffer->buft, [&] { ggml.clear(buffer, value); });
    }
};
