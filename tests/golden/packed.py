"""Packed numbers: a JSON object whose values are lists of numbers, or objects of such, rounded and compressed with brotli."""
import json
from pathlib import Path

import brotli
import numpy as np

LOGITS = 4  # decimals: 5e-5 off at most, a twentieth of the smallest tolerance
STEPS = 6


def read(path: Path) -> dict:
    return json.loads(brotli.decompress(path.read_bytes())) if path.exists() else {}


def write(path: Path, numbers: dict):
    path.write_bytes(brotli.compress(json.dumps(numbers, separators=(",", ":")).encode(), quality=11, lgwin=24))


def rounded(array, decimals: int) -> list:
    return [round(float(x), decimals) for x in np.ravel(array)]
