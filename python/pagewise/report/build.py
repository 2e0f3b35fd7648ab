"""Builds one HTML file from the panels. The file loads nothing, and runs only its own scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from pagewise import _core, units
from pagewise.errors import UsageError
from pagewise.licenses import parts
from pagewise.recording import PathLike, Progress
from pagewise.report.inputs import Inputs, gather, listed, recording_name
from pagewise.report.kinds import accessed, title_of
from pagewise.report.model import Chart, Column, Panel, Table, TableCell
from pagewise.report.panels import PANELS
from pagewise.report.sentences import without_single_bars
from pagewise.report.style import SeriesStyle, styles
from pagewise.report.verdict import verdict
from pagewise.storage import refuse_unwritable, write_text
from pagewise.terminal import without_controls

if TYPE_CHECKING:
    from pagewise.answers import ReportResult

HERE = Path(__file__).parent
SPACE_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[KMGT]?i?B|min|ms|us|s|h)\b|%)")
EMPHASIS = re.compile(r"\*([^*<>]+)\*")
CODE = re.compile(r"`([^`<>]+)`")
CODED = r"<code>\1</code>"
NARROW_MAX = 60
"""The most characters of a cell in a column that may be narrow on a phone."""
ROWS_SHOWN = 200
"""Rows of a table that the page shows; the embedded JSON and the CSV file have all rows."""


def build(
    results: Sequence[PathLike | Mapping[str, object]],
    output: PathLike,
    *,
    title: str | None = None,
    command: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> ReportResult:
    """See :func:`pagewise.report.report`."""
    if not results:
        raise UsageError("a report needs at least one result")
    target = Path(output)
    refuse_unwritable(target, force=force)
    paths = [Path(result) for result in results if not isinstance(result, Mapping)]
    if any(target.exists() and path.exists() and path.samefile(target) for path in paths):
        raise UsageError(f"{target} is also an input", hint="name another file for the report")
    inputs = gather(results, progress=progress)
    inputs.command = command or shlex.join(sys.argv)
    panels = [without_single_bars(panel) for make in PANELS if (panel := make(inputs))]
    page = showable(render(inputs, panels, title or default_title(inputs)))
    write_text(target, page)
    return {
        "schema": "pagewise.report/1",
        "path": str(target),
        "bytes": len(page.encode()),
        "panels": [panel.identifier for panel in panels],
        "losses": inputs.losses(),
    }


def default_title(inputs: Inputs) -> str:
    """A title made of the names of the recordings, programs or studies."""
    counted = [result["name"] for result in inputs.misses]
    if names := inputs.recordings():
        return f"{title_of(inputs)} {listed(list(dict.fromkeys([*names, *counted])))}"
    if inputs.fleets:
        return units.format_counted(max(each["traces"] for each in inputs.fleets), "recording")
    if programs := [recording_name(answer["trace"]) for answer in inputs.page_sizes]:
        return f"Page size of {listed(programs)}"
    studies = [study.get("title") or f"Study {study['study']}" for study in inputs.studies]
    if studies:
        return "; ".join(studies[:4])
    if counted:
        return f"Misses on {listed(list(dict.fromkeys(counted)))}"
    if replays := list(dict.fromkeys(replay["name"] for replay in inputs.kill_replays)):
        return f"Kills on {listed(replays)}"
    return "Results of pagewise"


def subtitle(inputs: Inputs) -> str:
    """The line under the title: how many recordings, accesses and cells the report covers."""
    accesses = sum(analysis["accesses"] for analysis in inputs.analyses.values())
    parts = []
    if inputs.analyses:
        recordings = units.format_counted(len(inputs.analyses), "recording")
        what = f"{accesses:,} accesses to {accessed(inputs)}" if accesses else "no access to a page"
        parts.append(f"{recordings} with {what}")
    if inputs.cells:
        parts.append(units.format_counted(len(inputs.cells), "simulated cell"))
    return ", ".join(parts) + ("." if parts else "")


def render(inputs: Inputs, panels: Sequence[Panel], title: str) -> str:
    """The page as HTML."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.finalize = unbroken
    environment.filters.update(embed=embed, written=written, grouped=grouped)
    environment.filters.update(look_of=look_of, emphasized=emphasized, coded=coded)
    echarts = (HERE / "vendor" / "echarts.common.min.js").read_text(encoding="utf-8")
    script = (HERE / "page" / "charts.js").read_text(encoding="utf-8")
    template = environment.from_string((HERE / "page" / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        title=title,
        subtitle=subtitle(inputs),
        version=_core.version(),
        licenses=parts(),
        verdict=verdict(inputs, {panel.identifier for panel in panels}),
        panels=panels,
        policy=Markup(content_policy([echarts, script])),
        css=Markup((HERE / "page" / "page.css").read_text(encoding="utf-8")),
        echarts=Markup(echarts),
        script=Markup(script),
        rows_shown=ROWS_SHOWN,
        verdict_class=verdict_class,
        long_columns=long_columns,
    )


def showable(page: str) -> str:
    """The page with U+FFFD for invalid characters: names of files may be any bytes."""
    return page.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def content_policy(scripts: Iterable[str]) -> str:
    """The policy: load nothing, run only these scripts, by their hash, and allow inline styles."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def embed(value: Chart | Table | dict[str, object]) -> Markup:
    """Data as JSON; no name in it can end the script element."""
    data = value if isinstance(value, dict) else asdict(value)
    text = json.dumps(harmless(data), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def harmless(data: object) -> object:
    """Data whose texts have neither control characters nor characters that change direction."""
    match data:
        case str():
            return without_controls(data)
        case dict():
            return {harmless(name): harmless(value) for name, value in data.items()}
        case list() | tuple():
            return [harmless(value) for value in data]
        case _:
            return data


def coded(text: str) -> Markup:
    """A sentence with what stands in backticks as code."""
    return Markup(CODE.sub(CODED, str(escape(unbroken(text)))))


def emphasized(text: str) -> Markup:
    """Prose of a study with its Markdown marks, ``*so*`` and backticks, as HTML."""
    safe = str(escape(unbroken(text)))
    return Markup(CODE.sub(CODED, EMPHASIS.sub(r"<em>\1</em>", safe)))


def unbroken(value: object) -> object:
    """Text without control characters, with each figure kept on the line of its unit."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return SPACE_BEFORE_UNIT.sub("\u00a0", without_controls(value))
    return value


def written(cell: TableCell, unit: str) -> str:
    """A cell of a table with its unit."""
    if cell is None:
        return "unknown"
    if isinstance(cell, str):
        return cell
    match unit:
        case "bytes":
            return units.format_size(cell)
        case "share":
            return units.format_share(cell)
        case "seconds":
            return units.format_seconds(cell)
        case "ratio":
            return units.format_figure(cell)
        case "count":
            return f"{cell:,.0f}"
        case _:
            return str(cell)


def long_columns(table: Table) -> set[int]:
    """The columns with a sentence in a row that the page shows, which need width on a phone."""
    return {
        at
        for row in table.rows[:ROWS_SHOWN]
        for at, cell in enumerate(row)
        if isinstance(cell, str) and len(cell) > NARROW_MAX
    }


def verdict_class(column: Column, cell: TableCell) -> str:
    """The class that colours a verdict."""
    if column.name != "verdict":
        return ""
    return " holds" if str(cell) == "holds" else " fails" if str(cell) == "does not hold" else ""


def grouped(charts: Sequence[Chart]) -> list[list[Chart]]:
    """Neighbouring charts by group; a chart without a group is a group by itself."""
    keyed = groupby(charts, key=lambda chart: chart.group or chart.identifier)
    return [list(group) for _, group in keyed]


def look_of(charts: Sequence[Chart]) -> dict[str, SeriesStyle]:
    """The style of each series in a group of charts, by name."""
    found = (series for chart in charts for view in chart.views for series in view.series)
    drawn = (each for each in found if not (each.is_reference or each.is_right or each.is_moment))
    return {**styles(each.name for each in drawn)}
