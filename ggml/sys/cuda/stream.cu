// The stream of a ggml CUDA backend, and launches recorded on it as CUDA graphs. A backend's context is private to
// ggml-cuda and CUDA's handles are C types, so this cannot be written in Rust.
//
// Every function that can fail returns cudaError_t as int. No error is left pending: ggml would take it for its own.

#include "ggml-cuda/common.cuh"

#include "ggml-backend-impl.h"

static int settle(cudaError_t error) {
    if (error != cudaSuccess) {
        (void) cudaGetLastError();
    }
    return error;
}

// The stream of `backend`, a CUDA backend. It lives as long as the backend.
extern "C" void * longhand_cuda_stream(ggml_backend_t backend) {
    return static_cast<ggml_backend_cuda_context *>(backend->context)->stream();
}

// Makes the GPU of `backend` the current one of the calling thread, for launches on its stream.
extern "C" int longhand_cuda_use(ggml_backend_t backend) {
    ggml_cuda_set_device(static_cast<ggml_backend_cuda_context *>(backend->context)->device);
    return cudaSuccess;
}

// Multiprocessors of the GPU of `backend`.
extern "C" int longhand_cuda_multiprocessors(ggml_backend_t backend) {
    const int device = static_cast<ggml_backend_cuda_context *>(backend->context)->device;
    return ggml_cuda_info().devices[device].nsm;
}

// Begins to record the work on `stream` instead of running it. Relaxed mode: ggml may allocate memory meanwhile.
extern "C" int longhand_cuda_capture_begin(void * stream) {
    return settle(cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeRelaxed));
}

// Ends the recording and instantiates it as `*executable`, to be freed by longhand_cuda_capture_free; null on an
// error. If `executable` is null, the recording is discarded.
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

// Starts a recording.
extern "C" int longhand_cuda_capture_launch(void * executable, void * stream) {
    return settle(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), static_cast<cudaStream_t>(stream)));
}

// Frees a recording. CUDA keeps one that still runs until it has ended.
extern "C" int longhand_cuda_capture_free(void * executable) {
    return settle(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable)));
}

// Waits for all work on `stream` and returns its first error.
extern "C" int longhand_cuda_wait(void * stream) {
    return settle(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

// Copies bytes of the host to the GPU at `to`, behind the work on `stream`. They must stay until that is done.
extern "C" int longhand_cuda_write(void * stream, void * to, const void * from, size_t bytes) {
    return settle(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream)));
}

// Makes an event of the current GPU, to be freed by longhand_cuda_event_free; null on an error.
extern "C" int longhand_cuda_event_create(void ** event) {
    cudaEvent_t       made  = nullptr;
    const cudaError_t error = cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    *event                  = error == cudaSuccess ? made : nullptr;
    return settle(error);
}

// Puts the event behind the work that is on `stream` now.
extern "C" int longhand_cuda_event_record(void * event, void * stream) {
    return settle(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)));
}

// Waits for the work before the event.
extern "C" int longhand_cuda_event_wait(void * event) {
    return settle(cudaEventSynchronize(static_cast<cudaEvent_t>(event)));
}

extern "C" int longhand_cuda_event_free(void * event) {
    return settle(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
}

// CUDA's text for an error.
extern "C" const char * longhand_cuda_error_text(int error) {
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}
