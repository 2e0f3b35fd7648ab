"""Recordings: import foreign formats, read traces, slice them by time."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pagewise import _core
from pagewise.errors import UnreadableInput, UsageError
from pagewise.units import parse_recorded_time

if TYPE_CHECKING:
    import numpy

    from pagewise.types import Events, Header, ImportReport

Progress: TypeAlias = Callable[[int, int], object]
"""Called from time to time as ``progress(done, total)``, with ``total`` 0 if unknown. An exception
that it raises stops the work."""

PathLike: TypeAlias = str | os.PathLike[str]

MAPPINGS = ("swap", "block", "objects")
CLASSES = tuple(_core.classes())
"""Classes of pages: ``CLASSES[flags >> 4 & 7]`` for an event's flags."""
ROLES = tuple(_core.roles())
"""What a column of a CSV file may be (``map``)."""


@dataclass(frozen=True)
class Trace:
    """A recording, and how to read it. Nothing is read until it is needed.

    ``path`` is a trace file or any importable recording (``-`` is standard input);
    ``format``, ``as_`` and ``map`` are as for :func:`import_trace`.
    """

    path: str
    format: str | None = None
    as_: str | None = None
    map: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Trace({self.path!r})"

    @property
    def header(self) -> Header:
        """The header of the trace; a foreign recording is read completely for it."""
        return self.info()["header"]

    def sha256(self) -> str | None:
        """The sha256 of the recording's bytes; None if they cannot be read twice, as from a
        pipe."""
        import hashlib

        if not os.path.isfile(self.path):
            return None
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def info(self, *, progress: Progress | None = None) -> Events:
        """What the recording holds, what is absent or lost, and which analyses that rules out."""
        kind, result = _core.info(*self.arguments(), progress=progress)
        if kind != "events":
            wrong = f"{self.path} holds {kind}, not events of pages"
            raise UsageError(wrong, hint="pagewise.info shows what it holds")
        return cast("Events", result)

    def events(self) -> _core.ArrowStream:
        """The events in order, as an Arrow stream that can be read once.

        Columns: ``time_ns`` (int64, ns since the first event, null without a clock), ``kind``
        (dictionary of strings), ``page`` and ``process`` (uint32, numbered from 0 in order of
        appearance), ``flags`` (uint8: 1 dirty, 2 file, 4 major fault, 8 shared, 128 zeros;
        ``CLASSES[flags >> 4 & 7]`` names the page's class).
        """
        return _core.events(*self.arguments())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The events as an Arrow capsule: ``polars.DataFrame(trace)`` works."""
        return self.events().__arrow_c_stream__(requested_schema)

    def column(self, name: str, *, progress: Progress | None = None) -> numpy.ndarray[Any, Any]:
        """One column of the events as a read-only numpy array of shape (events,).

        ``time_ns`` int64 (ns), ``kind`` uint8 (the order of ``pagewise._core.kinds()``), ``page``
        and ``process`` uint32, ``flags`` uint8, and the identity of the page: ``space`` uint32 and
        ``address`` uint64 (docs/trace-file.md).
        """
        import numpy

        data, element = _core.column(*self.arguments(), name=name, progress=progress)
        return numpy.frombuffer(data, dtype=element)

    def arguments(self) -> tuple[str, str | None, str | None, list[tuple[str, str]]]:
        """The trace as an argument of the compiled functions. Raises UnreadableInput for a
        folder."""
        refuse_folder(self.path)
        return self.path, self.format, self.as_, list(self.map)


def read(
    path: PathLike | Trace,
    *,
    format: str | None = None,
    as_: str | None = None,
    map: Mapping[str, str] | str | None = None,
) -> Trace:
    """Describes a trace file or any importable recording, without reading it.

    ``format`` names the format if the content does not show it; ``as_`` and ``map`` are as in
    :func:`import_trace`. Raises UsageError for an unknown mapping or role; the first question opens
    the file.
    """
    if isinstance(path, Trace):
        return path
    if as_ is not None and as_ not in MAPPINGS:
        raise UsageError(f"no such mapping: {as_!r}", hint=f"one of {', '.join(MAPPINGS)}")
    return Trace(os.fspath(path), format, as_, parse_map(map))


def refuse_folder(path: PathLike) -> None:
    """Raises UnreadableInput for a folder, which holds recordings but is none."""
    name = os.fspath(path)
    if name != "-" and os.path.isdir(name):
        raise UnreadableInput(
            f"{name}: is a folder, not a recording",
            path=name,
            hint=f"name a recording in it; for all of them: pagewise analyze {shlex.quote(name)}",
        )


def parse_map(columns: Mapping[str, str] | str | None) -> tuple[tuple[str, str], ...]:
    """Pairs of role and column from ``time=ts,op=rw`` or a dictionary."""
    if not columns:
        return ()
    if isinstance(columns, str):
        pairs = [tuple(part.split("=", 1)) for part in columns.split(",")]
        if any(len(pair) != 2 for pair in pairs):
            raise UsageError(f"not a list of ROLE=COLUMN: {columns!r}", hint="e.g. time=ts,id=lbn")
        named = [role.strip() for role, _ in pairs]
        if twice := sorted({role for role in named if named.count(role) > 1}):
            raise UsageError(f"two columns for {', '.join(twice)}", hint="a role has one column")
        columns = {role.strip(): column.strip() for role, column in pairs}
    for role in columns:
        if role not in ROLES:
            raise UsageError(f"no such role: {role!r}", hint=f"one of {', '.join(ROLES)}")
    return tuple(columns.items())


def import_trace(
    inputs: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    format: str | None = None,
    as_: str | None = None,
    map: Mapping[str, str] | str | None = None,
    strict: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Converts recordings of a known format, merged by time, to one trace file.

    ``format``: a name from ``pagewise list formats``; by default, by content. ``as_``: ``"block"``
    splits requests into 4 KiB pages, ``"objects"`` takes each record as one access to the object
    its id names. ``map``: the columns of a CSV file by role. ``strict``: fail at a line that cannot
    be read, instead of counting it. ``force``: replace ``output``.

    Returns counts of events, accesses, pages, skipped records and losses. Raises UnreadableInput,
    UsageError, UnwritableOutput; ``output`` is written completely or not at all.
    """
    paths = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    trace = read(paths[0] if paths else "-", format=format, as_=as_, map=map)
    for path in paths:
        refuse_folder(path)
    return _core.import_trace(
        [os.fspath(path) for path in paths],
        os.fspath(output),
        trace.format,
        trace.as_,
        list(trace.map),
        strict=strict,
        force=force,
        progress=progress,
    )


def slice_trace(
    path: PathLike,
    output: PathLike,
    *,
    start: str | float | None = None,
    stop: str | float | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Header:
    """Copies the events from ``start`` (included) to ``stop`` (excluded) of a trace file.

    Times count from the first event: ``"10s"``, ``"1500ms"``, a number in seconds. Events before
    which the clock stepped back to an earlier time than the first event's have negative times.
    """
    from_ns, to_ns = (None if when is None else parse_recorded_time(when) for when in (start, stop))
    if from_ns is not None and to_ns is not None and from_ns >= to_ns:
        raise UsageError(
            f"the time from {start} to {stop} is empty", hint="the end must be after the start"
        )
    refuse_folder(path)
    return _core.slice_trace(
        os.fspath(path),
        os.fspath(output),
        from_ns=from_ns,
        to_ns=to_ns,
        force=force,
        progress=progress,
    )
