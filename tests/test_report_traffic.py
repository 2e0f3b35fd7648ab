"""The report's chart of traffic over time, with kills and stalls; charts of one bar; caches."""

import json
import re
from pathlib import Path

import pytest
from report_results import EVIL, analysis

import pagewise as pw
from pagewise import _core
from pagewise.grids.run import sweep
from pagewise.report.inputs import Inputs, gather
from pagewise.report.model import Axis, Chart, Panel, Series, View
from pagewise.report.panels import PANELS, traffic
from pagewise.report.sentences import without_single_bars
from pagewise.report.verdict import fewest_misses, verdict

ROOT = Path(__file__).parents[1]
PAGE = 4096


def test_traffic_is_stacked_by_name_with_kills_and_stalls_on_the_same_axis() -> None:
    panel = traffic.panel(gather([analysis("busy", 0.5)]))
    assert panel is not None
    (chart,) = panel.charts
    assert chart.is_stacked and chart.is_stepped and chart.y_right is not None
    assert (chart.x.low, chart.x.high) == (0, 1.5)
    assert [view.label for view in chart.views] == [
        "pages in and pages out", "pages out", "pages in"
    ]  # fmt: skip
    drawn = {series.name: series for series in chart.views[0].series}
    assert list(drawn) == [EVIL, "others", "some tasks stalled", "all tasks stalled", "kills"]
    # Steps of half a second have 300, 100 and 200 pages, which is twice that per second.
    rates = [(0.0, 600 * PAGE), (0.5, 200 * PAGE), (1.0, 400 * PAGE), (1.5, 400 * PAGE)]
    assert drawn[EVIL].points == rates and not drawn[EVIL].is_reference
    assert drawn["others"].is_reference
    # The first event is at 10 s of the recorder's clock, the last step ends at 11.5 s.
    assert drawn["some tasks stalled"].points == [(0, 0.5), (1.0, 0.0), (1.5, 0.0)]
    assert drawn["all tasks stalled"].points == [(0, 0.25), (1.0, 0.0), (1.5, 0.0)]
    assert drawn["kills"].points == [(0.25, None), (1.0, None)]
    assert drawn["kills"].labels[1] == "pid 8 killed by a process"
    writes = {series.name: series.points for series in chart.views[1].series}
    assert writes[EVIL][0] == (0.0, 600 * PAGE) and writes[EVIL][1] == (0.5, 0)


def test_the_finding_names_the_busiest_process_kills_and_stalls() -> None:
    panel = traffic.panel(gather([analysis("busy", 0.5)]))
    assert panel is not None
    assert panel.finding == (
        f"On busy, 60.0 % of the accesses are by {EVIL}, more than by any other name. All together "
        "peak at 3.1 MiB a second, at 1 s. On busy, 2 processes died by SIGKILL, 1 of them by the "
        "kernel. At worst, at 0 s, some task of the machine stalled for memory 50.0 % of the time."
    )
    assert panel.notes == ["busy: 3 later kills are not shown."]
    names, kills = panel.tables
    assert names.rows[0] == ("busy", EVIL, 2, 150, 450, 0.6)
    assert kills.rows[0] == ("busy", 0.25, EVIL, 7, "the kernel (out of memory)")


def test_accesses_that_are_all_reads_have_one_view() -> None:
    result = analysis("busy", 0.5)
    for series in result["traffic"]["series"]:
        series["writes"] = [0, 0, 0]
    panel = traffic.panel(gather([result]))
    assert panel is not None and [view.label for view in panel.charts[0].views] == ["pages in"]


@pytest.mark.parametrize(
    ("series", "step_s", "message"),
    [
        ({"reads": [1], "writes": [1, 2]}, 1, r"traffic.series\[0\]: expected 1 counts"),
        ({"reads": [], "writes": []}, 1, r"traffic.series\[0\]: expected 1 counts"),
        ({"reads": [1], "writes": [1]}, 0, "traffic.step_s: expected a number above 0"),
    ],
)
def test_traffic_without_all_its_figures_is_refused(
    series: dict[str, list[int]], step_s: int, message: str
) -> None:
    result = analysis("busy", 0.5)
    named = {"name": "x", "processes": 1, **series}
    result["traffic"] = {"step_s": step_s, "series": [named]}
    with pytest.raises(pw.UnreadableInput, match=message):
        gather([result])


def test_without_a_clock_there_is_no_picture() -> None:
    result = analysis("busy", 0.5)
    result["traffic"] = None
    del result["header"]["shortage"]
    assert traffic.panel(gather([result])) is None


def test_a_recording_of_kills_shows_them_and_no_empty_charts(tmp_path: Path) -> None:
    page = tmp_path / "grow.html"
    shown = pw.report([ROOT / "examples" / "kills" / "grow.pgr"], page)
    assert shown["panels"] == ["data-quality", "traffic", "method"]
    assert (
        "died by SIGKILL" in page.read_text()
        and "<title>Recording grow</title>" in page.read_text()
    )


def bar_chart(*bars: str, views: int = 1) -> Chart:
    parts = [
        Series(name, [(bar, size) for bar in bars])
        for name, size in (("used", 1024.0), ("free", 0.5))
    ]
    return Chart(
        "volume",
        "Volume",
        Axis("", "text", "category"),
        Axis("", "bytes"),
        [View(f"view {number}", parts) for number in range(views)],
        "bar",
        is_stacked=True,
    )


@pytest.mark.parametrize(
    ("chart", "notes"),
    [
        (bar_chart("phone"), ["Volume (phone): used 1 KiB, free 0.5 B."]),
        (bar_chart("phone", "tablet"), []),
        (
            bar_chart("phone", views=2),
            [f"Volume (view {number}, phone): used 1 KiB, free 0.5 B." for number in range(2)],
        ),
    ],
)
def test_one_bar_is_a_sentence(chart: Chart, notes: list[str]) -> None:
    panel = without_single_bars(Panel("x", "X", "found", [chart], notes=["said before"]))
    assert list(panel.notes) == [*notes, "said before"]
    assert len(panel.charts) == (0 if notes else 1)


def test_no_page_has_a_chart_of_one_bar(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    pw.report([analysis("busy", 0.5)], page)
    charts = re.findall(r'id="chart-[\w-]+">(.*?)</script>', page.read_text())
    assert charts and not any(json.loads(chart)["kind"] == "bar" for chart in charts)
    assert "busiest tenth of pages 1\u00a0MiB, all other pages 4\u00a0MiB" in page.read_text()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred objects in a loop, and ten that come more often."""
    path = tmp_path_factory.mktemp("cache") / "loop.csv"
    rows = []
    for turn in range(20):
        for step in range(100):
            rows += [f"{len(rows)},{step}", f"{len(rows) + 1},{1000 + (turn + step) % 10}"]
    path.write_text("\n".join(["time,id", *rows]) + "\n")
    return path


def test_a_cache_trace_has_its_title_and_is_judged_by_policies(cache: Path, tmp_path: Path) -> None:
    page = tmp_path / "cache.html"
    pw.report([cache], page)
    text = page.read_text()
    assert "<title>Cache trace loop</title>" in text and "Swap on" not in text
    assert "4,000 accesses to objects of a cache" in text
    inputs = gather([cache])
    shown = {panel.identifier for make in PANELS if (panel := make(inputs))}
    first, *rest = verdict(inputs, shown).findings
    (counted,) = inputs.misses
    names = [row["name"] for row in _core.policies()]
    assert list(counted["misses"]) == names
    assert first.evidence == "reuse" and first.figure in names
    assert f"misses least of {len(names) - 1} policies on loop" in first.statement
    means = {name: sum(counts.values()) for name, counts in counted["misses"].items()}
    assert means[first.figure] == min(count for name, count in means.items() if name != "opt")
    assert all("pages" not in finding.statement for finding in rest)
    counted_again = pw.misses(cache, policy="lru", frames=[11])["misses"]["lru"]
    assert counted["misses"]["lru"]["11"] == counted_again["11"]


def test_policies_are_compared_at_their_common_sizes() -> None:
    counted = {"lru": {"10": 90, "1000": 20}, "arc": {"10": 80}, "opt": {"10": 70}}
    misses = {"name": "loop", "requests": 100, "misses": counted}
    found = fewest_misses(Inputs(misses=[misses]), set())
    assert found and found.figure == "arc"
    assert "80.0 % of accesses on average; lru 90.0 %" in found.statement
    assert "future, 70.0 %" in found.statement


def test_memory_of_caches_is_counted_in_objects_beside_that_in_bytes(cache: Path) -> None:
    inputs = gather([cache, analysis("busy", 0.5)])
    panel = next(made for make in PANELS if (made := make(inputs)) and made.identifier == "reuse")
    units = {chart.identifier: chart.x.unit for chart in panel.charts}
    assert units == {
        "miss-ratio": "bytes",
        "reuse-distance": "bytes",
        "miss-ratio-objects": "count",
        "reuse-distance-objects": "count",
    }
    assert "On loop, a cache of" in panel.finding and "of memory halves" in panel.finding


def test_names_lose_control_characters_and_direction_marks(tmp_path: Path) -> None:
    odd = "\x1b[31mred\x07\x9b1m\u202egpj\u2066.exe\x00"
    result = analysis(odd, 0.5)
    result["processes"][0]["name"] = odd
    result["traffic"]["series"][0]["name"] = odd
    result["header"]["shortage"]["kills"][0]["name"] = odd
    page = tmp_path / "page.html"
    pw.report([result], page, title=odd)
    text = page.read_text()
    assert "redgpj.exe" in text and "[31m" not in text
    # Except scripts, which have such characters in their own tables.
    written = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", written
    )
    assert not re.search(r"\\u(00[01][0-9a-f]|00[789][0-9a-f]|202[a-e]|206[6-9])", written)


def test_a_sweep_over_objects_counts_objects(cache: Path, tmp_path: Path) -> None:
    output = tmp_path / "sweep.parquet"
    trace = tmp_path / "loop.parquet"
    pw.import_trace(cache, trace, as_="objects")
    spec = {"traces": [str(trace)], "policy": [{"name": "lru", "sizes": [20, 100]}]}
    assert sweep(spec, output)["failed"] == []
    panels = {panel.identifier: panel for make in PANELS if (panel := make(gather([output])))}
    [chart] = panels["reuse"].charts
    assert (chart.identifier, chart.x.unit) == ("miss-ratio-objects", "count")
    assert [size for size, _ in chart.views[0].series[0].points] == [20, 100]
