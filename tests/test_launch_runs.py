"""Run folders are read completely, or refused with the reason and the file."""

from pathlib import Path

import pytest
from commands import ran
from run_folders import rounds, write_run, write_table

from pagewise import _core
from pagewise.errors import UnreadableInput
from pagewise.launch_runs import read_run, read_runs, unchecked_tables

EXAMPLES = Path(__file__).parents[1] / "examples"
SEAL_BYTES = 24
"""Checksums of a file of one piece."""


def test_a_run_has_the_fields_of_its_plan_and_visits(tmp_path: Path) -> None:
    visits = rounds(2, 3.0, 1.0, bytes_in=6, bytes_out=4, swap_in_bytes=1, swap_out_bytes=2)
    visits[3]["launch_s"] = None
    run = read_run(write_run(tmp_path / "kill-1g", visits, mode="kill", threshold=0.35))
    assert (run.name, run.mode, run.threshold, run.schedule) == (
        "kill-1g", "kill", 0.35, "round-robin",
    )  # fmt: skip
    assert (run.budget_bytes, run.applications) == (650 * 2**20, ("app0", "app1"))
    assert (run.launches(1, 1), run.launches(2), run.rounds()) == ([3.0, 3.0], [1.0], [1, 2])
    assert (run.io_bytes_per_visit(), run.io_bytes_per_visit(3)) == (10, None)
    assert {visit.swap_bytes for visit in run.visits} == {3}
    assert (run.unfinished, run.owners(), run.recording_path("swap")) == (None, None, None)


def test_a_run_that_ended_early_has_the_reason(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "cut", rounds(1, 1.0), unfinished="interrupted"))
    assert run.unfinished == "interrupted"


def test_a_run_made_before_a_column_was_added_is_read(tmp_path: Path) -> None:
    visits = rounds(1, 1.0, oom_kills=3)
    new, old = (
        read_run(write_run(tmp_path / name, visits, without=without))
        for name, without in (("new", []), ("old", ["oom_kills"]))
    )
    assert (new.oom_kills, old.oom_kills) == (3 * len(visits), 0)


def test_two_runs_with_one_name_get_different_names(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / day / "run", rounds(1, 1.0)) for day in ("1", "2")]
    assert [run.name for run in read_runs(folders, allow_invalid=False)] == ["run", "run (2)"]


def broken(folder: Path, how: str) -> None:
    about, visits = folder / "run.toml", folder / "visits.parquet"
    match how:
        case "no run.toml":
            about.unlink()
        case "not TOML":
            about.write_text("[plan")
        case "no plan":
            about.write_text('plan = "small"\n[run]\n')
        case "no mode":
            about.write_text(about.read_text().replace("mode =", "modus ="))
        case "no budget of a size":
            about.write_text(about.read_text().replace("650MiB", "650 lots"))
        case "no visits.parquet":
            visits.unlink()
        case "half a table":
            visits.write_bytes(visits.read_bytes()[:100])
        case "no column":
            write_table(visits, {"round": ("integer", [0])})
        case "another type":
            write_table(visits, {"round": ("text", ["first"])})


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("no run.toml", "run.toml: No such file"),
        ("not TOML", "not TOML"),
        ("no plan", "not the description of a run"),
        ("no mode", "no field 'mode'"),
        ("no budget of a size", "not a size"),
        ("no visits.parquet", "visits.parquet: No such file"),
        ("half a table", "visits.parquet"),
        ("no column", "no column app"),
        ("another type", "a value of another type in the column round"),
    ],
)
def test_a_broken_run_is_refused_with_the_reason(tmp_path: Path, how: str, message: str) -> None:
    folder = write_run(tmp_path / "run", rounds(1, 1.0))
    broken(folder, how)
    with pytest.raises(UnreadableInput, match=message) as refusal:
        read_run(folder)
    assert "pagewise-agent launch" in str(refusal.value.hint)


def test_a_cut_table_of_kills_is_named_and_not_run_toml(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rounds(1, 1.0), kills=[{"back_s": 0.01}])
    kills = folder / "kills.parquet"
    kills.write_bytes(kills.read_bytes()[:100])
    with pytest.raises(UnreadableInput, match=r"kills\.parquet") as refusal:
        read_run(folder)
    assert "run.toml" not in str(refusal.value)


@pytest.mark.parametrize("launch_s", [-0.5, 1e308])
def test_an_impossible_launch_time_is_refused(tmp_path: Path, launch_s: float) -> None:
    with pytest.raises(UnreadableInput, match="in the column launch_s"):
        read_run(write_run(tmp_path / "run", rounds(1, launch_s)))


def test_a_run_without_a_visit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="has no visit"):
        read_run(write_run(tmp_path / "run", []))


def unseal(path: Path) -> None:
    """Removes the checksums of a small table, as if another program had written it."""
    content = path.read_bytes()
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[: end - SEAL_BYTES] + content[end:])


def test_every_table_of_the_examples_has_checksums(tmp_path: Path) -> None:
    tables = sorted(EXAMPLES.rglob("*.parquet"))
    assert len(tables) >= 17
    for path in tables:
        assert unchecked_tables(path.parent) == [], path
        content, copy = bytearray(path.read_bytes()), tmp_path / path.name
        for place in range(0, len(content), len(content) // 20):
            content[place] ^= 1 << place % 8
            copy.write_bytes(content)
            with pytest.raises(UnreadableInput):
                _core.read_table(str(copy))
            content[place] ^= 1 << place % 8


def test_a_run_whose_table_has_no_checksums_is_read_with_a_note(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(tmp_path / "run", rounds(1, 1.0))
    advise = ["advise", "swap", trace, "--fast", "4/5us", "--slow", "90/40us"]
    for is_sealed in (True, False):
        _, _, diagnostics = ran(*advise, "--reference", folder, capsys=capsys)
        note = f"note: {folder / 'visits.parquet'} has no checksums"
        assert (note in diagnostics) != is_sealed, diagnostics
        assert unchecked_tables(folder) == [folder / "visits.parquet"] * (not is_sealed)
        if is_sealed:
            unseal(folder / "visits.parquet")
    assert len(read_run(folder).visits) > 0
