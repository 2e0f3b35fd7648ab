#!/bin/sh
# Builds pagewise-agent as one static program for each MACHINE, with BPF except on armv7, and copies it to FOLDER/pagewise-agent-MACHINE. glibc, libelf
# and zlib are linked in from Debian's static libraries, so the device needs no library, and no clang.
# Usage: tools/static_agents.sh FOLDER x86_64|aarch64|armv7 ...
set -eu
cd "$(dirname "$0")/.."
output=$1
shift
. tools/cross.sh
targets=""
plain=""
includes=""
for machine in "$@"; do
    flags="-C target-feature=+crt-static"
    # The crate io-uring has no generated constants of its own for 32-bit ARM; the kernel's structures have the same layout there.
    [ "$machine" = armv7 ] && flags="$flags --cfg=io_uring_skip_arch_check"
    # Packs the relocations that a static program applies to itself, 0.18 MB; for ARM it has none.
    [ "$machine" = x86_64 ] && flags="$flags -C link-arg=-Wl,-z,pack-relative-relocs"
    cross_to "$machine" "$flags"
    if [ "$machine" = armv7 ]; then plain=$target; else targets="$targets --target $target"; fi
    if [ "$gcc" != gcc ]; then
        cross=$PWD/build/cross/$debian
        tools/cross_libraries.sh "$debian" "$cross"
        export "LIBBPF_SYS_LIBRARY_PATH_$name=$cross/usr/lib/${gcc%-gcc}"
        # The headers do not depend on the processor.
        includes="-I$cross/usr/include -I$cross/usr/include/${gcc%-gcc}"
    fi
done
export LIBBPF_SYS_EXTRA_CFLAGS="$includes"
# One call for those with BPF, since they share what runs during the build. The words are meant to be split.
# shellcheck disable=SC2086
[ -z "$targets" ] || cargo build --profile dist --quiet --locked -p agent $targets
# The BPF programs read registers that 32-bit ARM has under other names; there the agent records by tracefs.
[ -z "$plain" ] || cargo build --profile dist --quiet --locked -p agent --no-default-features --target "$plain"
for machine in "$@"; do
    cross_to "$machine" ""
    install -D -m 755 "target/dist/$target/dist/pagewise-agent" "$output/pagewise-agent-$machine"
done
