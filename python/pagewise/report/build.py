"""Puts the panels into one HTML file that loads nothing and runs only its own scripts."""

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
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from pagewise import _core, units
from pagewise.errors import UsageError
from pagewise.recording import PathLike, Progress
from pagewise.report.inputs import Inputs, gather, recording_name
from pagewise.report.kinds import accessed, title_of
from pagewise.report.model import Cell, Chart, Column, Panel, Table
from pagewise.report.panels import PANELS
from pagewise.report.sentences import without_single_bars
from pagewise.report.style import styles
from pagewise.report.verdict import verdict
from pagewise.storage import refuse_unwritable, write_text
from pagewise.terminal import without_controls

HERE = Path(__file__).parent
SPACE_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[KMGT]?i?B|min|ms|us|s|h)\b|%)")
EMPHASIS = re.compile(r"\*([^*<>]+)\*")
CODE = re.compile(r"`([^`<>]+)`")
ROWS_SHOWN = 200
"""Rows of a table on the page; the embedded JSON and the CSV file hold all."""


def build(
    results: Sequence[PathLike | Mapping[str, Any]],
    output: PathLike,
    *,
    title: str | None = None,
    command: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """See :func:`pagewise.report.report`."""
    if not results:
        raise UsageError("a report needs at least one result")
    target = Path(output)
    refuse_unwritable(target, force=force)
    paths = [Path(result) for result in results if not isinstance(result, Mapping)]
    if any(target.exists() and path.exists() and path.samefile(target) for path in paths):
        raise UsageError(f"{target} is an input as well")
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
    """What the report is about, from the recordings in it."""
    names = list(inputs.analyses) or sorted({str(cell["trace"]) for cell in inputs.cells})
    programs = [recording_name(answer["trace"]) for answer in inputs.page_sizes]
    if names:
        return f"{title_of(inputs)} {', '.join(names[:4])}"
    if programs:
        return f"Page size of {', '.join(programs[:4])}"
    studies = [study.get("title") or f"Study {study['study']}" for study in inputs.studies]
    return "; ".join(studies[:4]) or "Results of pagewise"


def subtitle(inputs: Inputs) -> str:
    """One line under the title: how much was looked at."""
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
    """The whole page."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.finalize = unbroken
    environment.filters.update(embed=embed, written=written, grouped=grouped)
    environment.filters.update(look_of=look_of, emphasized=emphasized)
    echarts = (HERE / "vendor" / "echarts.common.min.js").read_text(encoding="utf-8")
    script = (HERE / "page" / "charts.js").read_text(encoding="utf-8")
    template = environment.from_string((HERE / "page" / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        title=title,
        subtitle=subtitle(inputs),
        version=_core.version(),
        verdict=verdict(inputs, {panel.identifier for panel in panels}),
        panels=panels,
        policy=Markup(content_policy([echarts, script])),
        css=Markup((HERE / "page" / "page.css").read_text(encoding="utf-8")),
        echarts=Markup(echarts),
        script=Markup(script),
        rows_shown=ROWS_SHOWN,
        verdict_class=verdict_class,
    )


def showable(page: str) -> str:
    """The page with U+FFFD for what is no text: names of files may be any bytes."""
    return page.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def content_policy(scripts: Iterable[str]) -> str:
    """Nothing may be loaded; only these scripts may run, by their hash; styles are inline."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def embed(value: Chart | Table | dict[str, Any]) -> Markup:
    """Data as JSON that cannot end its script element, whatever names it holds."""
    data = value if isinstance(value, dict) else asdict(value)
    text = json.dumps(harmless(data), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def harmless(data: Any) -> Any:
    """Data whose texts have no control characters, nor what turns the direction of writing."""
    match data:
        case str():
            return without_controls(data)
        case dict():
            return {harmless(name): harmless(value) for name, value in data.items()}
        case list() | tuple():
            return [harmless(value) for value in data]
        case _:
            return data


def emphasized(text: str) -> Markup:
    """Prose in which a study marks words as Markdown does, ``*so*`` and with backticks."""
    safe = str(escape(unbroken(text)))
    return Markup(CODE.sub(r"<code>\1</code>", EMPHASIS.sub(r"<em>\1</em>", safe)))


def unbroken(value: Any) -> Any:
    """Text without control characters, in which no figure is torn from its unit at a line's end."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return SPACE_BEFORE_UNIT.sub("\u00a0", without_controls(value))
    return value


def written(cell: Cell, unit: str) -> str:
    """A cell of a table in its unit."""
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


def verdict_class(column: Column, cell: Cell) -> str:
    """The class that colours a verdict, beside its words."""
    if column.name != "verdict":
        return ""
    return " holds" if str(cell) == "holds" else " fails" if str(cell) == "does not hold" else ""


def grouped(charts: Sequence[Chart]) -> list[list[Chart]]:
    """Neighbouring charts of one group together; a chart without a group stands alone."""
    keyed = groupby(charts, key=lambda chart: chart.group or chart.identifier)
    return [list(group) for _, group in keyed]


def look_of(charts: Sequence[Chart]) -> dict[str, Any]:
    """The style of every series in a group of charts, by name."""
    series = (one for chart in charts for view in chart.views for one in view.series)
    drawn = (one for one in series if not (one.is_reference or one.is_right or one.is_moment))
    return {**styles(one.name for one in drawn)}
