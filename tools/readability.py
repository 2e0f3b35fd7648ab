"""Prints the Automated Readability Index of each page of the documentation, the hardest first.

A hint for authors, never a gate: the index is the American school grade for which sentences and
words of this length are written (Senter and Smith 1967). Only prose counts: paragraphs and list
items, with a code span as one word, and no numbers. Tables and code blocks are left out.

    python tools/readability.py            # the ten hardest pages
    python tools/readability.py --all
"""

import re
import sys
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
SHOWN = 10
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
    """Prints a line for each page."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    graded = [(grade(prose(page)), page.relative_to(ROOT)) for page in pages]
    known = sorted(((found, page) for found, page in graded if found is not None), reverse=True)
    for found, page in known if "--all" in sys.argv else known[:SHOWN]:
        print(f"readability grade {found:4.1f}  {page}")


if __name__ == "__main__":
    main()
