"""Whether the traces of the page-size study are long enough for each check.

A trace of a program's start has few pages. Its memories then have fewer than 64 frames of the
larger page sizes, which is too few for exact counts, and a second TLB holds every page.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from pagewise.models.page_size_curves import Curves, footprint_bytes
from pagewise.models.page_size_time import HARDWARE
from pagewise.reference_curves import EXACT_FROM
from pagewise.study_rows import ruling, support
from pagewise.units import PAGE_BYTES, format_count, format_share, format_size
from pagewise_studies.page_size_cells import PAPER_BYTES, Program
from pagewise_studies.page_size_vms import AMPLE, PAIRS, VMS
from pagewise_studies.table import Row, Table
from pagewise_studies.verdict import Verdict

LARGEST_BYTES = PAPER_BYTES[-1]
"""The size that must leave `EXACT_FROM` frames in memories for which sizes are chosen."""
SWEPT_SHARE = 0.2
"""The least memory of a sweep that needs all sizes. Sweeps start at 10 %, which may lack sizes."""

Memory = tuple[str, float]
"""A program and its memory, as a share of its footprint."""


@dataclass(frozen=True)
class Need:
    """What a check needs from the traces.

    ``memories``: the memories in which `LARGEST_BYTES` must leave enough frames.
    ``has_second_tlb``: the readings include a second TLB, so the programs must have more pages than
    it has entries.
    """

    memories: tuple[Memory, ...]
    has_second_tlb: bool = True


ALL = tuple((vm.program, vm.share) for vm in VMS)
NVM = tuple((vm.program, vm.share) for vm in VMS if not vm.is_hdd)
HDD = tuple((vm.program, vm.share) for vm in VMS if vm.is_hdd)
SCARCE = tuple((vm.program, vm.share) for vm in VMS if vm.is_scarce)
PAIRED = tuple((name, share) for name, *shares in PAIRS for share in shares)
SWEPT = tuple((name, SWEPT_SHARE) for name in dict.fromkeys(vm.program for vm in VMS))
NEEDS = {
    **dict.fromkeys(("u_shape", "all_gain", "mean_gain", "largest"), Need(NVM)),
    **dict.fromkeys(("hdd_flat", "hdd_none"), Need(HDD)),
    **dict.fromkeys(("translation", "span"), Need(ALL)),
    "pairs": Need(PAIRED),
    "monotone": Need(SWEPT),
    **dict.fromkeys(("model", "fit_trust"), Need(SWEPT, has_second_tlb=False)),
    **dict.fromkeys(("scarce", "scarce_class"), Need(SCARCE)),
    "ample_class": Need(tuple((vm.program, vm.share) for vm in VMS if vm.name in AMPLE)),
    "saturation": Need((), has_second_tlb=False),
}
"""The need of each check."""


def lacking(programs: Mapping[str, Program]) -> dict[str, str]:
    """The reason for each check for which the traces are too short."""
    found = {name: _lacking(need, programs) for name, need in NEEDS.items()}
    return {name: f"these traces are too short: {why}" for name, why in found.items() if why}


def _lacking(need: Need, programs: Mapping[str, Program]) -> str:
    wanted: dict[str, int] = {}
    for name, share in need.memories:
        if _frames(programs[name].curves, share) < EXACT_FROM:
            wanted[name] = max(wanted.get(name, 0), _footprint_for(share))
    reasons = []
    if wanted:
        listed = ", ".join(
            f"{name} ({format_size(bytes_)}, has {_footprint(programs[name])})"
            for name, bytes_ in wanted.items()
        )
        size = format_size(LARGEST_BYTES)
        reasons.append(f"{EXACT_FROM} frames of {size} need a larger footprint of {listed}")
    held = [name for name, _ in need.memories if not _exceeds_tlb(programs[name].curves)]
    if held and need.has_second_tlb:
        reasons.append(
            f"a second-level TLB of {format_count(HARDWARE.second_tlb_entries)} entries holds "
            f"every page of {', '.join(dict.fromkeys(held))}"
        )
    return "; ".join(reasons)


def _footprint(program: Program) -> str:
    return format_size(footprint_bytes(program.curves))


def _frames(curves: Curves, share: float, page_bytes: int = LARGEST_BYTES) -> int:
    return round(share * footprint_bytes(curves)) // page_bytes


def _footprint_for(share: float) -> int:
    return math.ceil(EXACT_FROM * LARGEST_BYTES / share)


def _exceeds_tlb(curves: Curves) -> bool:
    return curves.sizes[PAGE_BYTES].pages > HARDWARE.second_tlb_entries


def table(programs: Sequence[Program]) -> Table:
    """The table of what the checks need from each trace, and what the trace has."""
    rows: list[Row] = []
    for program in programs:
        curves, shares = program.curves, [vm.share for vm in VMS if vm.program == program.name]
        least = min(shares)
        fitting = [size for size in curves.sizes if _frames(curves, least, size) >= EXACT_FROM]
        rows.append(
            {
                "program": program.name,
                "pages of 4 KiB": curves.sizes[PAGE_BYTES].pages,
                "beyond a second TLB": "yes" if _exceeds_tlb(curves) else "no",
                "least memory of its machines": format_share(least),
                "largest page there": format_size(max(fitting)) if fitting else "",
                "footprint for 32 KiB there": format_size(_footprint_for(least)),
                "footprint": _footprint(program),
                "first touches": curves.sizes[PAGE_BYTES].pages / curves.steps,
            }
        )
    return Table(
        "coverage",
        "What the traces can show",
        "A check is judged only if its programs have enough pages and frames. *Beyond a second "
        f"TLB*: more pages than its {format_count(HARDWARE.second_tlb_entries)} entries; otherwise "
        f"it misses only at first touches. *Largest page there*: that leaves {EXACT_FROM} frames "
        "in the least memory; with fewer frames, counts are not exact. *First touches*: share of "
        "the references past the filter.",
        rows,
        shares=("first touches",),
    )


LONG_REFERENCES = 1_000_000_000
"""The references from which a trace counts as long."""


def long_rows() -> dict[str, dict[str, str]]:
    """The results of each check on traces of up to 2,000,000,000 references."""
    source = resources.files(__package__).joinpath("checks", "page-size-2g.toml")
    return tomllib.loads(source.read_text("utf-8"))


def beside(
    programs: Sequence[Program], verdicts: Sequence[Verdict], names: Sequence[str]
) -> Iterator[Table]:
    """The table of the verdicts of the checks ``names``, beside the verdicts from long traces; none
    for long traces."""
    if min(program.curves.references for program in programs) >= LONG_REFERENCES:
        return
    long, rows = long_rows(), [verdict.row() for verdict in verdicts]
    yield Table(
        "beside-2g",
        "Beside traces of 2,000,000,000 references",
        "*2 G references*: verdicts from the traces of `make traces`, which are too large to ship "
        "(docs/studies/page-size-2g.md).",
        [
            {
                "check": f"{row['check']} {row['part']}",
                "here": row["ours"],
                "verdict here": ruling(row),
                "readings here": support(row),
                "2 G references": long[name]["ours"],
                "verdict from 2 G": long[name]["verdict"],
                "readings from 2 G": long[name]["readings"],
            }
            for name, row in zip(names, rows, strict=True)
        ],
    )
