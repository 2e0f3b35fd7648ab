#!/bin/sh
# Installs what `make dist` needs beside the packages of `make build`: cross compilers, the C libraries of their targets, and the
# programs that check the Debian packages. As root; else prints the line for apt.
# Usage: tools/dist_setup.sh
set -eu
cd "$(dirname "$0")"
./prerequisites.sh demo

packages=""
need() { command -v "$1" >/dev/null 2>&1 || packages="$packages $2"; }
need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
[ -e /usr/aarch64-linux-gnu/lib/libc.a ] || packages="$packages libc6-dev-arm64-cross"
need arm-linux-gnueabihf-gcc gcc-arm-linux-gnueabihf
[ -e /usr/arm-linux-gnueabihf/lib/libc.a ] || packages="$packages libc6-dev-armhf-cross"
need dpkg-deb dpkg
need git git
# For the tests of what was built: bare Debian roots, programs of other processors, checks of packages, a device to log in to.
need mmdebstrap mmdebstrap
need qemu-aarch64-static qemu-user-static
need lintian lintian
need podman podman
need crun crun
[ -x /usr/sbin/sshd ] || packages="$packages openssh-server"
[ -x /bin/busybox ] || packages="$packages busybox-static"
# The package list is meant to be split into words.
# shellcheck disable=SC2086
./install_packages.sh $packages
