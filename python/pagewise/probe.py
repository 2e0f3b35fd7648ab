"""Measures the 4 KiB reads and writes of a disk with fio, and writes them as a device file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import date
from math import sqrt
from pathlib import Path
from typing import Any

from pagewise.errors import Missing, UnreadableInput, UsageError
from pagewise.recording import PathLike
from pagewise.units import parse_size

REPEATS = 3
"""Measurements of each operation; their spread is the device's range."""
SMALLEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Times:
    """Mean times of one operation over the repeats, in microseconds."""

    low: float
    typical: float
    high: float


def probe(
    path: PathLike, output: PathLike, *, size: str = "256MiB", seconds: int = 5, force: bool = False
) -> dict[str, Any]:
    """Measures random 4 KiB accesses at queue depth 1, past the page cache, and writes ``output``.

    ``path``: a folder on the disk. ``size``: of the test file, removed afterwards. ``seconds``: of
    each of six measurements. Returns the times in microseconds and the path written.
    """
    folder, target = Path(path), Path(output)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name a folder on the disk to measure")
    if target.exists() and not force:
        raise UsageError(f"{target} exists", hint="--force replaces it")
    if shutil.which("fio") is None:
        raise Missing("fio is not installed", hint="apt-get install -y fio")
    size_bytes = parse_size(size)
    if size_bytes < SMALLEST_BYTES or seconds < 1:
        raise UsageError("the test file needs at least 1MiB, a measurement at least 1 second")
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".pagewise-probe-") as file:
        read = measured("randread", file.name, size_bytes, seconds)
        write = measured("randwrite", file.name, size_bytes, seconds)
    name = target.name.removesuffix(".toml")
    text = device_file(
        name, read, write, f"fio, {REPEATS} runs of {seconds} s on {size} at depth 1"
    )
    target.write_text(text, encoding="utf-8")
    return {
        "schema": "pagewise.probe/1",
        "path": str(target),
        "read_us": vars(read),
        "write_us": vars(write),
    }


def measured(operation: str, path: str, size_bytes: int, seconds: int) -> Times:
    """The spread of the mean completion time of ``operation`` over the repeats."""
    means = sorted(mean_us(operation, path, size_bytes, seconds) for _ in range(REPEATS))
    return Times(low=means[0], typical=sqrt(means[0] * means[-1]), high=means[-1])


def mean_us(operation: str, path: str, size_bytes: int, seconds: int) -> float:
    """Mean time of one access in microseconds."""
    command = [
        "fio",
        "--name=probe",
        f"--filename={path}",
        f"--rw={operation}",
        f"--size={size_bytes}",
        f"--runtime={seconds}",
        "--time_based",
        "--bs=4096",
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


def device_file(name: str, read: Times, write: Times, source: str) -> str:
    """The TOML text of a device; see the folder devices for others."""
    today = date.today().isoformat()

    def section(operation: str, times: Times) -> str:
        return (
            f"[{operation}]\n"
            f"low_us = {times.low:.3f}\n"
            f"typical_us = {times.typical:.3f}\n"
            f"high_us = {times.high:.3f}\n"
            f"source = {json.dumps(source)}\n"
            f'date = "{today}"\n'
            "verified = true\n"
        )

    header = f'name = {json.dumps(name)}\nsummary = "measured by pagewise devices probe"\n'
    return "\n".join([header, section("read", read), section("write", write)])
