"""A study's result as text: Markdown for docs/studies, and the rows the terminal shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pagewise.units import format_count, format_figure, format_share


def ruling(verdict: Mapping[str, Any]) -> str:
    """The verdict in words: ``holds``, or ``needs entry_bit=1, flash_copy_on_promotion=keep``."""
    if not verdict.get("needs"):
        return str(verdict["verdict"])
    return "needs " + ", ".join(f"{name}={value}" for name, value in verdict["needs"].items())


def support(verdict: Mapping[str, Any]) -> str:
    """Under how many readings it holds."""
    return f"{verdict['holding']} of {verdict['readings']}" if verdict["readings"] else ""


def verdict_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of the verdict table."""
    names = ["check", "on", "statement", "paper", "ours", "verdict", "readings", "why"]
    rows = [
        [
            f"{verdict['check']} {verdict['part']}".strip(),
            *(str(verdict[name]) for name in ("data", "statement", "paper", "ours")),
            ruling(verdict),
            support(verdict),
            str(verdict["why"]),
        ]
        for verdict in result["verdicts"]
    ]
    return names, rows


def sensitivity_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of the sensitivity table; changes against all defaults."""
    names = [
        "on",
        "architecture",
        "choice",
        "instead of",
        "I/O time",
        "largest",
        "flash accesses",
        "fast writes",
    ]
    rows = [
        [
            row["workload"],
            row["architecture"],
            f"{row['option']}={row['value']}",
            row["default"],
            *(
                f"{row[name] * 100:+.1f} %"
                for name in (
                    "io_time_mean",
                    "io_time_largest",
                    "slow_accesses_mean",
                    "fast_writes_mean",
                )
            ),
        ]
        for row in result["sensitivity"]
    ]
    return names, rows


def table_rows(table: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
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


def markdown(result: Mapping[str, Any]) -> str:
    """The page of docs/studies: what was run, the verdicts, the tables."""
    lines = [
        f"# {result['title']}",
        "",
        f"Made by `{result['command']}` (pagewise {result['pagewise']}) on:",
        "",
        *(f"- `{name}` sha256 `{sha256}`" for name, sha256 in result["inputs"].items()),
        *([f"- {result['seeded']}, seeds {_span(result['seeds'])}"] if result["seeds"] else []),
        *(
            f"- `{name}` lost {loss['count']:,} records: {loss['what']}"
            for name, losses in result["losses"].items()
            for loss in losses
        ),
        "",
        "## Verdicts",
        "",
        "A check is judged under every reading of what the paper leaves unsaid. `holds`: under all",
        "of them; `does not hold`: under none; `needs ...`: the fewest choices that are enough.",
        "*ours* is the range over the readings, *readings* how many of them agree with the paper.",
        "",
        *_table(*verdict_rows(result)),
        *(line for table in result["tables"] for line in _section(table)),
        *(_sensitivity(result) if result["sensitivity"] else []),
    ]
    return "\n".join(lines) + "\n"


def _sensitivity(result: Mapping[str, Any]) -> list[str]:
    return [
        "",
        "## Sensitivity to the choices that the paper leaves open",
        "",
        "One option changed at a time against all defaults, flash 90/40 us, fast tier 4/5 us, mean",
        "over fast tiers of 64, 128, 256 and 512 MiB; *largest* is the I/O time where it differs",
        "most.",
        "",
        *_table(*sensitivity_rows(result)),
    ]


def _section(table: Mapping[str, Any]) -> list[str]:
    heading = ["", f"## {table['title']}", "", table["note"], ""]
    return [*heading, *_table(*table_rows(table))]


def _percentage(cell: float | None) -> str:
    """A share of a table, nothing where nothing was measured."""
    return "" if cell is None else format_share(cell)


def _figure(cell: str | int | float | None) -> str:
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


def _span(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(names), "|" + "---|" * len(names), *map(line, rows)]
