"""DAMON's own record of a program whose busy addresses are known, from a guest to the map."""

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import guest
import pytest

pytestmark = pytest.mark.slow

MACHINE = guest.Machine(suite="bookworm-backports")
MIB = 1 << 20
PROGRAM_MIB, OFFSET_MIB, HOT_MIB, SECONDS = 64, 16, 8, 60
BOOT_S = 900
SCRIPT = f"""
mount -t tracefs none /sys/kernel/tracing
# DAMON also watches the gap between program and heap, of up to 1 GiB at random, for which the map
# would take ranges of 8 MiB.
echo 0 >/proc/sys/kernel/randomize_va_space
hot_range {PROGRAM_MIB} {OFFSET_MIB} {HOT_MIB} {SECONDS} >/result/addresses &
program=$!
until [ -s /result/addresses ]; do sleep 0.1; done
cd /sys/kernel/mm/damon/admin/kdamonds
echo 1 >nr_kdamonds
echo 1 >0/contexts/nr_contexts
context=0/contexts/0
echo vaddr >$context/operations
echo 1 >$context/targets/nr_targets
echo $program >$context/targets/0/pid_target
echo 64 >$context/monitoring_attrs/nr_regions/min
echo 512 >$context/monitoring_attrs/nr_regions/max
echo 30000 >/sys/kernel/tracing/buffer_size_kb
echo 1 >/sys/kernel/tracing/events/damon/damon_aggregated/enable
echo on >0/state || exit 1
sleep 20
echo off >0/state
echo 0 >/sys/kernel/tracing/tracing_on
cat /sys/kernel/tracing/trace >/result/trace
cat /sys/kernel/tracing/per_cpu/cpu*/stats >/result/stats
kill $program
true
"""


@functools.cache
def results(folder: Path) -> Path:
    guest.need_agent(MACHINE)
    source = Path(__file__).with_name("hot_range.c")
    program = guest.compiled(folder / "hot_range", source, "-static")
    answer = guest.boot(MACHINE, SCRIPT, {"bin/hot_range": program}, folder, timeout_s=BOOT_S)
    assert answer.status == 0, answer.output
    return answer.results


def mean(ranges: list[dict[str, Any]], start: int, end: int) -> float:
    """The mean of the accesses to the ranges within these addresses."""
    found = [
        value
        for row in ranges
        if start <= int(row["first"], 16) and int(row["last"], 16) < end
        for value in row["accesses"]
        if value is not None
    ]
    assert found, f"no range within {start:x}-{end:x}"
    return sum(found) / len(found)


def test_the_map_shows_the_addresses_that_the_program_used(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = results(tmp_path_factory.mktemp("damon"))
    lines = (folder / "trace").read_text().count(": damon_aggregated: ")
    words = [guest.AGENT.with_name("pagewise"), "pressure", folder / "trace", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    heat = json.loads(done.stdout)["heat"]
    # Every region that DAMON printed is in the map.
    assert heat["regions"] == lines > 1000
    start, end, hot_start, hot_end = (
        int(word, 16) for word in (folder / "addresses").read_text().split()
    )
    hot = mean(heat["ranges"], hot_start, hot_end)
    cold = mean(heat["ranges"], hot_end + MIB, end)
    below = mean(heat["ranges"], start, hot_start - MIB)
    print(f"{lines} regions; hot {hot:.2f}, cold {cold:.2f} and {below:.2f} samples an interval")
    assert hot > 5 and max(cold, below) < hot / 5
