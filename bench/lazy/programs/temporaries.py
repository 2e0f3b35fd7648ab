"""numpy expressions with temporaries of 1 to 8 MB, as users write them.

temporaries.py STEPS IDLE_SECONDS      (Debian's own python3; wants root)

Prints one JSON object after the work, and one after an idle time.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lazy.counters import Traps


def work(steps: int) -> float:
    draw = np.random.default_rng(1)
    first, second, large = draw.random(1 << 18), draw.random(1 << 18), draw.random(1 << 20)
    total = 0.0
    for step in range(steps):
        total += (first * second + np.sqrt(first) - second * 0.5).sum()
        if step % 3 == 0:
            total += np.where(large > 0.5, large * 2, large - 1)[::97].sum()
        cleared = np.zeros(1 << 17)
        cleared[:] = first[: 1 << 17]
        picture = np.full((256 + step % 7 * 64, 1024, 4), step & 255, dtype=np.uint8)
        total += cleared[5] + int(picture[3, 4, 1])
    return float(total)


def own_bytes(file: str, line: str) -> int:
    lines = Path(f"/proc/self/{file}").read_text().splitlines()
    return int(next(found for found in lines if found.startswith(line)).split()[1]) * 1024


def main() -> None:
    steps, idle_s = int(sys.argv[1]), float(sys.argv[2])
    counter = Traps(os.getpid())
    traps, cpu_s = counter.count(), time.process_time()
    user_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    total = work(steps)
    figures = {
        "traps": counter.count() - traps,
        "cpu_s": time.process_time() - cpu_s,
        "user_s": resource.getrusage(resource.RUSAGE_SELF).ru_utime - user_s,
        "peak_bytes": own_bytes("status", "VmHWM:"),
        "freed_bytes": own_bytes("smaps_rollup", "Rss:"),
        "total": total,
    }
    print(json.dumps(figures), flush=True)
    time.sleep(idle_s)
    print(json.dumps({"idle_bytes": own_bytes("smaps_rollup", "Rss:")}))


if __name__ == "__main__":
    main()
