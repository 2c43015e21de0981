#!/usr/bin/env python3
"""Makes the golden Baichuan model: ALiBi positions, which llama.cpp gives `baichuan` files of 40 layers, so that a tiny one is tiny in
width only, and f16. Three heads: no power of two, so that slopes of both series occur.

transformers has no Baichuan of its own, and this llama.cpp's converter does not convert it (it calls itself without end), so that
the file is written with gguf-py and the second witness is the plain numpy forward pass below, in float64.

`generate.py` calls this; alone it replaces its case in `index.json` (`--llama-cpp`, `--dumper`, `--work` as there).
"""
import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np

import generate
import packed
from generate import HERE, N_TOKENS, VOCAB, differ, kept, run_llamacpp, tolerance
from packed import rounded

NAME, SEED = "baichuan-alibi-f16", 51
LAYERS, HEADS, HEAD_DIM, N_FF, EPS = 40, 3, 8, 8, 1e-6
WIDTH = HEADS * HEAD_DIM
SINKS, WINDOW, PROMPT = 4, 24, 50
SHAPES = {"attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH), "attn_output": (WIDTH, WIDTH),
          "ffn_gate": (N_FF, WIDTH), "ffn_up": (N_FF, WIDTH), "ffn_down": (WIDTH, N_FF)}


def draw() -> dict:
    """As in generate.py: attention far from uniform. What is added to the residual stream is smaller, as there are 40 layers."""
    rng = np.random.default_rng(SEED)

    def normal(gain, *shape):
        return (gain / math.sqrt(shape[-1]) * rng.standard_normal(shape)).astype(np.float16)

    def norm():
        return (1 + 0.2 * rng.standard_normal(WIDTH)).astype(np.float32)

    gains = {"attn_q": 1.4, "attn_k": 1.4, "attn_output": 0.5, "ffn_down": 0.5}
    w = {"token_embd.weight": normal(math.sqrt(WIDTH), VOCAB, WIDTH), "output.weight": normal(1, VOCAB, WIDTH), "output_norm.weight": norm()}
    for i in range(LAYERS):
        w |= {f"blk.{i}.{name}.weight": normal(gains.get(name, 1), *shape) for name, shape in SHAPES.items()}
        w |= {f"blk.{i}.{name}.weight": norm() for name in ("attn_norm", "ffn_norm")}
    return w


def write(w: dict, path: Path):
    import gguf
    f = gguf.GGUFWriter(path, "baichuan")
    f.add_name(NAME)
    f.add_block_count(LAYERS)
    f.add_context_length(2048)
    f.add_embedding_length(WIDTH)
    f.add_feed_forward_length(N_FF)
    f.add_head_count(HEADS)
    f.add_head_count_kv(HEADS)
    f.add_layer_norm_rms_eps(EPS)
    f.add_rope_dimension_count(HEAD_DIM)  # converters write it for these models too
    f.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    pieces = [("<unk>", 2), ("<s>", 3), ("</s>", 3), *((f"<0x{b:02X}>", 6) for b in range(256)),
              *((p, 1) for p in ("\u2581t", "th", "\u2581", "t", "h"))]
    assert len(pieces) == VOCAB
    f.add_tokenizer_model("llama")
    f.add_token_list([text for text, _ in pieces])
    f.add_token_scores([-float(i) for i in range(VOCAB)])
    f.add_token_types([kind for _, kind in pieces])
    f.add_bos_token_id(1)
    f.add_eos_token_id(2)
    for name, x in w.items():
        f.add_tensor(name, x)
    f.write_header_to_file()
    f.write_kv_data_to_file()
    f.write_tensors_to_file()
    f.close()


def slopes() -> np.ndarray:
    p = 2 ** int(math.log2(HEADS))
    series = lambda p: [2.0 ** (-8 * (i + 1) / p) for i in range(p)]  # noqa: E731
    return np.array(series(p) + series(2 * p)[::2][:HEADS - p])


def forward(w: dict, ids, bounded_from=N_TOKENS) -> np.ndarray:
    """Tokens from `bounded_from` on see only the first SINKS tokens, the WINDOW before them, and themselves."""
    w = {name: x.astype(np.float64) for name, x in w.items()}
    n = len(ids)
    at = np.arange(n)
    bias = slopes()[:, None, None] * (at[None, :] - at[:, None])  # [heads, query, key]
    query, key = at[:, None], at[None, :]
    gone = (query >= bounded_from) & (key >= SINKS) & (key < query - WINDOW)
    bias[:, (key > query) | gone] = -np.inf

    def norm(x, weight):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + EPS) * weight

    x = w["token_embd.weight"][ids]
    for i in range(LAYERS):
        layer = {name: w[f"blk.{i}.{name}.weight"] for name in [*SHAPES, "attn_norm", "ffn_norm"]}
        h = norm(x, layer["attn_norm"])
        q, k, v = ((h @ layer[name].T).reshape(n, HEADS, HEAD_DIM).transpose(1, 0, 2) for name in ("attn_q", "attn_k", "attn_v"))
        logits = q @ k.transpose(0, 2, 1) / math.sqrt(HEAD_DIM) + bias
        p = np.exp(logits - logits.max(-1, keepdims=True))
        out = (p / p.sum(-1, keepdims=True)) @ v
        x = x + out.transpose(1, 0, 2).reshape(n, WIDTH) @ layer["attn_output"].T
        h = norm(x, layer["ffn_norm"])
        gate = h @ layer["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ layer["ffn_up"].T)) @ layer["ffn_down"].T
    return (norm(x, w["output_norm.weight"]) @ w["output.weight"].T).astype(np.float32)


def make(out: Path, dumper: Path, work: Path, logits: dict) -> dict:
    w, path = draw(), out / "models" / f"{NAME}.gguf"
    write(w, path)
    ids = [int(i) for i in np.random.default_rng(1000 + SEED).integers(3, VOCAB, N_TOKENS)]
    ids[50:80] = ids[10:40]
    plain, ours = forward(w, ids), run_llamacpp(dumper, path, ids, work)
    seen = differ(plain, ours)
    bounded = {"from_the_beginning": 0, "after_the_prompt": PROMPT}
    for name, first in bounded.items():
        logits[f"{NAME}.{name}"] = rounded(forward(w, ids, first)[PROMPT:], packed.LOGITS)
    spread = {k: differ(ours, run_llamacpp(dumper, path, ids, work, *v)) for k, v in generate.VARIANTS.items()}
    logits |= {f"{NAME}.numpy": kept(plain), f"{NAME}.llamacpp": kept(ours)}
    print(f"{NAME:26} {path.stat().st_size:7d} bytes  std {plain.std():.2f}  numpy to llama.cpp {seen['max_abs']:.1e} (rms {seen['rms']:.1e})")
    return {
        "name": NAME, "gguf": f"models/{NAME}.gguf", "architecture": "baichuan", "tensor_types": ["F16", "F32"], "tokens": ids,
        "logits_numpy": f"{NAME}.numpy", "logits_llamacpp": f"{NAME}.llamacpp",
        "tolerance_numpy": tolerance("f16", [seen]), "tolerance_llamacpp": tolerance("f16", list(spread.values())),
        "seen": {"numpy_to_llamacpp": seen, "llamacpp_to_itself": spread, "logits_std": round(float(plain.std()), 3),
                 "same_top1": int((plain.argmax(1) == ours.argmax(1)).sum())},
        "bounded": {"policy": f"streaming:sinks={SINKS},window={WINDOW},slack=0", "prompt": PROMPT,
                    **{name: f"{NAME}.{name}" for name in bounded}},
        "intermediates": False,
        "provenance": f"baichuan.py, model seed {SEED}, token seed {1000 + SEED}",
    }


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llama-cpp", type=Path, required=True)
    ap.add_argument("--dumper", type=Path, required=True)
    ap.add_argument("--work", type=Path, required=True)
    ap.add_argument("--out", type=Path, default=HERE)
    a = ap.parse_args()
    sys.path.insert(0, str(a.llama_cpp / "gguf-py"))
    a.work.mkdir(parents=True, exist_ok=True)
    doc = json.loads((a.out / "index.json").read_text())
    logits = packed.read_logits(a.out / "logits.br")
    doc["cases"] = [case for case in doc["cases"] if case["name"] != NAME] + [make(a.out, a.dumper, a.work, logits)]
    packed.compress(a.out / "models" / f"{NAME}.gguf")
    packed.write_logits(a.out / "logits.br", logits)
    generate.write_index(a.out, doc)


if __name__ == "__main__":
    main()
