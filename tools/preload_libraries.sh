#!/bin/sh
# Builds the preload libraries for x86_64 or aarch64 into FOLDER. They need glibc 2.34 or newer, as all of Debian since 12 has.
# Usage: tools/preload_libraries.sh x86_64|aarch64 FOLDER
set -eu
cd "$(dirname "$0")/.."
. tools/cross.sh
machine=$1
cross_to "$machine" ""
cargo build --release --quiet --locked -p allocations --target "$target"
cargo build --profile preload --quiet --locked -p lazy --target "$target"
install -D -m 644 "$CARGO_TARGET_DIR/$target/preload/libpagewise_lazy.so" "$2/libpagewise_lazy.so"
install -D -m 644 "$CARGO_TARGET_DIR/$target/release/libpagewise_allocations.so" "$2/libpagewise_allocations.so"
"${gcc%gcc}strip" --strip-unneeded "$2"/libpagewise_*.so
