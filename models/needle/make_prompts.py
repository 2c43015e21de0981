#!/usr/bin/env python3
"""make_prompts.py CKPT: 20 held-out prompts of 1K-16K tokens with the expected answers -> prompts.json.
The filler is the held-out part of the Rust documentation (MIT / Apache-2.0) and generated sentences only, so the result is
not part of the project."""
import json, os, random, sys
import torch
HERE = os.path.dirname(os.path.abspath(__file__)); sys.path.insert(0, HERE)
import data as D, facts as FA, eval as E

PAPER = [("Mary's favorite number is 34251.", "What is Mary's favorite number?", "34251"),
         ("Bob's favorite number is 7690.", "What is Bob's favorite number?", "7690")]


def build(r, T, filler, fs, depths):
    """fs: [(fact, question, value)]; the answer to a question is its fact."""
    left = T - sum(len(D.enc(" " + f)) for f, _, _ in fs) - len(D.enc(fs[0][1])) - 12
    doc = filler.take(r, left, 0.1)
    order = sorted(range(len(fs)), key=lambda i: depths[i])
    out, last = [], 0
    for i in order:
        c = round(depths[i] * len(doc)); out += doc[last:c] + [fs[i][0]]; last = c
    return " ".join(out + doc[last:])


def main():
    m = E.load(sys.argv[1]); torch.set_num_threads(2)
    pol, hi, he, g = E.make_policies(m)
    pol = {k: pol[k] for k in ("full", "razor", "streaming")}
    fl = D.Filler("test", {"rust"})
    r = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 20261120)
    out = []
    for T in (1024, 2048, 4096, 8192, 16384):
        for kind in ("paper", "passkey", "multi", "mixed"):
            if kind == "paper":
                fs = PAPER
                d = [r.uniform(0.05, 0.4), r.uniform(0.4, 0.75)]
            elif kind == "passkey":
                n = FA.digits(r, 7, 7); fs = [(f"The pass key is {n}.", "What is the pass key?", n)]; d = [r.uniform(0.1, 0.7)]
            elif kind == "multi":
                x = FA.make_facts(r, 4, "train", FA.f_number)
                fs = [(f["a"], f"What is {f['key'][1]}'s favorite number?", f["value"]) for f in x]; d = [r.uniform(0.02, 0.78) for _ in fs]
            else:
                mk = [FA.f_secret, FA.f_code, FA.f_phone]; fs = []
                for k in mk:
                    f = k(r, "train")
                    q = {"secret": f"What is the secret word of {f['key'][1]}?", "code": f"What is the code of the {f['key'][1]}?",
                         "phone": f"What is the phone number of {f['key'][1]}?"}[f["kind"]]
                    fs.append((f["a"], q, f["value"]))
                d = [r.uniform(0.02, 0.78) for _ in fs]
            text = build(r, T, fl, fs, d)
            t = E.Task.__new__(E.Task)
            t.doc = [D.IMS] + D.enc("user\n" + text + "\n\n"); t.turns = []; t.ids = []; t.spans = []
            for j, (f, q, v) in enumerate(fs):
                t.ids += (D.NL + [D.IMS] + D.enc("user\n" + q) if j else D.enc(q)) + [D.IME] + D.NL + [D.IMS] + D.enc("assistant\n")
                s = len(t.ids); t.ids += D.enc(f) + [D.IME]; t.spans.append((s, len(t.ids)))
            _, n, res = E.run(m, [t], pol)[0]
            first = f"<|im_start|>user\n{text}\n\n{fs[0][1]}<|im_end|>\n<|im_start|>assistant\n"
            out.append({"id": f"{kind}-{T}", "kind": kind, "document_tokens": n, "prompt_tokens": len(D.enc(first)), "document": text, "depths": d,
                        "turns": [{"question": q, "answer": f, "value": v, "exact": {k: res[k][j] for k in pol}} for j, (f, q, v) in enumerate(fs)],
                        "first_prompt": first})
            print(out[-1]["id"], n, res, flush=True)
    json.dump({"format": "first turn: user content is document + two newlines + question; following turns: the question only. 'exact': whether "
               "this checkpoint gives exactly the answer with the full cache, with Razor, with StreamingLLM (reference simulation).",
               "prompts": out}, open(os.path.join(HERE, sys.argv[3] if len(sys.argv) > 3 else "prompts.json"), "w"), indent=1)


if __name__ == "__main__":
    main()
