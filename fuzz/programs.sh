#!/usr/bin/env bash
# Fuzzes the preload library with whole programs: random mixes of threads, signals, forks, mappings and allocators,
# with and without the library, and what each run could observe compared. Runs for SECONDS_EACH seconds (600 unless
# set) on one processor, from the seed SEED on; or passes its arguments on to fuzz/programs/run.py, e.g.
#     fuzz/programs.sh --seed 45 --once --settings thp
# LIBRARY: a library that is built already; else one is built with its internal assertions.
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
