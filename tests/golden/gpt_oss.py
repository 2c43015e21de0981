#!/usr/bin/env python3
"""Makes `families/gpt-oss-ramp-f32`: the weights of `gpt-oss-window` with YaRN's ramp as gpt-oss has it, from one fraction of a pair
of elements to another. llama.cpp rounds the ramp. So the logits come from the NumPy forward pass below, in float64. With the
window's own ramp it gives the logits that transformers gives, which `main` checks.

Run it after families.py has made `gpt-oss-window`.
"""
import math
import tempfile
from pathlib import Path

import numpy as np
from gguf import GGUFReader

import packed

FAMILIES = Path(__file__).resolve().parent / "families"
SOURCE, NAME, BETA_SLOW = "gpt-oss-window-f32", "gpt-oss-ramp-f32", 1.0
KEY = b"gpt-oss.rope.scaling.yarn_beta_slow" + (6).to_bytes(4, "little")  # its type is f32


def rms(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def frequencies(meta, dims):
    """YaRN's frequencies `[dims / 2]`, and the factor of magnitudes."""
    base, factor, original = (meta[key] for key in ("rope.freq_base", "rope.scaling.factor", "rope.scaling.original_context_length"))
    pair = lambda beta: dims * math.log(original / (beta * 2 * math.pi)) / (2 * math.log(base))
    low = max(pair(meta["rope.scaling.yarn_beta_fast"]), 0)
    high = min(pair(meta["rope.scaling.yarn_beta_slow"]), dims - 1)
    ramp = np.clip((np.arange(dims // 2) - low) / (high - low), 0, 1)
    plain = base ** (-np.arange(0, dims, 2) / dims)
    return plain / factor * ramp + plain * (1 - ramp), 0.1 * math.log(factor) + 1


def forward(path, ids):
    """The logits of all tokens."""
    reader = GGUFReader(path)
    meta = {key.removeprefix("gpt-oss."): field.contents() for key, field in reader.fields.items() if key.startswith("gpt-oss.")}
    w = {t.name: np.array(t.data, dtype=np.float64) for t in reader.tensors}
    dims, heads, kv_heads = meta["attention.key_length"], meta["attention.head_count"], meta["attention.head_count_kv"]
    n = len(ids)
    freqs, magnitude = frequencies(meta, dims)
    angle = np.outer(np.arange(n), freqs)[:, None]
    cos, sin = np.cos(angle) * magnitude, np.sin(angle) * magnitude

    def rope(x):
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["token_embd.weight"][ids]
    distance = np.arange(n)[:, None] - np.arange(n)
    for i in range(meta["block_count"]):
        of = lambda name: w[f"blk.{i}.{name}"]
        linear = lambda name, y: y @ of(f"{name}.weight").T + of(f"{name}.bias")
        h = rms(x, of("attn_norm.weight"))
        q, k, v = (linear(f"attn_{part}", h).reshape(n, -1, dims) for part in "qkv")
        q, k = rope(q), rope(k)
        hidden = (distance < 0) | ((distance >= meta["attention.sliding_window"]) if i % 2 == 0 else False)
        attended = []
        for head in range(heads):
            kv = head // (heads // kv_heads)
            scores = np.where(hidden, -np.inf, q[:, head] @ k[:, kv].T / math.sqrt(dims))
            scores = np.concatenate([scores, np.full((n, 1), of("attn_sinks.weight")[head])], -1)
            p = np.exp(scores - scores.max(-1, keepdims=True))
            attended.append((p / p.sum(-1, keepdims=True))[:, :-1] @ v[:, kv])
        x = x + linear("attn_output", np.concatenate(attended, -1))
        h = rms(x, of("post_attention_norm.weight"))
        router = linear("ffn_gate_inp", h)
        for t in range(n):
            chosen = np.argsort(-router[t])[: meta["expert_used_count"]]
            share = np.exp(router[t, chosen] - router[t, chosen].max())
            for expert, part in zip(chosen, share / share.sum()):
                one = lambda name, y: of(f"ffn_{name}_exps.weight")[expert] @ y + of(f"ffn_{name}_exps.bias")[expert]
                gate, up = np.minimum(one("gate", h[t]), 7), np.clip(one("up", h[t]), -7, 7)
                x[t] += part * one("down", (up + 1) * gate / (1 + np.exp(-1.702 * gate)))
    return rms(x, w["output_norm.weight"]) @ w["output.weight"].T


def main():
    index = packed.read(FAMILIES / "index.json.br")
    source = next(entry for entry in index if entry["name"] == SOURCE)
    all_logits = packed.read_logits(FAMILIES / "logits.br")
    golden = np.array(all_logits[SOURCE]).reshape(-1, 264)
    models = packed.read_models(FAMILIES / "models.br")
    model = models[SOURCE]
    at = model.index(KEY) + len(KEY)
    changed = model[:at] + np.float32(BETA_SLOW).tobytes() + model[at + 4 :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        path.write_bytes(model)
        difference = np.abs(forward(path, source["tokens"])[-len(golden) :] - golden).max()
        assert difference < 7e-5, difference  # most of it is rounding
        path.write_bytes(changed)
        logits = forward(path, source["tokens"])[-len(golden) :].astype(np.float32)
    print(f"{SOURCE} differs from transformers by {difference:.1e}, {NAME} from {SOURCE} by {np.abs(logits - golden).max():.2f}")
    packed.write_models(FAMILIES / "models.br", models | {NAME: changed})
    packed.write_logits(FAMILIES / "logits.br", all_logits | {NAME: packed.rounded(logits, packed.LOGITS)})
    entry = source | {"name": NAME, "reference": "numpy"}
    index = [entry for entry in index if entry["name"] != NAME] + [entry]
    packed.write(FAMILIES / "index.json.br", index)


if __name__ == "__main__":
    main()
