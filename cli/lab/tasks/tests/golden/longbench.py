"""Makes the golden cases of LongBench: runs its official functions, and writes what they return.

    python3 -m venv venv && venv/bin/pip install rouge==1.0.1 fuzzywuzzy==0.18.0 brotli
    venv/bin/python cli/lab/tasks/tests/golden/longbench.py LongBench/LongBench

The folder is that of `metrics.py` and `config/`, from https://github.com/THUDM/LongBench (MIT). The texts are made up
here. `jieba`, which only Chinese needs, is not imported. python-Levenshtein must not be installed: LongBench's
requirements.txt does not name it, and fuzzywuzzy rounds other numbers with it.
"""

import json
import random
import sys
import types
import warnings
from pathlib import Path

import brotli

HERE = Path(__file__).parent
WORDS = "the a an river Boat crossed again hill, rain's report council (vote) 42 budget x_y U.S. new-york café".split()
CODE = ["return self.value", "    for item in items:", "x = foo(bar, 12)", "}", "", "return value;", "    # a comment",
        "```python", "int a = b / c; // note", "def read(self, path, mode='r'):", "for items in item:"]
CLASSES = ["Location", "City", "Country", "Country location", "Other location", "location", "Other"]


def sentences(numbers, count, stop="."):
    return " ".join(
        " ".join(numbers.choice(WORDS) for _ in range(numbers.randrange(1, 12))) + numbers.choice([stop, ".", ""])
        for _ in range(count)
    )


def cases():
    """(task, answer, right answers, classes)"""
    numbers = random.Random(1)
    for answer in ["", " ", "...", "The boat.", "the", "A river; the hill!", "rain's\u2019s THE end", "42\n42"]:
        yield "qasper", answer, ["The boat", "a hill and a river"], None
        yield "gov_report", answer, ["The boat. A hill and a river.", "42"], None
        yield "triviaqa", "\n\n" + answer + "\nThe boat", ["boat"], None
    for _ in range(12):
        yield "hotpotqa", sentences(numbers, 2), [sentences(numbers, 1), sentences(numbers, 3)], None
        yield "multi_news", sentences(numbers, 6), [sentences(numbers, 5)], None
        yield "samsum", sentences(numbers, 3, ".\n"), [sentences(numbers, 3)], None
    for answer in ["", "12", "12 or 13", "Paragraph 12, 12", "no. 1, 2 and 12.5", "twelve"]:
        yield "passage_count", answer, ["12"], None
        yield "passage_retrieval_en", answer, ["Paragraph 12"], None
    for answer in ["Location", "City or Country", "Country location", "Other location.", "location City", "none",
                   "Other\nLocation", "\nCity"]:
        for right in ["Location", "City", "Country location", "Other location"]:
            yield "trec", answer, [right], CLASSES
    for first in CODE:
        for right in CODE[:3] + [CODE[9]]:
            yield "lcc", first + "\n" + numbers.choice(CODE), [right], None
    # Characters that are popular in a long line.
    long = "".join(numbers.choice("abcdefgh   ()") for _ in range(260))
    yield "repobench-p", "\n" + long[40:200] + "abc", [long], None
    yield "repobench-p", long[::-1], [long], None
    yield "repobench-p", long[:199], [long[5:204]], None


def shortened(prompt, most):
    """As `pred.py` has it, with characters for tokens."""
    if len(prompt) <= most:
        return prompt
    half = int(most / 2)
    return prompt[:half] + prompt[-half:]


def main():
    folder = Path(sys.argv[1])
    sys.modules["jieba"] = types.ModuleType("jieba")
    sys.path.insert(0, str(folder))
    warnings.simplefilter("ignore")
    import metrics

    metric = {
        "qasper": metrics.qa_f1_score, "hotpotqa": metrics.qa_f1_score, "triviaqa": metrics.qa_f1_score,
        "gov_report": metrics.rouge_score, "multi_news": metrics.rouge_score, "samsum": metrics.rouge_score,
        "passage_count": metrics.count_score, "passage_retrieval_en": metrics.retrieval_score,
        "trec": metrics.classification_score, "lcc": metrics.code_sim_score, "repobench-p": metrics.code_sim_score,
    }
    scores = []
    for task, answer, references, classes in cases():
        # As in `scorer` of `eval.py`.
        first = answer.lstrip("\n").split("\n")[0] if task in ["trec", "triviaqa", "samsum"] else answer
        score = max([0.0] + [metric[task](first, right, all_classes=classes) for right in references])
        scores.append({"task": task, "answer": answer, "references": references, "classes": classes or [],
                       "score": score})

    prompts = []
    formats = json.loads((folder / "config/dataset2prompt.json").read_text())
    lengths = json.loads((folder / "config/dataset2maxlen.json").read_text())
    for task, prompt in formats.items():
        if not prompt.isascii():
            continue
        row = {"input": "Which hill? {context}", "context": "Rain on the hill. {input}",
               "answers": ["Paragraph 1"], "all_classes": ["Paragraph 1"]}
        for tokens in [2000, lengths[task] + 151]:
            text = shortened(prompt.format(**row), tokens - lengths[task])
            prompts.append({"task": task, "tokens": tokens, "answer_tokens": lengths[task], "line": json.dumps(row),
                            "prompt": text})
    cases_file = {"scores": scores, "prompts": prompts}
    text = json.dumps(cases_file, indent=0, ensure_ascii=False) + "\n"
    (HERE / "longbench.json.br").write_bytes(brotli.compress(text.encode(), quality=11))


main()
