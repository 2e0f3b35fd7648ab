"""The report as a file: complete, self-contained, and safe against hostile names."""

import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_results import EVIL, analysis, everything

import pagewise as pw
from pagewise.errors import UnreadableInput, UsageError
from pagewise.report.inputs import gather
from pagewise.report.model import Panel
from pagewise.report.panels import PANELS, papers, reuse
from pagewise.report.style import COLORS, styles
from pagewise.report.verdict import verdict

BYTES_MAX = 3 * 2**20


class Elements(HTMLParser):
    """Collects the elements of a page and the text of its JSON blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: dict[str, str] = {}
        self.block: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        is_json = tag == "script" and attributes.get("type") == "application/json"
        self.block = attributes.get("id") if is_json else None

    def handle_data(self, data: str) -> None:
        if self.block:
            self.blocks[self.block] = self.blocks.get(self.block, "") + data


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Elements:
    output = tmp_path_factory.mktemp("report") / "report.html"
    result = pw.report(everything(), output, command="pagewise report")
    assert result["bytes"] == output.stat().st_size < BYTES_MAX
    assert len(result["panels"]) == len(PANELS)
    parser = Elements()
    parser.feed(output.read_text())
    return parser


def test_the_page_loads_nothing(page: Elements) -> None:
    for tag, attributes in page.elements:
        assert tag not in ("iframe", "object", "embed", "base", "form", "img")
        for name in ("src", "href", "srcset", "action"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:,")), (tag, name, value)
        assert not any(name.startswith("on") for name in attributes)


def test_the_policy_names_only_the_scripts_of_the_page(page: Elements) -> None:
    policy = next(
        attributes["content"]
        for tag, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None and policy.startswith("default-src 'none'; script-src 'sha256-")
    runnable = [a for tag, a in page.elements if tag == "script" and "type" not in a]
    assert len(re.findall("'sha256-", policy)) == len(runnable) == 2


def test_every_block_is_json_and_every_table_is_embedded(page: Elements) -> None:
    blocks = {name: json.loads(text) for name, text in page.blocks.items()}
    buttons = [a["data-table"] for tag, a in page.elements if tag == "button" and "data-table" in a]
    assert buttons
    assert all(f"table-{name}" in blocks for name in buttons)
    cells = blocks["table-architectures"]
    assert len(cells["rows"]) == 60
    assert {len(row) for row in cells["rows"]} == {len(cells["columns"])}


def test_a_trace_has_the_whole_split_of_a_launch_and_what_policies_would_have_killed(
    page: Elements,
) -> None:
    launches, policies = (
        json.loads(page.blocks[f"table-system-trace-{name}"]) for name in ("launches", "policies")
    )
    # A name is the name in the CSV file.
    names = [column["name"] for column in launches["columns"]]
    (launch,) = (dict(zip(names, row, strict=True)) for row in launches["rows"])
    assert (launch["cpu_s"], launch["running_s"], launch["runnable_s"]) == (0.7, 0.375, None)
    assert (launch["cache_miss_bytes"], launch["swap_in_bytes"]) == (2 << 20, None)
    assert (launch["kills_before"], launch["kills"]) == (0, 1)
    rows = [row[1:] for row in policies["rows"]]
    assert rows == [["largest", 1, 1, None, None, 0, 1], ["lmkd", 0, 0, None, None, 0, 1]]


def test_hostile_names_stay_text(page: Elements) -> None:
    names = json.dumps([json.loads(text) for text in page.blocks.values()])
    assert json.dumps(EVIL)[1:-1] in names
    assert all(EVIL not in text for text in page.blocks.values())


def test_every_link_leads_to_a_section(page: Elements) -> None:
    identifiers = {attributes.get("id") for _, attributes in page.elements}
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert all(link and link[1:] in identifiers for link in links)


def test_a_file_that_is_not_a_result_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    with pytest.raises(UnreadableInput, match="not a result of pagewise"):
        pw.report([{"schema": "other/1"}], output)
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(UnreadableInput, match="not JSON"):
        pw.report([broken], output)
    with pytest.raises(UnreadableInput, match="absent"):
        pw.report([tmp_path / "absent"], output)
    with pytest.raises(UnreadableInput, match="is a folder"):
        pw.report([tmp_path], output)
    with pytest.raises(UsageError, match="at least one"):
        pw.report([], output)
    assert not output.exists()
    output.write_text("precious")
    with pytest.raises(UsageError, match="exists"):
        pw.report(everything(), output)
    assert output.read_text() == "precious"


def test_series_differ_without_colour() -> None:
    drawn = styles(f"series {number}" for number in range(2 * COLORS))
    looks = [(style["color"], style["symbol"], tuple(style["dash"])) for style in drawn.values()]
    assert len(set(looks)) == len(looks)
    assert styles(["x", "adaptive"])["adaptive"] == styles(["adaptive"])["adaptive"]


def test_a_report_never_replaces_an_input_or_a_special_file(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    result.write_text("{}")
    with pytest.raises(pw.UsageError, match="is also an input"):
        pw.report([result], result, force=True)
    with pytest.raises(pw.UsageError, match="is not a regular file"):
        pw.report([result], tmp_path, force=True)
    assert result.read_text() == "{}"


WORKERS = ("app-7", "kworker/0:1-20", "kworker/u9:2-21", "kswapd0-22", "app-7")
KINDS = {result["schema"].split(".")[1].split("/")[0]: result for result in everything()}


@pytest.mark.parametrize(
    ("kinds", "evidence"),
    [
        (["analyze", "sweep"], ["skew", "skew", "architectures"]),
        (["analyze"], ["skew", "skew", "reuse"]),
        (["analyze", "advice"], ["advice", "skew", "skew"]),
        (["sweep", "misses", "study"], ["architectures", "reuse", "papers"]),
        (["misses"], ["reuse"]),
        (["study"], ["papers"]),
        (["page-size", "study"], ["page-size", "papers"]),
    ],
)
def test_the_verdict_has_up_to_three_findings(kinds: list[str], evidence: list[str]) -> None:
    inputs = gather([KINDS[kind] for kind in kinds])
    shown = {panel.identifier for make in PANELS if (panel := make(inputs))}
    findings = verdict(inputs, shown).findings
    assert [finding.evidence for finding in findings] == evidence
    for finding in findings:
        assert finding.figure and finding.statement.endswith(".") and finding.interval


def test_without_advice_the_verdict_is_what_stock_linux_can_run() -> None:
    finding = verdict(gather([KINDS["sweep"]]), {"architectures"}).findings[0]
    # With the made-up gain, a later architecture is better, and so is a larger size.
    assert finding.figure == "priority, 1 GiB"
    assert "62.5 % of the I/O time of flash-only" in finding.statement
    assert "At that size adaptive brings it to 50.0 %" in finding.statement
    cells = [
        cell for cell in KINDS["sweep"]["cells"] if cell["architecture"] in ("flash", "adaptive")
    ]
    finding = verdict(gather([{**KINDS["sweep"], "cells": cells}]), {"architectures"}).findings[0]
    assert finding.figure == "adaptive, 1 GiB"
    assert finding.statement.endswith("Stock Linux does not have it, but swapd can run it.")


def test_block_requests_size_no_swap_in_a_report() -> None:
    outcome = json.dumps({"is_of_swap": False})
    cells = [{**cell, "outcome": outcome} for cell in KINDS["sweep"]["cells"]]
    finding = verdict(gather([{**KINDS["sweep"], "cells": cells}]), {"architectures"}).findings[0]
    assert finding.figure == "no size" and "cannot size swap" in finding.statement
    setup = sorted({str(cell["trace"]) for cell in cells})[-1]
    for identifier in ("architectures", "pareto"):
        text = panels_of([{**KINDS["sweep"], "cells": cells}])[identifier].finding
        assert (
            text.startswith("The trace ") and "has block requests, which cannot size swap" in text
        )
    assert setup in finding.statement


def test_simulations_of_a_cache_trace_replay_no_block_requests(tmp_path: Path) -> None:
    rows = [f"{number},{number * 7 % 60}" for number in range(400)]
    (tmp_path / "cache.csv").write_text("\n".join(["time,id", *rows]) + "\n")
    trace = tmp_path / "cache.parquet"
    pw.import_trace(tmp_path / "cache.csv", trace, as_="objects", map="time=time,id=id")
    cells = [
        pw.simulate(trace, architecture=each, fast_tier=size, fast="4/5us", slow="90/40us")
        for each, size in (("flash", 0), ("priority", "64KiB"), ("adaptive", "64KiB"))
    ]
    assert {cell["kind"] for cell in cells} == {"objects"}
    for results in (cells, [pw.analyze(trace), *cells]):
        pw.report(results, tmp_path / "page.html", force=True)
        assert "<title>Cache trace" in (tmp_path / "page.html").read_text()
        panels = panels_of(results)
        for identifier in ("architectures", "pareto"):
            text = panels[identifier].finding
            assert text.startswith("The trace cache has the objects of a cache, which cannot size")
        findings = verdict(gather(results), set(panels)).findings
        assert "block requests" not in " ".join(each.statement for each in findings)


def panels_of(results: list[Any]) -> dict[str, Panel]:
    """The panels of a report on these results."""
    inputs = gather(results)
    return {panel.identifier: panel for make in PANELS if (panel := make(inputs))}


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A trace of block requests, by the kind that it was read as."""
    folder = tmp_path_factory.mktemp("blocks")
    path = folder / "disk.csv"
    rows = [f"{n / 10:.1f},{'RW'[n % 2]},{n % 60 * 8},4096" for n in range(200)]
    path.write_text("\n".join(["time,op,sector,size", *rows]) + "\n")
    found = {name: folder / name / "disk.parquet" for name in ("swap", "block")}
    for name, trace in found.items():
        trace.parent.mkdir()
        pw.import_trace(path, trace, as_=name)
    return found


@pytest.mark.parametrize("name", ["swap", "block"])
def test_a_report_says_first_that_block_requests_size_no_swap(
    name: str, blocks: dict[str, Path], tmp_path: Path
) -> None:
    trace = blocks[name]
    cells = [
        pw.simulate(trace, architecture=each, fast_tier=size, fast="4/5us", slow="90/40us")
        for each, size in (("flash", 0), ("priority", "64KiB"), ("adaptive", "64KiB"))
    ]
    advice = pw.advise(trace, fast="4/5us", slow="90/40us")
    analyzed = pw.analyze(trace)
    for results in ([trace], [trace, *cells], [trace, advice], [analyzed, *cells], cells):
        pw.report(results, tmp_path / "page.html", force=True)
        title = "<title>Block requests (file I/O), which cannot size swap: disk</title>"
        assert title in (tmp_path / "page.html").read_text()
        first, *others = verdict(gather(results), set(panels_of(results))).findings
        assert first.figure == "no size" and first.statement.startswith("disk: block requests mix")
        assert "the I/O of files" in first.statement and "cannot size swap" in first.statement
        assert first.evidence in panels_of(results)
        text = " ".join(finding.statement for finding in others)
        assert "fast tier" not in text and "I/O time" not in text and "no size" not in text
        assert "swap-traffic" not in panels_of(results)


def test_the_kind_of_block_requests_read_as_swap_is_named(blocks: dict[str, Path]) -> None:
    (table,) = panels_of([blocks["swap"]])["data-quality"].tables
    assert table.rows[0][1] == "block, read as swap (blockcsv)"


def test_few_single_accesses_are_no_finding() -> None:
    few = analysis("busy", 0.5)
    few["single_access"]["pages"] = 0.009
    shown = {"skew", "reuse"}
    statements = [each.statement for each in verdict(gather([few]), shown).findings]
    assert statements and not any("exactly once" in text for text in statements)
    few["single_access"]["pages"] = 0.01
    statements = [each.statement for each in verdict(gather([few]), shown).findings]
    assert any("exactly once" in text for text in statements)


def test_kernel_workers_share_a_row(tmp_path: Path) -> None:
    path = tmp_path / "busy.csv"
    lines = [f"{n},R,{n * 8},4096,{name}" for n, name in enumerate(WORKERS)]
    path.write_text("\n".join(["time,op,sector,size,process", *lines]) + "\n")
    tables = panels_of([path])["skew"].tables
    (rows,) = (table.rows for table in tables if table.identifier == "skew-by-process")
    assert [row[0] for row in rows] == ["busy: kernel workers", "busy: app"]
    assert [row[1] for row in rows] == [3, 2]


def test_wear_is_given_per_year_everywhere() -> None:
    inputs = gather([KINDS["sweep"]])
    panel = next(panel for make in PANELS if (panel := make(inputs)))
    table = panel.tables[0]
    names = [column.name for column in table.columns]
    assert "wear_slow_per_year" in names and "wear_slow" not in names
    row = dict(zip(names, table.rows[0], strict=True))
    assert row["wear_slow_per_year"] == pytest.approx(1e-5 * 365)


def test_figures_of_one_chart_are_its_views(tmp_path: Path) -> None:
    inputs = gather([KINDS["study"]])
    panel = next(made for make in PANELS if (made := make(inputs)))
    assert [(chart.title, len(chart.views), chart.kind) for chart in panel.charts] == [
        ("Flash accesses", 1, "line"),
        ("I/O", 1, "bar"),
        ("Times", 2, "line"),
    ]
    times = panel.charts[-1]
    assert times.y.scale == "log" and times.x.scale == "category" and times.views[0].label == "game"
    points = next(table for table in panel.tables if table.caption == "Times")
    assert points.columns[0].name == "view" and [row[0] for row in points.rows[::2]] == [
        view.label for view in times.views
    ]
    pw.report([KINDS["study"]], tmp_path / "page.html")
    shown = (tmp_path / "page.html").read_text()
    assert "<title>S1: two tiers</title>" in shown
    assert ">47.6\u00a0%</td>" in shown and "0.476</td>" not in shown
    assert "<em>Mean</em>: of all <code>visits</code>" in shown


def test_a_long_table_of_a_study_is_folded() -> None:
    study = copy.deepcopy(KINDS["study"])
    table = study["tables"][0]
    table["rows"] *= 7

    def is_open() -> bool:
        panel = next(made for make in PANELS if (made := make(gather([study]))))
        return panel.tables[1].is_open

    assert not is_open()
    del table["rows"][papers.ROWS_OPEN :]
    assert is_open()


def test_page_sizes_have_bars_by_memory_and_lines_of_fits(tmp_path: Path) -> None:
    answer = KINDS["page-size"]
    inputs = gather([answer])
    panel = next(
        made for make in PANELS if (made := make(inputs)) and made.identifier == "page-size"
    )
    asked, scarce = panel.charts[0].views
    assert "80.0 % of its footprint" in asked.label and "20.0 %" in scarce.label
    drawn = {series.name: series for series in asked.series}
    assert [name for name, series in drawn.items() if series.is_line] == [
        "the paper's fits", "from four sizes"
    ]  # fmt: skip
    # 4 KiB takes 2070 ns, over five times the best, so it is only in the table.
    assert drawn["data access"].points[0][0] == "16K"
    assert [series.name for series in scarce.series] == ["address translation", "data access"]
    assert len(panel.tables[0].rows) == 7
    page = pw.report([answer], tmp_path / "page.html")
    assert page["panels"] == ["page-size", "method"]
    shown = (tmp_path / "page.html").read_text()
    assert "64\u00a0KiB" in shown and "30.0\u00a0%" in shown


def test_allocators_are_compared_by_traps_memory_and_one_swipe(tmp_path: Path) -> None:
    bench = KINDS["bench-lazy"]
    inputs = gather([bench])
    panel = next(
        made for make in PANELS if (made := make(inputs)) and made.identifier == "lazy-bench"
    )
    assert "1 of 2" in panel.finding
    traps, memory, timeline = panel.charts
    bars = {series.name: series.points for series in traps.views[0].series}
    assert bars == {
        "others": [("glibc", 9000.0), ("fast", None)],
        "pagewise": [("glibc", None), ("fast", 900.0)],
    }
    assert [series.name for series in memory.views[0].series] == ["peak", "after the work", "idle"]
    assert [series.name for series in timeline.views[0].series] == ["glibc", "fast"]
    verdicts = [row[-1] for row in panel.tables[0].rows]
    assert verdicts == ["holds", "does not hold", ""]
    page = pw.report([bench], tmp_path / "page.html")
    assert page["panels"] == ["lazy-bench", "method"]
    assert "exact replays" not in (tmp_path / "page.html").read_text()


def test_kills_are_shown_by_their_phases(tmp_path: Path) -> None:
    kills = KINDS["kills"]
    panel = next(
        made for make in PANELS if (made := make(gather([kills]))) and made.identifier == "kills"
    )
    phases, memory = panel.charts
    bars = {series.name: [y for _, y in series.points] for series in phases.views[0].series}
    assert bars["unmapping"] == [pytest.approx(0.0025), None]
    assert len({x for series in phases.views[0].series for x, _ in series.points}) == 2
    assert memory.views[0].series[0].points[-1] == (pytest.approx(0.00274), 0)
    assert "2 kills, 3.24 ms each (median), 92.6 % of it" in panel.finding
    assert pw.report([kills], tmp_path / "page.html")["panels"] == ["kills", "method"]


def test_a_curve_without_all_its_figures_is_refused(tmp_path: Path) -> None:
    answer = copy.deepcopy(KINDS["page-size"])
    answer["memories"][1]["data_ns"].pop()
    with pytest.raises(UnreadableInput, match=r"memories\[1\].data_ns: expected 2 figures"):
        pw.report([answer], tmp_path / "page.html")


def test_the_share_that_memory_can_serve_is_shown_if_the_analysis_has_it() -> None:
    def shown(result: dict[str, Any]) -> list[Any]:
        panel = reuse.panel(gather([result]))
        assert panel is not None
        return [table.rows for table in panel.tables if table.identifier == "reaccesses"]

    earlier = analysis("phone", 0.5)
    assert shown(earlier) == []
    assert shown({**earlier, "reaccess_share": 0.7}) == [[("phone", 0.7)]]
