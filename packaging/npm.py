#!/usr/bin/env python3
"""Packs what stage.sh laid out into two packages of npm, for `npx` and `npm install -g`: one with the program for this
system, and `longhand-cli`, which starts it. `longhand-cli` names a package for each system; npm installs the one that fits.

    npm.py ROOT VERSION TARGET DIST
"""

import json
import pathlib
import sys

import archive

NAME = "longhand-cli"
# npm's names of systems and CPUs.
SYSTEMS = {
    "x86_64-unknown-linux-gnu": ("linux", "x64"),
    "aarch64-unknown-linux-gnu": ("linux", "arm64"),
    "x86_64-pc-windows-gnu": ("win32", "x64"),
    "aarch64-apple-darwin": ("darwin", "arm64"),
}
LAUNCHER = pathlib.Path(__file__).with_name("npm.js").read_bytes()

root, version, target, dist = sys.argv[1:]
root, dist = pathlib.Path(root), pathlib.Path(dist)
licence = (root / "share/doc/longhand/LICENSE").read_bytes()


def write(name, description, fields, entries):
    described = {"name": name, "version": version, "description": description, "license": "MIT", **fields}
    path = dist / f"{name}-{version}.tgz"
    manifest = (json.dumps(described, indent=2) + "\n").encode()
    archive.tar_gz(
        path,
        [("package/package.json", 0o644, 0, manifest), ("package/LICENSE", 0o644, 0, licence), *entries],
    )
    print(path)


system, cpu = SYSTEMS[target]
limits = {"os": [system], "cpu": [cpu]}
if system == "linux":
    limits["libc"] = ["glibc"]
write(
    f"{NAME}-{system}-{cpu}",
    f"The program of {NAME} for {system} on {cpu}",
    limits,
    archive.tree(root / "bin", "package/bin"),
)
if target != "x86_64-unknown-linux-gnu":
    sys.exit()
# Once for all systems.
pages = sorted(path.relative_to(root).as_posix() for path in (root / "share/man").rglob("*.1"))
write(
    NAME,
    "Asks local models about long documents, with a KV cache that fits the machine",
    {
        "bin": {"longhand": "longhand.js"},
        "man": pages,
        "engines": {"node": ">=16"},
        "optionalDependencies": {f"{NAME}-{system}-{cpu}": version for system, cpu in SYSTEMS.values()},
    },
    [("package/longhand.js", 0o755, 0, LAUNCHER), *archive.tree(root / "share", "package/share")],
)
