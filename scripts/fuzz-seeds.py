#!/usr/bin/env python3
"""Chooses the seeds of a fuzz target: of all inputs in some folders those that cover most for their size.

    scripts/fuzz-seeds.py engine/fuzz/target/x86_64-unknown-linux-gnu/release/heads engine/fuzz/seeds/heads.zip \\
        engine/fuzz/corpus/heads engine/fuzz/seeds/heads.zip

The first argument is the compiled target, the second the archive to write. All that follow, folders and archives, are
read.
"""

import argparse
import hashlib
import subprocess
import tempfile
import zipfile
from pathlib import Path

MAX_BYTES = 60_000  # of all seeds of a target
MAX_SEEDS = 64
COST = MAX_BYTES // MAX_SEEDS  # of a file besides its bytes, so that neither limit is reached long before the other


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("seeds", type=Path)
    parser.add_argument("corpus", type=Path, nargs="+")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        inputs = collect(arguments.corpus, Path(folder, "inputs"))
        covered = coverage(arguments.target.resolve(), Path(folder))
    seeds = choose(inputs, covered)
    arguments.seeds.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(arguments.seeds, "w") as archive:
        for name in sorted(seeds):
            # Without a date: the same seeds make the same file.
            archive.writestr(zipfile.ZipInfo(name), inputs[name], zipfile.ZIP_DEFLATED, 9)
    have, of = (len(set().union(*(covered[name] for name in names))) for names in (seeds, covered))
    size = sum(len(inputs[name]) for name in seeds)
    print(f"{arguments.seeds}: {len(seeds)} of {len(covered)} inputs, {size} bytes, {have} of {of} features")


def files(corpus):
    """The contents of all files of a folder or an archive."""
    if corpus.is_dir():
        return [path.read_bytes() for path in corpus.iterdir()]
    with zipfile.ZipFile(corpus) as archive:
        return [archive.read(name) for name in archive.namelist()]


def collect(corpora, into):
    """Copies all files of folders and archives, named by their content: name -> content."""
    into.mkdir()
    contents = (content for corpus in corpora for content in files(corpus))
    inputs = {hashlib.sha1(content).hexdigest()[:16]: content for content in contents}
    for name, content in inputs.items():
        (into / name).write_bytes(content)
    return inputs


def coverage(target, folder):
    """What each input covers, from the notes that libFuzzer makes while it merges: name -> features."""
    notes, merged = folder / "notes", folder / "merged"
    merged.mkdir()
    command = [target, "-merge=1", f"-merge_control_file={notes}", "-max_len=65536", merged, folder / "inputs"]
    subprocess.run(command, check=True, capture_output=True)
    lines = notes.read_text().splitlines()
    names = [Path(line).name for line in lines[2 : 2 + int(lines[0])]]
    covered = {name: set() for name in names}
    for line in lines[2 + len(names) :]:
        kind, number, *found = line.split()
        if kind == "FT":
            covered[names[int(number)]].update(found)
    return covered


def choose(inputs, covered):
    """Again and again the input that adds most for its size, until there is no room or nothing new."""
    chosen, have, size = [], set(), 0
    while len(chosen) < MAX_SEEDS:
        new = {name: len(found - have) for name, found in covered.items() if size + len(inputs[name]) <= MAX_BYTES}
        best = max(new, key=lambda name: new[name] / (len(inputs[name]) + COST), default=None)
        if best is None or new[best] == 0:
            break
        chosen.append(best)
        have |= covered[best]
        size += len(inputs[best])
    return chosen


if __name__ == "__main__":
    main()
