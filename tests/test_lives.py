"""Lives of phones from Python: the example in the documentation, refusals and interrupts."""

import re
from pathlib import Path
from typing import Any

import pytest

import pagewise as pw
from pagewise.errors import UsageError
from pagewise.lives import Life, live_all

ROOT = Path(__file__).resolve().parents[1]


def phone(**changes: Any) -> dict[str, Any]:
    """Five small apps, visited twice each."""
    apps = [
        {"name": f"app{n}", "anonymous_mib": 12, "file_mib": 4, "cold_ms": 500, "warm_ms": 50}
        for n in range(5)
    ]
    base = {
        "memory_mib": 40,
        "apps": apps,
        "visits": [*range(5)] * 2,
        "killer": {"rule": {"by": "none"}},
    }
    return {**base, **changes}


def test_the_example_of_the_document_runs() -> None:
    text = (ROOT / "docs" / "lifecycle.md").read_text()
    code = re.search(r"\n    import pagewise as pw\n(?:(?:    .*)?\n)+", text)
    assert code
    names: dict[str, Any] = {}
    exec("\n".join(line[4:] for line in code[0].splitlines()), names)
    assert len(names["life"]["visits"]) == 27


def test_the_parts_of_a_launch_add_up() -> None:
    life = pw.lifecycle(phone(swap_mib=500, memory_mib=24), slow="90/40us")
    assert life["schema"] == "pagewise.lifecycle/1"
    parts = [name for name in life["visits"][0] if name.endswith("_ns") and name != "launch_ns"]
    for visit in life["visits"]:
        total = sum(visit[name] for name in parts if name != "background_ns")
        assert visit["launch_ns"] == total
    assert [visit["kind"] for visit in life["visits"]] == ["cold"] * 5 + ["warm"] * 5
    assert sum(visit["swap_ins"] for visit in life["visits"]) > 0


def test_without_swap_apps_are_killed_and_start_cold() -> None:
    rule = {"by": "policy", "name": "minfree", "options": {"minfree_levels": "1024:0,2048:900"}}
    life = pw.lifecycle(phone(killer={"rule": rule}), slow="90/40us")
    assert life["kills"] and all(kill["trigger"] != "out-of-memory" for kill in life["kills"])
    assert {visit["kind"] for visit in life["visits"][5:]} >= {"cold"}
    assert not any(visit["swap_ins"] for visit in life["visits"])


def test_many_lives_come_back_in_order() -> None:
    lives = [Life(phone(visits=[0] * count)) for count in (3, 1, 2)]
    assert [len(life["visits"]) for life in live_all(lives)] == [3, 1, 2]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"memory_mib": 3}, "memory_mib = 3"),
        ({"visits": [7]}, "a visit of app 7"),
        ({"killer": {"rule": {"by": "policy", "name": "no-such"}}}, 'no kill policy "no-such"'),
        ({"memory": 3}, "memory"),
    ],
)
def test_an_invalid_parameter_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        pw.lifecycle(phone(**changes))


def test_a_callback_that_raises_stops_the_life() -> None:
    def stop(_done: int, _total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        pw.lifecycle(phone(), progress=stop)
