"""Writes docs/bench-lazy.md from the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lazy.allocators import ALLOCATORS
from lazy.backing import BACKED_BYTES
from lazy.claims import Claim
from lazy.parts.exchange import PAIRS
from lazy.parts.pressure import BURST_MIB, FREED_MIB, LIMIT_MIB
from lazy.places import IDLE_S

MIB = 1 << 20

METHOD = f"""Command, as root: `make bench-lazy`; it runs `bench/lazy` on what
`tools/bench_lazy_setup.sh` installs, keeps every run in build/bench-lazy, and goes on there when it
was interrupted. One allocator after the other in each round. A figure is the median over the rounds
with its 95 % interval by bootstrap in brackets; a ratio is ours over theirs, pair by pair as they
ran in turn.

- Traps are perf's software event page-faults: pages that a system call populates raise none.
- Before each program {BACKED_BYTES // MIB} MiB are touched and freed, so that every allocator is
  given memory that the machine has, and not some that a virtual machine's host must find first
  ([why](lazy-unmapping.md#huge-pages-in-a-virtual-machine)).
- Resident memory is the kernel's count, pages that it may take at any time (MADV_FREE) included;
  "freed" is right after the work, "idle" {IDLE_S:g} s later without any call.
- A swipe is 40 steps of a page that `bench/lazy/programs/page.py` draws, in WebKitGTK under Xvfb
  without GPU, 412 x 915 points of two pixels each way, browser and display on one processor, before
  other programs (nice -20). Response: from the wheel event sent to the display to the last frame
  that the view has drawn. Traps, CPU and memory are the web process's.
- Time in faults: the processors' clock is sampled every 0.5 ms of busy time; a sample counts if the
  kernel's call chain handles a fault, by trap or by populating. Time in calls: the other samples in
  `mmap`, `munmap`, `madvise` and their relatives. Share: that time of the web process over the
  response time. A swipe has 1,500 to 3,000 samples of the web process, so one swipe's share is
  known to about one hundredth; the interval given is over swipes.
- A pool can save more of the response than the paper's identity says (faults saved x share of time
  in faults): the calls that unmap are saved, too, and memory that is used again is in the caches.
- Pressure: `bench/lazy/programs/pressure.c` frees {FREED_MIB} MiB, then maps and writes
  {BURST_MIB} MiB by the system call itself, in a memory cgroup of {LIMIT_MIB} MiB without swap.
- Exchange: `bench/lazy/programs/exchange.c`, the pattern of xmalloc-test: batches of blocks that
  another thread frees, {PAIRS} threads of each kind; 128 bytes of each block are written. "flow"
  does both at once, "turns" one after the other, so that the most that is live does not depend on
  the scheduler. A step is a block.
- Small: `bench/lazy/programs/small.c`, blocks that go on to the C library. "order" is the pattern
  of glibc's bench-malloc-simple, with a block size; "replace" is that of alloc-test and "thread"
  that of bench-malloc-thread, with a number of threads.
- Forks: the CPU time of the parent's next block of 32 MiB while a child shares its memory.
- Chromium and Firefox are in no table: they bring their own `malloc`, so the library stands aside
  (`pagewise-agent lazy --verbose -- chromium` says so), and nothing is gained.
"""


def document(result: Mapping[str, Any]) -> str:
    """The whole page."""
    parts = [
        "# Lazy unmapping beside other allocators",
        METHOD + f"\n{result['place']}; load average {result['load']['low']:g} to "
        f"{result['load']['high']:g} ({loads(result['loads'])}).",
        "## What must be reached",
        verdicts([Claim(**claim) for claim in result["claims"]]),
        *programs(result["rows"]),
        "## Pressure",
        pressure(result["pressure"]),
        "## Forks",
        forks(result["forks"]),
        "## The allocators",
        table(("name", "what"), ((f"`{row.name}`", row.what) for row in ALLOCATORS.values())),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def loads(parts: Mapping[str, Mapping[str, float]]) -> str:
    """Of each part."""
    return ", ".join(f"{name} {load['low']:g} to {load['high']:g}" for name, load in parts.items())


def verdicts(claims: Sequence[Claim]) -> str:
    """How many hold, and each."""
    words = {True: "holds", False: "does not hold", None: ""}
    measured = [claim for claim in claims if claim.is_reached is not None]
    reached = sum(bool(claim.is_reached) for claim in measured)
    lines = table(
        ("what", "to reach", "measured", "verdict"),
        ((row.what, row.target, row.measured, words[row.is_reached]) for row in claims),
    )
    return f"{reached} of {len(measured)} measured hold.\n\n{lines}"


def programs(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A section for each program."""
    for program in dict.fromkeys(row["program"] for row in rows):
        own = [row for row in rows if row["program"] == program]
        yield f"## {program}"
        known = [column for column in COLUMNS if any(row.get(column[1]) is not None for row in own)]
        yield table(
            ("allocator", *(heading for heading, _, _ in known)),
            ((allocator(row), *(cell(row, name, form) for _, name, form in known)) for row in own),
        )
        yield gain({row["allocator"]: row.get("cpu_s") for row in own})


def gain(cpu: Mapping[str, Mapping[str, float] | None]) -> str:
    """What the CPU time of ``fast`` says beside that of glibc; empty where either has none."""
    ours, theirs = cpu.get("fast"), cpu.get("glibc")
    if ours is None or theirs is None:
        return ""
    ratio = f"`fast` takes {ours['typical'] / theirs['typical']:.2f}x of the CPU time of `glibc`"
    if ours["high"] < theirs["low"]:
        return f"{ratio}."
    return f"{ratio}: nothing is gained that shows, since their intervals meet."


def allocator(row: Mapping[str, Any]) -> str:
    failure = f" (failed: {row['failure']})" if row["failure"] else ""
    return f"`{row['allocator']}`{failure}"


def counted(value: float) -> str:
    return f"{value:,.0f}"


def milliseconds(value: float) -> str:
    return f"{1e3 * value:,.0f}"


def mebibytes(value: float) -> str:
    return f"{value / MIB:,.1f}"


def millions(value: float) -> str:
    return f"{value / 1e6:,.3g}"


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


Form = Callable[[float], str]
COLUMNS: Sequence[tuple[str, str, Form]] = (
    ("traps", "traps", counted),
    ("CPU, ms", "cpu_s", milliseconds),
    ("response, ms", "response_s", milliseconds),
    ("in faults, %", "fault_share", percent),
    ("in calls, %", "call_share", percent),
    ("million steps a second", "steps_per_s", millions),
    ("peak, MiB", "peak_bytes", mebibytes),
    ("freed, MiB", "freed_bytes", mebibytes),
    ("idle, MiB", "idle_bytes", mebibytes),
)
WITH_INTERVAL = ("cpu_s", "response_s", "fault_share", "call_share")


def cell(row: Mapping[str, Any], name: str, form: Form) -> str:
    """A median, and its interval where the figure is one of time."""
    spread = row.get(name)
    if spread is None:
        return ""
    told = form(spread["typical"])
    if name in WITH_INTERVAL:
        told += f" ({form(spread['low'])} to {form(spread['high'])})"
    return told


def pressure(rows: Sequence[Mapping[str, Any]]) -> str:
    """Who is killed."""
    return table(
        ("allocator", "survived", "burst, ms"),
        (
            (allocator(row), f"{row['survived']} of {row['runs']}", burst(row["burst_s"]))
            for row in rows
        ),
    )


def burst(spread: Mapping[str, float] | None) -> str:
    """Its time, if any run survived."""
    if spread is None:
        return "killed"
    low, typical, high = (milliseconds(spread[name]) for name in ("low", "typical", "high"))
    return f"{typical} ({low} to {high})"


def forks(rows: Sequence[Mapping[str, Any]]) -> str:
    """What a warm block costs before, and the next one after."""
    names = ("warm_s", "fork_s", "shared_s")
    return table(
        ("allocator", "warm block, ms", "fork, ms", "next block, ms", "its traps"),
        (
            (
                allocator(row),
                *(f"{1e3 * row[name]:.2f}" if row[name] is not None else "" for name in names),
                counted(row["shared_traps"]) if row["shared_traps"] is not None else "",
            )
            for row in rows
        ),
    )


def table(headings: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
