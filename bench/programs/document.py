"""Writes docs/bench-programs.md from the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lazy.claims import Claim
from lazy.document import table, verdicts

from programs.measure import JUDGED_TIMES, OTHER_ROUNDS
from programs.modes import FAST, MODES
from programs.places import ROOT
from programs.program import MIB
from programs.summary import CPU_LEAST_S

METHOD = f"""Command, as root: `make bench-programs`. It installs Debian's packages
(`tools/bench_programs_setup.sh`), compiles `bench/programs/sources`, and runs each program stock
and in every mode, one after the other in each round. Every run is kept in build/bench-programs,
so an interrupted comparison resumes. A program that is missing is skipped and listed with the
reason.

- **Same outcome.** Exit status or signal, standard output, standard error, result files, and
  whether processes are left behind are compared exactly, after the normalisation of the
  program's row in the table at the end. A run differs if no stock run of the same comparison
  came out that way. After a difference stock and the mode run three times more.
- **Proof that a difference shows.** `bench/programs/selftest.py` runs before the comparison:
  libraries that are broken on purpose change a byte of the output, the status, a file, or write
  to standard error, crash, hang, leave a process behind, take memory or burn CPU time; each must
  be reported, and a library that does nothing must not.
- **Stock does its work.** Each row names what the output must hold; a stock run without it
  proves nothing and is reported.
- **A time limit** for every run; a run above it is a difference, and its control group is
  killed.
- **CPU time** is cpuacct's of a private control group: the program, all its children and the
  start by `pagewise-agent`. Ratio: median over the rounds, in brackets its 95 % interval by
  bootstrap. It is judged from {CPU_LEAST_S:g} s of CPU time on, for programs that do not
  allocate large blocks.
- **Peak memory** is the most anonymous memory of all processes at once (rss of the group's
  memory.stat, sampled every 5 ms; a page shared by fork counts once) and the group's exact
  maximum of all memory charged to it, files in the page cache and the kernel's own memory
  included. Both are judged; the first one is in the table. Pages that the kernel may take at any
  time (MADV_FREE) count.
- **Rounds.** Stock and `fast` run in every round, the other modes in the first {OTHER_ROUNDS};
  programs whose CPU time is judged run {JUDGED_TIMES} times as many rounds.
- **At once.** CPython's slow tests mostly wait; all modes run at the same time, and their CPU
  time is not judged.
"""


def document(result: Mapping[str, Any]) -> str:
    """The whole page."""
    rows = result["rows"]
    parts = [
        "# Whole programs with and without the preload library",
        METHOD + f"\n{result['place']}; load average {result['load']['low']:g} to "
        f"{result['load']['high']:g}.",
        "## What must be reached",
        verdicts([Claim(**claim) for claim in result["claims"]]),
        "## Differences",
        "\n\n".join(differences(rows)) or "None.",
        "## Programs",
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
    """The verdicts and the differences, as they are printed."""
    found = verdicts([Claim(**claim) for claim in result["claims"]])
    return "\n\n".join([found, *differences(result["rows"])])


def differences(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each program and mode that differs, with the first lines that do."""
    for row in rows:
        if row["stock_fails"]:
            yield f"**{row['program']}**: {row['stock_fails']}"
        for mode in row["modes"]:
            if mode["differing_runs"]:
                yield (
                    f"**{row['program']}**, {mode['mode']}: {mode['differing_runs']} of "
                    f"{mode['runs']} runs differ ({', '.join(mode['ends'])}); "
                    f"stock: {row['stock_runs']} runs, "
                    f"outcomes: {row['stock_outcomes']}\n\n"
                    f"```\n{mode['difference'].replace(str(ROOT), 'PROJECT')}\n```"
                )


def programs(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a program."""
    names = list(MODES)[1:]
    headings = ("program", "stock CPU, s", *(f"{name} CPU" for name in names), "stock peak, MiB")
    return table((*headings, *(f"{name} peak" for name in names), "runs"), map(line, rows))


def line(row: Mapping[str, Any]) -> Sequence[str]:
    """Figures of all modes."""
    modes = {mode["mode"]: mode for mode in row["modes"]}
    names = list(MODES)[1:]
    mark = " (large blocks)" if row["allocates_large"] else ""
    return (
        row["program"] + mark,
        f"{row['stock_cpu_s']:.2f}",
        *(ratio(modes.get(name), name == FAST) for name in names),
        f"{row['stock_peak_bytes'] / MIB:.1f}",
        *(peak(modes.get(name)) for name in names),
        str(row["stock_runs"]),
    )


def ratio(mode: Mapping[str, Any] | None, has_interval: bool) -> str:
    """CPU time over stock's."""
    if mode is None or mode["cpu_ratio"] is None:
        return ""
    low, typical, high = (mode["cpu_ratio"][name] for name in ("low", "typical", "high"))
    return f"{typical:.2f}x" + (f" ({low:.2f} to {high:.2f})" if has_interval else "")


def peak(mode: Mapping[str, Any] | None) -> str:
    """MiB; bold where it is above what it may be."""
    if mode is None:
        return ""
    text = f"{mode['peak_bytes'] / MIB:.1f}"
    return text if mode["is_peak_held"] else f"**{text}**"


def compared(row: Mapping[str, Any]) -> Sequence[str]:
    """What a program does and how its output is normalised."""
    return (row["program"], row["what"], row["normalisation"] or "none")
