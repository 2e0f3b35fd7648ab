#!/usr/bin/env bash
# Fuzzes the preload library for SECONDS_EACH seconds (default 600): runs random sequences of calls and checks
# every result (tests/lazy_calls.c), with the library's internal assertions. Each run has a different seed;
# settings, threads and forks change in turn. For a failed run it prints the command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-600}
build=target/fuzz-lazy
RUSTFLAGS="-C debug-assertions=on -C overflow-checks=on" \
    cargo build --quiet --profile preload -p lazy --target-dir "$build"
"${CC:-cc}" -O1 -pthread tests/lazy_calls.c -o "$build/calls"

settings=(MODE=fast MODE=guarded MODE=thp PROFILE=faithful
    "HOT_MAX=1MiB LAZY_AFTER=1ms DISCARD_AFTER=3ms ZERO_MAX=1MiB"
    "HOT_MAX=1MiB LAZY_AFTER=1ms DISCARD_AFTER=3ms MODE=guarded HELPER=off")
seed=${SEED:-$(date +%s)}
runs=0
SECONDS=0
while [ "$SECONDS" -lt "$seconds" ]; do
    knobs=(LD_PRELOAD="$PWD/$build/preload/libpagewise_lazy.so")
    for knob in ${settings[runs % ${#settings[@]}]}; do knobs+=("PAGEWISE_LAZY_$knob"); done
    threads=$((1 + runs % 4))
    run=("${knobs[@]}" timeout -s KILL 120 "$build/calls" $((seed + runs)) $((3000 / threads)) $threads 3)
    env "${run[@]}" || { echo "lazy: FINDING: env ${run[*]}"; exit 1; }
    runs=$((runs + 1))
done
echo "lazy: fine, $runs runs of 3,000 calls from seed $seed on in $SECONDS seconds"
