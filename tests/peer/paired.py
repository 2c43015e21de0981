#!/usr/bin/env python3
"""Compares two benchmark commands fairly on a machine whose speed drifts: runs them in turn, A B, B A, A B, …, and reports the
ratio B/A of each pair (median, smallest, largest) as a Markdown table. Both print the JSON of `llama-bench -o json` on stdout: an
array of objects with n_prompt, n_gen, n_depth, avg_ts (tokens per second); `longhand bench -o json` prints the same.
Needs only Python's standard library. Ratios above 1: B is faster.

    paired.py [--pairs 5] [--pause 1] [--label-a llama.cpp] [--label-b longhand] [--json OUT] 'COMMAND A' 'COMMAND B'

The two commands must name the same tests; a test that only one of them ran is an error. A comes first in odd pairs, B in even
ones, so that neither always meets the warmer machine. The order is fixed, nothing is thrown away.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time


def label(row: dict) -> str:
    """llama-bench's own names: pp512, tg128, pp512+tg128, and @ d4096 for what the cache held before."""
    parts = []
    if row["n_prompt"]:
        parts.append(f"pp{row['n_prompt']}")
    if row["n_gen"]:
        parts.append(f"tg{row['n_gen']}")
    depth = row.get("n_depth", 0)
    return "+".join(parts) + (f" @ d{depth}" if depth else "")


def run(command: str) -> dict:
    """Tokens per second by test."""
    try:
        p = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except (OSError, ValueError) as e:
        raise SystemExit(f"error: cannot run: {command}\n{e}")
    if p.returncode != 0:
        raise SystemExit(f"error: exit {p.returncode} from: {command}\n{p.stderr[-2000:]}")
    try:
        rows = json.loads(p.stdout)
        out = {}
        for row in rows:
            if label(row) in out:
                raise SystemExit(f"error: {label(row)} twice from: {command}\nhint: one setting at a time (one -t, one -fa, …)")
            out[label(row)] = float(row["avg_ts"])
    except (ValueError, KeyError, TypeError) as e:
        raise SystemExit(f"error: not the JSON of llama-bench ({e!r}) from: {command}\nhint: add -o json\n{p.stdout[:500]}")
    if not out or min(out.values()) <= 0:
        raise SystemExit(f"error: no speeds from: {command}")
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("a")
    ap.add_argument("b")
    ap.add_argument("--pairs", type=int, default=5)
    ap.add_argument("--pause", type=float, default=1.0, help="seconds between runs")
    ap.add_argument("--label-a", default="llama.cpp")
    ap.add_argument("--label-b", default="longhand")
    ap.add_argument("--json", help="also write every run there")
    o = ap.parse_args()
    if o.pairs < 1:
        ap.error("--pairs: at least 1")
    pairs = []
    for i in range(o.pairs):
        got = {}
        for side in ("ab", "ba")[i % 2]:
            got[side] = run(o.a if side == "a" else o.b)
            time.sleep(o.pause)
        if got["a"].keys() != got["b"].keys():
            raise SystemExit(f"error: different tests: {sorted(got['a'])} and {sorted(got['b'])}")
        pairs.append(got)
        print(f"pair {i + 1} of {o.pairs}: " + ", ".join(f"{t} {got['b'][t] / got['a'][t]:.3f}" for t in got["a"]), file=sys.stderr)
    print(f"| test | {o.label_a} t/s | {o.label_b} t/s | ratio, median of {o.pairs} | min to max |")
    print("|---|---:|---:|---:|---:|")
    for t in pairs[0]["a"]:
        a, b = ([p[s][t] for p in pairs] for s in "ab")
        r = [y / x for x, y in zip(a, b)]
        print(f"| {t} | {statistics.median(a):.1f} | {statistics.median(b):.1f} | {statistics.median(r):.3f} | {min(r):.3f} to {max(r):.3f} |")
    if o.json:
        with open(o.json, "w") as f:
            json.dump({"a": o.a, "b": o.b, "label_a": o.label_a, "label_b": o.label_b, "pairs": pairs}, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
