#!/bin/sh
# Installs the applications that lab/plans/applications.toml starts: Debian's packages (as root) and the
# TypeScript compiler from npm; then compiles the Java programs and generates Inkscape's map.
set -eu
cd "$(dirname "$0")/.."

packages=""
need() { command -v "$1" >/dev/null 2>&1 || packages="$packages $2"; }

need chromium-headless-shell chromium-headless-shell
need node nodejs
need npm npm
need javac default-jdk-headless
need inkscape inkscape
need octave-cli octave
need emacs emacs-nox
need Rscript r-base-core
need sbcl sbcl
need ruby ruby
need php php-cli
need lua5.4 lua5.4
need mutool mupdf-tools
need tclsh tcl
need gnuplot gnuplot-nox
/usr/bin/python3 -c 'import numpy' 2>/dev/null || packages="$packages python3-numpy"

# The package list is meant to be split into words.
# shellcheck disable=SC2086
tools/install_packages.sh $packages

[ -d lab/node_modules/typescript ] || npm ci --prefix lab --silent --no-audit --no-fund
mkdir -p lab/build/java
javac -d lab/build/java lab/java/*.java
python3 lab/desktop/make_drawing.py 6000 lab/build/map.svg
