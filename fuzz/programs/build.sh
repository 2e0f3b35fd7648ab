#!/bin/sh
# Compiles the program that runs scripts to PROGRAM: build.sh PROGRAM
set -eu
sources=$(dirname "$0")
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
for part in main blocks maps holes processes; do
    "${CC:-cc}" -std=gnu17 -O1 -g -Wall -Wextra -pthread -c "$sources/$part.c" -o "$parts/$part.o"
done
"${CXX:-c++}" -O1 -c "$sources/operators.cpp" -o "$parts/operators.o"
"${CXX:-c++}" -pthread "$parts"/*.o -o "$1"
