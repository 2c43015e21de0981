"""Packed numbers: a JSON object whose values are lists of numbers, or objects of such, rounded and compressed with brotli.
Packed logits: a line of JSON with how many there are by name, then all of them as whole numbers of 24 bits: first the lowest
byte of each, then the others. That takes a sixth less.
Packed models: GGUF files by name in a ZIP file that compresses nothing, compressed with brotli as a whole, because they have much
in common."""
import io
import json
import zipfile
from pathlib import Path

import brotli
import numpy as np

LOGITS = 4  # decimals: 5e-5 off at most, a twentieth of the smallest tolerance
STEPS = 6


def read(path: Path) -> dict:
    return json.loads(brotli.decompress(path.read_bytes())) if path.exists() else {}


def write(path: Path, numbers: dict):
    path.write_bytes(brotli.compress(json.dumps(numbers, separators=(",", ":")).encode(), quality=11, lgwin=24))


def read_logits(path: Path) -> dict:
    if not path.exists():
        return {}
    counts, planes = brotli.decompress(path.read_bytes()).split(b"\n", 1)
    low, middle, high = np.frombuffer(planes, np.uint8).astype(np.int32).reshape(3, -1)
    numbers = (low | middle << 8 | high.astype(np.int8).astype(np.int32) << 16) / 10**LOGITS
    counts = json.loads(counts)
    ends = np.cumsum(list(counts.values()))[:-1]
    return {name: values.tolist() for name, values in zip(counts, np.split(numbers, ends))}


def write_logits(path: Path, logits: dict):
    counts = json.dumps({name: len(values) for name, values in logits.items()}, separators=(",", ":"))
    numbers = [round(x * 10**LOGITS) for values in logits.values() for x in values]
    planes = [bytes(number >> shift & 255 for number in numbers) for shift in (0, 8, 16)]
    path.write_bytes(brotli.compress(b"".join([counts.encode(), b"\n", *planes]), quality=11, lgwin=24))


def read_models(path: Path) -> dict:
    if not path.exists():
        return {}
    with zipfile.ZipFile(io.BytesIO(brotli.decompress(path.read_bytes()))) as files:
        return {name.removesuffix(".gguf"): files.read(name) for name in files.namelist()}


def write_models(path: Path, models: dict):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as files:
        for name, model in sorted(models.items()):
            files.writestr(zipfile.ZipInfo(f"{name}.gguf"), model)
    path.write_bytes(brotli.compress(buffer.getvalue(), quality=11, lgwin=24))


def rounded(array, decimals: int) -> list:
    return [round(float(x), decimals) for x in np.ravel(array)]
