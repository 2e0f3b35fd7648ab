"""Measures reads and writes of a disk with fio, and writes a device file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from datetime import date
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from pagewise.errors import Missing, UnreadableInput, UsageError
from pagewise.recording import PathLike
from pagewise.scratch import BESIDE, scratch
from pagewise.storage import refuse_unwritable, write_text
from pagewise.units import PAGE_BYTES, parse_size

if TYPE_CHECKING:
    from pagewise.answers import Spread
    from pagewise.measurements import Probed

REPEATS = 3
"""How often each operation is measured; the spread is the range in the device file."""
SMALLEST_BYTES = 1 << 20
LARGE_BYTES = 1 << 18
"""The second size, so large that the transfer takes most of the time."""


@dataclass(frozen=True)
class Times:
    """Mean times of one operation over the repeats, in microseconds; or a rate in MB/s."""

    low: float
    typical: float
    high: float

    @staticmethod
    def of(means: list[float]) -> Times:
        """The spread of one or more measurements."""
        return Times(low=min(means), typical=sqrt(min(means) * max(means)), high=max(means))

    def to_json(self) -> Spread:
        """The form in results."""
        return {"low": self.low, "typical": self.typical, "high": self.high}


def probe(
    path: PathLike, output: PathLike, *, size: str = "256MiB", seconds: int = 5, force: bool = False
) -> Probed:
    """Measures random 4 KiB accesses at queue depth 1, without page cache, and writes ``output``.

    ``path``: a folder on the disk. ``size``: the size of the test file, which is removed
    afterwards. ``seconds``: the length of each of twelve measurements. Returns the times in
    microseconds and the path of the device file.
    """
    folder, target = Path(path), Path(output)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name a folder on the disk to measure")
    refuse_unwritable(target, force=force)
    if shutil.which("fio") is None:
        raise Missing("fio is not installed", hint="apt-get install -y fio")
    size_bytes = parse_size(size)
    if size_bytes < SMALLEST_BYTES or seconds < 1:
        raise UsageError("the test file needs at least 1MiB, and a measurement at least 1 second")
    with scratch(folder, BESIDE) as private:
        file = str(private / "probe")
        small = measured("randread", file, PAGE_BYTES, size_bytes, seconds)
        large = measured("randread", file, LARGE_BYTES, size_bytes, seconds)
        written = measured("randwrite", file, PAGE_BYTES, size_bytes, seconds)
        much = measured("randwrite", file, LARGE_BYTES, size_bytes, seconds)
    read, write, moved = Times.of(small), Times.of(written), transfer(small, large)
    writes = transfer(written, much)
    name = target.name.removesuffix(".toml")
    text = device_file(
        name,
        read,
        write,
        moved,
        f"fio, {REPEATS} runs of {seconds} s on {size} at depth 1",
        writes and writes[1],
    )
    write_text(target, text)
    return {
        "schema": "pagewise.probe/1",
        "path": str(target),
        "read_us": read.to_json(),
        "write_us": write.to_json(),
        "setup_us": moved[0].to_json() if moved else None,
        "bandwidth_mb_s": moved[1].to_json() if moved else None,
        "write_bandwidth_mb_s": writes[1].to_json() if moved and writes else None,
    }


def measured(
    operation: str, path: str, block_bytes: int, size_bytes: int, seconds: int
) -> list[float]:
    """The mean completion time of ``operation`` in each measurement, in microseconds."""
    return [mean_us(operation, path, block_bytes, size_bytes, seconds) for _ in range(REPEATS)]


def transfer(small_us: list[float], large_us: list[float]) -> tuple[Times, Times] | None:
    """Setup time (us) and bandwidth (MB/s), from pairs of a small and a large operation."""
    setups, rates = [], []
    for small, large in zip(small_us, large_us, strict=True):
        us_per_byte = (large - small) / (LARGE_BYTES - PAGE_BYTES)
        if us_per_byte > 0:
            setups.append(max(0.0, small - PAGE_BYTES * us_per_byte))
            rates.append(1 / us_per_byte)
    return (Times.of(setups), Times.of(rates)) if rates else None


def mean_us(operation: str, path: str, block_bytes: int, size_bytes: int, seconds: int) -> float:
    """The mean time of an access, in microseconds."""
    command = [
        "fio",
        "--name=probe",
        f"--filename={path}",
        f"--rw={operation}",
        f"--size={size_bytes}",
        f"--runtime={seconds}",
        "--time_based",
        f"--bs={block_bytes}",
        "--iodepth=1",
        "--ioengine=psync",
        "--direct=1",
        "--output-format=json",
    ]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    )
    if run.returncode != 0:
        reason = run.stderr.strip() or run.stdout.strip() or f"status {run.returncode}"
        raise UnreadableInput(
            f"fio could not measure {path}: {reason}",
            path=path,
            hint="the file system must allow direct I/O; tmpfs does not",
        )
    job = json.loads(run.stdout[run.stdout.index("{") :])["jobs"][0]
    return float(job[operation.removeprefix("rand")]["clat_ns"]["mean"]) / 1000


def device_file(
    name: str,
    read: Times,
    write: Times,
    moved: tuple[Times, Times] | None,
    source: str,
    write_bandwidth_mb_s: Times | None = None,
) -> str:
    """The text of a device file, in TOML."""
    today = date.today().isoformat()

    def section(heading: str, times: Times, unit: str = "_us") -> str:
        return (
            f"[{heading}]\n"
            f"low{unit} = {times.low:.3f}\n"
            f"typical{unit} = {times.typical:.3f}\n"
            f"high{unit} = {times.high:.3f}\n"
            f"source = {json.dumps(source)}\n"
            f'date = "{today}"\n'
            "verified = true\n"
        )

    header = f'name = {json.dumps(name)}\nsummary = "measured by pagewise devices probe"\n'
    parts = [header, section("read", read), section("write", write)]
    if moved:
        parts += [
            section("transfer.setup", moved[0]),
            section("transfer.bandwidth_mb_s", moved[1], unit=""),
        ]
    if moved and write_bandwidth_mb_s:
        parts.append(section("transfer.write_bandwidth_mb_s", write_bandwidth_mb_s, unit=""))
    return "\n".join(parts)
