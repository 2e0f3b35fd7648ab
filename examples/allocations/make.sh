#!/bin/sh
# Makes the recordings of this folder again: needs imagemagick, ffmpeg, xvfb, gir1.2-webkit2-4.1, and numpy in
# the Python that PYTHON names.
set -eu
here=$(dirname "$0")
record() {
    name=$1
    shift
    rm -f "$here/$name.pgr"
    pagewise-agent record --allocations -o "$here/$name.pgr" -- "$@"
}

record arrays "${PYTHON:-python3}" "$here/arrays.py"
record photo /usr/bin/convert -size 1600x1200 -seed 1 plasma:fractal -blur 0x4 -resize 50% -rotate 3 jpg:/dev/null
record video ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=1280x720:rate=25:duration=2 \
    -vf scale=1920:1080,hflip,unsharp,scale=640:360 -c:v mpeg4 -f null -
record swipe xvfb-run -a /usr/bin/python3 "$here/swipe.py" 6
