"""How this page was made, and how to make it again."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pagewise import _core
from pagewise.report.inputs import Inputs
from pagewise.report.model import Column, Panel, Table, TableCell

if TYPE_CHECKING:
    from pagewise.fleet import Fleet

FACTS = (Column("what", "what"), Column("value", "value"))
COUNTED = "Counts of accesses and misses are exact, over all recorded accesses."
REPLAYED = (
    "Counts are exact replays of the recordings. I/O times are counts multiplied by the devices' "
    "typical time for one page, without queueing."
)
PAGE_SIZES = (
    "Times per reference are computed from recorded references and the assumed storage; no "
    "program ran with these page sizes."
)
MEASURED = "Figures of allocators were measured on the machine that their section names."
KILL_REPLAYS = "Kill policies decided on recorded memory and stalls; they killed no process."
KILLS = "Times of kills were traced while processes died."
STUDIES = {
    "multiswap": REPLAYED,
    "nvm-cache": f"{REPLAYED} Visits are those of measured runs.",
    "page-size": PAGE_SIZES,
    "lazy-unmap": "Faults are counted in replays of recorded allocations; times are a model.",
    "predict": "Predictions are counted on recorded visits.",
    "launch-simulated": "Launch times are simulated.",
    **{
        name: f"Figures of the study {name} are from measured runs."
        for name in ("thrash", "launch", "kill-anatomy", "relaunch")
    },
}
"""How the figures of a study were made; a study that is not here makes no statement."""
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
    """How the figures of these results were computed or measured, each way once."""
    found = {
        REPLAYED: inputs.cells or inputs.advice,
        COUNTED: inputs.analyses or inputs.misses or counted_fleets(inputs),
        PAGE_SIZES: inputs.page_sizes,
        MEASURED: inputs.lazy_benches,
        KILL_REPLAYS: inputs.kill_replays,
        KILLS: inputs.kills,
    }
    ways = [way for way, results in found.items() if results]
    for name in dict.fromkeys(study["study"] for study in inputs.studies):
        if name in STUDIES:
            ways.append(STUDIES[name])
    return " ".join(dict.fromkeys(ways))


def counted_fleets(inputs: Inputs) -> list[Fleet]:
    """The results of folders whose figures are counts of accesses, not estimates of a sample."""
    return [each for each in inputs.fleets if "sample.pages" not in each["figures"]]


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
    found |= set(seeds_of_policies(inputs))
    return ", ".join(sorted(found, key=lambda seed: (len(seed), seed))) or "none used"


def seeds_of_policies(inputs: Inputs) -> Iterator[str]:
    """The seeds of eviction policies that draw random numbers, given or by default."""
    defaults = {
        row["name"]: option["default"]
        for row in _core.policies()
        for option in row["options"]
        if option["name"] == "seed"
    }
    for result in inputs.misses:
        for policy in result["misses"]:
            name, _, written = policy.partition(":")
            given = dict(part.partition("=")[::2] for part in written.split(","))
            if name in defaults:
                yield given.get("seed", defaults[name])
