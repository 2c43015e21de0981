#!/usr/bin/env bash
# Puts NVIDIA's CUDA compiler and headers into a folder of its own and prints where CUDA_HOME then is: 1.5 GB from
# PyPI's wheels, nothing system-wide, no GPU and no driver needed. What is already there is not fetched again.
#
#     export CUDA_HOME=$(scripts/cuda-toolkit.sh target/cuda-toolkit)
set -euo pipefail

dir=${1:?usage: scripts/cuda-toolkit.sh DIR}

# One release of the toolkit. libcublas comes for its headers and for machines that want to run with it; longhand opens
# it at run time and never links it.
wheels=(
    nvidia-cuda-nvcc==13.0.88
    nvidia-nvvm==13.0.88
    nvidia-cuda-crt==13.0.88
    nvidia-cuda-runtime==13.0.96
    nvidia-cuda-cccl==13.0.85
    nvidia-cublas==13.0.2.14
)

find_home() { compgen -G "$dir/lib/python3*/site-packages/nvidia/cu13" | head -n 1; }

complete="$dir/.complete-${wheels[0]##*==}"
if ! [ -e "$complete" ]; then
    python3 -m venv "$dir" >&2
    "$dir/bin/python" -m pip install --quiet --disable-pip-version-check "${wheels[@]}" >&2
    home=$(find_home)
    # The wheels carry lib/ and versioned names only; compilers look for lib64/ too.
    ln -sfn lib "$home/lib64"
    touch "$complete"
fi
realpath "$(find_home)"
