#!/usr/bin/env bash
# Fuzzes every folder of seeds/ for SECONDS_EACH seconds (default 600), JOBS at a time (2), or only the folders
# named on the command line. A folder has the target of its name, or else is read by the target `format` as the
# format of its name. Findings appear in fuzz/artifacts/NAME; a fixed one goes to fuzz/regressions/NAME, which
# `cargo test` replays. To repeat a finding: PAGEWISE_FORMAT=NAME cargo fuzz run --fuzz-dir . format FILE.
# Needs cargo-fuzz; stable Rust will do.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${SECONDS_EACH:-600}
jobs=${JOBS:-2}
command -v cargo-fuzz > /dev/null || { echo "cargo-fuzz is missing: cargo install cargo-fuzz" >&2; exit 1; }
if [ $# -gt 0 ]; then
    names=("$@")
else
    mapfile -t names < <(ls seeds)
fi
cargo fuzz build --fuzz-dir . --sanitizer none

fuzz() {
    local target=format
    [ ! -e "fuzz_targets/$1.rs" ] || target=$1
    mkdir -p "corpus/$1" "artifacts/$1"
    PAGEWISE_FORMAT=$1 cargo fuzz run --fuzz-dir . --sanitizer none "$target" "corpus/$1" "seeds/$1" -- \
        -artifact_prefix="$PWD/artifacts/$1/" \
        -max_total_time="$2" -rss_limit_mb=1024 -timeout=20 -print_final_stats=1 > "artifacts/$1.log" 2>&1 \
        && echo "$1: fine, $(sed -n 's/^Done \(.*\)/\1/p' "artifacts/$1.log")" \
        || { echo "$1: FINDING, see fuzz/artifacts/$1.log"; return 1; }
}
export -f fuzz
printf '%s\n' "${names[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz "$1" "$2"' _ {} "$seconds"
