#!/usr/bin/env python3
"""Makes an image for containers, as an archive in the OCI layout: `podman load -i FILE`, `docker load -i FILE`,
`skopeo copy oci-archive:FILE …`.

    oci.py ROOT VERSION TARGET DIST

Besides the program and the licence it holds the C library of this machine, folders for caches and conversations, and
nothing else: no shell. The program runs as a user without rights (65532). The bytes depend on the files only.
"""

import gzip
import hashlib
import io
import json
import pathlib
import re
import subprocess
import sys

import archive

ARCHITECTURES = {"x86_64-unknown-linux-gnu": "amd64", "aarch64-unknown-linux-gnu": "arm64"}
USER = 65532
# Of this user: what a volume is mounted over, to be kept.
HOME = "home/longhand"

root, version, target, dist = sys.argv[1:]
root = pathlib.Path(root)
program = root / "bin/longhand"

entries = []


def add(name, mode, user=0, data=None):
    """A file with data, or a folder, after the folders that it is in."""
    for parent in reversed(pathlib.PurePosixPath(name).parents[:-1]):
        if all(str(parent) != known for known, *_ in entries):
            entries.append((str(parent), 0o755, 0, None))
    entries.append((name, mode, user, data))


add("usr/bin/longhand", 0o755, data=program.read_bytes())
add("usr/share/doc/longhand/LICENSE", 0o644, data=(root / "share/doc/longhand/LICENSE").read_bytes())
for line in subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout.splitlines():
    if found := re.search(r"(/\S+) \(0x", line):
        add(found[1].lstrip("/"), 0o755, data=pathlib.Path(found[1]).read_bytes())
add("etc/passwd", 0o644, data=f"longhand:x:{USER}:{USER}::/{HOME}:/\n".encode())
add("tmp", 0o1777)
add(HOME, 0o700, USER)
layer = io.BytesIO()
archive.tar(layer, entries)
layer = layer.getvalue()

blobs = {}


def blob(data, kind):
    digest = hashlib.sha256(data).hexdigest()
    blobs[f"blobs/sha256/{digest}"] = data
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}


def text(value):
    return json.dumps(value, indent=1).encode()


packed = blob(gzip.compress(layer, 9, mtime=0), "layer.v1.tar+gzip")
config = {
    "architecture": ARCHITECTURES[target],
    "os": "linux",
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    "config": {
        "Entrypoint": ["/usr/bin/longhand"],
        "User": f"{USER}:{USER}",
        "Env": [f"HOME=/{HOME}", "PATH=/usr/bin"],
        "WorkingDir": f"/{HOME}",
        "Labels": {
            "org.opencontainers.image.title": "longhand",
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.licenses": "MIT",
        },
    },
}
manifest = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": blob(text(config), "config.v1+json"),
    "layers": [packed],
}
entry = blob(text(manifest), "manifest.v1+json")
entry["annotations"] = {"org.opencontainers.image.ref.name": f"longhand:{version}"}
blobs["index.json"] = text({"schemaVersion": 2, "manifests": [entry]})
blobs["oci-layout"] = text({"imageLayoutVersion": "1.0.0"})

path = pathlib.Path(dist) / f"longhand-{version}-{target}.oci.tar"
with open(path, "wb") as file:
    archive.tar(file, [(name, 0o644, 0, data) for name, data in sorted(blobs.items())])
print(path)
