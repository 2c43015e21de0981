#!/usr/bin/env bash
# Cargo for macOS on ARM (aarch64-apple-darwin) on a Debian 12.
#
#     scripts/macos.sh check --profile mutants -p longhand -p darwin
#     SDKROOT=~/MacOSX.sdk scripts/macos.sh build --release -p longhand-cli --features metal
#
# check compares types and compiles no C: build scripts get a compiler that writes empty files.
#
# build compiles and links all, with Zig's compiler from PyPI. It needs an SDK of macOS, of which the folders System/Library/Frameworks and
# usr are used, or Frameworks, include and lib. Nothing here runs what it makes.
#
# Rust's standard library is compiled from its sources. Cargo's files lie in target/macos.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}/macos
mkdir -p "$target"
case ${1:-} in
    check)
        export SDKROOT=$target/sdk
        mkdir -p "$SDKROOT"
        # Asked which compiler it is, it says clang, and that it is not the one of Windows.
        cat > "$target/cc" << 'END'
#!/bin/sh
case " $* " in *' -E '*) echo '"clang"' ;; *' -? '*) exit 1 ;; esac
while [ $# -gt 0 ]; do
    if [ "$1" = -o ]; then : > "$2"; fi
    shift
done
END
        chmod +x "$target/cc"
        export CC_aarch64_apple_darwin=$target/cc
        ;;
    build)
        if ! [ -d "${SDKROOT:-}" ]; then
            echo "$0: set SDKROOT to the folder of an SDK of macOS" >&2
            exit 2
        fi
        export SDKROOT
        package=ziglang==0.17.1
        zig=${CARGO_TARGET_DIR:-$PWD/target}/tools/$package
        if ! [ -e "$zig/.complete" ]; then
            python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$zig" "$package"
            touch "$zig/.complete"
        fi
        # C has the SDK's headers, which say what version it is. In C++ those of Zig's library come first.
        for language in cc c++; do
            [ $language = cc ] && headers=-I || headers=-idirafter
            cat > "$target/$language" << END
#!/usr/bin/env bash
# Zig names the system, which cc and rustc name in Apple's way, and has its own way of linking.
arguments=()
while [ \$# -gt 0 ]; do
    case \$1 in
        -march=*) arguments+=(-mcpu=apple_m1) ;; # the oldest with this system
        --target=* | -mmacosx-version-min=* | -nodefaultlibs) ;;
        -arch | -isysroot | -target | -Wl,-exported_symbols_list) shift ;;
        *) arguments+=("\$1") ;;
    esac
    shift
done
for folder in System/Library/Frameworks Frameworks; do
    [ -d "$SDKROOT/\$folder" ] && arguments+=("-F$SDKROOT/\$folder")
done
for folder in usr .; do
    [ -d "$SDKROOT/\$folder/include" ] && arguments+=($headers "$SDKROOT/\$folder/include")
    [ -d "$SDKROOT/\$folder/lib" ] && arguments+=("-L$SDKROOT/\$folder/lib")
done
exec "$zig/ziglang/zig" $language -target aarch64-macos.11.0 "\${arguments[@]}"
END
            chmod +x "$target/$language"
        done
        export CC_aarch64_apple_darwin=$target/cc CXX_aarch64_apple_darwin=$target/c++
        export AR_aarch64_apple_darwin=$target/ar CARGO_TARGET_AARCH64_APPLE_DARWIN_LINKER=$target/cc
        printf '#!/bin/sh\nexec "%s" ar "$@"\n' "$zig/ziglang/zig" > "$target/ar"
        chmod +x "$target/ar"
        ;;
    *)
        echo "$0: only check and build are possible here" >&2
        exit 2
        ;;
esac
exec scripts/build-std.sh aarch64-apple-darwin "$target" "$@"
