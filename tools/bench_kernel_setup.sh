#!/bin/sh
# Installs what the programs of bench/kernel.py need on this machine, as root: the browsers and a display
# without a screen, numpy, java, redis and musl. `make kernel` builds the kernel.
set -eu
cd "$(dirname "$0")/.."

packages=""
need() { [ -e "$1" ] || packages="$packages $2"; }
need_program() { command -v "$1" >/dev/null || packages="$packages $2"; }

need /usr/lib/x86_64-linux-gnu/girepository-1.0/WebKit2-4.1.typelib gir1.2-webkit2-4.1
need /usr/lib/python3/dist-packages/gi python3-gi
need "$(echo /usr/lib/python3/dist-packages/gi/_gi_cairo.*.so)" python3-gi-cairo
need /usr/lib/python3/dist-packages/numpy python3-numpy
need /usr/lib/x86_64-linux-gnu/libXtst.so.6 libxtst6
need /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf fonts-dejavu-core
need_program Xvfb xvfb
need_program convert-im6.q16 imagemagick
need_program chromium-headless-shell chromium-headless-shell
need_program firefox-esr firefox-esr
need_program javac default-jdk-headless
need_program redis-server redis-server
need_program musl-gcc musl-tools
need_program qemu-system-x86_64 qemu-system-x86

# The package list is meant to be split into words.
# shellcheck disable=SC2086
tools/install_packages.sh $packages
