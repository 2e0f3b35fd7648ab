#!/bin/sh
# Makes the runs that the studies and the recordings in examples/ come from, one folder each.
# A run that is there and complete is kept, so an interrupted series goes on where it stopped.
# Usage: tools/launch_runs.sh OUT [PLAN...]
set -eu
cd "$(dirname "$0")/.."
out=${1:?usage: tools/launch_runs.sh OUT [PLAN...]}
shift
[ $# -gt 0 ] || set -- multiswap-1 multiswap-2 multiswap-3 no-limit no-limit-25apps \
    phone-2g-25apps kill-2g-25apps kill-1g-lenient kill-1g-60 kill-2g phone-2g kill-1g phone-1g

mkdir -p "$out"
for plan in "$@"; do
    if grep -q '^finished = true' "$out/$plan/run.toml" 2>/dev/null; then
        echo "$plan: kept"
        continue
    fi
    rm -rf "${out:?}/$plan"
    .venv/bin/pagewise-agent launch "lab/plans/$plan.toml" -o "$out/$plan" --record
done
