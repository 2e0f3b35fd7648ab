#!/bin/sh
# Builds the wheel for x86_64 or aarch64 into OUTPUT, with AGENT, a static pagewise-agent for the same machine.
# Usage: packaging/wheel.sh x86_64|aarch64 AGENT OUTPUT
set -eu
cd "$(dirname "$0")/.."
machine=$1 agent=$2 output=$3
. tools/cross.sh
cross_to "$machine" ""
work=build/wheel/$machine
rm -rf "$work"
mkdir -p "$work"
.venv/bin/maturin build --release --strip --locked --quiet --target "$target" --out "$work"
tools/preload_libraries.sh "$machine" "$work/lib"
packaging/assemble_wheel.sh "$work"/*.whl "$agent" "$work/lib" "$gcc" "$output"
