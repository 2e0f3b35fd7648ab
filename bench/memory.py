"""Peak memory beside the bounds of docs/sweep.md, docs/advise.md and docs/formats.md.

python bench/run.py memory      minutes

Each call runs in a process of its own, whose peak the kernel reports (VmHWM). Advice and a sweep
run on a trace as large as a phone game's, studies on their own traces; imports read a million
processes from a pipe, each with a distinct name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import traces
from measure import Call, Claim, once

import pagewise as pw
from pagewise.grids import memory

MB = 10**6
BASE = 300 * MB
PAGES = 1_100_000
REQUESTS = 4_000_000
PROCESSES = 1_000_000
LINES_AT_ONCE = 2_000
EXAMPLES = Path(__file__).parent.parent / "examples"
SIZES = ["64MiB", "256MiB", "1GiB", "4GiB"]
ARCHITECTURES = ("flash", "priority", "hierarchical", "hybrid-clock", "hybrid", "nvm-cache")


def run(rounds: int) -> list[Claim]:
    trace = str(game())
    spec = {
        "traces": [trace],
        "sizes": SIZES,
        "device": [{"fast": fast, "slow": "ufs-3.1"} for fast in ("dram", "optane-pmem")],
        "architecture": [{"name": name} for name in (*ARCHITECTURES, "adaptive")],
    }
    grids = {
        f"advise swap, {PAGES:,} pages": Call("ours_advise", [trace, "zram-lz4", "ufs-3.1"]),
        f"sweep of 56 cells, {PAGES:,} pages": Call("ours_sweep", [spec]),
    }
    claims = [bounded(what, call, cells_bound(PAGES), rounds) for what, call in grids.items()]
    claims += [study(name, rounds) for name in ("nvm-cache", "multiswap")]
    for form in FORMS:
        for length in (10, 255, 4096) if form != "events" else (0,):
            claims += names(form, length, rounds)
    return claims


def cells_bound(pages: int) -> int:
    """The limit of all cells that run at once on this machine, plus everything else."""
    running = memory.cores() * memory.cells_of_pass(memory.cores())
    return BASE + running * memory.BYTES_PER_PAGE * pages


def bounded(what: str, call: Call, bound: int, rounds: int) -> Claim:
    """Whether every peak is within the bound."""
    peaks = [once(call).peak_bytes / MB for _ in range(rounds)]
    return Claim(
        f"{what}: peak memory, MB",
        f"at most {bound / MB:.0f}",
        f"**{median(peaks):.0f}** ({min(peaks):.0f} to {max(peaks):.0f})",
        max(peaks) <= bound / MB,
    )


def study(name: str, rounds: int) -> Claim:
    """A study of the recordings in examples/ and of generated recordings."""
    pages = max(pw.read(path).header["pages"] or 0 for path in sorted(EXAMPLES.glob("*/*.pgw.zst")))
    call = Call("ours_study", [name, str(EXAMPLES)])
    return bounded(f"study {name}, up to {pages:,} pages", call, cells_bound(pages), rounds)


def names(form: str, length: int, rounds: int) -> list[Claim]:
    """Import of a million processes, and the output of info for the trace file."""
    output = str(traces.FOLDER / "names.parquet")
    what = f"{form}, {PROCESSES:,} processes" + (f", names of {length} bytes" if length else "")
    peaks = []
    for _ in range(rounds):
        with piped(form, length) as pipe:
            peaks.append(once(Call("ours_import_to", [str(pipe), form, output])).peak_bytes / MB)
    imported = Claim(
        f"import {what}: peak memory, MB",
        f"at most {BASE / MB:.0f}",
        f"**{median(peaks):.0f}** ({min(peaks):.0f} to {max(peaks):.0f})",
        max(peaks) <= BASE / MB,
    )
    return [imported, bounded(f"info {what}", Call("ours_info", [output]), BASE, rounds)]


@contextmanager
def piped(form: str, length: int) -> Iterator[Path]:
    """The recording as a pipe: with names of 4096 bytes it would be a file of 4 GB."""
    traces.FOLDER.mkdir(parents=True, exist_ok=True)
    path = traces.FOLDER / "names.pipe"
    path.unlink(missing_ok=True)
    os.mkfifo(path)

    def write() -> None:
        head, line = FORMS[form]
        with path.open("wb") as file:
            file.write(head)
            for first in range(0, PROCESSES, LINES_AT_ONCE):
                numbers = range(first, first + LINES_AT_ONCE)
                file.write(b"".join(line(number, length) for number in numbers))

    writer = threading.Thread(target=write)
    writer.start()
    yield path
    writer.join()
    path.unlink()


def blockcsv_line(number: int, length: int) -> bytes:
    return b"%0*d-%d,8388608,R,%d,8,%d.5\n" % (length, number, number % 30_000, number * 8, number)


def ftrace_line(number: int, length: int) -> bytes:
    return b" p%0*d-%d [000] ..... %d.500000: block_rq_issue: 8,0 R 4096 () %d + 8 [p]\n" % (
        *(length - 1, number, 1 + number % 30_000),
        *(number, number * 8),
    )


def events_line(number: int, _length: int) -> bytes:
    return b"%d,out,%d,%d,D,anon\n" % (number, number, number % 100)


FORMS = {
    "blockcsv": (traces.PHONE_HEADER.encode(), blockcsv_line),
    "ftrace": (b"# tracer: nop\n#\n", ftrace_line),
    "events": (b"time_s,event,process,page,state,kind\n", events_line),
}
"""By format: the first lines of a recording, and the line of each process."""


def game() -> Path:
    """Requests of pages that all come once and then by popularity, 30 % of them writes."""
    path = traces.FOLDER / "game.parquet"
    if path.exists():
        return path
    generator = np.random.default_rng(48)
    again = generator.zipf(1.2, REQUESTS - PAGES) % PAGES
    pages = np.concatenate([generator.permutation(PAGES), generator.permutation(PAGES)[again]])
    records = np.zeros(REQUESTS, traces.VSCSI)
    records["serial"] = np.arange(REQUESTS)
    records["bytes"] = 4096
    records["segments"] = 1
    is_write = generator.random(REQUESTS) < traces.WRITE_SHARE
    records["command"] = np.where(is_write, traces.WRITE, traces.READ)
    records["version"] = traces.VSCSI_VERSION_1
    records["block"] = pages * traces.SECTORS_PER_PAGE
    records["microseconds"] = 1_000_000 + np.arange(REQUESTS, dtype=np.uint64) * 100
    recording = traces.FOLDER / "game.vscsi"
    traces.save(recording, records.tofile)
    return traces.imported(path, lambda: recording, format="vscsi")
