"""The conclusions of bench/adaptive.py from given costs, since replays take minutes."""

import importlib
import json
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("adaptive")


def cell(bench, recording: str, **ours: float):
    """A cell in which flash-only costs 10 seconds, and the best other architecture 8."""
    place = bench.Place(recording, 32, "90/40us", "4/5us")
    others = {"priority": 8.0, "nvm-cache": 9.0}
    return bench.CellCost(place, flash=10.0, others=others, ours=ours)


def test_a_recording_is_judged_with_the_constants_chosen_on_the_others(bench) -> None:
    cells = [
        cell(bench, "phone", bold=7.0, careful=8.0),
        cell(bench, "tablet", bold=7.0, careful=8.0),
        cell(bench, "game", bold=9.6, careful=8.0),
    ]
    assert set(bench.tuned(cells).values()) == {"careful"}
    assert bench.left_out(cells) == {"phone": "careful", "tablet": "careful", "game": "bold"}
    tuned = bench.Figures.of(cells, bench.tuned(cells))
    unseen = bench.Figures.of(cells, bench.left_out(cells))
    assert (tuned.worst, tuned.within_1_percent) == (0.0, 1.0)
    assert unseen.worst == pytest.approx(0.2)
    assert unseen.within_1_percent == pytest.approx(2 / 3)
    assert unseen.mean_below_best_other == pytest.approx(1 - (8 + 8 + 9.6) / 24)
    assert unseen.worst_over_flash == pytest.approx(-0.04)
    claims = bench.targets({"tuned": tuned, "left_out": unseen})
    assert [claim.is_reached for claim in claims] == [False, False, False, True]


def test_pages_only_on_the_fast_tier_are_written_at_the_end(bench) -> None:
    outcome = {
        "slow": {"reads": 1, "writes": 2},
        "fast": {"reads": 3, "writes": 4},
        "fast_only_pages": 5,
    }
    expected = (90 + 2 * 40 + 3 * 4 + 4 * 5 + 5 * 40) / 1e6
    assert bench.cost(outcome, "90/40us", "4/5us") == pytest.approx(expected)


def test_the_line_has_each_figure_both_ways_and_names_missing_ones(bench) -> None:
    cells = [cell(bench, "phone", bold=8.4)]
    reached = {
        "tuned": bench.Figures.of(cells, bench.tuned(cells)),
        "left_out": bench.Figures.of(cells, {"phone": "bold"}),
    }
    found, missing = [Path("phone.pgw.zst")], [Path("away/pubg_exec.csv.gz")]
    line = json.loads(bench.line(reached, len(cells), found, missing))
    assert line["recordings"] == ["phone"]
    assert list(line["skipped"]) == ["pubg_exec.csv.gz"]
    for name in ("within_1_percent", "worst", "mean_below_best_other"):
        assert set(line[name]) == {"tuned", "left_out"}
    assert line["worst"]["tuned"] == pytest.approx(0.05)


def test_the_recordings_of_the_examples_are_in_the_grid(bench) -> None:
    found, missing = bench.recordings()
    every = sorted((BENCH.parent / "examples").glob("*/*.pgr"))
    examples = [path for path in every if path.stem == path.parent.name]
    assert len(examples) == 4
    assert {path.resolve() for path in found} >= set(examples)
    assert all("shared" in path.parts for path in missing)
    assert len({bench.name_of(path) for path in found + missing}) == len(found + missing)


def test_recordings_that_constants_were_chosen_on_are_not_left_out(bench) -> None:
    cells = [cell(bench, "swap700", bold=16.0), cell(bench, "phone", bold=8.0)]
    assert [each.place.recording for each in bench.unseen(cells)] == ["phone"]
    choices = {"tuned": bench.tuned(cells), "left_out": bench.left_out(cells)}
    assert choices["left_out"] == {"phone": "bold"}
    rows = {row[0]: row[1:] for row in bench.by_recording(cells, choices)}
    assert rows["swap700"][1:4] == ["1.600", "0%", "+100.0%"]
    assert rows["swap700"][4:] == ["", "", ""]
    assert rows["phone"][1:4] == rows["phone"][4:] == ["0.800", "100%", "+0.0%"]


def test_the_page_says_that_one_candidate_is_tuned_and_left_out_alike(bench) -> None:
    assert "same choice" in bench.candidates_in_words(1)
    assert "same choice" not in bench.candidates_in_words(2)
