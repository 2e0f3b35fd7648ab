"""A study's result as rows of text, for the terminal, the report and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.units import format_count, format_figure, format_share

if TYPE_CHECKING:
    from pagewise.comparisons import Scalar, StudyResult, StudyTable, StudyVerdict


def ruling(verdict: StudyVerdict) -> str:
    """The verdict in words: ``holds``, or ``needs entry_bit=1, flash_copy_on_promotion=keep``."""
    if not verdict.get("needs"):
        return str(verdict["verdict"])
    return "needs " + ", ".join(f"{name}={value}" for name, value in verdict["needs"].items())


def support(verdict: StudyVerdict) -> str:
    """Under how many readings it holds."""
    return f"{verdict['holding']} of {verdict['readings']}" if verdict["readings"] else ""


def verdict_rows(result: StudyResult) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of the verdict table."""
    names = ["check", "on", "statement", "paper", "ours", "verdict", "readings", "why"]
    rows = [
        [
            label(verdict),
            str(verdict["data"]),
            str(verdict["statement"]),
            str(verdict["paper"]),
            str(verdict["ours"]),
            ruling(verdict),
            support(verdict),
            str(verdict["why"]),
        ]
        for verdict in result["verdicts"]
    ]
    return names, rows


def label(verdict: StudyVerdict) -> str:
    """The name of a check, with its part where it has several."""
    return f"{verdict['check']} {verdict['part']}".strip()


def table_rows(table: StudyTable) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of one of the study's own tables."""
    columns, shares = list(table["columns"]), table["shares"]
    rows = [
        [
            _percentage(cell) if name in shares else _figure(cell)
            for name, cell in zip(columns, row, strict=True)
        ]
        for row in table["rows"]
    ]
    return columns, rows


def _percentage(cell: Scalar) -> str:
    """A share of a table, nothing where nothing was measured."""
    return format_share(cell) if isinstance(cell, (int, float)) else cell or ""


def _figure(cell: Scalar) -> str:
    """A cell of a table: three digits at least, nothing where nothing was measured."""
    match cell:
        case None:
            return ""
        case float():
            return format_figure(cell)
        case int():
            return format_count(cell)
        case _:
            return cell
