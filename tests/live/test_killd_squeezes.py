"""Squeezes whose right victim is known, a few of each kind of bench/killer_squeezes.py.

Needs root, cc and memory cgroups of version 1; says what is missing where it is.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import refusal

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import killer_squeezes

SEED = 14
NUMBERS = (*range(2 * len(killer_squeezes.KINDS)), killer_squeezes.RARE - 1)

pytestmark = [
    pytest.mark.skipif(refusal("memory-cgroup") is not None, reason=str(refusal("memory-cgroup"))),
    pytest.mark.skipif(
        os.geteuid() != 0 or not (killer_squeezes.V1 / "memory.usage_in_bytes").exists(),
        reason="needs root and memory cgroups of version 1",
    ),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs cc"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield killer_squeezes.compiled(tmp_path_factory.mktemp("squeeze"))


@pytest.mark.parametrize(
    "number", NUMBERS, ids=lambda number: killer_squeezes.drawn(SEED, number).kind
)
def test_only_the_right_victim_dies_and_gives_back_what_is_reported(
    program: Path, number: int
) -> None:
    squeeze = killer_squeezes.drawn(SEED, number)
    outcome = killer_squeezes.run(squeeze, program)
    assert outcome.right and not outcome.problems, (squeeze.command, outcome)


def test_a_judge_sees_what_goes_wrong() -> None:
    """The lines of a killer that kills a bystander in vain."""
    outcome = killer_squeezes.Outcome()
    lines = (
        "event=kill process=5 at_ns=20",
        "event=back process=5 at_ns=30 freed_bytes=181403648",
    )

    class Still(killer_squeezes.Watch):
        def gained(self) -> int:
            return 0

    watch = Still(stage=None)  # type: ignore[arg-type]
    for line in lines:
        killer_squeezes.judge(line, outcome, right={4}, protected={5}, watch=watch)
    assert (outcome.kills, outcome.right, outcome.protected, outcome.vain) == (1, 0, 1, 1)
    assert any("181403648 reported, 0 gained" in problem for problem in outcome.problems)
