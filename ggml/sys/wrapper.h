// What bindgen reads. Regenerate src/bindings.rs with
//   cargo check -p ggml-sys --features generate-bindings
#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
