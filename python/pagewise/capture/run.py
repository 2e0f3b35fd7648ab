"""Runs a program under QEMU with the capture plugin, and keeps its references as they come."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pagewise import _core
from pagewise.capture.process import emulation
from pagewise.capture.program import Program, find
from pagewise.errors import (
    Missing,
    PagewiseError,
    UnreadableInput,
    UnwritableOutput,
    UsageError,
)
from pagewise.recording import PathLike, Progress
from pagewise.references import named_signal, references_info
from pagewise.signals import Ended
from pagewise.storage import refuse_unwritable, replacing

PLUGIN = Path(__file__).parent / "qemu_capture.so"
SCHEMA = "pagewise.capture/1"


def capture(
    command: Sequence[str],
    output: PathLike,
    *,
    max_references: int | None = None,
    threads: bool = False,
    force: bool = False,
    stdout: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Runs ``command`` and writes its memory references to the trace ``output``.

    ``max_references``: end the program after so many. ``threads``: keep the references of all
    threads, in the order in which they came, instead of the first thread's. ``force``: overwrite
    ``output`` once the new trace is whole. ``stdout``: descriptor for the program's standard
    output. ``progress`` is called as ``(references, 0)``.

    Returns ``references``, ``instructions``, ``reads``, ``writes``, ``steps`` (references that the
    filter let through), ``file_bytes``, ``stop`` (``end``, ``limit``, ``interrupt``, ``closed``),
    ``processes`` {threads, children, programs}, ``exit_status`` or ``signal`` of the program where
    it ended by itself, and ``notes``. Ctrl-C and the other signals that end a process end the
    program and all that it started, and keep what was captured: ``stop`` is ``interrupt`` then, and
    ``ended_by`` the signal's number.

    Raises UsageError and UnreadableInput for a program that cannot be run, Missing where QEMU, the
    plugin or a library is not there, UnwritableOutput before the program is started or where the
    disk is full, saying what is left, Ended where a signal came before the first reference.
    """
    program = accepted(command, output, force)
    settings = [f"max={max_references}"] if max_references else []
    settings += ["threads=on"] if threads else []
    with ExitStack() as stack:
        # What is there stays until the new trace is whole.
        is_replaced = os.path.isfile(output)
        trace = stack.enter_context(replacing(os.path.realpath(output))) if is_replaced else output
        told = {"follows_threads": threads, "force": force, "progress": progress}
        try:
            report = emulated(program, settings, stdout, command, trace, told)
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
                hint=f"what it said stands above; does `{alone}` work?",
                path=program.path,
            )
    return {
        "schema": SCHEMA,
        "trace": os.fspath(output),
        "command": list(command),
        "architecture": program.architecture,
        **report,
        "exit_status": report.get("exit_status"),
        "signal": named_signal(report.get("signal")),
        "notes": notes(program, report, threads),
    }


def left_of(trace: PathLike) -> str:
    """What is in a trace whose capture broke off."""
    try:
        count = references_info(trace)["references"]
    except PagewiseError:
        return "not there: nothing was kept"
    return f"whole up to its first {count:,} references; what came later is lost"


def unwritten(output: PathLike, reason: str, left: str) -> UnwritableOutput:
    """The error of a capture that cannot be written, as on a full disk."""
    name = os.fspath(output)
    return UnwritableOutput(f"{name}: {reason}", path=name, hint=f"{name} is {left}")


def accepted(command: Sequence[str], output: PathLike, force: bool) -> Program:
    """The program of a command that can be captured to ``output``; raises as `capture` does."""
    if not command:
        raise UsageError("no command was given", hint="it comes after --")
    if not os.fspath(output):
        raise UsageError("the trace has no name", hint="write it after -o")
    refuse_unwritable(Path(output), force=force)
    program = find(command)
    if is_among(output, (program.path, *program.arguments)):
        raise UsageError(
            f"{os.fspath(output)} belongs to the command",
            hint="write the trace to another file",
            path=os.fspath(output),
        )
    return program


def emulated(
    program: Program,
    settings: Sequence[str],
    stdout: int | None,
    command: Sequence[str],
    trace: PathLike,
    told: Mapping[str, Any],
) -> dict[str, Any]:
    """Runs the program under QEMU into ``trace``: what was captured, and which signal ended that.

    ``settings`` are the plugin's own; ``told`` the options of `_core.capture_references`.
    """
    qemu = program.qemu()
    if not PLUGIN.exists():
        raise Missing("the capture plugin is not built", hint="run make build; it takes gcc")
    with ExitStack() as stack:
        read, write = pipe(stack)
        shared = memory(stack)
        channels = [f"stream={write}", f"shared={shared}"]
        plugin = ",".join([str(PLUGIN).replace(",", ",,"), *channels, *settings])
        emulator = [*qemu, "-plugin", plugin, program.path, *program.arguments]
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
                **{**told, "progress": running.watched(told["progress"])},
            )
    return {**report, "ended_by": running.ended_by}


def is_among(output: PathLike, words: Iterable[str]) -> bool:
    """Whether a word of the command names the very file that the trace would replace."""
    return os.path.exists(output) and any(
        os.path.exists(word) and os.path.samefile(output, word) for word in words
    )


def pipe(stack: ExitStack) -> tuple[int, int]:
    """A pipe whose reading end is closed with the stack; the other is the caller's to close."""
    read, write = os.pipe()
    stack.callback(os.close, read)
    return read, write


def memory(stack: ExitStack) -> int:
    """Memory without a name for the chunk that the plugin fills; gone with the stack."""
    shared = os.memfd_create("pagewise-capture")
    stack.callback(os.close, shared)
    os.ftruncate(shared, _core.capture_shared_bytes())
    return shared


def notes(program: Program, report: dict[str, Any], threads: bool) -> list[str]:
    """What the user should know of what the trace has not."""
    started = report["processes"]
    told = list(program.notes)
    if started["threads"] > 1 and not threads:
        told.append(
            f"of {started['threads']} threads the first alone was captured; --threads keeps all"
        )
    if started["children"]:
        children = started["children"]
        told.append(
            "one child process was not followed"
            if children == 1
            else f"{children} child processes were not followed"
        )
    if started["programs"]:
        told.append(
            "it became another program (execve), which was not followed; capture that one itself"
        )
    return told
