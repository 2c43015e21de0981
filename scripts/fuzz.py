#!/usr/bin/env python3
"""Fuzzes readers of untrusted data for so many seconds of CPU time each, and prints a line of a table for each.

    scripts/fuzz.py 1800 formats office

Builds the crates fuzz/ that have the targets with the compiler that is installed, without sanitizers: the code is safe Rust, and
its panics, hangs and memory are seen without them. The corpus is in fuzz/corpus/TARGET, which begins with the seeds. The fuzzer
stops at a finding and leaves the input in the corpus folder's parent.
"""

import argparse
import os
import re
import resource
import subprocess
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = [ROOT / crate / "fuzz" for crate in ["models", "engine", "cli/documents", "cli/serve"]]
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
    crates = {target: crate_of(target) for target in arguments.target}
    built = {crate: build(crate) for crate in dict.fromkeys(crates.values())}
    print("| target | CPU seconds | inputs | edges before | edges after | findings |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    for target, crate in crates.items():
        print(fuzz(crate, built[crate] / target, arguments.seconds), flush=True)


def crate_of(target):
    """The crate that has a target."""
    for crate in CRATES:
        if (crate / "fuzz_targets" / f"{target}.rs").exists():
            return crate
    known = sorted(path.stem for crate in CRATES for path in crate.glob("fuzz_targets/*.rs"))
    raise SystemExit(f"there is no target {target}; targets are {', '.join(known)}")


def build(crate):
    """Compiles all targets of a crate, and returns their folder."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", crate / "target")).absolute()
    version = subprocess.run(["rustc", "-vV"], cwd=crate, check=True, stdout=subprocess.PIPE, text=True).stdout
    system = re.search(r"^host: (.+)$", version, re.MULTILINE)[1]
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(target),
        "RUSTC_BOOTSTRAP": "1",  # for the passes
        "RUSTFLAGS": " ".join([os.environ.get("RUSTFLAGS", ""), *PASSES]),
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1",  # compiles fast, runs fast enough
    }
    command = ["cargo", "build", "--release", "--bins", "--target", system]
    subprocess.run(command, cwd=crate, env=environment, check=True)
    return target / system / "release"


def fuzz(crate, target, seconds):
    """Runs a target until it has used its time, or finds something. A line of the table."""
    corpus = crate / "corpus" / target.name
    seeds = crate / "seeds" / f"{target.name}.zip"
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
