r"""Compares longhand's tokenizers with llama.cpp's on random texts of mixed scripts, and on llama.cpp's own cases.

    token_ids.py --longhand IDS --llama-cpp IDS --vocabularies FOLDER [--texts 10000] [--only NAME]
    token_ids.py --llama-cpp IDS --vocabularies FOLDER --source llama-vocab.cpp \
        --golden ../../models/tests/pretokenizers.json.br

IDS are the two programs of the README. FOLDER has llama.cpp's `ggml-vocab-*.gguf`. With `--source`, every pre-tokenizer
that llama.cpp knows is compared too. Its vocabulary is made up, so that any two neighbouring bytes merge. This shows
where texts are split. `--golden` writes llama.cpp's ids of a few texts with such a vocabulary, for the tests of
longhand. It needs brotli from PyPI.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

SCRIPTS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", "éàüñçßøåÆŒĳǅſİı", "абвгдежзийЖЩЁ",
    "αβγδεζΩΣΔάώ", "אבגדהוש", "ابتثجحخدذ٠١٢٣۴۵", "हिन्दीकखगा०१२", "বাংলাকখগ১২", "ไทยกขคงจ๑๒", "ພາສາລາວ", "ខ្មែរ",
    "မြန်မာ", "ქართული", "ՀայերենԱԲ", "中文漢字一二三龥鿿㐀豈", "𠀀𪜀丽", "ひらがなカタカナ・ー々〇", "한국어가힣ㄱㅎ",
    "ㄅㄆㄯ", "ᄀᄁᆨ", "ⅣⅫ½¾²³①", "😀👍🏽🎉🇩🇪❤", "😀\u200d", "\u200d\ufe0f\u20e3\u200b\u200e\u200f\u202e\ufeff",
    "\u0301\u0308\u0323\u093c\u0e31\u064b", "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~", "¡¿«»“”‘’…—–·€£¥§©®™",
    "、。！？，：；「」（）～！／", "۔،।؟", "±×÷√∞≈∑→⇒■◆", "\x01\x02\x07\x08\x0b\x0c\x1b\x1c\x1f\x7f\x85\xad",
    "\xa0\u1680\u2003\u2009\u2028\u2029\u202f\u205f\u3000", "\ue000\uf8ff\ufffd\U000e0041\U0010ffff", "ʼʰˈꙮᏣꭰ𐐀𐐨",
]
CONTRACTIONS = ["'s", "'T", "'re", "'Ve", "'m", "'LL", "'d", "'", "''s", "’s"]
SNIPPETS = ["<sentinel:12>", "IMGIMGABCZ", "http://x.y/z", "IPv6", "helloWorld", "HTTPServer", "#include", "<b>", "1,234.5"]
# Pre-tokenizers whose vocabularies are not byte-level.
OF_CHARACTERS = ["gemma4", "granite-embed-multi-311m", "sarvam-moe"]
# Only of encoders, which longhand does not run: vocabularies, and a pre-tokenizer.
OF_ENCODERS = ["bert-bge", "nomic-bert-moe", "whitespace"]
# Bytes of texts that a vocabulary has no tokens for. longhand refuses such texts; llama.cpp leaves the bytes out.
LACKING = {"falcon": {3, 4, 5, 0x0B, 0x11, *range(0x13, 0x18), 0x19, *range(0x1C, 0x1F), 0xF2}}


def text(rng):
    parts = []
    for _ in range(rng.randint(1, 12)):
        kind = rng.random()
        if kind < 0.5:
            letters = rng.choice(SCRIPTS)
            parts.append("".join(rng.choice(letters) for _ in range(rng.randint(1, 8))))
        elif kind < 0.58:
            parts.append("".join(rng.choice("0123456789") for _ in range(rng.randint(1, 11))))
        elif kind < 0.74:
            parts.append(rng.choice(" \n\t\r") * rng.choice([1, 1, 1, 2, 2, 3, 4, 5, 7, 9, 17, 33]))
        elif kind < 0.80:
            parts.append("".join(rng.choice(" \n\t\r ") for _ in range(rng.randint(2, 6))))
        elif kind < 0.88:
            parts.append(rng.choice(CONTRACTIONS))
        elif kind < 0.92:
            parts.append(rng.choice(SNIPPETS))
        else:
            parts.append("".join(rng.choice(rng.choice(SCRIPTS)) for _ in range(rng.randint(1, 10))))
        if rng.random() < 0.3:
            parts.append(" ")
    return "".join(parts)


def run(program, vocabulary, pre, texts):
    command = [program, str(vocabulary)] + ([pre] if pre else [])
    done = subprocess.run(command, input="\0".join(texts).encode(), capture_output=True)
    if done.returncode != 0:
        return None, done.stderr.decode(errors="replace").strip()[-200:]
    lines = done.stdout.decode().split("\n")
    return [line.split() for line in lines[: len(texts) + 2]], None


def compare(arguments, name, vocabulary, pre, texts):
    """Prints a row of the table. Returns the number of differences. A program that fails is one, and so is a text that
    is refused without a reason in `LACKING`."""
    ours, our_error = run(arguments.longhand, vocabulary, pre, texts)
    theirs, their_error = run(arguments.llama_cpp, vocabulary, pre, texts)
    if ours is None or theirs is None:
        print(f"{name:34} {len(texts):6}  longhand: {our_error}; llama.cpp: {their_error}", flush=True)
        return 1
    to_refuse = {i for i, text in enumerate(texts) if LACKING.get(name, set()).intersection(text.encode())}
    want = [["refused"] if i in to_refuse else theirs[i + 2] for i in range(len(texts))]
    wrong = [i for i in range(len(texts)) if ours[i + 2] != want[i]]
    notes = f"  {len(to_refuse)} to be refused" if to_refuse else ""
    notes += "" if ours[0] == theirs[0] else "  add_bos differs"
    notes += "" if ours[1] == theirs[1] else f"  ends of generation: {ours[1]} for {theirs[1]}"
    print(f"{name:34} {len(texts):6} {len(wrong):6}{notes}", flush=True)
    for i in wrong[: arguments.show]:
        print(f"    {texts[i]!r}\n      longhand  {ours[i + 2]}\n      expected  {want[i]}")
    return len(wrong) + (ours[:2] != theirs[:2])


def names(source):
    known = set(re.findall(r'tokenizer_pre == "([^"]+)"', source.read_text()))
    return sorted(known.difference(OF_ENCODERS))


GOLDEN = [
    "Hello World's  we'LL don't I'M \n\n  x\n\ny \r\n\t\tz", "1 12 123 1234 12345 1234567 a1b22c333d4444 x12345678y",
    "٣٤٥ 12٣45 ½ Ⅳ² १२३४५", "helloWorld HTTPServer éÉaÀ ßẞ ǅ naïve café", "中文漢字 12中 ひらがなカタカナ 한국어가힣 々〇 ไทย ລາວ ខ្មែរ",
    "e\u0301a\u0308 \u0301x हिन्दी بِسْمِ שָׁלוֹם", "😀👍🏽 👩\u200d👩 🇩🇪 #️⃣ a😀b", "!!! ... ?!/\\n //\n <|x|> #a _b $c {d} `e` ~f 'x' “q” — x",
    "、。！？ 「x」 a，b；c ؟، ।", " a  b   c    d     e" + " " * 9 + "f" + " " * 23 + "g   ", "\t\n \n\t \r\n x\n\n\n  \n y  ",
    "a\xa0b \u3000c\u2003\u2028d\x85e \x0bf\x1cg\u200bh", "IMGIMGABCZ <sentinel:12> x.y, z! (a|b) http://a.b/c?d=1&e=%20",
    "ab cd ef 1,234.50 -5 +6 3.14e-10 0x1F 2024-07-06T08:09",
]


def alphabet():
    """The letter of each byte in byte-level BPE."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def write_vocabulary(path, texts):
    """The bytes, and each two neighbouring bytes of the texts, merged in the order in which they occur."""
    import gguf

    letters = alphabet()
    pairs = {}
    for text in texts:
        letters_of_text = [letters[byte] for byte in text.encode()]
        pairs.update(dict.fromkeys(zip(letters_of_text, letters_of_text[1:])))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_token_list(letters + [left + right for left, right in pairs])
    writer.add_token_merges([f"{left} {right}" for left, right in pairs])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def golden(arguments):
    groups = {}
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = pathlib.Path(folder) / "pairs.gguf"
        write_vocabulary(vocabulary, GOLDEN)
        for pre in names(arguments.source):
            lines, error = run(arguments.llama_cpp, vocabulary, pre, GOLDEN)
            if error:
                print(f"{pre}: {error}")
            else:
                groups.setdefault(json.dumps([" ".join(ids) for ids in lines[2:]]), []).append(pre)
    groups = [{"names": group, "ids": json.loads(ids)} for ids, group in groups.items()]
    import brotli

    text = json.dumps({"texts": GOLDEN, "groups": groups}, ensure_ascii=False, indent=0) + "\n"
    arguments.golden.write_bytes(brotli.compress(text.encode(), quality=11))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhand")
    parser.add_argument("--llama-cpp", required=True)
    parser.add_argument("--vocabularies", type=pathlib.Path, help="a folder of ggml-vocab-*.gguf", required=True)
    parser.add_argument("--source", type=pathlib.Path, help="llama-vocab.cpp, for the names of all pre-tokenizers")
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--only", action="append", help="a vocabulary or pre-tokenizer")
    parser.add_argument("--golden", type=pathlib.Path)
    parser.add_argument("--show", type=int, default=3, help="how many differences are shown")
    arguments = parser.parse_args()
    if arguments.golden:
        return golden(arguments)
    only = arguments.only or []
    wanted = lambda name: not only or name in only
    paths = sorted(arguments.vocabularies.glob("ggml-vocab-*.gguf"))
    vocabularies = {path.stem.removeprefix("ggml-vocab-"): path for path in paths}
    vocabularies = {name: path for name, path in vocabularies.items() if name not in OF_ENCODERS}
    pre_names = names(arguments.source) if arguments.source else []
    if unknown := set(only).difference(vocabularies, pre_names):
        sys.exit(f"there is no vocabulary or pre-tokenizer {', '.join(sorted(unknown))}")

    rng = random.Random(1)
    texts = [text(rng) for _ in range(arguments.texts)]
    wrong = 0
    print(f"{'name':34} {'texts':>6} {'differ':>6}")
    for name, path in vocabularies.items():
        if not wanted(name):
            continue
        cases = path.with_name(path.name + ".inp")
        own = cases.read_text().split("\n__ggml_vocab_test__\n") if cases.exists() else []
        wrong += compare(arguments, name, path, None, texts + own)
    with tempfile.TemporaryDirectory() as folder:
        pairs = pathlib.Path(folder) / "pairs.gguf"
        write_vocabulary(pairs, texts)
        for pre in pre_names:
            if wanted(pre):
                gemma = arguments.vocabularies / "ggml-vocab-gemma-4.gguf"
                wrong += compare(arguments, f"pre = {pre}", gemma if pre in OF_CHARACTERS else pairs, pre, texts)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
