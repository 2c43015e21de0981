#!/usr/bin/env python3
"""Writes a formula for Homebrew, for macOS and Linux, from the archives of a release and their sums.

    homebrew.py VERSION URL DIST

URL is where the archives are. The formula goes to the tap, a repository with `Formula/longhand.rb`.
"""

import pathlib
import sys

version, url, dist = sys.argv[1:]
dist = pathlib.Path(dist)
# In Homebrew's words.
SYSTEMS = {
    ("macos", "arm"): "aarch64-apple-darwin",
    ("linux", "intel"): "x86_64-unknown-linux-gnu",
    ("linux", "arm"): "aarch64-unknown-linux-gnu",
}

parts = []
for (system, cpu), target in SYSTEMS.items():
    name = f"longhand-{version}-{target}.tar.gz"
    checksum = dist / f"{name}.sha256"
    if checksum.exists():
        parts.append(f"""
  on_{system} do
    on_{cpu} do
      url "{url}/{name}"
      sha256 "{checksum.read_text().split()[0]}"
    end
  end
""")
if not parts:
    sys.exit(f"homebrew.py: no sums of archives of version {version} in {dist}")
path = dist / "longhand.rb"
path.write_text(f"""\
class Longhand < Formula
  desc "Asks local models about long documents, with a KV cache that fits the machine"
  homepage "{url.split("/releases/")[0]}"
  version "{version}"
  license "MIT"
{"".join(parts)}
  def install
    bin.install "bin/longhand"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/longhand"
    zsh_completion.install "share/zsh/site-functions/_longhand"
    fish_completion.install "share/fish/vendor_completions.d/longhand.fish"
  end

  test do
    (testpath/"note.txt").write "Mary's favorite number is 34251.\\n"
    assert_match "34251", shell_output("#{{bin}}/longhand ask -f note.txt \\"What is Mary's favorite number?\\"")
  end
end
""")
print(path)
