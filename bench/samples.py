"""Estimates from samples compared with exact results: errors on recordings, and CPU time.

    python bench/samples.py [RECORDING...] [--sample 16k] [--generate MACCESSES | --timed TRACE]

For each recording (those in examples/ unless given) prints the mean and greatest difference of
the LRU miss ratio between the sample and the exact curve, over memories of 1/64 to all of the
pages in steps of a factor of the square root of 2, and for other policies at four of these
sizes; the same difference for the shares of skew; the mean and greatest relative difference of
replays of swap architectures, by I/O time and by reads and writes of the slow tier, with a fast
tier of 1/16 and 1/4 of the pages; and how many exact values lie within the stated intervals of
95 %. With --generate, a trace file with this many million accesses to a quarter as many pages
is written to the folder for temporary files, and exact and sampled runs on it are timed in
processes of their own, in CPU seconds and peak memory, and so is reading the same columns;
--timed takes such a file. Prints one JSON line for each.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pagewise as pw

EXAMPLES = Path(__file__).parents[1] / "examples"
POLICIES = "lru,fifo,clock,s3-fifo,arc,lirs,two-list,opt"
STEPS = 13
ARCHITECTURES = ("flash", "priority", "hierarchical", "hybrid", "nvm-cache")
FAST_SHARES = (1 / 16, 1 / 4)
"""Pages of the fast tier, as shares of the pages of the recording."""
TIMED = {
    "analyze within 2 GB": "pagewise.analyze(path, memory_limit='2GB')",
    "analyze sampled": "pagewise.analyze(path, sample=sample)",
    "read (info)": "pagewise.info(path)",
    "analyze exact": "pagewise.analyze(path)",
    "misses sampled": "pagewise.misses(path, policy='lru', frames=frames, sample=sample)",
    "misses exact": "pagewise.misses(path, policy='lru', frames=frames)",
    "misses within 2 GB": (
        "pagewise.misses(path, policy='lru,arc,lirs', frames=frames, memory_limit='2GB')"
    ),
    "simulate within 2 GB": (
        "pagewise.simulate(path, architecture='adaptive', fast_tier=frames[1] * 4096,"
        " fast='zram-lz4', slow='ufs-3.1', memory_limit='2GB')"
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--sample", default="16k")
    parser.add_argument("--generate", type=float, metavar="MACCESSES")
    parser.add_argument("--timed", type=Path, metavar="TRACE")
    options = parser.parse_args()
    if options.generate or options.timed:
        with tempfile.TemporaryDirectory() as folder:
            path = options.timed or imported(Path(folder), round(options.generate * 1e6))
            for row in timed(path, options.sample):
                print(json.dumps(row), flush=True)
        return
    found = options.recordings or [
        path for path in sorted(EXAMPLES.glob("*/*.pgr")) if path.stem == path.parent.name
    ]
    rows = [compared(path, options.sample) for path in found]
    for row in rows:
        print(json.dumps(row), flush=True)
    keys = [key for key in rows[0] if key.endswith(("_mean", "_within"))]
    means = {key: round(float(np.mean([row[key] for row in rows])), 4) for key in keys}
    print(json.dumps({"recordings": len(rows), **means}))


def compared(path: Path, sample: str) -> dict[str, Any]:
    """The differences between the exact results of a recording and those of a sample."""
    exact, found = pw.analyze(path), pw.analyze(path, sample=sample)
    sizes = [max(1, round(exact["pages"] * 2 ** (-step / 2))) for step in range(STEPS)]
    curve = {frames: ratio_at(exact["miss_ratio_curve"], frames) for frames in sizes}
    off = [abs(ratio_at(found["miss_ratio_curve"], size) - curve[size]) for size in sizes]
    errors = found["sample"]["error"]
    of_curve = [
        abs(ratio_at(exact["miss_ratio_curve"], frames) - ratio) <= error
        for (frames, ratio), (_, error) in zip(
            found["miss_ratio_curve"], errors["miss_ratio_curve"], strict=True
        )
    ]
    simulations = [
        replayed(path, sample, architecture, max(1, round(exact["pages"] * share)))
        for architecture in ARCHITECTURES
        for share in FAST_SHARES
    ]
    skew = [abs(found["top_share"][each] - exact["top_share"][each]) for each in exact["top_share"]]
    policies = {"policy": POLICIES, "frames": sizes[2::3]}
    all_misses = pw.misses(path, **policies)
    some = pw.misses(path, **policies, sample=sample)
    of_policies = [
        (
            abs(some["misses"][policy][frames] - count) / all_misses["requests"],
            some["sample"]["error"][policy][frames],
        )
        for policy, counts in all_misses["misses"].items()
        for frames, count in counts.items()
    ]
    return {
        "recording": path.name,
        "pages": exact["pages"],
        "sampled": found["sample"]["pages"],
        "lru_mean": round(float(np.mean(off)), 5),
        "lru_max": round(max(off), 5),
        "lru_within": round(float(np.mean(of_curve)), 3),
        "skew_mean": round(float(np.mean(skew)), 5),
        "policies_mean": round(float(np.mean([each for each, _ in of_policies])), 5),
        "policies_max": round(max(each for each, _ in of_policies), 5),
        "policies_within": round(float(np.mean([each <= top for each, top in of_policies])), 3),
        **of_simulations([row for row in simulations if row]),
    }


def replayed(path: Path, sample: str, architecture: str, frames: int) -> list[tuple[float, bool]]:
    """Relative differences of a sampled replay, each with whether the exact value is within the
    interval: I/O time, slow reads and slow writes. Empty if the sample is too small."""
    asked = {"architecture": architecture, "fast_tier": frames * 4096}
    devices = {"fast": "zram-lz4", "slow": "ufs-3.1", "option": {"ranges": "no"}}
    exact = pw.simulate(path, **asked, **devices)
    try:
        found = pw.simulate(path, **asked, **devices, sample=sample)
    except pw.UsageError:
        return []
    error = found["sample"]["error"]
    figures = [
        (exact["io_time_s"], found["io_time_s"], error["io_time_s"]),
        *(
            (exact["slow"][kind], found["slow"][kind], error["slow"][kind])
            for kind in ("reads", "writes")
        ),
    ]
    return [
        (abs(of_sample - of_all) / of_all, abs(of_sample - of_all) <= width)
        for of_all, of_sample, width in figures
        if of_all
    ]


def of_simulations(rows: list[list[tuple[float, bool]]]) -> dict[str, float]:
    """The differences of all sampled replays of a recording."""
    every = [figure for row in rows for figure in row]
    times = [row[0][0] for row in rows]
    return {
        "replays": len(rows),
        "io_time_mean": round(float(np.mean(times)), 5) if rows else float("nan"),
        "io_time_max": round(max(times, default=float("nan")), 5),
        "operations_mean": round(float(np.mean([off for off, _ in every])), 5),
        "replays_within": round(float(np.mean([is_within for _, is_within in every])), 3),
    }


def ratio_at(curve: list[tuple[int, float]], frames: int) -> float:
    """The miss ratio of a curve at a size, on the straight line between its points."""
    return float(np.interp(frames, [each for each, _ in curve], [ratio for _, ratio in curve]))


def imported(folder: Path, accesses: int) -> Path:
    """A generated trace file in the folder."""
    path = folder / "trace.parquet"
    ids = generated(folder / "ids.oracleGeneral", accesses, accesses // 4)
    pw.import_trace(ids, path)
    ids.unlink()
    return path


def timed(path: Path, sample: str) -> Iterator[dict[str, Any]]:
    """CPU time and peak memory of each run on a trace, in a process of its own."""
    accesses = pw.read(path).header["events"]
    frames = [accesses // 400, accesses // 40]
    for name, code in TIMED.items():
        program = f"import pagewise; path, frames, sample = {str(path)!r}, {frames}, {sample!r}"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        # ru_maxrss would begin with the memory of this process.
        peak = (
            "import re; print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"
        )
        command = [sys.executable, "-c", f"{program}\n{code}\n{peak}"]
        run = subprocess.run(command, check=False, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        row: dict[str, Any] = {"run": name, "cpu_s": round(cpu, 2)}
        if run.returncode:
            last = run.stderr.strip().splitlines()[-1:] or [f"status {run.returncode}"]
            yield {**row, "error": last[0]}
        else:
            yield {**row, "peak_mb": round(int(run.stdout) * 1024 / 1e6)}


def generated(path: Path, accesses: int, pages: int) -> Path:
    """Accesses of which half go to a tenth of the pages, in libCacheSim's binary format."""
    random = np.random.default_rng(1)
    row = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    step = 1 << 20
    with path.open("wb") as file:
        for start in range(0, accesses, step):
            count = min(step, accesses - start)
            rows = np.zeros(count, row)
            rows["time"] = np.arange(start, start + count) // 1000
            rows["id"] = np.where(
                random.random(count) < 0.5,
                random.integers(0, pages // 10, count),
                random.integers(0, pages, count),
            )
            rows["size"], rows["next"] = 4096, -1
            file.write(rows.tobytes())
    return path


if __name__ == "__main__":
    main()
