// A libcublas whose products compute nothing, for the mock of a GPU: the CPU computes the nodes instead (launches.cpp).

#define ACCEPT(name) \
    int name(void) { return 0; }

int cublasCreate_v2(void **handle) {
    static char one;
    *handle = &one;
    return 0;
}

ACCEPT(cublasDestroy_v2)
ACCEPT(cublasSetMathMode)
ACCEPT(cublasSetStream_v2)
ACCEPT(cublasSetWorkspace_v2)
ACCEPT(cublasSgemm_v2)
ACCEPT(cublasSgemmBatched)
ACCEPT(cublasSgemmStridedBatched)
ACCEPT(cublasGemmEx)
ACCEPT(cublasGemmBatchedEx)
ACCEPT(cublasGemmStridedBatchedEx)
ACCEPT(cublasStrsmBatched)
