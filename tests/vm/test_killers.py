"""A machine without memory: our killer beside earlyoom, in one guest (killers.py has the cases).

The guest is emulated, with a clock that counts instructions: orderings of medians over rounds and
shares within it are asserted, and no times. bench/killers_vm.py prints the ratios.
"""

from statistics import median

import killers
import pytest

pytestmark = pytest.mark.slow

LOW_KIB_SHARE = killers.LOW / 100


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> killers.Findings:
    """What one guest left of all cases."""
    if reason := killers.refusal():
        pytest.skip(reason)
    return killers.run(tmp_path_factory.mktemp("killers"))


def test_nobody_protected_dies(findings: killers.Findings) -> None:
    assert findings.text("broken") == ""
    assert int(findings.text("many.alive")) == killers.PROCESSES + 1
    for name in killers.CASES:
        assert not set(findings.killed(name)) & set(killers.PROTECTED), name


@pytest.mark.parametrize("name", ["fast", "lru-gen", "many", "reuse", "restart", "locked", "zram"])
def test_one_kill_of_the_one_that_takes_memory_is_enough(
    findings: killers.Findings, name: str
) -> None:
    rounds = findings.watched(name, "killd")
    assert all(seen["crossed"] and seen["recovery_ms"] is not None for seen in rounds), rounds
    assert findings.killed(name) == ["hog"] * len(rounds)


# The second kill in "vfork" is the child that runs in the parent's memory until it calls exec.
RIGHT = {
    "forks": ["hog"] * 2,
    "shared": ["hog"],
    "crowd": ["hog"],
    "tmpfs": ["hog"],
    "vfork": ["vforker"] * 2,
    "respawn": ["restarter"],
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_program_that_misleads_a_killer_does_not_mislead_killd(
    findings: killers.Findings, name: str
) -> None:
    assert findings.killed(name) == RIGHT[name]
    assert all(seen["recovery_ms"] is not None for seen in findings.watched(name, "killd"))
    assert len(findings.killed_by_peer(name)) >= len(RIGHT[name])


@pytest.mark.parametrize("name", ["stuck", "frozen", "slow"])
def test_the_least_important_gives_its_memory_back_whatever_holds_it(
    findings: killers.Findings, name: str
) -> None:
    (seen,) = findings.watched(name, "killd")
    assert seen["recovery_ms"] is not None
    assert findings.killed(name) == ["victim"]


def test_a_group_of_version_2_is_kept_from_its_limit(findings: killers.Findings) -> None:
    assert findings.killed("group") == ["hog"]
    events = dict(line.split() for line in findings.text("group.events").splitlines())
    assert events["oom_kill"] == "0"


def test_a_peer_kills_forks_and_frees_nothing(findings: killers.Findings) -> None:
    theirs = findings.killed_by_peer("forks")
    assert "server" in theirs, theirs
    assert len(theirs) > len(findings.killed("forks"))


def test_a_frozen_victim_helps_nobody_who_waits_for_its_end(findings: killers.Findings) -> None:
    (theirs,) = findings.watched("frozen", "earlyoom")
    assert theirs["recovery_ms"] is None


def test_compressed_swap_is_no_reason_to_wait(findings: killers.Findings) -> None:
    def under(killer: str) -> float:
        return median(seen["under_ms"] for seen in findings.watched("zram", killer))

    assert under("killd") < under("earlyoom")


def test_less_is_overshot_than_by_a_peer(findings: killers.Findings) -> None:
    def overshot(killer: str) -> float:
        seen = findings.watched("fast", killer)
        return median(one["total_kib"] * LOW_KIB_SHARE - one["lowest_kib"] for one in seen)

    assert overshot("killd") < overshot("earlyoom")


def test_a_fork_bomb_does_not_take_the_machine(findings: killers.Findings) -> None:
    (seen,) = findings.watched("bomb", "killd")
    assert seen["crossed"] and set(findings.killed("bomb")) == {"bomb"}


def test_it_is_idle_among_500_processes(findings: killers.Findings) -> None:
    # Ticks of 10 ms in user and kernel mode (proc_pid_stat(5)).
    before, after = (
        sum(int(field) for field in findings.text(f"idle.{when}").split()[13:15])
        for when in ("before", "after")
    )
    assert before > 0
    assert (after - before) * 0.01 < killers.IDLE_SHARE_MAX * killers.IDLE_SECONDS


def test_it_lies_locked_in_memory_and_small(findings: killers.Findings) -> None:
    lines = findings.text("locked.smaps").splitlines()
    locked_kib = sum(int(line.split()[1]) for line in lines if line.startswith("Locked:"))
    assert 0 < locked_kib < 2048
    # Nothing of it had to be read again while memory was short (proc_pid_stat(5), majflt).
    assert findings.text("locked.stat").split()[11] == "0"


def test_launches_among_cached_applications_end(findings: killers.Findings) -> None:
    plenty, short = findings.launches("plenty"), findings.launches("short")
    assert set(plenty) == set(short) == set(killers.LAUNCHES_KIB.values())
    assert set(findings.killed("launch")) <= {"victim"}


def test_the_killer_ran_in_every_case(findings: killers.Findings) -> None:
    # A case whose killer did not start would otherwise pass as one that killed nobody.
    for name in killers.CASES:
        assert "event=start" in "".join(
            path.read_text() for path in findings.folder.glob(f"{name}.killd.*.log")
        ), name
