#!/bin/sh
# Installs the programs that `make bench-programs` runs, from Debian, as root. Skips those installed. A package
# that cannot be installed is named; its programs are then skipped with the reason.
set -eu
cd "$(dirname "$0")/.."
libraries=/usr/lib/x86_64-linux-gnu

packages=""
need() { [ -e "$1" ] || packages="$packages $2"; }
need_command() { command -v "$1" >/dev/null 2>&1 || packages="$packages $2"; }

need /usr/bin/python3.11 python3.11
need /usr/lib/python3.11/test/test_gc.py libpython3.11-testsuite
need_command node nodejs
need /usr/lib/jvm/java-17-openjdk-amd64/bin/javac openjdk-17-jdk-headless
need /usr/bin/mono mono-runtime
need /usr/bin/mcs mono-mcs
need /usr/bin/sbcl sbcl
need $libraries/libgc.so libgc-dev
need /usr/lib/go-1.19/bin/go golang-1.19-go
need_command rustc rustc
need /usr/bin/redis-server redis-server
need /usr/bin/redis-benchmark redis-tools
need /usr/lib/postgresql/15/bin/postgres postgresql-15
need /usr/bin/setpriv util-linux
need /usr/bin/sqlite3 sqlite3
need /usr/bin/git git
need /usr/bin/gcc gcc
need_command g++ g++
need_command clang clang
need "$(clang -print-file-name=libclang_rt.asan-x86_64.a 2>/dev/null || echo clang)" libclang-rt-14-dev
need_command make make
need /usr/bin/ffmpeg ffmpeg
need /usr/bin/convert-im6.q16 imagemagick
need_command xz xz-utils
need_command zstd zstd
need /usr/bin/Rscript r-base-core
need_command chromium-headless-shell chromium-headless-shell
need /usr/bin/valgrind valgrind
need /usr/bin/gdb gdb
need /usr/bin/strace strace
need /usr/bin/bwrap bubblewrap
need $libraries/libjemalloc.so libjemalloc-dev
need $libraries/libmimalloc.so libmimalloc-dev
need $libraries/libtcmalloc_minimal.so libgoogle-perftools-dev

# The package list is meant to be split into words.
# shellcheck disable=SC2086
tools/install_packages.sh $packages || {
    # Installing all at once failed; a package that Debian lacks must not prevent the others.
    for package in $packages; do
        tools/install_packages.sh "$package" || echo "cannot install $package" >&2
    done
}
