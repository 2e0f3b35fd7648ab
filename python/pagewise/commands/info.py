"""`pagewise info`: what a recording holds, and which analyses that rules out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pagewise.advice.machine import recorded
from pagewise.allocations import SCHEMA as ALLOCATIONS
from pagewise.commands import allocations, references
from pagewise.commands.machine import machine_rows
from pagewise.commands.options import As, Format, Json, Map, TracePath, opened
from pagewise.commands.recordings import check_losses, disorder, lost, pairs, reject_lines
from pagewise.questions import info
from pagewise.references import CAPTURE
from pagewise.references import SCHEMA as REFERENCES
from pagewise.terminal import Verbatim, facts, printable, say, show, show_json, watched
from pagewise.units import format_count, format_seconds, parse_share

EXAMPLES = ("pagewise info trace.parquet",)
SHOWN = 8
"""How many names a line lists."""

REQUESTS = ("block_read", "block_write", "block_other")
"""Names of the events of block requests."""


def run(
    trace: TracePath,
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    loss_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Exit with status 4 if more than this share was lost, e.g. 1%."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show what a recording holds, what is absent or lost, and which analyses that rules out."""
    limit = None if loss_limit is None else parse_share(loss_limit)
    with watched("reading") as progress:
        result: Mapping[str, Any] = info(opened(trace, format, as_, map_), progress=progress)
    schema: str | None = result.get("schema")
    for line in reject_lines(result["header"]) if schema is None else ():
        say(line)
    if json:
        show_json(result)
    else:
        if words := command_of(result):
            show(Verbatim(f"command: {printable(shlex.join(words))}"))
        show(facts(SUMMARIES[schema](result)))
        if schema is None and result["events"].get("moment"):
            show(f"To read the kills: pagewise replay-kills {shlex.quote(trace)} --policy largest")
        if schema is None and has_only_requests(result):
            show(f"To read the block requests: pagewise info {shlex.quote(trace)} --as block")
    if schema != REFERENCES:
        check_losses(result.get("header", result), limit, trace)


def has_only_requests(result: Mapping[str, Any]) -> bool:
    """Whether the recording has block requests but no event of the kind it was read as."""
    return not result["header"]["events"] and any(map(result["events"].get, REQUESTS))


def command_of(result: Mapping[str, Any]) -> list[str]:
    """The words of the recorded command; empty if there is none."""
    origin = result.get("origin", {})
    words: list[str] = result.get("command") or origin.get("command") or []
    return [] if origin.get("format", CAPTURE) != CAPTURE else words


def summary(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The rows of `pagewise info` for a trace or a recording of swap, blocks or kills."""
    header = result["header"]
    pages = header.get("pages")
    active = [process for process in result["processes"] if process["events"]]
    processes = sorted(active, key=lambda process: -process["events"])
    named = [process["name"] or f"pid {process['pid']}" for process in processes]
    has_only_kills = result["events"].get("moment") and not header["events"]
    kind = "kills" if has_only_kills else header["kind"]
    rows = [
        ("kind", f"{kind}, imported from {header['format']}"),
        ("events", format_count(header["events"])),
        ("pages", "not numbered; analyses number them" if pages is None else format_count(pages)),
        ("duration", format_seconds(result.get("duration_s"))),
        *idle(result),
        *kills(result),
        ("processes", processes_in_words(result, named)),
        ("devices", shortened(header["devices"], len(header["devices"])) or "not recorded"),
    ]
    rows += [(f"  {kind}", format_count(count)) for kind, count in pairs(result.get("kinds"))]
    if zeros := result.get("zero_pages"):
        rows.append(("pages of zeros", zeros_beside_the_kernel(zeros)))
    rows += machine_rows(recorded(header))
    rows += [("absent", what) for what in result.get("absent", [])]
    rows += [*lost(header), *disorder(header)]
    rows += [("ruled out", what) for what in result.get("ruled_out", [])]
    rows += [("source", f"{name}  sha256 {digest}") for digest, name in header["sources"]]
    return rows


def idle(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The idle gaps of a recording, and how many recordings it seems to join."""
    gaps = result.get("gaps") or []
    rows = []
    if gaps:
        longest = max(gaps, key=lambda gap: gap["to_s"] - gap["from_s"])
        length = format_seconds(longest["to_s"] - longest["from_s"])
        at = format_seconds(longest["from_s"])
        rows.append(("  without idle gaps", format_seconds(result["active_s"])))
        rows.append(("  idle gaps", f"{format_count(len(gaps))}, the longest {length} at {at}"))
    if (count := result.get("recordings", 0)) > 1:
        rows.append(("  joins", f"{format_count(count)} recordings, it seems"))
    return rows


def kills(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The numbers of kills and moments, if the recording has any."""
    seen = result["events"]
    if not (moments := seen.get("moment")):
        return []
    by_kernel = format_count(seen.get("oom_kill", 0))
    return [
        ("kills", f"{format_count(seen.get('kill', 0))}, {by_kernel} of them by the kernel"),
        ("moments", format_count(moments)),
    ]


def processes_in_words(result: Mapping[str, Any], named: list[str]) -> str:
    """The busiest processes, and how many have an event (how many exist, if the list is cut)."""
    is_whole = len(result["processes"]) == result["processes_all"]
    count = len(named) if is_whole else result["processes_all"]
    if not count:
        return "none with an event"
    return f"{format_count(count)}, busiest first: {shortened(named, count)}"


def shortened(names: list[str], count: int) -> str:
    """The first few of ``count`` names, and how many more there are."""
    more = f", and {format_count(count - SHOWN)} more" if count > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def zeros_beside_the_kernel(zeros: Mapping[str, Any]) -> str:
    """Swap-outs and swap-ins of pages of zeros, with the kernel's counts if known."""
    text = f"{format_count(zeros['outs'])} out, {format_count(zeros['ins'])} in"
    outs, ins = zeros["kernel_outs"], zeros["kernel_ins"]
    if outs is None or ins is None:
        return text
    return f"{text}; the kernel counted {format_count(outs)} and {format_count(ins)}"


SUMMARIES = {
    None: summary,
    ALLOCATIONS: allocations.info_summary,
    REFERENCES: references.info_summary,
}
"""The function that describes a recording, by schema; None is that of events."""
