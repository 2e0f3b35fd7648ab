"""Writes docs/bench-lazy.md from the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lazy.allocators import ALLOCATORS
from lazy.backing import BACKED_BYTES
from lazy.claims import Claim, shown
from lazy.parts import PARTS
from lazy.parts.churn import BLOCKS
from lazy.parts.exchange import PAIRS
from lazy.parts.pressure import BURST_MIB, FREED_MIB, LIMIT_MIB, PEER_ROUNDS
from lazy.parts.swipe import SWIPES
from lazy.places import IDLE_S
from lazy.summary import Spread

MIB = 1 << 20

METHOD = f"""This page compares programs under the preload library
([lazy-unmapping.md](lazy-unmapping.md)) with the same programs under eleven other allocators.

Command, as root: `make bench-lazy`. It runs `bench/lazy` on what `tools/bench_lazy_setup.sh`
installs. Every run is kept in build/bench-lazy, so an interrupted comparison resumes.

- **Figures.** In each round every allocator runs once, one after the other. A figure is the median
  over the rounds. Brackets hold its 95 % interval by bootstrap; with five rounds or fewer that is
  the range of the rounds. A ratio is the median of the ratios of pairs that ran in the same round.
  A line under "What must be reached" holds if the median does, so a line whose interval includes
  the limit may come out the other way in the next run.
- **Rounds.** {", ".join(f"{name} {part.rounds}" for name, part in PARTS.items())}. A swipe
  round is a session of {SWIPES} swipes, each of which counts. Under pressure, allocators that need
  not survive have {PEER_ROUNDS} rounds.
- **Traps** are perf's software event page-faults. Pages that a system call populates raise none.
- **Warm memory.** Before each program the script touches and frees {BACKED_BYTES // MIB} MiB.
  Without this, the first program after a pause would pay for memory that the host of a virtual
  machine must find first ([why](lazy-unmapping.md#huge-pages-in-a-virtual-machine)).
- **Resident memory** is the kernel's count. It includes pages that the kernel may take at any time
  (MADV_FREE). "Freed" is right after the work, "idle" {IDLE_S:g} s later without any call.
- **Churn.** `bench/lazy/programs/churn.c` allocates {BLOCKS} blocks of 128 KiB to 8 MiB by `malloc`
  or `calloc`, writes to every cache line, and frees them in random order; eight are in use at a
  time.
- **Swipe.** WebKitGTK scrolls a page that `bench/lazy/programs/page.py` draws, in 40 steps, under
  Xvfb without GPU, 412 x 915 points of two pixels each way. Browser and display share one
  processor at nice -20. The response time is the time from the wheel event to the last frame that
  the view has drawn. Traps, CPU time and memory are the web process's.
- **Time in faults.** perf samples the processors every 0.5 ms of busy time. A sample counts if its
  kernel call chain handles a fault, by a trap or by populating. Time in calls: the other samples in
  `mmap`, `munmap`, `madvise` and their relatives. Both are shares of the response time. A swipe has
  1,500 to 3,000 samples of the web process, so the share of one swipe is known to about one
  hundredth; the interval is over swipes.
- **The paper's bound.** The paper S3 ([papers.md](papers.md)) says that the response time saved is
  at most the share of faults saved x the share of time in faults. A pool of freed memory can save
  more: it also saves the calls that unmap, and memory that is used again is still in the caches.
  The line holds if the interval reaches down to the bound.
- **Pressure.** `bench/lazy/programs/pressure.c` frees {FREED_MIB} MiB, then maps and writes
  {BURST_MIB} MiB by system call, in a memory cgroup of {LIMIT_MIB} MiB without swap.
- **Exchange.** `bench/lazy/programs/exchange.c` follows xmalloc-test: {PAIRS} threads allocate
  batches of blocks and {PAIRS} others free them. The program writes 128 bytes of each block. "flow"
  does both at once; "turns" does one after the other, so that the peak of live blocks does not
  depend on the scheduler. A step is a block.
- **Small.** `bench/lazy/programs/small.c` allocates small blocks, which the library passes to the C
  library. "order" follows glibc's bench-malloc-simple, with a block size; "replace" follows
  alloc-test and "thread" bench-malloc-thread, with a number of threads.
- **Forks.** The CPU time of the parent's next block of 32 MiB while a child shares its memory;
  medians.
- Chromium and Firefox are in no table. They bring their own `malloc`, so the library stands aside
  (`pagewise-agent lazy --verbose -- chromium` says so) and changes nothing.
"""


def document(result: Mapping[str, Any]) -> str:
    """The whole page."""
    parts = [
        "# Lazy unmapping beside other allocators",
        METHOD + f"\n{result['place']};\nload average {result['load']['low']:g} to "
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
    """The load average during each part."""
    return ", ".join(f"{name} {load['low']:g} to {load['high']:g}" for name, load in parts.items())


def verdicts(claims: Sequence[Claim]) -> str:
    """The number of claims that hold, and a table of all claims."""
    words = {True: "holds", False: "does not hold", None: ""}
    measured = [claim for claim in claims if claim.is_reached is not None]
    reached = sum(bool(claim.is_reached) for claim in measured)
    lines = table(
        ("what", "to reach", "measured", "verdict"),
        ((row.what, row.target, row.measured, words[row.is_reached]) for row in claims),
    )
    return f"{reached} of {len(measured)} measured lines hold.\n\n{lines}"


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
        yield gain({row["allocator"]: row.get("cpu_ratio") for row in own}.get("fast"))


def gain(ratio: Mapping[str, float] | None) -> str:
    """Compares the CPU time of ``fast`` with glibc's, pair by pair; empty if either is missing."""
    if ratio is None:
        return ""
    text = f"`fast` takes {shown(Spread(**ratio))} the CPU time of `glibc`"
    if ratio["high"] < 1:
        return f"{text}."
    if ratio["low"] > 1:
        return f"{text}: more, beyond the spread."
    return f"{text}: no difference beyond the spread."


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
    """A median, with its interval if the figure is a time."""
    spread = row.get(name)
    if spread is None:
        return ""
    text = form(spread["typical"])
    if name in WITH_INTERVAL:
        text += f" ({form(spread['low'])} to {form(spread['high'])})"
    return text


def pressure(rows: Sequence[Mapping[str, Any]]) -> str:
    """Runs that survived the burst, and how long it took."""
    return table(
        ("allocator", "survived", "burst, ms"),
        (
            (allocator(row), f"{row['survived']} of {row['runs']}", burst(row["burst_s"]))
            for row in rows
        ),
    )


def burst(spread: Mapping[str, float] | None) -> str:
    """The time of the burst; "killed" if no run survived."""
    if spread is None:
        return "killed"
    low, typical, high = (milliseconds(spread[name]) for name in ("low", "typical", "high"))
    return f"{typical} ({low} to {high})"


def forks(rows: Sequence[Mapping[str, Any]]) -> str:
    """CPU time of a warm block before the fork, of the fork, and of the next block."""
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
