"""The study of simulated launches: all of it on small phones, and its parts against hand counts."""

from pathlib import Path
from typing import Any

import pytest
from report_results import launch_study
from run_folders import MIB, write_run

from pagewise.commands.study import found
from pagewise.errors import UsageError
from pagewise.launch_runs import read_run
from pagewise.report.inputs import gather
from pagewise.report.panels import launch as panel
from pagewise_studies import launch_fit, launch_simulated
from pagewise_studies.launch_simulated_checks import Inputs, Judged, model_verdicts
from pagewise_studies.text import markdown
from pagewise_studies.verdict import HOLDS

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.usefixtures("small_phones")
@pytest.mark.slow
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
