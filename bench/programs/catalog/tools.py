"""Common tools: databases, compilers, media, compression."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from programs.catalog.installed import installed
from programs.places import INPUTS, SOURCES
from programs.program import Program

LIMIT_S = 120
QUIET = subprocess.DEVNULL


def made(name: str, command: str) -> Path:
    """An input that a shell command writes to `$1`, once."""
    path = INPUTS / name
    if not path.exists():
        aside = path.with_name(f".{name}")
        INPUTS.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        subprocess.run(
            ["sh", "-euc", command, "sh", str(aside)], check=True, timeout=LIMIT_S, stdout=QUIET
        )
        aside.rename(path)
    return path


def text(_: Path) -> None:
    """24 MiB of text, half of it repeated."""
    made("text", f"/usr/bin/python3 {SOURCES}/write_text.py $1 24")


def repository(folder: Path) -> None:
    """A repository of 300 commits with loose objects."""
    origin = made("repository", f"/usr/bin/python3 {SOURCES}/write_repository.py $1")
    shutil.copytree(origin, folder / "repository")


def sources_in_c(folder: Path) -> None:
    """A project in C: twenty files, a makefile and the expected output."""
    origin = made("project16", f"/usr/bin/python3 {SOURCES}/write_project.py $1")
    shutil.copytree(origin, folder / "project")


def picture(_: Path) -> None:
    """A generated picture that compresses like a photograph."""
    made("photo.jpg", "/usr/bin/convert-im6.q16 -size 2000x1400 -seed 1 plasma:fractal jpeg:$1")


PROGRAMS = (
    installed(
        name="sqlite",
        what="sqlite3: 200,000 rows, indexes, joins, sorting, blobs of 1 MiB, vacuum, integrity",
        words=["sh", "-c", "/usr/bin/sqlite3 FOLDER/data < SOURCES/work.sql"],
        expects="^ok$",
        command="/usr/bin/sqlite3",
        results=["data"],
        allocates_large=True,
    ),
    installed(
        name="git gc",
        what="git gc --aggressive of 300 commits, then git fsck and all objects by name",
        words=["sh", "SOURCES/git_gc.sh"],
        expects="^objects [0-9]+",
        command="/usr/bin/git",
        prepare=repository,
        allocates_large=True,
        is_quick=True,
    ),
    installed(
        name="gcc",
        what="gcc -O2 -c of one file of 300 functions; the object file is compared",
        words=["/usr/bin/gcc", "-O2", "-c", "project/large.c", "-o", "large.o"],
        expects="status 0",
        prepare=sources_in_c,
        results=["large.o"],
        allocates_large=True,
        limit_s=120,
    ),
    Program(
        name="make -j2",
        what="make -j2 of twenty files in C with gcc, then the program that they make",
        words=["sh", "-c", "make -s -j2 -C project && project/program"],
        expects="^sum [0-9]+",
        version=["make", "--version"],
        needs=["/usr/bin/gcc", "make"],
        prepare=sources_in_c,
        limit_s=120,
    ),
    installed(
        name="xz -T2",
        what="xz -2 -T2 of 6 MB in blocks of 1 MiB, and back",
        words=[
            "sh",
            "-c",
            "head -c 6000000 INPUTS/text > text"
            " && xz -2 -T2 --block-size=1MiB -c text > text.xz && xz -dc text.xz | cmp - text",
        ],
        expects="status 0",
        command="xz",
        prepare=text,
        results=["text.xz"],
        allocates_large=True,
    ),
    installed(
        name="zstd -T2",
        what="zstd -9 -T2 of 24 MiB, and back",
        words=[
            "sh",
            "-c",
            "zstd -q -9 -T2 -c INPUTS/text > text.zst && zstd -q -dc text.zst | cmp - INPUTS/text",
        ],
        expects="status 0",
        command="zstd",
        prepare=text,
        results=["text.zst"],
        allocates_large=True,
    ),
    installed(
        name="sort",
        what="sort with two threads and 8 MiB of memory",
        words=["sort", "--parallel=2", "-S", "8M", "-T", "FOLDER", "-o", "sorted", "INPUTS/text"],
        expects="status 0",
        prepare=text,
        results=["sorted"],
        allocates_large=True,
    ),
    installed(
        name="ffmpeg",
        what="ffmpeg: 90 test pictures of 1280x720 scaled, flipped, MPEG-4 in two threads; FLAC",
        words=[
            *("/usr/bin/ffmpeg", "-v", "error", "-threads", "2"),
            *("-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30:duration=3"),
            *("-f", "lavfi", "-i", "sine=frequency=440:duration=3"),
            *("-vf", "scale=640:360,hflip", "-c:v", "mpeg4", "-threads", "2", "-c:a", "flac"),
            *("-bitexact", "-f", "matroska", "FOLDER/film.mkv"),
        ],
        expects="status 0",
        version="-version",
        results=["film.mkv"],
        allocates_large=True,
        limit_s=120,
    ),
    installed(
        name="ImageMagick",
        what="convert: resize, blur, rotate and modulate a photograph with two threads",
        words=[
            *(
                "/usr/bin/convert-im6.q16",
                "INPUTS/photo.jpg",
                "-resize",
                "1600x1067",
                "-blur",
                "0x2",
            ),
            *("-rotate", "7", "-modulate", "110,120", "ppm:FOLDER/photo.ppm"),
        ],
        expects="status 0",
        version="-version",
        prepare=picture,
        variables={"OMP_NUM_THREADS": "2"},
        results=["photo.ppm"],
        allocates_large=True,
    ),
)
