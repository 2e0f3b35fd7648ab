#!/bin/sh
# Adds to the wheel that maturin built what else users install with it, and writes it into OUTPUT: pagewise-agent, the preload libraries
# in LIBRARIES, the man pages, the capture plugin (made by GCC), and the examples that packaging/examples.txt names.
# Usage: packaging/assemble_wheel.sh WHEEL AGENT LIBRARIES GCC OUTPUT
set -eu
cd "$(dirname "$0")/.."
wheel=$1 agent=$2 libraries=$3 gcc=$4 output=$5

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
.venv/bin/python -m wheel unpack --dest "$work" "$wheel" >/dev/null
tree=$(echo "$work"/*-*)
data=$tree/$(basename "$tree").data
# The time of the last commit, so that two builds of it have the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# The bill of materials names our crates by the folder they were built in, and has the time of the build and a random number.
sed -i -e "s|path+file://$PWD/|path+file:///pagewise/|g" -e '/^  "serialNumber": /d' \
    -e "s|^    \"timestamp\": .*|    \"timestamp\": \"$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)\",|" "$tree"/*.dist-info/sboms/*.json
install -D -m 755 "$agent" "$data/scripts/pagewise-agent"
install -D -m 644 -t "$data/data/lib" "$libraries"/libpagewise_*.so
# Manual pages do not depend on the processor: an agent that runs here writes them.
"dist/pagewise-agent-$(uname -m)" manual "$data/data/share/man/man1"
"$gcc" -std=c17 -O3 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter -Wl,--build-id=none -s \
    capture/plugin.c -o "$tree/pagewise/capture/qemu_capture.so"
# The names are patterns, one a line.
# shellcheck disable=SC2046
git ls-files -z $(cat packaging/examples.txt) | xargs -0 cp --parents -t "$tree/pagewise"
mkdir -p "$output"
.venv/bin/python -m wheel pack --dest-dir "$output" "$tree" >/dev/null
