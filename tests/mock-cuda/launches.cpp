// Replaces the functions that launch work on a GPU (`--wrap` of the linker): each launches the work on the mock,
// whose kernels compute nothing, and behind it puts work that computes the same on the host: ggml's CPU backend for
// ggml's nodes, the emulator for our kernels. The device's memory is the host's, and ggml lays out tensors the same
// there.

#include "machine.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
#include "ggml-impl.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <unordered_map>
#include <vector>

extern "C" void* longhand_cuda_stream(ggml_backend_t backend);
extern "C" int __real_longhand_compute_segment(ggml_backend_t backend, ggml_cgraph* graph, int first, int end, uint64_t uid);

namespace {

// Work on `stream` launched while this exists is emulated.
struct Emulated {
    explicit Emulated(void* stream) { mock::emulated = mock::stream_of(stream); }
    ~Emulated() { mock::emulated = nullptr; }
};

// Enqueues work that may access the device's memory.
void enqueue(void* stream, std::function<void()> work) {
    if (!mock::idle()) {
        mock::enqueue(mock::stream_of(stream), [work = std::move(work)] {
            mock::open();
            work();
        });
    }
}

// A node's result and operands must lie in the device's memory.
void check(const ggml_tensor* node) {
    const auto check = [node](const ggml_tensor* tensor) {
        if (tensor == nullptr || tensor->data == nullptr || ggml_nbytes(tensor) == 0) {
            return;
        }
        if (!mock::is(mock::Kind::Device, tensor->data, ggml_nbytes(tensor), node->name)) {
            mock::fail("%s (%s) uses %s, which is not in the GPU's memory", node->name, ggml_op_name(node->op), tensor->name);
        }
    };
    check(node);
    for (const ggml_tensor* source : node->src) {
        check(source);
    }
}

// No part of a kernel's parameters may be an address of the host: a number that is mapped memory, and not the device's.
void check_parameters(const void* call, size_t bytes) {
    for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
        uintptr_t number;
        std::memcpy(&number, static_cast<const char*>(call) + at, sizeof number);
        void* const   page = reinterpret_cast<void*>(number & ~uintptr_t{ 4095 });
        unsigned char present;
        if (number >= 4096 && mincore(page, 1, &present) == 0 &&
            !mock::is(mock::Kind::Device, reinterpret_cast<void*>(number), 1, "a kernel")) {
            mock::fail("a kernel is given the host's address %p (byte %zu of its parameters)",
                       reinterpret_cast<void*>(number), at);
        }
    }
}

// A copy of a graph's nodes with the descriptors of their operands, as a kernel has its parameters: the graph itself may be
// gone when they are computed.
class Nodes {
  public:
    explicit Nodes(const ggml_cgraph& graph) {
        std::vector<const ggml_tensor*> found;
        for (int i = 0; i < graph.n_nodes; i++) {
            found.push_back(graph.nodes[i]);
            for (const ggml_tensor* source : graph.nodes[i]->src) {
                found.push_back(source);
            }
        }
        for (size_t i = 0; i < found.size(); i++) {
            if (found[i] != nullptr && found[i]->view_src != nullptr) {
                found.push_back(found[i]->view_src);
            }
        }
        const ggml_init_params params = { found.size() * ggml_tensor_overhead() + ggml_graph_overhead_custom(graph.n_nodes, false),
                                          nullptr, true };
        context                       = ggml_init(params);
        std::unordered_map<const ggml_tensor*, ggml_tensor*> copies = { { nullptr, nullptr } };
        for (const ggml_tensor* tensor : found) {
            if (copies.count(tensor) == 0) {
                copies[tensor]  = ggml_new_tensor_1d(context, GGML_TYPE_F32, 1);
                *copies[tensor] = *tensor;
                std::fill(std::begin(copies[tensor]->src), std::end(copies[tensor]->src), nullptr);
            }
        }
        for (const auto& [tensor, copy] : copies) {
            if (copy != nullptr) {
                copy->view_src = copies.at(tensor->view_src);
            }
        }
        nodes          = ggml_new_graph_custom(context, graph.n_nodes, false);
        nodes->n_nodes = graph.n_nodes;
        for (int i = 0; i < graph.n_nodes; i++) {
            nodes->nodes[i] = copies.at(graph.nodes[i]);
            for (int source = 0; source < GGML_MAX_SRC; source++) {
                nodes->nodes[i]->src[source] = copies.at(graph.nodes[i]->src[source]);
            }
        }
    }
    ~Nodes() { ggml_free(context); }
    Nodes(const Nodes&) = delete;

    ggml_cgraph* nodes;

  private:
    ggml_context* context;
};

void compute_on_cpu(ggml_cgraph* graph) {
    static const ggml_backend_t cpu = [] {
        const ggml_backend_t made = ggml_backend_cpu_init();
        ggml_backend_cpu_set_n_threads(made, 1);
        return made;
    }();
    const ggml_status status = ggml_backend_graph_compute(cpu, graph);
    if (status != GGML_STATUS_SUCCESS) {
        mock::fail("the CPU cannot compute what was launched (status %d)", status);
    }
}

}  // namespace

extern "C" int __wrap_longhand_compute_segment(ggml_backend_t backend, ggml_cgraph* graph, int first, int end, uint64_t uid) {
    if (!ggml_backend_is_cuda(backend)) {
        return __real_longhand_compute_segment(backend, graph, first, end, uid);
    }
    for (int i = first; i < end; i++) {
        check(graph->nodes[i]);
    }
    const auto segment = std::make_shared<Nodes>(ggml_graph_view(graph, first, end));
    void* const stream = longhand_cuda_stream(backend);
    int         status;
    {
        const Emulated emulated(stream);
        status = __real_longhand_compute_segment(backend, graph, first, end, uid);
    }
    if (status == GGML_STATUS_SUCCESS) {
        enqueue(stream, [segment] { compute_on_cpu(segment->nodes); });
    }
    return status;
}

// Called by the emulator (kernels/emulator/emulator.h) where a launch has a stream.
extern "C" int longhand_emulator_enqueue(void* stream, int (*run)(const void*), const void* launch, size_t bytes, const void* call,
                                         size_t call_bytes) {
    check_parameters(call, call_bytes);
    const std::shared_ptr<void> copy(::operator new(bytes), [](void* at) { ::operator delete(at); });
    std::memcpy(copy.get(), launch, bytes);
    enqueue(stream, [run, copy] {
        if (run(copy.get()) != 0) {
            mock::fail("the emulator refuses a kernel that was launched");
        }
    });
    return 0;
}

// Launches on the mock, then on the emulator.
using Launcher = int(const void* call, void* stream);

static int launch(Launcher* cuda, Launcher* emulator, const void* call, void* stream) {
    int error;
    {
        const Emulated emulated(stream);
        error = cuda(call, stream);
    }
    return error != 0 ? error : emulator(call, stream);
}

#define LAUNCHER(name)                                                                          \
    extern "C" Launcher __real_longhand_cuda_##name, longhand_emulated_##name;                  \
    extern "C" int      __wrap_longhand_cuda_##name(const void* call, void* stream) {           \
        return launch(__real_longhand_cuda_##name, longhand_emulated_##name, call, stream);     \
    }
#include "launchers.h"
