"""How this page was made, and how to make it again."""

from __future__ import annotations

import platform

from pagewise import _core
from pagewise.report.inputs import Inputs
from pagewise.report.model import Column, Panel, Table, TableCell

FACTS = (Column("what", "what"), Column("value", "value"))
REPLAYED = (
    "Counts are exact replays of the recordings. Times are counts multiplied by the devices' "
    "typical time for one page, without queueing."
)
MEASURED = "Figures of allocators were measured on the machine that their section names."
HASHES = (Column("name", "input"), Column("what", "what"), Column("sha256", "sha256"))


def panel(inputs: Inputs) -> Panel | None:
    """Tables of versions, seeds, the command line, and the sha256 of every input."""
    facts: list[list[TableCell]] = [
        ["pagewise", _core.version()],
        ["Python", platform.python_version()],
        ["machine", f"{platform.system()} {platform.machine()}"],
        ["command line", inputs.command or "called from Python"],
        ["seeds", seeds(inputs)],
    ]
    sources = [[source.name, source.what, source.sha256] for source in inputs.sources]
    sources += [
        [f"{name}: {file}", "source of the recording", digest]
        for name, header in inputs.headers.items()
        for digest, file in header["sources"]
    ]
    return Panel(
        "method",
        "Method",
        how(inputs),
        tables=[
            Table("method-facts", "How this page was made", FACTS, facts, is_open=True),
            Table("inputs", "Inputs and their sha256", HASHES, sources, is_open=True),
        ],
    )


def how(inputs: Inputs) -> str:
    """How the figures were computed or measured."""
    is_replayed = any(source.what != "bench-lazy" for source in inputs.sources)
    return " ".join([REPLAYED] * is_replayed + [MEASURED] * bool(inputs.lazy_benches))


def seeds(inputs: Inputs) -> str:
    """The seeds in the results."""
    found = {str(cell["seed"]) for cell in inputs.cells if cell.get("seed") is not None}
    found |= {
        str(row[figure["columns"].index("seed")])
        for study in inputs.studies
        for figure in study["figures"]
        for row in figure["rows"]
        if "seed" in figure["columns"] and row[figure["columns"].index("seed")] != ""
    }
    return ", ".join(sorted(found)) or "none used"
