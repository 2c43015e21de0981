// Answers prompts with llama.cpp, greedily, so that `longhand eval --peer` can put its answers beside ours: the same
// token ids, the same scores. Links the peer's libllama (README.md); uses only its public llama.h. No part of the
// product.
//
//   answers MODEL.gguf CONTEXT TYPE_K TYPE_V [THREADS] [--leads] [--no-fa] [--gpu]
//
// Each line of the input is the most tokens of an answer, then the prompt's token ids: "32 151644 872 …". The line of
// the output has the answer's ids, without a token that ends a generation. With --leads (greedy.py) the answer goes on
// behind such a token, and each token is ID:SECOND:LEAD: the next likely token and how far its logit is behind.
// With --gpu all layers are on the first GPU. Flash attention, unless --no-fa switches it off, and repacked weights are as llama.cpp chooses them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "program.h"

static ggml_type type_of(const std::string & name) {
    for (ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q5_0, GGML_TYPE_Q4_0})
        if (name == ggml_type_name(type)) return type;
    throw std::runtime_error("not a cache type: " + name);
}

static void decode(llama_context * ctx, std::vector<llama_token> & ids, size_t from, size_t count) {
    if (llama_decode(ctx, llama_batch_get_one(ids.data() + from, (int32_t) count)) != 0)
        throw std::runtime_error("llama_decode failed");
}

// The token with the largest logit, apart from `but`.
static llama_token most_likely(const float * logits, int n_vocab, llama_token but = -1) {
    llama_token best = but == 0;
    for (llama_token id = best + 1; id < n_vocab; id++)
        if (id != but && logits[id] > logits[best]) best = id;
    return best;
}

static void run(int argc, char ** argv) {
    bool leads = false, no_fa = false, gpu = false;
    for (; argc > 1 && argv[argc - 1][0] == '-'; argc--) {
        const std::string flag = argv[argc - 1];
        if (flag != "--leads" && flag != "--no-fa" && flag != "--gpu") throw std::runtime_error("unknown flag " + flag);
        (flag == "--leads" ? leads : flag == "--gpu" ? gpu : no_fa) = true;
    }
    if (argc < 5) throw std::runtime_error("usage: answers MODEL CONTEXT TYPE_K TYPE_V [THREADS] [--leads] [--no-fa] [--gpu]");
    llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = gpu ? 999 : 0;
    llama_model * model = llama_model_load_from_file(argv[1], mp);
    if (!model) throw std::runtime_error(std::string("llama.cpp refuses ") + argv[1]);
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = (uint32_t) std::stoul(argv[2]);
    cp.type_k = type_of(argv[3]);
    cp.type_v = type_of(argv[4]);
    cp.n_threads = cp.n_threads_batch = argc > 5 ? std::stoi(argv[5]) : (int) std::thread::hardware_concurrency();
    if (no_fa) cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context * ctx = llama_init_from_model(model, cp);
    if (!ctx) throw std::runtime_error("no context with these cache types");
    const llama_vocab * vocab = llama_model_get_vocab(model);
    const int n_vocab = llama_vocab_n_tokens(vocab);
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream numbers(line);
        size_t limit = 0;
        numbers >> limit;
        std::vector<llama_token> ids;
        for (llama_token id; numbers >> id;) {
            if (id < 0 || id >= n_vocab) throw std::runtime_error("token outside the vocabulary");
            ids.push_back(id);
        }
        if (ids.empty() || ids.size() + limit > cp.n_ctx) throw std::runtime_error("the prompt does not fit");
        llama_memory_clear(llama_get_memory(ctx), true);
        for (size_t at = 0; at < ids.size(); at += cp.n_batch)
            decode(ctx, ids, at, std::min<size_t>(cp.n_batch, ids.size() - at));
        for (size_t made = 0; made < limit; made++) {
            const float * logits = llama_get_logits_ith(ctx, -1);
            const llama_token id = most_likely(logits, n_vocab);
            if (!leads && llama_vocab_is_eog(vocab, id)) break;
            std::cout << (made ? " " : "") << id;
            if (leads) {
                const llama_token second = most_likely(logits, n_vocab, id);
                std::cout << ':' << second << ':' << logits[id] - logits[second];
            }
            ids.push_back(id);
            if (made + 1 < limit) decode(ctx, ids, ids.size() - 1, 1);
        }
        std::cout << std::endl;
    }
    llama_free(ctx);
    llama_model_free(model);
}

int main(int argc, char ** argv) { return run_program([&] { run(argc, argv); }); }
