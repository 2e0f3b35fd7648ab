"""The advice in detail: I/O time of every candidate over the size of the fast tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.advice.served import NAME as SWAPD
from pagewise.report.inputs import Inputs, recording_name, taken
from pagewise.report.model import Axis, Chart, Column, Panel, Series, Table, View
from pagewise.units import format_share, format_size

if TYPE_CHECKING:
    from pagewise.answers import Advice

COLUMNS = (
    Column("recording", "recording"),
    Column("architecture", "architecture"),
    Column("fast_tier_bytes", "fast tier", "bytes"),
    Column("io_time_s", "I/O time", "seconds"),
    Column("io_share", "relative to flash-only", "share"),
    Column("slow_bytes", "slow I/O", "bytes"),
    Column("fast_bytes_written", "written to the fast tier", "bytes"),
)


def panel(inputs: Inputs) -> Panel | None:
    """A chart with one view per advice: I/O time as a share of that without a fast tier."""
    if not inputs.advice:
        return None
    views = [View(name(advice), candidates(advice)) for advice in inputs.advice]
    chart = Chart(
        "advice-candidates",
        "I/O time relative to flash-only",
        Axis("fast tier", "bytes"),
        Axis("", "share", low=0),
        views,
    )
    rows = [
        (
            recording_name(advice["trace"]),
            candidate["architecture"],
            size["fast_tier_bytes"],
            size["io_time_s"],
            size["io_share"],
            size["slow_bytes"],
            size["fast_bytes_written"],
        )
        for advice in inputs.advice
        for candidate in advice["candidates"]
        for size in candidate["sizes"]
    ]
    notes = list(
        dict.fromkeys(
            f"{note[:1].upper()}{note[1:]}."
            for advice in inputs.advice
            for note in (*(advice.get("warnings") or ()), *advice["notes"])
        )
    )
    table = Table("advice", "Candidates", COLUMNS, rows)
    return Panel("advice", "What to take", finding(inputs), [chart], [table], notes)


def name(advice: Advice) -> str:
    """The recording and the devices of an advice."""
    devices = f"{advice['fast']['name']} before {advice['slow']['name']}"
    return f"{recording_name(advice['trace'])} with {devices}"


def candidates(advice: Advice) -> list[Series]:
    """One line per architecture."""
    return [
        Series(
            candidate["architecture"],
            [(size["fast_tier_bytes"], size["io_share"]) for size in candidate["sizes"]],
        )
        for candidate in advice["candidates"]
    ]


def finding(inputs: Inputs) -> str:
    """A sentence for each advice, with its reference."""
    return " ".join(sentence(advice) for advice in inputs.advice)


def surpassing(advice: Advice, today: str) -> str:
    """A sentence on the best of all at the size of ``today``; empty if that is ``today``."""
    best = advice.get("best")
    if not best or best["architecture"] == today:
        return ""
    name, share = best["architecture"], format_share(best["io_share"]["typical"])
    text = f" At that size {name} brings the I/O time to {share}"
    if best.get("by") == SWAPD:
        return f"{text}; swapd runs {name}."
    if best["can_run"]:
        return f"{text}."
    is_offered = any(each["title"].startswith(f"{SWAPD}:") for each in advice["settings"])
    offer = ", but swapd can run it (see the settings for swapd)" if is_offered else ""
    return f"{text}; stock Linux does not have {name}{offer}."


def sentence(advice: Advice) -> str:
    """One advice in a sentence or two."""
    today, reference = taken(advice), advice["reference"]
    evidence = advice.get("evidence")
    if evidence and evidence["verdict"] != "enough":
        text = f"{name(advice)} has too little evidence for a fast tier: {evidence['reason']}."
    elif today is None:
        text = f"On {name(advice)} no size of fast tier saves I/O time."
    else:
        text = (
            f"On {name(advice)}, take {today['architecture']} with "
            f"{format_size(today['fast_tier_bytes'])}: I/O then takes "
            f"{format_share(today['io_share']['typical'])} of the time that "
            f"{advice['slow']['name']} takes without a fast tier."
            f"{surpassing(advice, today['architecture'])}"
        )
    if reference is None:
        return text
    size = reference["fast_tier_bytes"]
    goal = f"{format_size(reference['io_bytes'])} of slow I/O ({reference['what']})"
    if size is None:
        return f"{text} No size reaches {goal}."
    return f"{text} {format_size(size)} reaches {goal}."
