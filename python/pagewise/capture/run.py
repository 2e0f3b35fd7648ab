"""Runs a program under QEMU with the capture plugin, and writes its references to a trace."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewise import _core
from pagewise.capture.process import emulation
from pagewise.capture.program import Program, find
from pagewise.capture.result import Captured
from pagewise.errors import (
    Missing,
    PagewiseError,
    UnreadableInput,
    UnwritableOutput,
    UsageError,
)
from pagewise.huge_pages import glibc, settings
from pagewise.recording import PathLike, Progress
from pagewise.references import named_signal, references_info
from pagewise.signals import Ended
from pagewise.storage import refuse_unwritable, replacing

if TYPE_CHECKING:
    from pagewise.measurements import CaptureResult

PLUGIN = Path(__file__).parent / "qemu_capture.so"
SCHEMA = "pagewise.capture/1"
FILTER_BLOCKS = 64
FILTER_BLOCKS_MIN = 4
"""The capture tells an instruction that reads and writes two blocks from two references."""


def capture(
    command: Sequence[str],
    output: PathLike,
    *,
    max_references: int | None = None,
    threads: bool = False,
    filter_blocks: int = FILTER_BLOCKS,
    requests_huge_pages: bool = False,
    force: bool = False,
    stdout: int | None = None,
    progress: Progress | None = None,
) -> CaptureResult:
    """Runs ``command`` and writes its memory references to the trace ``output``.

    ``max_references``: end the program after this many references. ``threads``: keep the references
    of all threads, in the order in which they ran, instead of the first thread's.
    ``filter_blocks``: how many of the blocks used last the filter holds, 4 to 64; TLBs with at
    least as many ways are counted exactly, and fewer blocks make the trace larger.
    ``requests_huge_pages``: as in a trial, glibc's malloc requests huge pages. ``force``:
    replace ``output`` once the new trace is complete. ``stdout``: descriptor for the program's
    standard output. ``progress`` is called as ``(references, 0)``.

    Ctrl-C and other ending signals end the program and everything it started, and keep what was
    captured; ``stop`` is then ``interrupt``, and ``ended_by`` the signal's number.

    Raises UsageError and UnreadableInput if the program cannot run, and UsageError if its malloc
    cannot request huge pages here; Missing if QEMU, the plugin or a library is missing;
    UnwritableOutput if the output cannot be written, or if the disk is full, and then says what is
    left; Ended if a signal arrived before the first reference.
    """
    if not FILTER_BLOCKS_MIN <= filter_blocks <= FILTER_BLOCKS:
        raise UsageError(
            f"a filter of {filter_blocks} blocks is not possible",
            hint=f"use {FILTER_BLOCKS_MIN} to {FILTER_BLOCKS}",
        )
    program = accepted(command, output, force)
    of_plugin = [f"max={max_references}"] if max_references else []
    of_plugin += ["threads=on"] if threads else []
    of_plugin += [f"filter={filter_blocks}"]
    asking = requesting() if requests_huge_pages else {}
    with ExitStack() as stack:
        # An existing file stays until the new trace is complete. A link is replaced, not followed.
        is_replaced = os.path.isfile(output) or (force and os.path.islink(output))
        trace = stack.enter_context(replacing(os.path.abspath(output))) if is_replaced else output
        options = {
            "follows_threads": threads,
            "filter_blocks": filter_blocks,
            "force": force,
            "progress": progress,
        }
        try:
            report = emulated(program, of_plugin, asking, stdout, command, trace, options)
        except UnreadableInput as error:
            if error.path != os.fspath(trace):
                raise
            reason = str(error).removeprefix(f"{error.path}: ")
            left = "as it was" if is_replaced else left_of(trace)
            raise unwritten(output, reason, left) from error
        if report["references"] == 0:
            os.unlink(trace)
            if report["ended_by"] is not None:
                raise Ended(report["ended_by"])
            alone = shlex.join([f"qemu-{program.architecture}", program.path])
            raise UnreadableInput(
                f"QEMU could not run {program.path} with the plugin",
                hint=f"see the messages of QEMU above; does `{alone}` work?",
                path=program.path,
            )
    return {
        "schema": SCHEMA,
        "trace": os.fspath(output),
        "command": list(command),
        "architecture": program.architecture,
        "references": report["references"],
        "instructions": report["instructions"],
        "reads": report["reads"],
        "writes": report["writes"],
        "steps": report["steps"],
        "file_bytes": report["file_bytes"],
        "stop": report["stop"],
        "cut": report["cut"],
        "processes": report.get("processes"),
        "ended_by": report["ended_by"],
        "exit_status": report.get("exit_status"),
        "signal": named_signal(report.get("signal")),
        "notes": notes(program, report, threads),
    }


def requesting() -> dict[str, str]:
    """The variable that makes glibc's malloc request huge pages; keeps tunables that are set.

    Raises UsageError if malloc would ignore it: glibc reads the general switch first.
    """
    if settings.present().get(settings.GENERAL) != "madvise":
        switch = settings.SWITCHES / settings.GENERAL
        raise UsageError(
            f"malloc requests huge pages only while {switch} is set to madvise",
            hint=f"echo madvise > {switch}",
        )
    tunables = glibc.asking(os.environ)[glibc.VARIABLE]
    if "," in tunables:  # where QEMU's -E begins the next variable
        raise UsageError(
            f"{glibc.VARIABLE} has a comma, which QEMU cannot pass on", hint="unset the variable"
        )
    return {glibc.VARIABLE: tunables}


def left_of(trace: PathLike) -> str:
    """The state of a trace whose capture failed."""
    try:
        count = references_info(trace)["references"]
    except PagewiseError:
        return "missing: nothing was kept"
    return f"whole up to its first {count:,} references; what came later is lost"


def unwritten(output: PathLike, reason: str, left: str) -> UnwritableOutput:
    """The error of a capture that cannot be written, for example to a full disk."""
    name = os.fspath(output)
    return UnwritableOutput(f"{name}: {reason}", path=name, hint=f"{name} is {left}")


def accepted(command: Sequence[str], output: PathLike, force: bool) -> Program:
    """The program of a command that may be captured to ``output``; raises as `capture` does."""
    if not command:
        raise UsageError("no command was given", hint="write it after --")
    if not os.fspath(output):
        raise UsageError("the trace has no name", hint="name it with -o")
    refuse_unwritable(Path(output), force=force)
    program = find(command)
    if is_among(output, (program.path, *program.arguments)):
        raise UsageError(
            f"{os.fspath(output)} is part of the command",
            hint="write the trace to another file",
            path=os.fspath(output),
        )
    return program


def emulated(
    program: Program,
    of_plugin: Sequence[str],
    environment: Mapping[str, str],
    stdout: int | None,
    command: Sequence[str],
    trace: PathLike,
    options: Mapping[str, Any],
) -> Captured:
    """Runs the program under QEMU into ``trace``; returns what was captured and the ending signal.

    ``of_plugin`` are the plugin's settings, ``environment`` is added to the program's;
    ``options`` are those of `_core.capture_references`.
    """
    qemu = program.qemu()
    if not PLUGIN.exists():
        raise Missing("the capture plugin is not built", hint="with gcc installed: make build")
    with ExitStack() as stack:
        read, write = pipe(stack)
        shared = memory(stack)
        channels = [f"stream={write}", f"shared={shared}"]
        plugin = ",".join([str(PLUGIN).replace(",", ",,"), *channels, *of_plugin])
        added = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
        emulator = [*qemu, *added, "-plugin", plugin, program.path, *program.arguments]
        with emulation() as running:
            try:
                running.start(emulator, (write, shared), stdout)
            finally:
                os.close(write)
            report = _core.capture_references(
                read,
                shared,
                os.fspath(trace),
                list(command),
                program.architecture,
                running.status,
                **{**options, "progress": running.watched(options["progress"])},
            )
    return {**report, "ended_by": running.ended_by}


def is_among(output: PathLike, words: Iterable[str]) -> bool:
    """Whether a word of the command names the file that the trace would replace."""
    return os.path.exists(output) and any(
        os.path.exists(word) and os.path.samefile(output, word) for word in words
    )


def pipe(stack: ExitStack) -> tuple[int, int]:
    """A pipe: the stack closes its reading end, the caller its writing end."""
    read, write = os.pipe()
    stack.callback(os.close, read)
    return read, write


def memory(stack: ExitStack) -> int:
    """Anonymous memory for the chunk that the plugin fills; the stack releases it."""
    shared = os.memfd_create("pagewise-capture")
    stack.callback(os.close, shared)
    os.ftruncate(shared, _core.capture_shared_bytes())
    return shared


def notes(program: Program, report: Captured, threads: bool) -> list[str]:
    """Notes on the parts of the run that the trace lacks."""
    started = report.get("processes") or {"threads": 1, "children": 0, "programs": 0}
    found = list(program.notes)
    if started["threads"] > 1 and not threads:
        found.append(
            f"only the first of {started['threads']} threads was captured; --threads keeps all"
        )
    if started["children"]:
        children = started["children"]
        found.append(
            "one child process was not followed"
            if children == 1
            else f"{children} child processes were not followed"
        )
    if started["programs"]:
        found.append(
            "it executed another program (execve), which was not followed; capture that itself"
        )
    return found
