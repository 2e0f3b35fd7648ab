"""Exact TLB misses and page faults of a program at every page size, from one pass.

A reference trace has passed a filter that holds the 64 blocks of 512 bytes used last, or fewer.
Counts here are exact from 64 entries or frames up, and lower bounds with fewer than the filter has
blocks. Source: LRU stack distances
(Mattson et al. 1970); dirty levels (Thompson and Smith 1989) for write-backs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from pagewise import _core
from pagewise.errors import UnreadableInput, UsageError
from pagewise.policies import policies_in
from pagewise.recording import PathLike, Progress
from pagewise.units import parse_size

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import ArrayLike, NDArray

    from pagewise.answers import CountsByPageSize, CurvesResult
    from pagewise.types import AccessHeat, MinorFaults, ReadAheadFaults, ReadAheadRun, SizeCounts

    Counts = NDArray[int64]

KINDS = ("instruction", "read", "write")
"""Kinds of references; an instruction that reads and writes counts as a write."""

PAGE_SIZES = tuple(512 << step for step in range(13))
"""512 bytes to 2 MiB: the sizes with curves."""

EXACT_FROM = 64
"""Counts are exact from this many entries or frames on, whatever the filter of the trace."""

FRAMES_MAX = 2**32 - 1
"""Most frames of a memory with a policy or read-ahead, which is simulated separately."""
ENTRIES_MAX = 2**20
"""Most entries of a set-associative TLB, which all take memory; processors have some thousands."""
TLB = "64"
"""The first TLB: 64 entries, fully associative."""

Sizes = int | str | Iterable[int | str]
Named = TypeVar("Named", int, str, int | str)


@dataclass(frozen=True)
class ReadAheadCounts:
    """Counts of an LRU memory that reads a whole window of pages on a fault."""

    faults: int
    """Faults; each reads storage once."""
    cold: int
    """Faults on pages that were never used before."""
    brought: int
    """Pages that a fault on another page brought in."""
    unused: int
    """Of the pages brought in, those evicted before any use."""

    def to_json(self) -> ReadAheadFaults:
        """The form in results."""
        return {
            "faults": self.faults,
            "cold": self.cold,
            "brought": self.brought,
            "unused": self.unused,
        }


@dataclass(frozen=True)
class PageSizeCurve:
    """Counts for pages of one size under LRU; every count includes cold misses."""

    page_bytes: int
    pages: int
    """Distinct pages that the whole trace references."""
    cold_by_kind: Mapping[str, int]
    """First references to a page, by kind."""
    second_tlb_misses: Mapping[str, int]
    """Misses in the first TLB of `curves` and then in a second one, by ENTRIESxWAYS."""
    misses_by_kind: Counts = field(repr=False)
    """A row for each of ``KINDS``: misses with 0, 1, 2, ... frames; then the last value repeats."""
    write_backs_by_frames: Counts = field(repr=False)
    """Dirty pages evicted with 0, 1, 2, ... frames; then the last value, 0, repeats."""
    associative_by_kind: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Misses of set-associative first TLBs, by ENTRIESxWAYS and kind."""
    lower_bounds: frozenset[str] = frozenset()
    """Set-associative TLBs that may miss more often, because the filter hid references."""
    policy_faults: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Page faults under policies other than LRU, by name and frames: close, not exact."""
    read_ahead: Mapping[int, Mapping[int, ReadAheadCounts]] = field(default_factory=dict)
    """LRU memories with read-ahead, by pages of the window and frames."""

    @property
    def cold(self) -> int:
        """First references to a page among those counted, which miss at every size."""
        return sum(self.cold_by_kind.values())

    @property
    def cold_written(self) -> int:
        """First references that wrote."""
        return self.cold_by_kind["write"]

    def faults(self, frames: ArrayLike, *, kind: str | None = None) -> Counts:
        """Page faults by memory size in frames; ``kind`` limits them to one of ``KINDS``.

        Raises UsageError for a memory without frames, and for an unknown kind.
        """
        return at(self.misses if kind is None else self.misses_of(kind), frames, "frame")

    def tlb_misses(self, entries: ArrayLike, *, kind: str | None = None) -> Counts:
        """Misses of fully associative TLBs by number of entries; ``kind`` as in `faults`."""
        return at(self.misses if kind is None else self.misses_of(kind), entries, "entry")

    def misses_of_tlb(self, tlb: str, *, kind: str | None = None) -> int:
        """Misses of a first TLB: ``"64"`` is fully associative, ``"64x4"`` has sets of 4.

        Raises UsageError for a set-associative TLB that `curves` was not asked for.
        """
        if "x" not in tlb:
            return int(self.tlb_misses(int(tlb), kind=kind))
        if tlb not in self.associative_by_kind:
            raise UsageError(f"no TLB of {tlb} was counted", hint="give it to curves as tlb")
        counts = self.associative_by_kind[tlb]
        return sum(counts.values()) if kind is None else counts[kind]

    def write_backs(self, frames: ArrayLike) -> Counts:
        """Dirty pages evicted, by memory size in frames: writes to storage.

        Excludes pages that are dirty when the program ends.
        """
        return at(self.write_backs_by_frames, frames, "frame")

    @cached_property
    def misses(self) -> Counts:
        """Misses of all kinds with 0, 1, 2, ... frames; then the last value repeats."""
        total: Counts = self.misses_by_kind.sum(axis=0)
        return total

    def misses_of(self, kind: str) -> Counts:
        """The misses of one kind."""
        if kind not in KINDS:
            raise UsageError(f"no kind of reference {kind!r}", hint=f"one of {', '.join(KINDS)}")
        row: Counts = self.misses_by_kind[KINDS.index(kind)]
        return row


@dataclass(frozen=True)
class Curves:
    """Counts of one program for every requested page size."""

    trace: str
    instructions: int
    reads: int
    writes: int
    steps_by_kind: Mapping[str, int]
    sizes: Mapping[int, PageSizeCurve]
    """Curves by page size in bytes, ascending."""
    architecture: str | None = None
    """The processor of a captured program, as QEMU names it."""
    cut: str | None = None
    """Why the counts cover only a part of the run; None if they cover the whole run."""
    from_reference: int = 0
    """References at the start that fill TLBs and memories, and are not counted."""
    exact_from: int = EXACT_FROM
    """Blocks of the filter: counts are exact from this many entries, ways or frames."""
    minor_faults: Mapping[int, MinorFaults] | None = None
    """Minor faults of the whole trace with ample memory, by bytes of a huge page (4096: none);
    None for a trace without mappings."""
    heat: AccessHeat | None = None
    """References that missed the filter of the trace, by place in the trace and address."""

    @property
    def references(self) -> int:
        """Instructions, reads and writes that were counted; a reference that crosses a page counts
        once, for both pages."""
        return self.instructions + self.reads + self.writes - self.from_reference

    @property
    def steps(self) -> int:
        """References that missed the filter; they stand for those that leave a small cache."""
        return sum(self.steps_by_kind.values())

    def as_dict(self, *, frames: Sizes, tlb: Sizes = ()) -> CurvesResult:
        """The object of ``pagewise curves --json``; keys of counts are texts.

        ``frames``: numbers, or sizes with a unit, which mean as many frames as fit; a size that
        fits none is left out. ``tlb``: entries, or ENTRIESxWAYS. ``policy_faults``
        and ``read_ahead`` are of the memories given to `curves`.
        """
        entries = tlbs_of(tlb)
        memories = {size: [*filter(None, frames_of(frames, size))] for size in self.sizes}
        return {
            "schema": "pagewise.curves/1",
            "trace": self.trace,
            "references": self.references,
            "instructions": self.instructions,
            "reads": self.reads,
            "writes": self.writes,
            "steps": self.steps,
            "cut": self.cut,
            "from_reference": self.from_reference,
            "exact_from": self.exact_from,
            "lower_bounds": {
                str(size): [tlb for tlb in entries if self.is_lower_bound(size, tlb)]
                for size in self.sizes
            },
            "minor_faults": None
            if self.minor_faults is None
            else {str(size): counts for size, counts in self.minor_faults.items()},
            "heat": self.heat,
            "pages": {str(size): curve.pages for size, curve in self.sizes.items()},
            **self.misses(memories, entries, None),
            "write_backs": {
                str(size): counted(memories[size], curve.write_backs(memories[size]))
                for size, curve in self.sizes.items()
            },
            "second_tlb_misses": {
                str(size): dict(curve.second_tlb_misses) for size, curve in self.sizes.items()
            },
            "policy_faults": {
                str(size): {
                    policy: {str(frames): faults for frames, faults in counts.items()}
                    for policy, counts in curve.policy_faults.items()
                }
                for size, curve in self.sizes.items()
            },
            "read_ahead": {
                str(size): {
                    str(window): {str(frames): did.to_json() for frames, did in counts.items()}
                    for window, counts in curve.read_ahead.items()
                }
                for size, curve in self.sizes.items()
            },
            "by_kind": {kind: self.misses(memories, entries, kind) for kind in KINDS},
        }

    def is_lower_bound(self, page_bytes: int, tlb: str) -> bool:
        """Whether a first TLB may miss more often than was counted."""
        if "x" in tlb:
            return tlb in self.sizes[page_bytes].lower_bounds
        return int(tlb) < self.exact_from

    def misses(
        self, memories: Mapping[int, Sequence[int]], tlbs: Sequence[str], kind: str | None
    ) -> CountsByPageSize:
        """Cold misses, faults and TLB misses by page size, for one kind of reference or all."""
        return {
            "cold": {
                str(size): curve.cold if kind is None else curve.cold_by_kind[kind]
                for size, curve in self.sizes.items()
            },
            "faults": {
                str(size): counted(memories[size], curve.faults(memories[size], kind=kind))
                for size, curve in self.sizes.items()
            },
            "tlb_misses": {
                str(size): {tlb: curve.misses_of_tlb(tlb, kind=kind) for tlb in tlbs}
                for size, curve in self.sizes.items()
            },
        }


def curves(
    trace: PathLike,
    *,
    page_sizes: Sizes = PAGE_SIZES,
    tlb: Sizes = TLB,
    second_tlb: str | Sequence[str] = (),
    policy: str | Sequence[str] = (),
    read_ahead: Sizes = (),
    frames: Sizes = (),
    huge_pages: Sizes = (),
    huge_pages_always: bool = False,
    from_reference: int = 0,
    progress: Progress | None = None,
) -> Curves:
    """TLB misses and page faults of a program by page size, from one pass over its trace.

    ``trace``: a reference trace (``.pwf``). ``page_sizes``: bytes or sizes (``"4KiB"``), powers of
    two from 512 bytes to 2 MiB. ``tlb``: first TLBs; ``"64x4"`` has 64 entries in sets of 4, ``64``
    is fully associative. ``second_tlb``: TLBs behind the first of ``tlb``, as in ``"1536x12"``.
    ``policy``: names from ``pagewise list policies``; policies
    see only the steps of the filter, so their faults are close, not exact. ``read_ahead``: pages of
    a window, powers of two up to 1024. These two need ``frames``: numbers, or sizes with a unit;
    sizes of fewer than 64 frames are skipped. ``huge_pages``: sizes of transparent huge pages, from
    4 KiB to 2 MiB, for which minor faults are counted: those of a kernel that gives them to memory
    for which they are requested or, with ``huge_pages_always``, to all private memory without a
    file. ``from_reference``: references before this
    one fill TLBs and memories, but only later ones are counted; the start-up of a program is left
    out.

    Memory: some hundred bytes per distinct page. Raises UnreadableInput for any other file,
    UsageError for unknown names and impossible sizes.
    """
    sizes = sizes_of(page_sizes)
    tlbs, second_tlbs, policies, windows = (
        tlbs_of(tlb),
        texts(second_tlb),
        policies_in(policy),
        whole_numbers(read_ahead),
    )
    memories = {size: judged(frames_of(frames, size)) for size in sizes}
    if not (policies or windows):
        memories = {}  # LRU counts all memories at once
    elif not listed(frames):
        raise UsageError("policies and read-ahead need memory sizes", hint="add --frames")
    for count in (*windows, *(count for counts in memories.values() for count in counts)):
        refuse_beyond(FRAMES_MAX, count)
    question = {
        "page_bytes": sizes,
        "first_tlbs": [first_geometry_of(text) for text in tlbs],
        "second_tlbs": [geometry_of(text) for text in second_tlbs],
        "policies": policies,
        "memories": list(memories.items()),
        "read_aheads": [
            {"page_bytes": size, "frames": count, "window": window}
            for size, counts in memories.items()
            for count in counts
            for window in windows
        ],
        "huge_page_bytes": sizes_of(huge_pages) if listed(huge_pages) else [],
        "huge_pages_always": huge_pages_always,
        "from_reference": from_reference,
    }
    path = os.fspath(trace)
    answer, columns = _core.reference_curves(path, json.dumps(question), progress=progress)
    if not sum(answer["steps"].values()):
        raise UnreadableInput(f"{path}: has no references, so there is nothing to count", path=path)
    width = len(columns) // len(sizes)
    return Curves(
        trace=str(path),
        instructions=answer["instructions"],
        reads=answer["reads"],
        writes=answer["writes"],
        steps_by_kind=answer["steps"],
        sizes={
            answered["page_bytes"]: curve_of(
                answered,
                columns[rank * width : (rank + 1) * width],
                tlbs,
                second_tlbs,
                answer["read_aheads"],
            )
            for rank, answered in enumerate(answer["sizes"])
        },
        architecture=answer["architecture"],
        cut=answer["cut"],
        from_reference=from_reference,
        exact_from=answer["filter_blocks"],
        minor_faults=None
        if answer["minor_faults"] is None
        else {faults["page_bytes"]: faults for faults in answer["minor_faults"]},
        heat=answer["heat"],
    )


def curve_of(
    answered: SizeCounts,
    columns: Sequence[bytes],
    tlbs: Sequence[str],
    second_tlbs: Sequence[str],
    read_aheads: Sequence[ReadAheadRun],
) -> PageSizeCurve:
    """The curve of one page size from the core's answer, with the runs that read ahead."""
    import numpy

    *misses, write_backs = (numpy.frombuffer(column, dtype="<i8") for column in columns)
    second = (sum(counts.values()) for counts in answered["second_tlb_misses"])
    first = dict(zip(tlbs, answered["first_tlb_misses"], strict=True))
    associative = {name: tlb for name, tlb in first.items() if "x" in name}
    policy_faults: dict[str, dict[int, int]] = {}
    for row in answered["policy_faults"]:
        policy_faults.setdefault(row["policy"], {})[row["frames"]] = row["faults"]
    read_ahead: dict[int, dict[int, ReadAheadCounts]] = {}
    for did in read_aheads:
        if did["page_bytes"] == answered["page_bytes"]:
            read_ahead.setdefault(did["window"], {})[did["frames"]] = ReadAheadCounts(
                did["faults"], did["cold"], did["brought"], did["unused"]
            )
    return PageSizeCurve(
        page_bytes=answered["page_bytes"],
        pages=answered["pages"],
        cold_by_kind=answered["cold"],
        second_tlb_misses=dict(zip(second_tlbs, second, strict=True)),
        misses_by_kind=numpy.stack(misses),
        write_backs_by_frames=write_backs,
        associative_by_kind={name: tlb["misses"] for name, tlb in associative.items()},
        lower_bounds=frozenset(name for name, tlb in associative.items() if not tlb["is_exact"]),
        policy_faults=policy_faults,
        read_ahead=read_ahead,
    )


def at(counts: Counts, sizes: ArrayLike, what: str) -> Counts:
    """The counts at these sizes; the last count repeats beyond the end."""
    import numpy

    places = numpy.asarray(sizes, dtype=numpy.int64)
    if places.size and places.min() < 1:
        raise UsageError(f"at least one {what} is needed, not {places.min()}")
    found: Counts = counts[numpy.minimum(places, len(counts) - 1)]
    return found


def counted(sizes: Sequence[int], counts: Counts) -> dict[str, int]:
    """Counts by size as JSON: ``{"64": 17}``."""
    return {str(size): int(count) for size, count in zip(sizes, counts, strict=True)}


def listed(sizes: Sizes) -> list[int | str]:
    """``"512,4KiB"`` or one number as a list without repetitions."""
    if isinstance(sizes, int):
        return [sizes]
    return once(sizes.split(",") if isinstance(sizes, str) else sizes)


def sizes_of(page_sizes: Sizes) -> list[int]:
    """Page sizes in bytes, ascending; raises UsageError for a size without a curve."""
    sizes = sorted({parse_size(size) for size in listed(page_sizes)})
    if not sizes:
        raise UsageError("curves need at least one page size")
    for size in sizes:
        if size not in PAGE_SIZES:
            raise UsageError(
                f"not a page size: {size} bytes", hint="use powers of two from 512 to 2MiB"
            )
    return sizes


def frames_of(memories: Sizes, page_bytes: int) -> list[int]:
    """Numbers of frames; for sizes with a unit, how many pages fit, perhaps 0."""
    frames = []
    for memory in listed(memories):
        if isinstance(memory, str) and any(map(str.isalpha, memory)):
            frames.append(parse_size(memory) // page_bytes)
        else:
            frames += whole_numbers([memory])
    return frames


def judged(frames: Iterable[int]) -> list[int]:
    """The numbers of frames that a filtered trace can judge, without repetitions."""
    return sorted({count for count in frames if count >= EXACT_FROM})


def whole_numbers(counts: Sizes) -> list[int]:
    """Numbers of frames, TLB entries or pages. Raises UsageError for any other text, and for 0."""
    numbers = []
    for count in listed(counts):
        if isinstance(count, str) and not count.strip().isdecimal():
            raise UsageError(
                f"not a whole number: {count!r}", hint="separate numbers by commas, as in 64,512"
            )
        numbers.append(parse_size(count))
    if 0 in numbers:
        raise UsageError("must be at least 1, not 0")
    return once(numbers)


def texts(names: str | Sequence[str]) -> list[str]:
    """``"clock,two-list"`` as a list without repetitions."""
    return once(names.split(",") if isinstance(names, str) else names)


def once(named: Iterable[Named]) -> list[Named]:
    """The names without repetitions."""
    return list(dict.fromkeys(named))


def tlbs_of(tlb: Sizes) -> list[str]:
    """First TLBs by name, ``"64"`` or ``"64x4"``. Raises UsageError for any other text."""
    names = []
    for name in listed(tlb):
        if isinstance(name, str) and "x" in name:
            entries, ways = geometry_of(name)
            names.append(f"{entries}x{ways}")
        else:
            names += map(str, whole_numbers([name]))
    return once(names)


def tlb_of(text: str) -> tuple[int, int]:
    """The entries and ways of one TLB; 0 ways if it is fully associative."""
    names = tlbs_of(text)
    if len(names) != 1:
        raise UsageError(f"not one TLB: {text!r}", hint="N or ENTRIESxWAYS, as in 64x4")
    entries, ways = first_geometry_of(names[0])
    return entries, ways if "x" in names[0] else 0


def first_geometry_of(tlb: str) -> tuple[int, int]:
    """The entries and ways of a first TLB of `tlbs_of`."""
    if "x" in tlb:
        return geometry_of(tlb)
    refuse_beyond(FRAMES_MAX, int(tlb))
    return int(tlb), int(tlb)


def geometry_of(text: str) -> tuple[int, int]:
    """The entries and ways in ``"1536x12"``."""
    entries, _, ways = text.partition("x")
    if not (entries.isdecimal() and ways.isdecimal()):
        raise UsageError(
            f"not the size and ways of a TLB: {text!r}", hint="ENTRIESxWAYS, as in 1536x12"
        )
    for count in (int(entries), int(ways)):
        refuse_beyond(ENTRIES_MAX, count)
    return int(entries), int(ways)


def refuse_beyond(most: int, count: int) -> None:
    """Raises UsageError for more frames, pages or entries than can be simulated."""
    if count > most:
        raise UsageError(f"{count} is too large: at most {most} can be simulated")
