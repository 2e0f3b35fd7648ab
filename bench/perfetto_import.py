"""Reading of a Perfetto trace, plain and in gzip: megabytes of the plain file per CPU second.

    make .venv/.test-extras && .venv/bin/python bench/perfetto_import.py

The trace is written once into build/bench/ by the writer of the tests
(tests/perfetto_traces.py): two CPUs with switches and wakings of threads in the compact form,
block requests, pages of files, counters of memory and marks of user space. `info` counts all
events; `import` takes the block requests, and hashes and writes a file. Each run is a process
of its own, plain and gzip in turn.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import traces
from measure import Call, in_turn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from perfetto_traces import BOOT_NS, DEVICE, Writer, event

BUNDLES = 15_000
BUNDLES_PER_WRITE = 250
BUNDLE_NS = 20_000_000
SWITCHES, WAKINGS = 200, 150
REQUESTS, PAGES, COUNTERS, MARKS = 20, 60, 30, 20
THREADS = [f"thread-{number}" for number in range(60)]
SWITCH_NS = BUNDLE_NS // SWITCHES
PAGES_OF_FILE = 1 << 14
SECTORS = 1 << 27


def plain() -> Path:
    """The trace; every run of the script writes the same."""
    path = traces.FOLDER / "phone.perfetto-trace"

    def write(aside: Path) -> None:
        random = np.random.default_rng(48)
        with aside.open("wb") as file:
            for first in range(0, BUNDLES, BUNDLES_PER_WRITE):
                writer = Writer()
                if first == 0:
                    writer.begin()
                for number in range(first, first + BUNDLES_PER_WRITE):
                    fill(writer.bundle(number % 2), number // 2 * BUNDLE_NS, random)
                file.write(writer.bytes())

    if not path.exists():
        traces.save(path, write)
    return path


def fill(bundle: Any, begin_ns: int, random: np.random.Generator) -> None:
    """Adds the events of a CPU in the 20 ms from `begin_ns` on."""
    compact = bundle.compact_sched
    compact.intern_table.extend(THREADS)

    def times(count: int) -> list[int]:
        steps = random.integers(1, 2 * BUNDLE_NS // count, count)
        steps[0] += BOOT_NS + begin_ns
        return [int(step) for step in steps]

    def numbers(most: int, count: int) -> list[int]:
        return [int(number) for number in random.integers(0, most, count)]

    compact.switch_timestamp.extend(times(SWITCHES))
    compact.switch_prev_state.extend(numbers(3, SWITCHES))
    compact.switch_next_pid.extend(1000 + number for number in numbers(5000, SWITCHES))
    compact.switch_next_prio.extend([120] * SWITCHES)
    compact.switch_next_comm_index.extend(numbers(len(THREADS), SWITCHES))
    compact.waking_timestamp.extend(times(WAKINGS))
    compact.waking_pid.extend(1000 + number for number in numbers(5000, WAKINGS))
    compact.waking_target_cpu.extend(numbers(2, WAKINGS))
    compact.waking_prio.extend([120] * WAKINGS)
    compact.waking_comm_index.extend(numbers(len(THREADS), WAKINGS))
    sectors, pages = numbers(SECTORS, REQUESTS), numbers(PAGES_OF_FILE, PAGES)
    files, values = numbers(300, PAGES), numbers(1 << 28, COUNTERS)
    tids = numbers(5000, REQUESTS + PAGES + COUNTERS + MARKS)
    added = [
        *(("block_rq_issue", sector) for sector in sectors),
        *(("mm_filemap_add_to_page_cache", number) for number in range(PAGES)),
        *(("rss_stat", value) for value in values),
        *(("print", number) for number in range(MARKS)),
    ]
    random.shuffle(added)
    step_ns = BUNDLE_NS // len(added)
    for place, ((name, value), tid) in enumerate(zip(added, tids, strict=True)):
        time_ns, number = begin_ns + place * step_ns, int(value)
        fields: dict[str, Any]
        if name == "block_rq_issue":
            fields = {"dev": DEVICE, "sector": 8 * number, "nr_sector": 8, "rwbs": "R"}
            fields |= {"comm": THREADS[number % len(THREADS)], "bytes": 4096}
            ended = {"dev": DEVICE, "sector": 8 * number, "nr_sector": 8, "rwbs": "R"}
            event(bundle, time_ns + step_ns // 2, 0, "block_rq_complete", **ended)
        elif name == "mm_filemap_add_to_page_cache":
            fields = {
                "i_ino": files[number],
                "index": pages[number],
                "s_dev": DEVICE,
                "pfn": number,
            }
        elif name == "rss_stat":
            fields = {"member": number % 4, "size": number, "curr": 1, "mm_id": number % 977}
        else:
            fields = {"buf": f"{'BE'[number % 2]}|{1000 + tid}|frame {number}\n"}
        event(bundle, time_ns, 1000 + tid, name, **fields)


def packed(path: Path) -> Path:
    """The trace in gzip, at the level that `gzip` has by default."""
    target = path.with_name(path.name + ".gz")

    def write(aside: Path) -> None:
        with (
            path.open("rb") as source,
            aside.open("wb") as file,
            gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as output,
        ):
            shutil.copyfileobj(source, output, 1 << 20)

    if not target.exists():
        traces.save(target, write)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind, default 5")
    rounds = parser.parse_args().rounds
    path = plain()
    files = {"plain": path, "gzip": packed(path)}
    megabytes = path.stat().st_size / 1e6
    for name, file in files.items():
        print(f"{name}: {file.stat().st_size / 1e6:.1f} MB")
    for what in ("info", "import"):
        calls = {
            name: Call(f"ours_{what}", [str(file), "perfetto"]) for name, file in files.items()
        }
        for name, samples in in_turn(calls, rounds).items():
            speeds = [megabytes / sample.cpu_s for sample in samples]
            print(
                f"{what}, {name}: {median(speeds):.0f} MB of the plain file per CPU second "
                f"({min(speeds):.0f} to {max(speeds):.0f} in {rounds} runs), "
                f"{samples[0].answer:,} events, peak {samples[0].peak_bytes / 1e6:.0f} MB"
            )


if __name__ == "__main__":
    main()
