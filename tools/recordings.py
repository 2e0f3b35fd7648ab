#!/usr/bin/env python3
"""Makes the launch runs of lab/matrix.toml, or lists them.

    .venv/bin/python tools/recordings.py OUT [--row NAME]...     as root, on a quiet machine
    .venv/bin/python tools/recordings.py --list                  the rows with their minutes

OUT gets a folder for each row and in it one for each run, always recorded. A run that can carry a
verdict is kept, so an interrupted series resumes; one that cannot is made again, once. Delete OUT
after a change of the matrix that is to change budgets. Ctrl-C ends the run in progress and undoes
its changes. Status 1: some run can carry no verdict, and the last lines say which and why.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pagewise.errors import UnreadableInput
from pagewise.launch_runs import LaunchRun, read_run
from pagewise.units import MIB, format_seconds

ROOT = Path(__file__).resolve().parents[1]
PLANS = ROOT / "lab" / "plans"
MATRIX = ROOT / "lab" / "matrix.toml"
AGENT = Path(sys.executable).parent / "pagewise-agent"
DISK = "disk"
ATTEMPTS = 2
POLICIES = ("flash", "hierarchical", "hybrid-clock", "hybrid", "nvm-cache", "adaptive")
LOG = "visits.csv"
"""The log of visits of a row, beside its plans."""
SWAP_SIZE = "4GiB"
SWAPPED = {"swap_size": SWAP_SIZE, "swappiness": 100}
S2_LEVELS = "1024:0,4096:470"
"""S2's levels, 4 and 16 MiB; cached applications have an adj of 470 and more."""
S2_KILLERS = {
    "serial": {"kills": "serial", "reclaim": "never"},
    "batch": {"kills": "batch", "reclaim": "never"},
    "first": {"kills": "serial", "reclaim": "first"},
    "free": {"kills": "serial", "reclaim": "never", "file_cache_counts": False},
}
"""How killd kills in the runs for S2. The last compares only free pages with its levels, as S2 does;
the others compare file pages, too, as Android's driver does."""


@dataclass(frozen=True)
class MatrixRow:
    """A row of lab/matrix.toml, which says what each field means."""

    name: str
    answers: str
    plan: str
    rounds: int
    swap: Sequence[str]
    repeats: int
    minutes: float
    footprint: str = ""
    budgets: Sequence[float] = ()
    storage: str = DISK
    log_times: int = 1

    def runs(self) -> Iterator[PlannedRun]:
        """The runs, repeat after repeat, so that a slow hour does not meet one kind only."""
        for repeat in range(self.repeats):
            for budget in self.budgets or (None,):
                for swap in self.swap:
                    yield PlannedRun(self, swap, budget, repeat)

    @property
    def minutes_all(self) -> float:
        """The minutes of all its runs."""
        return self.minutes * len(list(self.runs()))


@dataclass(frozen=True)
class PlannedRun:
    """One run of a row; ``budget`` is a share of the footprint, None without a limit."""

    row: MatrixRow
    swap: str
    budget: float | None
    repeat: int

    @property
    def name(self) -> str:
        """The name of its folder, such as ``hybrid-32MiB-40-0``."""
        swap = self.swap.replace(":", "-").replace("=", "-")
        share = "" if self.budget is None else f"-{self.budget * 100:g}"
        return f"{swap}{share}-{self.repeat}"

    def log(self) -> str | None:
        """The log of visits, repeated as often as the row says; None without one."""
        schedule = tomllib.loads((PLANS / f"{self.row.plan}.toml").read_text()).get("schedule", {})
        if "file" not in schedule:
            return None
        header, *visits = (PLANS / schedule["file"]).read_text().splitlines()
        return "\n".join([header, *visits * self.row.log_times]) + "\n"

    def plan(self, footprint_bytes: int | None) -> dict[str, Any]:
        """The plan as a dictionary; ``footprint_bytes`` is needed if the run has a budget."""
        plan = tomllib.loads((PLANS / f"{self.row.plan}.toml").read_text())
        kind, _, rest = self.swap.partition(":")
        argument, _, option = rest.partition(":")
        for name in ("mode", "swap_size", "swappiness", "kill", "minfree"):
            plan.pop(name, None)
        if self.budget is not None or kind == "no-limit":
            plan.pop("balloon", None)
            plan.pop("budget", None)
        plan["name"] = f"{self.row.name}-{self.name}"
        plan["rounds"] = self.row.rounds
        plan["seed"] = self.repeat + 1
        # The plan's own files stay in its folder.
        plan["include"] = f"../lab/plans/{plan['include']}"
        if "file" in plan.get("schedule", {}):
            plan["schedule"]["file"] = LOG
        if self.budget is not None:
            assert footprint_bytes, "a budget needs a footprint"
            plan["budget"] = f"{round(self.budget * footprint_bytes / MIB)}MiB"
        is_emulated = self.row.storage != DISK
        if is_emulated:
            plan["storage"] = {"files": self.row.storage}
        match kind:
            case "no-limit":
                plan["mode"] = kind
            case "swap-file":
                plan |= {"mode": kind, **SWAPPED}
            case "kill":
                plan |= {"mode": kind, "kill": {"threshold": float(argument)}}
            case "minfree":
                plan |= {"mode": kind}
            case "s2":
                plan |= {
                    "mode": "minfree",
                    "minfree": {"levels": S2_LEVELS, **S2_KILLERS[argument]},
                }
            case _ if kind not in POLICIES:
                raise ValueError(f"{self.row.name}: no way to swap is called {self.swap!r}")
            case _:
                tiers: dict[str, Any] = {"policy": kind, "fast": argument or "4KiB"}
                if option:
                    name, _, value = option.partition("=")
                    tiers["options"] = {name: value}
                if is_emulated:
                    tiers["emulate"] = {"slow": self.row.storage}
                plan |= {"mode": "tiers", "tiers": tiers, **SWAPPED}
        return plan


def rows(path: Path = MATRIX) -> list[MatrixRow]:
    """The rows of the matrix. Raises TypeError for an unknown field."""
    return [MatrixRow(**row) for row in tomllib.loads(path.read_text())["row"]]


def written(plan: Mapping[str, Any]) -> str:
    """A plan as TOML; strings, numbers and lists are written as in JSON."""
    plain = {name: value for name, value in plan.items() if not isinstance(value, dict)}
    tables = {name: value for name, value in plan.items() if isinstance(value, dict)}
    lines = [f"{name} = {_value(value)}" for name, value in (plain | tables).items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_value(inner)}" for name, inner in value.items()) + " }"
    return json.dumps(value)


def table(found: Sequence[MatrixRow]) -> str:
    """The matrix as a table of Markdown, with the minutes of each row and of all."""
    lines = [
        "| row | answers | plan, rounds | budgets | storage | swap | runs | minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        own = "no limit" if row.swap == ["no-limit"] else "the plan's"
        budgets = ", ".join(f"{budget:g}" for budget in row.budgets) or own
        count = len(list(row.runs()))
        lines.append(
            f"| `{row.name}` | {row.answers} | `{row.plan}`, {row.rounds} | {budgets} | "
            f"{row.storage} | {', '.join(row.swap)} | {count} | {row.minutes_all:g} |"
        )
    count = sum(len(list(row.runs())) for row in found)
    minutes = sum(row.minutes_all for row in found)
    lines.append(f"| all | | | | | | {count} | {minutes:g} |")
    return "\n".join(lines)


def finished(folder: Path) -> LaunchRun | None:
    """The run in ``folder`` if it was finished."""
    with contextlib.suppress(UnreadableInput):
        run = read_run(folder)
        return None if run.unfinished else run
    return None


def footprint_bytes(out: Path, row: str) -> int | None:
    """The footprint of a row: the median over its valid runs of the largest anonymous memory of all
    applications, which is what swap takes; None without a valid run. The first budget fixes it in
    footprint.txt, so that all runs have the same budget."""
    kept = out / row / "footprint.txt"
    with contextlib.suppress(OSError, ValueError):
        return int(kept.read_text())
    found = [finished(path.parent) for path in sorted((out / row).glob("*/run.toml"))]
    largest = [
        max(visit.anonymous_bytes for visit in run.visits)
        for run in found
        if run and run.invalid_because == ()
    ]
    if not largest:
        return None
    memory = round(median(largest))
    kept.write_text(f"{memory}\n")
    return memory


def launch(plan: Path, folder: Path) -> int:
    """Runs a plan and waits for its end; after Ctrl-C too, so that it undoes its changes."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [AGENT, "launch", plan, "-o", folder, "--record"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise


def make(out: Path, planned: PlannedRun) -> str:
    """Makes a run, unless it was made of the same plan and can carry a verdict. Returns why it can
    carry none; empty if it can."""
    folder = out / planned.row.name / planned.name
    folder.parent.mkdir(parents=True, exist_ok=True)
    # `launch` looks for the applications in a folder `lab` beside the plan or above it.
    with contextlib.suppress(FileExistsError):
        (out / "lab").symlink_to(PLANS.parent)
    memory = footprint_bytes(out, planned.row.footprint) if planned.row.budgets else None
    if planned.row.budgets and memory is None:
        return f"the row {planned.row.footprint} has no valid run, and so gives no budget"
    text = written(planned.plan(memory))
    plan = folder.with_name(f"{folder.name}.toml")
    is_same = plan.is_file() and plan.read_text() == text
    run = finished(folder) if is_same else None
    if run and run.invalid_because == ():
        return ""
    why = ""
    for _ in range(ATTEMPTS if run is None else ATTEMPTS - 1):
        plan.write_text(text)
        if log := planned.log():
            (folder.parent / LOG).write_text(log)
        status = launch(plan, folder)
        run = finished(folder)
        if run is None:
            return f"status {status} of pagewise-agent launch {plan}"
        why = "; ".join(run.invalid_because or ())
        if not why:
            return ""
    return why


def main() -> int:
    """Lists the rows, or makes the runs of those asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT")
    parser.add_argument("--row", action="append", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    every = rows()
    if unknown := sorted(set(arguments.row or ()) - {row.name for row in every}):
        parser.error(f"no row {', '.join(unknown)}; --list shows them")
    chosen = [row for row in every if not arguments.row or row.name in arguments.row]
    if arguments.list:
        print(table(chosen))
        return 0
    if arguments.out is None:
        parser.error("give a folder for the runs, or --list")
    arguments.out.mkdir(parents=True, exist_ok=True)
    planned = [run for row in chosen for run in row.runs()]
    failed: dict[str, str] = {}
    left = sum(run.row.minutes for run in planned)
    for number, run in enumerate(planned, 1):
        name = f"{run.row.name}/{run.name}"
        rest = format_seconds(left * 60)
        print(f"{number}/{len(planned)} {name}; about {rest} left", flush=True)
        began = time.monotonic()
        if why := make(arguments.out, run):
            failed[name] = why
            print(f"  can carry no verdict: {why}", flush=True)
        elif time.monotonic() - began < 1:
            print("  kept", flush=True)
        left -= run.row.minutes
    for name, why in failed.items():
        print(f"{name}: can carry no verdict: {why}")
    return int(bool(failed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
