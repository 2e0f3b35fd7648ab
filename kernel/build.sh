#!/bin/sh
# Builds the kernel of the series in kernel/patches from Debian's source of Linux 6.12, for emulated guests.
# Fetches the source with apt, unpacks it below the folder FOLDER, applies the patches, and leaves
# FOLDER/bzImage, and FOLDER/root, which has the layout of an unpacked Debian package of a kernel.
# Restartable: each step runs only if what it depends on has changed; a second run does nothing.
# Usage: kernel/build.sh [FOLDER]         default: build/kernel; JOBS=2 processes
#        PATCHES=N kernel/build.sh FOLDER  only the first N patches; 0: none, for comparisons
#        CHECKS=1 kernel/build.sh FOLDER   with the kernel's own checks (kernel/config.debug)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../build/kernel}
package=linux-source-6.12
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
log=$folder/build.log
patches=$(ls "$here"/patches/*.patch | head -n "${PATCHES:-99}")
configs=$here/config
[ -z "${CHECKS:-}" ] || configs="$configs $here/config.debug"

fail() { echo "kernel/build.sh: $*" >&2; exit 1; }

missing=
for tool in apt-get:apt dpkg-deb:dpkg xz:xz-utils patch:patch make:make gcc:gcc flex:flex bison:bison bc:bc perl:perl; do
    command -v "${tool%:*}" >/dev/null || missing="$missing ${tool#*:}"
done
for header in gelf.h:libelf-dev openssl/opensslv.h:libssl-dev; do
    echo "#include <${header%:*}>" | gcc -E - >/dev/null 2>&1 || missing="$missing ${header#*:}"
done
[ -z "$missing" ] || fail "missing tools: apt-get install -y$missing"

# Done if the kernel was built from the same patches and the same configuration. Names of patches count: a
# renamed patch is applied again.
# shellcheck disable=SC2086
wanted=$(sha256sum $configs "$0" $patches | sed "s:  .*/:  :" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$folder/built" 2>/dev/null)" = "$wanted" ] && [ -f "$folder/bzImage" ]; then
    echo "$folder/bzImage is up to date"
    exit 0
fi

# The source: a new one is unpacked if the patches differ from those that were applied.
if [ ! -f "$folder/source.deb" ]; then
    (cd "$folder" && rm -f ./"$package"_*.deb && apt-get -qq -o APT::Sandbox::User=root download "$package") ||
        fail "apt cannot fetch $package: it is in Debian 12 (bookworm-security) and newer; try apt-get update"
    mv "$folder/$package"_*.deb "$folder/source.deb"
fi
if [ ! -d "$folder/linux" ]; then
    echo "unpacking $package"
    rm -rf "$folder/unpacked"
    mkdir "$folder/unpacked"
    dpkg-deb --fsys-tarfile "$folder/source.deb" | tar -xO "./usr/src/$package.tar.xz" |
        tar -xJ -C "$folder/unpacked"
    mv "$folder/unpacked/$package" "$folder/linux"
    rmdir "$folder/unpacked"
fi

# Applied patches are kept, so that they can be taken off again when the series changes: from the first that
# differs, so that what the others touch is not compiled again. A run that was interrupted while it patched
# left the file "patching": then the source is unpacked again.
if [ -f "$folder/patching" ]; then
    rm -rf "$folder/linux" "$folder/applied" "$folder/patching"
    exec "$0" "$folder"
fi
mkdir -p "$folder/applied"
same=0
for patch in $patches; do
    name=$(ls "$folder/applied" | sed -n "$((same + 1))p")
    [ "$name" = "$(basename "$patch")" ] && cmp -s "$patch" "$folder/applied/$name" || break
    same=$((same + 1))
done
: >"$folder/patching"
for name in $(ls -r "$folder/applied" | head -n "-$same"); do
    patch -s -R -p1 -d "$folder/linux" <"$folder/applied/$name" || fail "cannot take off $name"
    rm "$folder/applied/$name"
done
for patch in $(echo "$patches" | tail -n "+$((same + 1))"); do
    echo "applying $(basename "$patch")"
    patch -s -p1 -d "$folder/linux" <"$patch" || fail "$(basename "$patch") does not apply"
    cp "$patch" "$folder/applied"
done
rm "$folder/patching"

cd "$folder/linux"
objects=$folder/objects
mkdir -p "$objects"
make -s O="$objects" tinyconfig >"$log" 2>&1 || fail "no configuration: see $log"
# shellcheck disable=SC2086
scripts/kconfig/merge_config.sh -O "$objects" -m "$objects/.config" $configs >>"$log" 2>&1
make -s O="$objects" olddefconfig >>"$log" 2>&1 || fail "no configuration: see $log"
# shellcheck disable=SC2086
cat $configs >"$objects/wanted"
while read -r line; do
    case $line in
    CONFIG_LAZY_UNMAP=y) [ -n "$patches" ] || continue ;;
    CONFIG_*) ;;
    *) continue ;;
    esac
    grep -qxF "$line" "$objects/.config" || fail "$line in kernel/config has no effect: what it needs is missing"
done <"$objects/wanted"

echo "building the kernel: about five minutes of processor time; messages go to $log"
make -j"${JOBS:-2}" O="$objects" bzImage modules >>"$log" 2>&1 || fail "the build failed: see the end of $log"

release=$(make -s O="$objects" kernelrelease)
rm -rf "$folder/root"
mkdir -p "$folder/root/boot" "$folder/root/lib/modules/$release/kernel"
cp "$objects/modules.builtin" "$folder/root/lib/modules/$release/"
cp "$objects/arch/x86/boot/bzImage" "$folder/root/boot/vmlinuz-$release"
ln -sf "root/boot/vmlinuz-$release" "$folder/bzImage"
echo "$wanted" >"$folder/built"
echo "$folder/bzImage is built"
