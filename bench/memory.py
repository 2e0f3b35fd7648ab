"""Peak memory of `advise swap`, `sweep` and the grid of `study nvm-cache` beside its bound.

    python bench/memory.py [--apps N]

The trace is a simulated phone whose apps have 1.1 M pages together, as many as a recorded game
on a phone. Each command runs in a process of its own, which prints its peak (VmHWM). The bound is
that of docs/sweep.md: 300 MB, and 64 bytes for each page and each cell that runs. Prints one JSON
line; exits with status 1 if a bound does not hold. Memory is counted, not timed, so other load
does not matter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pagewise as pw
from pagewise import _core
from pagewise.grids import memory

BASE = 300 * 10**6
APPS = 44
"""How many apps of 100 MiB have 1.1 M pages."""
PHONE = {
    "footprint_mib": 100,
    "memory_mib": 1100,
    "rounds": 2,
    "file_events": True,
    "used_percent": 60,
}
PEAK = """
import re
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
RUNS = {
    "advise swap": """
import sys, pagewise
pagewise.advise(sys.argv[1], fast="dram", slow="ufs-3.1")
""",
    "sweep": """
import sys
from pagewise.grids.run import sweep
names = ("priority", "hierarchical", "hybrid", "nvm-cache", "adaptive")
spec = {
    "traces": [sys.argv[1]],
    "sizes": ["64MiB", "512MiB", "2GiB"],
    "device": [{"fast": "4/5us", "slow": "90/40us"}],
    "architecture": [{"name": name} for name in names],
}
assert not sweep(spec, sys.argv[2] + "/results.parquet")["failed"]
""",
    "study nvm-cache": """
import sys
from pathlib import Path
from pagewise.grids.traces import TraceSource
from pagewise_studies import nvm_cache, nvm_cache_checks
from pagewise_studies.runs import Variant, run
first = nvm_cache_checks.first_eviction(nvm_cache.CACHE[0])
variants = [*nvm_cache.CACHE, first, Variant.of("flash")]
output = Path(sys.argv[2], "study.parquet")
run([TraceSource("phone", sys.argv[1])], variants, (64, 512, 2048), output, None)
""",
}


def peak_of(script: str, *arguments: object) -> int:
    """Peak bytes of a process that runs the script."""
    command = [sys.executable, "-c", script + PEAK, *map(str, arguments)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=3600)
    return int(run.stdout.split()[-1]) * 1024


def main() -> int:
    """Runs each command, and compares its peak with the bound."""
    parser = argparse.ArgumentParser(description="Peak memory beside its bound.")
    parser.add_argument("--apps", type=int, default=APPS, help="apps of 100 MiB")
    apps = parser.parse_args().apps
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "phone.parquet"
        _core.write_scenario(json.dumps({**PHONE, "apps": apps}), str(trace))
        pages = pw.read(trace).header["pages"] or 0
        running = memory.cores() * memory.cells_of_pass(memory.cores())
        bound = BASE + memory.BYTES_PER_PAGE * pages * running
        peaks = {name: peak_of(script, trace, folder) for name, script in RUNS.items()}
    print(json.dumps({"pages": pages, "bound_bytes": bound, "peak_bytes": peaks}))
    return int(max(peaks.values()) > bound)


if __name__ == "__main__":
    sys.exit(main())
