"""Faults forecast beside faults measured in guests, for five programs and every page size.

python bench/run.py --rounds 1 pagesize_guest      or      python bench/pagesize_guest.py [NAME...]

Needs qemu-system-x86, qemu-user, the capture plugin and apt, and the programs (Debian: xz-utils,
sqlite3, mupdf-tools, imagemagick, gnumeric). Each program has 80 % of its footprint. The guests
are emulated, and a round of all takes about ten minutes. With larger pages rounds differ, because
the heap starts at another address in each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from measure import Claim
from pagesize_verify import table

MEMORY = "80%"
WITHIN = 0.1
INPUT_BYTES = 200_000


def run(rounds: int, names: tuple[str, ...] = ()) -> list[Claim]:
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        return [
            claim(name, trial(PROGRAMS[name](Path(folder)), rounds)) for name in names or PROGRAMS
        ]


def trial(command: list[str], rounds: int) -> dict:
    """The result of `pagewise pagesize verify --guest --json`."""
    options = ["--memory", MEMORY, "--rounds", str(rounds), "--json"]
    words = ["pagesize", "verify", "--guest", *options, "--", *command]
    ran = subprocess.run(
        [sys.executable, "-m", "pagewise", *words],
        check=True,
        stdout=subprocess.PIPE,
        # The guest has one processor.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return json.loads(ran.stdout)


def claim(name: str, result: Mapping) -> Claim:
    """How far the forecast is off at the worst size, with both counts of every size."""
    faults = {run["page_bytes"] // 1024: run["faults"] for run in result["sizes"]}
    off = {size: each["forecast"] / each["measured"] - 1 for size, each in faults.items()}
    worst = max(off, key=lambda size: abs(off[size]))
    counts = "; ".join(
        f"{size} KiB {each['forecast']:,} and {each['measured']:,}" for size, each in faults.items()
    )
    return Claim(
        f"{name}, faults forecast and measured, worst of {len(faults)} sizes",
        f"within {WITHIN:.0%}",
        f"**{off[worst]:+.1%}** at {worst} KiB: {counts}",
        abs(off[worst]) <= WITHIN,
    )


def xz(folder: Path) -> list[str]:
    source = folder / "input"
    source.write_bytes(Path("/bin/bash").read_bytes()[:INPUT_BYTES])
    return ["xz", "-k", "-c", str(source)]


def sqlite(folder: Path) -> list[str]:
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    return [
        *("sqlite3", ":memory:", "CREATE TABLE t(i INTEGER, word TEXT)"),
        f"INSERT INTO t {rows} SELECT i, hex(i * 7919 % 20011) FROM n",
        "CREATE INDEX words ON t(word)",
        "SELECT count(*), max(i) FROM t WHERE word LIKE '3%' GROUP BY i % 10",
    ]


def pdf(folder: Path) -> list[str]:
    page, document = folder / "page.txt", folder / "document.pdf"
    lines = " ".join(
        f"1 0 0 1 40 {800 - 14 * line} Tm (Line {line}: the quick brown fox) Tj"
        for line in range(50)
    )
    page.write_text(f"%%MediaBox 0 0 595 842\n%%Font Text Times-Roman\nBT /Text 12 Tf {lines} ET\n")
    subprocess.run(["mutool", "create", "-o", document, page, page], check=True)
    return ["mutool", "draw", "-r", "100", "-o", str(folder / "page-%d.png"), str(document)]


def photo(folder: Path) -> list[str]:
    # The full name, since other programs are called convert too.
    convert = shutil.which("convert-im6.q16") or "convert"
    source = folder / "photo.jpg"
    made = ["-size", "640x480", "-seed", "1", "plasma:fractal", "-quality", "92", str(source)]
    subprocess.run([convert, *made], check=True)
    return [
        convert,
        str(source),
        "-resize",
        "400x300",
        "-unsharp",
        "0x1",
        str(folder / "edited.jpg"),
    ]


def office(folder: Path) -> list[str]:
    source = table(folder, 300)
    return ["ssconvert", str(source), str(folder / "table.xlsx")]


PROGRAMS: Mapping[str, Callable[[Path], list[str]]] = {
    "xz": xz,
    "sqlite3": sqlite,
    "mutool": pdf,
    "convert": photo,
    "ssconvert": office,
}

if __name__ == "__main__":
    missed = 0
    for found in run(1, tuple(sys.argv[1:])):
        print(f"{found.what}: {found.measured}; to reach: {found.target}")
        missed += not found.is_reached
    sys.exit(missed != 0)
