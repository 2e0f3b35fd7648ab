"""What the kernel_*.py benches conclude from given guests, since guests take minutes."""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[1] / "bench"
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.syspath_prepend(str(BENCH.parent / "tests" / "vm"))
    return importlib.import_module


def vmstat(hits: int = 0, kept: int = 0, given: int = 0, kills: int = 0) -> str:
    counters = {"hit": hits, "pages_kept": kept, "pages_reclaimed": given}
    counters |= dict.fromkeys(("pages_taken", "pages_over_limit", "pages_aged", "pages_dropped"), 0)
    lines = [f"lazy_unmap_{name} {count}\n" for name, count in counters.items()]
    return "".join(lines) + f"oom_kill {kills}\n"


def stress_guest(load: Load, console: str = "", status: int | None = 0, **last: int):
    files = {"before": vmstat(), "after": vmstat(**last), "vmstat": vmstat(**last)}
    files["run"] = "stress-ng: metrc: [70] vm     1234     60.0\n"
    return load("kernel_guests").Ran(status, "", files, console)


def test_a_row_of_stress_has_a_verdict(load: Load) -> None:
    row = load("kernel_stress").row
    clean = row("vm", "on", stress_guest(load, hits=3, kept=64, given=64, kills=1))
    assert (clean.verdict, clean.operations, clean.hits, clean.kills) == ("clean", 1234, 3, 1)
    assert row("vm", "off", stress_guest(load)).verdict == "clean"
    assert row("vm", "on", stress_guest(load)).verdict == "not measurable"
    idle = stress_guest(load, hits=3, kept=64, given=64)
    idle.files["run"] = "stress-ng: metrc: [70] mmap     0     60.0\n"
    assert row("mmap+calls", "on", idle).verdict == "not measurable"
    lost = row("vm", "on", stress_guest(load, hits=3, kept=64, given=60))
    assert lost.verdict == "4 pages are lost"
    assert row("vm", "on", stress_guest(load, status=2, hits=1)).verdict == "status 2"


def test_what_the_kernel_complains_of_decides_the_verdict(load: Load) -> None:
    row = load("kernel_stress").row
    splat = "[    9.1] BUG: KASAN: use-after-free in lazy_zap"
    killer = "[    8.0] churn invoked oom-killer: gfp_mask=0x1\n[    8.0] Call Trace:\n"
    seen = row("vm", "on", stress_guest(load, killer + splat, hits=1))
    assert seen.verdict == splat and seen.details == (splat,)
    assert row("vm", "on", stress_guest(load, killer, hits=1)).verdict == "clean"
    panicked = load("kernel_guests").Ran(None, "the guest failed", {}, "Kernel panic - not syncing")
    assert row("vm", "on", panicked).verdict == "Kernel panic - not syncing"
    silent = load("kernel_guests").Ran(None, "the guest took longer than 9 s", {}, "")
    assert row("vm", "on", silent).verdict == "the guest ended early"


def test_selftests_differ_by_lines_and_not_by_addresses(load: Load) -> None:
    selftests, guests = load("kernel_selftests"), load("kernel_guests")

    def result(output: str, status: int = 0):
        files = {"cow": output, "cow.status": f"{status}\n"}
        return selftests.result(guests.Ran(0, "", files, ""), "cow")

    same = result("TAP version 13\nok 1 at 0x7f01\nnot ok 2 pinned # SKIP\n")
    assert same == result("ok 1 at 0x7f99\nnot ok 2 pinned # SKIP\nnoise\n")
    assert same != result("not ok 1 at 0x7f01\nnot ok 2 pinned # SKIP\n")
    assert same != result("ok 1 at 0x7f01\nnot ok 2 pinned # SKIP\n", status=1)
    assert selftests.summary(same) == "status 0, 1 ok, 0 not ok, 1 skipped"


def test_pairs_of_episodes_are_compared_by_their_differences(load: Load) -> None:
    episodes = load("kernel_episodes")

    def episode(kills: int, reclaimed: int = 9):
        return episodes.Episode(kills, kills, 10, reclaimed, 0)

    assert episodes.sign_test([0, 0]) == 1.0
    assert episodes.sign_test([1, 1, 1, 1, 1, 0]) == pytest.approx(2 / 32)
    assert episodes.sign_test([1, -1, 1, -1]) == 1.0
    assert episodes.interval([1, 1, 1]) == (1, 1)
    low, high = episodes.interval([1, -1] * 50)
    assert -0.3 < low < 0 < high < 0.3
    text = episodes.summary([(episode(2), episode(1)), (episode(0), episode(0))])
    assert "kills: on 2, off 1" in text and "more with the pool in 1 pairs, less in 0" in text
    assert "not measurable" not in text
    assert "not measurable" in episodes.summary([(episode(0, reclaimed=0), episode(0))])
