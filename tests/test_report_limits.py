"""The report says what a recording cannot carry: in its verdict, and in its data quality."""

import json
from pathlib import Path

import pytest
from scenarios import SMALL, rounds, write_steps
from test_evidence import HOUR_S

import pagewise as pw
from pagewise import _core
from pagewise.report.inputs import gather
from pagewise.report.panels import PANELS
from pagewise.report.verdict import verdict

BLOCKS = Path(__file__).parents[1] / "examples/kill-1g/kill-1g.blocks.csv.zst"


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("not swap", "record at least 60 s of the load that makes memory short"),
        ("too short", "record twice as much"),
    ],
)
@pytest.mark.slow
def test_without_evidence_the_verdict_names_no_size(kind: str, remedy: str, tmp_path: Path) -> None:
    recording = BLOCKS
    if kind == "too short":
        recording = tmp_path / "short.parquet"
        spec = {key: value for key, value in SMALL.items() if key != "name"}
        _core.write_scenario(json.dumps(spec), str(recording))
    advice = pw.advise(recording, fast="zram-lz4", slow="ufs-3.1")
    assert advice["evidence"]["verdict"] == kind
    page = tmp_path / "report.html"
    pw.report([advice], page)
    inputs = gather([advice])
    conclusion = verdict(inputs, {panel.identifier for make in PANELS if (panel := make(inputs))})
    (finding,) = conclusion.findings
    assert (finding.figure, finding.interval) == ("no size", f"The evidence is {kind}")
    assert advice["evidence"]["reason"] in finding.statement and remedy in finding.statement
    assert conclusion.settings == []
    html = page.read_text()
    assert f"The evidence is {kind}" in html and "swapon" not in html


@pytest.mark.slow
def test_idle_gaps_of_advice_are_in_the_data_quality(tmp_path: Path) -> None:
    path = write_steps(
        tmp_path / "night.csv", list(rounds(10, 2)), lambda n: n + n // 20 * 6 * HOUR_S
    )
    advice = tmp_path / "advice.json"
    advice.write_text(json.dumps(pw.advise(path, fast="zram-lz4", slow="ufs-3.1")))
    for inputs, title in (([advice], "Idle gaps"), ([advice, path], "")):
        gathered = gather(inputs)
        (quality,) = (
            panel
            for make in PANELS
            if (panel := make(gathered)) and panel.identifier == "data-quality"
        )
        found = {table.caption: table.rows for table in quality.tables}
        assert not title or found == {title: [("night", "1, 6 h 0 min")]}
        assert title or list(found) == ["Recordings"]
    pw.report([advice], tmp_path / "report.html")
    assert "1, 6 h 0 min" in (tmp_path / "report.html").read_text()


def test_idle_gaps_are_in_the_data_quality(tmp_path: Path) -> None:
    path = write_steps(
        tmp_path / "night.csv", list(rounds(10, 2)), lambda n: n + n // 20 * 6 * HOUR_S
    )
    pw.report([path], tmp_path / "report.html")
    inputs = gather([path])
    (quality,) = (
        panel for make in PANELS if (panel := make(inputs)) and panel.identifier == "data-quality"
    )
    table = quality.tables[0]
    labels = [column.label for column in table.columns]
    assert [row[labels.index("idle gaps")] for row in table.rows] == ["1, 6 h 0 min; 2 recordings"]
    assert "1, 6 h 0 min; 2 recordings" in (tmp_path / "report.html").read_text()
