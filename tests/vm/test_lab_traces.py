"""Launches of the launch lab with a killer, beside the events of the guest's kernel.

The plan is in mode ``minfree`` with a balloon, and programs beside the run fill the rest of the
memory with pages of a file. So killd kills within launches, kswapd reclaims, and the applications
reclaim themselves. Meanwhile the guest records the text of tracefs, from which ``pagewise
launches`` and ``pagewise kills`` find out what the lab and killd measured: only the marks that
begin and end the launches come from the lab.

The guest's clock counts instructions, so that the load of the host does not change the times.
"""

import gzip
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guest
import polars
import pytest
from launch_marks import marks_of

import pagewise
from pagewise.recipes import KILLS, RECLAIM, SIZES
from pagewise_studies.launch import SPLIT

pytestmark = pytest.mark.slow

MIB = 1 << 20
BOOT_S = 600
OPTIONS: dict[str, Any] = {
    "kernel_arguments": "psi=1",
    "processors": 1,
    "memory_mib": 576,
    "has_counted_clock": True,
}
KERNELS = {
    "6.1": guest.Machine(**OPTIONS),
    "6.12": guest.Machine(suite="bookworm-backports", **OPTIONS),
}

# Of 204 MiB, three applications leave 60 MiB, of which the file has at most 32: so free memory or
# the file is above the level of 26 MiB. With a fourth application, neither is.
APPS = ("alpha", "beta", "gamma", "delta")
ORDER = (*APPS, "gamma")
ROUNDS = 3
HELD_MIB, FILE_MIB, BALLOON_MIB, BUDGET_MIB, LEVEL_PAGES = 48, 32, 36, 240, 26 << 8
# Fills the memory that the run leaves, so that kswapd makes room for the run.
BESIDE_MIB = 280
PLAN = f"""
name = "traced"
order = {json.dumps(ORDER)}
rounds = {ROUNDS}
mode = "minfree"
budget = "{BUDGET_MIB}MiB"
balloon = {{ size = "{BALLOON_MIB}MiB" }}
minfree = {{ levels = "{LEVEL_PAGES}:100" }}
""" + "".join(
    f"""
[applications.{app}]
command = ["{app}", "{HELD_MIB}", "/disk/file"]
interface = "line"
ready = "ready"
request = "visit {{round}}"
answer = "done"
"""
    for app in APPS
)
# Wakeups are taken when the thread is queued on its CPU, as the kernel's own accounting does.
EVENTS = (
    "sched/sched_switch",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_process_exit",
    "task/task_newtask",
    "task/task_rename",
    *RECLAIM,
    *KILLS,
    SIZES,
)
BUFFER_KIB = 32 << 10
SCRIPT = f"""
mount -t cgroup2 none /sys/fs/cgroup
mount -t tracefs none /sys/kernel/tracing
dd if=/dev/zero of=/disk/file bs=1M count={FILE_MIB} 2>/dev/null
dd if=/dev/zero of=/disk/beside bs=1M count={BESIDE_MIB} 2>/dev/null
sync
instance=/sys/kernel/tracing/instances/launches
mkdir $instance
echo boot >$instance/trace_clock
echo {BUFFER_KIB} >$instance/buffer_size_kb
for event in {" ".join(EVENTS)}; do echo 1 >$instance/events/$event/enable || exit 1; done
(while :; do cat /disk/beside >/dev/null; sleep 0.5; done) &
reader=$!
pagewise-agent launch /plan.toml -o /disk/run --json >/result/run.json 2>/result/run.errors
echo $? >/result/run.status
echo 0 >$instance/tracing_on
kill $reader
cat /proc/vmstat >/result/vmstat
cat $instance/per_cpu/cpu*/stats >/result/stats
gzip <$instance/trace >/result/trace.gz
cp -r /disk/run /result/
"""

LINE_TIME = re.compile(r"^.{16,40}\s\[\d+\]\s\S+\s+(\d+)\.(\d{6}): ")
SHARE = 0.05
"""How far two times may differ, as a share of the larger one."""
FLOORS_S = {
    # In a trace, a kill ends when the victim's last thread has freed its memory. Then that thread
    # still needs a processor to end, which killd waits for; or killd has nine tenths of the memory
    # back before.
    "kill_wait_s": 0.01,
    # A trace has microseconds, and a launch hundreds of reclaims.
    "direct_reclaim_s": 0.001,
    # The lab reads it a few milliseconds before the visit and after it.
    "kswapd_s": 0.005,
    # processor_s: user and system time, each in ticks of 10 ms rounded down.
    "cpu_s": 0.02,
}
"""Differences that the resolution of a part explains, in seconds of a launch."""
SUMMED_FLOOR_S = 0.005
"""A difference of the sums over all launches that resolution explains; not of processor time, which
is rounded down in each launch."""
MOMENT_S = 0.02
"""killd notes the time after the kill, and the lab's clock begins a little before its visits."""


@dataclass(frozen=True)
class Traced:
    """A run of the lab in a guest, and what pagewise finds in the guest's trace."""

    kernel: str
    visits: list[dict[str, Any]]
    kills: list[dict[str, Any]]
    """killd's kills, in order."""
    log: dict[int, dict[str, int]]
    """What killd's log has of each victim."""
    vmstat: dict[str, int]
    launches: list[dict[str, Any]]
    found: list[dict[str, Any]]
    """The kills of the trace until the end of the last visit, with ``at_s`` since the begin of the
    run. Then the lab itself ends the applications that are left."""

    def by(self, *, kernel: bool) -> list[dict[str, Any]]:
        """The kills of the trace by the kernel's killer, or by others."""
        return [kill for kill in self.found if (kill["killer"] == "oom") == kernel]


def times_of(visit: dict[str, Any]) -> tuple[float, float]:
    """Begin and end of a launch, in seconds since the begin of the run."""
    return visit["start_s"], visit["start_s"] + visit["launch_s"]


def with_marks(text: str, visits: list[dict[str, Any]], began_ns: int) -> str:
    """The text of tracefs with system_server's markers of a run that began at ``began_ns``."""
    timed = []
    for time_ns, mark in marks_of(visits, began_ns):
        time_us = time_ns // 1000
        stamp = f"{time_us // 10**6}.{time_us % 10**6:06}"
        line = f"   system_server-1       [000] ..... {stamp}: tracing_mark_write: {mark.rstrip()}"
        timed.append((time_us, line))
    for line in text.splitlines():
        # Lines without a time are comments at the begin.
        matched = LINE_TIME.match(line)
        timed.append((int(matched[1] + matched[2]) if matched else 0, line))
    return "".join(f"{line}\n" for _, line in sorted(timed, key=lambda pair: pair[0]))


@pytest.fixture(scope="module", params=KERNELS)
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    machine = KERNELS[request.param]
    guest.need_agent(machine)
    folder = tmp_path_factory.mktemp("guest")
    source = Path(__file__).with_name("read_and_hold.c")
    program = guest.compiled(folder / "program", source, "-static", "-pthread")
    # Each has the application's name, by which `pagewise launches` finds it.
    programs = {f"bin/{app}": program for app in APPS}
    files = {**guest.with_libraries(guest.AGENT), **programs, "plan.toml": PLAN}
    answer = guest.boot(machine, SCRIPT, files, folder, timeout_s=BOOT_S)
    assert answer.status == 0, answer.output
    return read(request.param, answer.results)


def read(kernel: str, results: Path) -> Traced:
    """The run and the trace in the results of a guest."""
    report = guest.answered(results, "run")
    visited = len(ORDER) * ROUNDS
    assert (report["visits"], report["answered"]) == (visited, visited), report
    stats = (results / "stats").read_text().splitlines()
    lost = [line for line in stats if line.startswith(("overrun", "dropped events"))]
    assert lost and all(line.endswith(" 0") for line in lost), lost
    run = results / "run"
    visits = polars.read_parquet(run / "visits.parquet").rows(named=True)
    began_ns = tomllib.loads((run / "run.toml").read_text())["run"]["monotonic_start_ns"]
    text = gzip.decompress((results / "trace.gz").read_bytes()).decode(errors="replace")
    trace = results / "trace.txt"
    # The guest never sleeps, so that its clocks MONOTONIC and BOOTTIME are the same.
    trace.write_text(with_marks(text, visits, began_ns))

    launches: dict[str, Any] = dict(pagewise.launches(trace))
    kills = pagewise.kills(trace)
    counts = ("unfinished", "cancelled", "left_out", "disordered", "rejected")
    assert [launches[count] for count in counts] == [0] * len(counts)
    found = [
        {**kill, "at_s": kill["time_s"] + (kills["begin_ns"] - began_ns) / 1e9}
        for kill in kills["kills"]
    ]
    log = {}
    for line in (run / "killd.log").read_text().splitlines():
        if line.startswith("event=kill "):
            process, adj, resident = (
                int(re.findall(rf" {key}=(-?\d+)", line)[-1])
                for key in ("process", "adj", "resident_bytes")
            )
            log[process] = {"adj": adj, "resident_bytes": resident}
    counters = (line.split() for line in (results / "vmstat").read_text().splitlines())
    return Traced(
        kernel,
        visits,
        polars.read_parquet(run / "kills.parquet").rows(named=True),
        log,
        {name: int(value) for name, value in counters},
        launches["launches"],
        [kill for kill in found if kill["at_s"] < visits[-1]["end_s"]],
    )


def differs(found: float, expected: float, floor: float) -> bool:
    return abs(found - expected) > SHARE * max(found, expected) + floor


def test_the_run_killed_and_reclaimed_within_launches(traced: Traced) -> None:
    parts = [launch["parts"] for launch in traced.launches]
    assert sum(launch["kills"] > 0 for launch in traced.launches) >= 4, "kills not exercised"
    assert sum(part["kill_wait_s"] > 0.01 for part in parts) >= 4, "waits not exercised"
    assert sum(part["direct_reclaim_s"] > 0.002 for part in parts) >= 4, "reclaim not exercised"
    assert sum(part["kswapd_s"] > 0.002 for part in parts) >= 3, "kswapd not exercised"
    # The kernel's own counters.
    assert traced.vmstat["pgsteal_kswapd"] > 1000 and traced.vmstat["pgsteal_direct"] > 0
    assert {launch["class"] for launch in traced.launches} == {"cold", "hot"}


def test_the_trace_has_the_kills_of_killd_in_their_order(traced: Traced) -> None:
    by_killd = traced.by(kernel=False)
    assert len(traced.by(kernel=True)) == sum(visit["oom_kills"] for visit in traced.visits)
    assert [(kill["pid"], kill["process"]) for kill in by_killd] == [
        (kill["process"], kill["app"]) for kill in traced.kills
    ]
    for kill, expected in zip(by_killd, traced.kills, strict=True):
        assert 0 <= expected["at_s"] - kill["at_s"] < MOMENT_S
        assert kill["sources"] == ["sigkill"]
        assert kill["adj"] == traced.log[kill["pid"]]["adj"]
        row = f"{kill['process']} dies after {kill['death_s']:.4f} in the trace"
        print(f"{row}, is back after {expected['back_s']:.4f} by killd")
        assert not differs(kill["death_s"], expected["back_s"], FLOORS_S["kill_wait_s"]), row
    (killer,) = {kill["killer"] for kill in by_killd}
    assert killer == "killd"


def test_the_sizes_of_the_victims_are_those_of_killd(traced: Traced) -> None:
    sizes = [
        (kill["resident_bytes"], traced.log[kill["pid"]]["resident_bytes"])
        for kill in traced.found
        if kill["pid"] in traced.log
    ]
    print(sizes)
    assert sizes and all(size == pytest.approx(expected, rel=SHARE) for size, expected in sizes)


def test_each_launch_has_the_kills_of_killd(traced: Traced) -> None:
    kills = [kill["at_s"] for kill in traced.kills]
    kills += [kill["at_s"] for kill in traced.by(kernel=True)]

    def number(start: float, end: float) -> int:
        return sum(start <= at <= end for at in kills)

    for launch, visit in zip(traced.launches, traced.visits, strict=True):
        start, end = times_of(visit)
        least = number(start + MOMENT_S, end - MOMENT_S)
        assert least <= launch["kills"] <= number(start - MOMENT_S, end + MOMENT_S)
        # All kills of the run are within 10 s.
        assert start < 10
        assert number(0, start - MOMENT_S) <= launch["kills_before"] <= number(0, start + MOMENT_S)


def test_each_part_of_a_launch_is_that_of_the_lab(traced: Traced) -> None:
    wrong: list[str] = []
    sums = {part: [0.0, 0.0, 0.0] for part in FLOORS_S}
    for launch, visit in zip(traced.launches, traced.visits, strict=True):
        class_ = "cold" if visit["cold"] else "hot"
        assert (launch["process"], launch["class"]) == (visit["app"], class_)
        start, end = times_of(visit)
        for part, columns in SPLIT:
            if part not in FLOORS_S:
                continue
            value, expected = launch["parts"][part], sum(visit[column] for column in columns)
            if part == "kill_wait_s" and not is_whole(traced, start, end):
                continue
            row = f"visit {visit['visit']} {visit['app']} {part} {value:.4f}, {expected:.4f} by lab"
            print(row)
            if differs(value, expected, FLOORS_S[part]):
                wrong.append(row)
            sums[part] = [sum(pair) for pair in zip(sums[part], (value, expected, 1), strict=True)]
    for part, (value, expected, number) in sums.items():
        row = f"{number:.0f} launches {part} {value:.4f}, {expected:.4f} by the lab"
        print(row)
        if part != "cpu_s" and differs(value, expected, SUMMED_FLOOR_S):
            wrong.append(row)
    assert not wrong, "\n".join(wrong)
    assert min(number for *_, number in sums.values()) >= len(traced.visits) / 2, sums


def is_whole(traced: Traced, start: float, end: float) -> bool:
    """Whether the lab has the whole wait for kills in a launch: it counts only killd's, and only
    once the memory of a victim is back."""
    killed = [(kill["at_s"], kill["at_s"] + kill["back_s"]) for kill in traced.kills]
    by_kernel = [(kill["at_s"], kill["at_s"] + kill["death_s"]) for kill in traced.by(kernel=True)]
    is_cut = any(at < end + MOMENT_S and back > end for at, back in killed)
    return not is_cut and not any(at < end and death > start for at, death in by_kernel)
