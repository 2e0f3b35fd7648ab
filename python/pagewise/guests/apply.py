"""Chooses a page size for each guest of a host, and writes the files to start it with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pagewise.advice.page_size.advise import host_note, memory_of, unjudged
from pagewise.errors import PagewiseError, UnwritableOutput, UsageError
from pagewise.guests.spec import Guest, load
from pagewise.guests.start import Start, files, in_the_guest, set_aside, sizes, start
from pagewise.models.page_size import BASE_BYTES, Choice, choose
from pagewise.models.page_size_curves import Curves, cut_note, footprint_bytes
from pagewise.models.page_size_time import Machine, Storage, storage_of
from pagewise.recording import Progress
from pagewise.scratch import BESIDE, scratch
from pagewise.storage import making
from pagewise.units import format_size

if TYPE_CHECKING:
    from pagewise.measurements import Applied, GuestAnswer

SCHEMA = "pagewise.pagesize-apply/1"
ARCHITECTURES = {"x86_64": "x86-64", "i386": "x86-64", "aarch64": "arm64", "arm": "arm64"}
"""QEMU's names of the processors whose programs each guest runs, by architecture."""


def apply(
    path: str | Path,
    output: str | Path,
    curves_of: Callable[[Path], Curves],
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Applied:
    """Chooses for every guest in a file and writes ``OUTPUT/NAME/`` for each; changes nothing else.

    ``curves_of``: returns the curves of a workload's trace; called once per trace. The settings of
    a guest, with undo, are for inside the guest. Raises UsageError if the output exists, or before
    writing if a guest has no answer. Raises UnwritableOutput if a file cannot be written; it then
    leaves none.
    """
    guests, folder = load(path), Path(output)
    if folder.exists() and not force:
        raise UsageError(f"{folder} exists", path=str(folder), hint="use --force to write into it")
    known: dict[Path, Curves] = {}
    answers = []
    for number, guest in enumerate(guests):
        if guest.workload not in known:
            known[guest.workload] = curves_of(guest.workload)
        answers.append(_answer(path, guest, known[guest.workload]))
        if progress is not None:
            progress(number + 1, len(guests))
    _write(folder, {answer["name"]: written for answer, written in answers})
    for answer, written in answers:
        answer["files"] = [str(folder / answer["name"] / name) for name in written]
    return {"schema": SCHEMA, "guests": [answer for answer, _ in answers]}


def _answer(path: str | Path, guest: Guest, curves: Curves) -> tuple[GuestAnswer, dict[str, str]]:
    """The result for a guest, and the files to write."""
    try:
        memory_bytes = memory_of(guest.memory, footprint_bytes(curves))
        storage = storage_of(guest.storage)
        choice = choose(
            curves,
            memory_bytes,
            storage,
            sizes=sizes(guest),
            hardware=guest.hardware,
            terms=guest.terms,
        )
    except PagewiseError as error:
        error.args = (f"{path}: vm {guest.name!r}: {error}",)
        raise
    begun = start(guest, memory_bytes, choice.page_bytes)
    low, high = choice.gain_interval
    answer: GuestAnswer = {
        "name": guest.name,
        "workload": guest.workload.name,
        "architecture": guest.architecture,
        "storage": guest.storage,
        "memory_bytes": memory_bytes,
        "page_bytes": choice.page_bytes,
        "gain": {"low": low, "typical": choice.gain, "high": high},
        "ideal_bytes": choice.ideal_bytes,
        "regret": choice.regret,
        "footprint_factor": choice.footprint_factor,
        "kernel": None if begun.kernel is None else str(begun.kernel),
        "kernel_arguments": begun.kernel_arguments,
        "settings": [each.to_json() for each in in_the_guest(guest, choice.page_bytes)],
        "notes": [
            *_notes_of(curves, guest, choice),
            *_notes(guest, begun, choice.page_bytes),
            *_host_notes(curves, guest, choice, memory_bytes, storage),
        ],
    }
    if guest.terms.walk == "nested":
        answer["host_page_bytes"] = choice.page_bytes
    return answer, files(guest.name, begun)


def _notes_of(curves: Curves, guest: Guest, choice: Choice) -> list[str]:
    """Notes on a trace that is cut, or that is of another processor than the guest."""
    notes = cut_note(curves)
    if not any(size in choice.times for size in sizes(guest) if size != BASE_BYTES):
        notes += unjudged(choice, "the guest", sizes(guest))
    made_for = ARCHITECTURES.get(curves.architecture or "", guest.architecture)
    if made_for != guest.architecture:
        notes.append(
            f"its workload is a program for {made_for}, but the guest is {guest.architecture}"
        )
    return [f"{guest.name}: {note}" for note in notes]


def _host_notes(
    curves: Curves, guest: Guest, choice: Choice, memory_bytes: int, storage: Storage
) -> list[str]:
    """A note on the host's page size; none if the host holds the guest in pages of 2 MiB."""
    if guest.has_host_huge_pages:
        return []
    machine = Machine(storage, guest.hardware, guest.terms)
    notes = host_note(curves, choice, memory_bytes, machine)
    return [f"{guest.name}: {note}" for note in notes]


def _notes(guest: Guest, begun: Start, page_bytes: int) -> list[str]:
    """Notes on what you must do before you start the guest."""
    notes = []
    if guest.architecture == "arm64" and begun.kernel is None:
        notes.append(
            f"{guest.name} needs a kernel with base pages of {format_size(page_bytes)}, but the "
            "file names none under [kernels.arm64]"
        )
    if begun.host_pages:
        notes.append(
            f"{guest.name} needs {begun.host_pages} reserved pages of 2 MiB on the host; before "
            f"you start it: {set_aside(begun.host_pages)}"
        )
    if begun.kernel is not None and not begun.kernel.is_file():
        notes.append(f"{guest.name} starts from {begun.kernel}, which does not exist here")
    return notes


def _write(folder: Path, guests: dict[str, dict[str, str]]) -> None:
    """Writes all files to temporary names first, so that all guests get their files, or none."""
    with making(folder):
        try:
            with scratch(folder, BESIDE) as aside:
                for guest, written in guests.items():
                    (aside / guest).mkdir()
                    for name, text in written.items():
                        (aside / guest / name).write_text(text)
                for guest, written in guests.items():
                    (folder / guest).mkdir(exist_ok=True)
                    for name in written:
                        (aside / guest / name).replace(folder / guest / name)
        except OSError as error:
            raise UnwritableOutput(f"{folder}: {error.strerror}", path=str(folder)) from error
