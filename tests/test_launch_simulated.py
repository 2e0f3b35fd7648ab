"""The study of simulated launches: all of it on small phones, and its parts against hand counts."""

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_results import launch_study
from run_folders import MIB, write_run

from pagewise.commands.study import found
from pagewise.errors import UsageError
from pagewise.launch_runs import LaunchRun, read_run
from pagewise.report.inputs import gather
from pagewise.report.panels import launch as panel
from pagewise_studies import launch_fit, launch_recorded, launch_simulated
from pagewise_studies.launch_simulated_checks import Inputs, Judged, model_verdicts
from pagewise_studies.launch_touches import Seen, Touches, reuse_distances, touches, with_reads
from pagewise_studies.text import markdown
from pagewise_studies.verdict import HOLDS

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.usefixtures("small_phones")
@pytest.mark.long
def test_the_study_runs_and_judges_every_check(tmp_path: Path) -> None:
    result = launch_simulated.simulated(ROOT / "examples", tmp_path, seeds=1, progress=None)
    assert result["command"] == "pagewise study launch --simulated --seeds 1"
    assert (tmp_path / "launch-simulated.json").is_file()
    judged = {f"{row['check']} {row['part']}" for row in result["verdicts"]}
    assert {"ACC-S0-4 1 GB", "ACC-S1-6 cut", "ACC-S2-2 largest app", "model medians"} <= judged
    assert all(row["readings"] > 0 for row in result["verdicts"])
    assert {figure["name"] for figure in result["figures"]} >= {
        f"launch-simulated-{name}"
        for name in (
            *("s0-fig1", "s0-fig2", "s0-fig3", "s0-fig5-1gb", "s1-fig5", "s2-fig1"),
            *("parts-1", "parts-2", "parts-3"),
        )
    }
    assert "## S2's apps in short memory" in markdown(result)
    drawn = panel.panel(gather([tmp_path / "launch-simulated.json"]))
    assert drawn is not None and drawn.charts[0].is_stacked


def test_the_panel_names_the_longest_wait() -> None:
    drawn = panel.panel(gather([launch_study()]))
    assert drawn is not None
    assert drawn.finding == "swap on: 66.7 % of a launch goes to swap-ins."


def test_a_real_run_is_compared_with_a_life_of_its_plan(tmp_path: Path) -> None:
    def visits(cold_s: float) -> list[dict[str, Any]]:
        """Two apps in two rounds. Each needs 100 MiB, and its second launch swaps in 10 MiB."""
        first = [
            {"round": 0, "app": app, "cold": True, "launch_s": cold_s, "program": app}
            | {"memory_bytes": 100 * MIB * (n + 1), "anonymous_bytes": 80 * MIB * (n + 1)}
            for n, app in enumerate(("a", "b"))
        ]
        again = [
            {"round": 1, "app": app, "launch_s": 0.3, "program": app}
            | {"memory_bytes": 200 * MIB, "anonymous_bytes": 160 * MIB}
            | {"swap_in_bytes": 10 * MIB, "bytes_in": 10 * MIB}
            for app in ("a", "b")
        ]
        return [*first, *again]

    unlimited = read_run(write_run(tmp_path / "unlimited", visits(2.0), mode="no-limit"))
    scarce = read_run(write_run(tmp_path / "scarce", visits(2.0), budget="60MiB"))
    model = launch_fit.fit([unlimited, scarce], [unlimited])
    assert model.needs["b"] == launch_fit.Need("b", 80, 20)
    assert model.own_s["a", True] == pytest.approx(2.0)
    assert model.used["a"] == pytest.approx(10 / 80)
    killed = read_run(write_run(tmp_path / "killed", visits(3.0), mode="kill", threshold=0.5))
    assert model.speed(killed) == pytest.approx(1.5)
    phone = model.life(killed).phone
    assert phone["killer"]["rule"] == {"by": "threshold", "share": 0.5}
    assert [app["cold_ms"] for app in phone["apps"]] == pytest.approx([3000, 3000])
    assert phone["swap_mib"] == 0 and model.life(scarce).phone["swap_mib"] > 0


def test_the_model_is_judged_by_its_medians_and_their_order() -> None:
    def judged(name: str, real_s: float, simulated_s: float) -> Judged:
        rates = launch_fit.Rates(80.0, 15.0)
        return Judged(name, real_s, simulated_s, 0.0, 0.0, 0, 0, 1.0, rates)

    def of_model(*runs: Judged) -> dict[str, str]:
        inputs = Inputs({}, runs, [0])
        rows = [row.row() for row in model_verdicts(inputs)]
        return {row["part"]: row["verdict"] for row in rows}

    good = (judged("one", 1.0, 1.2), judged("two", 2.0, 1.8))
    assert set(of_model(*good).values()) == {HOLDS}
    crossed = (judged("one", 1.0, 2.2), judged("two", 2.0, 1.8))
    assert HOLDS not in of_model(*crossed).values()


def test_simulated_takes_no_runs() -> None:
    assert found("launch", has_runs=False, is_simulated=True).simulates
    with pytest.raises(UsageError, match="takes no runs"):
        found("launch", has_runs=True, is_simulated=True)
    with pytest.raises(UsageError, match="simulates nothing"):
        found("thrash", has_runs=False, is_simulated=True)


def test_a_life_repeats_the_touches_of_recorded_launches() -> None:
    need = {"a": launch_fit.Need("p", 80, 100)}
    touched = {
        ("a", True): Touches(12_800, {48: 0.5, 80: 0.001}),
        ("a", False): Touches(6_400, {}),
    }
    own_s = {("a", True): 2.0, ("a", False): 0.5}
    model = launch_fit.Fit(
        launch_fit.Rates(80.0, 15.0), need, own_s, {"a": 0.3}, touched, repeats={"a": 2.0}
    )
    app = model.app("a", ["a"], {"p": 100}, 1.0)
    assert app["cold_again"] == [{"mib": 48, "percent": 100}]
    assert app["warm_again"] == []
    # 12,800 pages are 50 MiB, half of the library; the running app reads 25 MiB of them.
    assert model.linked_percent("p", 100) == 50
    assert app["file_percent"] == 50
    once = launch_fit.Fit(launch_fit.Rates(80.0, 15.0), need, own_s, {"a": 0.3})
    assert "file_percent" not in once.app("a", ["a"], {"p": 100}, 1.0)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 5 * 32 - 1), max_size=80))
def test_reuse_distances_are_those_counted_one_by_one(requested: list[int]) -> None:
    stretches = [(window, list(pages)) for window, pages in groupby(requested, lambda p: p // 32)]
    expected, met = [], set[int]()
    for place, (window, pages) in enumerate(stretches):
        again = 0
        for page in pages:
            again += page in met
            met.add(page)
        earlier = [n for n, (other, _) in enumerate(stretches[:place]) if other == window]
        if again and earlier:
            between = {other for other, _ in stretches[earlier[-1] + 1 : place]}
            expected.append((len(between), again))
    assert reuse_distances(np.array(requested, dtype=np.int64)) == expected


def test_touches_come_from_the_run_that_shows_most_of_a_launch(tmp_path: Path) -> None:
    def run(name: str) -> LaunchRun:
        visits = [
            {"round": number, "app": "a", "cold": True, "launch_s": 1.0, "program": "p"}
            for number in (0, 1, 2)
        ]
        return read_run(write_run(tmp_path / name, visits, budget="60MiB"))

    first = Seen(900, 900, 0, 0)
    shown = {
        "loose": [first, Seen(100, 100, 0, 0), Seen(120, 120, 0, 0)],
        "tight": [first, Seen(300, 200, 7, 7, {48: 100}), Seen(200, 200, 3, 3)],
    }
    runs = {name: run(name) for name in shown}
    found = touches(runs, shown)
    assert found == {("a", True): Touches(200, {48: 0.25})}
    visit = with_reads(runs["tight"], shown["tight"]).visits[1]
    assert (visit.swap_in_bytes, visit.bytes_in) == (7 * 4096, 307 * 4096)


def test_plans_with_repeats_and_valid_runs_are_judged(tmp_path: Path) -> None:
    visits = [
        {"round": number, "app": "a", "cold": True, "launch_s": 1.0, "program": "p"}
        for number in (0, 1)
    ]
    for name in ("row/one-40-0", "row/one-40-1", "row/single-40-0"):
        write_run(tmp_path / name, visits, budget="60MiB")
    assert not list(launch_recorded.plans([tmp_path])), "no recording"
    (tmp_path / "row/one-40-1/recording.pgr").touch()
    (plan,) = launch_recorded.plans([tmp_path])
    assert (plan.name, plan.storage) == ("row/one-40", "disk")
    assert [run.name for run in plan.runs] == ["one-40-1", "one-40-0"]


def test_the_page_counts_medians_and_refaults_near_those_of_the_runs(tmp_path: Path) -> None:
    visits = [
        {"round": number, "app": "a", "cold": True, "launch_s": 1.0, "program": "p"}
        for number in (0, 1)
    ]
    run = read_run(write_run(tmp_path / "one-40-0", visits, budget="60MiB"))
    plan = launch_recorded.PlanRuns("row/one-40", "disk", (run, run))
    near = launch_recorded.Row("near", "m", [1.0, 1.2], 1.3, 100, 201, 0, 0, 1, 1)
    far = launch_recorded.Row("far", "m", [1.0], 1.26, 100, 200, 0, 0, 1, 1)
    model = launch_fit.Fit(launch_fit.Rates(80.0, 15.0), {}, {}, {}, repeats={"a": 2.0})
    shown = {plan.name: [Seen(9, 9, 0, 0), Seen(512, 256, 5, 4)]}
    text = launch_recorded.page([near, far], [plan], shown, {"disk": model})
    assert "| a, cold | 2.00 x 1 |" in text
    assert "| 1 of 5 |" in text
    assert "*m*: 1 of 2 medians within 25%, refaults of 1 of 2 plans within a factor of two" in text
