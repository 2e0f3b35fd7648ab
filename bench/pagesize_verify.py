"""Savings of pages of 64 KiB for two real programs, and forecasts of minor faults for five.

python bench/run.py pagesize_verify      or      python bench/pagesize_verify.py

Needs root, a kernel with transparent huge pages of 16 KiB to 2 MiB, qemu-user, and ImageMagick,
Gnumeric, MuPDF, FFmpeg and OpenTTD (Debian: imagemagick, gnumeric, mupdf-tools, ffmpeg, openttd,
openttd-opengfx). All are Debian's, unchanged. Changes switches of the machine and restores them.

A forecast is from a capture of the whole run; the same program then runs on the machine, with 4 KiB
and with larger pages in turn.
"""

from __future__ import annotations

import gzip
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import Claim

from pagewise.answers import PageSizeTrial
from pagewise.capture.run import capture
from pagewise.huge_pages import settings
from pagewise.huge_pages.forecast import forecast, transparent_sizes
from pagewise.huge_pages.verify import verify
from pagewise.reference_curves import curves
from pagewise.units import format_size

PAGE_BYTES = 65536
FAULTS_SAVED = 0.7
MEMORY_ADDED = 0.01
ROUNDS = 5
ROWS, COLUMNS = 12_000, 12
FORECAST_SIZES = (16384, PAGE_BYTES, 2 << 20)
FORECAST_WITHIN = 0.1


def run(rounds: int) -> list[Claim]:
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as name:
        folder = Path(name)
        commands = {
            "convert": photo(folder, "2400x1800", "1600x1200"),
            "ssconvert": office(folder, ROWS),
        }
        found = [
            claim
            for name, words in commands.items()
            for claim in claims(name, verify(words, PAGE_BYTES, rounds=rounds))
        ]
        # Inputs whose whole run takes at most a billion references.
        programs = {
            "game": game(folder),
            "office": office(folder, 500),
            "photo": photo(folder, "1200x900", "50%"),
            "pdf": pdf(folder),
            "multimedia": film(folder),
        }
        for name, words in programs.items():
            found += forecasts(name, words, folder / f"{name}.pwf", rounds)
    return found


def game(folder: Path) -> list[str]:
    """OpenTTD: a map of 64 x 64 tiles, for 20 ticks."""
    settings = folder / "openttd.cfg"
    settings.write_text("[game_creation]\nmap_x = 6\nmap_y = 6\n")
    nothing = ["-v", "null:ticks=20", "-s", "null", "-m", "null"]
    return ["/usr/games/openttd", "-x", "-c", str(settings), "-g", "-G", "1", *nothing]


def photo(folder: Path, size: str, resized: str) -> list[str]:
    """ImageMagick: resize, sharpen, colours."""
    # The full name, since other programs are called convert too.
    convert = shutil.which("convert-im6.q16") or "convert"
    source = folder / f"{size}.jpg"
    made = ["-size", size, "-seed", "1", "plasma:fractal", "-quality", "92", str(source)]
    subprocess.run([convert, *made], check=True)
    edit = ["-resize", resized, "-unsharp", "0x1", "-modulate", "110,120"]
    return [convert, str(source), *edit, str(folder / "edited.jpg")]


def office(folder: Path, rows: int) -> list[str]:
    """Gnumeric: a table of numbers and words to a spreadsheet."""
    return ["ssconvert", str(table(folder, rows)), str(folder / "table.xlsx")]


def table(folder: Path, row_count: int) -> Path:
    """A CSV file of numbers and words."""
    draw = random.Random(1)
    rows = (
        ",".join(f"{draw.random():.6f}" if column % 3 else f"word{draw.randrange(1000)}"
                  for column in range(COLUMNS))
        for _ in range(row_count)
    )  # fmt: skip
    source = folder / f"{row_count}.csv"
    source.write_text("\n".join(rows) + "\n")
    return source


def pdf(folder: Path) -> list[str]:
    """MuPDF: ten pages of text to pixels."""
    source = folder / "policy.pdf"
    with gzip.open("/usr/share/doc/debian-policy/policy.pdf.gz") as packed:
        source.write_bytes(packed.read())
    return [
        "mutool",
        "draw",
        "-q",
        "-F",
        "pnm",
        "-r",
        "100",
        "-o",
        "/dev/null",
        str(source),
        "1-10",
    ]


def film(folder: Path) -> list[str]:
    """FFmpeg: ten frames of H.264."""
    source = folder / "film.mp4"
    pattern = ["-f", "lavfi", "-i", "mandelbrot=size=1280x720:rate=25", "-t", "0.4"]
    quiet = ["ffmpeg", "-loglevel", "error", "-threads", "1"]
    subprocess.run(
        [*quiet, *pattern, "-c:v", "libx264", "-preset", "fast", str(source)], check=True
    )
    return [*quiet, "-i", str(source), "-f", "null", "-"]


def forecasts(name: str, words: list[str], trace: Path, rounds: int) -> list[Claim]:
    """The minor faults that were forecast, by those measured, with 4 KiB and each larger size."""
    counts = []
    for requests in (False, True):
        # As in the trial, whose malloc requests huge pages only under this switch.
        with settings.changed({settings.GENERAL: "madvise"}):
            capture(
                words,
                trace,
                threads=True,
                requests_huge_pages=requests,
                force=True,
                stdout=subprocess.DEVNULL,
            )
        counts.append(curves(trace, huge_pages=transparent_sizes()))
    plain, requesting = counts
    found = []
    for page_bytes in FORECAST_SIZES:
        faults = forecast(plain, page_bytes, requesting=requesting)["minor_faults"]
        trial = verify(words, page_bytes, rounds=rounds)
        if not found:
            found.append(compared(name, "4 KiB", faults["base"], trial["base"]))
        size = format_size(page_bytes)
        found.append(compared(name, size, faults["chosen"], trial["chosen"]))
    return found


def compared(name: str, size: str, faults: int, measured: dict) -> Claim:
    """A forecast divided by the faults of the runs."""
    low, typical, high = (
        faults / measured["minor_faults"][level] for level in ("high", "typical", "low")
    )
    return Claim(
        f"{name}, minor faults at {size}, forecast / measured",
        f"{1 - FORECAST_WITHIN:.2f}x to {1 + FORECAST_WITHIN:.2f}x",
        f"**{typical:.2f}x** ({low:.2f} to {high:.2f}): {faults:,} and "
        f"{measured['minor_faults']['typical']:,.0f}",
        abs(typical - 1) <= FORECAST_WITHIN,
    )


def claims(name: str, result: PageSizeTrial) -> list[Claim]:
    """The savings in faults and memory, and, without a target, in CPU time."""
    saved, base, chosen = result["saved"], result["base"], result["chosen"]

    def measured(measure: str, sign: int, scale: float, digits: int) -> str:
        share = {level: sign * 100 * value for level, value in saved[measure].items()}
        low, high = sorted((share["low"], share["high"]))
        before, after = (figures[measure]["typical"] / scale for figures in (base, chosen))
        return (
            f"**{share['typical']:.1f} %** ({low:.1f} to {high:.1f}): "
            f"{before:,.{digits}f} to {after:,.{digits}f}"
        )

    return [
        Claim(
            f"{name}, minor faults saved at 64 KiB",
            f"at least {FAULTS_SAVED:.0%}",
            measured("minor_faults", 1, 1, 0),
            saved["minor_faults"]["low"] >= FAULTS_SAVED,
        ),
        Claim(
            f"{name}, peak memory added, MB",
            f"below {MEMORY_ADDED:.0%}",
            measured("max_rss_bytes", -1, 1e6, 1),
            -saved["max_rss_bytes"]["typical"] < MEMORY_ADDED,
        ),
        Claim(f"{name}, CPU time saved, s", "reported", measured("cpu_s", 1, 1, 3), True),
    ]


if __name__ == "__main__":
    missed = 0
    for claim in run(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS):
        print(f"{claim.what}: {claim.measured}; to reach: {claim.target}")
        missed += not claim.is_reached
    sys.exit(missed != 0)
