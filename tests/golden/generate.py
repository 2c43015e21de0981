#!/usr/bin/env python3
"""Makes the golden models and logits in this folder: tiny random models of each architecture, what Hugging Face
transformers computes for them and what llama.cpp computes for them. The tests read only the files; they need no Python.

README.md beside this file has the versions, the command and the tolerances seen. Everything is seeded; two runs with the
same versions give the same models byte for byte (logits up to the machine's order of float sums).

The GGUF files are written by llama.cpp's own converter and quantizer, so names, layouts (Q and K rows permuted for the
`llama` architecture, not for `qwen2` and `qwen3`) and metadata are what users' files have.
"""
import argparse
import dataclasses
import json
import math
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import sentencepiece.sentencepiece_model_pb2 as spm
import torch
import transformers
from safetensors.torch import save_file

import packed
from packed import rounded

VOCAB = 264
N_TOKENS = 80  # no multiple of 32 or 64 on purpose
EVERY = 4  # logits of every fourth token are kept, the last one among them
N_INTERMEDIATE = 16  # tokens; attention is causal, so these equal the first rows of the full run
HERE = Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    arch: str  # llama | qwen2 | qwen3
    seed: int
    heads: int
    kv_heads: int
    tied: bool
    hidden: int = 32
    head_dim: int = 16  # qwen2 has no such setting: there it must be hidden / heads
    n_ff: int = 48
    layers: int = 2
    theta: float = 10000.0
    scaling: dict | None = None
    positions: int = 2048
    tokenizer: str = "bpe"  # bpe | spm
    packs: bool = True  # weights of -1, 0 or 1 times a scale, which brotli makes a tenth of


@dataclasses.dataclass(frozen=True)
class Case:
    model: str
    kind: str  # f32 | f16 | q8_0 by the converter; q4_k_m | q6_k by the quantizer
    intermediates: bool = False


LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}  # short, so that all three regimes occur among 8 frequencies
MODELS = [
    Model("llama-mha", "llama", 11, heads=4, kv_heads=4, tied=False, tokenizer="spm"),
    # With weights of any value.
    Model("llama-gqa-llama3rope", "llama", 12, heads=8, kv_heads=2, tied=True, scaling=LLAMA3_ROPE, packs=False),
    Model("llama-gqa-linear", "llama", 13, heads=4, kv_heads=2, tied=False, scaling={"rope_type": "linear", "factor": 4.0}),
    Model("qwen2-gqa", "qwen2", 21, heads=4, kv_heads=2, tied=True, hidden=64, n_ff=64, theta=1e6),
    Model("qwen2-mha-yarn", "qwen2", 22, heads=2, kv_heads=2, tied=False, positions=128,
          scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
    Model("qwen3-gqa", "qwen3", 31, heads=8, kv_heads=2, tied=False, theta=1e6),
    Model("qwen3-mha", "qwen3", 32, heads=2, kv_heads=2, head_dim=32, tied=True, theta=1e6),
    # K-quants need rows of 256.
    Model("llama-wide-mqa", "llama", 41, heads=4, kv_heads=1, head_dim=64, tied=True, hidden=256, n_ff=256, layers=1),
    Model("qwen3-wide-mqa", "qwen3", 43, heads=4, kv_heads=1, head_dim=64, tied=True, hidden=256, n_ff=256, layers=1, theta=1e6),
]
# Tests open these as files. All others are compressed.
FILES = ("llama-gqa-llama3rope-f32", "llama-gqa-llama3rope-f16")
CASES = [
    Case("llama-mha", "f32"),
    Case("llama-gqa-llama3rope", "f32", intermediates=True),
    Case("llama-gqa-linear", "f32"),
    Case("qwen2-gqa", "f32"),
    Case("qwen2-mha-yarn", "f32"),
    Case("qwen3-gqa", "f32", intermediates=True),
    Case("qwen3-mha", "f32"),
    Case("llama-gqa-llama3rope", "f16"),
    Case("qwen2-gqa", "q8_0"),
    Case("llama-wide-mqa", "q4_k_m"),
    Case("qwen3-wide-mqa", "q6_k"),
]


# ---- the models ---------------------------------------------------------------------------------------------------------

def config(m: Model):
    common = dict(vocab_size=VOCAB, hidden_size=m.hidden, intermediate_size=m.n_ff, num_hidden_layers=m.layers,
                  num_attention_heads=m.heads, num_key_value_heads=m.kv_heads, max_position_embeddings=m.positions,
                  rope_theta=m.theta, rope_scaling=m.scaling, tie_word_embeddings=m.tied, bos_token_id=1, eos_token_id=2)
    if m.arch == "llama":
        return transformers.LlamaConfig(**common, head_dim=m.head_dim, rms_norm_eps=1e-5, architectures=["LlamaForCausalLM"])
    if m.arch == "qwen2":
        assert m.head_dim == m.hidden // m.heads, m.name
        return transformers.Qwen2Config(**common, rms_norm_eps=1e-6, architectures=["Qwen2ForCausalLM"])
    return transformers.Qwen3Config(**common, head_dim=m.head_dim, rms_norm_eps=1e-6, architectures=["Qwen3ForCausalLM"])


def build(m: Model, weights=None):
    """The transformers model, float32, eager attention; `weights` = state dict, else drawn from the model's seed."""
    c = config(m)
    c._attn_implementation = "eager"
    net = {"llama": transformers.LlamaForCausalLM, "qwen2": transformers.Qwen2ForCausalLM,
           "qwen3": transformers.Qwen3ForCausalLM}[m.arch](c).float().eval()
    state = net.state_dict()
    if weights is None:
        weights = draw(m, state)
    net.load_state_dict(weights, strict=True)
    net.tie_weights()
    return net


def draw(m: Model, state: dict) -> dict:
    """Weights that give logits of unit scale and attention that is far from uniform: a score q.k/sqrt(d) has a standard
    deviation of about 2, where Xavier-like weights would give about 1/3 and hide a wrong mask or a wrong position."""
    rng = np.random.default_rng(m.seed)
    out = {}
    for name in sorted(state):
        shape = tuple(state[name].shape)
        if name.endswith("norm.weight"):
            gain = 1.4 if ("q_norm" in name or "k_norm" in name) else 1.0
            x = gain * (1 + 0.2 * rng.standard_normal(shape))
        elif name.endswith(".bias"):
            x = 0.5 * rng.standard_normal(shape)
        else:
            gain = (1.4 if ("q_proj" in name or "k_proj" in name) else 1.0) / math.sqrt(shape[-1])
            # Of the same standard deviation.
            x = gain * (math.sqrt(1.5) * rng.integers(-1, 2, shape) if m.packs else rng.standard_normal(shape))
        out[name] = torch.from_numpy(x.astype(np.float32))
    if m.tied:
        out["lm_head.weight"] = out["model.embed_tokens.weight"]
    return out


def tokens(m: Model) -> list[int]:
    """Random ids whose last 30 repeat an earlier stretch."""
    ids = np.random.default_rng(1000 + m.seed).integers(3, VOCAB, N_TOKENS)
    ids[50:80] = ids[10:40]
    return [int(i) for i in ids]


# ---- tokenizers: small but complete, so that the files load everywhere ---------------------------------------------------

def write_bpe(folder: Path, ignore_merges: bool):
    from transformers.convert_slow_tokenizer import bytes_to_unicode
    special = ["<|unused|>", "<|begin_of_text|>", "<|end_of_text|>"]
    letters = list(bytes_to_unicode().values())
    merges = [("h", "e"), ("Ġ", "t"), ("Ġt", "he"), ("i", "n"), ("e", "r")]
    vocab = {t: i for i, t in enumerate(special + letters + ["".join(p) for p in merges])}
    assert len(vocab) == VOCAB
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, t in enumerate(special)]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": ignore_merges,
                  "vocab": vocab, "merges": [" ".join(p) for p in merges]},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": special[1], "eos_token": special[2], "add_bos_token": False}))


def write_spm(folder: Path):
    proto = spm.ModelProto()
    kind = spm.ModelProto.SentencePiece.Type
    pieces = [("<unk>", 0.0, kind.UNKNOWN), ("<s>", 0.0, kind.CONTROL), ("</s>", 0.0, kind.CONTROL)]
    pieces += [(f"<0x{b:02X}>", 0.0, kind.BYTE) for b in range(256)]
    pieces += [(p, -float(i), kind.NORMAL) for i, p in enumerate(["\u2581t", "th", "\u2581", "t", "h"])]
    assert len(pieces) == VOCAB
    for text, score, type_ in pieces:
        p = proto.pieces.add()
        p.piece, p.score, p.type = text, score, type_
    proto.trainer_spec.model_type = spm.TrainerSpec.ModelType.BPE
    proto.trainer_spec.vocab_size = VOCAB
    proto.trainer_spec.byte_fallback = True
    proto.trainer_spec.unk_id, proto.trainer_spec.bos_id, proto.trainer_spec.eos_id = 0, 1, 2
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = True
    proto.normalizer_spec.remove_extra_whitespaces = False
    (folder / "tokenizer.model").write_bytes(proto.SerializeToString(deterministic=True))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
        "add_bos_token": True, "add_eos_token": False}))


# ---- GGUF ---------------------------------------------------------------------------------------------------------------

def convert(m: Model, folder: Path, kind: str, out: Path):
    from conversion import get_model_class
    from conversion.base import TextModel
    import gguf
    # The converter recognises a pre-tokenizer by a hash over the whole vocabulary; ours is nobody's, so it is named here.
    TextModel.get_vocab_base_pre = lambda self, tokenizer: "llama-bpe" if m.arch == "llama" else "qwen2"
    ftype = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}[kind]
    cls = get_model_class(config(m).architectures[0])
    with torch.inference_mode():
        cls(folder, ftype, out, model_name=m.name).write()


HF_NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
            "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def weights_of_file(m: Model, path: Path) -> dict:
    """What the GGUF file holds, dequantised to float32 under transformers' names."""
    import gguf
    out = {}
    for t in gguf.GGUFReader(path).tensors:
        x = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        parts = t.name.split(".")
        if t.name == "rope_freqs.weight":
            continue
        if parts[0] == "blk":
            if m.arch == "llama" and parts[2] in ("attn_q", "attn_k"):
                x = rows_to_halves(x, m.heads if parts[2] == "attn_q" else m.kv_heads)
            name = f"model.layers.{parts[1]}.{HF_NAMES[parts[2]]}.{parts[3]}"
        else:
            name = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
                    "output.weight": "lm_head.weight"}[t.name]
        out[name] = torch.from_numpy(np.ascontiguousarray(x))
    if m.tied:
        out["lm_head.weight"] = out["model.embed_tokens.weight"]
    return out


def rows_to_halves(x, heads):
    """From GGUF's order of the rows of a head (pairs side by side) to transformers' (first halves, then second halves)."""
    d = x.shape[0] // heads
    return x.reshape(heads, d // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)


def halves_to_pairs(x):
    """The other way round, along the last axis of [tokens, heads, head_dim]."""
    n, h, d = x.shape
    return x.reshape(n, h, 2, d // 2).swapaxes(2, 3).reshape(n, h, d)


# ---- running ------------------------------------------------------------------------------------------------------------

def run_hf(net, ids) -> np.ndarray:
    with torch.inference_mode():
        return net(torch.tensor([ids]), use_cache=False).logits[0].numpy().astype(np.float32)


def run_llamacpp(dumper: Path, model: Path, ids, work: Path, *options) -> np.ndarray:
    out = work / "logits.npy"
    subprocess.run([dumper, model, ",".join(map(str, ids)), out, *options], check=True)
    return np.load(out)


def intermediates(m: Model, net, ids) -> dict:
    """Named as llama.cpp names them in its graph (layer number after the dash), [tokens, …]; Qcur, Kcur and Vcur are
    [tokens, heads, head_dim] after RoPE, in the row order of the GGUF file."""
    got = {}
    module = sys.modules[type(net).__module__]
    rope = module.apply_rotary_pos_emb
    layer = [0]

    def keep(name, x):
        got[name] = x[0].detach().numpy().astype(np.float32)

    def spy(q, k, *rest, **kw):
        q, k = rope(q, k, *rest, **kw)
        for name, x in (("Qcur", q), ("Kcur", k)):
            x = x[0].transpose(0, 1).detach().numpy()
            got[f"{name}-{layer[0]}"] = (halves_to_pairs(x) if m.arch == "llama" else x).astype(np.float32)
        return q, k

    hooks = [net.model.embed_tokens.register_forward_hook(lambda _m, _i, o: keep("embd", o)),
             net.model.norm.register_forward_hook(lambda _m, _i, o: keep("result_norm", o))]
    for i, block in enumerate(net.model.layers):
        def hook(name, i=i):
            return lambda _m, _i, o: keep(f"{name}-{i}", o[0] if isinstance(o, tuple) else o)
        hooks += [
            block.register_forward_pre_hook(lambda _m, _i, i=i: layer.__setitem__(0, i)),
            block.input_layernorm.register_forward_hook(hook("attn_norm")),
            block.self_attn.v_proj.register_forward_hook(hook("Vcur")),
            block.self_attn.o_proj.register_forward_pre_hook(lambda _m, a, i=i: keep(f"kqv_out-{i}", a[0])),
            block.self_attn.o_proj.register_forward_hook(hook("attn_out")),
            block.post_attention_layernorm.register_forward_hook(hook("ffn_norm")),
            block.mlp.register_forward_hook(hook("ffn_out")),
            block.register_forward_hook(hook("l_out")),
        ]
    module.apply_rotary_pos_emb = spy
    try:
        run_hf(net, ids[:N_INTERMEDIATE])
    finally:
        module.apply_rotary_pos_emb = rope
        for h in hooks:
            h.remove()
    for name in got:
        if name.startswith("Vcur"):
            got[name] = got[name].reshape(len(got[name]), m.kv_heads, m.head_dim)
    return got


# How much llama.cpp's own answer moves when only the order of the work changes. Quantised products round the activations, so
# a last-bit difference can flip a rounding: no second implementation can be closer than this.
VARIANTS = {"token by token": ["--ubatch", "1"], "flash attention": ["--fa"], "repacked weights": ["--repack"]}


def above(x: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    p = 10.0 ** math.floor(math.log10(x))
    return float(f"{next(s * p for s in (1, 2, 5, 10) if s * p >= x):.0e}")


def differ(a, b) -> dict:
    d = a.astype(np.float64) - b
    return {"max_abs": float(f"{np.max(np.abs(d)):.2e}"), "rms": float(f"{np.sqrt(np.mean(d * d)):.2e}")}


def kept(logits: np.ndarray) -> list:
    """What `logits.br` holds of the logits of all tokens."""
    return rounded(logits[EVERY - 1 :: EVERY], packed.LOGITS)


def tolerance(kind: str, seen: list[dict]) -> dict:
    """Twice what the references themselves differ by; for F32 the fixed 1e-3 that the project promises."""
    if kind == "f32":
        return {"max_abs": 1e-3, "rms": 1e-4}
    return {k: above(2 * max(x[k] for x in seen)) for k in ("max_abs", "rms")}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llama-cpp", type=Path, required=True, help="llama.cpp's source folder (its converter is used)")
    ap.add_argument("--llama-quantize", type=Path, required=True, help="the built llama-quantize")
    ap.add_argument("--dumper", type=Path, required=True, help="llamacpp_logits.cpp, built")
    ap.add_argument("--work", type=Path, required=True, help="a folder for what is not kept")
    ap.add_argument("--out", type=Path, default=HERE)
    a = ap.parse_args()
    sys.path[:0] = [str(a.llama_cpp), str(a.llama_cpp / "gguf-py")]
    import gguf  # noqa: F401  the converter's own, now first on the path
    torch.set_num_threads(1)
    shutil.rmtree(a.out / "models", ignore_errors=True)
    (a.out / "models").mkdir(parents=True)
    a.work.mkdir(parents=True, exist_ok=True)
    models = {m.name: m for m in MODELS}
    index, logits, steps = [], {}, {}
    for case in CASES:
        m = models[case.model]
        name = f"{m.name}-{case.kind}"
        folder = a.work / m.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        net = build(m)
        config(m).save_pretrained(folder)
        state = {k: v.contiguous() for k, v in net.state_dict().items() if not (m.tied and k == "lm_head.weight")}
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        write_spm(folder) if m.tokenizer == "spm" else write_bpe(folder, ignore_merges=m.arch == "llama")

        path = a.out / "models" / f"{name}.gguf"
        if case.kind in ("q4_k_m", "q6_k"):
            full = a.work / f"{m.name}-f32.gguf"
            convert(m, folder, "f32", full)
            subprocess.run([a.llama_quantize, full, path, case.kind.upper(), "1"], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        else:
            convert(m, folder, case.kind, path)
        ids = tokens(m)
        # The F32 reference comes from the weights themselves, so it also proves what the converter wrote.
        hf = run_hf(net if case.kind == "f32" else build(m, weights_of_file(m, path)), ids)
        ours = run_llamacpp(a.dumper, path, ids, a.work)
        assert hf.shape == ours.shape == (N_TOKENS, VOCAB) and np.isfinite(hf).all() and np.isfinite(ours).all()
        spread = {k: differ(ours, run_llamacpp(a.dumper, path, ids, a.work, *v)) for k, v in VARIANTS.items()}
        seen = differ(hf, ours)
        entry = {
            "name": name, "gguf": f"models/{name}.gguf", "architecture": m.arch, "tensor_types": types_in(path), "tokens": ids,
            "seen": {"hf_to_llamacpp": seen, "llamacpp_to_itself": spread, "logits_std": round(float(hf.std()), 3),
                     "same_top1": int((hf.argmax(1) == ours.argmax(1)).sum())},
            "intermediates": case.intermediates,
            "provenance": f"generate.py, model seed {m.seed}, token seed {1000 + m.seed}",
        }
        # Rounding of activations, which transformers does not do, moves other models away from it.
        if case.kind == "f32":
            entry["logits_hf"] = f"{name}.hf"
            logits[entry["logits_hf"]] = kept(hf)
            entry["tolerance_hf"] = tolerance(case.kind, [seen])
            # One file for both: their difference is a fiftieth of the tolerance.
            assert seen["max_abs"] < 2e-5, (name, seen)
        else:
            entry["logits_llamacpp"] = f"{name}.llamacpp"
            logits[entry["logits_llamacpp"]] = kept(ours)
            entry["tolerance_llamacpp"] = tolerance(case.kind, list(spread.values()))
        if case.intermediates:
            steps[name] = {key: rounded(x, packed.STEPS) for key, x in intermediates(m, net, ids).items()}
        index.append(entry)
        print(f"{name:26} {path.stat().st_size:7d} bytes  std {hf.std():.2f}  HF to llama.cpp {seen['max_abs']:.1e} "
              f"(rms {seen['rms']:.1e})  " + "  ".join(f"{k} {v['max_abs']:.1e} ({v['rms']:.1e})" for k, v in spread.items()), flush=True)
    import baichuan
    index.append(baichuan.make(a.out, a.dumper, a.work, logits))
    for path in (a.out / "models").glob("*.gguf"):
        if path.stem not in FILES:
            packed.compress(path)
    packed.write_logits(a.out / "logits.br", logits)
    packed.write(a.out / "intermediates.json.br", steps)
    doc = {
        "about": "Logits float32 [tokens / 4, vocab]; row i follows token 4 * i + 3. Differences must stay below the tolerances.",
        "made_with": {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
                      "numpy": np.__version__, "llama.cpp": "vendored in llama-cpp-python 0.3.36 (PyPI), F32 cache, no flash attention, no repacking, 1 thread"},
        "cases": index,
    }
    write_index(a.out, doc)


def write_index(out: Path, doc: dict):
    text = json.dumps(doc, indent=1)
    # The token lists on one line each.
    for entry in doc["cases"]:
        text = text.replace(json.dumps(entry["tokens"], indent=1).replace("\n", "\n   "), json.dumps(entry["tokens"]))
    (out / "index.json").write_text(text + "\n")


def types_in(path: Path) -> list[str]:
    import gguf
    return sorted({t.tensor_type.name for t in gguf.GGUFReader(path).tensors})


if __name__ == "__main__":
    main()
