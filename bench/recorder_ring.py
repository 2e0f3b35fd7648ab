"""CPU time and memory of `record --ring` and of `record` to a file, in turn on the same work.

Run on a quiet machine, as root, after `make build`:

    python bench/recorder_ring.py

Blocks of the swap storm of `bench/recorder.py`, each with both in turn; a ratio is of one block.
With `kills`, which a ring records by default, the memory of all processes is measured as well.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from recorder import AGENT, FOLDER, MIB, RECORDER_PROCESSOR
from resident import Residents, residents, zram_area

REQUESTS = 64
STARTS_WITHIN_S = 2


def recorded(programs: Residents, options: list[str]) -> dict[str, Any]:
    """The report of a recorder that runs during some requests."""
    words = ["taskset", "-c", str(RECORDER_PROCESSOR), str(AGENT), "record", "--json", *options]
    recorder = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    try:
        time.sleep(STARTS_WITHIN_S)
        programs.ask(REQUESTS)
    finally:
        recorder.send_signal(signal.SIGINT)
        answer, messages = recorder.communicate(timeout=60)
    if not answer:
        sys.exit(f"the recorder ended with status {recorder.returncode}: {messages}")
    report: dict[str, Any] = json.loads(answer)
    return report


def spread(values: list[float], digits: int = 2) -> str:
    least, most = min(values), max(values)
    return f"{median(values):.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def cost_us(report: dict[str, Any]) -> float:
    """The recorder's CPU microseconds per event."""
    return 1e6 * float(report["cpu_s"]) / float(report["records"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--blocks", type=int, default=10, help="blocks of the swap storm, 40 s each"
    )
    parser.add_argument("--ring-mib", type=int, default=16, help="MiB for events, default 16")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    ring = ["--ring", "10min", "--ring-bytes", f"{arguments.ring_mib}MiB"]
    kinds = {"file": [], "ring without kills": [*ring, "--keep-on", "signal"], "ring": ring}
    reports: dict[str, list[dict[str, Any]]] = {name: [] for name in kinds}
    with tempfile.TemporaryDirectory() as name, zram_area(2048):
        folder = Path(name)
        storm = folder / "storm"
        subprocess.run(["cc", "-O2", "-o", storm, FOLDER / "storm.c"], check=True)
        with residents([[str(storm), "64", "8192"]], 32) as programs:
            programs.ask(4)
            for number in range(arguments.blocks):
                for name, options in kinds.items():
                    output = folder / f"{number}-{name}"
                    if options:
                        output.mkdir()
                    reports[name].append(recorded(programs, ["-o", str(output), *options]))
                    if not options:
                        output.unlink()
    for name, each in reports.items():
        ratios = [cost_us(a) / cost_us(b) for a, b in zip(each, reports["file"], strict=True)]
        print(
            f"{name}: {spread([cost_us(report) for report in each], 3)} us of the recorder's CPU"
            f" time per event, {spread(ratios)} of file; peak memory"
            f" {max(report['peak_bytes'] for report in each) / MIB:.1f} MiB,"
            f" {sum(report['lost'] for report in each)} of"
            f" {sum(report['records'] for report in each):,} lost,"
            f" {sum(report['cpu_s'] / report['duration_s'] for report in each) / len(each):.2%}"
            " of a processor"
        )


if __name__ == "__main__":
    main()
