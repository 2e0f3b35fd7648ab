"""Savings of pages of 64 KiB for two real programs, beside 4 KiB in turn.

python bench/run.py pagesize_verify      or      python bench/pagesize_verify.py

Needs root, a kernel with transparent huge pages of 64 KiB, and ImageMagick and Gnumeric (Debian:
imagemagick, gnumeric). Both programs are Debian's, unchanged. Changes switches of the machine and
restores them.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import Claim

from pagewise.huge_pages.verify import verify

PAGE_BYTES = 65536
FAULTS_SAVED = 0.7
MEMORY_ADDED = 0.01
ROUNDS = 5
ROWS, COLUMNS = 12_000, 12


def run(rounds: int) -> list[Claim]:
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        commands = {"convert": photo(Path(folder)), "ssconvert": office(Path(folder))}
        results = {
            name: verify(words, PAGE_BYTES, rounds=rounds) for name, words in commands.items()
        }
    return [claim for name, result in results.items() for claim in claims(name, result)]


def photo(folder: Path) -> list[str]:
    """ImageMagick: resize, sharpen, colours."""
    # The full name, since other programs are called convert too.
    convert = shutil.which("convert-im6.q16") or "convert"
    source = folder / "photo.jpg"
    made = ["-size", "2400x1800", "-seed", "1", "plasma:fractal", "-quality", "92", str(source)]
    subprocess.run([convert, *made], check=True)
    edit = ["-resize", "1600x1200", "-unsharp", "0x1", "-modulate", "110,120"]
    return [convert, str(source), *edit, str(folder / "edited.jpg")]


def office(folder: Path) -> list[str]:
    """Gnumeric: a table of numbers and words to a spreadsheet."""
    return ["ssconvert", str(table(folder, ROWS)), str(folder / "table.xlsx")]


def table(folder: Path, row_count: int) -> Path:
    """A CSV file of numbers and words."""
    draw = random.Random(1)
    rows = (
        ",".join(f"{draw.random():.6f}" if column % 3 else f"word{draw.randrange(1000)}"
                 for column in range(COLUMNS))
        for _ in range(row_count)
    )  # fmt: skip
    source = folder / "table.csv"
    source.write_text("\n".join(rows) + "\n")
    return source


def claims(name: str, result: dict) -> list[Claim]:
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
