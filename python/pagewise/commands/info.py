"""`pagewise info`: what a recording holds, and which analyses that rules out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeGuard

import typer

from pagewise.advice.machine import recorded
from pagewise.commands import allocations, references
from pagewise.commands.columns import FORMAT, what_to_try
from pagewise.commands.fleets import (
    FleetAddress,
    FleetEngine,
    FleetJobs,
    FleetOptions,
    FleetReport,
    show_fleet,
)
from pagewise.commands.machine import machine_rows
from pagewise.commands.options import As, Force, Format, Json, Map, TracePath, opened
from pagewise.commands.recordings import (
    check_losses,
    check_losses_of_each,
    disorder,
    format_in_words,
    pairs,
    reject_lines,
)
from pagewise.errors import UnreadableInput
from pagewise.fleet import is_many
from pagewise.fleet_figures import Figures, figures_of_info
from pagewise.questions import OF_OBJECTS, info
from pagewise.recording import Trace, read
from pagewise.references import CAPTURE
from pagewise.terminal import Verbatim, facts, printable, say, show, show_json, watched
from pagewise.units import format_count, format_seconds, parse_share

if TYPE_CHECKING:
    from pagewise.types import Allocations, Events, Gap, Loss, References, ZeroPagesBesideKernel

EXAMPLES = (
    "pagewise info trace.parquet",
    "pagewise info phone.perfetto-trace",
    "pagewise info fleet --report fleet.html",
)
SHOWN = 8
GAPS_SHOWN = 20
"""How many names a line lists."""

Recorded: TypeAlias = "Events | Allocations | References"
REQUESTS = ("block_read", "block_write", "block_other")
"""Names of the events of block requests."""
ANSWERED_BY = re.compile(r"\((launches|kills|pressure)\)$")
"""The command on system traces that a question names."""
OF_ACCESSES = "analyze, misses, simulate and advise swap"
"""The commands that need accesses, which few system traces have."""
FROM_BEFORE = "device reads of slots written before the recording began"
"""The kind of loss that is none of the recorder's: swap was in use before the recording began."""


def run(
    trace: TracePath,
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    loss_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Exit with status 4 if a recording lost more than this share, e.g. 1%.",
        ),
    ] = None,
    report: FleetReport = None,
    force: Force = False,
    engine: FleetEngine = "local",
    address: FleetAddress = None,
    jobs: FleetJobs = None,
    json: Json = False,
) -> None:
    """Show what a recording holds, what is absent or lost, and which analyses that rules out.

    For a folder or a pattern in quotes, show how the figures are spread over its recordings.
    """
    limit = None if loss_limit is None else parse_share(loss_limit)
    options = FleetOptions(report, force, engine, address, jobs)
    if is_many(trace):

        def figures_of(path: str) -> Figures:
            source = read(path, format=format, as_=as_, map=map_)
            result = source.info()
            if has_only_rejects(result):
                raise nothing_readable(result, source)
            return figures_of_info(result)

        found = show_fleet("info", [trace], figures_of, options, json=json)
        check_losses_of_each(found, limit)
        return
    options.refuse_for_single([trace])
    source = opened(trace, format, as_, map_)
    with watched("reading") as progress:
        result = info(source, progress=progress)
    if is_of_events(result) and not has_only_rejects(result):
        for line in reject_lines(result["header"]["rejects"]):
            say(line)
    if json:
        show_json(result)
    else:
        if words := command_of(result):
            show(Verbatim(f"command: {printable(shlex.join(words))}"))
        show(facts(rows_of(result)))
        if is_of_events(result) and result["events"].get("moment"):
            show(f"To read the kills: pagewise replay-kills {shlex.quote(trace)} --policy largest")
        if is_of_events(result) and has_only_requests(result):
            show(f"To read the block requests: pagewise info {shlex.quote(trace)} --as block")
        if is_of_events(result) and (original := original_of(result, trace)):
            for command in answering(result):
                show(f"To see the answers: pagewise {command} {shlex.quote(original)}")
    if is_of_events(result):
        if has_only_rejects(result):
            raise nothing_readable(result, source)
        check_losses(result["header"]["losses"], result["header"]["events"], limit, trace)
    elif is_of_allocations(result):
        check_losses(result["losses"], result["pages"], limit, trace)


def has_only_rejects(result: Events) -> bool:
    """Whether the recording has lines, but none that can be read."""
    return bool(result["header"]["rejects"]) and not any(result["events"].values())


def nothing_readable(result: Events, source: Trace) -> UnreadableInput:
    """The error about a recording without a readable line, with the first of its lines."""
    header, path = result["header"], source.path
    [first, *_] = header["rejects"]
    [line] = reject_lines([first])
    what = line.removeprefix(f"{first['file']}:{first['line']}: ")
    hint = "if it has another format, name it: --format; pagewise list formats"
    if header["format"] == FORMAT:
        hint = what_to_try(["pagewise", "info", path], source, first["expected"]) or hint
    message = f"{path}:{first['line']}: no line can be read as {header['format']}; {what}"
    return UnreadableInput(message, hint=hint, path=path)


def has_only_requests(result: Events) -> bool:
    """Whether the recording has block requests but no event of the kind it was read as."""
    return not result["header"]["events"] and any(map(result["events"].get, REQUESTS))


def answering(result: Events) -> list[str]:
    """The commands on system traces that answer a question about this trace."""
    answered = [row["question"] for row in result.get("questions", []) if row["is_answered"]]
    return list(dict.fromkeys(found[1] for each in answered if (found := ANSWERED_BY.search(each))))


def original_of(result: Events, trace: str) -> str | None:
    """The file that commands on system traces read: this one, or the only one that was imported.

    None if it does not exist, as for standard input.
    """
    sources = result["header"]["sources"]
    if len(sources) > 1:
        return None
    name = sources[0][1] if sources else trace
    return name if Path(name).exists() else None


def is_of_events(result: Recorded) -> TypeGuard[Events]:
    """Whether the result describes a trace of events."""
    return "header" in result


def is_of_allocations(result: Recorded) -> TypeGuard[Allocations]:
    """Whether the result describes a recording of allocations."""
    return "allocated" in result


def is_of_references(result: Recorded) -> TypeGuard[References]:
    """Whether the result describes a reference trace."""
    return "origin" in result


def command_of(result: Recorded) -> list[str]:
    """The words of the recorded command; empty if there is none."""
    if is_of_references(result) and result["origin"]["format"] == CAPTURE:
        return result["origin"]["command"]
    return result["command"] if is_of_allocations(result) else []


def rows_of(result: Recorded) -> list[tuple[str, str]]:
    """The rows of `pagewise info` for any recording."""
    if is_of_events(result):
        return summary(result)
    if is_of_references(result):
        return references.info_summary(result)
    assert is_of_allocations(result)
    return allocations.info_summary(result)


def summary(result: Events) -> list[tuple[str, str]]:
    """The rows of `pagewise info` for a trace or a recording of swap, blocks or kills."""
    header = result["header"]
    pages = header["pages"]
    active = [process for process in result["processes"] if process["events"]]
    processes = sorted(active, key=lambda process: -process["events"])
    named = [process["name"] or f"pid {process['pid']}" for process in processes]
    has_only_kills = result["events"].get("moment") and not header["events"]
    kind: str = "kills" if has_only_kills else header["kind"]
    if header.get("system") and not header["events"]:
        kind = "system trace"
    rows = [
        ("kind", f"{kind}, imported from {format_in_words(header['format'])}"),
        ("events", format_count(header["events"])),
        (
            "objects" if kind == OF_OBJECTS else "pages",
            "not numbered; analyses number them" if pages is None else format_count(pages),
        ),
        ("duration", format_seconds(result["duration_s"])),
        *idle(result),
        *kept(result),
        *kills(result),
        ("processes", processes_in_words(result, named)),
        ("devices", shortened(header["devices"], len(header["devices"])) or "not recorded"),
    ]
    rows += [(f"  {kind}", format_count(count)) for kind, count in pairs(result["kinds"])]
    if zeros := result.get("zero_pages"):
        rows.append(("pages of zeros", zeros_beside_the_kernel(zeros)))
    rows += machine_rows(recorded(header))
    rows += system(result)
    if not is_system_without_accesses(result):
        rows += [("absent", what) for what in result["absent"]]
    rows += [*lost_records(header["losses"]), *disorder(header["disordered"])]
    rows += ruled_out(result)
    rows += [("source", f"{name}  sha256 {digest}") for digest, name in header["sources"]]
    return rows


def system(result: Events) -> list[tuple[str, str]]:
    """What a system trace has, and which questions about the system it answers."""
    contents = result["header"].get("system")
    if not contents:
        return []
    counts = sorted(result["events"].items(), key=lambda row: -row[1])
    listed = [f"{format_count(count)} {name}" for name, count in counts]
    rows = [("kernel events", shortened(listed, len(listed)) or "none")]
    if (sessions := contents["sessions"]) > 1:
        rows.append(("sessions", format_count(sessions)))
    for row in result.get("questions", []):
        if row["is_answered"]:
            rows.append(("answers", row["question"]))
    for row in result.get("questions", []):
        if not row["is_answered"]:
            rows.append(("does not answer", row["question"]))
            rows += [("  switch on", line) for line in row["switch_on"]]
    if unknown := contents["unknown_fields"]:
        fields = [f"{row['message']} {row['number']}" for row in unknown]
        rows.append(("unknown fields", shortened(fields, len(fields))))
    if repeated := contents["repeated_packets"]:
        rows.append(("repeated", f"{format_count(repeated)} packets: was a file joined twice?"))
    clock = contents["clock_problems"].items()
    return rows + [("clock", f"{format_count(count)} {what}") for what, count in clock]


def is_system_without_accesses(result: Events) -> bool:
    """Whether the result describes a system trace without block requests and pages of files."""
    return bool(result["header"].get("system")) and not result["header"]["events"]


def ruled_out(result: Events) -> list[tuple[str, str]]:
    """The analyses that the recording rules out.

    A system trace may answer other commands all the same, so the row names those that it rules out.
    """
    if is_system_without_accesses(result):
        return [("ruled out", f"{OF_ACCESSES}: the trace has no accesses")]
    rows = [("ruled out", what) for what in result["ruled_out"]]
    if rows and result["header"].get("system"):
        figures = [("  figures", what) for _, what in rows]
        return [("ruled out", f"only in {OF_ACCESSES}:"), *figures]
    return rows


def lost_records(losses: Sequence[Loss]) -> list[tuple[str, str]]:
    """A row for each kind of loss, and for reads of what swap held before the recording."""
    return [
        ("from before", f"reads of slots written before the recording: {count}")
        if loss["what"] == FROM_BEFORE
        else ("lost records", f"{count}: {loss['what']}")
        for loss in losses
        for count in [format_count(loss["count"])]
    ]


def idle(result: Events) -> list[tuple[str, str]]:
    """The idle gaps of a recording, and how many recordings it seems to join."""
    gaps = result["gaps"]
    rows = []
    if gaps:
        longest = max(gaps, key=lambda gap: gap["to_s"] - gap["from_s"])
        length = format_seconds(longest["to_s"] - longest["from_s"])
        at, _ = ends(longest)
        rows.append(("  without idle gaps", format_seconds(result["active_s"])))
        rows.append(("  idle gaps", f"{format_count(len(gaps))}, the longest {length} at {at}"))
        if len(gaps) > 1:
            rows += [(f"    from {at}", f"to {end}") for at, end in map(ends, gaps[:GAPS_SHOWN])]
        if len(gaps) > GAPS_SHOWN:
            rows.append(("    more", f"{format_count(len(gaps) - GAPS_SHOWN)}; --json has them"))
    if (count := result["recordings"]) > 1:
        rows.append(("  joins", f"{format_count(count)} recordings, it seems"))
    if any(is_after_a_step_back(gap) for gap in gaps):
        rows.append(("  clock", "steps back: gaps are at recorded times, as slice takes them"))
    return rows


def ends(gap: Gap) -> tuple[str, str]:
    """When a gap begins and ends, in the times that `pagewise slice` takes."""
    return signed(gap["recorded_from_s"]), signed(gap["recorded_to_s"])


def signed(time_s: float) -> str:
    """A time since the first event; after a step back of the clock it may be negative."""
    return f"-{format_seconds(-time_s)}" if time_s < 0 else format_seconds(time_s)


def is_after_a_step_back(gap: Gap) -> bool:
    """Whether the clock stepped back before this gap."""
    return gap["recorded_from_s"] != gap["from_s"]


def kills(result: Events) -> list[tuple[str, str]]:
    """The numbers of kills and moments, if the recording has any."""
    seen = result["events"]
    if not (moments := seen.get("moment")):
        return []
    by_kernel = format_count(seen.get("oom_kill", 0))
    return [
        ("kills", f"{format_count(seen.get('kill', 0))}, {by_kernel} of them by the kernel"),
        ("moments", format_count(moments)),
    ]


def kept(result: Events) -> list[tuple[str, str]]:
    """Why ``record --ring`` kept the recording; nothing for other recordings."""
    recorder = result["header"].get("recorder")
    part = recorder.get("kept") if recorder else None
    if not part:
        return []
    process = part["process"]
    whose = "" if process is None else f" of process {process}"
    before_s = (part["trigger_ns"] - part["begins_ns"]) / 1e9
    when = f"{format_seconds(before_s)} after the beginning"
    ring = format_seconds(part["ring_ns"] / 1e9)
    return [("kept for", f"{part['trigger']}{whose}, {when}, of a ring of {ring}")]


def processes_in_words(result: Events, named: list[str]) -> str:
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


def zeros_beside_the_kernel(zeros: ZeroPagesBesideKernel) -> str:
    """Swap-outs and swap-ins of pages of zeros, with the kernel's counts if known."""
    text = f"{format_count(zeros['outs'])} out, {format_count(zeros['ins'])} in"
    outs, ins = zeros["kernel_outs"], zeros["kernel_ins"]
    if outs is None or ins is None:
        return text
    return f"{text}; the kernel counted {format_count(outs)} and {format_count(ins)}"
