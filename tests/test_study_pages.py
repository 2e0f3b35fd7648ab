"""The pages of docs/studies that tools/studies.py makes: all there, as their studies write them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import studies  # noqa: E402

PAGES = {page.name: page for page in studies.pages()}
TOOL = [sys.executable, ROOT / "tools" / "studies.py"]


def test_every_page_that_a_study_wrote_is_in_the_catalog() -> None:
    written = {
        path.stem for path in studies.PAGES.glob("*.md") if studies.MADE_BY in path.read_text()
    }
    assert written == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_note_and_says_how_its_data_are_made(name: str) -> None:
    page = PAGES[name]
    text = page.path.read_text()
    shipped = ("examples/", "docs/studies/runs/")
    ships = all(word.startswith(shipped) for word in page.study.split() if "/" in word)
    assert bool(page.data) == (not ships)
    assert page.note or ships
    if page.note:
        assert f"## Run it again\n\n{page.note.strip()}\n{studies.MADE_BY}" in text
    else:
        assert f"## Run it again\n{studies.MADE_BY}" in text


@pytest.mark.parametrize(
    "name",
    [
        "predict",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("lazy-unmap", "kill-anatomy")),
    ],
)
def test_a_page_whose_data_ship_is_what_its_study_writes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = PAGES[name].path.read_text()
    monkeypatch.setattr(studies, "PAGES", tmp_path)
    monkeypatch.setattr(studies, "RESULTS", tmp_path / "results")
    PAGES[name].make()
    assert (tmp_path / f"{name}.md").read_text() == before


def test_a_page_without_its_data_names_the_command_that_makes_them() -> None:
    page = studies.StudyPage("absent", "thrash build/no-such-runs/*-?", "make them")
    with pytest.raises(studies.NoDataError, match=re.escape("build/no-such-runs/*-?")):
        page.make()


def test_a_failing_study_leaves_the_page_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "PAGES", tmp_path)
    monkeypatch.setattr(studies, "RESULTS", tmp_path / "results")
    (tmp_path / "odd.md").write_text("as it was\n")
    with pytest.raises(subprocess.CalledProcessError):
        studies.StudyPage("odd", "thrash examples/allocations").make()
    assert (tmp_path / "odd.md").read_text() == "as it was\n"


def test_an_unknown_page_is_refused_by_name() -> None:
    done = subprocess.run([*TOOL, "--page", "trash"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "no page trash; --list shows them" in done.stderr


def test_a_document_in_the_prose_of_a_page_is_a_link() -> None:
    written = "docs/papers.md (docs/studies/matrix.md), `docs/papers.md` and [a](docs/a.md)"
    assert studies.with_links(written) == (
        "[papers.md](../papers.md) ([matrix.md](matrix.md)), `docs/papers.md` and [a](docs/a.md)"
    )
