// Writes llama.cpp's logits for given token ids, so that golden data has a second, independent witness beside transformers.
// Links the peer's libllama (tests/peer/README.md); uses only its public llama.h. No part of the product.
//
//   llamacpp_logits MODEL.gguf TOKENS(1,2,3) OUT.npy [--fa] [--ubatch N] [--kv f32|f16|q8_0] [--repack] [--threads N]
//
// OUT.npy: float32, C order, shape [n_tokens, n_vocab]; row i holds the logits after token i.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "../peer/program.h"

struct Options {
    std::string model, tokens, out;
    bool flash_attention = false;
    bool repack = false;  // llama.cpp's default rewrites weights into a layout of its own; off is ggml's plain path
    uint32_t ubatch = 0;  // tokens per graph; 0 = all at once
    int threads = 1;      // one thread: the order of float sums is then fixed
    ggml_type kv = GGML_TYPE_F32;
};

static Options parse(int argc, char ** argv) {
    if (argc < 4) throw std::runtime_error("usage: llamacpp_logits MODEL TOKENS OUT.npy [options]");
    Options o;
    o.model = argv[1], o.tokens = argv[2], o.out = argv[3];
    for (int i = 4; i < argc; i++) {
        const std::string a = argv[i];
        auto value = [&]() -> std::string {
            if (++i >= argc) throw std::runtime_error(a + " needs a value");
            return argv[i];
        };
        if (a == "--fa") o.flash_attention = true;
        else if (a == "--repack") o.repack = true;
        else if (a == "--ubatch") o.ubatch = std::stoul(value());
        else if (a == "--threads") o.threads = std::stoi(value());
        else if (a == "--kv") {
            const std::string v = value();
            if (v == "f32") o.kv = GGML_TYPE_F32;
            else if (v == "f16") o.kv = GGML_TYPE_F16;
            else if (v == "q8_0") o.kv = GGML_TYPE_Q8_0;
            else throw std::runtime_error("--kv: f32, f16 or q8_0, not " + v);
        } else throw std::runtime_error("unknown option " + a);
    }
    return o;
}

static std::vector<llama_token> parse_tokens(const std::string & text) {
    std::vector<llama_token> ids;
    for (size_t at = 0; at < text.size();) {
        size_t used = 0;
        ids.push_back(std::stoi(text.substr(at), &used));
        at += used + 1;  // the comma too
    }
    if (ids.empty()) throw std::runtime_error("no tokens");
    return ids;
}

static void write_npy(const std::string & path, const std::vector<float> & data, size_t rows, size_t cols) {
    std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(cols) + "), }";
    while ((10 + head.size() + 1) % 64 != 0) head += ' ';
    head += '\n';
    FILE * f = fopen(path.c_str(), "wb");
    if (!f) throw std::runtime_error("cannot write " + path);
    const unsigned char magic[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char) (head.size() & 255),
                                     (unsigned char) (head.size() >> 8)};
    bool ok = fwrite(magic, 1, 10, f) == 10 && fwrite(head.data(), 1, head.size(), f) == head.size() &&
              fwrite(data.data(), sizeof(float), data.size(), f) == data.size();
    ok = fclose(f) == 0 && ok;
    if (!ok) throw std::runtime_error("short write to " + path);
}

static void run(const Options & o) {
    std::vector<llama_token> ids = parse_tokens(o.tokens);
    llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = 0;
    mp.use_extra_bufts = o.repack;
    llama_model * model = llama_model_load_from_file(o.model.c_str(), mp);
    if (!model) throw std::runtime_error("llama.cpp refuses " + o.model);
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = cp.n_batch = (uint32_t) ids.size();
    cp.n_ubatch = o.ubatch ? o.ubatch : (uint32_t) ids.size();
    cp.n_threads = cp.n_threads_batch = o.threads;
    cp.flash_attn_type = o.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.type_k = cp.type_v = o.kv;
    llama_context * ctx = llama_init_from_model(model, cp);
    if (!ctx) throw std::runtime_error("no context");
    const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (llama_token id : ids)
        if (id < 0 || id >= n_vocab) throw std::runtime_error("token outside the vocabulary: " + std::to_string(id));

    llama_batch batch = llama_batch_init((int32_t) ids.size(), 0, 1);
    batch.n_tokens = (int32_t) ids.size();
    for (int i = 0; i < batch.n_tokens; i++) {
        batch.token[i] = ids[i];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    if (llama_decode(ctx, batch) != 0) throw std::runtime_error("llama_decode failed");
    std::vector<float> logits(ids.size() * (size_t) n_vocab);
    for (size_t i = 0; i < ids.size(); i++)
        memcpy(&logits[i * n_vocab], llama_get_logits_ith(ctx, (int32_t) i), n_vocab * sizeof(float));
    write_npy(o.out, logits, ids.size(), n_vocab);
    llama_batch_free(batch);
    llama_free(ctx);
    llama_model_free(model);
}

int main(int argc, char ** argv) { return run_program([&] { run(parse(argc, argv)); }); }
