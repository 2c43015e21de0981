#!/usr/bin/env python3
"""Compares the memory that `longhand plan` foresees on a GPU with what a run really takes of it.

    scripts/gpu-memory.py [LONGHAND] [--tokens 100000] [--shapes llama-3.1-8b@2,qwen2.5-14b@2] [--policies full,razor]

Each model is a well-known shape with synthetic weights; with two layers, `@2`, a document of 100,000 tokens is read in seconds
and everything but weights and rows is as large as in the whole model. The used memory of the first GPU is read every few
milliseconds, from NVIDIA's library (libnvidia-ml), which needs no package. Nothing else may use the GPU meanwhile.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import threading
import time

MIB = 1 << 20
CHOICES = [
    ("full", "f16", "f16"),
    ("full", "q8_0", "q8_0"),
    ("full", "iq4_nl", "iq4_nl"),
    ("razor", "f16", "f16"),
    ("kvzip", "f16", "f16"),
    ("kvzip", "q8_0", "iq4_nl"),
]


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Gpu:
    """The first GPU, and the most of its memory that was in use."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        for code in (
            self.nvml.nvmlInit_v2(),
            self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)),
        ):
            if code:
                sys.exit(f"error: libnvidia-ml answers {code}")
        self.peak = 0

    def used(self):
        memory = Memory()
        if code := self.nvml.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(memory)):
            sys.exit(f"error: libnvidia-ml answers {code}")
        return memory.used

    def watch(self, run):
        """What `run` returns, and the peak while it ran, without what was in use before."""
        before = self.peak = self.used()
        done = threading.Event()

        def sample():
            while not done.is_set():
                self.peak = max(self.peak, self.used())
                time.sleep(0.002)

        watcher = threading.Thread(target=sample)
        watcher.start()
        try:
            result = run()
        finally:
            done.set()
            watcher.join()
        return result, self.peak - before


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("longhand", nargs="?", default="longhand")
    arguments.add_argument("--tokens", type=int, default=100_000)
    arguments.add_argument("--shapes", default="llama-3.1-8b@2,qwen2.5-14b@2,qwen2.5-32b@2")
    arguments.add_argument("--policies", help="only these")
    arguments.add_argument("--types", help="only these types of keys")
    arguments.add_argument("--device", default="cuda:0")
    options = arguments.parse_args()
    gpu = Gpu()

    def longhand(*words):
        return subprocess.run([options.longhand, *words, "-q"], capture_output=True, text=True)

    _, context = gpu.watch(lambda: longhand("devices"))
    print(f"`longhand devices` takes {context / MIB:,.0f} MiB: the driver's share of a process\n")
    print("MiB; allocated is the plan without the shares of the driver and of the kernels' code\n")
    print("| model | policy | K, V | planned | of it allocated | measured | measured - allocated | seconds |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    failed = 0
    for shape in options.shapes.split(","):
        for policy, k_type, v_type in CHOICES:
            if options.policies and policy not in options.policies.split(","):
                continue
            if options.types and k_type not in options.types.split(","):
                continue
            common = ["--shape", shape, "--policy", policy, "-ctk", k_type, "-ctv", v_type]
            planned = longhand("plan", *common, "-c", str(options.tokens), "--gpu", "h100", "--json")
            try:
                plan = json.loads(planned.stdout)["plans"][0]["devices"][0]
            except (ValueError, LookupError):
                sys.exit(f"error: no plan: {planned.stdout}{planned.stderr}")
            started = time.monotonic()
            ran, peak = gpu.watch(
                lambda: longhand(
                    "bench", *common, "--device", options.device, "-p", "0", "-n", "2", "-r", "1", "-d", str(options.tokens - 3)
                )
            )
            seconds = time.monotonic() - started
            failed += ran.returncode != 0
            allocated = plan["total"] - plan["overhead"]
            print(
                f"| {shape} | {policy} | {k_type}, {v_type} | {plan['total'] / MIB:,.0f} | {allocated / MIB:,.0f} "
                f"| {peak / MIB:,.0f} | {(peak - allocated) / MIB:,.0f} | {seconds:.1f} |",
                flush=True,
            )
            if ran.returncode:
                print(f"failed: {ran.stderr[-600:]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
