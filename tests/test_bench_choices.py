"""The conclusions of bench/page_size_choices.py from given regrets, since traces take minutes."""

import importlib
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("page_size_choices")


def test_exact_is_right_or_it_is_not_reached(choices) -> None:
    assert choices.exact("zram", {"game": [0.0, 0.0], "pdf": [0.0]}).is_reached
    wrong = choices.exact("zram", {"game": [0.0, 0.002], "pdf": [0.0]})
    assert not wrong.is_reached and "**0.2 %**" in wrong.measured and "3 cells" in wrong.what


def test_sampled_is_held_to_the_better_of_the_papers_fits(choices) -> None:
    ours = {"game": [0.01, 0.03], "pdf": [0.02]}
    papers = [{"game": [0.3, 0.3], "pdf": [0.3]}, {"game": [0.1, 0.1], "pdf": [0.1]}]
    claim = choices.sampled("ssd", ours, papers)
    assert claim.is_reached
    assert claim.measured == "**0.20x** (0.20 to 0.20): ours 2.00 %, theirs 10.00 %"
    assert not choices.sampled("ssd", ours, [*papers, ours]).is_reached


def test_another_input_is_the_mean_over_cells_with_its_range(choices) -> None:
    regrets = {"game": [0.0, 0.03], "pdf": [0.0]}
    claim = choices.another_input("ufs", 0.01, regrets)
    assert claim.is_reached and claim.measured == "**1.00 %** (0.00 to 1.50)"
    assert not choices.another_input("ufs", 0.009, regrets).is_reached


def test_missing_traces_are_named(choices, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(choices, "TRACES", tmp_path)
    with pytest.raises(SystemExit, match="make traces"):
        choices.program("game")
