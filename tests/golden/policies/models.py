#!/usr/bin/env python3
"""Makes `models.json.br`: the positions that every policy keeps in models of `../families`, one or more of each kind of attention.

Hugging Face transformers computes the models. What a policy keeps is chosen by `reference.py` from the keys, values and
queries that it computes, after a prompt and after each of some steps. In these steps a token sees the rows that are kept,
and no others, so that later layers compute from what earlier ones have kept. `../README.md` has the command.

A choice counts only if it is clear: the last score that stays and the first that goes differ by `MARGIN` at least, and what
is kept stays the same with noise on all keys, values and queries, because devices multiply in f16. It must also depend on the model's soft cap, sinks or ALiBi, if there are any and the policy looks at attention. Otherwise the policy
gets a row more, and after some attempts all policies get another text."""
import functools
import logging
import sys
from pathlib import Path

import numpy as np
import torch

import reference as R

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import families  # noqa: E402
import packed  # noqa: E402

MARGIN = 2e-4
NOISE, NOISY_RUNS = 1e-3, 3  # of each number
STEPS = 9
LATER = 7  # of the tokens that follow, those that KVzip keeps
LOGITS = 3
SINKS = 4.0  # added to the sinks, which are too small in the file to change what is kept
CHUNK = 24  # tokens computed at a time; the second reading repeats parts of as many
# The models, and the tokens of a prompt. GPT-2 has 64 positions.
MODELS = {
    "internlm2-gqa": 72,  # query heads share KV heads
    "gemma-mqa": 72,  # one KV head
    "gemma2-gqa": 72,  # soft caps, layers with a sliding window
    "gemma3-mqa": 72,  # norms of queries and keys, layers with a sliding window
    "gemma4-shared-kv": 72,  # heads of two sizes, layers that attend to the rows of others
    "gpt-oss-window": 72,  # sinks
    "bloom-4": 72,  # ALiBi
    "mpt-bias16": 72,  # ALiBi with steeper slopes, clipped keys and values
    "deepseek2-lite": 72,  # latent attention
    "qwen35-gqa": 72,  # recurrent layers, RoPE of a part of each head
    "gpt2-4": 52,  # learned positions
}


# ------------------------------------------------------------------------ the models
class Layer:
    """What a layer has computed: K, V [n_kv, n, d], Q [n_head, n, d], and how it makes logits."""

    def __init__(self, K, V, Q, rule):
        self.K, self.V, self.Q, self.rule = (*(R.f64(x) for x in (K, V, Q)), rule)


class Model:
    """A model of transformers whose attention is watched, and whose tokens may be kept from seeing rows."""

    def __init__(self, name):
        self.number, self.case = next((number, case) for number, case in families.CASES if case.name == name)
        self.net = families.build(self.case, 100 + self.number + 1000 * self.case.seed)
        self.layers, self.hidden, self.random = {}, {}, None
        self.latents = {}  # of deepseek2: the normed latent vectors of each layer
        for module in self.net.modules():
            kind = type(module).__name__
            if kind in ("BloomAttention", "MptAttention"):
                module.register_forward_pre_hook(self.before_alibi, with_kwargs=True)
                (module.query_key_value if kind == "BloomAttention" else module.Wqkv).register_forward_hook(self.after_fused)
            if kind == "DeepseekV2Attention":
                module.kv_a_layernorm.register_forward_hook(
                    lambda _, __, latents, layer=module.layer_idx: self.latents.__setitem__(layer, latents[0]))
        modeling = sys.modules[type(self.net).__module__]
        if hasattr(modeling, "eager_attention_forward"):
            eager = modeling.eager_attention_forward
            modeling.eager_attention_forward = lambda *args, **kwargs: self.attend(eager, *args, **kwargs)

    def compute(self, tokens, hidden=None):
        """The logits [n, vocabulary] of the tokens, and the global layers by their numbers.

        hidden: for a layer the rows [n_head, n, n] that a query must not see."""
        self.layers, self.hidden = {}, hidden or {}
        with torch.inference_mode():
            logits = self.net(torch.tensor([list(tokens)]), use_cache=False).logits[0].numpy()
        return logits, self.layers

    def check(self):
        """Compares the logits with those in `../families`. Raises the sinks after that, and returns by how much."""
        name = f"{self.case.name}-f32"
        folder = HERE.parent / "families"
        index = packed.read(folder / "index.json.br")
        tokens = next(entry["tokens"] for entry in index if entry["name"] == name)
        want = np.array(packed.read_logits(folder / "logits.br")[name]).reshape(-1, families.VOCAB)
        difference = np.abs(self.compute(tokens)[0][-len(want):] - want).max()
        assert difference < 1e-4, (name, difference)
        sinks = [weight for name, weight in self.net.named_parameters() if name.endswith("sinks")]
        with torch.no_grad():
            for weight in sinks:
                weight.add_(SINKS)
        return SINKS if sinks else 0.0

    def mask(self, layer, mask):
        """An attention mask, with what is hidden in this layer."""
        if layer not in self.hidden:
            return mask
        hidden = torch.from_numpy(self.hidden[layer])[None]
        if mask.dtype == torch.bool:
            return mask | hidden
        return mask.masked_fill(hidden, torch.finfo(mask.dtype).min)

    def noisy(self, x):
        """With noise, where `self.random` draws it."""
        if self.random is None:
            return x
        return x * (1 + NOISE * torch.from_numpy(self.random.standard_normal(x.shape).astype(np.float32)))

    def attend(self, eager, module, query, key, value, mask, **options):
        """Attention by transformers, which is given the queries, keys and values after RoPE."""
        layer = module.layer_idx
        query, key, value = self.noisy(query), self.noisy(key), self.noisy(value)
        if getattr(module, "sliding_window", None) is None:
            sinks = options.get("s_aux")
            rule = R.LogitRule(options["scaling"], options.get("softcap"), None, None if sinks is None else R.f64(sinks))
            if getattr(module, "is_kv_shared_layer", False):
                layer = max(self.layers)  # whose rows it attends to
            elif layer in self.latents:
                self.layers[layer] = self.latent(module, query[0], key[0], rule)
            else:
                self.layers[layer] = Layer(key[0], value[0], query[0], rule)
        return eager(module, query, key, value, self.mask(layer, mask), **options)

    def latent(self, module, query, key, rule):
        """The rows that longhand stores for latent attention: the latent vector and the key that is rotated, once for all
        heads, and the same row for the values. Queries are taken to them, which changes no logit."""
        plain, rank = module.qk_nope_head_dim, module.kv_lora_rank
        up = module.kv_b_proj.weight.view(-1, plain + module.v_head_dim, rank)[:, :plain]  # [n_head, plain, rank]
        queries = torch.cat([query[..., :plain] @ up, query[..., plain:]], -1)
        rows = torch.cat([self.latents[module.layer_idx], key[0, :, plain:]], -1)
        assert self.random or (queries @ rows.T - query @ key.transpose(1, 2)).abs().max() < 1e-4
        return Layer(rows[None], rows[None], queries, rule)

    def before_alibi(self, module, args, kwargs):
        """Bloom and MPT compute attention themselves."""
        bias = kwargs["alibi" if "alibi" in kwargs else "position_bias"]
        self.slopes = R.f64(bias[:, 0, 1] - bias[:, 0, 0])
        self.attention = module
        return args, kwargs | dict(attention_mask=self.mask(module.layer_idx, kwargs["attention_mask"]))

    def after_fused(self, _, __, fused):
        module, n, whole = self.attention, fused.shape[1], self.noisy(fused)
        if hasattr(module, "Wqkv"):
            clip = module.clip_qkv
            clipped = whole.clamp(-clip, clip) if clip else whole
            query, key, value = clipped.view(n, 3, -1, module.head_dim).permute(1, 2, 0, 3)
        else:
            query, key, value = (x[0] for x in module._reshape(whole))
        self.layers[module.layer_idx] = Layer(key, value, query, R.LogitRule(slopes=self.slopes))
        return whole


# ---------------------------------------------------------------------- the policies
BY_ATTENTION = ("snapkv", "slimkv", "ahakv", "h2o", "tova", "kvzip")


# Each class is a policy in one layer: `prompt` and `step` give the positions that it keeps, for each KV head. In a step
# K, V and Q of the layer end with the new token.
class ByPosition:
    """A policy that needs nothing but the number of tokens: kept(n_kv, n)."""

    def __init__(self, kept):
        self.kept = kept

    def prompt(self, rows):
        return self.kept(*rows.K.shape[:2])

    step = prompt


class Stream:
    """One of the reference's streams: make(rows). what = which of K, V, Q it takes."""

    def __init__(self, make, what):
        self.make, self.what = make, what

    def prompt(self, rows):
        self.stream = self.make(rows)
        return self.append(rows, slice(None))

    def step(self, rows):
        return self.append(rows, slice(-1, None))

    def append(self, rows, which):
        self.stream.append(*(getattr(rows, x)[:, which] for x in self.what))
        kept = self.stream.pos
        return kept if np.ndim(kept[0]) else [kept] * len(rows.K)  # TOVA has one list for all heads


class Scores:
    """H2O and AhaKV."""

    def __init__(self, kind, selected, recent):
        self.options = kind, selected, recent

    def prompt(self, rows):
        kind, selected, recent = self.options
        self.stream = R.ScoreStream(kind, selected, recent, rule=rows.rule)
        self.stream.prefill(rows.K, rows.V, rows.Q if kind == "h2o" else rows.Q[:, -recent:])
        return self.stream.pos

    def step(self, rows):
        self.stream.step(rows.K[:, -1], rows.V[:, -1], rows.Q[:, -1])
        return self.stream.pos


class KvZip:
    """The text is read a second time by the model: again(tokens) gives keys and queries of the repeated tokens."""

    def __init__(self, capacity, recent, again):
        self.capacity, self.recent, self.again = capacity, recent, again

    def prompt(self, rows):
        n = rows.K.shape[1]
        kept, scores = R.kvzip(rows.K, rows.Q, self.capacity, self.recent, CHUNK, rule=rows.rule, again=self.again)
        self.later = R.kvzip_decode(kept, scores, n, n + STEPS, self.capacity, self.recent, LATER)
        return kept

    def step(self, rows):
        return next(self.later)


def half_retrieval(layer, n_kv):
    """Which heads keep everything in the made-up profile of the tests: every second one of the model."""
    return [(layer * n_kv + head) % 2 == 0 for head in range(n_kv)]


def policies(model, prompt):
    """For each policy its name, how it is made for a layer with a number of rows, and numbers of rows to try."""

    def razor(layer, n_kv, n):
        retrieval = half_retrieval(layer, n_kv)
        if hasattr(model, "slopes"):  # ALiBi: the scope of a head that does not keep everything is the buffer
            return R.alibi_keep(n, [1e9 if keeps_all else 9 for keeps_all in retrieval])
        empty = np.zeros((n_kv, n, 1))
        return R.razor(empty, empty, retrieval, 9, 5.0, 2)[0]

    def lag(variant):
        return lambda layer, rows: Stream(lambda of: R.LagStream(len(of.K), 3, 10, rows / 10, variant), "KV")

    def lag_l2(layer, rows):
        return lag("l2")(layer, rows) if layer > 1 else ByPosition(lambda n_kv, n: R.all_kept(n_kv, n))

    def window(choose):
        return lambda layer, rows: Stream(lambda of: R.WindowStream(functools.partial(choose, of.rule, rows), 6), "KVQ")

    def snapkv(rule, rows, K, V, Q, pos):
        return R.snapkv(K, Q, rows, 3, rule=rule, pos=pos)[0]

    def slimkv(rule, rows, K, V, Q, pos):
        return R.slimkv(K, V, Q, rows, 3, rule=rule, pos=pos)[0]

    @functools.cache
    def second_reading(tokens):
        return model.compute([*prompt, *(prompt[i] for i in tokens)])[1]

    def again(layer, tokens):
        read = second_reading if model.random is None else second_reading.__wrapped__  # noise is not cached
        of = read(tuple(tokens))[layer]
        return of.K[:, len(prompt):], of.Q[:, len(prompt):]

    found = [
        ("streaming:sinks=3,window=10,slack=0", lambda layer, _: ByPosition(lambda n_kv, n: R.streaming_llm(n, n_kv, 3, 10)), [0]),
        ("razor:buffer=9,ratio=5,sinks=2,slack=0,compensation=off", lambda layer, _: ByPosition(functools.partial(razor, layer)), [0]),
        ("l2:rows={},skip=0,slack=0", lambda layer, rows: Stream(lambda _: R.L2Stream(None, rows), "KV"), range(12, 20)),
        ("lagkv:sinks=3,lag=10,ratio=0.{}", lag("lagkv"), range(2, 6)),
        ("locallag:sinks=3,lag=10,ratio=0.{}", lag("localkv"), range(2, 6)),
        ("lag-l2:sinks=3,lag=10,ratio=0.{}", lag_l2, range(2, 6)),
        ("snapkv:window=6,capacity={},kernel=3,slack=0", window(snapkv), range(14, 24)),
        ("slimkv:window=6,capacity={},kernel=3,slack=0", window(slimkv), range(14, 24)),
        ("ahakv:budget={},recent=5", lambda layer, rows: Scores("aha", rows - 5, 5), range(14, 24)),
        ("h2o:heavy={},recent=6", lambda layer, rows: Scores("h2o", rows, 6), range(8, 18)),
        ("tova:capacity={}", lambda layer, rows: Stream(lambda of: R.TovaStream(rows, rule=of.rule), "KVQ"), range(14, 24)),
        (f"kvzip:heads=off,capacity={{}},recent=5,later={LATER},slack=0",
         lambda layer, rows: KvZip(rows, 5, functools.partial(again, layer)), range(14, 24)),
    ]
    has_positions_behind_the_text = model.case.stem != "GPT2"
    return found if has_positions_behind_the_text else found[:-1]


# ------------------------------------------------------------------------- the cases
class Unclear(Exception):
    """Scores are too close to each other."""


TOP_K = R.top_k


def clear_top_k(score, k):
    if R.cut_margin(score, k) < MARGIN:
        raise Unclear
    return TOP_K(score, k)


def keep(model, tokens, n_prompt, make, without=None):
    """What each global layer keeps of the prompt and after the steps, and the first logits at the end.

    without: a part of the rule of logits that is left out when rows are scored."""
    _, layers = model.compute(tokens[:n_prompt])
    for of in layers.values() if without else ():
        setattr(of.rule, without, None)
    rules = {number: make(number) for number in layers}
    kept = {number: rules[number].prompt(layers[number]) for number in layers}
    first, n = written(kept), len(tokens)
    hidden = {number: np.zeros((len(of.Q), n, n), bool) for number, of in layers.items()}
    for t in range(n_prompt, n):
        for number, heads in kept.items():
            group = len(hidden[number]) // len(heads)
            for head in range(len(hidden[number])):
                hidden[number][head, t, :t] = True
                hidden[number][head, t, heads[head // group]] = False
        shown = {number: mask[:, :t + 1, :t + 1] for number, mask in hidden.items()}
        logits, layers = model.compute(tokens[:t + 1], shown)
        kept = {number: rules[number].step(layers[number]) for number in layers}
    return first, written(kept), [round(float(x), 4) for x in logits[-1][:LOGITS]]


def ranges(positions):
    """`0-2,7,9-11`."""
    starts = [p for p in positions if p - 1 not in positions]
    ends = [p for p in positions if p + 1 not in positions]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends))


def written(kept):
    """For each layer the ranges of each head; of all heads at once where they are the same."""
    of_layers = [[ranges([int(p) for p in positions]) for positions in heads] for heads in kept.values()]
    return [heads[0] if len(set(heads)) == 1 else heads for heads in of_layers]


def proves(model, tokens, n_prompt, make, found, by_attention):
    """Whether noise keeps the same, and the rule of logits without one of its special parts does not."""
    parts = {part for of in model.layers.values() for part in ("cap", "slopes", "sinks") if getattr(of.rule, part) is not None}
    keeps_same = lambda without=None: keep(model, tokens, n_prompt, make, without)[:2] == found[:2]
    R.top_k, clear = TOP_K, R.top_k
    proven = not by_attention or not any(keeps_same(part) for part in parts)
    for seed in range(NOISY_RUNS):
        model.random = np.random.default_rng(seed)
        proven = proven and keeps_same()
    R.top_k, model.random = clear, None
    return proven


def cases(model, tokens, n_prompt):
    """What each policy keeps of a text."""
    found = {}
    for name, make, choices in policies(model, tokens[:n_prompt]):
        for rows in choices:
            of_layer = lambda layer: make(layer, rows)
            try:
                kept = keep(model, tokens, n_prompt, of_layer)
            except Unclear:
                continue
            if proves(model, tokens, n_prompt, of_layer, kept, name.split(":")[0] in BY_ATTENTION):
                found[name.format(rows)] = kept
                break
        else:
            raise Unclear(name)
    return found


def main():
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    R.top_k = clear_top_k
    entries = []
    for name, n_prompt in MODELS.items():
        model = Model(name)
        sinks = model.check()
        for seed in range(50):
            rng = np.random.default_rng(1000 * model.number + seed)
            tokens = [int(i) for i in rng.integers(3, families.VOCAB, n_prompt + STEPS)]
            try:
                found = cases(model, tokens, n_prompt)
            except Unclear as unclear:
                print(f"{name}: text {seed} is not clear, {unclear}")
                continue
            break
        else:
            raise SystemExit(f"no clear text for {name}")
        entries.append(dict(name=f"{name}-f32", sinks=sinks, prompt=n_prompt, tokens=tokens, layers=list(model.layers), policies=found))
        print(f"{name}: layers {list(model.layers)}, text {seed}", flush=True)
    packed.write(HERE / "models.json.br", entries)


if __name__ == "__main__":
    main()
