#!/bin/sh
# Makes the runs of S2 Fig. 1: five applications ten times with ample memory, then in short memory with each
# way to kill. A run that can carry a verdict is kept, so an interrupted series resumes.
# Usage: tools/five_launches.sh OUT
set -eu
cd "$(dirname "$0")/.."
out=${1:?usage: tools/five_launches.sh OUT}

run() {
    if grep -q '^valid = true' "$out/$2/run.toml" 2>/dev/null; then
        echo "$2: kept"
        return
    fi
    rm -rf "${out:?}/$2"
    .venv/bin/pagewise-agent launch "lab/plans/$1.toml" -o "$out/$2" --record
}

mkdir -p "$out"
for number in 01 02 03 04 05 06 07 08 09 10; do
    run five-ample "five-ample-$number"
done
for plan in five-short five-short-batch five-short-first; do
    run "$plan" "$plan"
done
