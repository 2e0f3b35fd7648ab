#!/bin/sh
# Prints how many tests were skipped, and why: the last lines of `make test` and `make check`.
# Usage: tools/skipped.sh LEDGER, the file to which tests add a line when they skip.
set -eu
ledger=$1
[ -s "$ledger" ] || { echo "no test was skipped"; exit 0; }
sort "$ledger"
echo "skipped: $(grep -c '^Rust: ' "$ledger" || true) Rust tests, \
$(grep -c '^Python: ' "$ledger" || true) Python tests"
