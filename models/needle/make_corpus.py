#!/usr/bin/env python3
"""make_corpus.py [--node-docs DIR]: makes the filler corpus and the tokenizer from installed text under permissive licences.

Sources: Rust documentation (MIT/Apache-2.0; component rust-docs), Node.js API documentation (MIT; a folder of HTML files),
docstrings and comments of the Python standard library (PSF) and of torch / transformers (BSD / Apache-2.0). A source that is
not installed is skipped. The sentences are third-party text and not part of this project.
Writes filler.train.txt and filler.test.txt (10 % held out by hash; one 'source<TAB>sentence' per line) and tokenizer.json.
"""
import argparse, ast, glob, hashlib, html, os, random, re, subprocess, sys, sysconfig

OUT = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, OUT)
TAG = re.compile(r"<[^>]+>")
SENT = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def clean(s):
    s = html.unescape(TAG.sub("", s))
    s = s.replace("\u2019", "'").replace("\u2018", "'").replace("\u201c", '"').replace("\u201d", '"')
    s = s.replace("\u2013", "-").replace("\u2014", " - ").replace("\u2026", "...").replace("\u00a0", " ")
    s = re.sub(r":[a-z]+:`~?([^`]*)`", r"\1", s)
    s = s.replace("``", "`")
    return re.sub(r"\s+", " ", s).strip()


def sentences(par):
    for s in SENT.split(clean(par)):
        s = s.strip()
        if not (30 <= len(s) <= 260) or not s.isascii() or not s[0].isupper() or s[-1] not in ".!?":
            continue
        letters = sum(c.isalpha() or c == " " for c in s)
        if letters / len(s) < 0.90 or s.count(" ") < 4 or "<|" in s:
            continue
        if re.search(r"[{}<>|\\=]", s) or s.count("(") != s.count(")") or s.count("`") % 2:
            continue
        yield s


def html_files():
    root = subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip() + "/share/doc/rust/html"
    subs = ["book", "reference", "cargo", "rustc", "rustdoc", "nomicon", "edition-guide", "embedded-book", "clippy",
            "rust-by-example", "style-guide", "unstable-book", "error_codes", "std", "core", "alloc"]
    for sub in subs:
        for p in sorted(glob.glob(f"{root}/{sub}/**/*.html", recursive=True)):
            b = os.path.basename(p)
            if b in ("print.html", "all.html") or "/arch/" in p or "/intrinsics/" in p or "/simd/" in p:
                continue
            yield "rust", p


def from_html():
    for src, p in html_files():
        try:
            t = open(p, errors="ignore").read()
        except OSError:
            continue
        if len(t) > 1_500_000:
            continue
        for m in re.finditer(r"<p>(.*?)</p>", t, re.S):
            for s in sentences(m.group(1)):
                yield src, s


def from_node(folder):
    for p in sorted(glob.glob(folder + "/*.html")) if folder else []:
        if os.path.basename(p) == "all.html":
            continue
        t = open(p, errors="ignore").read()
        for m in re.finditer(r"<p>(.*?)</p>", t, re.S):
            for s in sentences(m.group(1)):
                yield "node", s


def from_python(roots, src, limit=None):
    n = 0
    for root in roots:
        for p in sorted(glob.glob(root + "/**/*.py", recursive=True)):
            if "/test" in p or "/idlelib" in p or "/site-packages" in p and src == "python":
                continue
            try:
                t = open(p, errors="ignore").read()
                tree = ast.parse(t)
            except (SyntaxError, ValueError, OSError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                    d = ast.get_docstring(node)
                    if d:
                        for par in re.split(r"\n\s*\n", d):
                            for s in sentences(par):
                                yield src, s
                                n += 1
            com = re.findall(r"(?:^[ \t]*#[^\n]*\n)+", t, re.M)
            for c in com:
                for s in sentences(re.sub(r"(?m)^[ \t]*#+", " ", c)):
                    yield src, s
                    n += 1
            if limit and n > limit:
                return


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--node-docs", help="folder with the HTML pages of the Node.js API documentation")
    args = ap.parse_args()
    seen, train, test = set(), [], []
    pyl = [sysconfig.get_paths()["stdlib"]]
    site = sysconfig.get_paths()["purelib"]
    gens = [from_html(), from_node(args.node_docs), from_python(pyl, "python"),
            from_python([site + "/torch"], "torch", 40000)]
    if os.path.isdir(site + "/transformers"):
        gens.append(from_python([site + "/transformers"], "transformers", 40000))
    for g in gens:
        k0 = len(train) + len(test)
        for src, s in g:
            if s in seen:
                continue
            seen.add(s)
            h = int(hashlib.sha1(s.encode()).hexdigest(), 16) % 10
            (test if h == 0 else train).append((src, s))
        print("sentences so far", len(train) + len(test), "added", len(train) + len(test) - k0, flush=True)
    rnd = random.Random(1)
    for name, rows in (("train", train), ("test", test)):
        rnd.shuffle(rows)
        with open(f"{OUT}/filler.{name}.txt", "w") as f:
            for src, s in rows:
                f.write(f"{src}\t{s}\n")
        print(name, len(rows), "sentences", sum(len(s) for _, s in rows), "chars")

    from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers, Regex
    import facts
    tok = Tokenizer(models.BPE())
    pat = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+")
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pat), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    # the special tokens follow the normal ones, as in Qwen2
    trainer = trainers.BpeTrainer(vocab_size=facts.VOCAB - len(special), special_tokens=[],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)

    def texts():
        for _, s in train:
            yield " " + s
        r = random.Random(2)
        for _ in range(60000):
            f = facts.make_fact(r, "train")
            yield " " + f["fact"]
            yield f["q"]
            yield f["a"]
            yield "assistant\n"
            yield "user\n"
            yield ".\n\n"
            yield " " + facts.procedural(r)
    tok.train_from_iterator(texts(), trainer)
    from tokenizers import AddedToken
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])
    tok.save(f"{OUT}/tokenizer.json")
    print("vocab", tok.get_vocab_size(), [tok.token_to_id(s) for s in special])
    for s in ["<|im_start|>user\nWhat is Mary's favorite number?<|im_end|>\n", " Bob's favorite number is 7690.",
              " The pass key is 1234567."]:
        print(tok.encode(s).tokens)
    n = sum(len(s) + 1 for _, s in test[:3000])
    print("chars per token", n / sum(len(tok.encode(" " + s).ids) for _, s in test[:3000]))


if __name__ == "__main__":
    main()
