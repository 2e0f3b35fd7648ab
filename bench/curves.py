"""From a running program to the curves of thirteen page sizes, beside the cost of other tools.

python bench/run.py curves      needs valgrind, qemu-user and mupdf-tools; minutes

The whole way, on one job, beside lackey, which only produces references (to /dev/null), and beside
cachegrind, the fastest simulator of one configuration that we found: 13 page sizes with 9 memories
need 117 passes of it. Then the analysis beside the capture on programs of five kinds, if installed,
each for its first references. CPU seconds are those of all processes of a command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import traces
from capture import cpu_s, document
from measure import Claim

from pagewise.reference_curves import PAGE_SIZES
from pagewise.references import references_info

LACKEY_TIMES = 20
PASSES_TIMES = 40
MEMORIES = 9
REFERENCES_MAX = 500_000_000
GAME = "/usr/games/chocolate-doom"
SHEET = Path(__file__).parent.parent / "tools" / "page_size_sheet.py"


def run(rounds: int) -> list[Claim]:
    """The claims about the whole way, and about the analysis of each program."""
    # The game needs neither display nor sound card.
    os.environ |= {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}
    return [
        *whole_way(rounds),
        *(made for job in jobs().items() for made in analysis(*job, rounds)),
    ]


def whole_way(rounds: int) -> list[Claim]:
    """Capture and curves together, beside lackey and beside cachegrind."""
    job = jobs()["pdf"]
    lackey = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={os.devnull}", *job]
    cachegrind = [
        *("valgrind", "--tool=cachegrind", "--cache-sim=yes"),
        *(f"--log-file={os.devnull}", f"--cachegrind-out-file={os.devnull}", *job),
    ]
    trace = traces.FOLDER / "curves-whole.pwf"
    taken = []
    for _ in range(rounds):
        ours = cpu_s([*capture(trace), "--", *job]), cpu_s(curves(trace))
        taken.append((sum(ours), cpu_s(lackey), cpu_s(cachegrind)))
        print(f"  ours {ours}, lackey and cachegrind {taken[-1][1:]}", file=sys.stderr, flush=True)
    references = references_info(trace)["references"] / 1e6
    passes = len(PAGE_SIZES) * MEMORIES
    return [
        claim(
            f"capture and curves of {references:.0f} M references, CPU time of lackey / ours",
            LACKEY_TIMES,
            [theirs / ours for ours, theirs, _ in taken],
        ),
        claim(
            f"the same, {passes} passes of cachegrind / ours",
            PASSES_TIMES,
            [passes * theirs / ours for ours, _, theirs in taken],
        ),
    ]


def analysis(name: str, job: Sequence[str], rounds: int) -> list[Claim]:
    """Capture by analysis, for one program; empty if it is not installed."""
    if not shutil.which(job[0]):
        print(f"  {name}: {job[0]} is not installed", file=sys.stderr)
        return []
    trace = traces.FOLDER / f"curves-{name}.pwf"
    ratios = []
    for _ in range(rounds):
        captured = cpu_s([*capture(trace), "--max-refs", str(REFERENCES_MAX), "--", *job])
        ratios.append(captured / cpu_s(curves(trace)))
        print(f"  {name}: {ratios[-1]:.2f}", file=sys.stderr, flush=True)
    info = references_info(trace)
    what = f"{name}, {info['references'] / 1e6:.0f} M references, {info['steps'] / 1e6:.1f} M steps"
    return [claim(f"{what}: CPU time of the capture / of all curves", 1, ratios)]


def claim(what: str, at_least: float, ratios: Sequence[float]) -> Claim:
    measured = f"**{median(ratios):.1f}x** ({min(ratios):.1f} to {max(ratios):.1f})"
    return Claim(what, f"at least {at_least:g}x", measured, median(ratios) >= at_least)


def capture(trace: Path) -> list[str]:
    return [sys.executable, "-m", "pagewise", "capture", "--force", "-o", str(trace)]


def curves(trace: Path) -> list[str]:
    return [sys.executable, "-m", "pagewise", "curves", str(trace), "--frames", "64,1MiB", "--json"]


def jobs() -> dict[str, list[str]]:
    """A program of each of the paper's five kinds; their inputs are written once."""
    sheet = made("curves.csv", [sys.executable, str(SHEET), "12000", "12", "1"], is_printed=True)
    picture = made("curves.jpg", ["convert-im6.q16", "-seed", "1", "-size", "2400x1800", "plasma:"])
    source = ["-f", "lavfi", "-i", "mandelbrot=size=1280x720:rate=25", "-t", "8"]
    film = made("curves.mp4", ["ffmpeg", "-loglevel", "error", *source, "-c:v", "libx264"])
    wad = "/usr/share/games/doom/freedoom1.wad"
    out = str(traces.FOLDER / "curves-out")
    edited = ["-resize", "50%", "-unsharp", "0x1", "-modulate", "110,105"]
    return {
        "game": [GAME, "-iwad", wad, "-timedemo", "demo1", "-nosound"],
        "office": ["ssconvert", sheet, f"{out}.xlsx"],
        "photo": ["convert-im6.q16", picture, *edited, f"{out}.jpg"],
        "pdf": [
            "mutool",
            "draw",
            "-q",
            "-r",
            "100",
            "-F",
            "ppm",
            "-o",
            os.devnull,
            str(document()),
        ],
        "multimedia": [
            *("ffmpeg", "-loglevel", "error", "-threads", "1", "-i", film),
            *("-f", "null", "-"),
        ],
    }


def made(name: str, command: Sequence[str], *, is_printed: bool = False) -> str:
    """A file that a command writes, if the command is installed; written once."""
    path = traces.FOLDER / name
    if not path.exists() and shutil.which(command[0]):
        traces.FOLDER.mkdir(parents=True, exist_ok=True)
        if is_printed:
            with path.open("w") as output:
                subprocess.run(command, check=True, stdout=output)
        else:
            subprocess.run([*command, str(path)], check=True)
    return str(path)
