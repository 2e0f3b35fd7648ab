#!/bin/sh
# Compiles the program that runs scripts to PROGRAM: build.sh PROGRAM. OPTIONS: more options of the compiler.
set -eu
sources=$(dirname "$0")
options="-pthread ${OPTIONS:-}"
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
for part in main blocks maps holes processes; do
    # The options are meant to be split into words.
    # shellcheck disable=SC2086
    "${CC:-cc}" -std=gnu17 -O1 -g -Wall -Wextra $options -c "$sources/$part.c" -o "$parts/$part.o"
done
# shellcheck disable=SC2086
"${CXX:-c++}" -O1 $options -c "$sources/operators.cpp" -o "$parts/operators.o"
# shellcheck disable=SC2086
"${CXX:-c++}" $options "$parts"/*.o -o "$1"
