#!/usr/bin/env bash
# Counts the instructions of our kernels on an ARM CPU that QEMU emulates: NEON's beside those of plain Rust, which the tests of the
# kernels run on the same calls. It says nothing about time.
#
#     scripts/arm/instructions.sh                       # attention with every pair of types
#     scripts/arm/instructions.sh prefill::             # what these tests run
#
# Needs qemu-user (Debian: apt-get install qemu-user), which can load plugins, and a C compiler.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${CARGO_TARGET_DIR:-$PWD/target}/arm/instructions
mkdir -p "$folder"
cc -O2 -shared -fPIC -o "$folder/plugin.so" scripts/arm/instructions.c
export QEMU="qemu-aarch64 -plugin $folder/plugin.so,out=$folder/counts"
# One thread: counts are not added up safely.
scripts/arm/cargo.sh test --profile mutants -p kernels --features ggml/portable --test cpu -- --test-threads=1 \
    "${1:-every_pair_of_row_types}"
c++filt < "$folder/counts" | python3 -c '
import collections, re, sys
kernels = collections.defaultdict(dict)
for line in sys.stdin:
    count, name = line.rstrip("\n").split(" ", 1)
    found = re.fullmatch(r".*simd::(neon|scalar)::enter::<(.*)>", name)
    if found:
        kernel = re.sub(r"kernels(\[\w+\])?::|(\w+::)+", "", found[2])
        kernels[kernel][found[1]] = kernels[kernel].get(found[1], 0) + int(count)
print("%12s %12s %6s  kernel" % ("NEON", "plain", "ratio"))
for kernel, counts in sorted(kernels.items()):
    neon, plain = (counts.get(name, 0) for name in ("neon", "scalar"))
    print("%12d %12d %6.2f  %s" % (neon, plain, plain / max(neon, 1), kernel))
'
