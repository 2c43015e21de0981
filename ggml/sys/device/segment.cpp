// Computes a segment of a graph: a run of ggml's own nodes between two operations of ours. The type of a graph is
// private to ggml, so this cannot be written in Rust.

#include "ggml-backend.h"
#include "ggml-impl.h"

// Starts the computation of the nodes `first`..`end` (exclusive). Returns ggml's status.
extern "C" int longhand_compute_segment(ggml_backend_t backend, ggml_cgraph * graph, int first, int end) {
    ggml_cgraph segment = ggml_graph_view(graph, first, end);
    return ggml_backend_graph_compute_async(backend, &segment);
}
