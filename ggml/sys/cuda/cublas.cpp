// The cuBLAS functions that ggml-cuda calls. Each forwards to libcublas, which is opened by the first call. So the
// program starts without cuBLAS, and models whose products ggml computes itself never need it. Callers that need it
// call longhand_cublas_open() first: ggml-cuda aborts the process when a call fails.
//
// The prototypes are those of cuBLAS's header, which is included, so that the compiler compares them.

#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <dlfcn.h>

#include <string>

// The loader's message about the first file that was tried.
static std::string open_error;

// libcublas, or null. The first call opens it: that of the CUDA release that this program was built with, or that of
// CUDA 12. A newer one than the program's may need a newer driver.
static void * library() {
    static void * const opened = [] {
        for (int major : { CUDART_VERSION / 1000, 12 }) {
            const std::string name = "libcublas.so." + std::to_string(major);
            if (void * found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
                return found;
            }
            const char * message = dlerror();
            if (open_error.empty()) {
                open_error = message != nullptr ? message : name;
            }
        }
        return static_cast<void *>(nullptr);
    }();
    return opened;
}

// Opens libcublas. Returns null, or the loader's message.
extern "C" const char * longhand_cublas_open() {
    return library() != nullptr ? nullptr : open_error.c_str();
}

template <typename Function> static Function * find(const char * name) {
    void * found = library();
    return found != nullptr ? reinterpret_cast<Function *>(dlsym(found, name)) : nullptr;
}

#define FORWARD(name, parameters, arguments)                                            \
    extern "C" cublasStatus_t CUBLASWINAPI name parameters {                            \
        static const auto function = find<cublasStatus_t parameters>(#name);            \
        return function != nullptr ? function arguments : CUBLAS_STATUS_NOT_INITIALIZED; \
    }

// ggml requests sums of F16 products in f16, which overflow and lose half of the digits. Here they are computed in
// f32, from the same F16 operands to the same F16 result. cuBLAS then expects the factors alpha and beta in f32 too.
struct Precise {
    cublasComputeType_t compute;
    float               alpha_f32 = 1.0f;
    float               beta_f32  = 0.0f;
    const void *        alpha;
    const void *        beta;

    Precise(cublasComputeType_t asked, const void * alpha, const void * beta)
        : compute(asked), alpha(alpha), beta(beta) {
        if (asked == CUBLAS_COMPUTE_16F) {
            compute     = CUBLAS_COMPUTE_32F;
            alpha_f32   = __half2float(*static_cast<const __half *>(alpha));
            beta_f32    = __half2float(*static_cast<const __half *>(beta));
            this->alpha = &alpha_f32;
            this->beta  = &beta_f32;
        }
    }
};

#define FORWARD_PRECISE(name, parameters, arguments)                                    \
    extern "C" cublasStatus_t CUBLASWINAPI name parameters {                            \
        static const auto function = find<cublasStatus_t parameters>(#name);            \
        const Precise     precise(compute, alpha, beta);                                \
        return function != nullptr ? function arguments : CUBLAS_STATUS_NOT_INITIALIZED; \
    }

FORWARD(cublasCreate_v2, (cublasHandle_t * handle), (handle))
FORWARD(cublasDestroy_v2, (cublasHandle_t handle), (handle))
FORWARD(cublasSetMathMode, (cublasHandle_t handle, cublasMath_t mode), (handle, mode))
FORWARD(cublasSetStream_v2, (cublasHandle_t handle, cudaStream_t stream), (handle, stream))
FORWARD(cublasSetWorkspace_v2, (cublasHandle_t handle, void * workspace, size_t bytes), (handle, workspace, bytes))

FORWARD(cublasSgemm_v2,
        (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
         const float * alpha, const float * a, int lda, const float * b, int ldb, const float * beta, float * c,
         int ldc),
        (handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))

FORWARD(cublasSgemmBatched,
        (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
         const float * alpha, const float * const a[], int lda, const float * const b[], int ldb, const float * beta,
         float * const c[], int ldc, int count),
        (handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, count))

FORWARD(cublasSgemmStridedBatched,
        (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
         const float * alpha, const float * a, int lda, long long stride_a, const float * b, int ldb,
         long long stride_b, const float * beta, float * c, int ldc, long long stride_c, int count),
        (handle, transa, transb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, count))

FORWARD_PRECISE(cublasGemmEx,
        (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
         const void * alpha, const void * a, cudaDataType a_type, int lda, const void * b, cudaDataType b_type,
         int ldb, const void * beta, void * c, cudaDataType c_type, int ldc, cublasComputeType_t compute,
         cublasGemmAlgo_t algorithm),
        (handle, transa, transb, m, n, k, precise.alpha, a, a_type, lda, b, b_type, ldb, precise.beta, c, c_type, ldc, precise.compute,
         algorithm))

FORWARD_PRECISE(cublasGemmBatchedEx,
        (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
         const void * alpha, const void * const a[], cudaDataType a_type, int lda, const void * const b[],
         cudaDataType b_type, int ldb, const void * beta, void * const c[], cudaDataType c_type, int ldc, int count,
         cublasComputeType_t compute, cublasGemmAlgo_t algorithm),
        (handle, transa, transb, m, n, k, precise.alpha, a, a_type, lda, b, b_type, ldb, precise.beta, c, c_type, ldc, count, precise.compute,
         algorithm))

FORWARD_PRECISE(cublasGemmStridedBatchedEx,
        (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
         const void * alpha, const void * a, cudaDataType a_type, int lda, long long stride_a, const void * b,
         cudaDataType b_type, int ldb, long long stride_b, const void * beta, void * c, cudaDataType c_type, int ldc,
         long long stride_c, int count, cublasComputeType_t compute, cublasGemmAlgo_t algorithm),
        (handle, transa, transb, m, n, k, precise.alpha, a, a_type, lda, stride_a, b, b_type, ldb, stride_b, precise.beta, c, c_type,
         ldc, stride_c, count, precise.compute, algorithm))

FORWARD(cublasStrsmBatched,
        (cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t transpose,
         cublasDiagType_t diagonal, int m, int n, const float * alpha, const float * const a[], int lda,
         float * const b[], int ldb, int count),
        (handle, side, uplo, transpose, diagonal, m, n, alpha, a, lda, b, ldb, count))

extern "C" const char * CUBLASWINAPI cublasGetStatusString(cublasStatus_t status) {
    static const auto function = find<decltype(cublasGetStatusString)>("cublasGetStatusString");
    return function != nullptr ? function(status) : "libcublas could not be opened";
}
