"""The study of kills: medians, laws and verdicts from kills with made-up times."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pagewise import cli
from pagewise.errors import UnreadableInput, UsageError
from pagewise.report import report
from pagewise_studies.kill_anatomy import study
from pagewise_studies.kill_anatomy_checks import FEW
from pagewise_studies.kill_laws import laws
from pagewise_studies.kill_measurement import read_kill_measurement
from pagewise_studies.repeats import estimate_of

MIB = 1 << 20


def kill(
    experiment: str, threads: int, mib: int, others: int = 0, wait: float = 0.0, **changes: Any
) -> dict[str, Any]:
    """A kill with 2 us of delivery and 20 us of handling per thread.

    Per MiB it has 50 us of unmapping and 1 us of page tables. Each of ``others`` adds a tenth to
    the unmapping; ``wait`` is added to the handling.
    """
    signal, handling = 2.0 * threads, 20.0 * threads + wait
    unmap, tables = 50.0 * mib * (1 + others / 10), 1.0 * mib
    begins, total = signal + handling, signal + handling + unmap + tables
    result = {
        "pid": 7,
        "comm": "victim",
        "threads": threads,
        "rss_bytes": mib * MIB,
        "signal_us": signal,
        "threads_us": handling,
        "reclaim_us": unmap + tables,
        "unmap_us": unmap,
        "pagetables_us": tables,
        "total_us": total,
        "trigger": "user",
        "rss_curve": [[begins + 1, mib * MIB], [total, 0]],
        "steps": [
            {"name": "signal delivery", "thread": 1, "start_us": 0.0, "duration_us": signal},
            {"name": "wakes 7", "thread": 1, "start_us": 1.0, "duration_us": 0.0},
            {"name": "unmaps", "thread": 7, "start_us": begins, "duration_us": unmap},
        ],
    }
    asked = {"experiment": experiment, "threads": threads, "mib": mib, "others": others, "round": 0}
    return {**asked, "pid": 7, "from_ns": 0, "to_ns": 9, "kill": {**result, **changes}}


def rows() -> list[dict[str, Any]]:
    return [
        *(kill("paper", threads, 60, wait=wait) for threads in (13, 41) for wait in (0, 0, 9000)),
        *(kill("memory", 13, mib) for mib in (20, 40, 80, 160)),
        *(kill("threads", threads, 20) for threads in (1, 2, 4, 8, 13)),
        *(kill("together", 13, 60, others) for others in (0, 0, 4, 4, 10)),
        kill("overrun", 13, 60, signal_us=None, trigger="memcg-oom"),
    ]


def scaled(given: list[dict[str, Any]], factor: float) -> list[dict[str, Any]]:
    """Copies of the kills ``given`` whose times are ``factor`` as long."""
    times = ("signal_us", "threads_us", "reclaim_us", "unmap_us", "pagetables_us", "total_us")
    return [
        {
            **row,
            "kill": row["kill"]
            | {name: row["kill"][name] and factor * row["kill"][name] for name in times},
        }
        for row in given
    ]


def write(folder: Path, *repeats: list[dict[str, Any]], **changes: Any) -> Path:
    folder.mkdir()
    for number, given in enumerate(repeats, 1):
        result = {
            "schema": "pagewise.kill-runs/2",
            "started": f"2026-11-27T20:{number:02}:00+00:00",
            "kernel": "6.18",
            "machine": "x86_64",
            "processors": 2,
            "backend": "tracepoints",
            "load": [1.0, 2.0],
            "load_other": [0.01, 0.03],
            "rounds_busy": 1,
            "lost": 0,
            "absent": [],
            "rows": given,
            **changes,
        }
        place = folder / f"kills-{number}.json.gz"
        place.write_bytes(gzip.compress(json.dumps(result).encode(), mtime=0))
    return folder


def column(result: dict[str, Any], table: str, name: str) -> list[Any]:
    found = next(each for each in result["tables"] if each["name"] == f"kill-anatomy-{table}")
    return [row[found["columns"].index(name)] for row in found["rows"]]


def ruled(result: dict[str, Any]) -> dict[str, str]:
    return {row["part"]: row["verdict"] for row in result["verdicts"]}


def test_the_study_finds_the_laws_behind_the_times(tmp_path: Path) -> None:
    folder = write(tmp_path / "k", rows(), scaled(rows(), 1.5))
    found = {(law.phase, law.against): law for law in laws(read_kill_measurement(folder))}
    for of, slope in {
        ("signal", "threads"): 2,
        ("threads", "threads"): 20,
        ("unmap", "resident MiB"): 50,
        ("pagetables", "resident MiB"): 1,
        ("reclaim", "others dying at once"): 300,
    }.items():
        assert [line.slope for line in found[of].lines] == pytest.approx([slope, 1.5 * slope]), of
        assert found[of].slope == pytest.approx(1.25 * slope)
    assert found["pagetables", "threads"].slope == 0
    assert found["threads", "others dying at once"].slope == 0


def test_the_interval_of_a_figure_is_that_of_its_repeats() -> None:
    # Student's t for two degrees of freedom is 4.303; the deviation of 1, 2, 3 is 1.
    found = estimate_of([1.0, 2.0, 3.0])
    assert found is not None and found.figure == 2
    assert found.high - 2 == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert 2 - found.low == pytest.approx(found.high - 2)
    assert estimate_of([1.0]) is None


def test_the_study_makes_the_table_of_the_paper_and_its_verdicts(tmp_path: Path) -> None:
    result = study([write(tmp_path / "k", rows(), rows())], tmp_path, seed=1)
    # The third kill of each kind has a wait, which changes no median.
    assert column(result, "paper", "total")[2:] == [13 * 22 + 3060, 41 * 22 + 3060]
    assert column(result, "paper", "total to")[2] == 13 * 22 + 3060
    assert column(result, "paper", "kills")[2] == 6
    assert column(result, "paper", "reclaim share")[0] == pytest.approx(10_785 / 11_103)
    assert column(result, "together", "reclaim") == [3060, 4260, 6060]
    assert column(result, "triggers", "trigger") == ["user", "memcg-oom"]
    assert column(result, "triggers", "signal")[1] is None
    assert column(result, "timeline", "step") == ["signal delivery", "wakes a thread", "unmaps"]
    assert column(result, "repeats", "others") == [0.02, 0.02]
    assert column(result, "repeats", "others at most") == [0.03, 0.03]
    verdicts = {(row["check"], row["part"]): row for row in result["verdicts"]}
    assert ruled(result) == {
        "share": "needs a reading",
        "last": "holds",
        "delivery": "holds",
        "handling": "holds",
        "order": "holds",
        "reclaim": "holds",
    }
    assert verdicts["ACC-S2-3", "share"]["needs"] == {"victim": "13 threads, 60 MiB"}
    assert verdicts["ACC-S2-4", "reclaim"]["ours"] == "1.39x to 1.98x"
    assert study([tmp_path / "k"], tmp_path, seed=2) == result


def test_a_single_repeat_shows_its_figures_and_carries_no_verdict(tmp_path: Path) -> None:
    result = study([write(tmp_path / "k", rows())], tmp_path, seed=1)
    assert set(ruled(result).values()) == {"not measurable"}
    assert all(row["why"] == FEW and row["ours"] for row in result["verdicts"])
    assert column(result, "paper", "total to")[2] is None
    assert column(result, "laws", "from") == [None] * 8


def test_a_figure_whose_interval_contains_its_bound_decides_nothing(tmp_path: Path) -> None:
    """Reclaim takes 91 % of one kind of kill in one repeat, and 52 % in the other."""
    late = [kill("paper", 13, 60, wait=2500.0) for _ in range(3)]
    folder = write(tmp_path / "k", [kill("paper", 13, 60) for _ in range(3)], late)
    (share,) = (
        row
        for row in study([folder], tmp_path, seed=1)["verdicts"]
        if (row["check"], row["part"]) == ("ACC-S2-3", "share")
    )
    assert share["verdict"] == "not measurable"
    assert "victim: 13 threads, 60 MiB" in share["why"] and "contains the bound" in share["why"]


def test_kills_that_delay_nothing_while_each_has_a_processor_need_more_of_them(
    tmp_path: Path,
) -> None:
    free = kill("together", 13, 60)["kill"]
    beside = [{**kill("together", 13, 60, 1), "kill": free} for _ in range(2)]
    result = study([write(tmp_path / "k", *([[*rows(), *beside]] * 2))], tmp_path, seed=1)
    (found,) = (row for row in result["verdicts"] if row["check"] == "ACC-S2-4")
    assert found["verdict"] == "needs a reading"
    assert found["needs"] == {"dying processes": "more than processors"}


def test_a_check_needs_a_reading_if_memory_falls_before_reclaim(tmp_path: Path) -> None:
    early = [[0.0, 60 * MIB], [10.0, 30 * MIB], [5000.0, 0]]
    given = [*rows(), *(kill("paper", 5, 60, rss_curve=early) for _ in range(3))]
    result = study([write(tmp_path / "k", given, given)], tmp_path, seed=1)
    assert ruled(result)["last"] == "needs a reading"


def test_unseen_kills_count_as_losses(tmp_path: Path) -> None:
    unseen = {**kill("paper", 13, 60), "kill": None}
    folder = write(tmp_path / "k", [*rows(), unseen], lost=3)
    result = study([folder], tmp_path, seed=1)
    assert [loss["count"] for loss in result["losses"]["kills-1.json.gz"]] == [3, 1]


def test_a_folder_without_kills_is_refused(tmp_path: Path) -> None:
    row = kill("paper", 13, 60)
    del row["kill"]["unmap_us"]
    for name, given, message in (
        ("cut", [row], "no field 'unmap_us'"),
        ("empty", [], "no kill was seen"),
        ("odd", [kill("paper", 13, 60, total_us="x")], "could not convert"),
    ):
        with pytest.raises(UnreadableInput, match=message):
            read_kill_measurement(write(tmp_path / name, given))
    with pytest.raises(UnreadableInput, match="No such file"):
        read_kill_measurement(tmp_path / "none.json.gz")
    with pytest.raises(UnreadableInput, match="no kills-\\*"):
        read_kill_measurement(tmp_path)
    folder = write(tmp_path / "two", rows(), rows())
    with pytest.raises(UsageError, match="takes one measurement"):
        study([folder, folder], tmp_path, seed=1)
    whole = (folder / "kills-1.json.gz").read_bytes()
    for name, content, message in (
        ("plain", b"{}", "Not a gzipped file"),
        ("short", whole[:200], "end-of-stream"),
        ("broken", whole[:100] + bytes(100) + whole[200:], "not a file of `make kills`"),
    ):
        (tmp_path / f"{name}.json.gz").write_bytes(content)
        with pytest.raises(UnreadableInput, match=message):
            read_kill_measurement(tmp_path / f"{name}.json.gz")


def test_repeats_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "same", rows(), rows(), started="2026-11-27T20:00:00+00:00")
    with pytest.raises(UsageError, match="are the same repeat"):
        read_kill_measurement(folder)
    folder = write(tmp_path / "one", rows())
    other = write(tmp_path / "other", rows(), kernel="6.12", started="2026-11-28T20:00:00+00:00")
    (other / "kills-1.json.gz").rename(folder / "kills-2.json.gz")
    with pytest.raises(UsageError, match="of different machines"):
        read_kill_measurement(folder)


def test_the_command_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "k", rows(), rows())
    output = tmp_path / "out"
    assert cli.run(["study", "kill-anatomy", str(folder), "-o", str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["study"] == "kill-anatomy"
    page = report([output / "kill-anatomy.json"], tmp_path / "kills.html")
    assert "kills" in page["panels"]
