#!/usr/bin/env bash
# Packs what stage.sh laid out into a .deb, for Debian 10, Ubuntu 20.04 and later.
#
#     deb.sh ROOT VERSION TARGET DIST
#
# MAINTAINER is "Name <address>".
set -euo pipefail
root=$1 version=$2 target=$3 dist=$4
case $target in
    x86_64-*) architecture=amd64 ;;
    aarch64-*) architecture=arm64 ;;
    *) echo "deb.sh: no Debian for $target" >&2; exit 1 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/DEBIAN" "$work/usr"
cp -R "$root"/* "$work/usr"
# Debian's places: pages compressed, the licence under another name, completions of packages for zsh apart from others.
find "$work/usr/share/man" -name '*.1' -exec gzip -9n {} +
mv "$work/usr/share/zsh/site-functions" "$work/usr/share/zsh/vendor-completions"
mv "$work/usr/share/doc/longhand/LICENSE" "$work/usr/share/doc/longhand/copyright"
printf 'longhand (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md in the sources.\n\n -- %s  Sun, 09 Sep 2001 01:46:40 +0000\n' \
    "$version" "${MAINTAINER:-longhand <longhand@localhost>}" | gzip -9n > "$work/usr/share/doc/longhand/changelog.gz"
# 2.28 is the glibc that scripts/release.sh links for.
cat > "$work/DEBIAN/control" <<END
Package: longhand
Version: $version
Architecture: $architecture
Maintainer: ${MAINTAINER:-longhand <longhand@localhost>}
Depends: libc6 (>= 2.28)
Section: utils
Priority: optional
Installed-Size: $(du -sk "$work/usr" | cut -f 1)
Description: asks local models about long documents
 longhand runs GGUF models on this machine and answers questions about
 documents of 100,000 tokens, with a KV cache that fits the memory. A small
 model is built in; nothing else is needed to try it.
END
find "$work" -type d -exec chmod 755 {} +
find "$work" -type f ! -path '*/bin/*' -exec chmod 644 {} +
find "$work" -exec touch -hd @1000000000 {} +
package=$dist/longhand_${version}_$architecture.deb
SOURCE_DATE_EPOCH=1000000000 dpkg-deb --root-owner-group -Zxz --build "$work" "$package" > /dev/null
echo "$package"
