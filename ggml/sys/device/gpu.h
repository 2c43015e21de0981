// A GPU on which ggml's operations alone are computed, for C, C++ and Objective-C. src/lib.rs has the same struct.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct longhand_portable_gpu {
    char     name[256];
    // Bytes of its memory, and of those that are free: where the driver does not say, all.
    uint64_t total;
    uint64_t free;
    // Whether it is part of the processor, with whose memory it computes.
    bool     is_integrated;
};
