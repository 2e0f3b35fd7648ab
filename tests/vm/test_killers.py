"""killd and earlyoom in one guest that runs out of memory (killers.py has the cases).

The guest is emulated, with a clock that counts instructions, so the tests check orderings of
medians and shares, but no times. bench/killers_vm.py prints the ratios.
"""

from statistics import median

import killers
import pytest

pytestmark = pytest.mark.slow

LOW_KIB_SHARE = killers.LOW / 100


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> killers.Findings:
    """The findings of one guest that runs all cases."""
    if reason := killers.refusal():
        pytest.skip(reason)
    return killers.run(tmp_path_factory.mktemp("killers"))


def test_no_protected_process_dies(findings: killers.Findings) -> None:
    assert findings.text("broken") == ""
    assert int(findings.text("many.alive")) == killers.PROCESSES + 1
    for name in killers.CASES:
        assert not set(findings.killed(name)) & set(killers.PROTECTED), name


@pytest.mark.parametrize("name", ["fast", "lru-gen", "many", "reuse", "restart", "locked", "zram"])
def test_killd_kills_only_the_hog(findings: killers.Findings, name: str) -> None:
    rounds = findings.watched(name, "killd")
    assert all(seen["crossed"] and seen["recovery_ms"] is not None for seen in rounds), rounds
    assert findings.killed(name) == ["hog"] * len(rounds)


# The second victim in "vfork" is the child, which runs in the parent's memory until it calls exec.
RIGHT = {
    "forks": ["hog"] * 2,
    "shared": ["hog"],
    "crowd": ["hog"],
    "tmpfs": ["hog"],
    "vfork": ["vforker"] * 2,
    "respawn": ["restarter"],
}


@pytest.mark.parametrize("name", RIGHT)
def test_misleading_programs_do_not_mislead_killd(findings: killers.Findings, name: str) -> None:
    assert findings.killed(name) == RIGHT[name]
    assert all(seen["recovery_ms"] is not None for seen in findings.watched(name, "killd"))
    assert len(findings.killed_by_peer(name)) >= len(RIGHT[name])


@pytest.mark.parametrize("name", ["stuck", "frozen", "slow"])
def test_a_stuck_frozen_or_slow_victim_frees_its_memory(
    findings: killers.Findings, name: str
) -> None:
    (seen,) = findings.watched(name, "killd")
    assert seen["recovery_ms"] is not None
    assert findings.killed(name) == ["victim"]


def test_a_group_of_version_2_does_not_reach_its_limit(findings: killers.Findings) -> None:
    assert findings.killed("group") == ["hog"]
    events = dict(line.split() for line in findings.text("group.events").splitlines())
    assert events["oom_kill"] == "0"


def test_earlyoom_kills_forks_in_vain(findings: killers.Findings) -> None:
    victims = findings.killed_by_peer("forks")
    assert "server" in victims, victims
    assert len(victims) > len(findings.killed("forks"))


def test_earlyoom_does_not_recover_from_a_frozen_victim(findings: killers.Findings) -> None:
    (seen,) = findings.watched("frozen", "earlyoom")
    assert seen["recovery_ms"] is None


def test_with_zram_killd_recovers_earlier_than_earlyoom(findings: killers.Findings) -> None:
    def under(killer: str) -> float:
        return median(seen["under_ms"] for seen in findings.watched("zram", killer))

    assert under("killd") < under("earlyoom")


def test_memory_falls_less_below_the_threshold_than_with_earlyoom(
    findings: killers.Findings,
) -> None:
    def overshot(killer: str) -> float:
        seen = findings.watched("fast", killer)
        return median(watch["total_kib"] * LOW_KIB_SHARE - watch["lowest_kib"] for watch in seen)

    assert overshot("killd") < overshot("earlyoom")


def test_only_the_processes_of_a_fork_bomb_are_killed(findings: killers.Findings) -> None:
    (seen,) = findings.watched("bomb", "killd")
    assert seen["crossed"] and set(findings.killed("bomb")) == {"bomb"}


def test_killd_is_idle_among_500_processes(findings: killers.Findings) -> None:
    # Ticks of 10 ms in user and kernel mode (proc_pid_stat(5)).
    before, after = (
        sum(int(field) for field in findings.text(f"idle.{when}").split()[13:15])
        for when in ("before", "after")
    )
    assert before > 0
    assert (after - before) * 0.01 < killers.IDLE_SHARE_MAX * killers.IDLE_SECONDS


def test_killd_locks_less_than_2_mib(findings: killers.Findings) -> None:
    lines = findings.text("locked.smaps").splitlines()
    locked_kib = sum(int(line.split()[1]) for line in lines if line.startswith("Locked:"))
    assert 0 < locked_kib < 2048
    # It had no major fault while memory was short (proc_pid_stat(5), majflt).
    assert findings.text("locked.stat").split()[11] == "0"


def test_launches_beside_cached_applications_finish(findings: killers.Findings) -> None:
    plenty, short = findings.launches("plenty"), findings.launches("short")
    assert set(plenty) == set(short) == set(killers.LAUNCHES_KIB.values())
    assert set(findings.killed("launch")) <= {"victim"}


def test_killd_ran_in_every_case(findings: killers.Findings) -> None:
    # Otherwise a case whose killer did not start would look like one without kills.
    for name in killers.CASES:
        assert "event=start" in "".join(
            path.read_text() for path in findings.folder.glob(f"{name}.killd.*.log")
        ), name
