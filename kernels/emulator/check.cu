// Kernels for tests/device_kernels/emulator.rs, which tests the emulator itself. They never run on a GPU.
#include "device.h"

namespace {

struct CheckCall {
    float* out;
    int32_t what;
};

struct Matrices {
    __half a[16][16];
    __half b[16][8];   // rows of the product's inner dimension
    __half bt[8][16];  // the same, transposed
};

// c [16, 8] = a [16, 16] b [16, 8], with b from rows (what 0) or from columns (what 1).
__global__ void product(const CheckCall call) {
    SHARED(Matrices, m);
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) m.a[i / 16][i % 16] = __float2half_rn(static_cast<float>(i * 7 % 31 - 15));
    for (int i = lane; i < 128; i += 32) {
        __half x = __float2half_rn(static_cast<float>(i * 5 % 23 - 11) / 4);
        m.b[i / 8][i % 8] = x;
        m.bt[i % 8][i / 8] = x;
    }
    __syncthreads();
    uint32_t a[4], b[4];
    load_matrices(a, &m.a[lane % 16][lane / 16 * 8]);
    if (call.what == 0) {
        load_matrices_transposed(b, &m.b[lane % 16][0]);
    } else {
        load_matrices(b, &m.bt[lane % 8][lane / 8 % 2 * 8]);
    }
    float c[4] = {};
    multiply_add(c, a, b[0], b[1]);
    for (int i = 0; i < 4; i++) call.out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
}

// Mistakes that must end the process.
__global__ void mistake(const CheckCall call) {
    SHARED(float, first);
    float* shared = &first;
    int lane = threadIdx.x % 32;
    switch (call.what) {
        case 0:  // a thread leaves while others wait for it
            if (lane == 5) return;
            call.out[threadIdx.x] = __shfl_xor_sync(ALL_LANES, 1.0f, 1);
            break;
        case 1:  // half of a warp is in another collective
            call.out[threadIdx.x] = lane < 16 ? __shfl_xor_sync(ALL_LANES, 1.0f, 1) : __shfl_sync(ALL_LANES, 1.0f, 0);
            break;
        case 2:  // a warp misses the block's barrier
            if (threadIdx.x < 32) __syncthreads();
            break;
        case 3:  // a write behind the end of shared memory
            shared[threadIdx.x % 8] = 1.0f;
            break;
        case 5:  // a second copy with the destination of an unfinished one
            copy_async<4>(shared, call.out);
            copy_async<4>(shared, call.out + 1);
            break;
        default:  // a misaligned load
            call.out[threadIdx.x] = load<float2>(call.out + (reinterpret_cast<uintptr_t>(call.out) / 4 + 1) % 2).x;
    }
}

// The destination of a copy before it, after it started and after it was waited for.
__global__ void copy(const CheckCall call) {
    SHARED(float, shared);
    if (threadIdx.x == 0) {
        call.out[1] = shared;
        copy_async<4>(&shared, call.out);
        copy_commit();
        call.out[2] = shared;
        copy_wait<1>();
        call.out[3] = shared;
        copy_wait<0>();
        call.out[4] = shared;
    }
}

}  // namespace

LAUNCHER(check_product)(const CheckCall* call) { return launch(product, dim3(1), 32, sizeof(Matrices), nullptr, *call); }
LAUNCHER(check_mistake)(const CheckCall* call) {
    return launch(mistake, call->what == 6 ? dim3(1, 65536) : dim3(1), 64, 16, nullptr, *call);
}
LAUNCHER(check_copy)(const CheckCall* call) { return launch(copy, dim3(1), 32, 16, nullptr, *call); }
