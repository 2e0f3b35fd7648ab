"""Prints the Automated Readability Index of each page of the documentation, the hardest first.

A hint for authors, never a gate: the index is the American school grade for which sentences and
words of this length are written (Senter and Smith 1967). Only prose counts: paragraphs and list
items, with a code span as one word, and no numbers. Tables and code blocks are left out.

    python tools/readability.py
"""

import re
import textwrap
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
WORDS_MIN = 100
"""Pages with fewer words of prose have no grade: a few sentences decide it."""


def prose(page: Path) -> list[str]:
    """The paragraphs and list items of a page, without markup."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text())
    texts, in_table = [], False
    for token in tokens:
        in_table = {"table_open": True, "table_close": False}.get(token.type, in_table)
        if token.type == "inline" and not in_table:
            texts.append("".join(map(spoken, token.children or [])))
    return texts


def spoken(token: Token) -> str:
    """What a reader reads of a piece of a paragraph."""
    if token.type == "code_inline":
        return "code"
    return " " if token.type in ("softbreak", "hardbreak") else token.content


def grade(texts: list[str]) -> float | None:
    """The index of some paragraphs; none where there are too few words."""
    words = re.findall(r"[A-Za-z][\w'-]*", " ".join(texts))
    sentences = sum(max(1, len(re.findall(r"[.!?](?:\s|$)", text))) for text in texts)
    if len(words) < WORDS_MIN:
        return None
    letters = sum(len(word) for word in words)
    return 4.71 * letters / len(words) + 0.5 * len(words) / sentences - 21.43


def main() -> None:
    """Prints the pages of each grade."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    graded = [(grade(prose(page)), shortened(page)) for page in pages]
    print("Readability, hardest first; a grade is a year of school:")
    by_grade = sorted(((round(found), page) for found, page in graded if found is not None))
    for found in sorted({found for found, _ in by_grade}, reverse=True):
        names = ", ".join(page for at, page in by_grade if at == found)
        print(
            textwrap.fill(
                f"{found:2}  {names}", 120, subsequent_indent="    ", break_on_hyphens=False
            )
        )


def shortened(page: Path) -> str:
    """The page below docs/ without its ending; decisions by their numbers.

    A README keeps its folder, since there are several.
    """
    inside = page.relative_to(ROOT)
    if inside.parts[0] == "docs" and inside != Path("docs/README.md"):
        inside = inside.relative_to("docs")
    return re.sub(r"(decisions/\d+)-.*", r"\1", inside.with_suffix("").as_posix())


if __name__ == "__main__":
    main()
