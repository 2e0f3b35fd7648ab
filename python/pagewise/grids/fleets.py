"""How the figures of a grid's cells are spread over the traces of folders and patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pagewise.fleet import Fleet, Unreadable, of_rows
from pagewise.fleet_figures import SHARE_OF_PAGES
from pagewise.grids.cells import Cell
from pagewise.grids.policies import Replacement
from pagewise.grids.requests import CellResult, Request
from pagewise.grids.results import row_of
from pagewise.grids.simulations import Simulation
from pagewise.policies import written
from pagewise.units import format_size


def fleet_of(
    cells: Sequence[Cell], outcomes: Mapping[str, CellResult], unreadable: Sequence[Unreadable]
) -> Fleet | None:
    """The figures of each trace of a folder or a pattern, and their spread; None without any.

    Traces of which no cell has an outcome count as unreadable, with the error of the first.
    """
    many = [cell for cell in cells if cell.trace.is_of_many]
    if not many and not unreadable:
        return None
    labels = labelled(list(dict.fromkeys(cell.request for cell in many)))
    figures: dict[str, dict[str, float]] = {}
    errors: dict[str, str] = {}
    for cell in many:
        trace = cell.trace.address or cell.trace.name
        result = outcomes[cell.key]
        figures.setdefault(trace, {}).update(figures_of(cell, result, labels[cell.request]))
        if result.error is not None:
            errors.setdefault(trace, result.error)
    rows = [(trace, found) for trace, found in figures.items() if found]
    failed: list[Unreadable] = [
        {"trace": trace, "error": errors.get(trace, "has no accesses")}
        for trace, found in figures.items()
        if not found
    ]
    return of_rows("sweep", rows, [*unreadable, *failed])


def labelled(requests: Sequence[Request]) -> dict[Request, str]:
    """What figures call each request: a simulation without the devices and the profile that all
    simulations share."""
    simulations = [each for each in requests if isinstance(each, Simulation)]
    devices = {(each.fast, each.slow) for each in simulations}
    profiles = {each.profile for each in simulations}
    labels: dict[Request, str] = {}
    for each in requests:
        if isinstance(each, Simulation):
            words = [written(each.architecture, dict(each.options))]
            words += [f"profile {each.profile}"] if len(profiles) > 1 and each.profile else []
            words += [f"fast tier {format_size(each.fast_tier_bytes)}"]
            words += [f"{each.fast} and {each.slow}"] if len(devices) > 1 else []
            labels[each] = ", ".join(words)
        elif isinstance(each, Replacement):
            share = each.size.share
            size = each.size.frames if share is None else f"{SHARE_OF_PAGES}{float(share) * 100:g}"
            labels[each] = f"{each.text}.{size}"
    return labels


def figures_of(cell: Cell, result: CellResult, label: str) -> dict[str, float]:
    """The figures of a cell; none of a cell without an outcome or of a trace without accesses."""
    row = row_of(cell, result)
    found = (
        (f"miss_ratio.{label}", row["miss_ratio"]),
        (f"io_time_s.{label}", row["io_time_s"]),
        (f"slow_writes.{label}", row["slow_writes"]),
    )
    return {name: value for name, value in found if value is not None}
