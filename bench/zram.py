"""Compares the forecast of `pagewise-agent pages` with a real zram swap area.

For each kind of memory and each algorithm of the kernel: `mm_stat` after the program was paged out,
and the CPU time of the page-out and of reading the pages back. Pages of equal words go through the
same steps of the kernel but are not compressed, so the difference is the CPU time of compression.
Needs root. docs/zram.md has a run of it.

    .venv/bin/python bench/zram.py [--mib 256] [--repeats 3]
    .venv/bin/python bench/zram.py --cost      # the CPU time of a sample of 1 GiB
"""

import argparse
import contextlib
import json
import mmap
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "live")]

from agent import AGENT, is_free  # noqa: E402
from groups import MIB, Group, entering  # noqa: E402
from waiting import line_of  # noqa: E402
from zram_area import anonymous_ranges, page_out, zram_area  # noqa: E402

KINDS = ("objects", "documents", "noise")
ALGORITHMS = ("lzo-rle", "lz4")
PAGE_BYTES = mmap.PAGESIZE


@contextlib.contextmanager
def program(kind: str, mib: int) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A program with memory of a kind in a cgroup of its own, and the address of that memory."""
    command = [sys.executable, str(ROOT / "bench" / "zram_heap.py"), kind, str(mib)]
    pipe = subprocess.PIPE
    with Group(8 * mib * MIB) as group:
        entered = [*entering(group.folder), *command]
        started = subprocess.Popen(entered, stdin=pipe, stdout=pipe, text=True)
        try:
            yield started, int(line_of(started.stdout).split()[1])
        finally:
            started.kill()
            started.communicate(timeout=120)


def pages(process: int, *arguments: str) -> dict[str, Any]:
    command = [AGENT, "pages", "--pid", str(process), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(kind: str, algorithm: str, mib: int) -> tuple[dict[str, int], float, float]:
    """`mm_stat`, and microseconds for a page to leave and to come back."""
    with program(kind, mib) as (started, address), zram_area(algorithm, 8 * mib * MIB) as area:
        out_s = page_out(started.pid, [(address, mib * MIB)])
        # `pages` samples all anonymous memory, so `mm_stat` must cover all of it, too.
        page_out(started.pid, anonymous_ranges(started.pid))
        counts = area.counts()
        assert started.stdin
        started.stdin.write("touch\n")
        started.stdin.flush()
        in_s = float(line_of(started.stdout))
        started.kill()
    count = mib * MIB / PAGE_BYTES
    return counts, out_s / count * 1e6, in_s / count * 1e6


def forecast(kind: str, mib: int) -> dict[str, Any]:
    with program(kind, mib) as (started, _):
        found: dict[str, Any] = pages(started.pid)["total"]
    return found


def compare(mib: int, repeats: int) -> None:
    print("| memory | algorithm | figure | forecast | zram | difference |")
    print("|---|---|---|--:|--:|--:|")
    for algorithm in ALGORITHMS:
        empty = [run("constant", algorithm, mib) for _ in range(repeats)]
        out_us = statistics.median(each[1] for each in empty)
        in_us = statistics.median(each[2] for each in empty)
        for kind in KINDS:
            expected = [forecast(kind, mib) for _ in range(repeats)]
            found = [run(kind, algorithm, mib) for _ in range(repeats)]
            figures = [each["algorithms"][algorithm] for each in expected]
            rows = [
                (
                    "bytes per page",
                    middle(figures, "bytes_per_page"),
                    stored(found, "compr_data_size"),
                ),
                (
                    "pool bytes per page",
                    middle(figures, "pool_bytes_per_page"),
                    stored(found, "mem_used_total"),
                ),
                ("us to compress", middle(figures, "us_compress"), median(found, 1) - out_us),
                ("us to decompress", middle(figures, "us_decompress"), median(found, 2) - in_us),
            ]
            for figure, wanted, real in rows:
                off = (wanted / real - 1) * 100 if real else float("nan")
                digits = 0 if "bytes" in figure else 2
                print(
                    f"| {kind} | {algorithm} | {figure} | {wanted:.{digits}f} | {real:.{digits}f} "
                    f"| {off:+.1f} % |",
                    flush=True,
                )


def middle(figures: list[dict[str, float]], name: str) -> float:
    return statistics.median(each[name] for each in figures)


def stored(found: list[tuple[dict[str, int], float, float]], field: str) -> float:
    """A field of `mm_stat` for each page that is not same-filled."""
    counts = [each[0] for each in found]
    return statistics.median(
        each[field] / (each["orig_data_size"] / PAGE_BYTES - each["same_pages"]) for each in counts
    )


def median(found: list[tuple[dict[str, int], float, float]], place: int) -> float:
    return statistics.median(each[place] for each in found)


def cost() -> None:
    with program("documents", 1024) as (started, _):
        found = pages(started.pid)
        total = found["total"]
        print(
            f"{total['pages_resident'] * PAGE_BYTES / (1 << 30):.2f} GiB, "
            f"{total['pages_sampled']} pages sampled: {found['cpu_s']:.2f} s of CPU time"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cost", action="store_true")
    arguments = parser.parse_args()
    # As Ctrl-C, SIGTERM ends the run through the blocks that remove the swap area.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not is_free():
        sys.exit("a launch runs on this machine, and a swap area would change it")
    if arguments.cost:
        cost()
    else:
        compare(arguments.mib, arguments.repeats)


if __name__ == "__main__":
    main()
