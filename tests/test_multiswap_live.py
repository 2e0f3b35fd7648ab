"""The study of policies on two tiers, on runs whose figures are computed by hand."""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import ran
from run_folders import rounds, write_run
from swapd_runs import Event, page_outs, write_tier_run

from pagewise.errors import UnreadableInput, UsageError
from pagewise.launch_runs import read_run
from pagewise_studies import multiswap_live, tiers
from pagewise_studies.verdict import FAILS, HOLDS, NEEDS, UNMEASURED

# In a fast tier of two pages. Hierarchical swap sends every page out to the fast tier, and to the
# slow tier when another one takes its frame.
EVENTS: list[Event] = [
    *(("out", 1), ("out", 2), ("out", 3)),  # 1 leaves for 3
    *(("in", 3), ("in", 1)),  # 3 from the fast tier; 1 from the slow tier, in the frame of 2
    *(("void", 3), ("out", 4)),  # 4 has the frame of 3
]
AREA = """\
time_s,event,process,page,state,kind
0.0,out,1,1,D,anon
0.1,out,1,2,D,anon
0.1,out,1,9,D,file
0.2,out,1,3,D,anon
0.3,in,1,3,,anon
0.4,in,1,1,,anon
0.5,out,1,4,D,anon
"""
VISITS = rounds(2, 2.0, 1.0, 1.0)


def served(
    folder: Path,
    policy: str,
    *slow_pages: int,
    fast_writes: int = 100,
    fast_reads: int = 10,
    launch_s: float = 1.0,
    fast_pages: int = 256,
    emulate: str = "",
    start_ns: int = 0,
) -> list[Path]:
    """A run of a policy for each number of pages that the slow tier read."""
    return [
        write_tier_run(
            folder / f"{policy}-{fast_pages}-{number}",
            [("out", 1)],
            rounds(2, 9.0, launch_s, launch_s),
            policy=policy,
            fast_pages=fast_pages,
            emulate=emulate,
            is_recorded=False,
            counts={
                "fast": {"reads": fast_reads, "writes": fast_writes},
                "slow": {"reads": pages, "writes": 0},
            },
            start_ns=start_ns + 10 * zlib.crc32(f"{policy} {fast_pages}".encode()) + number,
        )
        for number, pages in enumerate(slow_pages)
    ]


def judged(folders: Sequence[Path], output: Path) -> dict[str, dict[str, Any]]:
    result = multiswap_live.live(folders, output, seed=1, progress=None)
    return {f"{row['check']} {row['part']}": row for row in result["verdicts"]}


def test_pages_of_each_tier_over_time_equal_those_counted_by_hand(tmp_path: Path) -> None:
    run = read_run(write_tier_run(tmp_path / "run", EVENTS, VISITS, fast_pages=2))
    found = tiers.tier_run(run, {}, tmp_path, None)
    assert [(each.fast_pages, each.slow_pages) for each in found.occupancy] == [
        (1, 0),
        (2, 0),
        (2, 1),
        (2, 1),
        (2, 1),
        (1, 1),
        (2, 1),
    ]
    assert found.occupancy[-1].at_s == 0.006
    assert found.used_pages_max == 3
    assert (found.counts.fast_reads, found.counts.slow_accesses) == (1, 3)
    assert found.simulated == found.counts


def test_a_run_equals_the_prediction_by_the_same_requests(tmp_path: Path) -> None:
    requests = [event for event in EVENTS if event[0] != "void"]
    live = [
        write_tier_run(
            tmp_path / f"run-{number}", requests, VISITS, fast_pages=2, start_ns=10**10 * number
        )
        for number in (1, 2)
    ]
    on_file = write_run(tmp_path / "file", VISITS, recording=AREA)
    found = judged([*live, on_file], tmp_path)
    # The page of a file went to no swap area.
    assert tiers.swapped(read_run(on_file), tmp_path, None).header["events"] == len(requests)
    assert (found["TIERS predicted"]["verdict"], found["TIERS predicted"]["ours"]) == (
        HOLDS,
        "+0.0 %",
    )
    assert (found["TIERS moves"]["verdict"], found["TIERS moves"]["readings"]) == (HOLDS, 2)
    (table,) = json.loads((tmp_path / "multiswap-live.json").read_text())["tables"]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert [row["slow I/O"] for row in rows] == [4, 4]
    assert {row["moves"] for row in rows} == {"same"}

    (live[0] / "swapd.json").write_text(
        (live[0] / "swapd.json").read_text().replace('"slow": {"reads": 1', '"slow": {"reads": 2')
    )
    assert judged([*live, on_file], tmp_path)["TIERS predicted"]["verdict"] == NEEDS
    alone = judged([live[0], on_file], tmp_path)["TIERS predicted"]
    assert (alone["verdict"], alone["ours"]) == (UNMEASURED, "+25.0 %")


def test_pages_of_zeros_are_not_predicted(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", VISITS)
    (run / "recording.pgr").write_bytes(page_outs({7: False, 8: True, 9: False}))
    assert read_run(run).recording(tmp_path).header["events"] == 3
    assert tiers.swapped(read_run(run), tmp_path, None).header["events"] == 2


def test_moves_that_the_desk_decides_and_swapd_did_not_end_fail_the_check(tmp_path: Path) -> None:
    run = write_tier_run(tmp_path / "run", EVENTS, VISITS, fast_pages=2, moves_lost=1)
    assert judged([run], tmp_path)["TIERS moves"]["verdict"] == FAILS


@pytest.mark.parametrize(
    ("slow", "fast_writes", "expected"), [((90, 92), 50, HOLDS), ((95, 99), 60, FAILS)]
)
def test_our_targets_hold_or_fail_by_the_counts_of_swapd(
    tmp_path: Path, slow: tuple[int, int], fast_writes: int, expected: str
) -> None:
    folders = [
        *served(tmp_path, "hierarchical", 100, 100),
        *served(tmp_path, "adaptive", *slow),
        *served(tmp_path, "hybrid", 100, 100, fast_writes=fast_writes),
    ]
    found = judged(folders, tmp_path)
    assert found["TIERS adaptive"]["verdict"] == expected
    assert found["TIERS hybrid writes"]["verdict"] == expected


def test_runs_are_compared_with_those_of_the_same_seed(tmp_path: Path) -> None:
    folders = [*served(tmp_path, "hierarchical", 100, 200), *served(tmp_path, "adaptive", 180, 90)]
    for folder, seed in zip(folders, (1, 2, 2, 1), strict=True):
        about = folder / "run.toml"
        about.write_text(about.read_text().replace("[plan]\n", f"[plan]\nseed = {seed}\n"))
    found = judged(folders, tmp_path)["TIERS adaptive"]
    # By their start, one pair would have 1.8x.
    assert (found["verdict"], found["ours"]) == (HOLDS, "0.90x")


def test_the_checks_of_the_paper_need_sizes_and_its_baseline(tmp_path: Path) -> None:
    at_256 = [
        *served(tmp_path, "hierarchical", 100, 100),
        *served(tmp_path, "hybrid", 80, 82, fast_writes=40),
    ]
    found = judged(at_256, tmp_path)
    shape = found["ACC-S1-2 shape"]
    assert shape["verdict"] == UNMEASURED
    assert "the only size of both is 1 MiB" in shape["why"]
    assert "policy hybrid-clock" in found["ACC-S1-5 amount"]["why"]

    at_512 = [
        *served(tmp_path, "hierarchical", 100, 100, fast_pages=512),
        *served(tmp_path, "hybrid", 90, 90, fast_writes=40, fast_pages=512),
    ]
    found = judged([*at_256, *at_512], tmp_path)
    assert found["ACC-S1-2 shape"]["verdict"] == HOLDS
    assert "tiers.record = true" in found["ACC-S1-3 crossover"]["why"]

    slower = served(tmp_path / "slower", "hybrid", 120, 120, fast_writes=40)
    found = judged([*at_256[:2], *slower, *at_512], tmp_path)
    assert found["ACC-S1-2 shape"]["verdict"] == FAILS


def test_a_fast_tier_without_hits_and_a_single_run_carry_no_verdict(tmp_path: Path) -> None:
    idle = [
        *served(tmp_path, "hierarchical", 100, 100),
        *served(tmp_path, "adaptive", 80, 80, fast_reads=0),
    ]
    why = judged(idle, tmp_path)["TIERS adaptive"]["why"]
    assert "the fast tier of adaptive-256-0 served 0 % of the reads" in why
    rare = [*idle[:2], *served(tmp_path / "rare", "adaptive", 2000, 2000)]
    assert (
        "% of the reads, so it shows no difference"
        in judged(rare, tmp_path)["TIERS adaptive"]["why"]
    )
    single = [idle[0], *served(tmp_path / "single", "adaptive", 80)]
    found = judged(single, tmp_path)["TIERS adaptive"]
    assert (found["verdict"], found["ours"]) == (UNMEASURED, "0.80x")
    assert "2 runs of each or more" in found["why"]


@pytest.mark.parametrize(("launch_s", "kill_s", "expected"), [(0.5, 0.4, HOLDS), (0.7, 0.4, FAILS)])
def test_launches_are_judged_on_the_storage_of_a_phone(
    tmp_path: Path, launch_s: float, kill_s: float, expected: str
) -> None:
    checks = (
        *("ACC-S1-6 launch", "ACC-S1-6 no swap"),
        *("TIERS adaptive launch", "TIERS adaptive beside flash swap"),
    )
    for emulate, why in (
        ("", "may be faster than a phone's"),
        ("nvme", "faster than phones"),
        ("emmc-5.1", ""),
    ):
        folder = tmp_path / (emulate or "own")
        files = f'storage = {{ files = "{emulate}" }}' if emulate else ""
        kills = [
            write_run(
                folder / f"kill-{number}",
                rounds(2, 9.0, kill_s, kill_s),
                mode="kill",
                minfree=files,
                start_ns=number,
            )
            for number in (1, 2)
        ]
        found = judged(
            [
                *served(folder, "flash", 1, 1, fast_pages=1, emulate=emulate),
                *served(folder, "hybrid", 1, 1, launch_s=launch_s, emulate=emulate),
                *served(
                    folder, "adaptive", 1, 1, launch_s=1.1 * launch_s**2 + 0.25, emulate=emulate
                ),
                *kills,
            ],
            tmp_path,
        )
        verdicts = {found[check]["verdict"] for check in checks}
        assert verdicts == {UNMEASURED if why else expected}
        assert all(why in found[check]["why"] for check in checks)
        assert all(bool(found[check]["ours"]) != bool(why) for check in checks)


def test_runs_without_a_later_launch_carry_no_verdict_on_launches(tmp_path: Path) -> None:
    folders = [
        write_tier_run(
            tmp_path / f"{policy}-{number}",
            [("out", 1)],
            rounds(2, 1.0),
            policy=policy,
            emulate="emmc-5.1",
            is_recorded=False,
            start_ns=start_ns + number,
        )
        for start_ns, policy in ((0, "hybrid"), (10, "flash"), (20, "adaptive"))
        for number in (0, 1)
    ]
    found = judged(folders, tmp_path)
    assert found["ACC-S1-6 launch"]["why"] == "no launch after the first round was answered"
    assert "launches after the first round" in found["TIERS adaptive launch"]["why"]


def test_runs_with_hits_stand_for_a_policy_that_ran_with_several_options(tmp_path: Path) -> None:
    others = served(tmp_path, "hierarchical", 100, 100)
    idle = served(tmp_path, "hybrid", 100, 100, fast_reads=0, fast_writes=90)
    used = served(tmp_path / "used", "hybrid", 100, 100, fast_writes=40, start_ns=5)
    for folder in used:
        counts = (folder / "swapd.json").read_text()
        assert '"promote_at": "fault"' in counts
        (folder / "swapd.json").write_text(counts.replace('"fault"', '"swapout"'))
    alone = judged([*others, *idle], tmp_path)
    assert "shows no difference" in alone["TIERS hybrid writes"]["why"]
    both = judged([*others, *idle, *used], tmp_path)["TIERS hybrid writes"]
    assert (both["verdict"], both["ours"], both["readings"]) == (HOLDS, "0.40x", 2)
    (table,) = json.loads((tmp_path / "multiswap-live.json").read_text())["tables"]
    named = {row[table["columns"].index("policy")] for row in table["rows"]}
    assert named == {"hierarchical", "hybrid promote_at=fault", "hybrid promote_at=swapout"}

    # A repeat without hits is not left out, for it may be the one that differs.
    counts = (used[0] / "swapd.json").read_text()
    (used[0] / "swapd.json").write_text(counts.replace('"reads": 10,', '"reads": 0,', 1))
    partly = judged([*others, *idle, *used], tmp_path)["TIERS hybrid writes"]
    assert "shows no difference" in partly["why"]


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    (run,) = served(tmp_path, "hybrid", 1)
    on_file = write_run(tmp_path / "file", VISITS, start_ns=1)
    in_memory = write_run(tmp_path / "zram", VISITS, mode="zram", start_ns=2)
    (phone,) = served(tmp_path / "phone", "flash", 1)
    plan = (phone / "run.toml").read_text()
    (phone / "run.toml").write_text(
        plan.replace('"1048576" }', '"1048576", emulate = { slow = "emmc-5.1" } }')
    )
    other = write_run(tmp_path / "other", VISITS[:2], budget="1GiB", start_ns=3)
    for given, message in (
        ([on_file], "none of these runs has a swap area of two tiers"),
        ([run, in_memory], "mode 'zram' has neither"),
        ([run, phone], "emulate different devices"),
        ([run, other], "they differ in budget"),
    ):
        with pytest.raises(UsageError, match=message) as refusal:
            judged(given, tmp_path)
        assert refusal.value.hint


def test_broken_files_of_swapd_are_named(tmp_path: Path) -> None:
    run = write_tier_run(tmp_path / "run", EVENTS, VISITS, fast_pages=2)
    counts = (run / "swapd.json").read_text()
    for text, message in (
        ("{", "not the counts of swapd"),
        ("[]", "not the counts of swapd"),
        (counts.replace('"takeovers": 0', '"takeovers": 2'), "swapd was killed 2 times"),
        (counts.replace('"checksum": 0', '"checksum": 7'), "'checksum': 7"),
    ):
        (run / "swapd.json").write_text(text)
        with pytest.raises(UnreadableInput, match=message) as refusal:
            judged([run], tmp_path)
        assert "run the plan again" in str(refusal.value.hint)
    (run / "swapd.json").unlink()
    with pytest.raises(UnreadableInput, match=r"swapd\.json: No such file"):
        judged([run], tmp_path)
    (run / "swapd.json").write_text(counts)
    (run / "moves.csv").write_text("event,slot,move\n0,1\n")
    with pytest.raises(UnreadableInput, match=r"moves\.csv: not the moves of swapd"):
        judged([run], tmp_path)


def test_live_takes_runs_and_only_studies_that_have_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, diagnostics = ran("study", "multiswap", "--live", capsys=capsys)
    assert status == 2 and "needs its runs with --live" in diagnostics
    status, _, diagnostics = ran("study", "thrash", "--live", tmp_path, capsys=capsys)
    assert status == 2 and "works only for" in diagnostics and "multiswap" in diagnostics


def test_the_command_writes_the_result_and_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_tier_run(tmp_path / "run", EVENTS, VISITS, fast_pages=2)
    page = tmp_path / "page.html"
    words = ("study", "multiswap", "--live", run, "-o", tmp_path / "out", "--report", page)
    status, output, diagnostics = ran(*words, "--json", capsys=capsys)
    assert (status, diagnostics) == (0, "")
    result = json.loads(output)
    assert result["study"] == "multiswap-live"
    assert result["command"] == "pagewise study multiswap --live run"
    assert {"run/swapd.json", "run/swapd.pgr", "run/moves.csv"} <= result["inputs"].keys()
    text = page.read_text().replace("\u00a0", " ")
    assert "1 with any reading; 14 more are not measurable" in text
    assert "Two tiers of swap under running programs" in text
    assert "A read takes 6 us from the fast tier, 150 us from the slow tier (medians)" in text
    assert "Most pages were in swap in run (hierarchical, 8 KiB): 12 KiB" in text
    status, _, diagnostics = ran(*words, capsys=capsys)
    assert status == 2 and "--force" in diagnostics
