// A libcublas that takes every product and computes none, for the mock of a GPU: there, the CPU computes what was launched.

#define TAKES(name) \
    int name(void) { return 0; }

int cublasCreate_v2(void **handle) {
    static char one;
    *handle = &one;
    return 0;
}

TAKES(cublasDestroy_v2)
TAKES(cublasSetMathMode)
TAKES(cublasSetStream_v2)
TAKES(cublasSetWorkspace_v2)
TAKES(cublasSgemm_v2)
TAKES(cublasSgemmBatched)
TAKES(cublasSgemmStridedBatched)
TAKES(cublasGemmEx)
TAKES(cublasGemmBatchedEx)
TAKES(cublasGemmStridedBatchedEx)
TAKES(cublasStrsmBatched)
