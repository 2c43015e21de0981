"""Makes the cases of the policies with the reference beside this file (numpy 2).

  python generate.py --out cases --seed 20261121 --profile golden --pack

Inputs are float32 (.npy, '<f4', C order) and shared between cases; what is expected is computed in float64 from exactly these
inputs and stored in the JSON files. A case without ties is accepted only if what is kept does not change
when the reference runs in float32 and under four random relative perturbations of 5e-6 of every input; parameters move along
the list of candidates until that holds, so that f32 code has to keep exactly the same rows. `--profile heldout` takes other
shapes and parameters."""
import argparse, io, json, math, os, zipfile
import numpy as np
import reference as R

ap = argparse.ArgumentParser()
ap.add_argument("--out", required=True)
ap.add_argument("--seed", type=int, required=True)
ap.add_argument("--profile", choices=["golden", "heldout"], required=True)
ap.add_argument("--pack", action="store_true", help="put all but README.md and row_shares.json into cases.zip.br (needs brotli)")
A_ = ap.parse_args()
rng = np.random.default_rng(A_.seed)
os.makedirs(os.path.join(A_.out, "data"), exist_ok=True)
HELD = A_.profile == "heldout"
#        n_kv, g, n, d                                  golden            heldout
SHAPES = dict(A=(2, 1, 44, 64) if HELD else (2, 1, 40, 64),
              B=(3, 2, 89, 16) if HELD else (2, 3, 97, 16),
              C=(1, 6, 230, 32) if HELD else (1, 4, 260, 32),
              D=(2, 2, 640, 16) if HELD else (2, 2, 700, 16),
              E=(2, 1, 171, 40) if HELD else (3, 1, 150, 24))
QROWS = 64                                   # rows of Q stored for the long banks C, D
saved = {}


def f32(x):
    """Numbers of 13 binary digits, which take less room in the file than those of 24."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x400) & ~np.uint32(0x7FF)).view(np.float32)


def save(name, arr):
    rel = "data/%s.npy" % name
    if rel not in saved:
        np.save(os.path.join(A_.out, rel), np.asarray(arr, dtype="<f4", order="C"))
        saved[rel] = list(np.shape(arr))
    return rel


def ar(shape, rho):
    x = rng.standard_normal(shape)
    for t in range(1, shape[1]):
        x[:, t] = rho * x[:, t - 1] + math.sqrt(1 - rho * rho) * x[:, t]
    return x


def make_bank(n_kv, g, n, d):
    """Token-local keys and values, low-norm first key, some heavy tokens the queries like."""
    H = n_kv * g
    u = rng.standard_normal((n_kv, d)); u /= np.linalg.norm(u, axis=1, keepdims=True)
    K = rng.standard_normal((n_kv, 1, d)) * 0.8 + ar((n_kv, n, d), 0.7) * 0.8 + 0.4 * rng.standard_normal((n_kv, n, d))
    heavy = rng.random((n_kv, n)) < 0.06
    K += 2.0 * heavy[..., None] * u[:, None]
    K[:, 0] *= 0.3
    V = ar((n_kv, n, d), 0.5) * np.exp(0.4 * rng.standard_normal((n_kv, n, 1)))
    Q = ar((H, n + 1, d), 0.6) + 1.5 * np.repeat(u, g, 0)[:, None]
    return dict(K=f32(K), V=f32(V), Q=f32(Q[:, :n]), q=f32(Q[:, n]))


def grid(shape, step, lim):
    return f32(rng.integers(-lim, lim + 1, shape) * step)


BANK = {k: make_bank(*s) for k, s in SHAPES.items()}
# X: constant keys (per head), everything exact in f32; Y: tokens in identical pairs (K and V)
nX, nY = (57, 66) if HELD else (60, 64)
BANK["X"] = dict(K=f32(np.repeat(grid((2, 1, 16), 0.25, 4), nX, 1)), V=f32(rng.standard_normal((2, nX, 16))), Q=grid((4, nX, 16), 0.125, 8), q=grid((4, 16), 0.125, 8))
yk, yv = grid((1, nY // 2, 16), 0.25, 5), grid((1, nY // 2, 16), 0.25, 6)
BANK["Y"] = dict(K=np.repeat(yk, 2, 1), V=np.repeat(yv, 2, 1), Q=grid((2, nY, 16), 0.125, 8), q=grid((2, 16), 0.125, 8))
TIE = {"X", "Y"}


def refs(b, need):
    """file names of a bank's arrays; long banks store only the last QROWS query rows"""
    o = {}
    for x in need:
        a = BANK[b][x]
        if x == "Q" and b in "CD":
            a = a[:, -QROWS:]
        o[x] = save("bank_%s_%s" % (b, x), a)
    return o


def tolist(x):
    """Nine significant digits: more than a float32 has, and a quarter less to store."""
    return np.vectorize(lambda y: float(f"{y:.9g}"), otypes=[float])(np.asarray(x, dtype=np.float64)).tolist()


def in_f32(fn, *a):
    R.F = np.float32
    try:
        return fn(*a)
    finally:
        R.F = np.float64


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b))


def stable(fn, bank, params, tie):
    """fn(bank, params) -> dict with 'kept'.  See module docstring."""
    base = fn(bank, params)
    if not same(base["kept"], in_f32(fn, bank, params)["kept"]):
        return None if not tie else base
    if not tie:
        for s in range(4):
            r2 = np.random.default_rng(1000 + s)
            pert = {k: v * (1 + 5e-6 * r2.standard_normal(v.shape)) for k, v in bank.items()}
            if not same(base["kept"], fn(pert, params)["kept"]):
                return None
    return base


cases, LOG = {}, []


def add(policy, name, b, fn, cands, need="KVq", tie=None, note=None, differs_from=None):
    """Append one case; cands = parameter dicts tried in order.  differs_from(bank, params):
    a wrong variant whose kept sets must differ (makes the case discriminating)."""
    if not isinstance(cands, list):
        cands = [cands]
    bank = BANK[b] if isinstance(b, str) else b[1]
    bname = b if isinstance(b, str) else b[0]
    tie = (bname in TIE) if tie is None else tie
    for p in cands:
        res = stable(fn, bank, p, tie)
        if res is not None and not (differs_from and same(res["kept"], differs_from(bank, p)["kept"])):
            break
    else:
        raise SystemExit("no stable parameters for %s/%s" % (policy, name))
    comp = res.get("comp")
    out = R.attention_compressed(bank["q"], bank["K"], bank["V"], res["kept"], comp)
    exp = dict(kept=[np.asarray(x).tolist() for x in res["kept"]], out=tolist(out))
    if "count" in res:
        exp["count"] = res["count"]
    if comp is not None:
        exp["comp"] = [None if c is None else dict(k=tolist(c[0]), v=tolist(c[1]), n_dropped=int(c[2])) for c in comp]
    inp = refs(bname, need) if isinstance(b, str) else {k: save("bank_%s_%s" % (bname, k), bank[k]) for k in need}
    K, q = bank["K"], bank["q"]
    cases.setdefault(policy, []).append(dict(
        name=name, n_kv=len(K), n_head=len(q), n=int(K.shape[1]), d=int(K.shape[2]), tie_case=bool(tie),
        inputs=inp, params=p, note=note, expected=exp))


# ------------------------------------------------------------------ one-shot policies
def f_stream(b, p):
    return dict(kept=R.streaming_llm(b["K"].shape[1], len(b["K"]), p["n_sink"], p["recent"]))


def f_l2(b, p):
    n = b["K"].shape[1]
    keep = p["keep"] if "keep" in p else R.l2_keep_count(n, p["keep_ratio"], p["prune_after"], p["layer"], tuple(p["skip_layers"]))
    return dict(kept=R.l2_norm(b["K"], keep, p.get("n_sink", 0), p.get("n_recent", 0)), scores=R.l2_scores(b["K"]), count=keep)


def f_lag(variant):
    def f(b, p):
        kept, s = R.lagkv(b["K"], b["V"], p["sink"], p["lag"], p["ratio"], variant, p.get("v_weight", 1.0))
        return dict(kept=kept, scores=s)
    return f


def f_h2o(b, p):
    kept, s = R.h2o(b["K"], b["Q"], p["heavy"], p["recent"]); return dict(kept=kept, scores=s)


def f_kvzap(b, p):
    kept, s = list(R.kvzap(b["K"], b["V"], b["M"], p["capacity"], p["recent"]))[-1]; return dict(kept=kept, scores=s)


def f_kvzip(b, p):
    kept, s = R.kvzip(b["K"], b["Q"], p["capacity"], p["recent"], p["chunk"]); return dict(kept=kept, scores=s)


def plus(b, n):
    """What KVzip+ needs of the first n tokens."""
    return b["V"][:, :n], b["W"], b["H"][:n]


def f_kvzip_plus(b, p):
    kept, s = R.kvzip(b["K"], b["Q"], p["capacity"], p["recent"], p["chunk"], plus=plus(b, b["K"].shape[1])); return dict(kept=kept, scores=s)


def f_tova(b, p):
    kept, s = R.tova(b["K"], b["Q"][:, -1:], p["capacity"], p["protect_last"]); return dict(kept=kept, scores=s)


def f_snap(b, p):
    kept, s = R.snapkv(b["K"], b["Q"][:, -p["window"]:], p["capacity"], p["kernel"], p["pool"]); return dict(kept=kept, scores=s)


def f_slim(b, p):
    kept, s = R.slimkv(b["K"], b["V"], b["Q"][:, -p["window"]:], p["capacity"], p["kernel"], p["pool"], p["combine"]); return dict(kept=kept, scores=s)


def f_aha(b, p):
    kept, s = R.ahakv(b["K"], b["V"], b["Q"][:, -p["recent"]:], p["budget"], p["recent"], p["kernel"], p["mode"]); return dict(kept=kept, scores=s)


def f_razor(b, p):
    kept, comp = R.razor(b["K"], b["V"], p["retrieval"], p["S0"], p["C"], p["n_sink"]); return dict(kept=kept, comp=comp)


def sweep(key, start, count, **p):
    return [dict(p, **{key: start + i}) for i in range(count)]


def N(b):
    return BANK[b]["K"].shape[1]


def HK(b):
    return len(BANK[b]["K"])


def g_all():
    S = (lambda x, y: y) if HELD else (lambda x, y: x)         # golden / held-out parameter
    P = "streaming_llm"
    add(P, "mha", "A", f_stream, dict(n_sink=4, recent=S(16, 19)))
    add(P, "gqa_no_sink", "B", f_stream, dict(n_sink=0, recent=S(30, 41)))
    add(P, "long", "D", f_stream, dict(n_sink=S(4, 6), recent=S(128, 100)))
    add(P, "at_capacity_keeps_all", "A", f_stream, dict(n_sink=4, recent=N("A") - 4))
    add(P, "minimum", "B", f_stream, dict(n_sink=1, recent=1))
    add(P, "constant_keys", "X", f_stream, dict(n_sink=2, recent=10))
    P = "l2"
    l2 = lambda r, pa, layer=5: dict(keep_ratio=r, prune_after=pa, layer=layer, skip_layers=[0, 1])
    add(P, "mha_half", "A", f_l2, [l2(r, 16) for r in (S(.5, .6), .45, .55, .4)], "KVq")
    add(P, "gqa", "B", f_l2, [l2(r, 64) for r in (S(.3, .7), .31, .33)], "KVq")
    add(P, "long_tenth", "D", f_l2, [l2(r, 512) for r in (S(.1, .2), .11, .12, .13)], "KVq")
    add(P, "ceil_not_floor", "B", f_l2, [l2(r, 64) for r in (.13, .17, .19, .23)], "KVq", note="keep = ceil(ratio*n)")
    add(P, "below_prune_after_keeps_all", "E", f_l2, l2(.1, N("E") + 1))
    add(P, "skipped_layer_keeps_all", "B", f_l2, l2(.1, 10, layer=1))
    add(P, "keep_two", "B", f_l2, sweep("keep", 2, 5), "KVq")
    add(P, "protected_sink_recent", "E", f_l2, sweep("keep", 40, 12, n_sink=4, n_recent=8))
    add(P, "constant_keys", "X", f_l2, dict(keep=S(17, 23)), note="all equal: smallest positions")
    add(P, "ties_cross_cut", "Y", f_l2, dict(keep=S(21, 27)), note="identical pairs: cut may split a pair, the smaller position stays")
    for P, var in (("lagkv", "lagkv"), ("localkv", "localkv"), ("lag_l2", "l2")):
        f = f_lag(var)
        L = lambda s, l, rs, **k: [dict(sink=s, lag=l, ratio=r, **k) for r in rs]
        add(P, "mha", "E", f, L(S(4, 8), S(20, 24), (.25, .3, .2, .35, .4, .15, .45)))
        add(P, "gqa_half", "B", f, L(S(4, 3), S(16, 13), (.5, .4, .6, .3, .7)))
        add(P, "paper_ratio_8x", "C", f, L(16, S(32, 28), (.125, .1, .16, .2, .25)))
        if var == "lagkv" or not HELD:
            add(P, "long_6x", "D", f, [dict(sink=16, lag=l, ratio=r) for l in (S(128, 96), 112, 64) for r in (.167, .17, .15, .2, .25, .125)], note="m = floor(ratio*lag)")
        add(P, "one_per_partition", "E", f, [dict(sink=0, lag=l, ratio=1.5 / l) for l in (S(20, 17), 21, 15, 25, 30)], note="m = 1")
        add(P, "below_trigger_keeps_all", "A", f, dict(sink=4, lag=(N("A") - 4) // 2 + 1, ratio=.25))
        add(P, "at_trigger_compresses", "A", f, L(4, (N("A") - 4) // 2, (.25, .3, .2, .4, .5)), note="n == sink + 2*lag")
        add(P, "constant_keys", "X", f, [dict(sink=4, lag=l, ratio=r) for l in (S(12, 11), 13) for r in (.34, .25, .5)], note="every key channel has max == min: contributes 0; only V decides (l2: all tie)")
        add(P, "ties_in_pairs", "Y", f, dict(sink=2, lag=S(16, 14), ratio=S(.45, .37)), note="odd m splits a pair unless scores tie further")
    def ddof0(b, p):
        keep = R.lag_state_score

        def wrong(X, ref):
            lo, hi = ref.min(0), ref.max(0)
            return R.softmax(((X - lo) / (hi - lo)).std(axis=1))
        R.lag_state_score = wrong
        try:
            return f_lag("lagkv")(b, p)
        finally:
            R.lag_state_score = keep
    for nm, b in (("ddof_matters", "B"), ("ddof_matters_long", "D")):
        add("lagkv", nm, b, f_lag("lagkv"), [dict(sink=s, lag=l, ratio=r) for l in (16, 24, 12, 20, 14, 32, 48, 64) for r in (.25, .5, .3, .4, .6, .2) for s in (4, 0, 2, 7, 1, 5)],
            note="std with ddof = 0 keeps another set", differs_from=ddof0)
    add("lagkv", "v_weight_zero", "B", f_lag("lagkv"), [dict(sink=4, lag=16, ratio=r, v_weight=0.0) for r in (.25, .3, .4, .5)])
    P = "h2o"
    add(P, "mha", "E", f_h2o, sweep("heavy", S(30, 26), 20, recent=S(20, 33)), "KVQq")
    add(P, "gqa", "B", f_h2o, sweep("heavy", S(12, 18), 20, recent=S(25, 11)), "KVQq")
    add(P, "mha_short", "A", f_h2o, sweep("heavy", 5, 10, recent=S(5, 9)), "KVQq")
    add(P, "below_budget_keeps_all", "A", f_h2o, dict(heavy=N("A") - 10, recent=10), "KVQq")
    add(P, "one_heavy", "B", f_h2o, sweep("heavy", 1, 4, recent=S(30, 8)), "KVQq")
    add(P, "constant_keys", "X", f_h2o, dict(heavy=7, recent=S(9, 12)), "KVQq", note="uniform rows: earlier keys collect more, strictly decreasing score")
    add(P, "ties_in_pairs", "Y", f_h2o, dict(heavy=S(9, 11), recent=8), "KVQq", note="pairs are NOT tied here (the first of a pair is seen by one row more)")
    P = "tova"
    add(P, "mha", "E", f_tova, sweep("capacity", S(50, 70), 25, protect_last=False), "KVQq")
    add(P, "gqa", "B", f_tova, sweep("capacity", S(24, 40), 20, protect_last=False), "KVQq")
    add(P, "gqa_protect_last", "B", f_tova, sweep("capacity", S(10, 7), 20, protect_last=True), "KVQq")
    add(P, "long", "D", f_tova, sweep("capacity", S(200, 130), 60, protect_last=False), "KVQq")
    add(P, "below_capacity_keeps_all", "A", f_tova, dict(capacity=N("A"), protect_last=False), "KVQq")
    add(P, "capacity_one", "A", f_tova, dict(capacity=1, protect_last=False), "KVQq")
    add(P, "capacity_two_protect_last", "A", f_tova, sweep("capacity", 2, 3, protect_last=True), "KVQq")
    add(P, "constant_keys", "X", f_tova, dict(capacity=S(13, 21), protect_last=False), "KVQq", note="uniform row: smallest positions")
    add(P, "ties_in_pairs", "Y", f_tova, dict(capacity=S(15, 19), protect_last=False), "KVQq")
    sn = lambda w, cap, k, pool, n=25, **o: [dict(window=w, capacity=cap + i, kernel=k, pool=pool, **o) for i in range(n)]
    for P, f, o in (("snapkv", f_snap, {}), ("slimkv", f_slim, dict(combine="product")), ("slimkv_sum", f_slim, dict(combine="sum"))):
        add(P, "mha_avg", "E", f, sn(S(16, 20), S(48, 61), 5, "avg", **o), "KVQq")
        add(P, "gqa_avg", "B", f, sn(S(8, 12), S(30, 33), 5, "avg", **o), "KVQq")
        add(P, "gqa_max7", "C", f, sn(32, S(96, 80), 7, "max", **o), "KVQq", note="max pooling makes exact ties at the cut: smaller position")
        if P != "slimkv_sum" or not HELD:
            add(P, "long_avg", "D", f, sn(S(32, 48), S(128, 160), 5, "avg", 60, **o), "KVQq")
        add(P, "no_pooling", "A", f, sn(4, S(12, 15), 1, "avg", **o), "KVQq")
        add(P, "below_capacity_keeps_all", "A", f, dict(window=8, capacity=N("A") + 1, kernel=5, pool="avg", **o), "KVQq")
        add(P, "one_above_window", "B", f, sn(S(10, 14), S(11, 15), 3, "avg", 1, **o) + sn(9, 10, 3, "avg", 1, **o) + sn(7, 8, 3, "avg", 1, **o), "KVQq")
        add(P, "constant_keys", "X", f, dict(window=8, capacity=S(20, 25), kernel=3, pool="avg", **o), "KVQq", note="uniform weights; avg pooling lowers the first and last prefix entry (zero padding)")
        add(P, "ties_in_pairs", "Y", f, dict(window=6, capacity=S(19, 23), kernel=1, pool="avg", **o), "KVQq")
    P = "ahakv"
    ah = lambda r, b, k=5, n=25, mode="entropy": [dict(budget=b + i, recent=r, kernel=k, mode=mode) for i in range(n)]
    add(P, "mha", "E", f_aha, ah(S(12, 16), S(40, 52)), "KVQq")
    add(P, "gqa", "B", f_aha, ah(S(8, 6), S(32, 27)), "KVQq")
    add(P, "long", "D", f_aha, ah(32, S(150, 120), n=60), "KVQq")
    add(P, "gqa_kernel7", "C", f_aha, ah(32, S(80, 71), 7), "KVQq")
    add(P, "literal_lambda", "B", f_aha, ah(S(8, 6), S(32, 27), mode="literal"), "KVQq", note="mode 'literal', not the default")
    add(P, "window_straddles_budget", "A", f_aha, ah(10, N("A") - 5, n=5), "KVQq", note="rows i <= B use gain 1, rows i > B sqrt(2 log(i/B))")
    add(P, "below_budget_keeps_all", "A", f_aha, dict(budget=N("A"), recent=8, kernel=5, mode="entropy"), "KVQq")
    add(P, "one_selected", "B", f_aha, ah(S(8, 6), S(9, 7), n=1) + ah(7, 8, n=1) + ah(9, 10, n=1), "KVQq")
    add(P, "constant_keys", "X", f_aha, ah(8, S(20, 25), 3, 10), "KVQq", tie=False, note="uniform attention: the value prior decides")
    add(P, "ties_in_pairs", "Y", f_aha, dict(budget=S(21, 23), recent=6, kernel=1, mode="entropy"), "KVQq")
    P = "razor"
    add(P, "mha_mixed", "A", f_razor, dict(retrieval=[False, True], S0=8, C=S(5.0, 4.0), n_sink=4))
    add(P, "gqa_all_compressed", "B", f_razor, dict(retrieval=[False] * HK("B"), S0=S(10, 12), C=5.0, n_sink=S(4, 2)))
    add(P, "ratio_rules", "D", f_razor, dict(retrieval=[False] * HK("D"), S0=S(100, 64), C=5.0, n_sink=4), note="N/C > S0")
    add(P, "floor_rules", "E", f_razor, dict(retrieval=[False, True, False][:HK("E")], S0=S(60, 75), C=5.0, n_sink=4), note="S0 > N/C")
    add(P, "fraction_floor", "C", f_razor, dict(retrieval=[False], S0=1, C=S(7.3, 3.7), n_sink=3), note="floor(N/C)")
    add(P, "below_threshold_keeps_all", "A", f_razor, dict(retrieval=[False, False], S0=N("A") - 4, C=5.0, n_sink=4), note="N == L_h + sinks: nothing dropped, no compensation entry")
    add(P, "one_dropped", "A", f_razor, dict(retrieval=[False, False], S0=N("A") - 5, C=5.0, n_sink=4), note="N_d = 1: log weight 0")
    add(P, "no_sink_window_one", "B", f_razor, dict(retrieval=[False] * HK("B"), S0=1, C=1e6, n_sink=0))
    add(P, "constant_keys", "X", f_razor, dict(retrieval=[False, False], S0=9, C=5.0, n_sink=2), note="k_hat == k: compensated attention equals using v_hat for every dropped token")


# ------------------------------------------------------------------ streaming forms
def run_stream(kind):
    def f(b, p):
        K, V, Q = b["K"], b["V"], b["Q"]
        n_kv, n, d = K.shape
        n0 = p["prefill"]
        snaps, comp = [], None
        if kind == "lagkv":
            st = R.LagStream(n_kv, p["sink"], p["lag"], p["ratio"], p["variant"])
            i = 0
            for c in p["chunks"]:
                st.append(K[:, i:i + c], V[:, i:i + c]); i += c
                snaps.append(st.pos[0].tolist())
            assert i == n
            return dict(kept=st.pos, snaps=snaps)
        if kind == "razor":
            rs = [None if p["retrieval"][h] else R.RazorStream(d, d, p["S0"], p["C"], p["n_sink"]) for h in range(n_kv)]
            for t in range(n):
                for h in range(n_kv):
                    if rs[h]: rs[h].append(K[h, t], V[h, t])
            return dict(kept=[np.arange(n) if r is None else r.kept() for r in rs], comp=[None if r is None else r.comp() for r in rs])
        if kind in ("h2o", "ahakv"):
            st = R.ScoreStream("h2o" if kind == "h2o" else "aha", p["selected"], p["recent"], p.get("kernel", 5), p.get("mode", "entropy"))
            q0 = Q[:, :n0] if kind == "h2o" else Q[:, n0 - p["recent"]:n0]
            st.prefill(K[:, :n0], V[:, :n0], q0)
            for t in range(n0, n):
                st.step(K[:, t], V[:, t], Q[:, t]); snaps.append([x.tolist() for x in st.pos])
            return dict(kept=st.pos, snaps=snaps, acc=st.acc)
        if kind in ("kvzip", "kvzip_plus"):
            more = plus(b, n0) if kind == "kvzip_plus" else None
            kept, s = R.kvzip(K[:, :n0], Q[:, :n0], p["capacity"], p["recent"], p["chunk"], plus=more)
            snaps = list(R.kvzip_decode(kept, s, n0, n, p["capacity"], p["recent"], p["later"]))
            return dict(kept=snaps[-1], snaps=[[x.tolist() for x in heads] for heads in snaps])
        if kind == "kvzap":
            steps = list(R.kvzap(K, V, b["M"], p["capacity"], p["recent"], n0))
            kept, s = steps[-1]
            snaps = [[x.tolist() for x in heads] for heads, _ in steps[1:]]
            return dict(kept=kept, snaps=snaps, acc=[s[h][x] for h, x in enumerate(kept)])
        if kind == "tova":
            st = R.TovaStream(p["capacity"], p["protect_last"])
            st.append(K[:, :n0], V[:, :n0], Q[:, :n0])
            for t in range(n0, n):
                st.append(K[:, t:t + 1], V[:, t:t + 1], Q[:, t:t + 1]); snaps.append(st.pos.tolist())
            return dict(kept=[st.pos.copy() for _ in range(n_kv)], snaps=snaps)
        st = R.L2Stream(p["keep_ratio"], p["prune_after"])
        i = 0
        for c in [n0] + [1] * (n - n0):
            st.append(K[:, i:i + c], V[:, i:i + c]); i += c
            snaps.append([x.tolist() for x in st.pos])
        return dict(kept=st.pos, snaps=snaps)
    return f


def add_stream(policy, kind, name, b, cands, need, note=None):
    f = run_stream(kind)
    add(policy, name, b, f, cands, need, note=note)
    c = cases[policy][-1]
    res = f(BANK[b], c["params"])
    if "snaps" in res:
        s = res["snaps"]
        c["expected"]["len_per_step"] = [len(x[0]) if x and isinstance(x[0], list) else len(x) for x in s]
        c["expected"]["kept_mid_step"] = len(s) // 2
        c["expected"]["kept_mid"] = s[len(s) // 2]
    if "acc" in res:
        c["expected"]["acc"] = [tolist(x) for x in res["acc"]]


def chunks_of(n, sizes):
    out = []
    while sum(out) < n:
        out.append(min(int(rng.choice(sizes)), n - sum(out)))
    return out


def g_streams():
    S = (lambda x, y: y) if HELD else (lambda x, y: x)
    P = "stream_lagkv"
    for name, b, s, l, sizes, var in (("prefill_then_decode", "B", 4, 16, None, "lagkv"), ("mixed_chunks", "E", S(8, 5), 20, [1, 7, 33], "lagkv"),
                                      ("decode_only", "B", 0, S(10, 9), [1], "lagkv"), ("local_chunks", "E", 4, S(18, 22), [5, 50], "localkv"), ("l2_chunks", "B", 4, S(12, 15), [3, 40], "l2")):
        n = N(b); ch = [n - 30] + [1] * 30 if sizes is None else chunks_of(n, sizes)
        add_stream(P, "lagkv", name, b, [dict(prefill=ch[0], chunks=ch, sink=s, lag=l, ratio=r, variant=var) for r in (.25, .3, .2, .35, .4, .5, .15)], "KVq",
                   note="kept_mid/len_per_step: head 0 after each chunk; final kept equals one-shot lagkv on all tokens")
    P = "stream_razor"
    add_stream(P, "razor", "decode", "A", dict(prefill=10, retrieval=[False, True], S0=8, C=5.0, n_sink=4), "KVq")
    add_stream(P, "razor", "growing_window", "C", dict(prefill=100, retrieval=[False], S0=S(20, 16), C=S(5.0, 4.5), n_sink=4), "KVq", note="L_h grows with N during decode")
    add_stream(P, "razor", "gqa", "B", dict(prefill=50, retrieval=[False] * HK("B"), S0=S(15, 9), C=S(3.3, 6.1), n_sink=S(0, 1)), "KVq")
    add_stream(P, "razor", "never_full", "A", dict(prefill=10, retrieval=[False, False], S0=N("A"), C=5.0, n_sink=4), "KVq")
    P = "stream_h2o"
    for name, b, h0, r in (("mha", "A", 6, 6), ("gqa", "B", S(10, 14), 8), ("longer", "E", 20, S(12, 16)), ("one_heavy", "B", 1, 10)):
        add_stream(P, "h2o", name, b, [dict(prefill=N(b) - dec, selected=h0 + i, recent=r) for i in range(12 if h0 > 1 else 1) for dec in (S(20, 17), 15, 10, 8)], "KVQq")
    P = "stream_ahakv"
    for name, b, h0, r in (("mha", "A", 8, 6), ("gqa", "B", S(14, 18), 8), ("longer", "E", 24, S(12, 10)), ("one_selected", "B", 1, 6)):
        add_stream(P, "ahakv", name, b, [dict(prefill=N(b) - dec, selected=h0 + i, recent=r, kernel=5, mode="entropy") for i in range(12 if h0 > 1 else 1) for dec in (S(20, 17), 15, 10, 8)], "KVQq",
                   note="gain uses i = tokens seen so far, k = selected + recent")
    P = "stream_tova"
    for name, b, c, pr in (("mha", "A", 12, False), ("gqa", "B", S(20, 26), False), ("gqa_protect_last", "B", S(15, 18), True), ("longer", "E", S(40, 35), False)):
        add_stream(P, "tova", name, b, [dict(prefill=N(b) - dec, capacity=c + i, protect_last=pr) for i in range(12) for dec in (S(20, 17), 15, 10)], "KVQq")
    P = "stream_l2"
    for name, b, cd in (("saw_tooth", "B", [dict(keep_ratio=r, prune_after=S(40, 36)) for r in (.5, .6, .7, .4)]), ("every_step", "E", [dict(keep_ratio=.98, prune_after=60), dict(keep_ratio=.95, prune_after=60)]),
                        ("fixed_budget", "B", [dict(keep_ratio=None, prune_after=x) for x in (S(25, 31), 27, 29, 33)]), ("mha", "A", [dict(keep_ratio=r, prune_after=20) for r in (.5, .7, .8)])):
        add_stream(P, "l2", name, b, [dict(prefill=N(b) - 35, **c) for c in cd], "KVq", note="keep_ratio null: keep exactly prune_after (one eviction per step)")


# ------------------------------------------------------------------ analysis functions
def g_misc():
    S = (lambda x, y: y) if HELD else (lambda x, y: x)
    out = []
    for name, b in (("mha", "A"), ("gqa", "B"), ("longer", "E"), ("constant_norms", "X")):
        B = BANK[b]; g = len(B["q"]) // len(B["K"])
        Y = [R.alr(R.attention(B["q"], B["K"], B["V"])[1][h], np.linalg.norm(R.f64(B["K"][h // g]), axis=1))[0] for h in range(len(B["q"]))]
        out.append(dict(name=name, tie_case=b == "X", inputs=refs(b, "KVq"), params={}, note="a = attention of q over all cached tokens; per query head", expected=dict(alr=Y)))
    cases["alr"] = out
    out = []
    for name, H, Hk, per, pre, d in (("period7_bos", 4, 2, S(7, 6), 1, 16), ("period12_no_bos", 2, 2, S(12, 11), 0, 32), ("gqa_period10", 6, 2, 10, 1, 16), ("mqa_period9_prefix2", 3, 1, 9, 2, 24)):
        T = pre + 4 * per
        tok = rng.standard_normal((per, d)); e = np.concatenate([rng.standard_normal((pre, d)), np.tile(tok, (4, 1))])
        prev = np.roll(e, 1, 0)                                  # a layer-1 'previous token' feature
        K = np.stack([e * rng.uniform(0, 1.2) + prev * rng.uniform(0, 1.2) + .5 * rng.standard_normal((T, d)) for _ in range(Hk)])
        Q = np.stack([e * rng.uniform(.3, 1.5) + .3 * rng.standard_normal((T, d)) for _ in range(H)])
        K, Q = f32(K), f32(Q)
        A = R.window_attention(Q, K)
        i1, e1 = R.induction_echo_scores(A, per, pre, "all"); i2, e2 = R.induction_echo_scores(A, per, pre, "last")
        out.append(dict(name=name, inputs=dict(Q=save("ind_%s_Q" % name, Q), K=save("ind_%s_K" % name, K)), params=dict(period=per, repeats=4, n_prefix=pre),
                        note="A = causal softmax(Q K^T / sqrt(d)) over all rows", expected=dict(induction_all=tolist(i1), echo_all=tolist(e1), induction_last=tolist(i2), echo_last=tolist(e2))))
    cases["induction_echo"] = out
    out = []
    for name, nl, nh, nk, fi, fe, per, mk in (("paper_12x12_gqa4", 12, 12, 4, .14, .01, False, "r"), ("mha_6x8", 6, 8, 8, .14, .01, False, "r"), ("small_no_echo", 4, 8, 2, .14, .01, False, "r"),
                                              ("double_28_2", S(10, 9), 16, 4, .28, .02, False, "r"), ("authors_group_max", 12, 12, 4, .14, .01, True, "r"), ("ties", 5, 10, 5, .14, .05, False, "t")):
        I, E = rng.random((nl, nh)), rng.random((nl, nh))
        if mk == "t": I, E = np.round(I * 4) / 4, np.round(E * 2) / 2
        I, E = np.round(I, 6), np.round(E, 6)
        heads, kv = R.select_retrieval_heads(I, E, nk, fi, fe, per)
        out.append(dict(name=name, params=dict(n_layer=nl, n_head=nh, n_kv=nk, ind_frac=fi, echo_frac=fe, per_kv_group=per), inputs=dict(induction=I.tolist(), echo=E.tolist()),
                        expected=dict(heads=np.argwhere(heads).tolist(), kv=np.argwhere(kv).tolist())))
    cases["head_selection"] = out
    out = []
    for name, dm, dh, hid, nh, eps, sc, ln in (("layernorm", 48, 8, 0, 8, 1e-3, 1.0, True), ("rmsnorm", 64, 16, 2, S(8, 16), 1e-3, 1.0, False), ("scaled", 40, 10, 5, 12, S(1e-2, 1e-4), None, True), ("steep_slope", 32, 4, 0, 4, 1e-3, None, False)):
        Wq, Wk = f32(rng.standard_normal((dm, dh)) * .05), f32(rng.standard_normal((dm, dh)) * .05)
        gam, b = f32(1 + .2 * rng.standard_normal(dm)), f32(.1 * rng.standard_normal(dm) if ln else np.zeros(dm))
        sl = float(R.alibi_slopes(nh)[hid]); scale = dh ** -.5 if sc is None else sc
        L = R.alibi_scope(Wq, Wk, gam, b, sl, eps, scale); Lr = R.alibi_scope(Wq, Wk, gam, b, sl, eps, scale, True)
        out.append(dict(name=name, inputs={k: save("alibi_%s_%s" % (name, k), v) for k, v in dict(Wq=Wq, Wk=Wk, gamma=gam, b=b).items()}, params=dict(n_head=nh, head=hid, slope=sl, eps=eps, logit_scale=scale),
                        expected=dict(scope=L, scope_rigorous=Lr, keep_last=int(math.ceil(L)), slopes=R.alibi_slopes(nh).tolist())))
    cases["alibi_scope"] = out
    tab = [[int(n), int(s), int(l), float(r)] for n, s, l, r in zip(rng.integers(1, 6000, 24), rng.choice([0, 4, 16], 24), rng.choice([8, 128, 512, 1024], 24), rng.choice([.5, .25, .167, .125, .29], 24))]
    gn = [[int(i), int(k), int(d)] for i, k, d in zip(rng.integers(1, 40000, 24), rng.choice([64, 720, 1000, 4096], 24), rng.choice([64, 80, 128], 24))]
    rz = [[int(n), int(s), float(c)] for n, s, c in zip(rng.integers(1, 60000, 24), rng.choice([1, 64, 4000], 24), rng.choice([5.0, 4.0, 7.3, 1.5], 24))]
    cases["formulas"] = [dict(name="lag_len", note="[n, sink, lag, ratio] -> cache length", inputs=tab, expected=[R.lag_len(*t) for t in tab]),
                         dict(name="aha_gain", note="[i, budget, d] -> gain on scaled logits: entropy mode, literal mode", inputs=gn, expected=[[R.aha_gain(*t), R.aha_gain(*t, "literal")] for t in gn]),
                         dict(name="razor_window", note="[N, S0, C] -> L_h", inputs=rz, expected=[R.razor_window(*t) for t in rz]),
                         dict(name="pool", note="[x, kernel, kind] -> pooled", inputs=[[[1.0, 5.0, 2.0, 0.0, -3.0, 4.0], k, kind] for k in (1, 3, 5, 7) for kind in ("avg", "max")],
                              expected=[R.pool1d([1, 5, 2, 0, -3, 4], k, kind).tolist() for k in (1, 3, 5, 7) for kind in ("avg", "max")])]


def g_kvzip():
    S = (lambda x, y: y) if HELD else (lambda x, y: x)
    P = "kvzip"
    z = lambda cap, recent, chunk: sweep("capacity", cap, 25, recent=recent, chunk=chunk)
    add(P, "mha", "E", f_kvzip, z(S(60, 72), S(20, 15), S(32, 48)), "KVQq")
    add(P, "gqa", "B", f_kvzip, z(S(40, 33), S(8, 11), S(24, 20)), "KVQq")
    add(P, "one_chunk", "A", f_kvzip, z(S(20, 23), S(4, 5), 512), "KVQq")
    add(P, "chunks_of_two", "A", f_kvzip, z(S(18, 21), S(4, 6), 2), "KVQq")
    add(P, "last_part_of_one_row", "B", f_kvzip, z(S(35, 41), 8, S(20, 13)), "KVQq", note="the last part has a single row")
    add(P, "below_capacity_keeps_all", "A", f_kvzip, dict(capacity=N("A"), recent=8, chunk=16), "KVQq")
    add(P, "one_selected", "B", f_kvzip, dict(capacity=S(15, 18), recent=S(10, 13), chunk=32), "KVQq")
    for c in cases[P]:
        bank = next(b for b in BANK.values() if b["K"].shape == (c["n_kv"], c["n"], c["d"]))
        kept, s = R.kvzip(bank["K"], bank["Q"], **c["params"])
        c["expected"]["acc"] = [tolist(s[h][x]) for h, x in enumerate(kept)]
    P = "stream_kvzip"
    for name, b, cap, r, later in (("mha", "E", S(60, 72), 12, 0), ("gqa", "B", S(40, 33), S(8, 11), 0), ("more_than_recent", "A", S(20, 22), 4, 0),
                                   ("later", "B", S(36, 41), 4, S(9, 7)), ("all_later", "A", S(14, 13), 3, 400)):
        add_stream(P, "kvzip", name, b, [dict(prefill=N(b) - dec, capacity=cap + i, recent=r, later=later, chunk=S(32, 24)) for i in range(12) for dec in (S(20, 17), 15, 10)], "KVQq")


def g_kvzip_plus():
    """With its own random numbers it leaves the other cases as they are."""
    S = (lambda x, y: y) if HELD else (lambda x, y: x)
    draw = np.random.default_rng(A_.seed + 3)
    for b in "ABE":
        (n_kv, n, d), n_head, m = BANK[b]["K"].shape, len(BANK[b]["Q"]), 20
        # Heads write differently much, and in some directions more than in others.
        W = draw.standard_normal((n_head, d, m)) * np.exp(draw.standard_normal((n_head, 1, m))) * np.exp(draw.standard_normal((n_head, 1, 1)))
        BANK[b]["W"] = f32(W / math.sqrt(d))
        BANK[b]["H"] = f32(draw.standard_normal((n, m)) * np.exp(draw.standard_normal((n, 1))))
    P = "kvzip_plus"
    z = lambda cap, recent, chunk: sweep("capacity", cap, 25, recent=recent, chunk=chunk)
    add(P, "mha", "E", f_kvzip_plus, z(S(60, 72), S(20, 15), S(32, 48)), "KVQqWH")
    add(P, "gqa", "B", f_kvzip_plus, z(S(40, 33), S(8, 11), S(24, 20)), "KVQqWH")
    add(P, "chunks_of_two", "A", f_kvzip_plus, z(S(18, 21), S(4, 6), 2), "KVQqWH")
    add(P, "below_capacity_keeps_all", "A", f_kvzip_plus, dict(capacity=N("A"), recent=8, chunk=16), "KVQqWH")
    for c in cases[P]:
        bank = next(b for b in BANK.values() if "W" in b and b["K"].shape == (c["n_kv"], c["n"], c["d"]))
        kept, s = R.kvzip(bank["K"], bank["Q"], **c["params"], plus=plus(bank, c["n"]))
        c["expected"]["acc"] = [tolist(s[h][x]) for h, x in enumerate(kept)]
    P = "stream_kvzip_plus"
    for name, b, cap, r, later in (("gqa", "B", S(40, 33), S(8, 11), 0), ("later", "A", S(20, 22), 4, S(5, 7))):
        add_stream(P, "kvzip_plus", name, b, [dict(prefill=N(b) - dec, capacity=cap + i, recent=r, later=later, chunk=S(32, 24)) for i in range(12) for dec in (S(20, 17), 15, 10)], "KVQqWH")


def g_kvzap():
    """With its own random numbers it leaves the other cases as they are."""
    S = (lambda x, y: y) if HELD else (lambda x, y: x)
    draw = np.random.default_rng(A_.seed + 2)
    for b in "ABEX":
        K, V = BANK[b]["K"], BANK[b]["V"]
        x = np.concatenate([K, V], axis=-1)
        # Constant keys are not their own means: of their difference only rounding would be left.
        mean, weights = x.mean(axis=1) * (b != "X"), draw.standard_normal((2, len(K), x.shape[-1])) / 8
        BANK[b]["M"] = f32(np.concatenate([mean, weights[0], weights[1] / 2, draw.standard_normal((len(K), 5))], axis=1))
    P = "kvzap"
    z = lambda cap, recent: sweep("capacity", cap, 25, recent=recent)
    add(P, "mha", "E", f_kvzap, z(S(60, 72), S(20, 15)), "KVMq")
    add(P, "gqa", "B", f_kvzap, z(S(40, 33), S(8, 11)), "KVMq")
    add(P, "below_capacity_keeps_all", "A", f_kvzap, dict(capacity=N("A"), recent=8), "KVMq")
    add(P, "one_selected", "B", f_kvzap, dict(capacity=S(15, 18), recent=S(10, 13)), "KVMq")
    add(P, "constant_keys", "X", f_kvzap, z(S(25, 22), 6), "KVMq", tie=False, note="values decide")
    for c in cases[P]:
        bank = next(b for b in BANK.values() if "M" in b and b["K"].shape == (c["n_kv"], c["n"], c["d"]))
        s = R.predicted_scores(bank["K"], bank["V"], bank["M"])
        c["expected"]["acc"] = [tolist(s[h][x]) for h, x in enumerate(c["expected"]["kept"])]
    P = "stream_kvzap"
    for name, b, cap, r in (("mha", "E", S(60, 72), 12), ("gqa", "B", S(40, 33), S(8, 11)), ("mostly_decode", "A", S(20, 22), 4)):
        add_stream(P, "kvzap", name, b, [dict(prefill=dec, capacity=cap + i, recent=r) for i in range(12) for dec in (S(25, 21), 30)], "KVMq")


def g_row_shares():
    """Cases of `row_shares`. A unit test of the engine (`heads/profile`) reads the file, so it is not in the index of the golden
    runner. With its own random numbers it leaves the other files as they are. f32 orders the scores as f64 does."""
    draw = np.random.default_rng(A_.seed + 1)
    out = []

    def case(name, n_kv, scores, kept, note):
        shares = [[float(f"{y:.7g}") for y in R.row_shares(scores, share)] for share in kept]
        out.append(dict(name=name, n_layer=len(scores) // n_kv, n_kv=n_kv, note=note, inputs=dict(scores=[x.tolist() for x in scores]),
                        params=dict(kept=kept), expected=dict(shares=shares)))

    heads = lambda x, rows: np.split(x, np.cumsum(rows)[:-1])
    rows = [8, 13, 21, 40]
    case("distinct_scores", 2, heads(draw.permutation(sum(rows)) / 100, rows), [0, .02, .05, .075, .12, .18, .2, .25, .35, .45, .6, .7, .85, 1], "no ties")
    rows = [10, 33, 12, 16]
    tied = np.where(draw.random(sum(rows)) < .6, 0, draw.integers(1, 8, sum(rows)) / 10)
    case("ties_and_zeros", 4, heads(tied, rows), [0, .05, .1, .15, .2, .3, .4, .5, .65, .7, .9, 1], "eight different scores; at 0.7 the cut is among the zeros")
    rows = [9, 0, 24, 17]
    case("head_without_rows", 2, heads(draw.integers(0, 50, sum(rows)) / 100, rows), [0, .1, .33, .7, .8, 1], "the second head has no rows")
    rows = [11, 8, 14, 10, 9, 19]
    layer = np.repeat([0, .9, .05], [19, 24, 28])
    case("one_high_layer", 2, heads((draw.permutation(sum(rows)) + np.round(layer * 1000)) / 1000, rows), [0, .1, .3, .37, .5, .99, 1], "every score of the second layer is above the others")
    with open(os.path.join(A_.out, "row_shares.json"), "w") as fh:
        json.dump(dict(policy="row_shares", format="inputs.scores: rows of each KV head, layer by layer; expected.shares: of each head, for each of params.kept",
                       cases=out), fh, separators=(",", ":"))


g_row_shares()
g_all(); g_streams(); g_misc(); g_kvzip(); g_kvzap(); g_kvzip_plus()
index = dict(profile=A_.profile, seed=A_.seed, format="see README.md", policies={})
for p, c in cases.items():
    with open(os.path.join(A_.out, p + ".json"), "w") as fh:
        json.dump(dict(policy=p, cases=c), fh, separators=(",", ":"))
    index["policies"][p] = dict(file=p + ".json", cases=[x["name"] for x in c])
index["arrays"] = saved
json.dump(index, open(os.path.join(A_.out, "index.json"), "w"), indent=1)
with open(os.path.join(A_.out, "README.md"), "w") as fh:
    fh.write("""# Cases (%s, seed %d)

Made by `generate.py`; regenerate with the same seed and profile. `index.json` in `cases.zip.br`, a ZIP file that is compressed as a
whole, lists all files there.
`<policy>.json` = {policy, cases[]}; a case has `inputs` (name -> .npy, '<f4', C order), `params`, `expected`.
Arrays: K, V [n_kv, n, d] (keys after RoPE); Q [n_head, rows, d] = the LAST `rows` query rows (the long banks store
64 rows: take the last `window`/`recent` of them); q [n_head, d] = one new query after the n tokens; query head h reads
KV head h // (n_head/n_kv); logits are scaled by 1/sqrt(d).
expected.kept: ascending original positions per KV head; expected.out [n_head][d]: attention of q over the kept entries
(plus the compensation entry with weight +log n_dropped for razor), float64. Compare `kept` exactly in f32, `out` to 1e-4. In cases with `tie_case` the cut may fall on exactly equal scores:
the smaller position stays; code whose equal logits differ by rounding may instead be compared by score (positions in the
symmetric difference must have scores within 1e-5 of the cut) - `out` is then still comparable for the *_in_pairs cases.
stream_*: feed tokens as params.prefill / params.chunks say, then one at a time; `len_per_step`, `kept_mid` (state after
step index `kept_mid_step`) and the final `kept`. l2 count: `expected.count`.
kvzip: the text is repeated in chunks of at most params.chunk tokens, which have the keys and queries of the first reading.
expected.acc: scores of the kept rows. stream_kvzip: of the tokens that follow the prompt the last params.later stay.
kvzip_plus: W [n_head, d, m] is each query head's part of the output matrix, H [n, m] attention's input.
kvzap: M [n_kv, 3 * 2 d + 5] predicts scores; K counts as keys before RoPE. expected.acc: scores of the kept rows.
""" % (A_.profile, A_.seed))
tot = sum(os.path.getsize(os.path.join(r, f)) for r, _, fs in os.walk(A_.out) for f in fs)
print("%s: %d policies, %d cases, %d bytes" % (A_.out, len(cases), sum(map(len, cases.values())), tot))
if A_.pack:
    import brotli

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in sorted(["index.json", *(p + ".json" for p in cases), *saved]):
            # Always the same date, so that the same cases give the same file.
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            archive.writestr(entry, open(os.path.join(A_.out, name), "rb").read())
            os.remove(os.path.join(A_.out, name))
    with open(os.path.join(A_.out, "cases.zip.br"), "wb") as fh:
        fh.write(brotli.compress(packed.getvalue(), quality=11, lgwin=24))
    os.rmdir(os.path.join(A_.out, "data"))
