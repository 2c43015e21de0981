// ggml's devices. Where macOS has not compiled a kernel, ggml would end the program; the function of metal.cpp that has the name of the
// renamed one throws instead.

#define ggml_metal_encoder_set_pipeline longhand_metal_set_pipeline
#include "ggml-metal-device.m"
