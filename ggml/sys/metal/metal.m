// What only Objective-C can ask: which GPU there is, and whether what it computed has failed. The second is known to ggml's own
// file alone, which is therefore included.

#include "ggml-metal-context.m"

#include "metal.h"

// Describes the GPU that ggml takes: the system's default. Returns false where there is none. Starts nothing of ggml.
bool longhand_metal_describe(struct longhand_portable_gpu * device) {
    @autoreleasepool {
        id<MTLDevice> gpu = MTLCreateSystemDefaultDevice();
        if (gpu == nil) {
            return false;
        }
        const uint64_t total = [gpu recommendedMaxWorkingSetSize];
        const uint64_t used  = [gpu currentAllocatedSize];
        snprintf(device->name, sizeof(device->name), "%s", [[gpu name] UTF8String]);
        device->total         = total;
        device->free          = total > used ? total - used : 0;
        device->is_integrated = [gpu hasUnifiedMemory];
        [gpu release];
        return true;
    }
}

// Whether a computation of a backend has failed; then also the backend's name, and why. It computes nothing any more.
bool longhand_metal_error(ggml_backend_t backend, char * why, size_t size) {
    const ggml_metal_t context = backend->context;
    if (!context->has_error) {
        return false;
    }
    @autoreleasepool {
        NSString * text = @"its work was not ended";
        for (int i = 0; i <= context->n_cb; i++) {
            NSError * error = [context->cmd_bufs[i].obj error];
            if (error != nil) {
                text = [error localizedDescription];
                break;
            }
        }
        snprintf(why, size, "%s: %s", context->name, [text UTF8String]);
    }
    return true;
}

// Makes a backend fail, for tests.
void longhand_metal_lose(ggml_backend_t backend) {
    const ggml_metal_t context = backend->context;
    context->has_error         = true;
}
