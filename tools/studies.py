#!/usr/bin/env python3
"""Makes the pages of docs/studies again, from studies/pages.toml.

    .venv/bin/python tools/studies.py [--page NAME]...     default: every page
    .venv/bin/python tools/studies.py --list               the pages and their data

A page whose data are absent stays as it is, and the last lines say which command makes them.
Results are kept in build/study-pages/NAME, so an interrupted series resumes. Status 1: a study
failed, and its page stays as it is.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CATALOG = ROOT / "studies" / "pages.toml"
PAGES = ROOT / "docs" / "studies"
RESULTS = ROOT / "build" / "study-pages"
PAGEWISE = Path(sys.executable).parent / "pagewise"
MADE_BY = "\nMade by `pagewise study "
"""Begins the list of the files that a page was made from."""

DOCUMENT = re.compile(r"(?<![\w/`\[])(?<!\]\()docs/((?:[\w-]+/)*[\w-]+\.md)")
"""The name of a document in the prose of a page."""


class NoDataError(Exception):
    """A file or folder that a study needs is absent."""


@dataclass(frozen=True)
class StudyPage:
    """A page; studies/pages.toml says what each field means."""

    name: str
    study: str
    data: str = ""
    note: str = ""

    @property
    def path(self) -> Path:
        """The file of the page."""
        return PAGES / f"{self.name}.md"

    def arguments(self) -> list[str]:
        """The words of ``study``, each pattern replaced by the files that it matches, in order.
        Raises NoDataError if a file is absent, or a pattern matches nothing."""
        words: list[str] = []
        for word in self.study.split():
            if "/" not in word:
                words.append(word)
                continue
            found = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word))
            if not found:
                raise NoDataError(word)
            words += found
        return words

    def text(self, written: str) -> str:
        """What the study has written, with links, and with the note above the list of files."""
        note, linked = self.note.strip(), with_links(written)
        return linked.replace(MADE_BY, f"\n{note}\n{MADE_BY}", 1) if note else linked

    def make(self) -> None:
        """Runs the study and replaces the page. Raises NoDataError, or CalledProcessError if the
        study fails."""
        results = RESULTS / self.name
        command = [PAGEWISE, "study", *self.arguments(), "-o", results]
        subprocess.run(list(map(str, command)), cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        (written,) = results.glob("*.md")
        self.path.write_text(self.text(written.read_text()))


def with_links(written: str) -> str:
    """The text with links in place of names such as ``docs/papers.md``. Studies write names, since
    their results may lie in any folder."""

    def link(name: re.Match[str]) -> str:
        path = Path(name[1])
        target = path.name if path.parent == Path("studies") else f"../{path}"
        return f"[{path.name}]({target})"

    return DOCUMENT.sub(link, written)


def pages() -> list[StudyPage]:
    """The pages of studies/pages.toml. Raises TypeError for an unknown field."""
    return [StudyPage(**page) for page in tomllib.loads(CATALOG.read_text())["page"]]


def table(found: Sequence[StudyPage]) -> str:
    """A line for each page: its name, and the command that makes its data."""
    width = max(len(page.name) for page in found)
    return "\n".join(f"{page.name:<{width}}  {page.data or 'ships'}" for page in found)


def main() -> int:
    """Lists the pages, or makes those asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--page", action="append", metavar="NAME", help="make this page")
    parser.add_argument("--list", action="store_true", help="list the pages and their data")
    arguments = parser.parse_args()
    every = pages()
    if unknown := sorted(set(arguments.page or ()) - {page.name for page in every}):
        parser.error(f"no page {', '.join(unknown)}; --list shows them")
    chosen = [page for page in every if not arguments.page or page.name in arguments.page]
    if arguments.list:
        print(table(chosen))
        return 0
    absent: list[str] = []
    failed: list[str] = []
    for number, page in enumerate(chosen, 1):
        print(f"{number}/{len(chosen)} {page.path.relative_to(ROOT)}", flush=True)
        try:
            page.make()
        except NoDataError as what:
            absent.append(f"{page.name}: not made, since there is no {what}: {page.data}")
        except subprocess.CalledProcessError as error:
            failed.append(f"{page.name}: not made: status {error.returncode} of the study")
    for line in absent + failed:
        print(line)
    return int(bool(failed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
