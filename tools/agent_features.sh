#!/bin/sh
# Prints how cargo must build pagewise-agent here: with BPF if clang, libelf and zlib are installed,
# else without it, as the agent and one line on standard error then report.
set -eu
headers='#include <gelf.h>
#include <zlib.h>'
if command -v clang >/dev/null 2>&1 && command -v pkg-config >/dev/null 2>&1 &&
    echo "$headers" | cc -E - >/dev/null 2>&1; then
    exit 0
fi
echo "pagewise-agent is built without BPF and records by swap slot, not by page; for pages: sudo apt-get install -y clang pkg-config libelf-dev zlib1g-dev, then make again" >&2
echo "--no-default-features"
