#!/usr/bin/env python3
"""Fuzzes readers of documents for so many seconds of CPU time each, and prints a line of a table for each.

    scripts/fuzz.py 1800 formats office

Builds the targets of cli/documents/fuzz with the compiler that is installed, without sanitizers: the code is safe Rust, and its
panics, hangs and memory are seen without them. The corpus is in cli/documents/fuzz/corpus/TARGET, which begins with the seeds.
The fuzzer stops at a finding and leaves the input in the corpus folder's parent.
"""

import argparse
import os
import re
import resource
import subprocess
import zipfile
from pathlib import Path

FUZZ = Path(__file__).resolve().parent.parent / "cli/documents/fuzz"
PASSES = [
    "--cfg fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
]
SLICE = 60  # seconds of a run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=int, help="CPU time for each target")
    parser.add_argument("target", nargs="+")
    arguments = parser.parse_args()
    built = build()
    print("| target | CPU seconds | inputs | edges before | edges after | findings |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    for target in arguments.target:
        print(fuzz(built / target, arguments.seconds), flush=True)


def build():
    """Compiles all targets, and returns their folder."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", FUZZ / "target")).absolute()
    version = subprocess.run(["rustc", "-vV"], cwd=FUZZ, check=True, stdout=subprocess.PIPE, text=True).stdout
    system = re.search(r"^host: (.+)$", version, re.MULTILINE)[1]
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(target),
        "RUSTC_BOOTSTRAP": "1",  # for the passes
        "RUSTFLAGS": " ".join([os.environ.get("RUSTFLAGS", ""), *PASSES]),
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1",  # compiles fast, runs fast enough
    }
    command = ["cargo", "build", "--release", "--bins", "--target", system]
    subprocess.run(command, cwd=FUZZ, env=environment, check=True)
    return target / system / "release"


def fuzz(target, seconds):
    """Runs a target until it has used its time, or finds something. A line of the table."""
    corpus = FUZZ / "corpus" / target.name
    seeds = FUZZ / "seeds" / f"{target.name}.zip"
    if not corpus.exists():
        corpus.mkdir(parents=True)
        if seeds.exists():
            zipfile.ZipFile(seeds).extractall(corpus)
    used, inputs, before, after, failed = 0, 0, None, 0, 0
    while used < seconds and not failed:
        start = cpu_seconds()
        limits = ["-rss_limit_mb=2048", "-timeout=60", "-max_len=65536", "-print_final_stats=1"]
        time = min(SLICE, seconds - int(used))
        command = [target, corpus, f"-max_total_time={time}", f"-artifact_prefix={corpus}-", *limits]
        run = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, errors="replace")
        used += cpu_seconds() - start
        first = re.search(r"INITED cov: (\d+)", run.stderr)
        before = int(first[1]) if before is None and first else before
        after = max([after, *map(int, re.findall(r"cov: (\d+)", run.stderr))])
        inputs += int((re.findall(r"number_of_executed_units: (\d+)", run.stderr) or [0])[-1])
        failed = run.returncode
        if failed:
            print(run.stderr[-3000:])
    return f"| {target.name} | {used:.0f} | {inputs:,} | {before} | {after} | {int(failed != 0)} |"


def cpu_seconds():
    """Of all processes that have ended, those that they started included."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
