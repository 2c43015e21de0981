// What programs over llama.cpp's library begin and end with. No part of the product.
#pragma once

#include <cstdio>
#include <exception>

#include "llama.h"

// Runs `run` with llama.cpp's backends. Errors, its own and those of llama.cpp, go to stderr. Returns the exit code.
template <typename Run>
int run_program(Run run) {
    try {
        llama_log_set([](ggml_log_level level, const char * text, void *) {
            if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
        }, nullptr);
        ggml_backend_load_all();
        run();
        return 0;
    } catch (const std::exception & e) {
        fprintf(stderr, "error: %s\n", e.what());
        return 1;
    }
}
