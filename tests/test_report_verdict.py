"""The verdict and the findings say what the results hold, about the recordings that they name."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from report_results import analysis, everything, spread

import pagewise as pw
from pagewise.advice.evidence import OF_BLOCKS, OF_FILES
from pagewise.report.build import default_title
from pagewise.report.inputs import gather
from pagewise.report.model import Panel
from pagewise.report.panels import PANELS
from pagewise.report.verdict import OF_KERNELS, verdict

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
    assert "If all that memory was in use, I/O time becomes 80.0 % (72.0 %" in zswap.note
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
            "At that size adaptive brings the I/O time to 50.0 %; stock Linux does not have "
            "adaptive, but swapd can run it (see the settings for swapd)." in text
        )
    assert "I/O then takes 67.0 % of the time that ufs-3.1 takes without a fast tier." in texts[0]
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
    assert ", the least of the architectures of stock Linux." in finding.statement
    assert "At that size adaptive brings it to 50.0 %; stock Linux does not" in finding.statement
    assert finding.statement.endswith("have adaptive, but swapd can run it.")


@pytest.mark.parametrize("option", OF_KERNELS)
def test_swapd_cannot_run_what_a_block_device_cannot_do(option: str) -> None:
    name, value = option.split("=")
    cells = [
        {**cell, "options": json.dumps({name: value})}
        if cell["architecture"] == "adaptive"
        else cell
        for cell in KINDS["sweep"]["cells"]
    ]
    finding = verdict(gather([{**KINDS["sweep"], "cells": cells}]), {"architectures"}).findings[0]
    assert finding.statement.endswith(f"does not have adaptive {option}.")


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


def simulated(trace: str, architecture: str = "priority", **changes: Any) -> dict[str, Any]:
    """A sweep of one cell at each size but 0."""
    cells = [
        {**each, "trace": trace, **changes}
        for each in KINDS["sweep"]["cells"]
        if each["trace"] == "busy"
        and each["architecture"] == architecture
        and each["fast_tier_bytes"]
    ]
    return {**KINDS["sweep"], "cells": cells}


def blocks() -> dict[str, Any]:
    """An analysis of block requests."""
    return {**analysis("disk", 0.5), "kind": "block"}


def test_an_advice_comes_before_block_requests_of_another_recording() -> None:
    inputs = gather([blocks(), advice("phone")])
    first, second, _ = verdict(inputs, {"advice", "skew"}).findings
    assert first.evidence == "advice" and "phone" in first.statement
    assert second.figure == "no size" and second.statement.startswith("disk: ")


def test_pages_of_files_have_words_of_their_own() -> None:
    trace = Path(__file__).parents[1] / "examples" / "phone.perfetto-trace.gz"
    inputs = gather([blocks(), trace])
    statement = next(
        each.statement for each in verdict(inputs, {"skew"}).findings if each.figure == "no size"
    )
    assert statement.startswith(f"disk: {OF_BLOCKS}. phone: {OF_FILES}. To size swap, record")


def test_settings_name_their_recording_if_there_are_several() -> None:
    def titles(*results: dict[str, Any]) -> list[str]:
        return [each.title for each in verdict(gather([*results]), {"advice"}).settings]

    assert titles(advice("a"))[:2] == ["zswap", "Or: zram"]
    assert titles(blocks(), advice("a"))[:2] == ["zswap (for a)", "Or: zram (for a)"]
    both = titles(advice("a"), advice("b"))
    assert both[4:6] == ["zswap (for b)", "Or: zram (for b)"]


@pytest.mark.parametrize(
    ("results", "title"),
    [
        ([advice("a")], "Swap on a"),
        ([advice("a"), simulated("b.pgw.zst")], "Swap on b, a"),
        ([analysis("a", 0.5), simulated("b")], "Swap on a, b"),
        ([blocks(), advice("a")], "Accesses of disk, a"),
        ([blocks()], "Block requests (file I/O), which cannot size swap: disk"),
        ([simulated(name) for name in "abcdef"], "Swap on a, b, c, d and 2 more"),
        ([KINDS["misses"]], "Misses on busy"),
        ([advice("a"), KINDS["misses"]], "Swap on a, busy"),
        ([analysis("a", 0.5), {**KINDS["misses"], "kind": "objects"}], "Accesses of a, busy"),
        ([{**KINDS["replay-kills"], "recording": "grow.pgr"}], "Kills on grow"),
    ],
)
def test_the_title_names_every_recording(results: list[Any], title: str) -> None:
    assert default_title(gather(results)) == title


def test_a_recording_has_the_same_name_in_every_result() -> None:
    results = [simulated("phone.pgw.zst"), simulated("phone", "adaptive"), advice("phone")]
    inputs = gather(results)
    assert inputs.recordings() == ["phone"]
    (view,) = panels_of(results)["architectures"].charts[0].views
    assert [series.name for series in view.series] == ["adaptive", "priority"]
    assert {row[0] for row in panels_of(results)["advice"].tables[0].rows} == {"phone"}
    # Two traces of a sweep with the same stem stay two.
    twins = {
        **KINDS["sweep"],
        "cells": [*simulated("a.pgw")["cells"], *simulated("a.csv")["cells"]],
    }
    assert gather([twins]).recordings() == ["a.pgw", "a.csv"]


def test_inputs_without_a_file_are_named_by_what_they_hold() -> None:
    inputs = gather([KINDS["page-size"], simulated("phone.pgw.zst"), KINDS["study"]])
    assert [source.name for source in inputs.sources][1:] == ["phone", KINDS["study"]["study"]]


def test_cells_without_the_slow_device_say_what_a_finding_needs(tmp_path: Path) -> None:
    conclusion = verdict(gather([simulated("phone")]), {"architectures"})
    assert conclusion.findings == []
    assert conclusion.missing.startswith("simulate flash too, which has no fast tier")
    pw.report([simulated("phone")], tmp_path / "page.html")
    assert conclusion.missing in (tmp_path / "page.html").read_text()
    assert "an advice adds findings" in verdict(gather([KINDS["kills"]]), set()).missing


def test_backticks_are_code_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    pw.report([advice(notes=["see `advise`"]), blocks()], page)
    text = page.read_text()
    assert "Without a <code>generator</code>." in text
    assert "See <code>advise</code>." in text
    assert "<code>pagewise-agent record -o work.pgr --for 5m</code>" in text


def test_labels_have_only_options_without_their_default() -> None:
    options = '{"wear_price": "none", "victims_in_memory": "write"}'
    results = [simulated("phone", "adaptive", options=options), simulated("phone")]
    found = panels_of(results)
    names = [series.name for series in found["architectures"].charts[0].views[0].series]
    assert names == ["adaptive", "priority"]
    assert "=" not in found["architectures"].finding + found["pareto"].finding
    other = options.replace("write", "drop")
    (series, _) = (
        panels_of([simulated("phone", "adaptive", options=other), simulated("phone")])[
            "architectures"
        ]
        .charts[0]
        .views[0]
        .series
    )
    assert series.name == "adaptive victims_in_memory=drop"


def test_the_chart_of_trade_offs_agrees_with_its_axis() -> None:
    def shown(*results: dict[str, Any]) -> tuple[str, str, str, str, list[str]]:
        panel = panels_of([*results])["pareto"]
        (chart,) = panel.charts
        return panel.title, chart.title, chart.x.label, panel.finding, list(panel.notes)

    title, chart, axis, finding, notes = shown(simulated("a"))
    assert title == "I/O time against wear" and chart.startswith(title)
    assert axis == "rated life used per year" and notes == []
    assert finding == (
        "The best trade-offs between I/O time and wear on a with 4/5us before 90/40us: priority. "
        "For every other choice, some size of priority is at least as good in both."
    )
    unworn = simulated("b", wear_fast=None, wear_slow=None)
    title, chart, axis, finding, notes = shown(simulated("a"), unworn)
    assert title == "I/O time against pages written" and chart.startswith(title)
    assert axis == "pages written to both devices" and "wear" not in finding
    assert notes == [
        "Pages written are shown for all, since wear is unknown on b with 4/5us before 90/40us."
    ]
    assert shown(unworn)[-1] == []


def test_kill_policies_with_the_same_counts_share_a_sentence() -> None:
    replay = copy.deepcopy(KINDS["replay-kills"])
    replay["recording"] = "grow.pgr"
    largest, lmkd = replay["policies"]
    replay["policies"].append({**lmkd, "policy": "pressure"})
    assert panels_of([replay])["kill-replay"].finding == (
        "grow has 1 freeze. Kills: largest 1 time; lmkd and pressure never. "
        "Missed freezes: largest, lmkd and pressure 1 each."
    )
    (found,) = verdict(gather([replay]), {"kill-replay"}).findings
    assert (found.figure, found.statement) == (
        "1 wrong decision",
        "by largest, lmkd and pressure on grow.",
    )
    replay["policies"][0] = {**largest, "missed_freezes": 0}
    (found,) = verdict(gather([replay]), {"kill-replay"}).findings
    assert found.figure == "no wrong decision"
    assert found.statement == "by largest on grow, the fewest of 3 policies."
    replay["freezes"] = []
    replay["policies"] = [{**each, "missed_freezes": 0} for each in (largest, lmkd)]
    assert panels_of([replay])["kill-replay"].finding == (
        "grow has no freeze. Kills: largest 1 time; lmkd never. "
        "No policy raised a false alarm or missed a freeze."
    )


def test_a_single_statement_is_in_the_singular() -> None:
    assert panels_of([KINDS["study"]])["papers"].finding == (
        "Of 3 checked statements of the papers: 1 holds, 1 does not hold, 1 needs a certain "
        "reading."
    )


def test_a_smaller_size_that_is_nearly_as_good_is_not_called_the_least() -> None:
    cells = [cell for cell in KINDS["sweep"]["cells"] if cell["trace"] == "busy"]
    slower = {2**29: 1.05, 2**30: 1.0}
    cells = [
        {**cell, "io_time_s": 40 * slower[cell["fast_tier_bytes"]]}
        if cell["architecture"] == "priority"
        else cell
        for cell in cells
        if cell["architecture"] == "flash"
        or (cell["architecture"] == "priority" and cell["fast_tier_bytes"] in slower)
    ]
    (finding,) = verdict(gather([{**KINDS["sweep"], "cells": cells}]), {"architectures"}).findings
    assert finding.figure == "priority, 512 MiB"
    more = ", at most 10.0 % more than the best of the architectures of stock Linux."
    assert more in finding.statement


def test_many_curves_of_misses_have_a_view_for_each_recording() -> None:
    def views(policies: int) -> list[tuple[str, list[str]]]:
        counts = {f"random:seed={seed}": {"64": 800} for seed in range(policies)}
        results = [{**KINDS["misses"], "name": name, "misses": counts} for name in ("a", "b")]
        chart = panels_of(results)["reuse"].charts[0]
        return [(view.label, [series.name for series in view.series]) for view in chart.views]

    ((label, names),) = views(4)
    assert label == "all recordings" and names[0] == "a, random:seed=0" and len(names) == 8
    first, second = views(5)
    assert first == ("a", [f"random:seed={seed}" for seed in range(5)])
    assert second == ("b", first[1])


def test_two_sweeps_of_recordings_with_the_same_file_name_stay_apart() -> None:
    def sweep(trace: str) -> dict[str, object]:
        cells = [cell for cell in KINDS["sweep"]["cells"] if cell["trace"] == "busy"]
        return {**KINDS["sweep"], "cells": [{**cell, "trace": trace} for cell in cells]}

    apart = gather([sweep("a/busy.parquet"), sweep("b/busy.csv")])
    assert {cell["trace"] for cell in apart.cells} == {"a/busy.parquet", "b/busy.csv"}
    together = gather([sweep("a/busy.parquet"), sweep("busy")])
    assert {cell["trace"] for cell in together.cells} == {"busy"}


def test_simulations_of_the_slow_device_only_need_a_fast_tier_for_a_finding() -> None:
    cells = [cell for cell in KINDS["sweep"]["cells"] if cell["architecture"] == "flash"]
    found = verdict(gather([{**KINDS["sweep"], "cells": cells}]), {"architectures"})
    assert not found.findings and "an architecture with a fast tier too" in found.missing
