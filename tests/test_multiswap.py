"""Which readings of the multi-swap study can carry a verdict, on traces counted by hand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_folders import rounds, write_run

import pagewise as pw
from pagewise.errors import PagewiseError, UsageError
from pagewise.grids.traces import TraceSource
from pagewise_studies import multiswap, multiswap_device, workloads
from pagewise_studies import multiswap_checks as checks
from pagewise_studies.live_runs import FEW
from pagewise_studies.runs import FLASH_ONLY, CellCounts, Variant, run
from pagewise_studies.skew import of_workloads, returns
from pagewise_studies.verdict import HOLDS, UNMEASURED, Reading
from pagewise_studies.workloads import Repeated, Workload

HYBRID = Variant.of("hybrid", entry_bit="1")
SIZES_MIB = (1, 2)


def recording(times: int, pages: int = 4) -> str:
    """Every page leaves and comes back `times` times, one page after the other."""
    lines = []
    for visit in range(times):
        for page in range(pages):
            at = visit + page / 1000
            lines += [f"{at},out,1,{page},D,anon", f"{at + 0.5},in,1,{page},,anon"]
    lines.sort(key=lambda line: float(line.split(",")[0]))
    return "\n".join(["time_s,event,process,page,state,kind", *lines]) + "\n"


def trace(folder: Path, times: int, pages: int = 4) -> Path:
    source, path = folder / f"{times}.csv", folder / f"{times}.parquet"
    source.write_text(recording(times, pages))
    pw.import_trace(source, path)
    return path


def workload(path: Path) -> Workload:
    return Workload(path.stem, (), (TraceSource(path.name, str(path)),))


def plan(*each: Workload, data: str = "s1-rotation") -> Repeated:
    """A recorded plan with these repeats."""
    pooled = SimpleNamespace(name=each[0].name, budget_bytes=2**20)
    repeats: Any = SimpleNamespace(pooled=pooled, each=each)
    return Repeated(data, repeats, each)


def inputs(found: Workload, folder: Path, variants: list[Variant]) -> checks.Inputs:
    folder.mkdir(exist_ok=True)
    cells = run(found.traces, [FLASH_ONLY, *variants], SIZES_MIB, folder / "runs.parquet", None)
    return checks.Inputs(
        cells=cells,
        filtered_cells=CellCounts([]),
        recorded=[plan(found)],
        generated=[],
        shown=[],
        filtered={},
        skew=of_workloads([found], folder),
        sizes_mib=SIZES_MIB,
        hierarchical=[],
        hybrid=variants,
        clock=[],
        launches=[],
        rare=[],
    )


@pytest.mark.parametrize(
    ("times", "second", "third"),
    [(1, 0.0, 0.0), (2, 1 / 2, 0.0), (3, 2 / 3, 1 / 3), (5, 4 / 5, 3 / 5)],
)
def test_returns_are_counted_by_page(
    tmp_path: Path, times: int, second: float, third: float
) -> None:
    assert returns(trace(tmp_path, times)) == {2: second, 3: third}


def test_the_hit_share_counts_swap_ins_that_need_no_slow_read(tmp_path: Path) -> None:
    found = workload(trace(tmp_path, 4))
    counted = inputs(found, tmp_path, [HYBRID]).cells
    (source,) = found.traces
    # With entry_bit=1 each page is promoted at its first swap-in, so the later three are hits.
    assert counted.hit_share(source, HYBRID, 1) == 3 / 4
    assert counted.hit_share(source, FLASH_ONLY, 1) == 0


def test_cells_have_the_hits_of_the_fast_tier_and_the_time_over_that_of_flash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = workload(trace(tmp_path, 4))
    cells = inputs(found, tmp_path, [HYBRID]).cells
    monkeypatch.setattr(multiswap, "SIZES_MIB", SIZES_MIB)
    monkeypatch.setattr(multiswap, "_series", lambda name: [("hybrid", HYBRID)])
    small, large = multiswap.counted(cells, found)
    assert (small["fast_tier_mib"], large["fast_tier_mib"]) == SIZES_MIB
    assert small["fast_hit_share"] == 3 / 4
    # Flash swap writes four pages four times and reads them as often; a read takes 90 us there,
    # a write 40 us, and 4 and 5 us in the fast tier.
    flash_us = 16 * 90 + 16 * 40
    ours_us = (
        small["slow_reads"] * 90
        + small["slow_writes"] * 40
        + small["fast_reads"] * 4
        + small["fast_writes"] * 5
    )
    assert small["slow_reads"] == 4
    assert small["io_time_share_of_flash"] == pytest.approx(ours_us / flash_us)


def test_a_filter_without_returns_or_hits_carries_no_verdict(tmp_path: Path) -> None:
    once, twice = (workload(trace(tmp_path, times)) for times in (1, 2))
    strict = Variant.of("hybrid", entry_bit="0")

    def lacking(found: Workload, hybrid: Variant) -> str:
        variants = [] if hybrid == FLASH_ONLY else [hybrid]
        folder = tmp_path / f"{found.name}-{hybrid.architecture}-{dict(hybrid.options)}"
        return checks._lacking(inputs(found, folder, variants), [found], hybrid)

    # With entry bit 1 the second return can be a hit, with 0 the third.
    assert lacking(twice, HYBRID) == ""
    assert "for the second time" in lacking(once, HYBRID)
    assert "for the third time" in lacking(twice, strict)
    assert lacking(workload(trace(tmp_path, 4)), strict) == ""
    # Flash swap answers no swap-in from a fast tier.
    assert lacking(twice, FLASH_ONLY) == checks.HITLESS


def test_sizes_without_hits_or_that_hold_everything_are_left_out(tmp_path: Path) -> None:
    cache = Variant.of("hierarchical", eviction="clock", fill_on_read_miss="no")
    # Its 1,280 pages, 5 MiB, are used in a circle, and both sizes hold a part of them.
    large = workload(trace(tmp_path, 5, pages=5 * 256))
    found = inputs(large, tmp_path / "a", [HYBRID, cache])
    assert checks._scarce(found, large, cache) == list(SIZES_MIB)
    assert checks.acting(found, large, FLASH_ONLY) == []
    # Each size holds all of these four pages.
    small = workload(trace(tmp_path, 20))
    found = inputs(small, tmp_path / "b", [HYBRID, cache])
    assert checks._scarce(found, small, cache) == []
    assert checks.acting(found, small, HYBRID) == list(SIZES_MIB)
    (curve,) = checks._curves(found, [small], HYBRID, cache, lambda counts: counts.slow_accesses)
    assert curve.sizes_mib == SIZES_MIB and checks._open(found, [small], [curve], cache) == []
    assert curve.at([2]).sizes_mib == (2,) and curve.at([]).values == ()


def test_waits_have_a_row_for_each_reading_that_the_recording_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiswap_device, "SIZES_MIB", SIZES_MIB)
    baseline = Variant.of("hierarchical", eviction="clock")
    asked = inputs(workload(trace(tmp_path, 4)), tmp_path / "a", [HYBRID])
    asked = replace(asked, hierarchical=[baseline])
    rows = multiswap_device.table(asked, tmp_path / "waits.parquet", None).rows
    # Columns of events do not show which faults read the device, so nothing is recorded readahead.
    assert [(row["slow device"], row["reading"]) for row in rows] == [
        (device, reading)
        for device in ("ufs-3.1", "emmc-5.1")
        for reading in (
            "as S1",
            "readahead=kernel",
            "queueing=yes",
            "queueing=yes, readahead=kernel",
        )
    ]
    first, ahead = rows[:2]
    # Hierarchical reads 16 times from the fast tier. Hybrid reads and promotes four pages first.
    hybrid_us = 4 * (89.443 + 5) + 12 * 4
    assert first["mean change"] == pytest.approx(hybrid_us / (16 * 4) - 1, rel=1e-4)
    assert (first["hybrid better"], first["queue"], first["used"]) == ("0 of 1", 0, None)
    # Slots 2 to 4, 6 and 7, 11 and 15, as the window shrinks.
    assert ahead["read ahead"] == pytest.approx(7 / 16) and ahead["used"] == 1


def test_a_reading_in_which_no_program_waits_has_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiswap_device, "SIZES_MIB", (1,))
    monkeypatch.setattr(multiswap_device, "acting", lambda *_: [1])
    baseline = Variant.of("hierarchical", eviction="clock")
    found = workload(tmp_path / "hand.parquet")
    skew = {found: SimpleNamespace(multi_access_mib=1)}
    asked: Any = SimpleNamespace(hybrid=[HYBRID], hierarchical=[baseline], skew=skew)
    nothing = multiswap_device.Waits(0.0, 0.0, reads=0, read_ahead=0, used=0)
    all_ahead = multiswap_device.Waits(0.0, 0.0, reads=1, read_ahead=1, used=1)
    waited = multiswap_device.Waits(1.0, 0.0, reads=1, read_ahead=0, used=0)

    def rows(flash: multiswap_device.Waits, other: multiswap_device.Waits) -> int:
        by_variant = {FLASH_ONLY: flash, HYBRID: waited, baseline: other}
        cells = {
            ("hand.parquet", "ufs-3.1", variant, 1): waits for variant, waits in by_variant.items()
        }
        return len(list(multiswap_device._rows(asked, cells, plan(found), "ufs-3.1", {})))

    assert rows(waited, waited) == 1
    assert rows(nothing, waited) == rows(all_ahead, waited) == 0
    assert rows(waited, all_ahead) == 0


def test_cells_may_fail_only_for_what_the_recording_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cells(error: str) -> object:
        failed = [{"readahead": "recorded", "queueing": "yes", "error": error}]
        monkeypatch.setattr(multiswap_device, "sweep", lambda *_, **__: {"failed": failed})
        return multiswap_device._run([], [], tmp_path / "waits.parquet", None)

    monkeypatch.setattr(multiswap_device, "results", SimpleNamespace(read=lambda _: []))
    assert cells("queueing=yes needs a trace with a clock: this one has no times") == {}
    assert cells("readahead=recorded needs a recording that shows which faults read") == {}
    with pytest.raises(PagewiseError, match="1 runs failed, the first: disk full"):
        cells("disk full")


def test_unmeasurable_readings_are_left_out_and_counted() -> None:
    yes, no = Reading((("a", "1"),), True, 0.1), Reading((("a", "2"),), False, 0.2)
    some = checks._judged("shape", "x", [(yes, ""), (no, checks.HITLESS)])
    assert (some.verdict, some.readings) == (HOLDS, 1)
    assert f"1 further reading left out: {checks.HITLESS}" in some.why
    both = checks._judged("shape", "x", [(yes, ""), (no, checks.HITLESS), (no, "b"), (no, "b")])
    assert "2 further readings left out: b; 1 further reading left out" in both.why
    none = checks._judged("shape", "x", [(yes, checks.HITLESS), (no, checks.HITLESS)])
    assert (none.verdict, none.ours, none.why) == (UNMEASURED, "", checks.HITLESS)


def test_a_reading_counts_if_all_repeats_agree() -> None:
    def reading(name: str, holds: bool, figure: float) -> Reading:
        return Reading((("a", name),), holds, figure)

    first = [(reading(name, True, 0.1), "") for name in "123"]
    second = [
        (reading("1", True, 0.3), ""),
        (reading("2", False, 0.3), ""),
        (reading("4", True, 0), "x"),
    ]
    alike, *others = checks.agreed([first, second])
    assert alike == (reading("1", True, 0.2), "")
    assert [(dict(each.choices)["a"], why) for each, why in others] == [
        ("2", checks.DISAGREE),
        ("3", checks.DISAGREE),
        ("4", "x"),
    ]
    assert checks.agreed([first]) == first


def test_a_single_recording_decides_nothing(tmp_path: Path) -> None:
    once = workload(trace(tmp_path, 4))
    found = replace(inputs(once, tmp_path, []), filtered={once: once})
    verdicts = [each for each in checks.verdicts(found) if each.data == "s1-rotation"]
    share = next(each for each in verdicts if each.check.part == "share")
    assert (share.verdict, share.why) == (UNMEASURED, FEW)
    # Each page is used eight times, and leaves four times.
    assert share.ours == "0.0 %"


def test_rows_of_the_matrix_are_read_by_budget_and_scenario(tmp_path: Path) -> None:
    visits: list[dict[str, Any]] = rounds(1, 1.0)
    for name, budget in (("a-40-0", "4MiB"), ("a-40-1", "4MiB"), ("a-70-0", "7MiB")):
        for row in ("s1-rotation", "s1-zipf"):
            write_run(tmp_path / row / name, visits, budget=budget, recording=recording(2))
    write_run(tmp_path / "s1-zipf" / "unrecorded", visits, invalid_because=["no recording"])
    found = workloads.recorded(tmp_path, multiswap.ROWS, tmp_path, allow_invalid=False)
    assert [(each.data, each.pooled.choices, len(each.each)) for each in found] == [
        (row, (("budget", budget),), count)
        for row in ("s1-rotation", "s1-zipf")
        for budget, count in (("4 MiB", 2), ("7 MiB", 1))
    ]
    names = [workload.name for each in found for workload in each.each]
    assert len({*names}) == 6 and names[0] == "s1-rotation-a-40-0"
    assert [each.pooled.choices for each in workloads.shortest(found)] == 2 * [
        (("budget", "4 MiB"),)
    ]


def test_any_folder_of_recorded_runs_can_be_studied(tmp_path: Path) -> None:
    visits: list[dict[str, Any]] = rounds(1, 1.0)
    write_run(tmp_path / "mine", visits, recording=recording(1))
    write_run(tmp_path / "unrecorded", visits, invalid_because=["no recording"])
    (found,) = workloads.recorded(tmp_path, multiswap.ROWS, tmp_path, allow_invalid=False)
    assert (found.data, found.each[0].name, found.each[0].choices) == ("mine", "mine", ())
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no folder in it is a recorded run"):
        workloads.recorded(tmp_path / "empty", multiswap.ROWS, tmp_path, allow_invalid=False)
