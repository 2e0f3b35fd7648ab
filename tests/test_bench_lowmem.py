"""The verdicts of bench/lowmem_vm.py come out each way, on made rows."""

from typing import Any

import lowmem_vm
import pytest
from lowmem_vm import NEEDS_KIB, Launches, rank_correlation, verdicts

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
            [
                {word: value for word, value in row.items() if word != "launch_ns"}
                if (row["condition"], row["repeat"], row["kib"]) == (WAY, 1, 57_756)
                else row
                for row in rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS)
            ],
            "1 launches of 57756 KiB did not finish",
        ),
    ],
)
def test_without_the_mechanism_nothing_is_judged(made: list[dict[str, Any]], reason: str) -> None:
    seen = found(made)
    assert seen
    assert all(verdict.startswith(f"not measurable: {reason}") for verdict in seen.values())


@pytest.mark.parametrize(("factor", "verdict"), [(0.9, "holds"), (1.1, "does not hold")])
def test_reclaim_first_is_judged_beside_serial(factor: float, verdict: str) -> None:
    quicker = [(1 + each) * factor - 1 for each in PAPER_SLOWDOWNS]
    made = rows(FIRST, quicker, PAPER_KILLS) + [
        row for row in rows(BESIDE, PAPER_SLOWDOWNS, PAPER_KILLS) if row["condition"] == BESIDE
    ]
    assert found(made, FIRST)["ACC-S2-5 launch of the largest, beside serial"] == verdict


def test_rank_correlation_shares_ranks_of_equal_figures() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [30, 20, 10]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 3, 4], [1, 1, 2, 2]) == pytest.approx(0.894, abs=0.001)


def test_every_way_has_a_row_in_the_tables() -> None:
    text = lowmem_vm.tables(Launches(rows(WAY, PAPER_SLOWDOWNS, PAPER_KILLS)))
    for way in (*lowmem_vm.DRIVER, *lowmem_vm.KILLD):
        assert f"| Asphalt 8 | {way} |" in text
