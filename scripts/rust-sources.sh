#!/usr/bin/env bash
# Prints the path of a rustc that comes with the sources of the standard library, for systems whose own library rustup cannot
# fetch here: `cargo -Zbuild-std` makes it of them. Debian 12 has both, in one version. They are unpacked below target/tools
# and not installed, so the machine's own toolchain stays what it is.
set -euo pipefail
cd "$(dirname "$0")/.."
rust=${CARGO_TARGET_DIR:-$PWD/target}/tools/rust-sources
mkdir -p "$rust"

# Two may start at once.
exec 3> "$rust/.lock"
flock 3
# Debian's release of rustc for Firefox, which moves with it. LLVM's version is its own.
if ! [ -e "$rust/.complete" ]; then
    of() { apt-cache show --no-all-versions "$1" | grep -o "$2" | head -n 1; }
    library=$(of libstd-rust-web-dev 'libstd-rust-web-[0-9][0-9.]*[0-9]')
    scripts/unpack.sh "$rust" rustc-web rust-web-src libstd-rust-web-dev "$library" "$(of "$library" 'libllvm[0-9]*')"
    # rustc finds its folders by where it lies. Only the loader must be told where its libraries are.
    cat > "$rust/rustc" << END
#!/bin/sh
LD_LIBRARY_PATH=$rust/usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec $rust/usr/bin/rustc "\$@"
END
    chmod +x "$rust/rustc"
    # An old list of packages has an old rustc.
    oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    version=$("$rust/rustc" --version | awk '{ print $2 }')
    if [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -n 1)" != "$oldest" ]; then
        rm -r "$rust/usr"
        echo "$0: Debian's rustc is $version, and Cargo.toml needs $oldest: run apt-get update, and this again" >&2
        exit 1
    fi
    touch "$rust/.complete"
fi
echo "$rust/rustc"
