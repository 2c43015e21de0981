#!/usr/bin/env python3
"""Says where the time of a GPU goes: reads what tests/peer/trace.c has recorded.

    trace.py FILE [LAST_MS [BEFORE_END_MS]]

Counts the last LAST_MS milliseconds of the recording (all of it), up to BEFORE_END_MS before its end (0). Prints how long
the GPU computed and waited, the time of each kernel and copy, and what it waited for.
"""

import re
import sys
from collections import Counter

COPIES = {"1": "copy to the GPU", "2": "copy to the host", "8": "copy within the GPU"}


def read(path):
    """The GPU's work as (start, length, name), in order; times in ns. Calls of the host are left out."""
    names, work = {}, []
    for line in open(path):
        kind, *fields = line.split(" ", 2) if line[0] == "N" else line.split()
        if kind == "N":
            names[fields[0]] = re.sub(r"\(.*", "", fields[1].strip())[:70]
        elif kind == "K":
            work.append((int(fields[0]), int(fields[1]), names[fields[2]]))
        elif kind == "C":
            work.append((int(fields[0]), int(fields[1]), COPIES.get(fields[2], "another copy")))
        elif kind == "S":
            work.append((int(fields[0]), int(fields[1]), "memory set"))
    return sorted(work)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    work = read(sys.argv[1])
    if not work:
        sys.exit(f"{sys.argv[1]}: nothing was computed on a GPU")
    last = float(sys.argv[2]) * 1e6 if len(sys.argv) > 2 else float("inf")
    before_end = float(sys.argv[3]) * 1e6 if len(sys.argv) > 3 else 0
    end = work[-1][0] + work[-1][1] - before_end
    work = [item for item in work if end - last <= item[0] < end]
    times, counts, waits = Counter(), Counter(), Counter()
    done = work[0][0]
    for start, length, name in work:
        times[name] += length
        counts[name] += 1
        if start > done:
            waits[name] += start - done
        done = max(done, start + length)
    print(f"computed {sum(times.values()) / 1e6:.3f} ms, waited {sum(waits.values()) / 1e6:.3f} ms, {len(work)} pieces of work")
    for name, time in times.most_common(25):
        print(f"{time / 1e6:10.3f} ms {counts[name]:6} times, {time / 1e3 / counts[name]:8.1f} us each  {name}")
    print("waited before")
    for name, time in waits.most_common(10):
        print(f"{time / 1e6:10.3f} ms {name}")


if __name__ == "__main__":
    main()
