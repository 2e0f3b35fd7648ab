"""The panel of a folder of recordings: spreads, a point for each recording, and outliers."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from report_results import EVIL, FORMULA, fleet

import pagewise as pw
from pagewise.errors import UnreadableInput
from pagewise.fleet import files_of, summary
from pagewise.fleet_figures import figures_of_analysis
from pagewise.report.inputs import gather
from pagewise.report.model import Panel
from pagewise.report.panels import PANELS
from pagewise.report.panels.fleet import POINTS_MAX
from pagewise.report.verdict import verdict


def panel_of(*results: dict[str, Any]) -> Panel:
    """The panel of these results."""
    made = [panel for make in PANELS if (panel := make(gather(results)))]
    (found,) = (panel for panel in made if panel.identifier == "fleet")
    return found


def test_each_unit_has_a_chart_of_the_share_of_recordings_with_at_most_a_value() -> None:
    shares, counts, _ = panel_of(fleet()).charts
    (series,) = shares.views[0].series
    assert (series.name, series.points) == ("misses of lru, 8 frames", [(0.25, 0.5), (0.5, 1.0)])
    assert (shares.x.unit, shares.x.high, shares.y.unit) == ("share", 1, "share")
    (series,) = counts.views[0].series
    assert series.points == [(9, 1 / 3), (10, 2 / 3), (995, 1.0)]
    assert (counts.x.unit, counts.x.scale) == ("count", "log")
    assert all(axis.label for chart in (shares, counts) for axis in (chart.x, chart.y))


def test_each_recording_is_a_point_with_its_name_and_outliers_are_apart() -> None:
    result = fleet()
    result["recordings"][2]["figures"]["miss_ratio.lru.8"] = 0.75
    chart = panel_of(result).charts[-1]
    assert (chart.kind, chart.x.label) == ("scatter", "requests")
    (view,) = chart.views
    others, unlike = view.series
    assert (others.name, others.points) == ("recordings", [(9, 0.25), (10, 0.5)])
    assert list(others.labels) == [FORMULA, "b.csv"]
    assert (unlike.name, unlike.points, unlike.labels) == (
        "unlike the others",
        [(995, 0.75)],
        [EVIL],
    )


def test_the_tables_have_every_recording_with_outliers_first_and_every_file_left_out() -> None:
    spread, every, left_out = panel_of(fleet()).tables
    assert spread.rows[0][:5] == ("requests", 3, "9", "9.2", "10")
    assert spread.rows[1][0] == "misses of lru, 8 frames" and spread.rows[1][-2] == "50.0 %"
    assert [row[0] for row in every.rows] == [EVIL, FORMULA, "b.csv"]
    assert every.rows[0] == (EVIL, "requests", 995, None)
    assert [column.unit for column in every.columns] == ["text", "text", "count", "share"]
    assert left_out.rows == [(f"{EVIL}.txt", "no known format")]


def test_groups_have_a_table_and_a_column() -> None:
    result = fleet()
    medians = {"requests": 9.5, "miss_ratio.lru.8": 0.375}
    result["groups"] = {
        "compared": ["requests"],
        "apart": 0.9,
        "apart_by_chance": 0.6,
        "why": "at least 0.90 apart; made-up recordings without groups at most 0.60",
        "found": [
            {"traces": 2, "typical": FORMULA, "medians": medians},
            {"traces": 1, "typical": EVIL, "medians": {"requests": 995}},
        ],
    }
    for each, number in zip(result["recordings"], (1, 1, 2), strict=True):
        each["group"] = number
    _, groups, every, _ = panel_of(result).tables
    assert groups.caption.startswith("Groups of recordings that are alike: at least 0.90 apart")
    assert groups.rows == [
        ("recordings", "2", "1"),
        ("typical recording", FORMULA, EVIL),
        ("requests", "9.5", "995"),
        ("misses of lru, 8 frames", "37.5 %", None),
    ]
    assert [column.label for column in every.columns][2] == "group"
    assert [row[2] for row in every.rows] == [2, 1, 1]
    assert "; 2 groups of recordings that are alike" in panel_of(result).finding
    result["groups"]["found"] = []
    assert len(panel_of(result).tables) == 3
    result["groups"]["found"] = [{"traces": 1}]
    with pytest.raises(UnreadableInput, match="groups"):
        gather([result])


def test_shares_above_one_and_sizes_have_their_axes() -> None:
    result = fleet()
    for number, each in enumerate(result["recordings"]):
        each["figures"] = {
            "refault_bytes": 4096 << number,
            "io_time_share": 0.5 + number,
            "slow.reads": 7 + number,
        }
    result["figures"] = {
        name: result["figures"]["requests"]
        for name in ("refault_bytes", "io_time_share", "slow.reads")
    }
    charts = {chart.identifier: chart for chart in panel_of(result).charts}
    assert charts["fleet-0-share"].x.high == 2.5
    assert charts["fleet-0-bytes"].x.unit == "bytes"
    assert charts["fleet-0-recordings"].y.high == 2.5


def test_the_verdict_says_how_many_recordings_are_unlike_the_others() -> None:
    inputs = gather([fleet()])
    (finding,) = verdict(inputs, {"fleet"}).findings
    assert finding.figure == "1" and finding.statement.startswith("of 3 recordings are unlike")
    assert EVIL in finding.statement
    text = panel_of(fleet()).finding
    assert "misses: 3 recordings; 1 unlike the others" in text
    assert "requests 995, median 10" in text and "1 file left out" in text


def test_zeros_are_drawn_at_the_end_of_a_logarithmic_axis() -> None:
    result = fleet()
    result["recordings"][0]["figures"]["requests"] = 0
    charts = panel_of(result).charts
    assert charts[1].views[0].series[0].points[0] == (1, 1 / 3)
    assert charts[2].views[0].series[0].points[0] == (1, 0.25)


def test_two_results_have_charts_and_tables_of_their_own() -> None:
    other = {**fleet(), "command": "info"}
    found = panel_of(fleet(), other)
    for parts in (found.charts, found.tables):
        assert len({part.identifier for part in parts}) == len(parts)
    assert [chart.title.endswith(" (info)") for chart in found.charts].count(True) == 3


def test_a_large_folder_is_thinned_in_charts_but_not_in_the_table() -> None:
    result = fleet()
    rows = [
        {"trace": f"{n}.csv", "figures": {"requests": n, "miss_ratio.lru.8": 0.5}, "outlying": {}}
        for n in range(1, 3 * POINTS_MAX)
    ]
    rows[7]["outlying"] = {"requests": 4.0}
    result["recordings"] = rows
    made = panel_of(result)
    others, unlike = made.charts[-1].views[0].series
    assert len(others.points) == POINTS_MAX and len(unlike.points) == 1
    assert others.labels[0] == "1.csv" and others.labels[-1] == f"{len(rows)}.csv"
    assert len(made.tables[1].rows) == len(rows)


def test_results_without_recordings_have_only_the_spread(tmp_path: Path) -> None:
    result = fleet()
    del result["recordings"]
    made = panel_of(result)
    assert made.charts == [] and made.tables[0].identifier == "fleet-0-spread"
    empty = {**fleet(), "traces": 0, "figures": {}, "recordings": []}
    assert panel_of(empty).charts == []
    pw.report([empty], tmp_path / "page.html")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("figures", "requests", "median"), "many"),
        (("figures", "requests", "p90"), float("nan")),
        (("recordings", 0, "figures", "requests"), None),
        (("recordings", 0, "outlying"), [1]),
        (("recordings", 0, "trace"), 7),
        (("unreadable",), {}),
    ],
)
def test_a_damaged_result_is_refused_with_its_field(path: tuple[Any, ...], value: object) -> None:
    result = copy.deepcopy(fleet())
    place: Any = result
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(UnreadableInput, match=str(path[0])):
        gather([result])


def test_the_page_is_made_from_the_json_of_a_folder(tmp_path: Path) -> None:
    for number, accesses in enumerate((50, 60, 70, 4000)):
        lines = ["time,id", *(f"{at},{at % 7}" for at in range(accesses))]
        (tmp_path / f"{number}.csv").write_text("\n".join([*lines, ""]))
    found = summary(
        "analyze", files_of(f"{tmp_path}/*.csv"), lambda path: figures_of_analysis(pw.analyze(path))
    )
    result, page = tmp_path / "fleet.json", tmp_path / "page.html"
    result.write_text(json.dumps(found))
    pw.report([result], page)
    text = page.read_text()
    assert "<title>4 recordings</title>" in text and "3.csv" in text
