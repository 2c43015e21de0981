#!/usr/bin/env bash
# Counts the instructions of our kernels on an ARM CPU that QEMU emulates: NEON's beside those of plain Rust, which the tests of the
# kernels run on the same calls. It says nothing about time.
#
#     scripts/arm/instructions.sh                       # attention with every pair of types
#     scripts/arm/instructions.sh prefill::             # what these tests run
#     scripts/arm/instructions.sh many_columns          # products
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
attention, products = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
# A tile of the products is a function of its own. All of the plain product is inlined into what chooses a unit. Panels are filled by
# functions beside the tiles, or inlined into their callers. Two units share `neon::fill` where the CPU has both;
# they run the same calls.
units = {
    "matrices": r"product::i8mm::", "dot products": r"product::neon::(multiply_dot|Dot)", "NEON": r"product::neon::",
    "plain": r"product::(multiply|plain)$",
}
formats = {
    "32, false, false": "blocks of 32", "32, false, true": "blocks of 32, minima", "32, true, false": "blocks of 256",
    "32, true, true": "blocks of 256, minima", "16, true, false": "blocks of 256, groups of 16",
}
lines = sys.stdin.readlines()
has_dot_products = any(re.search(units["dot products"], line) for line in lines)
for line in lines:
    count, name = line.rstrip("\n").split(" ", 1)
    found = re.fullmatch(r".*simd::(neon|scalar)::enter(?:_with_bytes)?::<(.*)>", name)
    if found:
        kernel = re.sub(r"kernels(\[\w+\])?::|(\w+::)+", "", found[2])
        attention[kernel][found[1]] += int(count)
        continue
    name = re.sub(r"\[\w+\]", "", name)
    unit = next((unit for unit, pattern in units.items() if re.search(pattern, name)), None)
    tile = re.search(r"::<\d+: usize, (\d+): usize, (\w+): bool, (\w+): bool>", name)
    part = "tiles, " + formats[", ".join(tile.groups())] if tile else "all" if unit == "plain" else "panels"
    is_shared = has_dot_products and "product::neon::fill" in name
    shared = ["dot products", "NEON"] if is_shared else [unit] if unit else []
    for unit in shared:
        products[part][unit] += int(count) // len(shared)
if attention:
    print("%12s %12s %6s  kernel" % ("NEON", "plain", "ratio"))
for kernel, counts in sorted(attention.items()):
    neon, plain = counts["neon"], counts["scalar"]
    print("%12d %12d %6.2f  %s" % (neon, plain, plain / max(neon, 1), kernel))
if products:
    print(("%14s " * len(units) + " product") % tuple(units))
for part, counts in sorted(products.items()):
    print(("%14d " * len(units) + " %s") % (*(counts[unit] for unit in units), part))
'
