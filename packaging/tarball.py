#!/usr/bin/env python3
"""Packs what stage.sh laid out into an archive: .tar.gz, for Windows .zip. install.sh, cargo-binstall, Homebrew and winget
take it.

    tarball.py ROOT VERSION TARGET DIST
"""

import pathlib
import sys
import zipfile

import archive

root, version, target, dist = sys.argv[1:]
root, dist = pathlib.Path(root), pathlib.Path(dist)
name = f"longhand-{version}-{target}"
entries = archive.tree(root, name)
if "windows" in target:
    path = dist / f"{name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for entry, _, _, data in entries:
            if data is not None:
                packed.writestr(zipfile.ZipInfo(entry), data, zipfile.ZIP_DEFLATED)
else:
    path = dist / f"{name}.tar.gz"
    archive.tar_gz(path, [(name, 0o755, 0, None), *entries])
print(path)
