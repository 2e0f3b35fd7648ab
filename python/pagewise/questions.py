"""Questions to a recording: its accesses, and the cost of policies and architectures.

Each returns a dictionary with the field names of the command's ``--json`` output: shares as
fractions, times in seconds, counts as integers. Fields are added, never renamed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from pagewise import _core
from pagewise.errors import UsageError
from pagewise.grids.simulations import Simulation
from pagewise.grids.spec import option_text
from pagewise.larger_pages import (
    parse_page_size,
    refuse_times_of_small_pages,
    refuse_what_is_read_once,
)
from pagewise.policies import policies_in
from pagewise.recording import PathLike, Progress, Trace, read
from pagewise.samples import (
    SampleSize,
    of_enough_pages,
    parse_memory_limit,
    parse_sample,
    refuse_empty,
    refuse_larger_pages_of,
    refuse_larger_pages_within,
    refuse_second_reading,
)
from pagewise.units import PAGE_BYTES, parse_frames, parse_size

if TYPE_CHECKING:
    from pagewise.types import (
        Allocations,
        Analysis,
        AsRecorded,
        Device,
        Events,
        Misses,
        MissesOfTraces,
        References,
        Simulate,
    )

TOP_PROCESSES = 20
"""How many processes have their own row in `analyze` by default."""


def info(
    trace: PathLike | Trace, *, progress: Progress | None = None
) -> Events | Allocations | References:
    """What a recording holds, what is absent or lost, and which analyses that rules out.

    The result is an `Events`; for a recording of allocations it is an `Allocations`, for a
    reference trace a `References`, and ``schema`` says which. Reads the recording once, so it may
    be a pipe.
    """
    return _core.info(*read(trace).arguments(), progress=progress)[1]


def devices() -> list[Device]:
    """The devices that ``fast`` and ``slow`` accept by name, fastest first.

    Times are those of one page of 4 KiB: low, typical, high, with their source.
    """
    return _core.devices()["devices"]


def analyze(
    trace: PathLike | Trace,
    *,
    by: str | None = None,
    top: int = TOP_PROCESSES,
    page_size: int | str | None = None,
    sample: float | str | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """Skew, single accesses, reuse, and the exact LRU miss-ratio curve over every size.

    ``by="process"`` adds the figures of each process: ``processes`` has all of them, and
    ``top_processes`` the ``top`` busiest, with one row for kernel threads and one for the rest. It
    also adds ``traffic``, reads and writes over time by name of process. Source: S0 Fig. 1;
    Mattson's stack distances. ``page_size`` (``"16KiB"``) groups accesses into larger pages;
    ``at_4_kib`` then has figures of the recorded ones. ``sample`` looks only at a share of the
    pages (``"1%"``, but at least 16,000) or at most a number of them (``"32k"``), chosen by a hash:
    all figures but ``accesses`` are then estimates, and ``sample`` of the result has their errors.
    ``memory_limit`` (``"2GiB"``) bounds the memory of an exact analysis: pages are numbered on disk
    if necessary, and a recording that needs more is refused.
    """
    if by not in (None, "process"):
        raise UsageError(f"cannot analyze by {by!r}", hint="only by process")
    if top < 1:
        raise UsageError(f"a table of {top} processes is not possible", hint="use 1 or more")
    source = read(trace)
    size = parse_sample(sample)
    refuse_second_reading(source, size)
    page_bytes = None if page_size is None else parse_page_size(page_size)
    if page_bytes not in (None, PAGE_BYTES):
        refuse_larger_pages_of(size)
    limit = parse_memory_limit(source, memory_limit, size)
    if page_bytes not in (None, PAGE_BYTES):
        refuse_larger_pages_within(limit)
    if page_bytes is not None and page_bytes > PAGE_BYTES:
        refuse_what_is_read_once(source)

    def of(size: SampleSize) -> Analysis:
        return _core.analyze(
            *source.arguments(),
            top_processes=None if by is None else top,
            page_bytes=page_bytes,
            memory_limit=limit,
            progress=progress,
            **size,
        )

    result = of_enough_pages(source, size, of)
    refuse_empty(source, result.get("sample") if result["accesses"] else None)
    result["trace"] = source.path  # which need not be UTF-8
    return result


@overload
def misses(  # type: ignore[overload-overlap]  # a path is a sequence of texts, too
    trace: PathLike | Trace,
    *,
    policy: str | Sequence[str],
    frames: int | str | Sequence[int | str],
    sample: float | str | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> Misses: ...
@overload
def misses(
    trace: Sequence[PathLike | Trace],
    *,
    policy: str | Sequence[str],
    frames: int | str | Sequence[int | str],
    sample: float | str | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> MissesOfTraces: ...
def misses(
    trace: PathLike | Trace | Sequence[PathLike | Trace],
    *,
    policy: str | Sequence[str],
    frames: int | str | Sequence[int | str],
    sample: float | str | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> Misses | MissesOfTraces:
    """Exact miss counts of eviction policies, or with ``sample`` estimates.

    ``policy``: names of ``pagewise list policies``, with options as in ``"lru-k:k=3"``. ``frames``:
    pages of memory (``1000``), or a size (``"64MiB"``). ``misses`` of the result is {policy:
    {frames: count}}. For a list of traces ``traces`` has such a result for each. Traces of objects
    and traces of 4 KiB pages are refused together, since a frame of one is not as large as a frame
    of the other. ``sample`` replays only a share of the pages or at most a number of them, as in
    :func:`analyze`, in memories that are smaller by as much; ``sample`` of the result has the
    errors of the miss ratios. ``memory_limit`` (``"2GiB"``) is as in :func:`analyze`.
    """
    names = policies_in(policy)
    if isinstance(frames, str):
        frames = frames.split(",")
    sizes = list(frames) if isinstance(frames, Iterable) else [frames]
    counts = [parse_frames(size) for size in sizes]
    size_of_sample = parse_sample(sample)
    if isinstance(trace, (str, os.PathLike, Trace)):
        counted = _misses(read(trace), names, counts, size_of_sample, memory_limit, progress)
        refuse_bytes_of_objects(counted, sizes)
        return counted
    each: list[Misses] = []
    for source in trace:
        counted = _misses(read(source), names, counts, size_of_sample, memory_limit, progress)
        refuse_bytes_of_objects(counted, sizes)
        refuse_other_units([*each[:1], counted])
        each.append(counted)
    return {"schema": "pagewise.misses-of-traces/1", "traces": each}


OF_OBJECTS = "objects"
"""The kind of traces whose accesses are to objects of a cache; others access pages of 4 KiB."""


def refuse_other_units(results: Sequence[Misses]) -> None:
    """Raises UsageError if the first of the traces counts objects and the last pages, or the
    reverse."""
    objects, pages = sorted((results[0], results[-1]), key=lambda each: each["kind"] != OF_OBJECTS)
    if objects["kind"] == OF_OBJECTS != pages["kind"]:
        raise UsageError(
            f"{objects['trace']} counts objects and {pages['trace']} pages of 4 KiB, so a frame "
            "is not the same in both",
            path=objects["trace"],
            hint="give the traces of each kind to a command of their own; --as block reads block "
            "requests as pages of 4 KiB, --as objects as objects",
        )


def refuse_bytes_of_objects(result: Misses, sizes: Sequence[int | str]) -> None:
    """Raises UsageError if a size is in bytes and the trace counts objects."""
    in_bytes = (size for size in sizes if isinstance(size, str) and not size.strip().isdecimal())
    if result["kind"] == OF_OBJECTS and (size := next(in_bytes, None)):
        raise UsageError(
            f"{result['trace']} counts objects, whose sizes it does not have: {size} is no number "
            "of objects",
            path=result["trace"],
            hint="write a number of objects, such as 1000",
        )


def _misses(
    source: Trace,
    policies: list[str],
    frames: list[int],
    size: SampleSize,
    memory_limit: int | str | None,
    progress: Progress | None,
) -> Misses:
    refuse_second_reading(source, size)
    limit = parse_memory_limit(source, memory_limit, size)

    def of(size: SampleSize) -> Misses:
        return _core.misses(
            *source.arguments(),
            policies=policies,
            frames=frames,
            memory_limit=limit,
            progress=progress,
            **size,
        )

    result = of_enough_pages(source, size, of)
    refuse_empty(source, result.get("sample") if result["requests"] else None)
    result["trace"] = source.path
    return result


def simulate(
    trace: PathLike | Trace,
    *,
    architecture: str,
    fast_tier: int | str,
    fast: str,
    slow: str,
    option: Mapping[str, object] | None = None,
    profile: str | None = None,
    page_size: int | str | None = None,
    sample: float | str | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> Simulate:
    """What one swap architecture costs on this recording.

    ``architecture``: a name of ``pagewise list architectures``. ``fast_tier``: a size (``"256MiB"``
    or bytes; 0 is accepted). ``fast`` and ``slow``: names of ``pagewise devices``, or READ/WRITE
    times (``"90/40us"``). ``option``: the choices the papers leave open, by name; and for every
    architecture ``readahead`` (off, recorded, kernel), ``clean_evictions`` (none, inferred),
    ``queueing`` (no, yes) and ``ranges``: where decisions or waits depend on latencies, ``yes``
    (default) replays them over the devices' ranges too, which takes three times as long, ``no``
    leaves ``ranges`` null. ``profile``: ``"faithful"``
    or ``"practical"``. ``page_size`` (``"16KiB"``) groups accesses into larger pages, which are
    moved whole and take the devices' times for that size; ``at_4_kib`` then has the same figures
    for the recorded pages. ``sample`` replays only a share of the pages or at most a number of
    them, as in :func:`analyze`, with a fast tier that is smaller by as much: counts, times and wear
    are then estimates, and ``sample`` of the result has their errors.
    ``memory_limit`` (``"2GiB"``) numbers pages on disk if necessary, and refuses a recording whose
    pages need more memory. ``--json`` adds ``trace_sha256``, which is `Trace.sha256` and takes
    another reading of the file.
    """
    fast_tier_bytes, page_bytes = parse_size(fast_tier), parse_page_size(page_size)
    if 0 < fast_tier_bytes < page_bytes:
        raise UsageError(
            f"a fast tier of {fast_tier_bytes} bytes holds no page",
            hint="give a unit, as in 256MiB, or 0 for none",
        )
    options = tuple((name, option_text(value)) for name, value in (option or {}).items())
    asked = Simulation(architecture, fast_tier_bytes, fast, slow, options, profile, page_bytes)
    source = read(trace)
    size = parse_sample(sample)
    refuse_second_reading(source, size)
    limit = parse_memory_limit(source, memory_limit, size)
    if page_bytes != PAGE_BYTES:
        refuse_larger_pages_of(size)
        refuse_larger_pages_within(limit)
        refuse_times_of_small_pages(page_bytes, fast, slow)
        refuse_what_is_read_once(source)
    request = json.dumps({"ranges": "yes", **asked.to_json()})

    def of(size: SampleSize) -> Simulate:
        return _core.simulate(
            *source.arguments(), request, memory_limit=limit, progress=progress, **size
        )

    result = of_enough_pages(source, size, of)
    refuse_empty(source, result.get("sample"))
    result["trace"] = source.path
    return result


def simulate_as_recorded(
    recording: PathLike,
    *,
    moves: PathLike | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> AsRecorded:
    """Decides the requests of a recorded `pagewise-agent swapd` again.

    ``recording``: a file of ``swapd --record``, which has the policy, its options, the sizes and
    the latencies. ``identical`` is true if every move that swapd made is decided again, and no
    other. ``moves``: a new file for the moves, as CSV with the columns ``event,slot,move``, as
    ``swapd --moves`` writes them; ``force`` replaces an existing file.
    """
    path = os.fspath(recording)
    target = None if moves is None else os.fspath(moves)
    return _core.simulate_as_recorded(path, moves=target, force=force, progress=progress)
