"""The page-size study on programs whose answers are known."""

import csv
import json
import sys
from pathlib import Path

import pytest
from hand_curves import HandCurve, HandCurves, dense, scattered

from pagewise import cli
from pagewise.errors import UsageError
from pagewise.models.page_size_time import PAPER
from pagewise.study_rows import ruling, support
from pagewise_studies import page_size
from pagewise_studies import page_size_coverage as coverage
from pagewise_studies.page_size_cells import Cell, Program, best_of, kept, machine_of
from pagewise_studies.page_size_checks import CHECKS
from pagewise_studies.page_size_vms import VMS, chosen
from pagewise_studies.text import markdown

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from studies import with_links  # noqa: E402

LONG = {"game": 21.5, "office": 27.4, "photo": 64.3, "pdf": 10.3, "multimedia": 56.8}
"""MiB of the footprints in docs/studies/page-size-2g.md."""
MIB = 2**20
SIZES = tuple(512 << step for step in range(13))


def program(name: str, curves: HandCurves) -> Program:
    return Program(name, curves, {"alike": curves, "unlike": curves})


def cliff() -> HandCurves:
    """A program that visits 4000 pieces of 2 KiB in a round. Half of its 16 MiB holds them all in
    pages of 2 KiB, but not in larger pages."""
    return HandCurves(
        {
            size: HandCurve(16 * MIB // size, {4000: 80_000 * 2048 // min(size, 2048)})
            for size in SIZES
        },
        steps=4 * 10**6,
    )


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> tuple[dict, object]:
    output = tmp_path_factory.mktemp("study")
    shapes = (dense(4096), scattered(8192), cliff(), dense(4096), dense(8192))
    programs = [program(*pair) for pair in zip(page_size.PROGRAMS, shapes, strict=True)]
    return page_size.assembled(programs, output, {}, output), output


@pytest.mark.slow
def test_the_page_equals_the_result_on_the_traces_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(ROOT)
    study = page_size.study(Path("examples"), tmp_path, seeds=1, progress=None)
    page = (ROOT / "docs" / "studies" / "page-size.md").read_text()
    # The last sections are fits, whose last digit depends on the version of SciPy.
    exact = "\n## Models against counts\n"
    assert with_links(markdown(study)).split(exact)[0] == page.split(exact)[0]
    assert set(study["inputs"]) == {f"{name}.pwf" for name in page_size.PROGRAMS}
    assert (tmp_path / "page-size.json").is_file()
    # Each program has a single input, so no choice can carry over to another input.
    assert "carry-over" not in {each["name"] for each in study["tables"]}
    footprints = {row["program"]: row["footprint"] for row in table(study, "programs")}
    assert footprints["photo"] == "9.9 MiB"
    exact = [row for row in table(study, "fits") if row["model"] == "exact"]
    assert all(row["right"] == row["cells"] > 0 for row in exact)


def test_a_folder_without_traces_says_how_to_make_them(tmp_path: Path):
    with pytest.raises(UsageError, match=r"game\.pwf") as refused:
        page_size.study(tmp_path, tmp_path, seeds=1, progress=None)
    assert "make traces" in str(refused.value.hint)


def test_a_study_that_fails_leaves_no_new_folder(tmp_path: Path):
    for output in (tmp_path / "new" / "study", tmp_path / "there"):
        (tmp_path / "there").mkdir(exist_ok=True)
        asked = ["study", "page-size", "--recordings", str(tmp_path), "-o", str(output)]
        assert cli.run(asked) == 2
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]


def table(result: dict, name: str) -> list[dict]:
    found = next(each for each in result["tables"] if each["name"] == name)
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


@pytest.mark.slow
def test_every_check_has_a_verdict_and_every_figure_a_file(result):
    study, output = result
    names = {verdict["check"] for verdict in study["verdicts"]}
    assert names == {f"ACC-S4-{number}" for number in range(1, 8)}
    assert all(verdict["readings"] >= 5 for verdict in study["verdicts"])
    stored = json.loads((output / "page-size.json").read_text())
    assert stored["tables"] == json.loads(json.dumps(study["tables"]))
    for figure in study["figures"]:
        rows = list(csv.DictReader((output / f"{figure['name']}.csv").open()))
        assert len(rows) == len(figure["rows"]) > 0


def long_enough() -> dict[str, Program]:
    return {name: program(name, dense(int(mib * MIB / 4096))) for name, mib in LONG.items()}


def test_long_traces_lack_nothing():
    assert coverage.NEEDS.keys() == CHECKS.keys()
    assert coverage.lacking(long_enough()) == {}


def test_a_check_names_what_its_traces_do_not_cover():
    # 500 pages are fewer than a second TLB holds; 10 % of them are 6 frames of 32 KiB.
    lacks = coverage.lacking({**long_enough(), "office": program("office", dense(500))})
    assert "saturation" not in lacks and lacks["hdd_flat"] == (
        "these traces are too short: 64 frames of 32 KiB need a larger footprint of office "
        "(5 MiB, has 2.0 MiB); a second-level TLB of 1,536 entries holds every page of office"
    )
    assert "office (20 MiB, has 2.0 MiB)" in lacks["scarce"]
    assert "TLB" not in lacks["model"]
    # Checks that do not need the short trace stay judged.
    photo = coverage.lacking({**long_enough(), "photo": program("photo", dense(1700))})
    assert photo.keys() == {"monotone", "model", "fit_trust"}


@pytest.mark.slow
def test_unmeasured_figures_show_those_of_the_long_run(tmp_path: Path):
    small = [program(name, dense(500)) for name in page_size.PROGRAMS]
    study = page_size.assembled(small, tmp_path, {}, tmp_path)
    judged = {row["part"]: row for row in study["verdicts"]}
    assert judged["scarce"]["verdict"] == "not measurable"
    assert judged["saturation"]["readings"] == 5
    for row, verdict in zip(table(study, "beside-2g"), study["verdicts"], strict=True):
        assert (row["verdict here"], row["readings here"]) == (ruling(verdict), support(verdict))
        assert row["2 G references"] and row["verdict from 2 G"] != "not measurable"


def test_figures_of_the_long_run_equal_those_of_its_page():
    text = (ROOT / "docs" / "studies" / "page-size-2g.md").read_text()
    cells = (line.split(" | ") for line in text.splitlines() if line.startswith("| ACC-S4"))
    page = {row[0].removeprefix("| "): [row[3], row[2], row[5].removesuffix(" |")] for row in cells}
    for row in coverage.long_rows().values():
        assert page.pop(row.pop("check")) == list(row.values())
    assert not page


@pytest.mark.slow
def test_the_table_has_the_twelve_machines_with_the_papers_sizes(result):
    rows = table(result[0], "vms")
    assert [row["VM"] for row in rows] == [vm.name for vm in VMS]
    assert rows[1]["paper"] == "1 KiB (19.0 %)"
    # Larger pages never hurt `dense`, so it takes the largest page that leaves 64 frames.
    assert rows[3]["optane-ssd"].startswith("32 KiB")
    assert rows[3]["targets, optane-ssd"].startswith("64 KiB")


@pytest.mark.slow
def test_exact_counts_choose_right_in_every_cell_and_every_model_is_shown(result):
    rows = table(result[0], "fits")
    exact = [row for row in rows if row["model"] == "exact"]
    assert all(row["right"] == row["cells"] and row["regret mean"] == "0.00 %" for row in exact)
    assert {(row["model"], row["from sizes"]) for row in rows} == {
        ("exact", "all"), ("paper", "all"), ("paper", "4"), ("sampled", "4")
    }  # fmt: skip


@pytest.mark.slow
def test_a_choice_carries_over_to_an_equal_input_without_regret(result):
    for row in table(result[0], "carry-over"):
        if row["margin"] == "0 %":
            assert row["right"] == row["cells"] > 0 and row["regret mean"] == "0.00 %"


def test_a_cliff_decides_the_size():
    machine = machine_of("optane-ssd", PAPER)
    assert best_of(Cell(cliff(), 0.5, machine), SIZES) == 2048
    assert best_of(Cell(cliff(), 0.9, machine), SIZES) == 2048
    assert chosen(Cell(cliff(), 0.5, machine), (2048, 4096)).startswith("2 KiB (75.7 %;")


def test_a_size_that_gains_little_is_not_taken():
    assert kept({1024: 98.0, 4096: 100.0}) == 4096
    assert kept({1024: 96.0, 4096: 100.0}) == 1024
