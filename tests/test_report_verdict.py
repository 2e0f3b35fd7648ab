"""The verdict and the findings say what the results hold, about the recordings that they name."""

import copy
from typing import Any

from report_results import everything, spread

from pagewise.report.inputs import gather
from pagewise.report.model import Panel
from pagewise.report.panels import PANELS
from pagewise.report.verdict import verdict

KINDS = {result["schema"].split(".")[1].split("/")[0]: result for result in everything()}


def advice(recording: str = "phone", **changes: Any) -> dict[str, Any]:
    """An advice to take hierarchical, with settings for it, for priority, and for swapd."""
    worth = KINDS["advice"]["worth"]
    titles = {
        "zswap": "Hierarchical with 256 MiB takes 67.0 % of the time.",
        "zram": "Priority with 256 MiB takes 80.0 % of the time.",
        "zram by hand": "Without a `generator`.",
        "swapd: adaptive, as a service": "Adaptive with 256 MiB takes 50.0 % of the time.",
    }
    return {
        **copy.deepcopy(KINDS["advice"]),
        "trace": f"{recording}.parquet",
        "today": {
            "architecture": "hierarchical",
            **worth,
            "by": "zswap",
            "can_run": True,
            "io_time_s": spread(67),
            "slow_bytes": 2**30,
            "memory": {
                "taken_bytes": spread(2**27),
                "share_of_board": spread(0.25),
                "net_bytes": 2**27,
                "io_share_in_use": spread(0.8),
            },
            "life_slow_years": spread(2),
        },
        "best": {
            "architecture": "adaptive",
            "by": None,
            "can_run": False,
            "missing": "swapd runs it where doctor grants ublk",
            "fast_tier_bytes": 2**28,
            "io_time_s": spread(50),
            "io_share": spread(0.5),
        },
        "settings": [
            {"title": title, "note": note, "apply": "swapon /dev/FAST", "undo": ""}
            for title, note in titles.items()
        ],
        **changes,
    }


def panels_of(results: list[Any]) -> dict[str, Panel]:
    """The panels of a report on these results."""
    inputs = gather(results)
    return {panel.identifier: panel for make in PANELS if (panel := make(inputs))}


def test_each_setting_has_its_own_figures() -> None:
    zswap, zram, by_hand, swapd = verdict(gather([advice()]), {"advice"}).settings
    assert "In the replay, hierarchical takes up to 128 MiB" in zswap.note
    assert "(25.0 % of the board's) and lets ufs-3.1 last" in zswap.note
    assert zswap.note.count("67.0 %") == 1
    for other, own in ((zram, "80.0 %"), (by_hand, "generator"), (swapd, "50.0 %")):
        assert own in other.note
        assert "hierarchical" not in other.note and "67.0 %" not in other.note


def test_the_best_of_all_comes_with_what_runs_it() -> None:
    given = advice()
    texts = [
        panels_of([given])["advice"].finding,
        verdict(gather([given]), {"advice"}).findings[0].statement,
    ]
    for text in texts:
        assert (
            "At that size adaptive brings it to 50.0 %; stock Linux does not have adaptive, but "
            "swapd can run it (see its settings)." in text
        )
    assert "I/O then takes 67.0 % of the time that ufs-3.1 takes alone." in texts[0]
    given["settings"] = []
    assert (
        panels_of([given])["advice"]
        .finding.split(" No size")[0]
        .endswith("stock Linux does not have adaptive.")
    )
    given["best"] |= {"by": "swapd", "can_run": True, "missing": None}
    assert "; swapd runs adaptive." in panels_of([given])["advice"].finding


def test_the_least_of_stock_linux_is_not_the_least_of_all() -> None:
    finding = verdict(gather([KINDS["sweep"]]), {"architectures"}).findings[0]
    assert "needs the least I/O time of those that stock Linux has on " in finding.statement
    assert "adaptive, which stock Linux does not have, comes to 50.0 %" in finding.statement


def facts_of(results: list[Any]) -> dict[Any, Any]:
    """The table of how the page was made."""
    return {row[0]: row[1] for row in panels_of(results)["method"].tables[0].rows}


def test_seeds_of_policies_are_in_the_method() -> None:
    common = {"trace": "phone.parquet", "frames": 64, "requests": 1000, "pages": 300}
    cells = [
        {**common, "policy": "random", "options": f'{{"seed":"{seed}"}}', "misses": 700}
        for seed in (10, 2)
    ]
    sweep = {**KINDS["sweep"], "cells": cells}
    assert facts_of([sweep])["seeds"] == "2, 10"
    misses = {**KINDS["misses"], "misses": {"lru": {"64": 700}, "random": {"64": 800}}}
    assert facts_of([misses])["seeds"] == "0"
    assert facts_of([KINDS["misses"]])["seeds"] == "none used"


def test_the_method_describes_only_the_results_of_the_report() -> None:
    def how(*kinds: str) -> str:
        return panels_of([KINDS[kind] for kind in kinds])["method"].finding

    assert "exact replays" in how("sweep") and "typical time" in how("advice")
    for kind in ("replay-kills", "kills", "page-size", "bench-lazy", "misses", "analyze"):
        assert how(kind) and "exact replays" not in how(kind) and "typical time" not in how(kind)
    study = {**KINDS["study"], "study": "lazy-unmap", "figures": [], "tables": []}
    lazy, *_ = (each for each in everything() if each.get("study") == "lazy-unmap")
    assert "recorded allocations" in panels_of([lazy])["method"].finding
    relaunch = {**study, "study": "relaunch"}
    assert panels_of([relaunch])["method"].finding == (
        "Figures of the study relaunch are from measured runs."
    )
