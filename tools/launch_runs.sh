#!/bin/sh
# Makes the runs behind the studies and the recordings in examples/, one folder each.
# A run that can carry a verdict is kept, so an interrupted series resumes.
# Usage: tools/launch_runs.sh OUT [PLAN...]
set -eu
cd "$(dirname "$0")/.."
out=${1:?usage: tools/launch_runs.sh OUT [PLAN...]}
shift
[ $# -gt 0 ] || set -- multiswap-1 multiswap-2 multiswap-3 no-limit no-limit-25apps \
    phone-2g-25apps kill-2g-25apps kill-1g-lenient kill-1g-60 kill-2g phone-2g kill-1g phone-1g

mkdir -p "$out"
for plan in "$@"; do
    if grep -q '^valid = true' "$out/$plan/run.toml" 2>/dev/null; then
        echo "$plan: kept"
        continue
    fi
    rm -rf "${out:?}/$plan"
    .venv/bin/pagewise-agent launch "lab/plans/$plan.toml" -o "$out/$plan" --record
done
