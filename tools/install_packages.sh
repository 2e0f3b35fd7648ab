#!/bin/sh
# Installs the named Debian packages, as root on a machine with apt; else prints one apt line with
# them and exits with status 2. Does nothing without arguments.
set -eu
[ $# -gt 0 ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing: $*"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
else
    echo "missing packages; install them with" >&2
    echo "    sudo apt-get install -y $*" >&2
    exit 2
fi
