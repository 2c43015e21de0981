// Computes a segment of a graph: a run of ggml's own nodes between two operations of ours. The type of a graph is
// private to ggml, so this cannot be written in Rust.

#include "ggml-backend.h"
#include "ggml-impl.h"

// Starts the computation of the nodes `first`..`end` (exclusive). Returns ggml's status. A backend may keep the graph of the
// last computation, and compute it again where it has the same `uid`; 0 is no graph that was kept.
extern "C" int longhand_compute_segment(ggml_backend_t backend, ggml_cgraph * graph, int first, int end, uint64_t uid) {
    try {
        ggml_cgraph segment = ggml_graph_view(graph, first, end);
        segment.uid         = uid;
        return ggml_backend_graph_compute_async(backend, &segment);
    } catch (...) {
        return GGML_STATUS_ALLOC_FAILED;
    }
}
