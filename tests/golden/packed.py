"""Packed values: JSON, compressed with brotli. Numbers are rounded before.
Packed logits: a line of JSON with how many there are by name, then all of them as whole numbers of 24 bits: first the lowest
byte of each, then the others. That takes a sixth less.
Packed models: GGUF files whose weights are mostly -1, 0 or 1 times a scale, each weight in two bits. A line of JSON has for each
file its name, its bytes, and the bytes of a weight: 4 in F32 files, 1 in q8_0 files. Two bits for each weight follow, four weights
in a byte: 0 for zero, 1 for the scale, 2 for the scale with the other sign, 3 for something else. Then come the others, those of
4 bytes first: the lowest byte of each, then the next ones. The scale of F32 weights is the last of the others without its sign,
that of q8_0 weights is 127. All of this is compressed with brotli, and takes a fifth less than the files alone."""
import json
from pathlib import Path

import brotli
import numpy as np

LOGITS = 4  # decimals: 5e-5 off at most, a twentieth of the smallest tolerance
STEPS = 6
SIGN = 1 << 31


def read(path: Path) -> dict | list:
    return json.loads(brotli.decompress(path.read_bytes())) if path.exists() else {}


def write(path: Path, values: dict | list):
    path.write_bytes(brotli.compress(json.dumps(values, separators=(",", ":")).encode(), quality=11, lgwin=24))


def compress(path: Path):
    """Puts a compressed file in the place of this one."""
    path.with_name(path.name + ".br").write_bytes(brotli.compress(path.read_bytes(), quality=11, lgwin=24))
    path.unlink()


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
    line, rest = brotli.decompress(path.read_bytes()).split(b"\n", 1)
    files = json.loads(line)
    count = sum(size // width for _, size, width in files)
    pairs = np.frombuffer(rest[: -(-count // 4)], np.uint8)
    codes = np.stack([pairs >> shift & 3 for shift in (0, 2, 4, 6)], 1).ravel()
    others = rest[len(pairs) :]
    wide = int(sum((part == 3).sum() for part, width in parts(codes, files) if width == 4))
    words = iter(np.frombuffer(others[: 4 * wide], np.uint8).reshape(4, -1).T.copy().view("<u4").ravel().tolist())
    single = iter(others[4 * wide :])
    models = {}
    for (name, _, width), (part, _) in zip(files, parts(codes, files)):
        scale, weights = (0, []) if width == 4 else (127, [])
        for code in part.tolist():
            if code < 3:
                weights.append((0, scale, scale ^ SIGN if width == 4 else 256 - scale)[code])
            elif width == 4:
                weights.append(next(words))
                scale = weights[-1] & ~SIGN
            else:
                weights.append(next(single))
        models[name] = np.array(weights, "<u4" if width == 4 else np.uint8).tobytes()
    return models


def parts(codes, files):
    """The codes of each file, with the bytes of a weight."""
    at = 0
    for _, size, width in files:
        yield codes[at : at + size // width], width
        at += size // width


def write_models(path: Path, models: dict):
    files, codes, words, single = [], bytearray(), [], bytearray()
    for name, model in sorted(models.items()):
        as_words, as_bytes = in_words(model), in_bytes(model)
        # Four codes take a byte.
        if len(as_words[0]) / 4 + 4 * len(as_words[1]) < len(as_bytes[0]) / 4 + len(as_bytes[1]):
            files.append([name, len(model), 4])
            codes += as_words[0]
            words += as_words[1]
        else:
            files.append([name, len(model), 1])
            codes += as_bytes[0]
            single += as_bytes[1]
    four = np.frombuffer(bytes(codes) + bytes(-len(codes) % 4), np.uint8).reshape(-1, 4)
    packed = (four[:, 0] | four[:, 1] << 2 | four[:, 2] << 4 | four[:, 3] << 6).astype(np.uint8).tobytes()
    planes = np.array(words, "<u4").view(np.uint8).reshape(-1, 4).T.tobytes()
    line = json.dumps(files, separators=(",", ":")).encode()
    path.write_bytes(brotli.compress(line + b"\n" + packed + planes + bytes(single), quality=11, lgwin=24))


def in_words(model: bytes):
    """The codes of weights of 4 bytes, and the others."""
    assert len(model) % 4 == 0
    codes, others, scale = bytearray(), [], 0
    for weight in np.frombuffer(model, "<u4").tolist():
        code = {scale ^ SIGN: 2, scale: 1, 0: 0}.get(weight, 3)
        codes.append(code)
        if code == 3:
            others.append(weight)
            scale = weight & ~SIGN
    return codes, others


def in_bytes(model: bytes):
    """The same of bytes."""
    codes = bytes({0: 0, 127: 1, 129: 2}.get(byte, 3) for byte in model)
    return codes, bytes(byte for byte, code in zip(model, codes) if code == 3)


def rounded(array, decimals: int) -> list:
    return [round(float(x), decimals) for x in np.ravel(array)]
