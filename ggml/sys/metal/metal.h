// What metal.cpp and metal.m share with each other and with src/lib.rs. Functions that fail write a NUL-terminated reason of at most
// `size` bytes to `why`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../device/gpu.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

bool           longhand_metal_describe(struct longhand_portable_gpu * device);
ggml_backend_t longhand_metal_backend(char * why, size_t size);
bool           longhand_metal_error(ggml_backend_t backend, char * why, size_t size);
bool           longhand_metal_problem(ggml_backend_t backend, char * why, size_t size);
void           longhand_metal_lose(ggml_backend_t backend);

#ifdef __cplusplus
}
#endif
