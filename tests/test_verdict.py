"""The verdict on a paper's statement: it holds, does not hold, or needs a reading."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pagewise_studies.verdict import (
    FAILS,
    HOLDS,
    NEEDS,
    UNMEASURED,
    Check,
    Reading,
    judge,
    load_checks,
    needed,
    show,
    with_cause,
)

CHECK = Check("ACC-X-1", "shape", "change", "a is below b", "-5 %", "because")
NAMES = ("bit", "copy", "moment")


def readings(outcomes: list[bool]) -> list[Reading]:
    """One reading per combination of two values for each of three names."""
    combinations = itertools.product("01", repeat=len(NAMES))
    return [
        Reading(tuple(zip(NAMES, values, strict=True)), holds, 0.1 * number)
        for number, (values, holds) in enumerate(zip(combinations, outcomes, strict=True))
    ]


def test_a_check_holds_under_all_readings_and_fails_under_none():
    assert judge(CHECK, "data", readings([True] * 8)).verdict == HOLDS
    assert judge(CHECK, "data", readings([False] * 8)).verdict == FAILS
    assert judge(CHECK, "data", []).verdict == UNMEASURED


def test_only_a_check_that_does_not_always_hold_shows_the_cause():
    for outcomes, why in (([True] * 8, "because"), ([False] * 8, "because. Seen here: rain")):
        assert with_cause(judge(CHECK, "data", readings(outcomes)), "rain").why == why
    assert with_cause(judge(CHECK, "data", []), "rain").why == "because"


def test_a_single_choice_that_decides_is_named():
    # Holds exactly if copy = 1.
    verdict = judge(CHECK, "data", readings([False, False, True, True] * 2))
    assert (verdict.verdict, verdict.needs) == (NEEDS, (("copy", "1"),))
    assert (verdict.holding, verdict.readings) == (4, 8)


def test_two_choices_are_named_if_one_is_not_enough():
    # Holds exactly if bit = 1 and moment = 0.
    verdict = judge(CHECK, "data", readings([False] * 4 + [True, False, True, False]))
    assert verdict.needs == (("bit", "1"), ("moment", "0"))


@given(st.lists(st.booleans(), min_size=8, max_size=8).filter(any))
def test_the_named_choices_are_the_fewest_that_decide(outcomes: list[bool]):
    all_readings = readings(outcomes)
    named = needed(all_readings)

    def enough(choices: tuple[tuple[str, str], ...]) -> bool:
        matching = [r.holds for r in all_readings if set(choices) <= set(r.choices)]
        return bool(matching) and all(matching)

    assert enough(named)
    pairs = [(name, value) for name in NAMES for value in "01"]
    for count in range(len(named)):
        assert not any(enough(choices) for choices in itertools.combinations(pairs, count))


def test_figures_are_shown_as_a_range_over_the_readings():
    assert judge(CHECK, "data", readings([True] * 8)).ours == "+0.0 % to +70.0 %"
    assert (show(0.284, "share"), show(3.34, "ratio")) == ("28.4 %", "3.34x")


def test_every_check_file_is_complete():
    for study, count in (("multiswap", 10), ("nvm-cache", 8)):
        checks = load_checks(study)
        assert len(checks) == count
        assert all(check.why and check.paper for check in checks.values())
