#!/bin/sh
# Puts the headers and static libraries of libelf and zlib for another processor into a folder, from Debian's archive. It needs
# no root, and this machine keeps its own architecture.
# Usage: tools/cross_libraries.sh DEBIAN_ARCHITECTURE FOLDER, such as: tools/cross_libraries.sh arm64 build/cross/arm64
set -eu
architecture=$1
folder=$2
[ ! -e "$folder/.done" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
folder=$(cd "$folder" && pwd)
: >"$folder/apt/status"

# The apt of this machine with the architecture and the state of another.
foreign() {
    command=$1
    shift
    apt-get -qq -o "APT::Architecture=$architecture" -o "APT::Architectures::=$architecture" -o "Dir::State=$folder/apt" \
        -o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt" -o APT::Sandbox::User= "$command" "$@"
}
# A source that does not have this architecture fails; the download decides.
foreign update >"$folder/apt/update.log" 2>&1 || true
(cd "$folder" && foreign download libelf-dev zlib1g-dev >apt/download.log 2>&1) || {
    cat "$folder/apt/update.log" "$folder/apt/download.log" >&2
    echo "cannot download libelf-dev and zlib1g-dev for $architecture: this needs Debian's archive" >&2
    exit 1
}
for package in "$folder"/*.deb; do
    dpkg-deb -x "$package" "$folder"
    rm "$package"
done
rm -rf "$folder/apt" "$folder/usr/share"
: >"$folder/.done"
