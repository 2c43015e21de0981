"""Packed numbers: a JSON object whose values are lists of numbers, or objects of such, rounded and compressed with brotli.
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
