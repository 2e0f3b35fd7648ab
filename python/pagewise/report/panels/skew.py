"""How unevenly the accesses fall on the pages, and how many pages are used only once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.report.inputs import Inputs, ReadAnalysis
from pagewise.report.kinds import kind_of, nouns
from pagewise.report.model import Axis, Chart, Column, Panel, Series, Table, TableCell, View
from pagewise.report.thin import thin
from pagewise.units import format_share

if TYPE_CHECKING:
    from pagewise.types import ProcessAnalysis, ProcessRow, Volume, VolumeSplit

SHARES = ("0.01", "0.05", "0.1", "0.25", "0.5")
SAMPLES = (
    Column("recording", "recording"),
    Column("rate", "sampled", "share"),
    Column("pages", "in the sample", "count"),
    Column("error_top_0.1", "error of top 10 %", "share"),
    Column("error_single_pages", "error of accessed once", "share"),
    Column("error_miss_ratio", "error of miss ratios, at most", "share"),
)
EVEN = Series("evenly spread", ((0, 0), (1, 1)), is_reference=True)


def columns(noun: str) -> tuple[Column, ...]:
    """The columns of the table; ``noun`` names what is accessed."""
    return (
        Column("recording", "recording"),
        Column("accesses", "accesses", "count"),
        Column("pages", noun, "count"),
        *(Column(f"top_{share}", f"top {float(share) * 100:g} %", "share") for share in SHARES),
        Column("pages_for_80_percent", f"{noun} for 80 %", "share"),
        Column("single_pages", f"once, of {noun}", "share"),
        Column("single_accesses", "once, of accesses", "share"),
    )


def panel(inputs: Inputs) -> Panel | None:
    """The skew curve of each recording, and a table of its shares."""
    analyses = inputs.accessed()
    if not analyses:
        return None
    curves = [Series(name, thin(skew_points(analysis))) for name, analysis in analyses.items()]
    chart = Chart(
        "skew-curve",
        f"Share of accesses that the busiest {nouns(inputs)} take",
        Axis(f"share of {nouns(inputs)}, busiest first", "share", low=0, high=1),
        Axis("share of accesses", "share", low=0, high=1),
        [View("all recordings", [*curves, EVEN])],
    )
    charts = [chart, *volume_chart(inputs)]
    rows = [row(name, analysis) for name, analysis in analyses.items()]
    tables = [Table("skew", "Skew and single accesses", columns(nouns(inputs)), rows, is_open=True)]
    samples = [each for name, analysis in analyses.items() if (each := sampled(name, analysis))]
    if samples:
        title = "Estimates from a sample of the pages, with half of the width of the 95 % intervals"
        tables.append(Table("samples", title, SAMPLES, samples, is_open=True))
    processes = by_process(inputs)
    if processes:
        tables.append(processes)
    return Panel("skew", "Skew and single access", finding(inputs), charts, tables)


def sampled(name: str, analysis: ReadAnalysis) -> list[TableCell] | None:
    """The sample of an analysis as a row of the table, if its figures are estimates."""
    sample = analysis.get("sample")
    if not sample:
        return None
    error = sample["error"]
    return [
        name,
        sample["rate"],
        sample["pages"],
        error["top_share"].get("0.1"),
        error["single_access"]["pages"],
        max((width for _, width in error["miss_ratio_curve"]), default=None),
    ]


def volume_chart(inputs: Inputs) -> list[Chart]:
    """Bytes moved by the busiest tenth of pages and by the rest (S0 Fig. 1), by kind of traffic."""
    bars = [
        (f"{name}, {label}", split)
        for name, analysis in inputs.accessed().items()
        for label, split in volumes(analysis.get("volume"))
        if split
    ]
    if not bars:
        return []
    series = [
        Series(
            "busiest tenth of pages", [(bar, split["top_10_percent_bytes"]) for bar, split in bars]
        ),
        Series("all other pages", [(bar, split["rest_bytes"]) for bar, split in bars]),
    ]
    volume = Axis("", "bytes", low=0)
    view = [View("all recordings", series)]
    title = "Volume of the busiest tenth of pages and of the rest"
    return [
        Chart("volume", title, Axis("", "text", "category"), volume, view, "bar", is_stacked=True)
    ]


def volumes(volume: Volume | None) -> list[tuple[str, VolumeSplit | None]]:
    """The volume by kind of traffic."""
    if volume is None:
        return []
    return [("swap accesses", volume.get("swap")), ("all block I/O", volume.get("block"))]


def row(name: str, analysis: ReadAnalysis | ProcessAnalysis | ProcessRow) -> list[TableCell]:
    """A recording or process as a row of the table."""
    single = analysis["single_access"]
    return [
        name,
        analysis["accesses"],
        analysis["pages"],
        *(analysis["top_share"].get(share) for share in SHARES),
        analysis["pages_for_80_percent"],
        single["pages"],
        single["accesses"],
    ]


def by_process(inputs: Inputs) -> Table | None:
    """The shares of the busiest processes, if the analyses have them.

    All kernel threads share a row, as in `pagewise analyze --by process`, and so do the other
    processes; results of an earlier pagewise have each process.
    """
    rows = [
        [f"{name}: {process['name'] or process['pid']}", *row("", process)[1:]]
        for name, analysis in inputs.analyses.items()
        for process in analysis.get("top_processes") or analysis.get("processes") or []
    ]
    return Table("skew-by-process", "By process", columns(nouns(inputs)), rows) if rows else None


def finding(inputs: Inputs) -> str:
    """The share of the busiest tenth, and that of single accesses, for each recording."""
    parts = [
        f"on {name} the busiest tenth of {kind_of(analysis).noun} takes "
        f"{format_share(analysis['top_share']['0.1'])} of accesses, and "
        f"{format_share(analysis['single_access']['pages'])} of {kind_of(analysis).noun} are used "
        "exactly once"
        for name, analysis in list(inputs.accessed().items())[:3]
    ]
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def skew_points(analysis: ReadAnalysis) -> list[tuple[float, float]]:
    """Share of pages against share of accesses, starting at the origin."""
    return [(0.0, 0.0), *((pages, accesses) for pages, accesses in analysis["skew_curve"])]
