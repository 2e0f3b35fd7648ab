"""Squeezes with a known right victim: a few of each kind of bench/killer_squeezes.py.

Needs root, cc and memory cgroups of version 1; a skipped test says what is missing.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
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
def test_only_the_right_victim_dies_and_frees_what_is_reported(program: Path, number: int) -> None:
    squeeze = killer_squeezes.drawn(SEED, number)
    outcome = killer_squeezes.run(squeeze, program)
    assert outcome.right >= squeeze.right_kills > 0 and not outcome.problems, (
        squeeze.command,
        outcome,
    )


def run_until(
    is_done: Callable[[str, int], bool], program: Path, policy: str, idle: list[str], hog: str
) -> tuple[str, dict[str, int], list[int]]:
    """Returns killd's log until `is_done`, the started processes, and the living processes."""
    squeeze = killer_squeezes.Squeeze(0, os.getpid(), "custom", 300, policy, (), None)  # type: ignore[arg-type]
    words = killer_squeezes.Program
    with killer_squeezes.Stage(squeeze, program) as stage:
        started = {line: stage.start(words(tuple(line.split())), True).pid for line in idle}
        with killer_squeezes.killd(squeeze, stage) as killer:
            text = ""
            late = time.monotonic() + killer_squeezes.HANGS_AFTER_S
            while "event=start " not in text and time.monotonic() < late:
                text += killer_squeezes.read(killer, 0.05).decode()
            started[hog] = stage.start(words(tuple(hog.split())), False).pid
            while not is_done(text, len(stage.processes())):
                assert time.monotonic() < late, text
                text += killer_squeezes.read(killer, 0.01).decode()
            return text, started, stage.processes()


def killed(text: str) -> list[int]:
    lines = [killer_squeezes.fields(line) for line in text.splitlines()]
    return [int(line["process"]) for line in lines if line.get("event") == "kill"]


def test_a_family_that_holds_the_memory_is_killed_as_one(program: Path) -> None:
    """No process of a crew has much own memory; a bystander of 20 MiB would free little."""
    idle, crew = ["hog 20"], "crew 600 12"

    def is_done(text: str, _: int) -> bool:
        return (
            "holder=family" in text and text.count("event=back ") == text.count("event=kill ") > 1
        )

    text, started, left = run_until(is_done, program, "largest", idle, crew)
    assert started["hog 20"] in left, text
    assert started[crew] in killed(text) and started["hog 20"] not in killed(text), text


@pytest.mark.parametrize("policy", killer_squeezes.POLICIES)
@pytest.mark.parametrize("parent", ["shared 170 2", "pool 160 2"])
def test_memory_that_children_only_map_is_not_the_parents_own(
    program: Path, policy: str, parent: str
) -> None:
    """The children have touched no page, so no page table but the parent's shows the memory."""
    hog = "hog 600 128"

    def is_done(text: str, _: int) -> bool:
        return "event=back " in text

    text, started, left = run_until(is_done, program, policy, [parent], hog)
    assert killed(text) == [started[hog]] and started[parent] in left, text


@pytest.mark.parametrize("policy", killer_squeezes.POLICIES)
def test_a_parent_with_children_that_only_map_its_memory_dies_as_a_family(
    program: Path, policy: str
) -> None:
    """Together they hold 240 of 300 MiB; the others are small."""
    idle, parent, last = ["hog 4", "hog 3"], "shared 240 2", "hog 40 128"

    def is_done(text: str, _: int) -> bool:
        return (
            "holder=family" in text and text.count("event=back ") == text.count("event=kill ") > 1
        )

    text, started, left = run_until(is_done, program, policy, [*idle, parent], last)
    others = {pid for line, pid in started.items() if line != parent}
    assert started[parent] in killed(text) and others <= set(left), text


@pytest.mark.parametrize("policy", killer_squeezes.POLICIES)
def test_all_pieces_of_a_hogs_shared_memory_count(program: Path, policy: str) -> None:
    """More pieces than killd compares with those of relatives."""
    idle, hog = ["hog 40"], "pieces 600 128"

    def is_done(text: str, _: int) -> bool:
        return "event=back " in text

    text, started, left = run_until(is_done, program, policy, idle, hog)
    assert killed(text) == [started[hog]] and started["hog 40"] in left, text


@pytest.mark.parametrize("policy", killer_squeezes.POLICIES)
def test_a_hog_whose_main_thread_has_ended_dies_first(program: Path, policy: str) -> None:
    """The kernel shows such a process as a zombie without memory."""
    idle, hog = ["hog 20", "hog 21"], "headless 600 128"

    def is_done(text: str, _: int) -> bool:
        return "event=back " in text

    text, started, left = run_until(is_done, program, policy, idle, hog)
    assert killed(text) == [started[hog]] and {started[name] for name in idle} <= set(left), text
    back = killer_squeezes.fields(next(line for line in text.splitlines() if "=back " in line))
    assert int(back["freed_bytes"]) > 180 << 20, text


def test_no_process_is_killed_for_a_file_in_tmpfs(program: Path) -> None:
    """The file has 270 of 300 MiB, which no kill frees."""
    idle, writer = ["hog 2"], "file {tmpfs}/file 270"

    def is_done(text: str, _: int) -> bool:
        return text.count("event=spared ") > 1

    for policy in killer_squeezes.POLICIES:
        text, started, left = run_until(is_done, program, policy, idle, writer)
        assert "holder=shared-memory" in text and killed(text) == [], text
        assert set(started.values()) <= set(left)


def test_after_two_kills_in_vain_it_kills_the_hog(program: Path) -> None:
    """Siblings that share an address space each seem to hold all of it.

    The hog is slow, because killd waits after each kill in vain and the kernel must not kill first.
    """
    siblings, hog = "siblings 150 6", "hog 600 32"

    def is_done(text: str, _: int) -> bool:
        return text.count("event=back ") >= 3

    text, started, _ = run_until(is_done, program, "largest", [siblings], hog)
    *vain, last = killed(text)
    assert 'event=reconsider why="two kills gave nothing back"' in text
    assert len(vain) <= 2 and last == started[hog], text


def test_a_kill_in_vain_is_counted() -> None:
    """The log of a killer that kills a bystander in vain."""
    outcome = killer_squeezes.SqueezeOutcome()
    lines = (
        "event=kill process=5 at_ns=20",
        "event=back process=5 at_ns=30 freed_bytes=181403648",
    )

    class NothingGained(killer_squeezes.Watch):
        def gained(self) -> int:
            return 0

    watch = NothingGained(stage=None)  # type: ignore[arg-type]
    for line in lines:
        killer_squeezes.judge(line, outcome, right={4}, protected={5}, watch=watch)
    assert (outcome.kills, outcome.right, outcome.protected, outcome.vain) == (1, 0, 1, 1)
    assert any("181403648 reported, 0 gained" in problem for problem in outcome.problems)
