#!/usr/bin/env bash
# Fuzzes the preload library with whole programs: runs random mixes of threads, signals, forks, mappings and
# allocators with and without the library, and compares everything that the runs can observe. It runs for
# SECONDS_EACH seconds (default 600) on one CPU, with seeds from SEED on, or passes its arguments to
# fuzz/programs/run.py, for example:
#     fuzz/programs.sh --seed 45 --once --settings thp
# OPTIONS: more options of the compiler, for example "-no-pie -fno-pie" for a program at a fixed address.
# LIBRARY: path of a built library; by default it builds the library with internal assertions.
set -euo pipefail
cd "$(dirname "$0")/.."
build=target/fuzz-lazy
if [ -z "${LIBRARY:-}" ]; then
    LIBRARY=$build/preload/libpagewise_lazy.so
    RUSTFLAGS="-C debug-assertions=on -C overflow-checks=on" \
        cargo build --quiet --profile preload -p lazy --target-dir "$build"
fi
fuzz/programs/build.sh "$build/program"
mkdir -p fuzz/artifacts
[ $# -gt 0 ] || set -- --seconds "${SECONDS_EACH:-600}" --seed "${SEED:-$(date +%s)}"
exec python3 fuzz/programs/run.py "$build/program" "$LIBRARY" --keep fuzz/artifacts "$@"
