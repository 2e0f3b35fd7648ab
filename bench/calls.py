"""The measured calls, each run in a process of its own by measure.py.

Prints one JSON object: CPU seconds of only the call, and of the process before it (interpreter and
imports), wall seconds, peak bytes of the process, its anonymous bytes before the call, and a short
answer to compare.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import ANONYMOUS, PEAK, status_bytes

Answer = Callable[[], Any]


def ours_misses(path: str, format: str | None, policy: str, frames: list[int]) -> Answer:
    import pagewise as pw

    trace, misses = pw.read(path, format=format), pw.misses  # imported here, not in the call

    def call() -> Any:
        counts = misses(trace, policy=policy, frames=frames)["misses"][policy]
        return [counts[str(size)] for size in frames]

    return call


def ours_analyze(path: str, format: str | None) -> Answer:
    import pagewise as pw

    trace = pw.read(path, format=format)
    return lambda: pw.analyze(trace)["pages"]


def ours_simulate(
    path: str, architecture: str, fast_tier: int, fast: str, slow: str, options: dict[str, str]
) -> Answer:
    import pagewise as pw

    simulate = pw.simulate  # imported here, not in the call

    def call() -> Any:
        result = simulate(
            path,
            architecture=architecture,
            fast_tier=fast_tier,
            fast=fast,
            slow=slow,
            option=options,
        )
        return [result["slow"]["reads"], result["slow"]["writes"]]

    return call


def ours_import(path: str, format: str) -> Answer:
    import pagewise as pw

    def call() -> Any:
        with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
            return pw.import_trace([path], Path(folder) / "trace.parquet", format=format)["events"]

    return call


def ours_info(path: str, format: str) -> Answer:
    import pagewise as pw

    trace, info = pw.read(path, format=format), pw.info

    def call() -> Any:
        return sum(info(trace)["events"].values())

    return call


def peer_misses(path: str, policy: str, frames: list[int]) -> Answer:
    import libcachesim as peer

    def misses_at(size: int) -> int:
        reader = peer.TraceReader(
            trace=path,
            trace_type=peer.TraceType.ORACLE_GENERAL_TRACE,
            reader_init_params=peer.ReaderInitParam(ignore_obj_size=True),
        )
        share, _ = getattr(peer, policy)(cache_size=size).process_trace(reader)
        return round(share * (Path(path).stat().st_size // 24))

    return lambda: [misses_at(size) for size in frames]


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    name, arguments = sys.argv[1:]
    call: Answer = globals()[name](*json.loads(arguments))
    status = Path("/proc/self/status")
    start_anonymous = status_bytes(status, ANONYMOUS)
    start_cpu_s, start = cpu_s(), time.monotonic()
    answer = call()
    result = {
        "cpu_s": cpu_s() - start_cpu_s,
        "wall_s": time.monotonic() - start,
        "start_cpu_s": start_cpu_s,
        "peak_bytes": status_bytes(status, PEAK),
        "start_anonymous_bytes": start_anonymous,
        "answer": answer,
    }
    # The peer prints lines of its own; our line is the last.
    print("\n" + json.dumps(result))


if __name__ == "__main__":
    main()
