"""The study of kills: medians, laws and verdicts from kills with made-up times."""

import json
from pathlib import Path
from typing import Any

import pytest

from pagewise import cli
from pagewise.errors import UnreadableInput, UsageError
from pagewise.report import report
from pagewise_studies.kill_anatomy import study
from pagewise_studies.kill_laws import laws
from pagewise_studies.kill_measurement import read_kill_measurement

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


def write(folder: Path, given: list[dict[str, Any]], **changes: Any) -> Path:
    result = {
        "schema": "pagewise.kill-runs/1",
        "kernel": "6.18",
        "machine": "x86_64, 2 processors",
        "backend": "tracepoints",
        "load": [1.0, 2.0],
        "lost": 0,
        "absent": [],
        "rows": given,
        **changes,
    }
    folder.mkdir()
    (folder / "kills.json").write_text(json.dumps(result))
    return folder


def column(result: dict[str, Any], table: str, name: str) -> list[Any]:
    found = next(each for each in result["tables"] if each["name"] == f"kill-anatomy-{table}")
    return [row[found["columns"].index(name)] for row in found["rows"]]


def test_the_study_finds_the_laws_behind_the_times(tmp_path: Path) -> None:
    found = {
        (law.phase, law.against): law
        for law in laws(read_kill_measurement(write(tmp_path / "k", rows())))
    }
    for of, slope in {
        ("signal", "threads"): 2,
        ("threads", "threads"): 20,
        ("unmap", "resident MiB"): 50,
        ("pagetables", "resident MiB"): 1,
        ("reclaim", "others dying at once"): 300,
    }.items():
        assert found[of].slope == pytest.approx(slope), of
        assert found[of].low == pytest.approx(slope) and found[of].grows
    assert not found["pagetables", "threads"].grows
    assert not found["threads", "others dying at once"].grows


def test_the_study_makes_the_table_of_the_paper_and_its_verdicts(tmp_path: Path) -> None:
    result = study([write(tmp_path / "k", rows())], tmp_path, seed=1)
    # The third kill of each kind has a wait, which changes no median.
    assert column(result, "paper", "total")[2:] == [13 * 22 + 3060, 41 * 22 + 3060]
    assert column(result, "paper", "total to")[2] == 13 * 22 + 3060 + 9000
    assert column(result, "paper", "reclaim share")[0] == pytest.approx(10_785 / 11_103)
    assert column(result, "together", "reclaim") == [3060, 4260, 6060]
    assert column(result, "triggers", "trigger") == ["user", "memcg-oom"]
    assert column(result, "triggers", "signal")[1] is None
    assert column(result, "timeline", "step") == ["signal delivery", "wakes a thread", "unmaps"]
    verdicts = {(row["check"], row["part"]): row for row in result["verdicts"]}
    ruled = {part: row["verdict"] for (_, part), row in verdicts.items()}
    assert ruled == {
        "share": "needs a reading",
        "last": "holds",
        "delivery": "holds",
        "handling": "holds",
        "order": "holds",
        "reclaim": "holds",
    }
    assert verdicts["ACC-S2-3", "share"]["needs"] == {"victim": "13 threads, 60 MiB"}
    assert verdicts["ACC-S2-4", "reclaim"]["ours"] == "1.39x to 1.98x"
    assert study([tmp_path / "k"], tmp_path, seed=1) == result


def test_a_check_needs_a_reading_if_memory_falls_before_reclaim(tmp_path: Path) -> None:
    early = [[0.0, 60 * MIB], [10.0, 30 * MIB], [5000.0, 0]]
    given = [*rows(), *(kill("paper", 5, 60, rss_curve=early) for _ in range(3))]
    result = study([write(tmp_path / "k", given)], tmp_path, seed=1)
    (last,) = (row for row in result["verdicts"] if row["part"] == "last")
    assert last["verdict"] == "needs a reading"


def test_unseen_kills_count_as_losses(tmp_path: Path) -> None:
    unseen = {**kill("paper", 13, 60), "kill": None}
    folder = write(tmp_path / "k", [*rows(), unseen], lost=3)
    result = study([folder], tmp_path, seed=1)
    assert [loss["count"] for loss in result["losses"]["k"]] == [3, 1]


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
        read_kill_measurement(tmp_path / "none.json")
    folder = write(tmp_path / "two", rows())
    with pytest.raises(UsageError, match="takes one measurement"):
        study([folder, folder], tmp_path, seed=1)


def test_the_command_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "k", rows())
    output = tmp_path / "out"
    assert cli.run(["study", "kill-anatomy", str(folder), "-o", str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["study"] == "kill-anatomy"
    page = report([output / "kill-anatomy.json"], tmp_path / "kills.html")
    assert "kills" in page["panels"]
