"""The cuts of launch runs in examples/s0-swap: valid, without names of users, and as good as the
whole recordings. The pages of the studies agree with them."""

import re
from pathlib import Path
from statistics import fmean

import pytest

import pagewise as pw
from pagewise.grids.key import file_digest
from pagewise.launch_runs import inputs_of, read_run
from pagewise_studies.evictions import ALL, evictions_of
from pagewise_studies.repeats import repeats_of
from pagewise_studies.verdict import show

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = sorted((ROOT / "examples" / "s0-swap").glob("*-?"))
STUDIES = ROOT / "docs" / "studies"
PLAN = "swap on (s0-swap-swap-file-40)"
BYTES_MAX = 40_000_000


def test_what_ships_stays_below_40_megabytes() -> None:
    shipped = (path for path in (ROOT / "examples").rglob("*") if path.is_file())
    assert sum(path.stat().st_size for path in shipped) <= BYTES_MAX


def test_the_cuts_are_valid_repeats_of_one_plan() -> None:
    (plan,) = repeats_of([read_run(folder) for folder in FOLDERS])
    assert len(plan.each) == 3
    for run in plan.each:
        assert run.invalid_because == ()
        assert [len(run.during(number, number)) for number in run.rounds()] == [9] * 10
        assert run.owners()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_cut_says_what_it_lacks_and_names_no_user(folder: Path) -> None:
    header = pw.read(folder / "recording.pgr").header
    assert header["recorder"]["sources"] == ["swap", "faults", "files"]
    assert "device traffic" in header["recorder"]["absent"][-1]["what"]
    paths = [file["path"] for file in header["files"]]
    paths += [area["path"] for area in header["recorder"]["system"]["areas"]]
    common = re.compile(r"/(home/[0-9a-f]{8}/[^/]*|(bin|dev|etc|lib|lib64|opt|sbin|usr|var)/.*)")
    assert paths and all(common.fullmatch(path) for path in paths if path)
    assert {file["class"] for file in header["files"]} >= {"shared_library", "own_file"}


def test_the_page_of_nvm_cache_was_made_from_the_runs_that_ship() -> None:
    page = (STUDIES / "nvm-cache.md").read_text()
    files = inputs_of([read_run(folder) for folder in FOLDERS])
    for label, path in files.items():
        assert f"- `{label}`, sha256 `{file_digest(path)}`" in page, label


@pytest.mark.long
def test_the_page_has_the_evictions_of_the_runs_that_ship() -> None:
    found = [evictions_of(folder / "recording.pgr")[ALL] for folder in FOLDERS]
    row = re.search(
        rf"^\| {re.escape(PLAN)} \| 3 \| all \|(.*)\|$",
        (STUDIES / "nvm-cache.md").read_text(),
        re.MULTILINE,
    )
    assert row
    cells = [cell.strip() for cell in row[1].split("|")]
    again = [each.again for each in found]
    figures = (
        fmean(each.once for each in found),
        fmean(again),
        min(again),
        max(again),
        fmean(each.served for each in found),
    )
    assert cells[0] == f"{round(fmean(each.pages for each in found)):,}"
    assert cells[2:] == [show(figure, "share") for figure in figures]
