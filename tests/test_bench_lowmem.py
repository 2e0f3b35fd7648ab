"""The verdicts of bench/lowmem_vm.py come out each way, on made rows."""

from pathlib import Path
from typing import Any

import lowmem_vm
import pytest
from lowmem_vm import NEEDS_KIB, Launches, rank_correlation, reserve_kib, verdicts

from pagewise.errors import Missing

WAY = "driver serial"
FIRST, BESIDE = "driver first", "driver serial, launch waits"
PAPER_SLOWDOWNS = [0.364, 0.604, 0.676, 1.088, 2.286]
PAPER_KILLS = [2, 3, 3, 4, 17]


def rows(
    condition: str,
    slowdowns: list[float],
    kills: list[int],
    repeats: int = 3,
    free_kib: int = 28 * 1024,
) -> list[dict[str, Any]]:
    """Launches of every size, in ample memory and in a condition, alike in each guest."""
    made = []
    for repeat in range(repeats):
        for kib, slowdown, count in zip(NEEDS_KIB.values(), slowdowns, kills, strict=True):
            for name, ns, killed in (
                ("ample", kib * 1000, 0),
                (condition, kib * 1000 * (1 + slowdown), count),
            ):
                row = {"repeat": repeat, "condition": name, "kib": kib, "launch_ns": ns}
                made.append({**row, "kills": killed, "free_kib": free_kib})
    return made


def unfinished(made: list[dict[str, Any]], condition: str, kib: int) -> list[dict[str, Any]]:
    """The rows with a launch in guest 1 that did not finish."""
    return [
        {word: value for word, value in row.items() if word != "launch_ns"}
        if (row["condition"], row["repeat"], row["kib"]) == (condition, 1, kib)
        else row
        for row in made
    ]


def found(made: list[dict[str, Any]], condition: str = WAY) -> dict[str, str]:
    return {claim: verdict for claim, *_, verdict in verdicts(Launches(made), condition)}


def test_papers_figures_hold() -> None:
    assert set(found(rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS)).values()) == {"holds"}


@pytest.mark.parametrize(
    ("slowdowns", "kills", "refuted"),
    [
        ([0.364, 0.676, 0.604, 1.088, 2.286], PAPER_KILLS, {"ACC-S2-1 order"}),
        ([0.1, 0.2, 0.3, 0.4, 2.0], PAPER_KILLS, {"ACC-S2-1 smallest"}),
        ([0.3, 0.4, 0.5, 0.6, 0.7], PAPER_KILLS, {"ACC-S2-1 largest"}),
        (PAPER_SLOWDOWNS, [1, 3, 3, 4, 17], {"ACC-S2-2 small"}),
        (PAPER_SLOWDOWNS, [2, 3, 3, 4, 9], {"ACC-S2-2 largest"}),
    ],
)
def test_other_figures_do_not_hold(
    slowdowns: list[float], kills: list[int], refuted: set[str]
) -> None:
    seen = found(rows(WAY, slowdowns, kills))
    assert {claim for claim, verdict in seen.items() if verdict == "does not hold"} == refuted


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS, repeats=2), "2 of 3 guests"),
        (rows(WAY, PAPER_SLOWDOWNS, [2, 3, 3, 4, 0]), "killed nothing"),
        (rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS, free_kib=60 * 1024), "free before a launch"),
        (
            [{**row, "oom_kill": 1} for row in rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS)],
            "the kernel's own OOM killer killed 3 at 57756 KiB",
        ),
        (
            [{**row, "file_kib": 16 * 1024} for row in rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS)],
            "16 MiB of files or more were cached before a launch of 57756 KiB",
        ),
        (
            unfinished(rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS), WAY, 57_756),
            "1 launches of 57756 KiB did not finish",
        ),
        (
            unfinished(rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS), "ample", 74_932),
            "1 launches of 74932 KiB in ample memory did not finish",
        ),
        (
            [
                row
                for row in rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS, repeats=4)
                if (row["condition"], row["repeat"]) != ("ample", 3)
            ],
            "1 launches of 57756 KiB in ample memory did not finish",
        ),
    ],
)
def test_without_the_mechanism_nothing_is_judged(made: list[dict[str, Any]], reason: str) -> None:
    seen = found(made)
    assert seen
    assert all(verdict.startswith(f"not measurable: {reason}") for verdict in seen.values())


def test_few_cached_files_are_judged() -> None:
    made = [{**row, "file_kib": 16 * 1024 - 4} for row in rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS)]
    assert set(found(made).values()) == {"holds"}


@pytest.mark.parametrize(
    ("factors", "verdict"),
    [
        ((0.9, 0.5, 0.99), "holds"),
        ((1.1, 1.0, 1.01), "does not hold"),
        ((0.5, 1.01, 0.9), "not measurable: the guests disagree (2 of 3 shorter)"),
    ],
)
def test_reclaim_first_is_judged_beside_serial_of_the_same_guest(
    factors: tuple[float, ...], verdict: str
) -> None:
    made = rows(FIRST, PAPER_SLOWDOWNS, PAPER_KILLS) + [
        row for row in rows(BESIDE, PAPER_SLOWDOWNS, PAPER_KILLS) if row["condition"] == BESIDE
    ]
    for row in made:
        # Guests whose speeds differ more than the ways do.
        row["launch_ns"] *= 1 + row["repeat"]
        if row["condition"] == FIRST:
            row["launch_ns"] *= factors[row["repeat"]]
    assert found(made, FIRST)["ACC-S2-5 launch of the largest, beside serial"] == verdict


def test_rank_correlation_shares_ranks_of_equal_figures() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [30, 20, 10]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 3, 4], [1, 1, 2, 2]) == pytest.approx(0.894, abs=0.001)


def test_every_way_has_a_row_in_the_tables() -> None:
    text = lowmem_vm.tables(Launches(rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS)))
    for way in (*lowmem_vm.DRIVER, *lowmem_vm.KILLD):
        assert f"| Asphalt 8 | {way} |" in text


ZONEINFO = """\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 500
  pages free     3840
        boost    0
        min      68
        low      85
        high     102
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 300, 1000, 1000)
  pagesets
    cpu: 0
              count: 0
              high:  378
Node 0, zone    DMA32
  pages free     100000
        high     200
        managed  150
        protection: (0, 0, 0, 0)
Node 0, zone   Normal
  pages free     0
        high     0
        managed  0
        protection: (0, 0, 900, 900)
"""


def test_reserve_is_that_of_each_zone_and_at_most_the_zone() -> None:
    assert reserve_kib(ZONEINFO) == (102 + 1000 + 150 + 0) * 4


def test_tables_say_the_reserve_or_that_it_is_unknown() -> None:
    made = rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS)
    unknown = "The rows do not say the kernel's reserve"
    assert unknown in lowmem_vm.tables(Launches(made))
    known = lowmem_vm.tables(Launches([{**row, "reserve_kib": 10_240} for row in made]))
    assert unknown not in known
    assert "subtract from free memory: 10.0 MiB." in known


def test_measures_without_earlyoom_but_not_without_the_agent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lowmem_vm.guest, "refusal", lambda machine: None)
    monkeypatch.setattr(lowmem_vm.kernel_module, "refusal", lambda machine: None)
    monkeypatch.setattr(lowmem_vm.killers, "earlyoom", lambda: pytest.fail("fetches earlyoom"))
    agent = tmp_path / "pagewise-agent"
    monkeypatch.setattr(lowmem_vm.killers, "AGENT", agent)
    assert lowmem_vm.refusal() == "no pagewise-agent beside this Python: make build"
    agent.touch()
    assert lowmem_vm.refusal() is None


def test_a_missing_compiler_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def headers(machine: object) -> Path:
        raise Missing("gcc-12 is not installed", hint="apt-get install -y gcc-12")

    monkeypatch.setattr(lowmem_vm.kernel_module, "headers", headers)
    reason = lowmem_vm.kernel_module.refusal(lowmem_vm.MACHINE)
    assert reason == "gcc-12 is not installed: apt-get install -y gcc-12"
