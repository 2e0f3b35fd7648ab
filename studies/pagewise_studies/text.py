"""A study's result as Markdown, for docs/studies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pagewise.comparisons import Scalar, StudyResult, StudyTable, StudyVerdict
from pagewise.study_rows import label, ruling, support, table_rows
from pagewise.units import counted, format_count
from pagewise_studies.verdict import FAILS, HOLDS, NEEDS, SEEN, UNMEASURED


def sensitivity_rows(result: StudyResult) -> tuple[list[str], list[list[str]]]:
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
        result["about"],
        "",
        "## Verdicts",
        "",
        _summary(result["verdicts"]),
        "",
        *_validity(result),
        "S0 to S4 are the papers of docs/papers.md; ACC-S0-1 is a check of a claim of S0.",
        "docs/studies/how-studies-count.md says how each study counts. A paper leaves choices",
        "open, such as latencies or the killer. One value for each choice is a *reading*, and each",
        "claim is checked under every reading. `holds`: under all of them. `does not hold`: under",
        "none. `needs ...`: under every reading with these choices, which are the fewest that",
        "suffice. `not measurable`: the data cannot tell; the reason says what would. *Ours* is",
        "the span of our figure over the readings; *readings* counts those under which the claim",
        "holds.",
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
    return [part for line in lines for part in (line, "")]


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
    names = ["check", "claim", "verdict", "ours", "paper", "readings"]
    rows = [
        [
            label(verdict),
            str(verdict["statement"]),
            ruling(verdict),
            str(verdict["ours"]),
            str(verdict["paper"]),
            support(verdict),
        ]
        for verdict in verdicts
    ]
    if len({verdict["data"] for verdict in verdicts}) > 1:
        names.append("on")
        rows = [[*row, str(verdict["data"])] for row, verdict in zip(rows, verdicts, strict=True)]
    return names, rows


def _reasons(verdicts: Sequence[StudyVerdict]) -> list[str]:
    """The lines of each reason: its checks, the reason, and what the runs show."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for verdict in verdicts:
        labels = reasons.setdefault(str(verdict["why"]), {})
        labels.setdefault(label(verdict), []).append(str(verdict["data"]))
    several = Counter(label for labels in reasons.values() for label in labels)
    lines = []
    for why, labels in reasons.items():
        named = [
            f"{label} ({', '.join(data)})" if several[label] > 1 else label
            for label, data in labels.items()
        ]
        reason, _, seen = why.partition(SEEN)
        lines.append(f"- **{', '.join(named)}**: {reason}.{' Seen here:' if seen else ''}")
        lines += [f"  - {part}" for part in seen.split("; ") if part]
    return lines


def _sensitivity(result: StudyResult) -> list[str]:
    return [
        "",
        "## Sensitivity to the choices that the paper leaves open",
        "",
        "Each row changes one option and leaves all others at their defaults. Figures are relative",
        "changes, as means over fast tiers of 64, 128, 256 and 512 MiB; *largest* is the I/O time",
        "at the size where it changes most. A page takes 90 us to read from flash and 40 us to",
        "write, 4 and 5 us on the fast tier.",
        "",
        *_table(*sensitivity_rows(result)),
    ]


def _section(table: StudyTable) -> list[str]:
    heading = ["", f"## {table['title']}", "", table["note"], ""]
    return [*heading, *_table(*table_rows(table))]


def _span(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(names), "|" + "---|" * len(names), *map(line, rows)]
