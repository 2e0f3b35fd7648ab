"""Compressed memory in front of a file: swapd's policies beside zram, in the launch lab.

    python bench/compressed.py OUT [--plan phone-1g] [--fast 256MiB] [--compress lz4] [--repeats 3]

Needs what the plan needs, as root (`make lab-setup`), on a machine without another swap area. OUT
gets a folder per run; a complete run is kept, so an interrupted series resumes. A first run on a
zram device of 2 GiB finds how much the plan's pages compress. After that, a zram device in front
of the plan's swap file has the size at which its compressed pages fill --fast. It runs in turn
with swapd's policies adaptive and nvm-cache, whose compressed fast tiers have that limit.

Prints the pages that each run read from the file and wrote to it, and zram's compressed memory;
swapd's is a memory file of the size --fast. The target is that the better policy needs at most .95
of zram's pages; the status is 1 if it is missed. The pages of a file behind zram are the kernel's
counters of swap minus those of the zram device, read together every 20 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from tiers import made, plan_text

from pagewise.launch_runs import read_run
from pagewise.units import parse_size

ZRAM = "zram+file"
TRIAL, TRIAL_SIZE = "zram-trial", "2GiB"
POLICIES = ("adaptive", "nvm-cache")
TARGET = 0.95
POLL_S = 0.02
PAGE = 4096
SECTORS = PAGE // 512


@dataclass(frozen=True)
class Counts:
    """A run: pages that the file read and wrote."""

    slow_reads: int
    slow_writes: int
    compressed_bytes: int = 0
    """The most compressed memory of a zram device."""
    stored_bytes: int = 0
    """The size without compression of what that held."""
    launch_s: float = 0

    @property
    def slow(self) -> int:
        """Pages read and written."""
        return self.slow_reads + self.slow_writes


class Watch:
    """Reads the counters of swap and of a zram device while a run lasts."""

    def __init__(self) -> None:
        self.first: tuple[int, int] | None = None
        self.last = (0, 0)
        self.memory = (0, 0)
        self._at_device: list[int] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._before = devices()
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(POLL_S):
            new = devices() - self._before
            try:
                device = next(
                    path for path in map(Path("/sys/block").joinpath, new) if is_used(path)
                )
                at_device = [int(word) for word in (device / "stat").read_text().split()]
                # orig_data_size and mem_used_total (Documentation/admin-guide/blockdev/zram.rst).
                memory = [int(word) for word in (device / "mm_stat").read_text().split()]
            except (StopIteration, OSError):
                continue
            if at_device < self._at_device:  # reset, before its removal
                continue
            self._at_device = at_device
            swapped = self._swapped()
            # Fields 3 and 7: sectors read and written (Documentation/block/stat.rst).
            rest = (swapped[0] - at_device[2] // SECTORS, swapped[1] - at_device[6] // SECTORS)
            self.first = self.first or rest
            self.last = rest
            self.memory = max(self.memory, (memory[2], memory[0]))

    @staticmethod
    def _swapped() -> tuple[int, int]:
        lines = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(lines["pswpin"]), int(lines["pswpout"])

    def counts(self) -> Counts:
        """What the file read and wrote, and the most that the device held."""
        assert self.first, "the run had no zram device"
        reads, writes = (last - first for last, first in zip(self.last, self.first, strict=True))
        used, stored = self.memory
        return Counts(reads, writes, used, stored)


def devices() -> set[str]:
    """The zram devices of this machine."""
    return {path.name for path in Path("/sys/block").glob("zram*")}


def is_used(device: Path) -> bool:
    """Whether a zram device has a size."""
    return (device / "disksize").read_text().strip() != "0"


def on_zram(plan: str, size: str, compressor: str) -> str:
    """The plan with a zram device of this size in front of its swap file."""
    mode = f'mode = "{ZRAM}"\nzram_size = "{size}"\ncompressor = "{compressor}"'
    return plan.replace('mode = "swap-file"', mode)


def ran(out: Path, name: str, text: str) -> Counts:
    """A complete run; its counters are kept beside its folder."""
    kept, plan = out / f"{name}.json", out / f"{name}.toml"
    if kept.exists() and plan.exists() and plan.read_text() == text:
        return Counts(**json.loads(kept.read_text()))
    shutil.rmtree(out / name, ignore_errors=True)  # its counters are not known
    with Watch() as watch:
        folder = made(out, name, text)
    tiers = folder / "swapd.json"
    if tiers.exists():
        slow = json.loads(tiers.read_text())["slow"]
        counts = Counts(slow["reads"], slow["writes"])
    else:
        counts = watch.counts()
    counts = replace(counts, launch_s=median(read_run(folder).launches()))
    kept.write_text(json.dumps(asdict(counts)))
    print(f"{name}: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return counts


def described(name: str, runs: Sequence[Counts]) -> str:
    """A line of the medians of these runs."""
    slow = [run.slow for run in runs]
    held = ""
    if runs[0].compressed_bytes:
        used, stored = (
            median(getattr(run, field) for run in runs) / 2**20
            for field in ("compressed_bytes", "stored_bytes")
        )
        held = f"; {stored:.0f} MiB of pages in {used:.0f} MiB of compressed memory at most"
    return (
        f"{name}: {median(slow):,.0f} pages ({min(slow):,} to {max(slow):,}), of them "
        f"{median(run.slow_reads for run in runs):,.0f} read{held}; "
        f"median launch from round 1 on {median(run.launch_s for run in runs):.3f} s"
    )


def main() -> int:
    """Makes the runs and prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--plan", default="phone-1g")
    parser.add_argument("--fast", default="256MiB")
    parser.add_argument("--compress", default="lz4")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    plan = plan_text(arguments.plan, "swap-file", arguments.fast, None)
    trial = ran(arguments.out, TRIAL, on_zram(plan, TRIAL_SIZE, arguments.compress))
    ratio = trial.stored_bytes / trial.compressed_bytes
    size = int(parse_size(arguments.fast) * ratio) // 2**20
    print(described(TRIAL, [trial]), f"so {arguments.fast} hold {size} MiB ({ratio:.2f}x)")
    runs: dict[str, list[Counts]] = {}
    for repeat in range(arguments.repeats):
        text = on_zram(plan, f"{size}MiB", arguments.compress)
        runs.setdefault(ZRAM, []).append(ran(arguments.out, f"zram-{repeat}", text))
        for policy in POLICIES:
            text = plan_text(arguments.plan, policy, arguments.fast, None)
            compress = f', compress = "{arguments.compress}" }}'
            text = text.replace(
                f'fast = "{arguments.fast}" }}', f'fast = "{arguments.fast}"{compress}'
            )
            assert compress in text
            runs.setdefault(policy, []).append(ran(arguments.out, f"{policy}-{repeat}", text))
    for name, found in runs.items():
        print(described(name, found))
    # Runs of the same round follow each other.
    ratios = {
        policy: [ours.slow / peer.slow for ours, peer in zip(runs[policy], runs[ZRAM], strict=True)]
        for policy in POLICIES
    }
    for policy, each in ratios.items():
        print(f"{policy} / {ZRAM}: {median(each):.2f} ({min(each):.2f} to {max(each):.2f})")
    return int(min(median(each) for each in ratios.values()) > TARGET)


if __name__ == "__main__":
    sys.exit(main())
