#!/usr/bin/env python3
"""Compares two programs' greedy answers token by token on ten prompts, of which three are longer than 512 tokens.

    greedy.py --tokenize 'longhand tokenize MODEL' --book BOOK.txt \\
        'answers MODEL 4096 f16 f16 2 --leads' 'greedy MODEL 4096 f16 f16 2'

Both commands read lines of a limit and token ids, and write ID:SECOND:LEAD for each token of an answer (answers.cpp). LEAD is how
far the logit of SECOND is behind. Where the tokens differ, both go on behind the first program's token, so that all positions are
compared. Where both name the same two tokens, the margin of one before the other may differ by --rounding; a difference of tokens
is then a near-tie. 0.05 is enough for F16 weights if llama.cpp runs with --no-fa. With flash attention it adds up in f16, and so
differs more from itself without: compare these two first. The exit code is 1 if anything differs by more. Needs only Python's
standard library.
"""
import argparse
import json
import math
import pathlib
import shlex
import subprocess

PROMPTS = {
    "story": "The lighthouse keeper had not spoken to anyone for eleven days when a small boat came out of the fog.",
    "encyclopedia": "A glacier is a body of dense ice that moves under its own weight. Glaciers form where",
    "code": "import heapq\n\n\ndef shortest_path(graph, start, goal):\n    \"\"\"Dijkstra's algorithm on a dict of dicts.\"\"\"\n",
    "list": "Things to pack for a week in the mountains:\n\n1. Warm jacket\n2. Hiking boots\n3.",
    "german": "Die Geschichte der Eisenbahn in Deutschland beginnt im Jahr 1835, als",
    "japanese": "日本で一番高い山は富士山です。高さは3776メートルで、",
    "question": "Question: Why does the moon always show the same side to the earth?\nAnswer:",
}
# Where a part of the book begins, and its characters.
BOOK_PARTS = {"book, 3,500 characters": (2000, 3500), "book, 6,000": (30000, 6000), "book, 12,000": (60000, 12000)}


def run(command: str, text: str) -> str:
    done = subprocess.run(shlex.split(command), input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: exit {done.returncode} from: {command}\n{done.stderr[-2000:]}")
    return done.stdout


def answers(command: str, work: list) -> list:
    """For each answer (ID, SECOND, LEAD) of its tokens."""
    lines = run(command, "".join(f"{limit} {' '.join(map(str, ids))}\n" for ids, limit in work)).splitlines()
    if len(lines) != len(work):
        raise SystemExit(f"error: {len(lines)} answers to {len(work)} prompts from: {command}")
    parse = lambda token: tuple(kind(part) for kind, part in zip((int, int, float), token.split(":")))
    return [[parse(token) for token in line.split()] for line in lines]


class Prompt:
    def __init__(self, name: str, ids: list):
        self.name, self.ids, self.length = name, ids, len(ids)
        self.noise, self.differences, self.smallest = [], [], math.inf

    def made(self) -> int:
        return len(self.ids) - self.length

    def take(self, a: list, b: list):
        """Takes the tokens of an answer up to the first that differs, and there the first program's."""
        for (x, second_x, lead_x), (y, second_y, lead_y) in zip(a, b):
            self.smallest = min(self.smallest, lead_x)
            if x != y:
                swapped = (x, second_x) == (second_y, y)
                self.differences.append((self.made(), x, y, lead_x, lead_y, lead_x + lead_y if swapped else math.inf))
                self.ids.append(x)
                return
            if second_x == second_y:
                self.noise.append(abs(lead_x - lead_y))
            self.ids.append(x)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("a")
    ap.add_argument("b")
    ap.add_argument("--tokenize", required=True, help="command that prints token ids of its input")
    ap.add_argument("--book", required=True, type=pathlib.Path)
    ap.add_argument("--tokens", type=int, default=200, help="tokens of an answer")
    ap.add_argument("--rounding", type=float, default=0.05, help="how much margins may differ")
    o = ap.parse_args()
    book = o.book.read_text(encoding="utf-8")
    texts = PROMPTS | {name: book[at : at + length] for name, (at, length) in BOOK_PARTS.items()}
    tokenize = f"{o.tokenize} --add-special -f -"
    prompts = [Prompt(name, json.loads(run(tokenize, text))) for name, text in texts.items()]
    while work := [p for p in prompts if p.made() < o.tokens]:
        lines = [(p.ids, o.tokens - p.made()) for p in work]
        for prompt, a, b in zip(work, answers(o.a, lines), answers(o.b, lines)):
            prompt.take(a, b)

    noise = sorted(x for p in prompts for x in p.noise)
    rms = math.sqrt(sum(x * x for x in noise) / len(noise))
    print(f"A: {o.a}\nB: {o.b}\n")
    print("| prompt | tokens | the same at first | differ | distinct | smallest lead | margins differ by, median | at most |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for p in prompts:
        first = p.differences[0][0] if p.differences else o.tokens
        own = sorted(p.noise)
        numbers = f"{p.length} | {first} | {len(p.differences)} | {len(set(p.ids[p.length:]))} | {p.smallest:.2g}"
        print(f"| {p.name} | {numbers} | {own[len(own) // 2]:.2g} | {own[-1]:.2g} |")
    print(f"\nMargins at {len(noise)} positions differ by {rms:.2g} (rms), {noise[len(noise) // 2]:.2g} (median), "
          f"{noise[-1]:.2g} (at most)")
    wrong = sum(x > o.rounding for x in noise)
    for p in prompts:
        for at, x, y, lead_x, lead_y, apart in p.differences:
            wrong += apart > o.rounding
            kind = "DIFFERENCE" if apart > o.rounding else "near-tie"
            print(f"{kind}: {p.name}, token {at}: A {x} leads by {lead_x:.2g}, B {y} by {lead_y:.2g}")
    same = sum(not p.differences for p in prompts)
    print(f"{same} of {len(prompts)} answers are the same; at {wrong} positions margins differ by more than {o.rounding}")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
