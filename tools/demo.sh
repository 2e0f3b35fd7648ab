#!/bin/sh
# Builds pagewise, runs `pagewise demo`, and prints what it advises, in at most 15 lines. The output of
# the build goes to build/demo.log, all figures to build/demo.txt. If nothing changed since, prints the
# advice again without a replay. Usage: tools/demo.sh, or `make demo`.
set -eu
log=build/demo.log
figures=build/demo.txt
report=report.html
mkdir -p build

failed() {
    echo "$1 failed; $log ends with:" >&2
    tail -n 8 "$log" >&2
    exit 1
}

tools/prerequisites.sh demo >"$log"
if [ -e .venv/.agent ]; then
    echo "checking the build; messages go to $log"
else
    echo "building in .venv and target, which takes some minutes; messages go to $log"
fi
# A jobserver of the calling make is not open here.
env -u MAKEFLAGS "${MAKE:-make}" --no-print-directory build >>"$log" 2>&1 || failed "the build"

changed=""
if [ -e "$figures" ] && [ -e "$report" ]; then
    changed=$(find .venv/.built examples -newer "$figures" | head -n 1)
else
    changed=$figures
fi
if [ -n "$changed" ]; then
    echo "replaying the recordings in examples/ on every swap architecture"
    .venv/bin/pagewise demo --report "$report" >"$figures.new" 2>>"$log" || failed "pagewise demo"
    mv "$figures.new" "$figures"
fi
# The lines of the advice have two columns between tabs; those of figures have more.
awk -F '\t' '/^evidence\t/ { shown = 1 } shown && NF == 2 { printf "  %-18s %s\n", $1, $2 }' "$figures"
echo "the report, for a browser: $report; all figures: $figures"
