#!/usr/bin/env python3
"""train.py --out ck.pt [--init ck.pt] --T 256 --B 32 --minutes 10 --lr 0.02 --lr-end 0.02 ...: one training phase.
The loss is the mean cross entropy of answers, plus that of all other tokens with weight --w-rest."""
import argparse, os, random, sys, threading, queue, time
import numpy as np, torch, torch.nn.functional as F
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from model import *
import data as D

ap = argparse.ArgumentParser()
a = ap.add_argument
a("--out", required=True); a("--init"); a("--T", type=int, default=256); a("--B", type=int, default=32)
a("--minutes", type=float, default=10); a("--lr", type=float, default=0.02); a("--lr-end", type=float)
a("--adam", type=float, default=0.15, help="AdamW lr as a multiple of the Muon lr")
a("--rep", type=float, default=0.3); a("--pose", type=float, default=0.0); a("--maxpos", type=int, default=32768)
a("--w-rest", type=float, default=0.3); a("--w-rep", type=float, default=0.5); a("--M", type=int, default=3072); a("--seed", type=int, default=0)
a("--layers", type=int, default=4); a("--dim", type=int, default=256); a("--ffn", type=int, default=512)
a("--aux", type=float, default=0.0, help="weight of the auxiliary loss: predict the previous token after block 0")
a("--wide", type=int, default=0, help="1: use invented names and words in the facts")
a("--threads", type=int, default=2); a("--stop-acc", type=float, default=2.0); a("--compile", type=int, default=1); a("--warm", type=int, default=50)
args = ap.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(args.seed)
log = open(os.path.splitext(args.out)[0] + ".log", "a")


def say(*x):
    s = " ".join(str(y) for y in x)
    print(s, flush=True); log.write(s + "\n"); log.flush()


state = torch.load(args.init, weights_only=False) if args.init else None
cfg = state["cfg"] if state else Cfg(layers=args.layers, dim=args.dim, ffn=args.ffn)
m = Model(cfg)
mats = [p for n, p in m.named_parameters() if p.dim() == 2 and "emb" not in n]
rest = [p for n, p in m.named_parameters() if not (p.dim() == 2 and "emb" not in n)]
mu, ad = Muon(mats, wd=0.02), torch.optim.AdamW(rest, betas=(0.9, 0.98), weight_decay=0.0, eps=1e-10)
auxw = nn.Parameter(torch.eye(cfg.dim) * 0.5)
aux_opt = torch.optim.AdamW([auxw], lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0)
tokens, step0, hist = 0, 0, []
if state:
    m.load_state_dict(state["model"]); tokens, step0, hist = state["tokens"], state["step"], state["hist"]
    mu.load_state_dict(state["mu"]); ad.load_state_dict(state["ad"])
f = torch.compile(m) if args.compile else m
T, B, M = args.T, args.B, args.M
say("phase", vars(args), "params", n_params(m))

fl = D.Filler("train")
if args.wide:
    import facts
    facts.extend_pools(os.path.dirname(os.path.abspath(__file__)) + "/filler.train.txt")
q = queue.Queue(8)


def feed():
    r = random.Random(args.seed * 1000003 + step0 + 17)
    g = np.random.default_rng(args.seed + step0)
    while True:
        x, y, mask, valid, pos, spans = D.batch(r, B, T, fl, args.rep, args.pose, args.maxpos)
        fm, fv = mask.reshape(-1), valid.reshape(-1)
        ans = np.flatnonzero(fm == 1)
        rep = np.flatnonzero(fm == 2)
        oth = np.flatnonzero((fm == 0) & fv)
        nrep = min(len(rep), M // 3)
        rep = g.permutation(rep)[:nrep]
        ans = ans[:M - nrep]
        oth = g.permutation(oth)[:M - nrep - len(ans)]
        idx = np.concatenate([ans, rep, oth])
        w = np.concatenate([np.full(len(ans), 1 / max(1, len(ans))),
                            np.full(nrep, args.w_rep / max(1, nrep)),
                            np.full(len(oth), args.w_rest / max(1, len(oth)))])
        pad = M - len(idx)
        idx = np.pad(idx, (0, pad)); w = np.pad(w, (0, pad))
        where = {int(k): i for i, k in enumerate(ans)}
        sp = []
        for b, s, e in spans:
            k = [where.get(b * T + j, -1) for j in range(s, e)]
            if min(k) >= 0:
                sp.append((k[0], k[-1] + 1))
        q.put((torch.from_numpy(x), torch.from_numpy(pos), torch.from_numpy(idx), torch.from_numpy(w).float(),
               torch.from_numpy(y.reshape(-1)[idx]), len(ans), nrep, sp))


threading.Thread(target=feed, daemon=True).start()


def save(path):
    torch.save({"cfg": cfg, "model": m.state_dict(), "mu": mu.state_dict(), "ad": ad.state_dict(), "tokens": tokens,
                "step": step, "hist": hist}, path + ".tmp")
    os.replace(path + ".tmp", path)


t0 = tl = time.time()
lr1 = args.lr_end if args.lr_end is not None else args.lr
step = step0; acc = []; last_save = t0; agg = np.zeros(7)
while True:
    el = (time.time() - t0) / 60 / args.minutes
    if el >= 1:
        break
    lr = lr1 + (args.lr - lr1) * 0.5 * (1 + math.cos(math.pi * el))
    lr *= min(1, (step - step0 + 1) / args.warm)
    for g in mu.param_groups: g["lr"] = lr
    for g in ad.param_groups: g["lr"] = lr * args.adam
    x, pos, idx, w, y, na, nr, sp = q.get()
    aux = torch.zeros(())
    with torch.autocast("cpu", torch.bfloat16):
        if args.aux:
            h, x0 = f(x, pos, True)
            ai = torch.randint(0, B * (T - 1), (1024,)); ai = ai + ai // (T - 1) + 1   # any position except the first of a row
            z = F.rms_norm(x0.reshape(B * T, -1)[ai].float(), (cfg.dim,))
            lo_a = F.linear(F.linear(z, auxw), m.emb.weight)
            aux = F.cross_entropy(lo_a.float(), x.reshape(-1)[ai - 1])
        else:
            h = f(x, pos)
        h = h.reshape(B * T, -1)[idx]
        lo = m.logits(h)
    ce = F.cross_entropy(lo.float(), y, reduction="none")
    loss = (ce * w).sum() + args.aux * aux
    loss.backward()
    torch.nn.utils.clip_grad_norm_(rest, 1.0)
    mu.step(); ad.step()
    if args.aux:
        aux_opt.step(); auxw.grad = None
    for p in m.parameters(): p.grad = None
    step += 1; tokens += B * T
    with torch.no_grad():
        ok = (lo.argmax(-1) == y)
        exact = [bool(ok[s:e].all()) for s, e in sp]
        agg += [loss.item(), ce[:na].mean().item() if na else 0, ce[na:na + nr].mean().item() if nr else 0,
                ce[na + nr:][w[na + nr:] > 0].mean().item(), ok[:na].float().mean().item() if na else 0, np.mean(exact) if exact else 0, aux.item()]
    if step % 50 == 0:
        g = agg / 50; agg[:] = 0
        dt = time.time() - tl; tl = time.time()
        say("%s step %d tok %.2fM T %d lr %.4f loss %.3f ans %.3f rep %.3f rest %.3f tokacc %.3f exact %.3f aux %.3f  %.0f tok/s" % (
            time.strftime("%H:%M:%S"), step, tokens / 1e6, T, lr, *g, 50 * B * T / dt))
        hist.append((step, tokens, T, *g))
        acc = (acc + [g[5]])[-3:]
        if len(acc) == 3 and min(acc) > args.stop_acc:
            say("stop: accuracy reached"); break
    if time.time() - last_save > 240:
        save(args.out); last_save = time.time()
save(args.out)
say("done step", step, "tokens", tokens, "minutes %.1f" % ((time.time() - t0) / 60))
os._exit(0)
