"""Makes the golden cases: runs RULER's official scripts, and writes what they print.

    python3 -m venv venv && venv/bin/pip install numpy scipy pyyaml brotli
    venv/bin/python cli/lab/tasks/tests/golden/make.py RULER/scripts

The folder is that of `synthetic.yaml`, `data/` and `eval/`, from https://github.com/NVIDIA/RULER (Apache-2.0) or from
NVIDIA's package of it. Nothing of it is copied: `ruler.json.br` has hashes of prompts that the scripts made, and a few
short prompts. The data, in `data/`, are made up here. The cases that are checked in are from Python 3.11.

With `--real FOLDER --tokens N` prompts are made from the data in a folder instead, and printed. The test
`prompts_with_real_data_are_those_of_the_official_scripts` compares them.

These take the place of modules that the scripts import:
- wonderwords: word lists from the folder of the data;
- nltk's sent_tokenize: the rules of `src/sentences.rs`;
- the tokenizer: `count_tokens`.
"""

import argparse
import ast
import hashlib
import importlib.util
import io
import json
import random
import re
import runpy
import shutil
import sys
import tempfile
import types
from contextlib import redirect_stdout
from pathlib import Path

import brotli
import yaml

HERE = Path(__file__).parent
DATA = HERE / "data"
LISTS = ["nounlist.txt", "adjectivelist.txt", "verblist.txt"]

# (tokens, seed, number of samples, tasks; None for all)
CASES = [
    (1000, 42, 3, None),
    (1000, 7, 3, None),
    (4352, 42, 3, None),
    (4352, 7, 3, None),
    # The essays and the documents are used up.
    (16384, 42, 2, ["niah_single_2", "niah_multivalue", "qa_1", "qa_2"]),
    # Shorter than the first size of needles in essays.
    (330, 1, 2, ["niah_single_3", "niah_multikey_2"]),
    # The largest seed.
    (2000, 2**32 - 1, 1, ["vt", "niah_multikey_3", "cwe"]),
]
# Tasks whose first prompt is written in full.
IN_FULL = {"niah_single_1", "niah_multiquery", "vt", "cwe", "fwe", "qa_2"}


def count_tokens(text):
    """A word is a token, and another one for every six bytes."""
    return sum(1 + len(word.encode()) // 6 for word in text.split())


class Tokenizer:
    def text_to_tokens(self, text):
        return range(count_tokens(text))


CLOSING = "\"')]\u201d\u2019"
OPENING = "\"'([\u201c\u2018"
ABBREVIATIONS = "mr mrs ms dr prof st gen col sen rep vs cf e.g i.e fig".split()


def ends_sentence(word, following):
    word = word.rstrip(CLOSING)
    if following.lstrip(OPENING)[:1].islower():
        return False
    if not word.endswith("."):
        return word.endswith(("!", "?", "\u2026"))
    stem = word[:-1].lstrip(OPENING)
    is_initial = len(stem) == 1 and stem != "I" and stem.isupper()
    return not is_initial and stem.lower() not in ABBREVIATIONS


def sent_tokenize(text):
    words = list(re.finditer(r"\S+", text))
    sentences = []
    start = None
    for index, word in enumerate(words):
        start = word.start() if start is None else start
        if index + 1 == len(words) or ends_sentence(word[0], words[index + 1][0]):
            sentences.append(text[start : word.end()])
            start = None
    return sentences


def install_modules(lists):
    """Puts our modules in the place of those that the scripts import."""

    def add(name, **attributes):
        module = types.ModuleType(name)
        vars(module).update(attributes)
        sys.modules[name] = module
        return module

    words = lambda name: [word.rstrip() for word in open(lists / name)]
    add("wonderwords", random_word=add("wonderwords.random_word", _get_words_from_text_file=words))
    tokenizer = {"select_tokenizer": lambda *_: Tokenizer()}
    add("tokenizer", **tokenizer)
    for name in ["long_context_eval", "long_context_eval.pred", "long_context_eval.data", "nltk"]:
        add(name)
    add("long_context_eval.data.tokenizer", **tokenizer)
    add("nltk.tokenize", sent_tokenize=sent_tokenize)
    add("tqdm", tqdm=lambda items: items)
    written = []
    add("long_context_eval.pred.nemo_utils", write_manifest=lambda _, lines: written.extend(lines))
    return written


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Ruler:
    """The official scripts, with data from another folder."""

    def __init__(self, scripts, data, lists, copy):
        self.scripts = scripts
        self.written = install_modules(lists)
        self.folder = copy / "synthetic"
        shutil.copytree(scripts / "data/synthetic", self.folder, ignore=shutil.ignore_patterns("json"))
        (self.folder / "json").symlink_to(data.absolute())
        constants = load(self.folder / "constants.py", "constants")
        sys.modules["constants"] = constants
        self.kinds = constants.TASKS
        self.tasks = yaml.safe_load(open(scripts / "synthetic.yaml"))

    def run(self, task, tokens, seed, samples):
        """What `prepare.py` does with the template `base`."""
        config = self.tasks[task]
        kind = self.kinds[config["task"]]
        options = {
            "save_dir": tempfile.gettempdir(),
            "save_name": "longhand-golden",
            "tokenizer_path": "none",
            "max_seq_length": tokens,
            "tokens_to_generate": kind["tokens_to_generate"],
            "num_samples": samples,
            "random_seed": seed,
            "template": kind["template"] + kind["answer_prefix"],
            **config["args"],
        }
        sys.argv = ["script"] + [str(part) for name, value in options.items() for part in ("--" + name, value)]
        self.written.clear()
        with redirect_stdout(io.StringIO()):
            runpy.run_path(str(self.folder / (config["task"] + ".py")), run_name="__main__")
        return list(self.written)

    def scores(self):
        """The functions that score answers."""
        source = ast.parse((self.scripts / "eval/evaluate.py").read_text())
        function = [part for part in source.body if getattr(part, "name", "") == "postprocess_pred"]
        scope = {"re": re}
        exec(compile(ast.Module(function, []), "evaluate.py", "exec"), scope)
        metrics = load(self.scripts / "eval/synthetic/constants.py", "metrics")
        return scope["postprocess_pred"], metrics


def written_sample(sample, in_full):
    text = sample["input"]
    case = {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "bytes": len(text.encode()),
        "tokens": sample["length"],
        "outputs": sample["outputs"],
    }
    return case | ({"input": text} if in_full else {})


def score_cases(ruler):
    answers = [
        ("1234567", ["1234567"]),
        (" the number is 1234567.", ["1234567", "7654321"]),
        ("alpha, Beta\tGAMMA", ["ALPHA", "beta", "gamma", "delta"]),
        ("\x00\x1e two\x07lines \x1f", ["two\nlines"]),
        ("two\x07lines", ["two lines"]),
        ("", ["x"]),
        ("anything", [""]),
        ("STRASSE \u00c9COLE \u0130zmir", ["stra\u00dfe", "\u00e9cole", "i\u0307zmir"]),
        ("\u039f\u0394\u039f\u03a3 \u03a3", ["\u03bf\u03b4\u03bf\u03c2", "\u03bf\u03b4\u03bf\u03c3", "\u03c3"]),
        ("\u00a0\u2003x\u3000", ["x", "\u00a0x"]),
    ]
    prepare, metrics = ruler.scores()
    cases = []
    for answer, references in answers:
        predictions = [prepare(answer, {})]
        share = metrics.string_match_all_per_sample(predictions, [references])[0]
        part = metrics.string_match_part_per_sample(predictions, [references])[0]
        cases.append({"answer": answer, "references": references, "all": share, "part": part})
    return cases


SUBJECTS = "The baker|A sailor|Dr. Moss|The old king|My neighbor|Mrs. Hill|Nobody|The twins|J. Reed|A small dog"
VERBS = "saw|painted|forgot|bought|carried|described|washed|lost|followed|repaired|drew|wanted"
OBJECTS = "the red boat|a map of the valley|two lemons|his father's clock|the bridge|an empty house|the caf\u00e9"
PLACES = "near the mill|at noon|in No. 7|after 3.5 hours|without a word|e.g. on Sundays|every winter|(or so we heard)"
ENDS = ".|.|.|.|!|?|\u2026|.\"|.)"


def sentence(rng):
    parts = [rng.choice(part.split("|")) for part in (SUBJECTS, VERBS, OBJECTS, PLACES)]
    return " ".join(parts) + rng.choice(ENDS.split("|"))


def paragraph(rng, sentences):
    return " ".join(sentence(rng) for _ in range(sentences))


def make_data():
    """Writes small files of the form that RULER's data have."""
    rng = random.Random(2024)
    DATA.mkdir(exist_ok=True)
    spaces = ["\n", "  ", "\n\n", " ", " ", "\t", "", "\u00a0"]
    essays = " \n" + "".join(paragraph(rng, 5) + rng.choice(spaces) for _ in range(110))
    write(DATA / "PaulGrahamEssays.json", {"text": essays})

    articles = []
    for number in range(9):
        paragraphs = []
        for _ in range(rng.choice([3, 9, 14])):
            context = f"Article {number}: " + paragraph(rng, 2)
            questions = []
            for _ in range(rng.randrange(3)):
                answers = [" ".join(rng.sample(context.split(), 2)) for _ in range(2)]
                impossible = rng.random() < 0.2
                question = {"question": f"Who {rng.choice(VERBS.split('|'))} it?", "is_impossible": impossible}
                questions.append(question | {"answers": [{"text": text} for text in answers]})
            paragraphs.append({"context": context, "qas": questions})
        paragraphs.append(dict(paragraphs[0], qas=[]))
        articles.append({"title": str(number), "paragraphs": paragraphs})
    answers = [{"text": "it's \"his\"\n"}, {"text": "caf\u00e9\u00a0'1'"}]
    articles[0]["paragraphs"][0]["qas"] = [{"question": "Whose?", "is_impossible": False, "answers": answers}]
    write(DATA / "squad.json", {"version": "v2.0", "data": articles})

    topics = [[f"Topic {i}", [sentence(rng), " " + sentence(rng)]] for i in range(90)]
    hotpot = []
    for i, size in enumerate([10, 10, 4, 10, 2, 10, 10, 10, 10]):
        answer = rng.choice(["yes", "no", "the caf\u00e9"])
        hotpot.append({"question": f"Is {i} the one?", "answer": answer, "context": rng.sample(topics, size)})
    write(DATA / "hotpotqa.json", hotpot)

    # Names that only sort right when all pairs are listed.
    roots = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    words = ["".join(rng.choices(roots, k=rng.choice([2, 3]))) for _ in range(1100)]
    lists = [words[:600], words[600:900] + ["ba", "ba-de", "ba-", "Bo", "\u00e9t\u00e9"], words[900:] + words[:9]]
    for name, lines in zip(LISTS, lists):
        (DATA / name).write_text("".join(line + "\n" for line in lines))


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False) + "\n")


def run(ruler, cases):
    for tokens, seed, samples, tasks in cases:
        for task in tasks or ruler.tasks:
            results = ruler.run(task, tokens, seed, samples)
            in_full = (tokens, seed) == CASES[0][:2] and task in IN_FULL
            lines = [written_sample(sample, in_full and i == 0) for i, sample in enumerate(results)]
            yield {"task": task, "tokens": tokens, "seed": seed, "samples": lines}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scripts", type=Path, help="folder with synthetic.yaml, data/ and eval/ of RULER")
    parser.add_argument("--real", type=Path, help="folder with the JSON files of RULER and the lists of wonderwords")
    parser.add_argument("--tokens", type=int, default=4096, help="length of prompts from real data")
    args = parser.parse_args()
    data = args.real or DATA
    if not args.real:
        make_data()
    with tempfile.TemporaryDirectory() as copy:
        ruler = Ruler(args.scripts, data, data, Path(copy))
        if args.real:
            print(json.dumps({"ruler": list(run(ruler, [(args.tokens, 42, 5, None)])), "scores": []}))
            return
        lines = [json.dumps(case, ensure_ascii=False) for case in run(ruler, CASES)]
        scores = [json.dumps(case) for case in score_cases(ruler)]
    ruler_lines, score_lines = ",\n".join(lines), ",\n".join(scores)
    text = f'{{"ruler": [\n{ruler_lines}\n], "scores": [\n{score_lines}\n]}}\n'
    (HERE / "ruler.json.br").write_bytes(brotli.compress(text.encode(), quality=11))


if __name__ == "__main__":
    main()
