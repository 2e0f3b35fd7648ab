"""Time per reference by page size, split into translation and data; and the memory it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.report.inputs import Inputs, recording_name
from pagewise.report.model import Axis, Chart, Column, Panel, Series, Table, View
from pagewise.units import format_share, format_size, format_size_short

if TYPE_CHECKING:
    from pagewise.answers import MemoryTimes, PageSize

COLUMNS = (
    Column("program", "program"),
    Column("memory_bytes", "memory", "bytes"),
    Column("share", "of the footprint", "share"),
    Column("page_bytes", "page size", "bytes"),
    Column("translation_ns", "translation, ns", "ratio"),
    Column("data_ns", "data, ns", "ratio"),
    Column("paper_ns", "the paper's fits, ns", "ratio"),
    Column("sampled_ns", "from four sizes, ns", "ratio"),
)
SHOWN_UP_TO = 5.0
"""A size that takes more than this many times the best time appears only in the table: its bar
would dwarf all others."""


def panel(inputs: Inputs) -> Panel | None:
    """A chart with one view per program and memory."""
    if not inputs.page_sizes:
        return None
    time = Chart(
        "page-size-time",
        "Time per reference",
        Axis("page size", "text", "category"),
        Axis("ns", "ratio", low=0),
        [
            View(view_name(answer, memory), bars(memory))
            for answer in inputs.page_sizes
            for memory in ordered(answer)
        ],
        "bar",
        is_stacked=True,
    )
    footprint = Chart(
        "page-size-footprint",
        "Memory with each page size, as a multiple of that in 4 KiB pages",
        Axis("page size", "bytes", "log"),
        Axis("", "ratio", low=0),
        [View("", [factors(answer) for answer in inputs.page_sizes])],
    )
    table = Table("page-size", "Time per reference", COLUMNS, rows(inputs))
    return Panel(
        "page-size",
        "Which page size",
        " ".join(sentence(answer) for answer in inputs.page_sizes),
        [time, footprint],
        [table],
        notes(inputs),
    )


def ordered(answer: PageSize) -> list[MemoryTimes]:
    """The requested memory, then the others in ascending order."""
    asked = [each for each in answer["memories"] if each["memory_bytes"] == answer["memory_bytes"]]
    return [*asked, *(each for each in answer["memories"] if each not in asked)]


def view_name(answer: PageSize, memory: MemoryTimes) -> str:
    """The program and the memory, as a share of its footprint and in bytes."""
    share, size = format_share(memory["share"]), format_size(memory["memory_bytes"])
    return f"{recording_name(answer['trace'])}, {share} of its footprint ({size})"


def bars(memory: MemoryTimes) -> list[Series]:
    """Stacked translation and data, and the T_TOTAL of both fits as lines."""
    totals = [sum(parts) for parts in zip(memory["translation_ns"], memory["data_ns"], strict=True)]
    shown = [at for at, total in enumerate(totals) if total <= SHOWN_UP_TO * min(totals)]

    def points(values: list[float]) -> list[tuple[float | str, float | None]]:
        return [(format_size_short(memory["sizes_bytes"][at]), values[at]) for at in shown]

    fits = (("the paper's fits", memory["paper_ns"]), ("from four sizes", memory["sampled_ns"]))
    return [
        Series("address translation", points(memory["translation_ns"])),
        Series("data access", points(memory["data_ns"])),
        *(
            Series(name, points(values), is_line=True)
            for name, values in fits
            if values is not None
        ),
    ]


def factors(answer: PageSize) -> Series:
    """The footprint by page size, relative to 4 KiB."""
    given = answer["program"]["footprint_factors"]
    return Series(
        recording_name(answer["trace"]),
        [(int(size), factor) for size, factor in given.items()],
    )


def rows(inputs: Inputs) -> list[tuple[str | int | float | None, ...]]:
    """A row for each judged size at each memory."""
    return [
        (
            recording_name(answer["trace"]),
            memory["memory_bytes"],
            memory["share"],
            size,
            memory["translation_ns"][at],
            memory["data_ns"][at],
            *(
                None if values is None else values[at]
                for values in (memory["paper_ns"], memory["sampled_ns"])
            ),
        )
        for answer in inputs.page_sizes
        for memory in answer["memories"]
        for at, size in enumerate(memory["sizes_bytes"])
    ]


def sentence(answer: PageSize) -> str:
    """The advice for one program."""
    advice = answer["advice"]
    gain, memory = advice["gain"], format_size(answer["memory_bytes"])
    text = (
        f"With {memory} and {advice['storage']}, {recording_name(answer['trace'])} does best in "
        f"pages of {format_size(advice['page_bytes'])} of those that {advice['target']} has"
    )
    if gain["typical"] > 0:
        text += f": {format_share(gain['typical'])} less time per reference than in 4 KiB"
    if advice["regret"] > 0:
        text += (
            f"; {format_size(advice['ideal_bytes'])} would be ideal, with "
            f"{format_share(gain['typical'] + advice['regret'])} less"
        )
    return f"{text}."


def notes(inputs: Inputs) -> list[str]:
    """What the times count, once for each set of terms."""
    found = []
    for answer in inputs.page_sizes:
        terms = answer["assumed"]["terms"]
        counted = {
            "memory": "references that miss a filter of 64 blocks of 512 bytes",
            "cpu": "all references of the processor",
        }[terms["references"]]
        found.append(
            f"Times are per reference, of {counted}; first touches {terms['cold']}; TLB levels: "
            f"{terms['tlb_levels']}; storage {answer['assumed']['storage']}. Sizes that leave "
            "fewer than 64 frames are not judged."
        )
        found += [f"{note[:1].upper()}{note[1:]}." for note in answer["advice"]["notes"]]
    return list(dict.fromkeys(found))
