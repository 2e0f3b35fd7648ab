"""Words for kinds of recordings: pages of swap, blocks of a disk, objects of a cache."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagewise.report.inputs import CountedMisses, Inputs, ReadAnalysis
from pagewise.report.model import Unit
from pagewise.units import PAGE_BYTES, format_count, format_size


@dataclass(frozen=True)
class Kind:
    """The words for one kind of recording."""

    title: str
    """The words before the names of recordings in the title of a page."""
    noun: str
    """The word for what is accessed, in the plural."""
    reads: str
    """The word for reads; ``writes`` is that for writes."""
    writes: str
    waste: str
    """Completes "it is a waste"; empty to leave that clause out."""
    accessed: str
    """What is accessed, in the words of the subtitle."""
    bytes_each: int
    """Bytes of memory per page; 1 if memory is counted in objects."""
    unit: Unit

    def amount(self, size: float) -> str:
        """A size of memory in words."""
        figure = self.figure(size)
        return f"{figure} of memory" if self.unit == "bytes" else f"a cache of {figure}"

    def figure(self, size: float) -> str:
        """A size of memory with its unit."""
        return (
            format_size(size)
            if self.unit == "bytes"
            else f"{format_count(round(size))} {self.noun}"
        )


PAGES = Kind(
    title="Swap on",
    noun="pages",
    reads="pages in",
    writes="pages out",
    waste="to keep them in a fast tier",
    accessed="pages of 4 KiB",
    bytes_each=PAGE_BYTES,
    unit="bytes",
)
BLOCKS = replace(
    PAGES,
    title="Block requests (file I/O), which cannot size swap:",
    reads="reads",
    writes="writes",
    waste="",
)
OBJECTS = Kind(
    title="Cache trace",
    noun="objects",
    reads="reads",
    writes="writes",
    waste="to cache them",
    accessed="objects of a cache",
    bytes_each=1,
    unit="count",
)
SYSTEM_TITLE = "System trace of"
"""The words before the names of system traces in the title of a page."""
KINDS = {"swap": PAGES, "block": BLOCKS, "objects": OBJECTS}


def kind_of(analysis: ReadAnalysis | CountedMisses) -> Kind:
    """The kind of a recording; older results do not name it, and are of swap.

    Block requests may have been read as swap.
    """
    kind = KINDS.get(str(analysis.get("kind")), PAGES)
    if kind is PAGES and analysis.get("is_of_swap") is False:
        kind = BLOCKS
    # Misses have no size of a page, nor has an analysis of an earlier pagewise.
    given = analysis.get("page_bytes")
    page_bytes = given if isinstance(given, int) and given else PAGE_BYTES
    if kind is OBJECTS or page_bytes == PAGE_BYTES:
        return kind
    return replace(kind, accessed=f"pages of {format_size(page_bytes)}", bytes_each=page_bytes)


def kinds_of(inputs: Inputs) -> list[Kind]:
    """The kinds of the recordings, each once."""
    return list(dict.fromkeys(map(kind_of, inputs.accessed().values())))


def is_of_caches(inputs: Inputs) -> bool:
    """Whether there are recordings, and all are of caches."""
    return kinds_of(inputs) == [OBJECTS]


def title_of(inputs: Inputs) -> str:
    """The words of the title before the names of the recordings."""
    titles = {kind.title for kind in kinds_of(inputs)}
    blocks, caches = inputs.traces_of_blocks(), inputs.traces_of_objects()
    systems = {*inputs.launches, *inputs.trace_kills, *inputs.pressure}
    known = inputs.recordings()
    others = [name for name in known if name not in inputs.analyses]
    titles |= {
        (OBJECTS if name in caches else BLOCKS if name in blocks else PAGES).title
        for name in others
        if name not in systems
    }
    if any(name in systems for name in others):
        titles.add(SYSTEM_TITLE)
    titles |= {kind_of(each).title for each in inputs.misses if each["name"] not in known}
    if not titles:
        return "Recording"
    return titles.pop() if len(titles) == 1 else "Accesses of"


def accessed(inputs: Inputs) -> str:
    """What the recordings access, in the words of the subtitle."""
    return " and ".join(dict.fromkeys(kind.accessed for kind in kinds_of(inputs))) or PAGES.accessed


def nouns(inputs: Inputs) -> str:
    """The words for what the recordings access: ``pages``, ``objects``, or both."""
    return " or ".join(dict.fromkeys(kind.noun for kind in kinds_of(inputs))) or "pages"
