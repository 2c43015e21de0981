// As device/stretch.cpp; and on the mock of a GPU, whose kernels compute nothing, the nodes are computed by the CPU when the work on
// the backend's stream comes to them. The device's memory is the host's, and ggml lays out tensors the same there.

#include "machine.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
#include "ggml-impl.h"

extern "C" void * longhand_cuda_stream(ggml_backend_t backend);
extern "C" void   longhand_mock_follow(void * stream, void (*work)(void *), void * data, void (*drop)(void *));

// What a kernel reads and writes must be the device's.
extern "C" void longhand_mock_check(const ggml_tensor * node) {
    const auto check = [node](const ggml_tensor * tensor) {
        if (tensor == nullptr || tensor->data == nullptr || ggml_nbytes(tensor) == 0) {
            return;
        }
        if (!mock::is(mock::Kind::Device, tensor->data, ggml_nbytes(tensor), node->name)) {
            mock::fail("%s (%s) uses %s, which the GPU does not have", node->name, ggml_op_name(node->op), tensor->name);
        }
    };
    check(node);
    for (const ggml_tensor * source : node->src) {
        check(source);
    }
}

static void compute(void * stretch) {
    static const ggml_backend_t cpu = [] {
        const ggml_backend_t made = ggml_backend_cpu_init();
        ggml_backend_cpu_set_n_threads(made, 1);
        return made;
    }();
    const ggml_status status = ggml_backend_graph_compute(cpu, static_cast<ggml_cgraph *>(stretch));
    if (status != GGML_STATUS_SUCCESS) {
        mock::fail("the CPU cannot compute what was launched (status %d)", status);
    }
}

static void drop(void * stretch) {
    delete static_cast<ggml_cgraph *>(stretch);
}

extern "C" int longhand_compute_segment(ggml_backend_t backend, ggml_cgraph * graph, int first, int end) {
    ggml_cgraph stretch = ggml_graph_view(graph, first, end);
    if (!ggml_backend_is_cuda(backend)) {
        return ggml_backend_graph_compute_async(backend, &stretch);
    }
    for (int i = 0; i < stretch.n_nodes; i++) {
        longhand_mock_check(stretch.nodes[i]);
    }
    void * stream  = longhand_cuda_stream(backend);
    mock::followed = mock::stream_of(stream);
    const ggml_status status = ggml_backend_graph_compute_async(backend, &stretch);
    mock::followed = nullptr;
    if (status == GGML_STATUS_SUCCESS) {
        longhand_mock_follow(stream, compute, new ggml_cgraph(stretch), drop);
    }
    return status;
}
