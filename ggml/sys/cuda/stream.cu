// The stream of a ggml CUDA backend, and whole steps captured on it as CUDA graphs. A backend's context is private to
// ggml-cuda and CUDA's handles are C types, so this cannot be written in Rust.
//
// Everything here returns cudaError_t as int; 0 is success. What fails leaves no pending error behind: ggml would take
// it for its own.

#include "ggml-cuda/common.cuh"

#include "ggml-backend-impl.h"

static int settle(cudaError_t error) {
    if (error != cudaSuccess) {
        (void) cudaGetLastError();
    }
    return error;
}

// The stream on which `backend`, a CUDA backend, starts its work. It lives as long as the backend.
extern "C" void * longhand_cuda_stream(ggml_backend_t backend) {
    return static_cast<ggml_backend_cuda_context *>(backend->context)->stream();
}

// Makes the GPU of `backend` the calling thread's, for launches on its stream.
extern "C" int longhand_cuda_use(ggml_backend_t backend) {
    ggml_cuda_set_device(static_cast<ggml_backend_cuda_context *>(backend->context)->device);
    return cudaSuccess;
}

// Multiprocessors of the GPU of `backend`.
extern "C" int longhand_cuda_multiprocessors(ggml_backend_t backend) {
    const int device = static_cast<ggml_backend_cuda_context *>(backend->context)->device;
    return ggml_cuda_info().devices[device].nsm;
}

// From here on work on `stream` is recorded and not done. Relaxed: ggml may allocate memory while it is recorded.
extern "C" int longhand_cuda_capture_begin(void * stream) {
    return settle(cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeRelaxed));
}

// Ends the recording and makes `*executable` of it, to be freed by longhand_cuda_capture_free; null where it fails.
// A recording that is not wanted is dropped by passing a null `executable`.
extern "C" int longhand_cuda_capture_end(void * stream, void ** executable) {
    cudaGraph_t graph = nullptr;
    cudaError_t error = cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph);
    if (executable != nullptr) {
        cudaGraphExec_t made = nullptr;
        if (error == cudaSuccess) {
            error = cudaGraphInstantiate(&made, graph, 0);
        }
        *executable = error == cudaSuccess ? made : nullptr;
    }
    if (graph != nullptr) {
        (void) cudaGraphDestroy(graph);
    }
    return settle(error);
}

// Starts everything that was recorded.
extern "C" int longhand_cuda_capture_launch(void * executable, void * stream) {
    return settle(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), static_cast<cudaStream_t>(stream)));
}

// Frees a recording. If it still runs, CUDA keeps it until it has ended.
extern "C" int longhand_cuda_capture_free(void * executable) {
    return settle(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable)));
}

// Waits for everything on `stream` and returns the first error of what was done on it.
extern "C" int longhand_cuda_wait(void * stream) {
    return settle(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

// What CUDA calls an error, in words.
extern "C" const char * longhand_cuda_error_text(int error) {
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}
