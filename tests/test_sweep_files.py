"""Grids over files that change or vanish while the grid runs, and over files of any name."""

import hashlib
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import ran
from scenarios import rounds, write_steps

import pagewise
from pagewise import _core
from pagewise.grids import results
from pagewise.grids.run import sweep

KINDS = ("csv", "parquet")
"""A recording of which `sweep` makes a numbered copy, and a trace file, which has page numbers."""
REQUESTS = {
    "sizes": ["0", "64KiB"],
    "device": [{"fast": "4/5us", "slow": "90/40us"}],
    "architecture": [{"name": "flash"}],
    "policy": [{"name": "lru", "sizes": [4]}],
}
CELLS = 3
CHANGED = "changed while the sweep ran; run the sweep again"


def recording(path: Path, pages: int) -> Path:
    """A recording in the format of the path's ending; replaces an earlier one."""
    csv = write_steps(path.with_suffix(".csv"), list(rounds(pages, 3)), float)
    if path != csv:
        pagewise.import_trace(csv, path, force=True)
        csv.unlink()
    return path


def grid(*traces: Path) -> dict[str, object]:
    return {**REQUESTS, "traces": [str(trace) for trace in traces]}


def after(
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    happening: Callable[[], object],
    calls: int = 1,
) -> None:
    """Calls `happening` when a function has returned for the `calls`-th time."""
    function, returned = getattr(owner, name), itertools.count(1)

    def replaced(*arguments: object, **named: object) -> object:
        result = function(*arguments, **named)
        if next(returned) == calls:
            happening()
        return result

    monkeypatch.setattr(owner, name, replaced)


def table_of(folder: Path, *traces: Path) -> bytes:
    """The table of an undisturbed sweep over these traces."""
    output = folder / "undisturbed.parquet"
    assert sweep(grid(*traces), output)["failed"] == []
    return output.read_bytes()


def require_changed(trace: Path, output: Path) -> None:
    """Requires that every cell of a trace failed because the trace changed, and that the next
    sweep runs these cells."""
    rows = results.read(str(output))
    assert [row["error"] for row in rows] == [f"{trace}: {CHANGED}"] * CELLS
    assert [row["outcome"] for row in rows] == [None] * CELLS
    again = sweep(grid(trace), output)
    assert (again["kept"], again["computed"]) == (0, CELLS)
    assert output.read_bytes() == table_of(output.parent, trace)


@pytest.mark.parametrize(
    ("owner", "after_this", "kind"),
    [
        (hashlib, "file_digest", "csv"),
        (hashlib, "file_digest", "parquet"),
        (_core, "number_trace", "csv"),
        (_core, "simulate_many", "parquet"),
    ],
)
def test_a_file_that_changes_while_the_sweep_runs_has_no_outcome(
    owner: object, after_this: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, output = recording(tmp_path / f"one.{kind}", 8), tmp_path / "results.parquet"
    with monkeypatch.context() as patches:
        after(patches, owner, after_this, lambda: recording(trace, 12))
        jobs = 1 if after_this == "simulate_many" else 2
        report = sweep(grid(trace), output, jobs=jobs)
    assert (report["computed"], len(report["failed"])) == (0, CELLS)
    require_changed(trace, output)


def test_a_change_after_the_pages_were_numbered_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, output = recording(tmp_path / "one.csv", 8), tmp_path / "results.parquet"
    undisturbed = table_of(tmp_path, trace)
    after(monkeypatch, _core, "simulate_many", trace.unlink)
    assert sweep(grid(trace), output)["failed"] == []
    assert output.read_bytes() == undisturbed


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_another_time_and_the_same_content_does_not_fail(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, output = recording(tmp_path / f"one.{kind}", 8), tmp_path / "results.parquet"
    after(monkeypatch, hashlib, "file_digest", lambda: os.utime(trace, (1, 1)))
    assert sweep(grid(trace), output)["failed"] == []


@pytest.mark.parametrize("during", ["number_trace", "simulate_many"])
def test_a_file_that_vanishes_fails_only_its_own_cells(
    during: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, other = recording(tmp_path / "a.parquet", 8), recording(tmp_path / "b.parquet", 12)
    output = tmp_path / "results.parquet"
    after(monkeypatch, _core, during, gone.unlink)
    report = sweep(grid(gone, other), output, jobs=1)
    assert (report["computed"], len(report["failed"])) == (CELLS, CELLS)
    assert {failure["trace"] for failure in report["failed"]} == {gone.name}
    (error,) = {failure["error"] for failure in report["failed"]}
    assert error == (
        f"{gone}: cannot be read any more: No such file or directory; "
        "restore it and run the sweep again"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("during", ["file_digest", "number_trace", "simulate_many"])
@pytest.mark.parametrize("what", ["vanishes", "changes"])
def test_cells_are_computed_from_another_file_with_the_same_content(
    kind: str, name: str, during: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = [recording(tmp_path / f"{each}.{kind}", 8) for each in "ab"]
    twins[1].write_bytes(twins[0].read_bytes())
    undisturbed = table_of(tmp_path, *twins)
    (lost,) = (each for each in twins if each.stem == name)
    happening = lost.unlink if what == "vanishes" else lambda: recording(lost, 12)
    output = tmp_path / "results.parquet"
    calls = len(twins) if during == "file_digest" else 1
    after(monkeypatch, hashlib if during == "file_digest" else _core, during, happening, calls)
    report = sweep(grid(*twins), output, jobs=1)
    assert report["failed"] == []
    assert output.read_bytes() == undisturbed


STRANGE = os.fsdecode(b"a \xff.parquet")


def test_a_file_whose_name_is_not_utf_8_has_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    recording(fleet / "b.parquet", 12)
    recording(fleet / STRANGE, 8)
    spec, output = tmp_path / "grid.toml", tmp_path / "results.parquet"
    spec.write_text('traces = ["fleet"]\n[[policy]]\nname = "lru"\nsizes = [4]\n')
    status, shown, diagnostics = ran("sweep", spec, "-o", output, capsys=capsys)
    assert (status, diagnostics) == (0, "")
    shown.encode("utf-8")
    assert [row["trace"] for row in results.read(str(output))] == ["a \\udcff.parquet", "b.parquet"]
    assert not Path(f"{output}.journal").exists()
    again = ran("sweep", spec, "-o", output, "--json", capsys=capsys)
    assert again[0] == 0
    report = json.loads(again[1])
    assert (report["kept"], report["computed"]) == (2, 0)
    assert str(fleet / STRANGE) in [each["trace"] for each in report["fleet"]["recordings"]]


def test_a_folder_whose_name_is_not_utf_8_may_have_cells_that_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / os.fsdecode(b"\xfe")
    folder.mkdir()
    trace = recording(folder / "one.parquet", 8)
    spec, output = folder / "grid.toml", folder / "results.parquet"
    spec.write_text('traces = ["one.parquet"]\n[[policy]]\nname = "lru"\nsizes = [4]\n')
    after(monkeypatch, hashlib, "file_digest", lambda: recording(trace, 12))
    status, _, diagnostics = ran("sweep", spec, "-o", output, capsys=capsys)
    assert status == 1 and CHANGED in diagnostics
    (row,) = results.read(str(output))
    assert row["error"] == f"{tmp_path}/\\udcfe/one.parquet: {CHANGED}"
