"""The thrash study on made-up runs, whose figures are computed by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from run_folders import MIB, repeated, rounds, write_run, zstd_frame

from pagewise import cli
from pagewise.launch_runs import read_run
from pagewise.report import report
from pagewise.study_rows import ruling
from pagewise_studies import thrash
from pagewise_studies.text import markdown
from pagewise_studies.thrash_phones import phones_of
from pagewise_studies.verdict import FAILS, HOLDS, NEEDS, UNMEASURED

# Ten blocks of 4 KiB: block 0 is read nine times and written once, each other block is read once.
# So the top 10 %, which are one block, take 10 of 19 accesses.
BLOCKS = "time,op,sector,size\n" + "".join(
    f"{number},{'W' if number == 18 else 'R'},{8 * max(0, number - 8) * (number < 18)},4096\n"
    for number in range(19)
)


def paper_like(folder: Path) -> list[Path]:
    """Six runs as in S0, with 2 and 16 applications instead of 9 and 25."""
    small = {"budget": "650MiB"}
    large = {"budget": "1500MiB"}

    def run(name: str, visits: list[dict[str, Any]], **more: Any) -> Path:
        return write_run(folder / name, visits, **more)

    def io(mib: int) -> dict[str, int]:
        return {"bytes_in": mib * MIB}

    slow = rounds(2, 2.5, 5.0, 5.0, **io(60))
    slow[2]["launch_s"], slow[4]["launch_s"] = 6.0, 6.5
    return [
        run("a", slow, **small, recording=BLOCKS),
        run("b", rounds(2, 2.5, 2.0, 2.0, kills=1, oom_kills=2, **io(10)), mode="kill", **small),
        run("c", rounds(2, 2.5, 2.0, 2.0, **io(12)), **large),
        run("d", rounds(2, 2.5, 2.0, 2.0, **io(10)), mode="kill", threshold=0.6, **large),
        run("e", rounds(16, 2.5, 5.0, 6.0, **io(70)), **large),
        run("f", rounds(16, 2.5, 2.0, 2.0, **io(10)), mode="kill", **large),
    ]


def by_part(result: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["check"][-1], row["part"]): row for row in result["verdicts"]}


def test_runs_like_those_of_the_paper_pass_its_checks(tmp_path: Path) -> None:
    result = thrash.study(repeated(paper_like(tmp_path)), tmp_path, seed=1, progress=None)
    found = by_part(result)
    held = [key for key, row in found.items() if row["verdict"] == HOLDS]
    assert held == [
        ("2", "1 GB"), ("2", "2 GB"),
        ("4", "first round"), ("4", "swap off"), ("4", "1 GB"), ("4", "2 GB"),
        ("5", "swap on"), ("5", "swap off"),
    ]  # fmt: skip
    # 60 MiB against 10 MiB a visit; mean 5.625 s and median 5.5 s against 2 s.
    assert (found["2", "1 GB"]["ours"], found["2", "2 GB"]["ours"]) == ("6.00x", "1.20x")
    assert found["4", "1 GB"]["ours"] == "2.75x to 2.81x"
    # 10 of 19 accesses go to the top 10 %, so (1 - 0.526) x 6 is left, more than 1.6.
    assert (found["3", "1 GB"]["ours"], found["3", "1 GB"]["verdict"]) == ("2.84x", FAILS)
    assert (found["1", "1 GB"]["ours"], found["1", "1 GB"]["verdict"]) == ("52.6 %", FAILS)
    assert "b (kill at 0.4): 10 MiB a visit" in found["3", "1 GB"]["why"]
    assert (
        "2.00 processes a visit killed by the kernel when memory ran out"
        in found["3", "1 GB"]["why"]
    )
    assert found["1", "swap off"]["verdict"] == UNMEASURED
    assert found["1", "swap off"]["why"].startswith("needs block requests recorded")


def test_figure_1_splits_recorded_blocks(tmp_path: Path) -> None:
    result = thrash.study(paper_like(tmp_path), tmp_path, seed=1, progress=None)
    rows = {(row[0], row[1]): row[2] for row in result["figures"][0]["rows"]}
    assert rows["1 GB, 2 apps: swap on", "top 10 % of blocks"] == 10 * 4096 / MIB
    assert rows["1 GB, 2 apps: swap on", "other blocks"] == 9 * 4096 / MIB
    assert rows["1 GB, 2 apps: kill at 0.4", "split not recorded"] == 60
    assert rows["2 GB, 16 apps: swap on", "split not recorded"] == 48 * 70


def test_a_packed_recording_of_block_requests_is_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "on", rounds(2, 2.0, 2.0))
    (folder / "on.blocks.csv.zst").write_bytes(zstd_frame(BLOCKS.encode()))
    result = thrash.study([folder], tmp_path, seed=1, progress=None)
    assert [row[1:3] for row in result["figures"][0]["rows"]] == [
        ["top 10 % of blocks", 10 * 4096 / MIB],
        ["other blocks", 9 * 4096 / MIB],
    ]
    assert list(result["inputs"]) == ["on/run.toml", "on/visits.parquet", "on/on.blocks.csv.zst"]


def test_missing_runs_are_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "only", rounds(2, 2.0, 2.0))
    found = by_part(thrash.study([folder], tmp_path, seed=1, progress=None))
    assert {row["verdict"] for row in found.values()} == {UNMEASURED}
    assert found["2", "1 GB"]["why"] == (
        "needs a run in mode kill with at most 15 applications and a budget from 512 to less than "
        "1280 MiB (lab/plans/kill-1g.toml)"
    )
    assert "lab/plans/phone-2g.toml" in found["5", "swap on"]["why"]
    assert "lab/plans/kill-2g.toml" in found["5", "swap off"]["why"]
    assert "lab/plans/kill-1g.toml" in found["1", "swap off"]["why"]


def test_a_verdict_names_the_killer_under_which_the_check_holds(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / "on", rounds(2, 2.0, 2.0, bytes_in=60)),
        write_run(tmp_path / "tight", rounds(2, 2.0, 2.0, bytes_in=10), mode="kill"),
        write_run(tmp_path / "late", rounds(2, 2.0, 2.0, bytes_in=90), mode="kill", threshold=0.8),
    ]
    result = thrash.study(repeated(folders), tmp_path, seed=1, progress=None)
    ratio = by_part(result)["2", "1 GB"]
    assert (ratio["verdict"], ratio["readings"], ratio["holding"]) == (NEEDS, 4, 2)
    assert ratio["needs"] == {"killer": "kill at 0.4"}
    sweep = {figure["name"]: figure["rows"] for figure in result["figures"]}["thrash-killer-io"]
    assert [(row[0], row[2] * MIB) for row in sweep] == [
        (0.4, 10), (0.4, 60), (0.8, 90), (0.8, 60),
    ]  # fmt: skip


def test_runs_of_other_applications_or_budgets_are_not_compared(
    tmp_path: Path,
) -> None:
    folders = [
        write_run(tmp_path / "on", rounds(2, 2.0, 2.0, bytes_in=60)),
        write_run(tmp_path / "fewer", rounds(1, 2.0, 2.0, bytes_in=10), mode="kill"),
        write_run(
            tmp_path / "less", rounds(2, 2.0, 2.0, bytes_in=10), mode="kill", budget="600MiB"
        ),
    ]
    result = thrash.study(folders, tmp_path, seed=1, progress=None)
    ratio = by_part(result)["2", "1 GB"]
    assert (ratio["verdict"], ratio["why"]) == (
        UNMEASURED,
        "needs runs with and without swap of the same applications, budget and storage",
    )
    assert "comparison" not in {table["name"] for table in result["tables"]}
    assert not [figure for figure in result["figures"] if "killer" in figure["name"]]


def test_repeats_of_a_plan_are_pooled(tmp_path: Path) -> None:
    folders = [
        *(
            write_run(
                tmp_path / f"on-{number}",
                rounds(2, 2.0, launch_s, bytes_in=io),
                start_ns=number,
                recording=BLOCKS,
            )
            for number, (launch_s, io) in enumerate([(4.0, 60), (5.0, 70), (9.0, 80)])
        ),
        *(
            write_run(tmp_path / f"off-{number}", rounds(2, 2.0, 2.0, bytes_in=10), mode="kill")
            for number in range(2)
        ),
    ]
    result = thrash.study(folders, tmp_path, seed=1, progress=None)
    ratio = by_part(result)["2", "1 GB"]
    # One reading for each part of the run that counts, of the mean I/O of three runs and two.
    assert (ratio["readings"], ratio["ours"]) == (2, "7.00x")
    tables = {table["name"]: table for table in result["tables"]}
    rows = [
        dict(zip(tables["repeats"]["columns"], row, strict=True))
        for row in tables["repeats"]["rows"]
    ]
    assert [row for row in rows if row["figure"] == "mean launch, s"] == [
        {
            "run": "swap on (on)",
            "runs": 3,
            "figure": "mean launch, s",
            "mean": 6.0,
            "least": 4.0,
            "most": 9.0,
        },
        {
            "run": "kill at 0.4 (off)",
            "runs": 2,
            "figure": "mean launch, s",
            "mean": 2.0,
            "least": 2.0,
            "most": 2.0,
        },
    ]
    bars = result["figures"][0]["rows"]
    assert [row[2] for row in bars if row[1] == "split not recorded"] == [40 / MIB]
    assert sum(row[2] for row in bars if row[0].endswith("swap on")) == 19 * 4096 / MIB


def test_runs_on_other_storage_are_not_compared(tmp_path: Path) -> None:
    slow = 'storage = { files = "emmc-5.1" }\n'
    varied = rounds(2, 2.0, 5.0, bytes_in=60)
    varied[2]["launch_s"], varied[3]["launch_s"] = 4.0, 6.0
    flash = 'tiers = { policy = "flash", fast = "4KiB", emulate = { slow = "emmc-5.1" } }\n'
    folders = [
        write_run(tmp_path / "on", rounds(2, 2.0, 2.0, bytes_in=60)),
        write_run(
            tmp_path / "slow-on",
            varied,
            mode="tiers",
            minfree=slow + flash,
        ),
        write_run(
            tmp_path / "slow-off", rounds(2, 2.0, 2.0, bytes_in=10), mode="minfree", minfree=slow
        ),
    ]
    result = thrash.study(repeated(folders), tmp_path, seed=1, progress=None)
    later = by_part(result)["4", "1 GB"]
    assert (later["verdict"], later["readings"], later["ours"]) == (HOLDS, 2, "2.50x")
    assert by_part(result)["2", "1 GB"]["ours"] == "6.00x"


def test_the_plan_and_not_the_name_identifies_a_phone(tmp_path: Path) -> None:
    runs = [
        read_run(write_run(tmp_path / name, rounds(apps, 1.0), budget=budget, mode=mode))
        for name, apps, budget, mode in (
            ("phone-2g", 9, "1023MiB", "swap-file"),
            ("phone-1g", 15, "1280MiB", "zram"),
            ("kill", 16, "1.5GiB", "kill"),
            ("small", 9, "48MiB", "swap-file"),
            ("workstation", 9, "2GiB", "swap-file"),
            ("free", 9, "", "no-limit"),
        )
    ]
    phones = phones_of(runs)
    assert [[run.name for run in phone.runs] for phone in phones.each()] == [
        ["phone-2g"], ["phone-1g"], ["kill"],
    ]  # fmt: skip
    assert [run.name for run in phones.unlimited] == ["free"]


def test_unanswered_launches_are_counted_and_left_out_of_the_mean(tmp_path: Path) -> None:
    visits = rounds(2, 1.0, 3.0)
    visits[3]["launch_s"] = None
    folder = write_run(tmp_path / "on", visits)
    result = thrash.study([folder], tmp_path, seed=1, progress=None)
    table = next(table for table in result["tables"] if table["name"] == "launches")
    later = dict(zip(table["columns"], table["rows"][1], strict=True))
    assert (later["visits"], later["unanswered"], later["mean"], later["std"]) == (2, 1, 3.0, 0.0)


def test_a_run_without_an_answer_leaves_the_check_unmeasured(tmp_path: Path) -> None:
    visits = rounds(2, 1.0, 1.0)
    for visit in visits:
        visit["launch_s"] = None
    folders = [
        write_run(tmp_path / "on", visits),
        write_run(tmp_path / "off", rounds(2, 1.0, 1.0), mode="kill"),
    ]
    found = by_part(thrash.study(folders, tmp_path, seed=1, progress=None))
    assert found["4", "1 GB"]["verdict"] == UNMEASURED
    assert found["4", "1 GB"]["why"].startswith("no launch of the rounds that count")


def test_the_result_renders_as_page_and_report(tmp_path: Path) -> None:
    folders = paper_like(tmp_path)
    result = thrash.study(folders, tmp_path, seed=1, progress=None)
    assert json.loads((tmp_path / "thrash.json").read_text()) == result
    assert thrash.study(folders, tmp_path, seed=1, progress=None) == result
    page = markdown(result)
    assert all(ruling(verdict) in page for verdict in result["verdicts"])
    assert all(f"## {table['title']}" in page for table in result["tables"])
    assert "pagewise study thrash a b c d e f --seed 1" in page
    written = report([tmp_path / "thrash.json"], tmp_path / "thrash.html")
    assert "papers" in written["panels"]
    html = (tmp_path / "thrash.html").read_text()
    assert all(table["title"] in html for table in result["tables"])


def test_the_command_takes_runs_and_says_when_they_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paper_like(tmp_path / "runs")
    folders = [str(tmp_path / "runs" / name) for name in "ab"]
    output = ["-o", str(tmp_path / "out")]
    assert cli.run(["study", "thrash", *folders, *output, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["study"] == "thrash"
    assert (tmp_path / "out" / "thrash.md").is_file()
    assert cli.run(["study", "thrash", *folders, *output]) == 0
    assert "Launch times in seconds" in capsys.readouterr().out
    assert cli.run(["study", "thrash"]) == 2
    assert "pagewise study thrash examples/" in capsys.readouterr().err
    assert cli.run(["study", "multiswap", *folders]) == 2
    assert "takes no runs" in capsys.readouterr().err
    assert cli.run(["study", "--help"]) == 0
    assert "pagewise study predict examples/" in capsys.readouterr().out


def test_an_invalid_run_is_refused_or_marks_every_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    visits = rounds(2, 2.5, 5.0, bytes_in=60 * MIB)
    on = write_run(tmp_path / "on", visits, invalid_because=["the recorder lost 3 events"])
    off = write_run(tmp_path / "off", visits, mode="kill", invalid_because=[])
    command = ["study", "thrash", str(on), str(off), "-o", str(tmp_path / "out")]
    assert cli.run(command) == 2
    assert "can carry no verdict: the recorder lost 3 events" in capsys.readouterr().err
    assert not (tmp_path / "out" / "thrash.json").exists()

    assert cli.run([*command, "--allow-invalid", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["invalid_runs"] == {"on": ["the recorder lost 3 events"]}
    assert result["unjudged_runs"] == []
    assert result["command"].endswith("--allow-invalid")
    rows = [row[0] for table in result["tables"] for row in table["rows"]]
    series = [row[1] for figure in result["figures"] for row in figure["rows"]]
    data = [verdict["data"] for verdict in result["verdicts"]]
    assert rows and series and data
    assert all(str(cell).endswith("(invalid run)") for cell in (*rows, *series, *data))
    assert "**`on` can carry no verdict:** the recorder lost 3 events." in markdown(result)


def test_runs_that_do_not_judge_themselves_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    visits = rounds(2, 2.5, 5.0, bytes_in=60 * MIB)
    old = write_run(tmp_path / "old", visits, invalid_because=None)
    new = write_run(tmp_path / "new", visits, mode="kill", invalid_because=[])
    assert cli.run(["study", "thrash", str(old), str(new), "-o", str(tmp_path / "out")]) == 0
    assert "the lab did not check that yet: old" in capsys.readouterr().err
    result = json.loads((tmp_path / "out" / "thrash.json").read_text())
    assert (result["invalid_runs"], result["unjudged_runs"]) == ({}, ["old"])
    assert "(invalid run)" not in markdown(result)


def test_allow_invalid_is_only_for_studies_of_launch_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["study", "page-size", "--allow-invalid"]) == 2
    assert "reads no launch runs" in capsys.readouterr().err
