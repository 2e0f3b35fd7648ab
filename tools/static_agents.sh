#!/bin/sh
# Builds pagewise-agent as one static program, with BPF, for each MACHINE, and copies it to FOLDER/pagewise-agent-MACHINE. glibc, libelf
# and zlib are linked in from Debian's static libraries, so the device needs no library, and no clang.
# Usage: tools/static_agents.sh FOLDER x86_64|aarch64|armv7 ...
set -eu
cd "$(dirname "$0")/.."
output=$1
shift
. tools/cross.sh
targets=""
includes=""
for machine in "$@"; do
    cross_to "$machine" "-C target-feature=+crt-static"
    targets="$targets --target $target"
    if [ "$gcc" != gcc ]; then
        cross=$PWD/build/cross/$debian
        tools/cross_libraries.sh "$debian" "$cross"
        export "LIBBPF_SYS_LIBRARY_PATH_$name=$cross/usr/lib/${gcc%-gcc}"
        # The headers do not depend on the processor.
        includes="-I$cross/usr/include -I$cross/usr/include/${gcc%-gcc}"
    fi
done
export LIBBPF_SYS_EXTRA_CFLAGS="$includes"
# One call for all, since they share what runs during the build. The words are meant to be split.
# shellcheck disable=SC2086
cargo build --profile dist --quiet --locked -p agent $targets
for machine in "$@"; do
    cross_to "$machine" ""
    install -D -m 755 "target/dist/$target/dist/pagewise-agent" "$output/pagewise-agent-$machine"
done
