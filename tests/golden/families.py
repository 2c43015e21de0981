#!/usr/bin/env python3
"""Makes the golden models and logits in `families/`: tiny random models of many families. Their logits are those of
Hugging Face transformers (F32 files) or of llama.cpp (q8_0 files). README.md beside this file has the command and the
versions.

Weights are -1, 0 or 1 times a scale, so that the files compress well. llama.cpp's own converter writes them, with a
vocabulary of single bytes in place of its vocabulary step.
"""
import argparse
import dataclasses
import inspect
import json
import logging
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

import packed

HERE = Path(__file__).resolve().parent
VOCAB = 264
N_TOKENS = 48
N_LOGITS = 6  # of the last tokens
SIZES = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=2048, bos_token_id=1, eos_token_id=2, pad_token_id=2)
MOE = dict(SIZES, intermediate_size=32, num_experts_per_tok=2)
MOE_1 = dict(MOE, num_hidden_layers=1)
GPT = dict(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    stem: str  # of the classes in transformers
    config: dict
    kind: str = "f32"  # f32 | q8_0 | mxfp4_moe: the experts mxfp4, the rest q8_0
    arch: str | None = None  # of the file, where transformers lacks the family and another one computes the same
    written: dict = dataclasses.field(default_factory=dict)  # entries of config.json that converters read by older names
    tokens: int = N_TOKENS
    seed: int = 0  # another one, where llama.cpp's ways to compute choose different experts


def longrope(dims, original):
    return dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=original,
                short_factor=[1.0 + 0.05 * i for i in range(dims // 2)], long_factor=[1.5 + 0.5 * i for i in range(dims // 2)])


def yarn(factor, original, **others):
    return dict(rope_type="yarn", rope_theta=10000.0, factor=factor, original_max_position_embeddings=original, beta_fast=32.0, beta_slow=1.0, **others)


def yarn_of_gpt_oss(original, beta_fast, beta_slow):
    return dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, beta_fast=beta_fast, beta_slow=beta_slow, truncate=False,
                original_max_position_embeddings=original)


def beta(original, dims, pair):
    """The rotations of a pair of elements in the original context."""
    return original / (2 * math.pi) * 150000.0 ** (-2 * pair / dims)


GRANITE = dict(embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.4)
CASES = [
    Case("gemma-mqa", "Gemma", dict(SIZES, head_dim=32, num_key_value_heads=1)),
    Case("gemma-mha", "Gemma", dict(SIZES, head_dim=16, num_key_value_heads=4), "q8_0"),
    Case("phi3-gqa", "Phi3", dict(SIZES)),
    Case("phi3-longrope", "Phi3", dict(SIZES, rope_parameters=longrope(16, 32), original_max_position_embeddings=32)),
    Case("phi3-partial", "Phi3", dict(SIZES, num_key_value_heads=1, tie_word_embeddings=True,
                                      rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)), "q8_0"),
    Case("mistral3-gqa", "Mistral", dict(SIZES, head_dim=32, sliding_window=None), arch="MISTRAL3"),
    Case("mistral3-tied", "Mistral", dict(SIZES, head_dim=16, sliding_window=None, tie_word_embeddings=True), "q8_0", arch="MISTRAL3"),
    Case("glm4-bias", "Glm4", dict(SIZES, head_dim=32, partial_rotary_factor=0.5, attention_bias=True)),
    Case("glm4-plain", "Glm4", dict(SIZES, head_dim=16, num_key_value_heads=1, partial_rotary_factor=0.5, attention_bias=False), "q8_0"),
    Case("chatglm-bias", "Glm", dict(SIZES, head_dim=16, partial_rotary_factor=0.5, attention_bias=True, rms_norm_eps=1e-5)),
    Case("chatglm-plain", "Glm", dict(SIZES, head_dim=16, num_key_value_heads=4, partial_rotary_factor=0.5, attention_bias=False, rms_norm_eps=1e-5), "q8_0"),
    Case("smollm3-tied", "SmolLM3", dict(SIZES, num_hidden_layers=4, tie_word_embeddings=True)),
    Case("smollm3-mha", "SmolLM3", dict(SIZES, num_hidden_layers=4, num_key_value_heads=4, tie_word_embeddings=False), "q8_0"),
    Case("olmo2-gqa", "Olmo2", dict(SIZES)),
    Case("olmo2-mha", "Olmo2", dict(SIZES, num_key_value_heads=4), "q8_0"),
    Case("granite-gqa", "Granite", dict(SIZES, attention_multiplier=0.1, **GRANITE)),
    Case("granite-tied", "Granite", dict(SIZES, attention_multiplier=0.3, tie_word_embeddings=True, num_key_value_heads=1, **GRANITE), "q8_0"),
    Case("command-r-gqa", "Cohere", dict(SIZES, logit_scale=0.5)),
    Case("command-r-qknorm", "Cohere", dict(SIZES, logit_scale=2.0, use_qk_norm=True)),
    Case("command-r-mha", "Cohere", dict(SIZES, num_key_value_heads=4), "q8_0"),
    Case("starcoder2-gqa", "Starcoder2", dict(SIZES, sliding_window=None)),
    Case("starcoder2-untied", "Starcoder2", dict(SIZES, sliding_window=None, num_key_value_heads=1, tie_word_embeddings=False), "q8_0"),
    Case("internlm2-gqa", "Llama", dict(SIZES), arch="INTERNLM2"),
    Case("internlm2-mha", "Llama", dict(SIZES, num_key_value_heads=4), "q8_0", arch="INTERNLM2"),
    Case("minicpm-gqa", "Granite", dict(SIZES, attention_multiplier=0.25, **GRANITE), arch="MINICPM", written=dict(attention_multiplier=0)),
    Case("minicpm-tied", "Granite", dict(SIZES, attention_multiplier=0.25, tie_word_embeddings=True, num_key_value_heads=4, **GRANITE), "q8_0", arch="MINICPM",
         written=dict(attention_multiplier=0)),
    Case("seed_oss-bias", "SeedOss", dict(SIZES, head_dim=32, attention_bias=True)),
    Case("seed_oss-plain", "SeedOss", dict(SIZES, head_dim=16, attention_bias=False, num_key_value_heads=1, tie_word_embeddings=True), "q8_0"),
    Case("hunyuan-dense-gqa", "HunYuanDenseV1", dict(SIZES, head_dim=32)),
    Case("hunyuan-dense-tied", "HunYuanDenseV1", dict(SIZES, head_dim=16, num_key_value_heads=4, tie_word_embeddings=True), "q8_0"),
    Case("ernie4_5-tied", "Ernie4_5", dict(SIZES, head_dim=32)),
    Case("ernie4_5-untied", "Ernie4_5", dict(SIZES, head_dim=16, num_key_value_heads=1, tie_word_embeddings=False), "q8_0"),
    Case("stablelm-bias", "StableLm", dict(SIZES, partial_rotary_factor=0.5, use_qkv_bias=True)),
    Case("stablelm-parallel", "StableLm", dict(SIZES, partial_rotary_factor=0.5, use_parallel_residual=True, qk_layernorm=True)),
    Case("stablelm-mha", "StableLm", dict(SIZES, partial_rotary_factor=0.25, num_key_value_heads=4, hidden_size=128, use_parallel_residual=True), "q8_0"),
    Case("falcon-two-norms", "Falcon", dict(GPT, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2, new_decoder_architecture=True)),
    Case("falcon-mqa", "Falcon", dict(GPT, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, multi_query=True, parallel_attn=True, bias=False), "q8_0",
         written=dict(num_kv_heads=1)),
    Case("gptneox-parallel", "GPTNeoX", dict(SIZES, num_key_value_heads=None), written=dict(rotary_pct=0.25, rotary_emb_base=10000)),
    Case("gptneox-sequential", "GPTNeoX", dict(SIZES, num_key_value_heads=None, use_parallel_residual=False), "q8_0",
         written=dict(rotary_pct=0.25, rotary_emb_base=10000)),
    Case("gpt2-4", "GPT2", dict(GPT, n_embd=64, n_layer=2, n_head=4, n_positions=64), written=dict(n_ctx=64)),
    Case("gpt2-2", "GPT2", dict(GPT, n_embd=64, n_layer=2, n_head=2, n_positions=48), "q8_0", written=dict(n_ctx=48)),
    Case("bloom-4", "Bloom", dict(GPT, hidden_size=64, n_layer=2, n_head=4)),
    Case("bloom-6", "Bloom", dict(GPT, hidden_size=96, n_layer=2, n_head=6), "q8_0"),
    Case("mpt-4", "Mpt", dict(GPT, d_model=64, n_layers=2, n_heads=4, expansion_ratio=2, max_seq_len=2048), written=dict(architectures=["MPTForCausalLM"])),
    Case("mpt-clip", "Mpt", dict(GPT, d_model=96, n_layers=2, n_heads=6, expansion_ratio=2, max_seq_len=2048, attn_config=dict(clip_qkv=1.5)),
         written=dict(architectures=["MPTForCausalLM"])),
    Case("mpt-2", "Mpt", dict(GPT, d_model=64, n_layers=2, n_heads=2, expansion_ratio=4, max_seq_len=2048), "q8_0", written=dict(architectures=["MPTForCausalLM"])),
    # Layers with a sliding window. llama.cpp has no window in EXAONE 4 with other than 64 layers.
    Case("gemma2-gqa", "Gemma2", dict(SIZES, num_hidden_layers=4, head_dim=32, query_pre_attn_scalar=32, sliding_window=8,
                                      attn_logit_softcapping=5.0, final_logit_softcapping=8.0)),
    Case("gemma2-mha", "Gemma2", dict(SIZES, num_hidden_layers=4, head_dim=16, num_key_value_heads=4, query_pre_attn_scalar=16,
                                      sliding_window=24), "q8_0"),
    Case("gemma3-mqa", "Gemma3", dict(SIZES, num_hidden_layers=6, head_dim=32, num_key_value_heads=1, query_pre_attn_scalar=32,
                                      sliding_window=12)),
    Case("gemma3-gqa", "Gemma3", dict(SIZES, num_hidden_layers=7, head_dim=16, query_pre_attn_scalar=16, sliding_window=17), "q8_0"),
    Case("cohere2-gqa", "Cohere2", dict(SIZES, num_hidden_layers=4, sliding_window=8, logit_scale=0.5), written=dict(rotary_pct=1.0)),
    Case("cohere2-mha", "Cohere2", dict(SIZES, num_hidden_layers=4, num_key_value_heads=4, sliding_window=21, logit_scale=1.0), "q8_0",
         written=dict(rotary_pct=1.0)),
    Case("exaone4-window", "Exaone4", dict(SIZES, num_hidden_layers=4, sliding_window=16, sliding_window_pattern=4)),
    Case("exaone4-global", "Exaone4", dict(SIZES, num_key_value_heads=1, layer_types=["full_attention"] * 2), "q8_0",
         written=dict(sliding_window=None)),
    # Mixtures of experts. gpt-oss does not round the bounds of YaRN's ramp, as llama.cpp does. With these betas they are whole
    # numbers but for 1e-5, so both compute the same. `gpt_oss.py` makes a file with other bounds.
    Case("mixtral-gqa", "Mixtral", dict(MOE, num_local_experts=4)),
    Case("mixtral-mha", "Mixtral", dict(MOE_1, num_local_experts=8, num_experts_per_tok=3, num_key_value_heads=4), "q8_0"),
    Case("qwen2moe-gqa", "Qwen2Moe", dict(MOE, num_experts=4, moe_intermediate_size=32, shared_expert_intermediate_size=64)),
    Case("qwen2moe-mha", "Qwen2Moe", dict(MOE_1, num_experts=6, moe_intermediate_size=32, shared_expert_intermediate_size=32, num_key_value_heads=4), "q8_0"),
    Case("qwen3moe-mqa", "Qwen3Moe", dict(MOE, num_attention_heads=2, num_key_value_heads=1, head_dim=48, num_experts=4, moe_intermediate_size=32, norm_topk_prob=True)),
    Case("qwen3moe-gqa", "Qwen3Moe", dict(MOE_1, head_dim=32, num_experts=7, moe_intermediate_size=32, norm_topk_prob=True), "q8_0"),
    Case("gpt-oss-window", "GptOss", dict(MOE, head_dim=16, num_local_experts=4, sliding_window=12,
                                          rope_parameters=yarn_of_gpt_oss(64, 32.0, beta(64, 16, 1.999998)))),
    Case("gpt-oss-mqa", "GptOss", dict(MOE, head_dim=32, num_local_experts=4, num_key_value_heads=1, sliding_window=20,
                                       rope_parameters=yarn_of_gpt_oss(4096, beta(4096, 32, 4.00001), beta(4096, 32, 8.99999))), "mxfp4_moe"),
    Case("granitemoe-gqa", "GraniteMoe", dict(MOE, num_local_experts=4, attention_multiplier=0.1, **GRANITE)),
    Case("granitemoe-shared", "GraniteMoeShared", dict(MOE_1, num_local_experts=4, shared_intermediate_size=64, tie_word_embeddings=True,
                                                       attention_multiplier=0.3, **GRANITE), "q8_0"),
    Case("olmoe-mha", "Olmoe", dict(MOE, num_experts=4, num_key_value_heads=4)),
    Case("olmoe-wide-heads", "Olmoe", dict(MOE_1, num_experts=5, num_attention_heads=2), "q8_0"),
    Case("ernie4_5-moe-dense-first", "Ernie4_5_Moe", dict(MOE, intermediate_size=64, moe_intermediate_size=32, moe_num_experts=4, moe_k=2, moe_num_shared_experts=1,
                                                          moe_layer_start_index=1)),
    Case("ernie4_5-moe-tied", "Ernie4_5_Moe", dict(MOE_1, intermediate_size=64, moe_intermediate_size=32, moe_num_experts=5, moe_k=3, moe_num_shared_experts=1,
                                                   moe_layer_start_index=0, tie_word_embeddings=True), "q8_0"),
    Case("glm4moe-dense-first", "Glm4Moe", dict(MOE, head_dim=16, intermediate_size=64, moe_intermediate_size=32, n_routed_experts=4, n_shared_experts=1, routed_scaling_factor=1.5,
                                                first_k_dense_replace=1, use_qk_norm=True, attention_bias=True, norm_topk_prob=True), written=dict(num_nextn_predict_layers=0)),
    Case("glm4moe-plain", "Glm4Moe", dict(MOE_1, head_dim=32, moe_intermediate_size=32, n_routed_experts=5, n_shared_experts=2, routed_scaling_factor=1.0,
                                          first_k_dense_replace=0, norm_topk_prob=True), "q8_0", written=dict(num_nextn_predict_layers=0)),
    # Later ones. Others would change if a case came before them.
    Case("olmo3-yarn", "Olmo3", dict(SIZES, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2, sliding_window=8, tie_word_embeddings=True,
                                     rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                                                          full_attention=dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0,
                                                                              original_max_position_embeddings=32)))),
]
# Ministral 3, groups of experts, and keys and values from one latent vector. Their seeds count from 200 on.
SIGMOID = dict(scoring_func="sigmoid")
SMALL = dict(SIZES, hidden_size=32, intermediate_size=48)
LATENT = dict(SMALL, num_experts_per_tok=2, num_key_value_heads=4, moe_intermediate_size=32, kv_lora_rank=32, qk_nope_head_dim=32,
              qk_rope_head_dim=16, v_head_dim=24)
LATER = [
    Case("ministral3-yarn", "Ministral3", dict(SMALL, head_dim=16, rope_parameters=yarn(8.0, 16, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.5))),
    Case("ministral3-tied", "Ministral3", dict(SMALL, head_dim=32, num_key_value_heads=1, tie_word_embeddings=True,
                                               rope_parameters=yarn(4.0, 8, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)), "q8_0"),
    Case("dots1-groups", "Dots1", dict(SMALL, head_dim=16, num_experts_per_tok=3, moe_intermediate_size=32, n_routed_experts=8, n_shared_experts=1, n_group=4, topk_group=2,
                                       first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, num_key_value_heads=4, sliding_window=None), written=SIGMOID),
    Case("dots1-plain", "Dots1", dict(SMALL, head_dim=32, num_experts_per_tok=2, moe_intermediate_size=32, n_routed_experts=4, n_shared_experts=2, n_group=1, topk_group=1,
                                      first_k_dense_replace=0, num_hidden_layers=1, norm_topk_prob=False, num_key_value_heads=4, sliding_window=None), "q8_0", written=SIGMOID),
    Case("deepseek2-lite", "DeepseekV2", dict(LATENT, q_lora_rank=None, n_routed_experts=4, n_shared_experts=2, first_k_dense_replace=1,
                                              rope_parameters=yarn(8.0, 16, mscale=0.707, mscale_all_dim=0.707))),
    Case("deepseek2-max-groups", "DeepseekV2", dict(LATENT, q_lora_rank=24, n_routed_experts=6, n_shared_experts=1, n_group=3, topk_group=2, first_k_dense_replace=1,
                                                    topk_method="group_limited_greedy", routed_scaling_factor=4.0)),
    Case("deepseek2-groups", "DeepseekV3", dict(LATENT, q_lora_rank=24, n_routed_experts=8, n_shared_experts=1, n_group=4, topk_group=2, num_experts_per_tok=3,
                                                first_k_dense_replace=1, routed_scaling_factor=2.5, num_mtp_layers=0), written=SIGMOID),
    Case("deepseek2-yarn", "DeepseekV3", dict(LATENT, q_lora_rank=32, n_routed_experts=4, n_shared_experts=1, n_group=2, topk_group=1, first_k_dense_replace=0,
                                              num_mtp_layers=0, v_head_dim=32, rope_parameters=yarn(4.0, 16, mscale=1.0, mscale_all_dim=1.0)), "q8_0", written=SIGMOID, seed=1),
]

def hybrid(*layers, **config):
    """Layers that attend (1) or are recurrent (0)."""
    kinds = ["full_attention" if attends else "linear_attention" for attends in layers]
    return dict(SIZES, hidden_size=32, intermediate_size=64, head_dim=32, num_hidden_layers=len(layers), layer_types=kinds,
                rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)) | config


def delta_net(key_heads, value_heads, size):
    return dict(linear_num_key_heads=key_heads, linear_num_value_heads=value_heads, linear_key_head_dim=size, linear_value_head_dim=size)


# Recurrent layers. Texts longer than a chunk of transformers' delta rule, which has 64 tokens. Seeds from 300 on.
QWEN_MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32)
HYBRID = [
    Case("qwen35-gqa", "Qwen3_5", hybrid(0, 1, 0, 1, **delta_net(2, 4, 16)), tokens=100),
    Case("qwen35-mqa", "Qwen3_5", hybrid(0, 1, 0, num_key_value_heads=1, tie_word_embeddings=True, **delta_net(2, 2, 32)), "q8_0", tokens=100),
    Case("qwen35moe-gqa", "Qwen3_5Moe", hybrid(0, 1, **delta_net(1, 3, 16), **QWEN_MOE), tokens=100),
    Case("qwen35moe-mha", "Qwen3_5Moe", hybrid(0, 1, num_key_value_heads=4, **delta_net(2, 2, 16), **QWEN_MOE), "q8_0", tokens=100),
    Case("qwen3next-gqa", "Qwen3Next", hybrid(0, 1, **delta_net(2, 4, 16), **QWEN_MOE), tokens=100),
    Case("qwen3next-mqa", "Qwen3Next", hybrid(0, 1, num_key_value_heads=1, **delta_net(1, 2, 16), **QWEN_MOE | dict(num_experts_per_tok=4)), "q8_0", tokens=100),
]


def gemma4(layers, rope_part, **config):
    """Local (L) and global (G) layers. RoPE rotates a part of the global ones' heads."""
    kinds = [dict(L="sliding_attention", G="full_attention")[layer] for layer in layers]
    rope = dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                full_attention=dict(rope_type="proportional", rope_theta=100000.0, partial_rotary_factor=rope_part))
    return dict(SMALL, num_hidden_layers=len(layers), layer_types=kinds, rope_parameters=rope, vocab_size_per_layer_input=VOCAB) | config


# Layers with heads of their own sizes, experts beside a network, and layers without keys and values. Seeds from 400 on.
PLAIN = dict(hidden_size_per_layer_input=0, attention_k_eq_v=True)
GEMMA4 = [
    Case("gemma4-dense", "Gemma4", gemma4("LGLG", 0.25, head_dim=16, global_head_dim=32, num_global_key_value_heads=1, sliding_window=8,
                                          final_logit_softcapping=8.0, **PLAIN)),
    Case("gemma4-experts", "Gemma4", gemma4("LG", 0.5, head_dim=16, global_head_dim=32, num_key_value_heads=4, num_global_key_value_heads=2, sliding_window=12,
                                            enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=32, **PLAIN)),
    Case("gemma4-shared-kv", "Gemma4", gemma4("LGLG", 0.25, head_dim=16, global_head_dim=32, num_key_value_heads=2, sliding_window=8, hidden_size_per_layer_input=16,
                                              num_kv_shared_layers=2, use_double_wide_mlp=True)),
    Case("gemma4-shared-mqa", "Gemma4", gemma4("LGLLG", 0.5, head_dim=16, global_head_dim=32, num_attention_heads=2, num_key_value_heads=1, sliding_window=17,
                                               hidden_size_per_layer_input=32, num_kv_shared_layers=3, intermediate_size=32, final_logit_softcapping=10.0), "q8_0"),
]
# ALiBi with another maximum bias, as in MPT StoryWriter. Seeds from 500 on.
ALIBI = [
    Case("mpt-bias16", "Mpt", dict(GPT, d_model=48, n_layers=2, n_heads=3, expansion_ratio=2, max_seq_len=2048,
                                   attn_config=dict(alibi_bias_max=16, clip_qkv=0.75)), written=dict(architectures=["MPTForCausalLM"])),
]
# Sections of RoPE, as in GLM-4.1V: the converter changes the order of Q and K. In texts they change nothing. Seeds from 510 on.
SECTIONS = [
    Case("glm4-sections", "Glm4", dict(SMALL, head_dim=16, partial_rotary_factor=0.5, attention_bias=True),
         written=dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1]))),
]
# A plain network with squared ReLU. Seeds from 520 on.
PARTIAL = dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))
RELU2 = [
    Case("nemotron-bias", "Nemotron", dict(SMALL, attention_bias=True, mlp_bias=True, **PARTIAL)),
    Case("nemotron-mqa", "Nemotron", dict(SMALL, num_key_value_heads=1, **PARTIAL), "q8_0"),
]
CASES = [*enumerate(CASES), *enumerate(LATER, 200), *enumerate(HYBRID, 300), *enumerate(GEMMA4, 400), *enumerate(ALIBI, 500), *enumerate(SECTIONS, 510), *enumerate(RELU2, 520)]


def build(case: Case, seed: int):
    # These have one for text beside the one for text and images.
    text = "Text" if case.stem in ("Gemma3", "Gemma4", "Qwen3_5", "Qwen3_5Moe") else ""
    config = getattr(transformers, f"{case.stem}{text}Config")(
        **{k: v for k, v in case.config.items() if v is not None or k == "q_lora_rank"}, attn_implementation="eager")
    suffix = "LMHeadModel" if case.stem == "GPT2" else "ForCausalLM"
    net = getattr(transformers, case.stem + suffix)(config).float().eval()
    if case.stem == "Mpt":  # transformers reads alibi_bias_max and then computes with 8
        alibi, most = net.transformer.build_mpt_alibi_tensor, config.attn_config.alibi_bias_max
        net.transformer.build_mpt_alibi_tensor = lambda *args, **kwargs: alibi(*args, **kwargs | dict(alibi_bias_max=most))
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, weight in sorted(net.named_parameters()):
            weight.copy_(torch.from_numpy(draw(rng, name, tuple(weight.shape))))
            if case.stem == "Gemma4" and "q_norm" in name:
                weight.mul_(0.25)  # nothing else scales its attention
        for name, bias in sorted(net.named_buffers()):
            if name.endswith(("e_score_correction_bias", "layer_scalar")):
                bias.copy_(torch.from_numpy(draw(rng, name, tuple(bias.shape))))
    return net


def draw(rng, name: str, shape: tuple) -> np.ndarray:
    if len(shape) == 1 or "norm" in name:
        steps = rng.integers(-4, 4, shape) / 16
        is_norm = ("norm" in name or ".ln" in name) and name.endswith("weight")
        return ((1 + steps) if is_norm or name.endswith(("scale", "layer_scalar")) else steps).astype(np.float32)
    sharp = any(part in name for part in ("q_proj", "k_proj"))
    is_embedding = any(part in name for part in ("embed", "wte", "wpe"))
    gain = 1 / math.sqrt(shape[-1]) if is_embedding else (1.5 if sharp else 1.2) / math.sqrt(shape[-1])
    return (gain * rng.integers(-1, 2, shape)).astype(np.float32)


def write_vocabulary(writer):
    import gguf
    from transformers.convert_slow_tokenizer import bytes_to_unicode
    tokens = ["<|unused|>", "<|begin_of_text|>", "<|end_of_text|>", *bytes_to_unicode().values()]
    merges = [("h", "e"), ("\u0120", "t"), ("\u0120t", "he"), ("i", "n"), ("e", "r")]
    tokens += ["".join(pair) for pair in merges]
    assert len(tokens) == VOCAB
    kinds = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (VOCAB - 3)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)


def convert(case: Case, net, out: Path, quantize: Path):
    import gguf
    from conversion import ModelBase, get_model_class
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        net.save_pretrained(folder)
        config = folder / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | case.written))
        # Some converters ask how many tokens there are.
        vocab = {f"t{i}": i for i in range(VOCAB)}
        (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": [], "model": {"vocab": vocab}}))
        hparams = ModelBase.load_hparams(folder, False) | case.written
        base = get_model_class(hparams["architectures"][0])
        base = getattr(base, "Ministral3Model", base)  # the converter of Mistral 3 chooses one of two others
        arch = gguf.MODEL_ARCH[case.arch] if case.arch else base.model_arch

        def modify_tensors(self, data, name, layer):
            # StableLM's converter returns the generator of stacked norms in place of their items.
            last = yield from base.modify_tensors(self, data, name, layer)
            yield from last or ()

        changes = {"set_vocab": lambda self: write_vocabulary(self.gguf_writer), "model_arch": arch, "no_mtp": True,
                   "modify_tensors": modify_tensors}
        kind = {"q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}.get(case.kind, gguf.LlamaFileType.ALL_F32)
        written = folder / "written.gguf" if case.kind == "mxfp4_moe" else out
        type(base.__name__, (base,), changes)(folder, kind, written, hparams=hparams).write()
        if written != out:
            subprocess.run([quantize, written, out, case.kind], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def compute(net, ids) -> tuple[np.ndarray, dict]:
    """The logits, and steps of the computation by llama.cpp's names: every fourth number of the last token. `attn_norm` and
    `ffn_norm` are what attention and the feed-forward network read, `kqv_out` what attention's output matrix reads."""
    got = {}

    def keep(name, x):
        x = (x[0] if isinstance(x, tuple) else x).detach().numpy()
        got[name] = [float(f"{number:.6g}") for number in x.reshape(-1, x.shape[-1])[-1, ::4]]

    def read(name):
        return lambda _module, args, kwargs: keep(name, args[0] if args else kwargs["hidden_states"])

    def written(name):
        return lambda _module, _args, output: keep(name, output)

    def part(module, *words):
        """The first child with one of these names."""
        return next((child for name, child in module.named_children() if name in words), None)

    layers = next(m for m in net.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == net.config.num_hidden_layers)
    hooks = [layers[0].register_forward_pre_hook(read("embd"), with_kwargs=True),
             net.get_output_embeddings().register_forward_pre_hook(read("result_norm"), with_kwargs=True)]
    for i, layer in enumerate(layers):
        attention = part(layer, "self_attn", "linear_attn", "attention", "self_attention", "attn")
        output = part(attention, "o_proj", "out_proj", "dense", "c_proj")
        mlp = part(layer, "mlp", "feed_forward", "ffn", "block_sparse_moe")
        hooks += [attention.register_forward_pre_hook(read(f"attn_norm-{i}"), with_kwargs=True),
                  mlp.register_forward_pre_hook(read(f"ffn_norm-{i}"), with_kwargs=True),
                  layer.register_forward_hook(written(f"l_out-{i}"))]
        if not type(attention).__name__.startswith(("Qwen3_5GatedDelta", "Qwen3_5MoeGatedDelta")):  # the file has another order of heads
            hooks.append(output.register_forward_pre_hook(read(f"kqv_out-{i}"), with_kwargs=True))
        # Some networks add the residual stream themselves. Gemma 4 adds its experts to the network.
        last = part(mlp, "dense_4h_to_h", "down_proj") if "residual" in inspect.signature(mlp.forward).parameters else mlp
        if not getattr(layer, "enable_moe_block", False):
            hooks.append(last.register_forward_hook(written(f"ffn_out-{i}")))
    with torch.inference_mode():
        logits = net(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    for hook in hooks:
        hook.remove()
    return logits, got


def run_llamacpp(dumper: Path, model: Path, ids, work: Path, *options) -> np.ndarray:
    out = work / "logits.npy"
    subprocess.run([dumper, model, ",".join(map(str, ids)), out, *options], check=True)
    return np.load(out)


def above(x: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(x))
    return float(f"{next(s * power for s in (1, 2, 5, 10) if s * power >= x):.0e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", type=Path, required=True, help="llama.cpp's source folder (its converter is used)")
    parser.add_argument("--dumper", type=Path, required=True, help="llamacpp_logits.cpp, built")
    parser.add_argument("--llama-quantize", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE / "families")
    parser.add_argument("names", nargs="*", help="only these cases")
    args = parser.parse_args()
    sys.path[:0] = [str(args.llama_cpp), str(args.llama_cpp / "gguf-py")]
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    index = {entry["name"]: entry for entry in packed.read(args.out / "index.json.br")} if args.names else {}
    steps = packed.read(args.out / "intermediates.json.br") if args.names else {}
    kept_logits = packed.read_logits(args.out / "logits.br") if args.names else {}
    models = packed.read_models(args.out / "models.br") if args.names else {}
    for number, case in CASES:
        if args.names and case.name not in args.names:
            continue
        name = f"{case.name}-{case.kind}"
        with tempfile.TemporaryDirectory() as work:
            work = Path(work)
            net = build(case, 100 + number + 1000 * case.seed)
            model = work / f"{name}.gguf"
            convert(case, net, model, args.llama_quantize)
            ids = [int(i) for i in np.random.default_rng(200 + number).integers(3, VOCAB, case.tokens)]
            if case.kind == "f32":
                logits, steps[name] = compute(net, ids)
                limits = {"max_abs": 1e-3, "rms": 1e-4}
                try:
                    beside = f"llama.cpp differs by {np.abs(run_llamacpp(args.dumper, model, ids, work) - logits).max():.1e}"
                except subprocess.CalledProcessError:
                    beside = "llama.cpp refuses it"
            else:
                logits = run_llamacpp(args.dumper, model, ids, work)
                variants = [["--ubatch", "1"], ["--fa"], ["--repack"]]
                others = [run_llamacpp(args.dumper, model, ids, work, *options) for options in variants]
                differences = [other - logits for other in others]
                limits = {"max_abs": above(2 * max(float(np.abs(x).max()) for x in differences)),
                          "rms": above(2 * max(float(np.sqrt(np.mean(x * x))) for x in differences))}
                beside = ""
            assert np.isfinite(logits).all(), name
            models[name] = model.read_bytes()
            kept_logits[name] = packed.rounded(logits[-N_LOGITS:], packed.LOGITS)
            index[name] = {"name": name, "reference": "transformers" if case.kind == "f32" else "llama.cpp",
                           **limits, "tokens": ids}
            print(f"{name:28} std {logits.std():.2f} limits {limits} {beside}", flush=True)
    packed.write_models(args.out / "models.br", models)
    packed.write(args.out / "intermediates.json.br", steps)
    packed.write_logits(args.out / "logits.br", kept_logits)
    packed.write(args.out / "index.json.br", list(index.values()))


if __name__ == "__main__":
    main()
