#!/bin/sh
# Checks the prerequisites of the build before anything is built. Prints every missing Debian package in one
# apt line; installs them only when run as root on a machine with apt. Packages needed only for recording
# pages (clang, libelf) are in that line too, but the build continues without them.
# Usage: tools/prerequisites.sh [demo|test|bench]
set -eu
purpose=${1:-demo}

packages=""
need() { packages="$packages $1"; }
recording=""
need_to_record() { recording="$recording $1"; }

command -v cc >/dev/null 2>&1 || need gcc
command -v python3 >/dev/null 2>&1 || need python3
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || need python3-venv
command -v clang >/dev/null 2>&1 || need_to_record clang
command -v pkg-config >/dev/null 2>&1 || need_to_record pkg-config
for header in gelf.h:libelf-dev zlib.h:zlib1g-dev; do
    echo "#include <${header%:*}>" | cc -E - >/dev/null 2>&1 || need_to_record "${header#*:}"
done
if [ "$purpose" = test ] && [ "$(id -u)" = 0 ]; then
    command -v chromium >/dev/null 2>&1 || need chromium
    command -v fio >/dev/null 2>&1 || need fio
    # Guests with other kernels, and a kernel module for one, for tests/vm.
    command -v make >/dev/null 2>&1 || need make
    command -v qemu-system-x86_64 >/dev/null 2>&1 || need qemu-system-x86
    command -v qemu-system-aarch64 >/dev/null 2>&1 || need qemu-system-arm
    command -v qemu-x86_64 >/dev/null 2>&1 || need qemu-user
    command -v valgrind >/dev/null 2>&1 || need valgrind
    command -v aarch64-linux-gnu-gcc >/dev/null 2>&1 || need gcc-aarch64-linux-gnu
    [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || need libc6-dev-arm64-cross
    command -v cpio >/dev/null 2>&1 || need cpio
    command -v dmsetup >/dev/null 2>&1 || need dmsetup
    command -v mkfs.ext4 >/dev/null 2>&1 || need e2fsprogs
    command -v stress-ng >/dev/null 2>&1 || need stress-ng
    # Bare Debian roots for tests/dist. openssh-server is not here, since Debian starts it: tools/dist_setup.sh.
    command -v mmdebstrap >/dev/null 2>&1 || need mmdebstrap
    # The preload library is tested with these: other allocators, a server with its own, a tracer.
    [ -e "/usr/lib/$(uname -m)-linux-gnu/libjemalloc.so.2" ] || need libjemalloc2
    [ -e "/usr/lib/$(uname -m)-linux-gnu/libmimalloc.so.2" ] || need libmimalloc2.0
    [ -e "/usr/lib/$(uname -m)-linux-gnu/libtcmalloc_minimal.so.4" ] || need libtcmalloc-minimal4
    command -v redis-server >/dev/null 2>&1 || need redis-server
    command -v sqlite3 >/dev/null 2>&1 || need sqlite3
    command -v strace >/dev/null 2>&1 || need strace
    command -v g++ >/dev/null 2>&1 || need g++
fi

install=$(dirname "$0")/install_packages.sh
# The package lists are meant to be split into words.
# shellcheck disable=SC2086
if [ -n "$packages" ]; then
    "$install" $packages $recording
elif [ "$(id -u)" = 0 ]; then
    # The build of the agent reports what is missing then.
    "$install" $recording || true
fi

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "pagewise needs Python 3.11 or newer; this is $(python3 --version)" >&2
    exit 2
}
command -v cargo >/dev/null 2>&1 || {
    echo "pagewise needs Rust 1.88 or newer, which Debian 12 does not package; get it from https://rustup.rs" >&2
    exit 2
}
# rustup installs a `cargo` that answers nothing useful until a toolchain is chosen.
answer=$(cargo --version 2>&1) || {
    echo "pagewise needs Rust 1.88 or newer. There is a cargo, but it fails:" >&2
    echo "    ${answer:-it prints nothing}" >&2
    echo "If it is that of rustup, run: rustup default stable" >&2
    exit 2
}
rust=$(echo "$answer" | sed -n 's/^cargo 1\.\([0-9][0-9]*\).*/\1/p')
[ -n "$rust" ] || {
    echo "pagewise needs Rust 1.88 or newer; \`cargo --version\` prints no version: ${answer:-nothing}" >&2
    exit 2
}
[ "$rust" -ge 88 ] || {
    echo "pagewise needs Rust 1.88 or newer; this is $answer. Run: rustup update stable" >&2
    exit 2
}
