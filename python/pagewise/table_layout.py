"""Lays tables out at the width of a terminal.

A figure is never broken across lines. Words wrap at blanks. Columns that do not fit stand in a
further table below, which repeats the first column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len, chop_cells

GAP = 2
WORDS_LEAST = 20
"""The least width of a column of words that wraps, unless it is narrower without wrapping."""


@dataclass(frozen=True)
class Column:
    """The heading, which may have several lines, and the cells: words, or figures aligned right."""

    heading: str
    cells: Sequence[str]
    is_words: bool

    @property
    def natural(self) -> int:
        """The width at which nothing wraps."""
        return max(map(cell_len, [*self.heading.split("\n"), *self.cells]))

    def least(self, room: int) -> int:
        """The least width: figures are never broken, but headings and words wrap at blanks.

        Only a word that is longer than ``room`` is broken.
        """
        longest = max(map(cell_len, self.heading.split()), default=0)
        if not self.is_words:
            return max([longest, *map(cell_len, self.cells)])
        words = (cell_len(word) for cell in self.cells for word in cell.split())
        return min(self.natural, max([WORDS_LEAST, longest, *words]), room)


Placed = Sequence[tuple[Column, int]]
"""Columns beside each other, with their widths."""


def layout(columns: Sequence[Column], width: int) -> Iterator[Placed]:
    """The columns of each table. The first column begins every table."""
    first, *others = columns
    if total(natural := [column.natural for column in columns]) <= width:
        yield list(zip(columns, natural, strict=True))
        return
    widest = max((column.least(WORDS_LEAST) for column in others), default=-GAP)
    names = min(first.natural, max(width - GAP - widest, WORDS_LEAST // 2))
    least = [column.least(max(width - GAP - names, 1)) for column in others]
    start = 0
    while start < max(len(others), 1):
        end = fitting(least, start, width - names)
        spare = width - total([names, *least[start:end]])
        placed = [(first, names)]
        for column, size in zip(others[start:end], least[start:end], strict=True):
            more = max(min(column.natural - size, spare), 0)
            spare -= more
            placed.append((column, size + more))
        yield placed
        start = end


def total(widths: Sequence[int]) -> int:
    """The width of columns beside each other."""
    return sum(widths) + GAP * (len(widths) - 1)


def fitting(widths: Sequence[int], start: int, room: int) -> int:
    """The end of the columns from ``start`` on that fit beside the first, at least one column."""
    end = start + 1
    while end < len(widths) and sum(GAP + width for width in widths[start : end + 1]) <= room:
        end += 1
    return end


def lines(placed: Placed) -> Iterator[tuple[str, bool]]:
    """The lines of a table, and whether they belong to its headings."""
    for line in beside([(column.heading, size) for column, size in placed], placed, at_bottom=True):
        yield line, True
    for row in zip(*(column.cells for column, _ in placed), strict=True):
        sized = [(text, size) for text, (_, size) in zip(row, placed, strict=True)]
        for line in beside(sized, placed, at_bottom=False):
            yield line, False


def beside(texts: Sequence[tuple[str, int]], placed: Placed, *, at_bottom: bool) -> Iterator[str]:
    """The lines of texts beside each other, each wrapped at its width."""
    stacks = [wrapped(text, size) for text, size in texts]
    if at_bottom:
        height = max(map(len, stacks))
        stacks = [[""] * (height - len(stack)) + stack for stack in stacks]
    for parts in zip_longest(*stacks, fillvalue=""):
        padded = (
            part + blanks if column.is_words else blanks + part
            for part, (column, size) in zip(parts, placed, strict=True)
            for blanks in [" " * (size - cell_len(part))]
        )
        yield (" " * GAP).join(padded).rstrip(" ")


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, which end at blanks unless a word is too long."""
    found = []
    for line in text.split("\n"):
        if cell_len(line) <= width:
            found.append(line)
            continue
        parts = [""]
        for word in line.split():
            if parts[-1] and cell_len(f"{parts[-1]} {word}") <= width:
                parts[-1] += f" {word}"
            else:
                parts += chop_cells(word, width)
        found += parts[1:]
    return found
