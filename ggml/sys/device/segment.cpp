// Computes a stretch of a graph's nodes: what lies between two operations of our own. The type of a graph is private to ggml, so
// this cannot be written in Rust.

#include "ggml-backend.h"
#include "ggml-impl.h"

// Starts the computation of the nodes from `first` up to `end`; returns ggml's status.
extern "C" int longhand_compute_segment(ggml_backend_t backend, ggml_cgraph * graph, int first, int end) {
    ggml_cgraph stretch = ggml_graph_view(graph, first, end);
    return ggml_backend_graph_compute_async(backend, &stretch);
}
