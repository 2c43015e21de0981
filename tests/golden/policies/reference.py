"""Float64 numpy reference of KV-cache compression policies.

Written from five papers; no code taken from any repository.
  [RA]   RazorAttention      [L2]  L2-norm strategy
  [AHA]  AhaKV      [LAG] LagKV, LocalKV, Lag-L2
  [SLIM] SlimKV
and the baselines they compare with: StreamingLLM, H2O, SnapKV, TOVA.

CONVENTIONS (hold everywhere unless a docstring says otherwise)
  K, V   [n_kv, n, d]      keys AFTER RoPE / values, oldest token first
  Q      [n_head, w, d]    the LAST w query rows after RoPE: row r is position n-w+r
  q      [n_head, d]       one new query (sees every cached entry)
  g      = n_head // n_kv  query head h reads KV head h // g   (HF `repeat_kv` order)
  rule   LogitRule         how q.k becomes a logit; PLAIN is q.k/sqrt(d)
  pos    [n_kv, n]         positions of the rows where some are gone; None = 0 .. n-1
  kept   list of n_kv int arrays, ascending ORIGINAL positions
  ties   the smaller position is kept (stable sort by descending score); no paper says.
         torch.topk leaves this undefined, so tie cases cannot be compared with torch.
  "CHOICE" marks a decision made where the paper is silent, and "CONTRA" where the paper
  contradicts itself; "AUTH" = taken from the authors' code, "KVP" = from kvpress.
  Rule used for choices: authors' code first, then kvpress, then the literal text.
"""
import math
import numpy as np

F = np.float64


# --------------------------------------------------------------------------- basics
def f64(x):
    return np.asarray(x, dtype=F)


def group_size(n_head, n_kv):
    assert n_head % n_kv == 0
    return n_head // n_kv


def floor_tol(x):
    """floor that forgives binary rounding of ratio*n (0.29*100 = 28.999999999999996 -> 29)."""
    return int(math.floor(x + 1e-6))


def ceil_tol(x):
    """ceil that forgives binary rounding of ratio*n (0.07*100 = 7.000000000000001 -> 7)."""
    return int(math.ceil(x - 1e-6))


def softmax(x, axis=-1):
    x = f64(x)
    m = np.max(x, axis=axis, keepdims=True)
    m = np.where(np.isfinite(m), m, 0.0)
    e = np.exp(x - m)
    return e / np.sum(e, axis=axis, keepdims=True)


def top_k(score, k):
    """Indices (ascending) of the k largest entries of a 1-D score; ties -> smaller index."""
    score = f64(score)
    k = max(0, min(int(k), score.shape[0]))
    order = np.argsort(-score, kind="stable")
    return np.sort(order[:k])


def cut_margin(score, k):
    """Relative gap between the k-th and (k+1)-th largest score; inf if nothing is cut.
    0 means a tie at the cut.  Used only to make golden cases safe for f32 code."""
    s = np.sort(f64(score))[::-1]
    if k <= 0 or k >= s.shape[0]:
        return math.inf
    return float((s[k - 1] - s[k]) / max(abs(s[k - 1]), abs(s[k]), 1e-300))


def all_kept(n_kv, n):
    return [np.arange(n) for _ in range(n_kv)]


# ------------------------------------------------------------------------ attention
def attention(q, K, V, extra_log_weight=None, scale=None):
    """Attention of one query per head over a (compressed) cache, with per-entry log weights.

    q [n_head, d]; K, V either arrays [n_kv, n, d] or lists of n_kv arrays [n_h, d] (ragged
    heads); extra_log_weight None or [n_kv, n] / list of [n_h], ADDED to the scaled logit:
        p_j ∝ exp(scale * q.k_j + extra_j)
    [RA] eq. 5 is the case extra = log N_d for the compensation entry and 0 elsewhere.
    CONTRA [RA] eq. 5 writes exp(q k) without 1/sqrt(d); every RoPE model in the paper scales,
    so the scale applies to all logits, the compensation one included.
    Returns out [n_head, d_v], prob list of [n_h] per query head.
    """
    q = f64(q)
    n_head, d = q.shape
    n_kv = len(K)
    g = group_size(n_head, n_kv)
    scale = 1.0 / math.sqrt(d) if scale is None else scale
    out, probs = [], []
    for h in range(n_head):
        k, v = f64(K[h // g]), f64(V[h // g])
        s = (k @ q[h]) * scale
        if extra_log_weight is not None:
            s = s + f64(extra_log_weight[h // g])
        p = softmax(s)
        out.append(p @ v)
        probs.append(p)
    return np.stack(out), probs


def attention_compressed(q, K, V, kept, comp=None, scale=None):
    """attention() over the kept entries of each KV head, plus an optional compensation entry.

    comp: None or list of n_kv items, each None or (k_hat [d], v_hat [d_v], N_d).
    N_d = 0 means no compensation entry (log 0)."""
    ks, vs, ex = [], [], []
    for h, idx in enumerate(kept):
        k, v, e = f64(K[h])[idx], f64(V[h])[idx], np.zeros(len(idx))
        if comp is not None and comp[h] is not None and comp[h][2] > 0:
            kh, vh, nd = comp[h]
            k, v = np.vstack([k, f64(kh)[None]]), np.vstack([v, f64(vh)[None]])
            e = np.append(e, math.log(nd))
        ks.append(k), vs.append(v), ex.append(e)
    return attention(q, ks, vs, ex, scale)[0]


class LogitRule:
    """How a model makes a logit of q.k, and what else takes part in the softmax.

    scale   factor of q.k; None = 1/sqrt(d)
    cap     soft cap: cap * tanh(scale * q.k / cap) in place of scale * q.k (Gemma 2)
    slopes  [n_head] ALiBi: slope times distance is subtracted, after the cap
    sinks   [n_head] a logit without a row, which takes its share of the softmax (gpt-oss)
    The gain of a policy (AhaKV) sharpens the whole softmax: it multiplies all of these."""

    def __init__(self, scale=None, cap=None, slopes=None, sinks=None):
        self.scale, self.cap, self.slopes, self.sinks = scale, cap, slopes, sinks

    def weights(self, head, q, q_pos, k, k_pos, gain=None):
        """q [w, d] at positions q_pos, k [n, d] at k_pos -> softmax [w, n]. Later keys are hidden."""
        q, k, q_pos, k_pos = f64(q), f64(k), np.asarray(q_pos), np.asarray(k_pos)
        scale = 1.0 / math.sqrt(q.shape[1]) if self.scale is None else self.scale
        s = (q @ k.T) * scale
        if self.cap is not None:
            s = self.cap * np.tanh(s / self.cap)
        if self.slopes is not None:
            s = s - self.slopes[head] * (q_pos[:, None] - k_pos[None, :])
        gain = np.ones(len(q)) if gain is None else f64(gain)
        s = s * gain[:, None]
        s[k_pos[None, :] > q_pos[:, None]] = -np.inf
        if self.sinks is None:
            return softmax(s, axis=-1)
        return softmax(np.c_[s, gain * self.sinks[head]], axis=-1)[:, :-1]


PLAIN = LogitRule()


def window_attention(Q, K, rule=PLAIN, gain=None, pos=None):
    """Softmax-normalised attention of the last w rows over all n keys: A [n_head, w, n].

    The last w keys belong to the queries. Row r sees keys 0..n-w+r: the causal mask applies
    INSIDE the window and the softmax runs over prefix and window together (AUTH SnapKV; KVP
    the same). gain: optional [w] factor on the logits of each row (AhaKV's SG-softmax).
    Needs from flash attention only the row log-sum-exp: A = exp(s - LSE)."""
    n_head, w, _ = np.shape(Q)
    n_kv, n, _ = np.shape(K)
    g = group_size(n_head, n_kv)
    pos = np.tile(np.arange(n), (n_kv, 1)) if pos is None else np.asarray(pos)
    return np.stack([rule.weights(h, Q[h], pos[h // g][n - w:], K[h // g], pos[h // g], gain)
                     for h in range(n_head)])


def pool1d(x, kernel, kind):
    """Stride-1, same-length pooling of a 1-D score (SnapKV 'clustering').

    kernel odd; padding kernel//2 on both sides.  kind 'avg': zeros are padded and COUNTED,
    i.e. every output is sum/kernel even at the edges (AUTH SnapKV / KVP: torch avg_pool1d
    default count_include_pad=True).  kind 'max': the padding never wins (-inf).
    kernel 1 = no pooling.  Sum each window directly (no running difference): ties."""
    x = f64(x)
    if kernel == 1:
        return x.copy()
    assert kernel % 2 == 1, "even kernels change the length in torch; not supported"
    r = kernel // 2
    fill = 0.0 if kind == "avg" else -np.inf
    p = np.concatenate([np.full(r, fill), x, np.full(r, fill)])
    win = np.lib.stride_tricks.sliding_window_view(p, kernel)
    if kind == "avg":
        return win.sum(axis=-1) / kernel
    assert kind == "max"
    return win.max(axis=-1)


def over_group(x, n_kv, how):
    """[n_head, ...] -> [n_kv, ...] by mean or sum over the query heads of each KV group."""
    x = f64(x)
    y = x.reshape((n_kv, x.shape[0] // n_kv) + x.shape[1:])
    return y.mean(axis=1) if how == "mean" else y.sum(axis=1)


# -------------------------------------------------------------------- StreamingLLM
def streaming_llm(n, n_kv, n_sink=4, recent=512):
    """Keep positions [0, n_sink) and the last `recent`; everything if n <= n_sink + recent.

    AUTH start_size=4, recent_size; KVP states it as n_kept: recent = n_kept - n_sink.
    CHOICE keys keep the RoPE of their original position (KVP default).  The original code
    re-rotates by position inside the cache; an engine that does so must say it."""
    if n <= n_sink + recent:
        return all_kept(n_kv, n)
    idx = np.concatenate([np.arange(n_sink), np.arange(n - recent, n)])
    return [idx.copy() for _ in range(n_kv)]


# --------------------------------------------------------------------------- L2 norm
def l2_scores(K):
    """[n_kv, n] score = -||k||_2 of the post-RoPE key (RoPE does not change the norm)."""
    return -np.sqrt((f64(K) ** 2).sum(-1))


def l2_norm(K, keep, n_sink=0, n_recent=0):
    """[L2] keep the `keep` keys of lowest ||k||_2 per KV head.

    CHOICE sinks and recent tokens are NOT protected by default (AUTH, KVP and the paper);
    n_sink / n_recent > 0 keep them outside the top-k, their number counted inside `keep`.
    Returns kept."""
    s = l2_scores(K)
    n_kv, n = s.shape
    if keep >= n:
        return all_kept(n_kv, n)
    assert keep >= n_sink + n_recent
    kept = []
    for h in range(n_kv):
        mid = np.arange(n_sink, n - n_recent)
        pick = mid[top_k(s[h, mid], keep - n_sink - n_recent)]
        kept.append(np.concatenate([np.arange(n_sink), pick, np.arange(n - n_recent, n)]))
    return kept


def l2_keep_count(n, keep_ratio, prune_after=2048, layer=None, skip_layers=(0, 1)):
    """How many entries [L2] keeps of n: all below the trigger or in a skipped layer.

    AUTH: nothing happens while n < prune_after; at n >= prune_after keep ceil(keep_ratio*n).
    KVP rounds down instead: int(n*(1-compression_ratio)).
    Decode form: call at every step; the cache saws between ceil(r*prune_after) and
    prune_after.  CONTRA the paper's language-model test ('discard the highest norm once the
    length is reached') reads as one eviction per step; that is keep = budget each step."""
    if n < prune_after or (layer is not None and layer in skip_layers):
        return n
    return min(n, ceil_tol(keep_ratio * n))


def alr(a, key_norm):
    """[L2] eq. 5-7.  a [n] attention probabilities of the next query over n cached tokens,
    key_norm [n].  L^m = mass of the m tokens of highest norm, L^{m,ref} = mass of the m
    tokens of lowest attention; Y = sum_{m=1..n} (L^m - L^{m,ref}) >= 0.

    AUTH the query's own position is removed from a (it cannot be dropped), without
    renormalising.  CHOICE equal norms: the larger index is dropped first (mirror of `ties`).
    Average over queries/texts outside (paper: 1024 chunks of 1024 tokens).
    Returns (Y, loss_by_norm [n], loss_ideal [n])."""
    a, key_norm = f64(a), f64(key_norm)
    keep_order = np.argsort(key_norm, kind="stable")
    by_norm = np.cumsum(a[keep_order[::-1]])
    ideal = np.cumsum(np.sort(a))
    return float(np.sum(by_norm - ideal)), by_norm, ideal


# ----------------------------------------------------------------------------- LagKV
def lag_state_score(X, ref):
    """[LAG] eq. 5-8 for one head, one partition: X, ref [L, d] -> [L].

    min/max per CHANNEL over the L tokens of ref; normalise X; std over channels; softmax
    over the L tokens of the partition.  AUTH std is the unbiased one (ddof = 1, torch.std)
    and the softmax axis is the token axis inside the partition.
    CHOICE a channel with max == min contributes 0 to every token (AUTH divides by zero:
    inf/nan).  No eps is added otherwise."""
    lo, hi = ref.min(axis=0), ref.max(axis=0)
    rng = hi - lo
    ok = rng > 0
    z = np.where(ok, (X - lo) / np.where(ok, rng, 1.0), 0.0)
    return softmax(z.std(axis=1, ddof=1))


def lag_partition_score(Kp, Vp, Kr, Vr, variant="lagkv", v_weight=1.0):
    """Score [L] of one partition (Kp, Vp [L, d]) given the next partition (Kr, Vr).

    lagkv    eq. 9: softmax-std score of K plus v_weight times that of V (AUTH v_weight 1;
             KVP halves the sum, same order)
    localkv  eq. 12-13: the partition is its own reference
    l2       eq. 14: -||k||_2 (AUTH l2_kv.py; + 0 * value norm)"""
    if variant == "l2":
        return -np.sqrt((Kp ** 2).sum(-1))
    if variant == "localkv":
        Kr, Vr = Kp, Vp
    else:
        assert variant == "lagkv"
    return lag_state_score(Kp, Kr) + v_weight * lag_state_score(Vp, Vr)


def lagkv(K, V, sink=16, lag=128, ratio=0.25, variant="lagkv", v_weight=1.0):
    """[LAG] eq. 5-11.  Returns (kept, scores [n_kv, n] with +inf where always kept).

    P = (n - S)//L partitions of L after the sink; the first P-1 keep m = int(r*L) tokens
    each, the last full partition and the remainder form the sliding window.
    CONTRA trigger: 'not less than S+2L' (and AUTH, KVP: n >= S+2L) against 'for
    L_s <= S+2L the compression ratio is zero'; here compression starts AT n = S+2L.
    CONTRA eq. 10 has misplaced brackets; read L_R = S + m*(P-1) + L + (n-S) mod L.
    AUTH m = int(r*L) truncates (0.167*128 -> 21).  floor_tol is used (0.29*100 -> 29).
    The reference is always the ORIGINAL next partition, so any chunking of the same K, V
    gives the same kept set (see LagStream).  Variant l2 skips layers 0 and 1."""
    K, V = f64(K), f64(V)
    n_kv, n, _ = K.shape
    S, L, m = sink, lag, floor_tol(ratio * lag)
    scores = np.full((n_kv, n), np.inf)
    if n < S + 2 * L:
        return all_kept(n_kv, n), scores
    P = (n - S) // L
    kept = []
    for h in range(n_kv):
        idx = [np.arange(S)]
        for p in range(P - 1):
            a, b = S + p * L, S + (p + 1) * L
            s = lag_partition_score(K[h, a:b], V[h, a:b], K[h, b:b + L], V[h, b:b + L],
                                    variant, v_weight)
            scores[h, a:b] = s
            idx.append(a + top_k(s, m))
        idx.append(np.arange(S + (P - 1) * L, n))
        kept.append(np.concatenate(idx))
    return kept, scores


def lag_len(n, sink, lag, ratio):
    """[LAG] eq. 10: cache length after compression (= len(kept) of lagkv)."""
    if n < sink + 2 * lag:
        return n
    return sink + floor_tol(ratio * lag) * ((n - sink) // lag - 1) + lag + (n - sink) % lag


# ---------------------------------------------------------------------- H2O and TOVA
def h2o(K, Q, heavy, recent, rule=PLAIN):
    """H2O: sum over the given query rows of the attention each key receives, plus recency.

    Q [n_head, n, d] = every query row (w = n); with w < n only those rows are summed.
    Keep the last `recent` entries and, of the others, the `heavy` of highest sum.
    AUTH plain sum, not divided by the number of rows that can see the key (KVP
    ObservedAttention divides: different method); no sink protection; recent excluded from
    the top-k.  CHOICE GQA: mean over the group's query heads (KVP; AUTH is MHA only).
    Returns (kept, score [n_kv, n])."""
    n_kv, n = len(K), len(K[0])
    A = window_attention(Q, K, rule)
    s = over_group(A.sum(axis=1), n_kv, "mean")
    if n <= heavy + recent:
        return all_kept(n_kv, n), s
    tail = np.arange(n - recent, n)
    return [np.concatenate([top_k(s[h, :n - recent], heavy), tail]) for h in range(n_kv)], s


def tova(K, Q, capacity, protect_last=False, rule=PLAIN, pos=None):
    """TOVA: attention of the LAST row, averaged over ALL query heads of the layer; the same
    `capacity` positions for every KV head.  Q [n_head, w>=1, d], only row -1 is used.

    AUTH the newest token is not protected; KVP protects it (protect_last=True).
    Returns (kept, score [n])."""
    n_kv, n = len(K), len(K[0])
    s = window_attention(f64(Q)[:, -1:], K, rule, pos=pos)[:, 0].mean(axis=0)
    if n <= capacity:
        return all_kept(n_kv, n), s
    if protect_last:
        idx = np.append(top_k(s[:-1], capacity - 1), n - 1)
    else:
        idx = top_k(s, capacity)
    return [idx.copy() for _ in range(n_kv)], s


# ------------------------------------------------------------------------------ KVzip
def kvzip_parts(n, chunk, tokens_before=16, other_rows=16):
    """How a text of n tokens is repeated behind itself, `chunk` tokens at a time.

    Returns a list of (tokens repeated, rows scored, rows seen besides the repeated tokens).
    CHOICE: no words ask for the repetition, but each part follows up to 16 of the tokens before
    it (the paper: a prompt and 8 tokens). The last token of a part is not repeated: it looks for
    the row behind the part. Besides the part, queries see the first and the last 16 rows of the
    text (AUTH: the rows of the system prompt), which take the attention of idle heads."""
    before = min(max(chunk // 4, 1), tokens_before)
    out = []
    for first in range(0, n, chunk - before + 1):
        end = min(n, first + chunk - before + 1)
        seen = np.r_[:min(other_rows, first), first:end, max(n - other_rows, end):n]
        if end - 1 > max(first - before, 0):
            out.append((np.arange(max(first - before, 0), end - 1), np.arange(first, end), seen))
    return out


def kvzip_scores(K, Q, chunk, rule=PLAIN, again=None, plus=None):
    """KVzip: the largest attention of each row while the text is repeated. [n_kv, n]

    plus = (V [n_kv, n, d], W [n_head, d, m], H [n, m]): KVzip+. W is the part of the output matrix of each query head, H
    what a layer's attention gets of each token. AUTH (kvpress, `kvzip_plus_normalization`): each weight is multiplied by
    |V W|, of the row and the query head, and divided by |H|, of the token that looks.
    CHOICE of such a score s, s / (1 + s) is kept: in the same order, and below 1 as attention is.

    again(tokens) gives the keys [n_kv, len, d] and queries [n_head, len, d] of tokens that are
    repeated behind the text; by default those of the first reading. Of the tokens before a
    part only the last one counts, which looks for its first row. AUTH maximum over the query
    heads of the group as well, and no other rows in the softmax than those of kvzip_parts."""
    K, Q = f64(K), f64(Q)
    n_kv, n, _ = K.shape
    g = group_size(len(Q), n_kv)
    again = again or (lambda tokens: (K[:, tokens], Q[:, tokens]))
    if plus:
        V, W, H = map(f64, plus)
        added = [np.linalg.norm(V[h // g] @ W[h], axis=-1) for h in range(len(Q))]
    S = np.zeros((n_kv, n))
    for tokens, part, seen in kvzip_parts(n, chunk):
        counted = np.arange(len(tokens))[-len(part):]
        later_k, later_q = again(tokens)
        pos = np.concatenate([seen, n + np.arange(len(tokens))])
        for h in range(len(Q)):
            keys = np.concatenate([K[h // g][seen], f64(later_k[h // g])])
            weights = rule.weights(h, f64(later_q[h])[counted], n + counted, keys, pos)
            weights = weights[:, np.searchsorted(seen, part)]
            if plus:
                weights = weights * added[h][part] / np.linalg.norm(H[tokens[counted]], axis=-1)[:, None]
            S[h // g, part] = np.maximum(S[h // g, part], weights.max(axis=0))
    return S / (1 + S) if plus else S


def kvzip(K, Q, capacity, recent, chunk, n_sink=4, rule=PLAIN, again=None, plus=None):
    """Keeps the first n_sink rows, the last `recent`, and the best of the others, `capacity` in all.

    CHOICE the same number of rows for each head here (`heads=shares` is another store, not another rule;
    `row_shares` has the shares).
    Returns (kept, score [n_kv, n])."""
    n_kv, n = len(K), len(K[0])
    s = kvzip_scores(K, Q, chunk, rule, again, plus)
    if n <= capacity:
        return all_kept(n_kv, n), s
    ends = [np.arange(n_sink), np.arange(n - recent, n)]
    best = lambda h: n_sink + top_k(s[h, n_sink:n - recent], capacity - recent - n_sink)
    return [np.concatenate([ends[0], best(h), ends[1]]) for h in range(n_kv)], s


ROW_SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7)


def row_shares(scores, kept, levels=ROW_SHARES):
    """`heads=shares`: the share of its rows that each KV head keeps where a model keeps the share `kept` of all rows.

    scores: for each KV head of the model, all layers, the scores of its rows. Heads may have different numbers of
    rows. At each level, floor(level * rows) rows stay: the best ones of all heads together. A head's share is the
    fraction of its rows among them.
    CHOICE between the levels shares are interpolated linearly, with 0 at 0 and 1 at 1.
    CHOICE ties at the cut: of the rows with the score of the best row that goes, none stays, so that no head is
    preferred for its number.
    CHOICE a head without rows has the share 0 at every level.
    Returns the shares [heads]."""
    head = np.concatenate([np.full(len(x), h) for h, x in enumerate(scores)])
    score = np.concatenate([f64(x) for x in scores])
    best_first = np.argsort(-score, kind="stable")
    at_levels = []
    for level in levels:
        stay, go = np.split(best_first, [floor_tol(level * len(score))])
        stay = stay[score[stay] != score[go[0]]]
        of_head = lambda h: np.isin(np.flatnonzero(head == h), stay)
        at_levels.append([np.mean(of_head(h)) if len(x) else 0.0 for h, x in enumerate(scores)])
    return np.array([np.interp(kept, [0.0, *levels, 1.0], [0.0, *shares, 1.0]) for shares in zip(*at_levels)])


def kvzip_decode(kept, scores, n0, n, capacity, recent, later=0, n_sink=4):
    """Tokens n0 to n follow one at a time. They have no score. CHOICE (the paper evicts none of them): the
    last `later` stay while there are others; older ones are evicted first, the oldest before the others,
    and then rows with the lowest scores. The last `recent` tokens stay. Yields the kept rows after each."""
    kept = [list(x) for x in kept]
    for t in range(n0, n):
        for h, rows in enumerate(kept):
            rows.append(t)
            # Attention is at most 1.
            value = lambda p: scores[h, p] if p < n0 else (2.0 + p if p > t - later else -1.0 / (p + 1))
            free = [p for p in rows if n_sink <= p <= t - recent]
            best = top_k([value(p) for p in free], len(free) + capacity - len(rows))
            for p in set(free) - {free[i] for i in best}:
                rows.remove(p)
        yield [np.array(x) for x in kept]


# --------------------------------------------------------------- KVzap
def predicted_scores(K, V, M):
    """KVzap: the logarithm of a row's KVzip score, from the row itself. [n_kv, n]

    CHOICE the paper's map reads a layer's input. Here it reads x, the key before RoPE and then the value, of D elements in
    all, and the logarithms of four squared norms. M [n_kv, 3 D + 5]: means, slopes, slopes of squares, a constant, and
    the slopes of the norms of the key, of the key less its means, and the same of the value."""
    K, V, M = f64(K), f64(V), f64(M)
    d = K.shape[-1]
    x = np.concatenate([K, V], axis=-1)
    mean, slope, square = (y[:, None] for y in np.split(M[:, :-5], 3, axis=1))
    constant, *of_norms = M[:, -5:].T
    c = x - mean
    norm = lambda y: np.log(np.maximum((y * y).sum(axis=-1), 1e-20))
    norms = [norm(x[..., :d]), norm(c[..., :d]), norm(x[..., d:]), norm(c[..., d:])]
    return constant[:, None] + ((slope + square * c) * c).sum(axis=-1) + sum(w[:, None] * y for w, y in zip(of_norms, norms))


def kvzap(K, V, M, capacity, recent, n0=None, n_sink=4):
    """Keeps the first n_sink rows, the last `recent`, and the best of the others, `capacity` in all. Yields the kept rows
    after the first n0 tokens, and after each one that follows. Rows keep their scores.
    CHOICE as many rows as the budget says (the paper: those with scores above a threshold)."""
    n_kv, n = len(K), len(K[0])
    s = predicted_scores(K, V, M)
    kept = [np.arange(0)] * n_kv
    for end in range(n if n0 is None else n0, n + 1):
        first = max((x[-1] + 1 for x in kept if len(x)), default=0)
        kept = [np.concatenate([x, np.arange(first, end)]) for x in kept]
        for h, x in enumerate(kept):
            if len(x) > capacity:
                free = x[(x >= n_sink) & (x < end - recent)]
                best = free[top_k(s[h, free], capacity - (len(x) - len(free)))]
                kept[h] = np.sort(np.concatenate([np.setdiff1d(x, free), best]))
        yield kept, s


# --------------------------------------------------------------- SnapKV and SlimKV
def snapkv(K, Q, capacity, kernel=5, pool="avg", rule=PLAIN, pos=None):
    """SnapKV: the window (w = Q rows) is kept; of the prefix the capacity - w best.

    Score = sum over window rows of A, pooled per query head, then mean over the group.
    AUTH sum over rows, defaults window 32, kernel 5, avg pooling (class default window 64;
    LongBench configs: window 32, kernel 7, max pooling); no compression if n < capacity.
    KVP mean over rows and mean over the group AFTER pooling (order matters for max).
    AUTH selects per query head on repeated KV; here per KV head (KVP).
    Returns (kept, score [n_kv, n-w])."""
    n_kv, n = len(K), len(K[0])
    n_head, w, _ = np.shape(Q)
    A = window_attention(Q, K, rule, pos=pos)
    per_head = np.stack([pool1d(A[h, :, :n - w].sum(axis=0), kernel, pool)
                         for h in range(n_head)]) if n > w else np.zeros((n_head, 0))
    s = over_group(per_head, n_kv, "mean")
    if n <= capacity:
        return all_kept(n_kv, n), s
    assert capacity >= w
    tail = np.arange(n - w, n)
    return [np.concatenate([top_k(s[h], capacity - w), tail]) for h in range(n_kv)], s


def slimkv(K, V, Q, capacity, kernel=5, pool="avg", combine="product", rule=PLAIN, pos=None):
    """[SLIM] eq. 3-5, Listing 1.

    S1[j] = sum over the group's query heads AND the window rows of A[h, i, j]   (eq. 3)
    S2[j] = max_c |V[j, c]|                                                      (eq. 4)
    S = S1*S2 (combine='product', eq. 5) or S1+S2 (combine='sum', Listing 1 line 15)
    S is pooled ONCE per KV head, then top (capacity - w) of the prefix; window kept.
    CONTRA product (text) against sum (listing): default product.  With the sum the scale
    of S1 matters, so S1 is a SUM over the group (eq. 3), never a mean.
    CONTRA the listing sums over rows only (per query head); eq. 3 sums over the group too
    and S1 has one entry per prefix position of the GROUP: eq. 3 is used.
    CHOICE pooling kind and kernel are not given ('pool1d'): same defaults as SnapKV AUTH.
    Returns (kept, score [n_kv, n-w])."""
    assert combine in ("product", "sum")
    V = f64(V)
    n_kv, n = len(K), len(K[0])
    w = np.shape(Q)[1]
    A = window_attention(Q, K, rule, pos=pos)
    S1 = over_group(A[:, :, :n - w].sum(axis=1), n_kv, "sum")
    S2 = np.abs(V[:, :n - w]).max(axis=-1)
    S = S1 * S2 if combine == "product" else S1 + S2
    s = np.stack([pool1d(S[h], kernel, pool) for h in range(n_kv)]) if n > w else S
    if n <= capacity:
        return all_kept(n_kv, n), s
    assert capacity >= w
    tail = np.arange(n - w, n)
    return [np.concatenate([top_k(s[h], capacity - w), tail]) for h in range(n_kv)], s


# ----------------------------------------------------------------------------- AhaKV
def aha_gain(i, budget, d, mode="entropy"):
    """[AHA] eq. 12 as a factor on the 1/sqrt(d)-scaled logits of a query that sees i tokens
    (i = 1-based absolute position), budget k = B (the TOTAL budget B_r + B_s).

    lambda = sqrt(2 log(i/k) / d).
    CONTRA eq. 7-12 (and appendix A, variance d) put lambda on the RAW product q.k, while
    Algorithm 1 line 6 divides by sqrt(d) before SG-softmax.  Only the first meets the
    design target E[H] = log k.  mode 'entropy' (default): lambda on q.k, i.e. a gain of
    lambda*sqrt(d) = sqrt(2 log(i/k)) on the scaled logit.  mode 'literal': lambda itself on
    the scaled logit (flattens: 0.18 at d=128, i=8k).
    CHOICE i <= k (log <= 0): gain 1, the plain softmax (nothing needs evicting there).
    CONTRA eq. 9 prints lambda*x instead of exp(lambda*x) as numerator, eq. 11 drops a sign:
    misprints."""
    if i <= budget:
        return 1.0
    lam = math.sqrt(2.0 * math.log(i / budget) / d)
    return lam * math.sqrt(d) if mode == "entropy" else lam


def aha_value_prior(V, kernel=5):
    """[AHA] eq. 13-14: [n_kv, n]; avg-pooled squared value norms over the sequence, divided
    by the maximum over all n tokens of the head.

    CHOICE kernel (not given) 5, zero padding counted (as SnapKV AUTH / KVP).
    CHOICE max = 0 (all values zero): prior 1.
    CONTRA the caption of Fig. 3 pools the SCORES; eq. 13 and Algorithm 1 pool the value
    norms: the latter is used."""
    nu = (f64(V) ** 2).sum(-1)
    gam = np.stack([pool1d(x, kernel, "avg") for x in nu])
    top = gam.max(axis=-1, keepdims=True)
    return np.where(top > 0, gam / np.where(top > 0, top, 1.0), 1.0)


def ahakv(K, V, Q, budget=1000, recent=32, kernel=5, mode="entropy", rule=PLAIN):
    """[AHA] eq. 5, 12-15, Algorithm 1 prefill.  Q [n_head, recent, d] = the last B_r rows
    (fewer rows only if n < recent).

    F[j] = sum_{i in last B_r rows} SGsoftmax_i(j), mean over the group's heads (CHOICE, KVP
    style; the paper is per head); F_hat = prior * F; keep the last B_r tokens and the
    B_s = B - B_r best of the others.
    CONTRA eq. 5 sums rows n-r..n (r+1 rows), Algorithm 1 the B_r recent tokens: B_r rows.
    CONTRA Algorithm 1 line 11 ranks F_s; line 19 and eq. 15 use F_hat_s: F_hat.
    No sink protection.  Rows i <= B use the plain softmax (see aha_gain).
    Returns (kept, F_hat [n_kv, n])."""
    n_kv, n, d = np.shape(K)
    w = np.shape(Q)[1]
    assert w == min(recent, n)
    gain = [aha_gain(n - w + r + 1, budget, d, mode) for r in range(w)]
    A = window_attention(Q, K, rule, gain)
    Fs = over_group(A.sum(axis=1), n_kv, "mean") * aha_value_prior(V, kernel)
    if n <= budget:
        return all_kept(n_kv, n), Fs
    tail = np.arange(n - recent, n)
    return [np.concatenate([top_k(Fs[h, :n - recent], budget - recent), tail])
            for h in range(n_kv)], Fs


# -------------------------------------------------------------------- RazorAttention
def razor_window(N, S0=4000, C=5.0):
    """[RA] Algorithm 1 line 2, Table 2: L_h = max(S0, N/C).

    CHOICE N = ALL tokens the head has seen (sinks and already dropped ones included), so
    L_h grows during decode; floor(N/C).  N - L_h never decreases, hence a dropped token is
    never needed again."""
    return max(int(S0), floor_tol(N / C))


def razor(K, V, retrieval, S0=4000, C=5.0, n_sink=4):
    """[RA] Algorithm 1 (RoPE).  retrieval: bool per KV head (True = full cache).

    Non-retrieval heads keep the n_sink first and the L_h last tokens; D = [n_sink, N-L_h)
    is replaced by (k_hat, v_hat) = plain means of post-RoPE keys and of values (eq. 4),
    weight N_d = |D| (eq. 5).  The sinks are NOT counted in L_h (line 3: 'recent L_h AND
    first N_0').  N <= L_h + n_sink: nothing dropped, N_d = 0.
    Returns (kept, comp) with comp[h] = (k_hat, v_hat, N_d) or None."""
    K, V = f64(K), f64(V)
    n_kv, n, _ = K.shape
    lo = n_sink
    hi = n - razor_window(n, S0, C)
    kept, comp = [], []
    for h in range(n_kv):
        if retrieval[h] or hi <= lo:
            kept.append(np.arange(n)), comp.append(None)
            continue
        kept.append(np.concatenate([np.arange(lo), np.arange(hi, n)]))
        comp.append((K[h, lo:hi].mean(0), V[h, lo:hi].mean(0), hi - lo))
    return kept, comp


def induction_echo_scores(A, period, n_prefix=1, occurrences="all"):
    """[RA] sec. 3.3: A [n_head, T, T] causal attention over n_prefix + R*period tokens (the
    same `period` random tokens R = 4 times) -> (induction [n_head], echo [n_head]).

    Row t (0-based after the prefix) of repeats 2..R; earlier occurrences j = t - r*period.
      echo row score      = sum_j A[t, j]          (attends to the same token)
      induction row score = sum_j A[t, j + 1]      (attends to its successor)
    mean over the rows.  AUTH (Huawei msmodelslim): ALL earlier occurrences summed, one BOS
    token in front (n_prefix = 1), first repeat skipped, period 2500.
    occurrences='last' keeps only j = t - period (another reading).
    CONTRA 'the previous token that is immediately succeeded by the current token' would be
    j - 1; Fig. 3b, 'attends to the coming token' and AUTH say j + 1.
    Needs of each row only the logits at these <= 6 columns and the log-sum-exp."""
    A = f64(A)
    n_head, T, _ = A.shape
    R = (T - n_prefix) // period
    assert n_prefix + R * period == T and R >= 2
    ind, echo = np.zeros(n_head), np.zeros(n_head)
    for t in range(period, R * period):
        js = range(t - period, -1, -period) if occurrences == "all" else [t - period]
        for j in js:
            echo += A[:, n_prefix + t, n_prefix + j]
            ind += A[:, n_prefix + t, n_prefix + j + 1]
    rows = (R - 1) * period
    return ind / rows, echo / rows


def select_retrieval_heads(induction, echo, n_kv, ind_frac=0.14, echo_frac=0.01,
                           per_kv_group=False):
    """[RA] Table 2 + GQA rule.  induction, echo [n_layer, n_head] -> (heads, kv):
    heads bool [n_layer, n_head] = top ind_frac by induction UNION top echo_frac by echo over
    ALL query heads of the model; kv bool [n_layer, n_kv] = any head of its group.

    Counts: round-half-even(frac * total) (AUTH); the two lists may overlap and are not
    topped up.  Small models: 1 % of < 50 heads rounds to 0 echo heads (CHOICE: left so).
    CHOICE ties: smaller (layer, head) first, exact count (AUTH takes all tied heads).
    CONTRA AUTH first takes the group MAXIMUM and then the fraction of KV heads
    (per_kv_group=True): with GQA that protects fewer KV heads than the paper's text
    'top 14 % of attention heads ... group retrieval if one or more heads satisfy'."""
    induction, echo = f64(induction), f64(echo)
    n_layer, n_head = induction.shape
    g = group_size(n_head, n_kv)
    if per_kv_group:
        induction = induction.reshape(n_layer, n_kv, g).max(-1)
        echo = echo.reshape(n_layer, n_kv, g).max(-1)
    pick = np.zeros(induction.size, bool)
    for s, frac in ((induction, ind_frac), (echo, echo_frac)):
        pick[top_k(s.ravel(), int(round(frac * s.size)))] = True
    pick = pick.reshape(induction.shape)
    if per_kv_group:
        return np.repeat(pick, g, axis=1), pick
    return pick, pick.reshape(n_layer, n_kv, g).any(-1)


def alibi_slopes(n_head):
    """ALiBi slopes l_h: powers of 2^(-8/p), p the largest power of two <= n_head, then every
    second slope of the 2p series for the rest."""
    def pow2(p):
        return [2.0 ** (-8.0 * (i + 1) / p) for i in range(p)]
    p = 2 ** int(math.floor(math.log2(n_head)))
    return np.array(pow2(p) + pow2(2 * p)[0::2][:n_head - p])


def alibi_scope(Wq, Wk, gamma, b, slope, eps=1e-3, logit_scale=1.0, rigorous=False):
    """[RA] eq. 2: vision scope of one head (real number of tokens).
        L_h = (2 ||Wq Wk^T||_2 (||gamma||^2 + ||b||^2) - log eps) / slope
    Wq, Wk [d_model, d_h] with q = x Wq, k = x Wk (transpose HF nn.Linear weights);
    gamma, b [d_model] of the norm before attention (b = 0 for RMSNorm).
    ||.||_2 is the spectral norm of the d_model x d_model product (the paper drops the
    transpose), computed on the d_h x d_h factor R_q R_k^T of the QR decompositions.
    CHOICE logit_scale multiplies the bound; 1.0 is the paper's eq. 1 (unscaled); pass
    1/sqrt(d_h) for a model that scales its logits.  Paper's experiments: eps = 1e-3.
    CONTRA eq. 2 bounds 'n < m - C_0' and defines L_h: the same number.  CONTRA appendix A.1
    divides by exp(q q^T) where S_{m->m} = q_m k_m may be negative, and uses
    ||gamma*x||^2 <= ||gamma||^2, false for uneven gamma.  rigorous=True gives a true bound:
        L = (2 s ||Wq Wk^T||_2 (sqrt(d) max|gamma| + ||b||)^2 - log eps) / slope."""
    Wq, Wk, gamma, b = f64(Wq), f64(Wk), f64(gamma), f64(b)
    Rq = np.linalg.qr(Wq, mode="r")
    Rk = np.linalg.qr(Wk, mode="r")
    sigma = np.linalg.svd(Rq @ Rk.T, compute_uv=False)[0]
    if rigorous:
        x2 = (math.sqrt(gamma.size) * np.abs(gamma).max() + np.linalg.norm(b)) ** 2
        bound = 2.0 * sigma * x2
    else:
        bound = 2.0 * sigma * (gamma @ gamma + b @ b)
    return float((logit_scale * bound - math.log(eps)) / slope)


def alibi_keep(n, scopes):
    """Keep the last ceil(L_h) tokens (current one included).  CHOICE no sink, no
    compensation token for ALiBi (sec. 3.1 says neither).  GQA/MQA: scopes per KV head = max
    over its query heads."""
    return [np.arange(max(0, n - int(math.ceil(L))), n) for L in scopes]


# ------------------------------------------------------------------- streaming forms
class LagStream:
    """Recursive LagKV for one layer (AUTH): compressed part | uncompressed tail.

    append() takes any number of tokens; when the tail (after the sink) holds >= 2L tokens
    every full partition but the last is compressed, using the next one as reference.
    State per KV head: the cache itself and `done` = number of compressed entries (sink
    included).  Attention of the appended tokens uses the cache BEFORE this compression
    (AUTH use_then_compress).  Result == lagkv() on the whole sequence, for any chunking."""

    def __init__(self, n_kv, sink, lag, ratio, variant="lagkv", v_weight=1.0):
        self.S, self.L, self.m = sink, lag, floor_tol(ratio * lag)
        self.variant, self.vw, self.seen = variant, v_weight, 0
        self.K = [None] * n_kv
        self.V = [None] * n_kv
        self.pos = [np.zeros(0, int) for _ in range(n_kv)]
        self.done = sink

    def append(self, K, V):
        K, V = f64(K), f64(V)
        new = np.arange(self.seen, self.seen + K.shape[1])
        self.seen += K.shape[1]
        for h in range(len(self.K)):
            self.K[h] = K[h] if self.K[h] is None else np.vstack([self.K[h], K[h]])
            self.V[h] = V[h] if self.V[h] is None else np.vstack([self.V[h], V[h]])
            self.pos[h] = np.concatenate([self.pos[h], new])
        n, L, base = len(self.pos[0]), self.L, self.done
        if n < base + 2 * L:
            return
        P = (n - base) // L
        for h in range(len(self.K)):
            idx = [np.arange(base)]
            for p in range(P - 1):
                a, b = base + p * L, base + (p + 1) * L
                s = lag_partition_score(self.K[h][a:b], self.V[h][a:b], self.K[h][b:b + L],
                                        self.V[h][b:b + L], self.variant, self.vw)
                idx.append(a + top_k(s, self.m))
            idx.append(np.arange(base + (P - 1) * L, n))
            idx = np.concatenate(idx)
            self.K[h], self.V[h], self.pos[h] = self.K[h][idx], self.V[h][idx], self.pos[h][idx]
        self.done = base + (P - 1) * self.m


class RazorStream:
    """[RA] ring-buffer form of one NON-retrieval KV head: sinks | ring of the last L_h |
    running sums of the dropped keys/values and their count (f32 sums are enough for
    N_d < 1e6; never average averages).  == razor() on the whole sequence."""

    def __init__(self, d, dv, S0, C, n_sink):
        self.S0, self.C, self.n0 = S0, C, n_sink
        self.sink, self.ring, self.N, self.Nd = [], [], 0, 0
        self.sk, self.sv = np.zeros(d), np.zeros(dv)

    def append(self, k, v):
        item = (self.N, f64(k), f64(v))
        (self.sink if self.N < self.n0 else self.ring).append(item)
        self.N += 1
        lo = self.N - razor_window(self.N, self.S0, self.C)
        while self.ring and self.ring[0][0] < lo:
            _, k0, v0 = self.ring.pop(0)
            self.sk, self.sv, self.Nd = self.sk + k0, self.sv + v0, self.Nd + 1

    def kept(self):
        return np.array([i for i, _, _ in self.sink + self.ring])

    def comp(self):
        return None if self.Nd == 0 else (self.sk / self.Nd, self.sv / self.Nd, self.Nd)


class ScoreStream:
    """Accumulated-score caches of one layer: H2O ('h2o') and AhaKV decode ('aha').

    State: K, V, pos, acc [n_kv][entries].  prefill_* fills acc, step(k, v, q) does one
    decode token: append (acc 0), add this row's attention over the CURRENT cache (evicted
    tokens are gone from its softmax), mean over the group, then evict down to
    selected + recent: the last `recent` ENTRIES stay, of the rest the best `selected`.
    AhaKV: SG-softmax with i = absolute number of tokens seen so far (not the cache length,
    which would give gain ~ 0), k = B; F_0 = F_hat of prefill, no value prior on the
    increments (Algorithm 1 line 27 literally)."""

    def __init__(self, kind, selected, recent, kernel=5, mode="entropy", rule=PLAIN):
        self.kind, self.sel, self.rec = kind, selected, recent
        self.kernel, self.mode, self.rule = kernel, mode, rule
        self.margin = math.inf

    def prefill(self, K, V, Q):
        """Q: all rows for 'h2o' (w = n), the last `recent` rows for 'aha'."""
        if self.kind == "h2o":
            kept, s = h2o(K, Q, self.sel, self.rec, self.rule)
        else:
            kept, s = ahakv(K, V, Q, self.sel + self.rec, self.rec, self.kernel, self.mode,
                            self.rule)
        self.N = np.shape(K)[1]
        self.K = [f64(K[h])[i] for h, i in enumerate(kept)]
        self.V = [f64(V[h])[i] for h, i in enumerate(kept)]
        self.acc = [s[h][i] for h, i in enumerate(kept)]
        self.pos = kept

    def step(self, k, v, q):
        k, v, q = f64(k), f64(v), f64(q)
        n_kv, g = len(self.K), len(q) // len(self.K)
        self.N += 1
        gain = 1.0 if self.kind == "h2o" else aha_gain(self.N, self.sel + self.rec, q.shape[1],
                                                       self.mode)
        for h in range(n_kv):
            self.K[h] = np.vstack([self.K[h], k[h][None]])
            self.V[h] = np.vstack([self.V[h], v[h][None]])
            self.pos[h] = np.append(self.pos[h], self.N - 1)
            rows = [self.rule.weights(i, q[i][None], [self.N - 1], self.K[h], self.pos[h], [gain])
                    for i in range(h * g, h * g + g)]
            row = np.mean(rows, axis=0)[0]
            self.acc[h] = np.append(self.acc[h], 0.0) + row
            n = len(self.acc[h])
            if n > self.sel + self.rec:
                cand = self.acc[h][:n - self.rec]
                self.margin = min(self.margin, cut_margin(cand, self.sel))
                idx = np.concatenate([top_k(cand, self.sel), np.arange(n - self.rec, n)])
                self.K[h], self.V[h] = self.K[h][idx], self.V[h][idx]
                self.acc[h], self.pos[h] = self.acc[h][idx], self.pos[h][idx]


class TovaStream:
    """TOVA of one layer: at most `capacity` entries, the same positions for all KV heads.
    append(K, V, Q) takes a chunk (prefill) or one token; only the chunk's last row votes."""

    def __init__(self, capacity, protect_last=False, rule=PLAIN):
        self.cap, self.protect, self.rule = capacity, protect_last, rule
        self.K = self.V = None
        self.pos, self.N, self.margin = np.zeros(0, int), 0, math.inf

    def append(self, K, V, Q):
        K, V = f64(K), f64(V)
        self.K = K if self.K is None else np.concatenate([self.K, K], 1)
        self.V = V if self.V is None else np.concatenate([self.V, V], 1)
        self.pos = np.concatenate([self.pos, np.arange(self.N, self.N + K.shape[1])])
        self.N += K.shape[1]
        pos = np.tile(self.pos, (len(self.K), 1))
        kept, s = tova(self.K, f64(Q)[:, -1:], self.cap, self.protect, self.rule, pos)
        if len(self.pos) > self.cap:
            cand = s[:-1] if self.protect else s
            self.margin = min(self.margin, cut_margin(cand, self.cap - int(self.protect)))
        i = kept[0]
        self.K, self.V, self.pos = self.K[:, i], self.V[:, i], self.pos[i]


class L2Stream:
    """[L2] of one layer: after every append, l2_keep_count() on the CURRENT cache length,
    then keep that many lowest norms (AUTH).  keep_ratio=None: fixed budget prune_after."""

    def __init__(self, keep_ratio, prune_after):
        self.r, self.after = keep_ratio, prune_after
        self.K = self.V = self.pos = None
        self.N, self.margin = 0, math.inf

    def append(self, K, V):
        K, V = f64(K), f64(V)
        n_kv = len(K)
        new = np.arange(self.N, self.N + K.shape[1])
        self.N += K.shape[1]
        if self.K is None:
            self.K, self.V, self.pos = list(K), list(V), [new.copy() for _ in range(n_kv)]
        else:
            for h in range(n_kv):
                self.K[h] = np.vstack([self.K[h], K[h]])
                self.V[h] = np.vstack([self.V[h], V[h]])
                self.pos[h] = np.concatenate([self.pos[h], new])
        n = len(self.pos[0])
        keep = min(n, self.after) if self.r is None else l2_keep_count(n, self.r, self.after)
        if keep < n:
            for h in range(n_kv):
                s = l2_scores(self.K[h][None])[0]
                self.margin = min(self.margin, cut_margin(s, keep))
                i = top_k(s, keep)
                self.K[h], self.V[h], self.pos[h] = self.K[h][i], self.V[h][i], self.pos[h][i]


class WindowStream:
    """SnapKV or SlimKV of one layer while tokens follow. CHOICE (AUTH lets the cache grow): after
    every append with more than `capacity` rows, the rule is applied to the rows that are left,
    with the queries of the last `window` tokens. choose(K, V, Q, pos) -> kept."""

    def __init__(self, choose, window):
        self.choose, self.window, self.N = choose, window, 0
        self.K = self.V = self.Q = self.pos = None

    def append(self, K, V, Q):
        n_kv, n, _ = np.shape(K)
        new = np.tile(np.arange(self.N, self.N + n), (n_kv, 1))
        add = lambda old, x: f64(x) if old is None else np.concatenate([old, f64(x)], 1)
        self.K, self.V = add(self.K, K), add(self.V, V)
        self.Q = add(self.Q, Q)[:, -self.window:]
        self.pos = new if self.pos is None else np.concatenate([self.pos, new], 1)
        self.N += n
        kept = np.stack(self.choose(self.K, self.V, self.Q, self.pos))
        self.K, self.V = [np.take_along_axis(x, kept[..., None], 1) for x in (self.K, self.V)]
        self.pos = np.take_along_axis(self.pos, kept, 1)
