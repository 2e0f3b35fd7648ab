#!/usr/bin/env bash
# Fuzzes every target (trace formats, eviction policies), or only the targets named on the command line, for
# SECONDS_EACH seconds each (default 600), JOBS at a time (default 2). Findings appear in fuzz/artifacts/TARGET;
# move fixed findings to fuzz/regressions/TARGET, which `cargo test` replays. Needs cargo-fuzz; stable Rust is
# sufficient.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${SECONDS_EACH:-600}
jobs=${JOBS:-2}
command -v cargo-fuzz > /dev/null || { echo "cargo-fuzz is missing: cargo install cargo-fuzz" >&2; exit 1; }
if [ $# -gt 0 ]; then
    formats=("$@")
else
    mapfile -t formats < <(sed -n '/^\[\[bin\]\]/{n;s/name = "\(.*\)"/\1/p}' Cargo.toml)
fi
cargo fuzz build --fuzz-dir . --sanitizer none

fuzz() {
    mkdir -p "corpus/$1" "artifacts/$1"
    cargo fuzz run --fuzz-dir . --sanitizer none "$1" "corpus/$1" "seeds/$1" -- \
        -max_total_time="$2" -rss_limit_mb=1024 -timeout=20 -print_final_stats=1 > "artifacts/$1.log" 2>&1 \
        && echo "$1: fine, $(sed -n 's/^Done \(.*\)/\1/p' "artifacts/$1.log")" \
        || { echo "$1: FINDING, see fuzz/artifacts/$1.log"; return 1; }
}
export -f fuzz
printf '%s\n' "${formats[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz "$1" "$2"' _ {} "$seconds"
