#!/usr/bin/env python3
"""Packs what stage.sh laid out into a wheel, for `uvx`, `pipx` and `pip`: the program goes to bin, the rest to share.

    wheel.py ROOT VERSION TARGET DIST

The name `longhand` belongs to another project on PyPI: the wheel is `longhand-cli`, the command `longhand`. It needs no
Python at run time. The bytes depend on the files only.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

NAME = "longhand-cli"
# For which systems the file says that it is. The first is the oldest glibc that scripts/release.sh links for.
TAGS = {
    "x86_64-unknown-linux-gnu": "manylinux_2_28_x86_64",
    "aarch64-unknown-linux-gnu": "manylinux_2_28_aarch64",
    "x86_64-pc-windows-gnu": "win_amd64",
    "aarch64-apple-darwin": "macosx_11_0_arm64",
}

root, version, target, dist = sys.argv[1:]
root, tag = pathlib.Path(root), TAGS[target]
base = f"{NAME.replace('-', '_')}-{version}"
metadata = f"""\
Metadata-Version: 2.1
Name: {NAME}
Version: {version}
Summary: Asks local models about long documents, with a KV cache that fits the machine
License: MIT
Requires-Python: >=3.8
Description-Content-Type: text/markdown

`longhand demo` shows what the program does, `longhand --help` the rest.
"""
files = {}
for path in sorted(path for path in root.rglob("*") if path.is_file()):
    relative = path.relative_to(root).as_posix()
    is_program = relative.startswith("bin/")
    folder = "scripts/" + path.name if is_program else "data/" + relative
    files[f"{base}.data/{folder}"] = path.read_bytes()
files[f"{base}.dist-info/METADATA"] = metadata.encode()
files[f"{base}.dist-info/WHEEL"] = (
    f"Wheel-Version: 1.0\nGenerator: longhand\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode()
)
record = f"{base}.dist-info/RECORD"
lines = []
for name, data in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    lines.append(f"{name},sha256={digest},{len(data)}\n")
files[record] = "".join([*lines, f"{record},,\n"]).encode()

wheel = pathlib.Path(dist) / f"{base}-py3-none-{tag}.whl"
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for name, data in files.items():
        info = zipfile.ZipInfo(name)
        info.external_attr = (0o100755 if ".data/scripts/" in name else 0o100644) << 16
        archive.writestr(info, data, zipfile.ZIP_DEFLATED)
print(wheel)
