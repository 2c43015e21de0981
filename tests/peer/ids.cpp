// Token ids of texts by llama.cpp: the same input and output as `models/examples/ids.rs`.
//
//     ids VOCABULARY.gguf [PRE_TOKENIZER] < texts

#include "llama.h"

#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

static llama_model_kv_override text_override(const char * key, const char * value) {
    llama_model_kv_override override_ = {};
    override_.tag = LLAMA_KV_OVERRIDE_TYPE_STR;
    snprintf(override_.key, sizeof(override_.key), "%s", key);
    snprintf(override_.val_str, sizeof(override_.val_str), "%s", value);
    return override_;
}

int main(int argc, char ** argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: ids VOCABULARY.gguf [PRE_TOKENIZER] < texts\n");
        return 2;
    }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    std::vector<llama_model_kv_override> overrides;
    if (argc > 2) {
        overrides.push_back(text_override("tokenizer.ggml.model", "gpt2"));
        overrides.push_back(text_override("tokenizer.ggml.pre", argv[2]));
    }
    overrides.push_back({}); // ends the list
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    params.kv_overrides = overrides.data();
    llama_model * model = llama_model_load_from_file(argv[1], params);
    if (!model) {
        fprintf(stderr, "cannot load %s\n", argv[1]);
        return 1;
    }
    const llama_vocab * vocab = llama_model_get_vocab(model);
    printf("%d\n", llama_vocab_get_add_bos(vocab));
    const char * separator = "";
    for (int id = 0; id < llama_vocab_n_tokens(vocab); id++) {
        if (llama_vocab_is_eog(vocab, id)) {
            printf("%s%d", separator, id);
            separator = " ";
        }
    }
    printf("\n");

    std::string input((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
    std::vector<llama_token> ids;
    for (size_t start = 0; start <= input.size();) {
        size_t end = std::min(input.find('\0', start), input.size());
        ids.resize(4 * (end - start) + 16);
        int n = llama_tokenize(vocab, input.data() + start, end - start, ids.data(), ids.size(), false, false);
        for (int i = 0; i < n; i++) {
            printf("%s%d", i ? " " : "", ids[i]);
        }
        printf("\n");
        start = end + 1;
    }
    llama_model_free(model);
}
