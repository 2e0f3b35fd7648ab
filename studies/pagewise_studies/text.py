"""A study's result as Markdown, for docs/studies."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from pagewise.comparisons import Scalar, StudyResult, StudyTable, StudyVerdict
from pagewise.study_rows import label, ruling, support, table_rows
from pagewise.units import counted, format_count
from pagewise_studies.verdict import FAILS, HOLDS, NEEDS, SEEN, UNMEASURED

COLUMNS = 130
"""The longest line of a paragraph."""
LEFT_OUT = re.compile(r"([\d,]+) further readings? left out: ")
"""The count of readings without a verdict, before the reason."""
HOW_TO_READ = (
    "ACC-S0-1 is an acceptance check of S0, one of the five papers of docs/papers.md; other checks "
    "test a target, a model or an earlier measurement of pagewise. A paper leaves choices "
    "open, such as latencies or the killer. One value for each choice is a *reading*, and each "
    "claim is checked under every reading. `holds`: under all of them. `does not hold`: under "
    "none. `needs ...`: under every reading with these choices, which are the fewest that suffice. "
    "`not measurable`: the data cannot tell; the reason says what would. *Ours* is the span of our "
    "figure over the readings; *readings* counts those under which the claim holds. "
    "docs/studies/how-studies-count.md says what each study counts."
)
INTERVAL = re.compile(r" \(\S+ to .*\)$")
"""The 95 % interval after a figure."""
TARGET = " (target)"
"""Ends the figure of a claim that no paper makes, but this project."""


def sensitivity_rows(result: StudyResult) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of the sensitivity table; changes against all defaults."""
    names = [
        "on",
        "architecture",
        "choice",
        "instead of",
        "change of I/O time",
        "largest",
        "change of flash accesses",
        "change of fast writes",
    ]
    rows = [
        [
            str(row["workload"]),
            str(row["architecture"]),
            f"{row['option']}={row['value']}",
            str(row["default"]),
            *(
                f"{_number(row[name]) * 100:+.1f} %"
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


def _number(cell: Scalar) -> float:
    """The number in a cell, which is known to have one."""
    if not isinstance(cell, (int, float)):
        raise TypeError(f"not a number: {cell!r}")
    return cell


def markdown(result: StudyResult) -> str:
    """The page of docs/studies: the claims and their verdicts, the reasons, the tables, and how to
    run the study again."""
    lines = [
        f"# {result['title']}",
        "",
        *_paragraph(result["about"]),
        "",
        "## Verdicts",
        "",
        *_paragraph(_summary(result["verdicts"])),
        "",
        *_validity(result),
        *_paragraph(_how_to_read(result["verdicts"])),
        "",
        *_table(*_claims(result["verdicts"])),
        "",
        "## Reasons",
        "",
        *_reasons(result["verdicts"]),
        *(line for table in result["tables"] for line in _section(table)),
        *(_sensitivity(result) if result["sensitivity"] else []),
        "",
        "## Run it again",
        "",
        f"Made by `{result['command']}` (pagewise {result['pagewise']}) from these files:",
        "",
        *(f"- `{name}`, sha256 `{sha256}`" for name, sha256 in result["inputs"].items()),
        *([f"- seeds {_span(result['seeds'])}: {result['seeded']}"] if result["seeds"] else []),
        *(
            f"- `{name}` lost {counted(format_count(loss['count']), 'record')}: {loss['what']}"
            for name, losses in result["losses"].items()
            for loss in losses
        ),
    ]
    return "\n".join(lines) + "\n"


def _validity(result: StudyResult) -> list[str]:
    """The runs that can carry no verdict, and those that do not say."""
    lines = [
        f"**`{name}` can carry no verdict:** {'; '.join(reasons)}."
        for name, reasons in result.get("invalid_runs", {}).items()
    ]
    if unjudged := result.get("unjudged_runs", []):
        names = ", ".join(f"`{name}`" for name in unjudged)
        lines.append(
            "These runs do not say whether they can carry a verdict, because the lab did not check "
            f"that yet: {names}."
        )
    return [part for line in lines for part in (*_paragraph(line), "")]


def _how_to_read(verdicts: Sequence[StudyVerdict]) -> str:
    """The paragraph that explains the table of verdicts."""
    if any(INTERVAL.search(str(verdict["ours"])) for verdict in verdicts):
        return f"{HOW_TO_READ} In parentheses after a figure: its 95 % interval."
    return HOW_TO_READ


def _summary(verdicts: Sequence[StudyVerdict]) -> str:
    """The number of claims that hold, and the data if all claims have the same data."""
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    words = {
        FAILS: "under none",
        NEEDS: "only with certain choices",
        UNMEASURED: "could not be measured",
    }
    parts = [
        f"{counts[HOLDS]} of {len(verdicts)} checks hold under every reading",
        *(f"{counts[name]} {word}" for name, word in words.items() if counts[name]),
    ]
    data = {verdict["data"] for verdict in verdicts}
    where = f" Data: {data.pop()}." if len(data) == 1 else ""
    return f"{', '.join(parts)}.{where}"


def _claims(verdicts: Sequence[StudyVerdict]) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of the page's table of verdicts, without the reasons."""
    claimed = [str(verdict["paper"]) for verdict in verdicts]
    are_targets = [figure.endswith(TARGET) for figure in claimed]
    source = "paper or target" if any(are_targets) else "paper"
    if any(are_targets) and all(are_targets):
        source, claimed = "target", [figure.removesuffix(TARGET) for figure in claimed]
    names = ["check", "claim", "verdict", "ours", source, "readings"]
    rows = [
        [
            label(verdict),
            str(verdict["statement"]),
            ruling(verdict),
            str(verdict["ours"]),
            figure,
            support(verdict),
        ]
        for verdict, figure in zip(verdicts, claimed, strict=True)
    ]
    if len({verdict["data"] for verdict in verdicts}) > 1:
        names.append("on")
        every = {name for verdict in verdicts for name in _names(verdict)}
        rows = [
            [*row, _on(_names(verdict), every)] for row, verdict in zip(rows, verdicts, strict=True)
        ]
    return names, rows


def _names(verdict: StudyVerdict) -> list[str]:
    return str(verdict["data"]).split(", ")


def _on(names: Sequence[str], every: set[str]) -> str:
    """The data of a verdict; repeats by the first and the last: ``flash-0 to -2``."""
    numbers: dict[str, list[int]] = {}
    for name in names:
        stem, _, number = name.rpartition("-")
        numbers.setdefault(stem if number.isdecimal() else name, []).append(
            int(number) if number.isdecimal() else -1
        )
    if len(numbers) < len(names) and every <= set(names):
        return "all runs"
    words = []
    for stem, found in numbers.items():
        if found == [-1]:
            words.append(stem)
        elif len(found) > 1 and all(b == a + 1 for a, b in itertools.pairwise(found)):
            words.append(f"{stem}-{found[0]} {'to' if len(found) > 2 else 'and'} -{found[-1]}")
        else:
            words += [f"{stem}-{number}" for number in found]
    return ", ".join(words)


def _reasons(verdicts: Sequence[StudyVerdict]) -> list[str]:
    """The lines of each reason: its checks, the reason, and what the runs show; then the readings
    that were left out."""
    reasons: dict[str, dict[str, list[str]]] = {}
    left_out: dict[str, dict[tuple[str, str], list[str]]] = {}
    for verdict in verdicts:
        name = label(verdict)
        why, *parts = LEFT_OUT.split(str(verdict["why"]))
        why = why.removesuffix(". ") if parts else why
        reasons.setdefault(why, {}).setdefault(name, []).append(str(verdict["data"]))
        for count, reason in zip(parts[::2], parts[1::2], strict=True):
            counts = left_out.setdefault(reason.removesuffix("; "), {})
            counts.setdefault((name, count), []).append(str(verdict["data"]))
    several = Counter(name for labels in reasons.values() for name in labels)
    shown: dict[str, str] = {}
    lines = []
    for why, labels in reasons.items():
        on = list(labels.values())
        is_shared = len(on) > 1 and on.count(on[0]) == len(on)
        if is_shared and all(several[name] > 1 for name in labels):
            named = f"{', '.join(labels)} (each on {', '.join(on[0])})"
        else:
            named = ", ".join(
                f"{name} ({', '.join(data)})" if several[name] > 1 else name
                for name, data in labels.items()
            )
        reason, _, seen = why.partition(SEEN)
        first = shown.setdefault(seen, named)
        if seen and first != named:
            lines += _bullet(f"**{named}**: {reason}. Seen here: the same as for {first}.")
            continue
        lines += _bullet(f"**{named}**: {reason}.{' Seen here:' if seen else ''}")
        lines += [f"  - {part}" for part in seen.split("; ") if part]
    return [*lines, *_left_out(left_out)]


def _left_out(reasons: dict[str, dict[tuple[str, str], list[str]]]) -> Iterator[str]:
    """The readings that no verdict counts: by reason, with their number for each check."""
    if not reasons:
        return
    yield from (
        "",
        "Some readings cannot show what a claim is about. The verdicts leave them out:",
        "",
    )
    for why, counts in reasons.items():
        alike: dict[tuple[str, str], list[str]] = {}
        for (name, count), data in counts.items():
            alike.setdefault((count, ", ".join(data)), []).append(name)
        groups = (
            f"{count} {'each ' if len(names) > 1 else ''}of {', '.join(names)} on {data}"
            for (count, data), names in alike.items()
        )
        yield from _bullet(f"{why}. Left out: {'; '.join(groups)}.")


def _bullet(text: str) -> list[str]:
    return _paragraph(text, "- ", "  ")


def _paragraph(text: str, first: str = "", others: str = "") -> list[str]:
    """The lines of a paragraph. Code spans and percentages stay on one line."""
    whole = re.sub(r"`[^`]*`|\d %", lambda span: span[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        whole,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def _sensitivity(result: StudyResult) -> list[str]:
    return [
        "",
        "## Sensitivity to the choices that the paper leaves open",
        "",
        *_paragraph(
            "Each row changes one option and leaves all others at their defaults. The changes are "
            "relative to the default, as means over fast tiers of 64, 128, 256 and 512 MiB; "
            "*largest* is the change of I/O time at the size where it changes most. A page takes "
            "90 us to read from flash and 40 us to write, 4 and 5 us on the fast tier. "
            "docs/architectures.md explains the options."
        ),
        "",
        *_table(*sensitivity_rows(result)),
    ]


def _section(table: StudyTable) -> list[str]:
    heading = ["", f"## {table['title']}", "", *_paragraph(table["note"]), ""]
    return [*heading, *_table(*table_rows(table))]


def _span(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(names), "|" + "---|" * len(names), *map(line, rows)]
