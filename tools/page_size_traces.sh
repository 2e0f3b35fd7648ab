#!/bin/sh
# Captures the traces of `pagewise study page-size`: five Debian programs, each on a first input, a
# similar one (same kind and size) and a different one (another size). Existing traces are kept.
# Usage: tools/page_size_traces.sh FOLDER [full|small|large]
# full: at most 2,000,000,000 references of each. small: only the first 20 to 70 million of the first
# input, about 1 MB a trace, as in examples/page-size. large: one input of each program, of
# which it uses at least 100 MiB within 4,000,000,000 references (office: 62 MiB within twice as many). The game is
# another one, because the Doom demos use less.
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
size=${2:-full}
cd "$(dirname "$0")/.."

packages=""
need() { command -v "$1" >/dev/null 2>&1 || packages="$packages $2"; }
PATH=$PATH:/usr/games
need ssconvert gnumeric
need convert-im6.q16 imagemagick
need mutool mupdf-tools
need ffmpeg ffmpeg
wads=/usr/share/games/doom
if [ "$size" = large ]; then
    need openttd openttd
    [ -e /usr/share/games/openttd/baseset/opengfx ] || packages="$packages openttd-opengfx"
else
    need chocolate-doom chocolate-doom
    [ -e $wads/freedoom1.wad ] || packages="$packages freedoom"
fi
policy=/usr/share/doc/debian-policy/policy.pdf.gz
[ -e $policy ] || packages="$packages debian-policy"
# The package list is meant to be split into words.
# shellcheck disable=SC2086
tools/install_packages.sh $packages

# Inputs and outputs of the programs are in a scratch folder; the game needs neither display nor sound card.
pagewise=$PWD/.venv/bin/pagewise
make_sheet=$PWD/tools/page_size_sheet.py
mkdir -p "$folder/inputs"
cd "$folder/inputs"
export HOME="$PWD" SDL_VIDEODRIVER=dummy SDL_AUDIODRIVER=dummy

sheet() { # NAME ROWS COLUMNS SEED
    [ -e "$1" ] || python3 "$make_sheet" "$2" "$3" "$4" >"$1"
}
picture() { # NAME WIDTHxHEIGHT SEED
    [ -e "$1" ] || convert-im6.q16 -seed "$3" -size "$2" plasma: -quality 90 "$1"
}
film() { # NAME PATTERN SECONDS
    [ -e "$1" ] || ffmpeg -loglevel error -f lavfi -i "$2" -t "$3" \
        -c:v libx264 -preset fast -threads 1 "$1"
}
if [ "$size" = large ]; then
    sheet large.csv 60000 12 1
    picture large.jpg 4800x3600 1
    film large.mp4 testsrc2=size=3840x2160:rate=25 2
    printf '[game_creation]\nmap_x = 12\nmap_y = 12\n' >openttd.cfg # 4096 x 4096 tiles
else
    sheet first.csv 12000 12 1
    sheet alike.csv 12000 12 2
    sheet unlike.csv 3000 40 3
    picture first.jpg 2400x1800 1
    picture alike.jpg 2400x1800 2
    picture unlike.jpg 1600x1200 3
    film first.mp4 mandelbrot=size=1280x720:rate=25 8
    film alike.mp4 testsrc2=size=1280x720:rate=25 8
    film unlike.mp4 testsrc2=size=854x480:rate=25 20
fi
[ -e policy.pdf ] || zcat $policy >policy.pdf

threads= large=4000000000
trace() { # NAME REFERENCES_IF_SMALL COMMAND...
    name=$1 references=$2
    shift 2
    case $size in
    full) references=2000000000 ;;
    large) references=$large ;;
    esac
    case $size-$name in small-*-*like) return ;; esac
    [ -e "$folder/$name.pwf" ] && return
    echo "capturing $name"
    # The option, if any, is meant to be split off.
    # shellcheck disable=SC2086
    "$pagewise" capture $threads --max-refs "$references" -o "$folder/$name.pwf" -- "$@"
}
game() { # NAME WAD DEMO
    trace "$1" 20000000 chocolate-doom -nosound -iwad "$wads/$2" -timedemo "$3"
}
office() { # Divides its work among eight threads, differently in every run.
    threads=--threads
    trace "$1" 20000000 ssconvert "$2" out.xlsx
    threads=
}
photo() {
    trace "$1" 70000000 convert-im6.q16 "$2" -resize 50% -unsharp 0x1 \
        -modulate 110,120 -quality 85 out.jpg
}
pdf() { # NAME RESOLUTION PAGES
    trace "$1" 40000000 mutool draw -q -F pnm -r "$2" -o /dev/null policy.pdf "$3"
}
multimedia() {
    trace "$1" 24000000 ffmpeg -loglevel error -threads 1 -i "$2" -f null -
}

if [ "$size" = large ]; then
    trace game 0 openttd -x -c openttd.cfg -g -G 1 -v null:ticks=100 -s null -m null
    large=8000000000
    office office large.csv
    large=4000000000
    photo photo large.jpg
    pdf pdf 600 1-4
    multimedia multimedia large.mp4
    exit
fi
game game freedoom1.wad demo1
game game-alike freedoom1.wad demo2
game game-unlike freedoom2.wad demo1
office office first.csv
office office-alike alike.csv
office office-unlike unlike.csv
photo photo first.jpg
photo photo-alike alike.jpg
photo photo-unlike unlike.jpg
pdf pdf 100 1-60
pdf pdf-alike 100 61-120
pdf pdf-unlike 72 1-12
multimedia multimedia first.mp4
multimedia multimedia-alike alike.mp4
multimedia multimedia-unlike unlike.mp4
