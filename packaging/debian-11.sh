#!/usr/bin/env bash
# Installs the .deb in a Debian 11 (glibc 2.31), the oldest that Debian still has, and runs the program there.
#
#     debian-11.sh DIST ROOT      # the packages, and a folder for the system, which stays
#
# Needs root and debootstrap; the first time minutes and 350 MB.
set -euo pipefail
package=$(compgen -G "$1/longhand_*.deb") root=$2
if ! [ -e "$root/.complete" ]; then
    # From the mirror that this machine has.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)
    debootstrap --variant=minbase bullseye "$root" "$mirror"
    touch "$root/.complete"
fi
cp "$package" "$root/longhand.deb"
printf "Mary's favorite number is 34251.\n" > "$root/note.txt"
inside() { env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"; }
inside dpkg --install /longhand.deb
inside ldd --version | head -n 1
inside ldd /usr/bin/longhand
inside longhand --version
inside longhand ask -f /note.txt "What is Mary's favorite number?" | tee "$root/answer"
grep -q 34251 "$root/answer"
inside longhand demo --tokens 2k
inside dpkg --remove longhand
! [ -e "$root/usr/bin/longhand" ]
