#!/bin/sh
# Builds the wheel for x86_64 or aarch64 into FOLDER: the Python package with its core, and beside it pagewise-agent (AGENT, a
# static program), the preload libraries, the capture plugin and the examples that `pagewise demo` and the tutorials read.
# Usage: packaging/wheel.sh x86_64|aarch64 AGENT FOLDER
set -eu
cd "$(dirname "$0")/.."
agent=$2
output=$3
. tools/cross.sh
machine=$1
cross_to "$machine" ""
# The time of the last commit, so that two builds of it have the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 315532800)
export SOURCE_DATE_EPOCH

work=build/wheel/$machine
rm -rf "$work"
mkdir -p "$work" "$output"
.venv/bin/maturin build --release --strip --locked --quiet --target "$target" --out "$work"

.venv/bin/python -m wheel unpack --dest "$work" "$work"/*.whl >/dev/null
rm "$work"/*.whl
tree=$(echo "$work"/*-*)
data=$tree/$(basename "$tree").data
install -D -m 755 "$agent" "$data/scripts/pagewise-agent"
tools/preload_libraries.sh "$machine" "$data/data/lib"
"dist/pagewise-agent-$(uname -m)" manual "$data/data/share/man/man1"
"$gcc" -std=c17 -O3 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter -Wl,--build-id=none \
    capture/plugin.c -o "$tree/pagewise/capture/qemu_capture.so"
git ls-files -z $(cat packaging/examples.txt) | xargs -0 cp --parents -t "$tree/pagewise"
.venv/bin/python -m wheel pack --dest-dir "$output" "$tree" >/dev/null
