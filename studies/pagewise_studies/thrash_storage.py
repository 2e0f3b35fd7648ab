"""Storage accesses in the recording of a run, counted in three ways.

*swap*: pages that left memory for swap and came back, by process and address. *swap and files*:
also pages of files that entered the page cache. *all storage*: 4 KiB blocks of every device, read
and written, as S0 counts. The pages of these blocks are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, cast

from pagewise import _core, questions
from pagewise.launch_runs import LaunchRun
from pagewise.recording import CLASSES, Progress, Trace
from pagewise.types import ClassShare, SingleAccess, SingleOut, VolumeSplit
from pagewise_studies.repeats import Repeats

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

Counted = Literal["swap", "swap and files", "all storage"]
WAYS: tuple[Counted, ...] = ("swap", "swap and files", "all storage")
SWAP_KINDS = ("swap_out", "swap_in")
FILE_KIND = "request"
TOP_SHARES = ("0.01", "0.05", "0.1", "0.25", "0.5")
FILE, SHARED = 2, 8
"""Bits of an event's flags; the class of its page lies above them (docs/trace-file.md)."""


class SkewOfAccesses(TypedDict):
    """The fields of an analysis that say how unevenly accesses fall on pages."""

    accesses: int
    pages: int
    top_share: dict[str, float]
    pages_for_80_percent: float
    single_access: SingleAccess
    single_out: SingleOut | None
    top_10_percent_classes: dict[str, ClassShare] | None
    top_10_percent_of_several: NotRequired[ClassShare]
    """The file pages among the busiest 10 % that several programs read in, whatever their class;
    absent where nothing says which process belongs to which program."""


@dataclass(frozen=True)
class Storage:
    """The skew of accesses by what is counted, for the accesses that were recorded.

    The fields are those of `pagewise analyze` (docs/analyses.md).
    """

    analyses: Mapping[Counted, SkewOfAccesses]
    volume: VolumeSplit | None = None
    """Bytes of all storage in one run by the pages they belong to, if it was recorded."""

    def top_10(self, counted: Counted) -> float | None:
        """The share of accesses that go to the busiest 10 % of pages; None if not recorded."""
        return self.analyses[counted]["top_share"]["0.1"] if counted in self.analyses else None

    def pages_for_80(self, counted: Counted) -> float | None:
        """The smallest share of pages that takes 80 % of accesses; None if not recorded."""
        return self.analyses[counted]["pages_for_80_percent"] if counted in self.analyses else None


def storage_of(
    plans: Sequence[Repeats], output: Path, progress: Progress | None
) -> dict[str, Storage]:
    """The storage accesses in the recordings of each plan, by the name of its pooled run: means
    over its repeats."""
    return {
        plan.pooled.name: mean_of([_storage(run, output, progress) for run in plan.each])
        for plan in plans
    }


def mean_of(repeats: Sequence[Storage]) -> Storage:
    """The mean of each figure over the repeats that have it."""
    if len(repeats) == 1:
        return repeats[0]
    found = {
        counted: _mean_skew(
            [each.analyses[counted] for each in repeats if counted in each.analyses]
        )
        for counted in WAYS
        if any(counted in each.analyses for each in repeats)
    }
    volumes = [each.volume for each in repeats if each.volume]
    if not volumes:
        return Storage(found)
    top, rest = (
        round(fmean(volume[name] for volume in volumes))
        for name in ("top_10_percent_bytes", "rest_bytes")
    )
    return Storage(found, {"top_10_percent_bytes": top, "rest_bytes": rest})


def _mean_skew(analyses: Sequence[SkewOfAccesses]) -> SkewOfAccesses:
    single = [each["single_access"] for each in analyses]
    outs = [each["single_out"] for each in analyses if each["single_out"] is not None]
    classes = [each["top_10_percent_classes"] or {} for each in analyses]
    # A class that a repeat lacks has no pages there.
    none: ClassShare = {"pages": 0.0, "accesses": 0.0}
    names = sorted({name for each in classes for name in each})
    several = [
        each["top_10_percent_of_several"]
        for each in analyses
        if "top_10_percent_of_several" in each
    ]
    found: SkewOfAccesses = {
        "accesses": round(fmean(each["accesses"] for each in analyses)),
        "pages": round(fmean(each["pages"] for each in analyses)),
        "top_share": {
            share: fmean(each["top_share"][share] for each in analyses)
            for share in analyses[0]["top_share"]
        },
        "pages_for_80_percent": fmean(each["pages_for_80_percent"] for each in analyses),
        "single_access": {
            "pages": fmean(each["pages"] for each in single),
            "accesses": fmean(each["accesses"] for each in single),
        },
        "single_out": {
            "pages": fmean(each["pages"] for each in outs),
            "outs": fmean(each["outs"] for each in outs),
        }
        if outs
        else None,
        "top_10_percent_classes": {
            name: {
                "pages": fmean(each.get(name, none)["pages"] for each in classes),
                "accesses": fmean(each.get(name, none)["accesses"] for each in classes),
            }
            for name in names
        }
        or None,
    }
    if several:
        found["top_10_percent_of_several"] = {
            "pages": fmean(each["pages"] for each in several),
            "accesses": fmean(each["accesses"] for each in several),
        }
    return found


def _storage(run: LaunchRun, output: Path, progress: Progress | None) -> Storage:
    analyses: dict[Counted, SkewOfAccesses] = {}
    volume: VolumeSplit | None = None
    if pages := run.recording(output, progress=progress):
        analyses |= of_pages(pages, progress, _programs(run))
    if blocks := run.recording(output, "block", progress):
        found = questions.analyze(blocks, progress=progress)
        analyses["all storage"] = cast("SkewOfAccesses", found)
        volume = found["volume"]["block"] if found["accesses"] else None
    return Storage({kind: each for kind, each in analyses.items() if each["accesses"]}, volume)


def _programs(run: LaunchRun) -> dict[int, str] | None:
    """The program of each process number: applications in one browser are one program. None where
    nothing says which process belongs to which application."""
    owners = run.owners()
    if owners is None:
        return None
    applications = cast("Mapping[str, Mapping[str, object]]", run.plan.get("applications", {}))
    return {
        process: str(applications.get(name, {}).get("program", name))
        for process, name in owners.items()
    }


def of_pages(
    trace: Trace, progress: Progress | None = None, owners: Mapping[int, str] | None = None
) -> dict[Counted, SkewOfAccesses]:
    """The skew of a swap trace without accesses to files and, if it has any, with them.

    ``owners`` has the program of each process number. Empty if the trace has too many pages to
    number.
    """
    import numpy

    if trace.header["pages"] is None:
        return {}
    kinds = _core.kinds()
    kind, page, flags = (
        trace.column(name, progress=progress) for name in ("kind", "page", "flags")
    )
    is_swap = numpy.isin(kind, [kinds.index(name) for name in SWAP_KINDS])
    is_file = kind == kinds.index(FILE_KIND)
    is_out = kind == kinds.index("swap_out")
    found: dict[Counted, SkewOfAccesses] = {
        "swap": {
            **_shares(page[is_swap], flags[is_swap]),
            "single_out": _single_out(page[is_out]),
        }
    }
    if is_file.any():
        several = None
        if owners:
            process = trace.column("process", progress=progress)
            pids = [row["pid"] for row in trace.header["processes"]]
            several = _of_several(page[is_file], process[is_file], pids, owners)
        found["swap and files"] = _shares(
            page[is_swap | is_file], flags[is_swap | is_file], several
        )
    return found


def _of_several(
    page: NDArray[numpy.uint32],
    process: NDArray[numpy.uint32],
    pids: Sequence[int],
    owners: Mapping[int, str],
) -> NDArray[numpy.bool_]:
    """Whether processes of several programs ask for a page, by its number. ``page`` and
    ``process`` are those of each request."""
    import numpy

    # 0 is every process of no program.
    names = ["", *sorted(set(owners.values()))]
    places = {name: place for place, name in enumerate(names)}
    program = numpy.array([places[owners.get(pid, "")] for pid in pids])[process]
    known = program > 0
    pairs = numpy.unique(page[known].astype(numpy.int64) * len(names) + program[known])
    return numpy.bincount(pairs // len(names)) > 1


def _shares(
    page: NDArray[numpy.uint32],
    flags: NDArray[numpy.uint8],
    several: NDArray[numpy.bool_] | None = None,
) -> SkewOfAccesses:
    """The skew of accesses, one per item of ``page``; ``flags`` has the flags of each access, and
    ``several`` says of each page, by its number, whether several programs read it in."""
    import numpy

    if not len(page):
        return {
            "accesses": 0,
            "pages": 0,
            "top_share": {},
            "pages_for_80_percent": 0.0,
            "single_access": {"pages": 0.0, "accesses": 0.0},
            "single_out": None,
            "top_10_percent_classes": None,
        }
    count = numpy.bincount(page)
    facts = numpy.zeros(len(count), dtype=numpy.uint8)
    numpy.bitwise_or.at(facts, page, flags)
    pages, accesses = int((count > 0).sum()), len(page)
    busiest = numpy.argsort(-count, kind="stable")[:pages]
    taken = numpy.cumsum(count[busiest])
    # Whole percents, since a share such as 0.1 has no exact form.
    top = {share: -(-pages * round(float(share) * 100) // 100) for share in TOP_SHARES}
    hottest = busiest[: top["0.1"]]
    found: SkewOfAccesses = {
        "accesses": accesses,
        "pages": pages,
        "top_share": {share: float(taken[size - 1]) / accesses for share, size in top.items()},
        "pages_for_80_percent": float(numpy.searchsorted(taken, -(-4 * accesses // 5)) + 1) / pages,
        "single_access": {
            "pages": float((count == 1).sum()) / pages,
            "accesses": float((count == 1).sum()) / accesses,
        },
        "single_out": None,
        "top_10_percent_classes": _classes(facts[hottest], count[hottest]),
    }
    if several is not None:
        is_of_several = numpy.zeros(max(len(count), len(several)), dtype=bool)
        is_of_several[: len(several)] = several
        found["top_10_percent_of_several"] = {
            "pages": float(is_of_several[hottest].mean()),
            "accesses": float(count[hottest[is_of_several[hottest]]].sum() / count[hottest].sum()),
        }
    return found


def _classes(flags: NDArray[numpy.uint8], count: NDArray[numpy.int64]) -> dict[str, ClassShare]:
    """Pages and accesses by class, as shares, from the flags of each page and its accesses."""
    found: dict[str, ClassShare] = {}
    for flag in sorted({int(flag) for flag in flags}):
        name, is_this = _class(flag), flags == flag
        shares = found.setdefault(name, {"pages": 0.0, "accesses": 0.0})
        shares["pages"] += float(is_this.sum()) / len(flags)
        shares["accesses"] += float(count[is_this].sum()) / float(count.sum())
    return found


def _class(flags: int) -> str:
    """The class in the recording or, if it has none, the class by the other flags."""
    known = CLASSES[flags >> 4 & 7]
    name = known if known != CLASSES[0] else "file" if flags & FILE else "anonymous"
    return f"{name}_shared" if flags & SHARED else name


def _single_out(page: NDArray[numpy.uint32]) -> SingleOut | None:
    """Pages swapped out exactly once, as a share of swapped-out pages and of page-outs."""
    import numpy

    _, count = numpy.unique(page, return_counts=True)
    once = float((count == 1).sum())
    return {"pages": once / len(count), "outs": once / len(page)} if len(page) else None
