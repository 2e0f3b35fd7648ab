"""`pagewise pagesize verify --guest`: measure every page size of a guest on a program."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pagewise.commands.captured import captured
from pagewise.errors import UsageError
from pagewise.references import is_references
from pagewise.terminal import Part, facts, figures, say, watched
from pagewise.units import format_count, format_percent, format_size, parse_size

if TYPE_CHECKING:
    from pagewise.measurements import GuestTrial


def tried_in_guests(
    command: Sequence[str],
    trace: Path | None,
    memory: str,
    page_sizes: str | None,
    kernels: Sequence[Path],
    rounds: int,
) -> GuestTrial:
    """Captures the program if there is no trace of it, runs it in guests, and shows progress."""
    from pagewise.advice.page_size.advise import memory_of
    from pagewise.guests.forecast import faults_by_size
    from pagewise.guests.verify import prepared, verify
    from pagewise.huge_pages.forecast import transparent_sizes
    from pagewise.models.page_size_curves import footprint_bytes
    from pagewise.reference_curves import curves

    if trace is not None and not is_references(trace):
        raise UsageError(
            f"--trace {trace} is not a trace of memory references",
            hint="make one with: pagewise capture -o FILE.pwf -- COMMAND",
        )
    memory_of(memory, 0)  # refuses what is no size before minutes of capture
    sizes = [parse_size(size) for size in page_sizes.split(",")] if page_sizes else []
    setup = prepared(command, sizes, kernels)
    # All threads in turn, as on the guest's only processor.
    with (
        captured(command, threads=True) if trace is None else nullcontext(str(trace)) as path,
        watched("counting") as progress,
    ):
        counts = curves(path, progress=progress)
        memory_bytes = memory_of(memory, footprint_bytes(counts))
        huge_pages = [size for size in setup.page_sizes if size in transparent_sizes()]
        forecasts = faults_by_size(path, huge_pages, memory_bytes, progress=progress)
    say("note: guests are emulated, so each run takes much longer than the program itself")
    with watched("running", counted="guests") as progress:
        return verify(
            setup, command, counts, memory_bytes, forecasts, rounds=rounds, progress=progress
        )


def described(result: GuestTrial) -> list[Part]:
    """The guest, and the figures of each page size."""
    rows = []
    for run in result["sizes"]:
        faults = run["faults"]
        off = faults["forecast"] / faults["measured"] - 1
        rows.append(
            [
                format_size(run["page_bytes"]),
                format_count(faults["forecast"]),
                format_count(faults["measured"]),
                f"{'+' if off > 0 else ''}{format_percent(off)}",
                format_count(run["huge_pages"]),
                format_count(run["tlb_misses"]["first"]),
                format_count(run["tlb_misses"]["second"]),
                format_size(run["bytes_read"]),
                f"{run['instructions'] / 1e6:,.1f} M",
            ]
        )
    memory, footprint = (format_size(result[name]) for name in ("memory_bytes", "footprint_bytes"))
    columns = (
        *("page size", "faults forecast", "measured", "off by", "huge pages"),
        *("TLB misses, first", "second", "read", "instructions"),
    )
    return [
        facts(
            [
                ("guest", f"{result['architecture']}, Linux {', '.join(result['kernels'])}"),
                ("memory", f"{memory} of {footprint} that the program uses in 4 KiB pages"),
            ]
        ),
        "",
        figures(columns, rows),
        *(f"note: {note}" for note in result["notes"]),
    ]
