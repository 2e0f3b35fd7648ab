"""Runs a program once in a mode: its outcome, its CPU time and its memory."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from programs.building import build, replaced
from programs.group import Group
from programs.modes import Mode, environment
from programs.outcome import outcome_text
from programs.places import BINARIES, INPUTS, SOURCES
from programs.program import Program
from programs.service import Service

SAMPLE_S = 0.005
GRACE_S = 5
"""How long other processes may end after the program itself."""


@dataclass(frozen=True)
class Ran:
    """One run; its figures cover all its processes."""

    outcome: str
    end: str
    """`status N`, `signal N` or `hung after N s`."""
    cpu_s: float
    peak_bytes: int
    charged_bytes: int
    wall_s: float
    is_loaded: bool
    """Whether a process was seen that had loaded the library."""
    served: int
    """Allocations that the library had served in a process when that was first seen."""


def run(program: Program, mode: Mode, place: Path) -> Ran:
    """Runs the program in an empty folder below `place`, and removes the folder afterwards."""
    for built in program.built:
        build(built)
    # A short path, equally long in every mode: socket paths have at most 107 bytes.
    folder = place / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    try:
        if program.prepare:
            program.prepare(folder)
        with Group(program.group_bytes, program.has_swap) as group:
            return run_in(group, program, mode, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_in(group: Group, program: Program, mode: Mode, folder: Path) -> Ran:
    """Runs the program until its end or the time limit, and reads the counters of the group."""
    streams = {name: folder.with_name(f"{folder.name}.{name}") for name in ("output", "errors")}
    with streams["output"].open("wb") as output, streams["errors"].open("wb") as errors:
        started = time.monotonic()
        process = subprocess.Popen(
            [*group.entering(), *program.caller, *mode.prefix, *command(program, folder)],
            cwd=folder,
            env=environment(str(folder)) | dict(program.variables) | dict(mode.variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        service = Service(group)
        is_hung = not waited(process, service, started + program.limit_s)
        wall_s = time.monotonic() - started
        is_left = not is_hung and not emptied(group)
        process.kill()  # in case it never entered the group
        group.end()
        process.wait()
    end = ending(process.returncode) if not is_hung else f"hung after {program.limit_s:g} s"
    contents = {name: path.read_bytes() for name, path in streams.items()}
    for path in streams.values():
        path.unlink()
    outcome = outcome_text(program, folder, end, contents, is_left)
    return Ran(
        outcome,
        end,
        group.cpu_s(),
        group.peak_bytes,
        group.charged_peak_bytes(),
        wall_s,
        service.is_loaded,
        service.allocations,
    )


def command(program: Program, folder: Path) -> list[str]:
    """The program's command with the paths of folders filled in."""
    places = {
        "FOLDER": str(folder),
        "SOURCES": str(SOURCES),
        "INPUTS": str(INPUTS),
        "BIN": str(BINARIES),
    }
    return [replaced(word, places) for word in program.words]


def waited(process: subprocess.Popen[bytes], service: Service, late: float) -> bool:
    """Waits for the process and samples its group; whether it ended in time."""
    while time.monotonic() < late:
        service.group.sample()
        service.look()
        try:
            process.wait(SAMPLE_S)
            return True
        except subprocess.TimeoutExpired:
            continue
    return False


def emptied(group: Group) -> bool:
    """Whether all other processes end within the grace."""
    late = time.monotonic() + GRACE_S
    while group.processes():
        if time.monotonic() > late:
            return False
        time.sleep(SAMPLE_S)
    return True


def ending(status: int) -> str:
    """How a process ended."""
    return f"status {status}" if status >= 0 else f"signal {-status}"
