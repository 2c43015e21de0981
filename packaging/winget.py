#!/usr/bin/env python3
"""Writes the three files of winget, Windows' package manager, from the archive for Windows and its sum.

    winget.py VERSION URL DIST

URL is where the archive is. The folder goes to winget-pkgs, as manifests/l/Longhand/Longhand/VERSION.
"""

import pathlib
import sys

version, url, dist = sys.argv[1:]
dist = pathlib.Path(dist)
IDENTIFIER = "Longhand.Longhand"
name = f"longhand-{version}-x86_64-pc-windows-gnu"
checksum = dist / f"{name}.zip.sha256"
if not checksum.exists():
    sys.exit(f"winget.py: {checksum} does not exist")


def manifest(kind, body):
    return f"PackageIdentifier: {IDENTIFIER}\nPackageVersion: {version}\n{body}ManifestType: {kind}\nManifestVersion: 1.6.0\n"


files = {
    "": manifest("version", "DefaultLocale: en-US\n"),
    ".locale.en-US": manifest(
        "defaultLocale",
        "PackageLocale: en-US\nPublisher: longhand\nPackageName: longhand\nLicense: MIT\n"
        "ShortDescription: Asks local models about long documents, with a KV cache that fits the machine\n",
    ),
    ".installer": manifest(
        "installer",
        "InstallerType: zip\nNestedInstallerType: portable\nNestedInstallerFiles:\n"
        f"- RelativeFilePath: {name}\\bin\\longhand.exe\n  PortableCommandAlias: longhand\n"
        f"Installers:\n- Architecture: x64\n  InstallerUrl: {url}/{name}.zip\n"
        f"  InstallerSha256: {checksum.read_text().split()[0].upper()}\n",
    ),
}
folder = dist / "winget"
folder.mkdir(exist_ok=True)
for part, text in files.items():
    (folder / f"{IDENTIFIER}{part}.yaml").write_text(text)
print(folder)
