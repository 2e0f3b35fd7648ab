"""No second kill if the first suffices, in the lives of `study launch --simulated`.

These tests decide again whether a kill is needed, for each policy as its documentation describes.
They use the free memory when the victim was chosen and the memory of earlier victims, both from the
rows of the life, but not the killer's decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pytest

from pagewise import _core
from pagewise.lives import Life, live_all
from pagewise_studies.launch_phones import KILL_ORDERS, Key
from pagewise_studies.launch_simulated import paper_lives, plan_lives, read_runs

EXAMPLES = Path(__file__).parents[1] / "examples"
ROWS = _core.kill_policies()
OPTIONS = {
    row["name"]: {option["name"]: option["default"] for option in row["options"]} for row in ROWS
}
"""The defaults of every policy of the catalog."""

Row = Mapping[str, Any]
Rule = Mapping[str, Any]


def once_back(seen: Row) -> dict[str, int]:
    """The memory that the killer saw, with the memory of dying victims counted as free."""
    coming, slots = seen["coming_pages"], seen["coming_swap_pages"]
    return {
        "free": seen["free_pages"] + coming,
        "available": seen["available_pages"] + coming,
        "files": seen["file_pages"],
        "anonymous": seen["anonymous_pages"] - coming,
        "swap_free": seen["swap_free_pages"] + slots,
    }


def is_within(part: int, whole: int, percent: str) -> bool:
    return part * 100 <= whole * int(percent)


def by_minfree(life: Row, kill: Row, options: Mapping[str, str]) -> bool:
    """Free memory is below a level whose adj is at most the victim's."""
    now = once_back(kill["seen"])
    pages = now["free"]
    if options["file_cache_counts"] == "true":
        pages = max(now["free"] - life["watermarks"][2], now["files"])
    levels = [level.split(":") for level in options["minfree_levels"].split(",")]
    return any(pages < int(most) and kill["adj"] >= int(adj) for most, adj in levels)


def by_lmkd(life: Row, kill: Row, options: Mapping[str, str]) -> bool:
    """The memory that the rule names is short. A rule with only stalls and refaults needs no second
    victim until the first is gone."""
    now = once_back(kill["seen"])
    low, _, high = life["watermarks"]
    is_swap_low = is_within(now["swap_free"], life["slots"], options["swap_free_low_percentage"])
    is_first = kill["seen"]["coming_pages"] == 0
    needs = {
        "free memory is below the min watermark after a kill": now["free"] < low,
        "every task stalls and free memory is low": now["free"] < high,
        "swap is low and files are read again and again": is_swap_low and is_first,
        "free memory and swap are low": now["free"] < high and is_swap_low,
        "free memory is low and most of it is swapped": now["free"] < high,
        "free memory is low and files are read again and again": now["free"] < high,
        "programs make room themselves and files are read again": is_first,
        "the cache of files is small after thrashing": is_first,
    }
    return needs[kill["why"]]


def by_largest(life: Row, kill: Row, options: Mapping[str, str]) -> bool:
    """Little is available, and little swap is left."""
    now = once_back(kill["seen"])
    is_short = is_within(now["available"], life["frames"], options["memory_percent"])
    return is_short and is_within(now["swap_free"], life["slots"], options["swap_percent"])


def by_pressure(life: Row, kill: Row, options: Mapping[str, str]) -> bool:
    """Memory and swap are used up; or tasks stall, and not much is available."""
    now = once_back(kill["seen"])
    if kill["why"] == "memory and swap are used up":
        left = str(100 - int(options["swap_used_limit"]))
        is_short = is_within(now["available"], life["frames"], left)
        return is_short and is_within(now["swap_free"], life["slots"], left)
    return is_within(now["available"], life["frames"], options["available_percent_max"])


def by_restart_cost(life: Row, kill: Row, options: Mapping[str, str]) -> bool:
    """Less is available than kills must restore or, if no victim is dying yet, than the minimum."""
    now = once_back(kill["seen"])
    is_first = kill["seen"]["coming_pages"] == 0
    percent = options["low_percent" if is_first else "high_percent"]
    return is_within(now["available"], life["frames"], percent)


POLICIES: dict[str, Callable[[Row, Row, Mapping[str, str]], bool]] = {
    "minfree": by_minfree,
    "lmkd": by_lmkd,
    "largest": by_largest,
    "pressure": by_pressure,
    "restart-cost": by_restart_cost,
}


def needless(life: Row, killer: Row) -> list[Row]:
    """The kills of a life that were needless after earlier kills."""
    return [kill for kill in life["kills"] if not is_needed(life, kill, killer["rule"])]


def is_needed(life: Row, kill: Row, rule: Rule) -> bool:
    if kill["trigger"] == "out-of-memory":
        # The kernel kills only if no other memory comes back.
        return bool(kill["seen"]["coming_pages"] == 0)
    if rule["by"] == "threshold":
        return bool(once_back(kill["seen"])["anonymous"] > rule["share"] * life["frames"])
    name = rule["name"]
    return POLICIES[name](life, kill, OPTIONS[name] | rule.get("options", {}))


def left_out(life: Row) -> Iterable[Row]:
    """Victims of `restart-cost` that died together with others whose memory would have sufficed."""
    options = OPTIONS["restart-cost"]
    target = life["frames"] * int(options["high_percent"]) // 100
    for _, group in groupby(life["kills"], key=lambda kill: kill["at_ns"]):
        batch = [kill for kill in group if kill["trigger"] != "out-of-memory"]
        if not 1 < len(batch) <= int(options["victims_max"]):
            continue
        available = once_back(batch[0]["seen"])["available"]
        together = available + sum(kill["resident_pages"] for kill in batch)
        yield from (kill for kill in batch if together - kill["resident_pages"] >= target)


def killed_by(life: Life, policy: str, order: str) -> Life:
    """The life of the same phone with another killer."""
    killer = {"rule": {"by": "policy", "name": policy}, "order": order}
    return replace(life, phone={**life.phone, "killer": killer})


@pytest.fixture(scope="module")
def corpus() -> dict[Key | str, Life]:
    """Lives of the papers' phones, and of the plans of real runs."""
    real = read_runs(EXAMPLES)
    plans = {f"plan {number}": life for number, (_, life) in enumerate(plan_lives(real))}
    return {**paper_lives(real, seeds=1), **plans}


def assert_none(lives: Mapping[object, Life], least: int) -> None:
    """Asserts that the lives have at least ``least`` kills, none of them needless."""
    kills = 0
    for (name, life), outcome in zip(lives.items(), live_all(list(lives.values())), strict=True):
        kills += len(outcome["kills"])
        killer = life.phone["killer"]
        assert not (found := needless(outcome, killer)), (name, killer, len(found), found[0])
        if killer["rule"].get("name") == "restart-cost":
            assert not list(left_out(outcome)), (name, killer)
    assert kills >= least, f"{kills} kills are too few for a conclusion"


def test_each_policy_of_the_catalog_has_a_check_here() -> None:
    assert list(POLICIES) == list(OPTIONS)


def small(corpus: Mapping[Key | str, Life]) -> dict[object, Life]:
    """One life of each phone and plan, with the first reading."""
    first: dict[object, Life] = {}
    for key, life in corpus.items():
        first.setdefault((key.phone, key.below) if isinstance(key, Key) else key, life)
    return first


@pytest.mark.long
def test_no_life_of_the_study_has_a_needless_kill(corpus: Mapping[Key | str, Life]) -> None:
    killed = {
        key: life for key, life in corpus.items() if life.phone["killer"]["rule"]["by"] != "none"
    }
    assert_none(dict(killed), least=5000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [pytest.param(name, marks=pytest.mark.long if name == "lmkd" else ()) for name in POLICIES],
)
def test_no_policy_kills_needlessly_in_any_order(
    corpus: Mapping[Key | str, Life], policy: str
) -> None:
    lives = {
        (name, order): killed_by(life, policy, order)
        for (name, life), order in product(small(corpus).items(), KILL_ORDERS)
    }
    assert_none(lives, least=20)


@pytest.mark.parametrize("policy", ["minfree", "largest", "restart-cost"])
@pytest.mark.slow
def test_a_killer_that_does_not_wait_kills_needlessly(
    corpus: Mapping[Key | str, Life], policy: str
) -> None:
    lives = [killed_by(life, policy, "impatient") for life in small(corpus).values()]
    outcomes = zip(lives, live_all(lives), strict=True)
    assert any(needless(outcome, life.phone["killer"]) for life, outcome in outcomes)
