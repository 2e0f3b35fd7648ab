"""Writes docs/bench-programs.md from the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Any

from lazy.claims import Claim
from lazy.document import table, verdicts

from programs.measure import JUDGED_TIMES, OTHER_ROUNDS
from programs.modes import FAST, MODES
from programs.places import ROOT
from programs.program import MIB
from programs.summary import CPU_LEAST_S

DEAREST = 3
"""How many programs with the largest CPU time are named for each mode."""

METHOD = f"""This page compares programs under the preload library
([lazy-unmapping.md](lazy-unmapping.md)) with the same programs without it ("stock"): outcome, CPU
time and peak memory.

Command, as root: `make bench-programs`. It installs Debian's packages
(`tools/bench_programs_setup.sh`), compiles `bench/programs/sources`, and runs each program stock
and in every mode, one after the other in each round. Every run is kept in build/bench-programs,
so an interrupted comparison resumes. Programs that are not installed are skipped and listed.

- **Same outcome.** The script compares exit status or signal, standard output, standard error,
  result files, and whether processes remain, exactly, after the normalisation in the table at
  the end. A run differs if its outcome matches no stock run of the same comparison. After a
  difference, stock and the mode run three more times.
- **Service.** An equal outcome proves nothing if the library stood aside. During every run the
  script reads the library's counters in the memory of all processes, until one of them has been
  served an allocation. The column "served" names the modes in which that was seen in every run.
  Programs that allocate large blocks, java, mono and CPython's tests must be served. Programs that
  bring their own `malloc`, that are linked statically or that gain rights must not. A run in which
  the library did otherwise is listed under "Differences".
- **Selftest.** `bench/programs/selftest.py` runs before the comparison. It preloads libraries that
  are broken on purpose: they change a byte of the output, the status or a file, write to standard
  error, crash, hang, leave a process behind, take memory or burn CPU time. The comparison must
  report each of them, and must not report a library that does nothing.
- **Stock runs must succeed.** Each row of the catalog says what the output must contain. A stock
  run without it proves nothing and is reported.
- **Time limit.** Every run has one. A run that exceeds it is a difference, and its control group
  is killed.
- **CPU time** is cpuacct's for a private control group: the program, all its children and the
  start by `pagewise-agent`. The ratio is the median over the rounds. Brackets hold its 95 %
  interval by bootstrap; with five rounds or fewer that is the range of the rounds. The ratio has a
  limit only if the program uses at least {CPU_LEAST_S:g} s of CPU time and does not allocate large
  blocks (from 64 KiB on, which the library serves). Those that do are marked in the table.
- **Peak memory** has two measures, each with a limit. The table shows the first: the largest
  anonymous memory of all processes together (rss in the group's memory.stat, sampled every 5 ms; a
  page shared by fork counts once). The second is the group's exact maximum of all memory charged
  to it, including the page cache and kernel memory. Both include pages that the kernel may take
  at any time (MADV_FREE).
- **Rounds.** Stock and `fast` run in every round, the other modes in the first {OTHER_ROUNDS}.
  Programs that do not allocate large blocks run {JUDGED_TIMES} times as many rounds. The column
  "runs" counts the stock runs.
- **Parallel runs.** CPython's slow tests mostly wait, so all modes run once, at the same time,
  without a limit of CPU time. One run has no spread.
- **Not shown.** Each program runs a few times for seconds. A difference that one run in twenty
  would show is probably missed here.
"""


def document(result: Mapping[str, Any]) -> str:
    """The whole page."""
    rows = result["rows"]
    parts = [
        "# Whole programs with and without the preload library",
        METHOD + f"\n{result['place']};\nload average {result['load']['low']:g} to "
        f"{result['load']['high']:g}.",
        "## What must be reached",
        verdicts([Claim(**claim) for claim in result["claims"]]),
        "## Differences",
        "\n\n".join(differences(rows)) or "None.",
        "## Programs",
        dearest(rows),
        programs(rows),
        "## Skipped",
        table(("program", "reason"), ((row["program"], row["reason"]) for row in result["skipped"]))
        if result["skipped"]
        else "None.",
        "## Versions",
        table(("program", "version"), iter(result["versions"].items())),
        "## What is compared",
        table(("program", "what runs", "normalisation"), map(compared, result["catalog"])),
        "## Modes",
        table(("mode", "what"), ((mode.name, mode.what) for mode in MODES.values())),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def verdict_text(result: Mapping[str, Any]) -> str:
    """The verdicts and the differences, for standard output."""
    found = verdicts([Claim(**claim) for claim in result["claims"]])
    return "\n\n".join([found, *differences(result["rows"])])


def differences(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each program and mode that differs, with the first differing lines."""
    for row in rows:
        if row["stock_fails"]:
            yield f"**{row['program']}**: {row['stock_fails']}"
        for mode in row["modes"]:
            if mode["misserved_runs"]:
                yield (
                    f"**{row['program']}**, {mode['mode']}: {mode['served_runs']} of "
                    f"{mode['runs']} runs served, in {mode['loaded_runs']} the library was loaded"
                )
            if mode["differing_runs"]:
                yield (
                    f"**{row['program']}**, {mode['mode']}: {mode['differing_runs']} of "
                    f"{mode['runs']} runs differ ({', '.join(mode['ends'])}); "
                    f"stock: {row['stock_runs']} runs, "
                    f"outcomes: {row['stock_outcomes']}\n\n"
                    f"```\n{mode['difference'].replace(str(ROOT), 'PROJECT')}\n```"
                )


def dearest(rows: Sequence[Mapping[str, Any]]) -> str:
    """The largest ratios of CPU time in each mode, with or without a limit."""
    found: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        for mode in row["modes"]:
            if mode["cpu_ratio"] and row["stock_cpu_s"] >= CPU_LEAST_S:
                measured = (mode["cpu_ratio"]["typical"], row["program"])
                found.setdefault(mode["mode"], []).append(measured)
    lines = [
        f"- `{mode}`: "
        + ", ".join(f"{most:.2f}x ({name})" for most, name in nlargest(DEAREST, ratios))
        for mode, ratios in found.items()
    ]
    head = f"Largest CPU time over stock's, of programs of {CPU_LEAST_S:g} s and more:"
    return "\n".join([head, "", *lines]) if lines else ""


def programs(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table with one line per program."""
    names = list(MODES)[1:]
    headings = ("program", "stock CPU, s", *(f"{name} CPU" for name in names), "stock peak, MiB")
    columns = (*headings, *(f"{name} peak" for name in names), "served", "runs")
    return table(columns, map(line, rows))


def line(row: Mapping[str, Any]) -> Sequence[str]:
    """The figures of a program in all modes."""
    modes = {mode["mode"]: mode for mode in row["modes"]}
    names = list(MODES)[1:]
    mark = " (large blocks)" if row["allocates_large"] else ""
    return (
        row["program"] + mark,
        f"{row['stock_cpu_s']:.2f}",
        *(ratio(modes.get(name), name == FAST) for name in names),
        f"{row['stock_peak_bytes'] / MIB:.1f}",
        *(peak(modes.get(name)) for name in names),
        served(row["modes"]),
        str(row["stock_runs"]),
    )


def served(modes: Sequence[Mapping[str, Any]]) -> str:
    """The modes in which the library served every run; bold if one is wrong or missing."""
    names = [mode["mode"] for mode in modes if mode["served_runs"] == mode["runs"]]
    text = ", ".join(names) or "none"
    return f"**{text}**" if any(mode["misserved_runs"] for mode in modes) else text


def ratio(mode: Mapping[str, Any] | None, has_interval: bool) -> str:
    """CPU time over stock's; one run has no interval."""
    if mode is None or mode["cpu_ratio"] is None:
        return ""
    low, typical, high = (mode["cpu_ratio"][name] for name in ("low", "typical", "high"))
    interval = f" ({low:.2f} to {high:.2f})" if has_interval and mode["runs"] > 1 else ""
    return f"{typical:.2f}x{interval}"


def peak(mode: Mapping[str, Any] | None) -> str:
    """Peak memory in MiB; bold if it exceeds the limit."""
    if mode is None:
        return ""
    text = f"{mode['peak_bytes'] / MIB:.1f}"
    return text if mode["is_peak_held"] else f"**{text}**"


def compared(row: Mapping[str, Any]) -> Sequence[str]:
    """What a program does and how its output is normalised."""
    return (row["program"], row["what"], row["normalisation"] or "none")
