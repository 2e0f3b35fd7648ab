#!/bin/sh
# Installs the peers of `make bench-lazy`: Debian's allocators and programs (as root), the newest
# mimalloc from PyPI. Compiles the programs of bench/lazy and generates their inputs.
set -eu
cd "$(dirname "$0")/.."
build=build/bench-lazy
scudo=/usr/lib/llvm-16/lib/clang/16/lib/linux/libclang_rt.scudo_standalone-x86_64.so

packages=""
need() { [ -e "$1" ] || packages="$packages $2"; }

need /usr/lib/x86_64-linux-gnu/libjemalloc.so.2 libjemalloc2
need /usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0 libmimalloc2.0
need /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4 libtcmalloc-minimal4
need "$scudo" libclang-rt-16-dev
need /usr/lib/x86_64-linux-gnu/girepository-1.0/WebKit2-4.1.typelib gir1.2-webkit2-4.1
need /usr/lib/python3/dist-packages/gi python3-gi
need "$(echo /usr/lib/python3/dist-packages/gi/_gi_cairo.*.so)" python3-gi-cairo
need /usr/lib/python3/dist-packages/numpy python3-numpy
need /usr/lib/x86_64-linux-gnu/libXtst.so.6 libxtst6
need /usr/bin/Xvfb xvfb
need /usr/bin/convert-im6.q16 imagemagick
need /usr/bin/ffmpeg ffmpeg

# The package list is meant to be split into words.
# shellcheck disable=SC2086
tools/install_packages.sh $packages

mkdir -p $build/bin $build/inputs
[ -d $build/mimalloc ] ||
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target $build/mimalloc \
        'cmeel-mimalloc==3.4.3'

for program in churn exchange small pressure forks measured; do
    cc -std=gnu17 -O2 -Wall -Wextra -pthread -o $build/bin/$program bench/lazy/programs/$program.c -lm
done
cc -O2 -shared -fPIC -o $build/bin/libscudo_android.so bench/lazy/programs/scudo_android.c

convert=/usr/bin/convert-im6.q16
[ -e $build/inputs/photo.jpg ] ||
    $convert -size 3000x2000 -seed 1 plasma:fractal -quality 92 $build/inputs/photo.jpg
[ -e $build/inputs/page.html ] || python3 bench/lazy/programs/page.py $build/inputs
