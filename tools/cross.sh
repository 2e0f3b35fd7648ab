# For other scripts: after `. tools/cross.sh`, `cross_to MACHINE FLAGS` sets the words of Rust, Debian and gcc for x86_64, aarch64 or
# armv7 (target, name, debian, gcc), gets Rust's standard library for it, and sets what cargo reads, with FLAGS for rustc.
cross_to() {
    case $1 in
    x86_64) target=x86_64-unknown-linux-gnu debian=amd64 gcc=x86_64-linux-gnu-gcc ;;
    aarch64) target=aarch64-unknown-linux-gnu debian=arm64 gcc=aarch64-linux-gnu-gcc ;;
    armv7) target=armv7-unknown-linux-gnueabihf debian=armhf gcc=arm-linux-gnueabihf-gcc ;;
    *)
        echo "$1: expected x86_64, aarch64 or armv7" >&2
        exit 2
        ;;
    esac
    if [ "$debian" = "$(dpkg --print-architecture)" ]; then gcc=gcc; fi
    command -v "$gcc" >/dev/null || {
        echo "$gcc is missing: tools/dist_setup.sh installs it" >&2
        exit 2
    }
    # Without rustup, cargo says which standard library is missing.
    if command -v rustup >/dev/null; then rustup --quiet target add "$target" >/dev/null 2>&1; fi
    name=$(echo "$target" | tr - _)
    upper=$(echo "$name" | tr '[:lower:]' '[:upper:]')
    # The names of folders on this machine do not belong into programs, and would make them differ elsewhere.
    folders="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
    export "CC_$name=$gcc" "CARGO_TARGET_${upper}_LINKER=$gcc"
    # Away from target/release, which other flags would make cargo build again.
    export CARGO_TARGET_DIR=target/dist
    export "CARGO_TARGET_${upper}_RUSTFLAGS=$2 -C link-arg=-Wl,--build-id=none $folders"
}
