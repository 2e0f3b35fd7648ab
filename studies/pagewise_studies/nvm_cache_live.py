"""S0 Fig. 5 on running programs: storage I/O by size of an NVM cache served by swapd, and kill.

The checks are those of the study of recordings (`nvm_cache_checks`) on this figure. Swap without
NVM is a run on a swap file, or on swapd with the policy flash if devices are emulated.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path

from pagewise.comparisons import StudyResult
from pagewise.errors import UsageError
from pagewise.grids.traces import TraceSource
from pagewise.launch_runs import LaunchRun, inputs_of
from pagewise.recording import Progress
from pagewise.units import MIB, PAGE_BYTES, format_figure
from pagewise_studies import outcome
from pagewise_studies.figure import Figure, Point, mean_point
from pagewise_studies.live_runs import FEW, RUNS_MIN, emulated, ruled
from pagewise_studies.nvm_cache import SIZES_MIB
from pagewise_studies.nvm_cache_checks import CHECKS
from pagewise_studies.runs import Variant, run
from pagewise_studies.thrash_phones import state
from pagewise_studies.tiers import Live, read_live, served_files, swapped
from pagewise_studies.tiers_shown import config, occupancies, runs_table, waits
from pagewise_studies.verdict import Reading, Verdict

NAME = "nvm-cache-live"
TITLE = "S0 on running programs: sizes of an NVM cache against kill"
NVM, FLASH = "nvm-cache", "flash"
BELOW_MIB, FROM_MIB = 128, 256
"""S0's crossover lies between these sizes."""

BySize = Mapping[float, Sequence[LaunchRun]]
"""Runs with swap by size of the NVM in MiB, ascending."""


def live(
    folders: Sequence[Path],
    output: Path,
    *,
    seed: int,
    progress: Progress | None,
    allow_invalid: bool = False,
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object."""
    runs = read_live(folders, output, progress, allow_invalid=allow_invalid)
    if not runs.of(NVM):
        raise UsageError(
            f"none of these runs has the policy {NVM}",
            hint=f"give runs of a plan with tiers.policy = {NVM!r} (docs/launch-lab.md)",
        )
    found = by_size(runs)
    every = [figure_5(runs, found, output, progress), waits(NAME, runs), *occupancies(NAME, runs)]
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=[figure for figure in every if figure.points],
        verdicts=list(verdicts(runs, found)),
        tables=[runs_table(runs)],
        inputs=inputs_of(runs.runs) | served_files(runs),
        runs=runs.runs,
        arguments=f"--live {shlex.join(run.name for run in runs.runs)}",
        called="nvm-cache",
        seeds=[],
        seeded="",
        losses={run.name: run.losses(output) for run in runs.recorded},
    )


def by_size(runs: Live) -> dict[float, list[LaunchRun]]:
    """The runs with swap by size of the NVM in MiB, without NVM at size 0."""
    found: dict[float, list[LaunchRun]] = {}
    without = [tier.run for tier in runs.of(FLASH)]
    if not without and not emulated(runs.tiers[0].run):
        without = list(runs.files)
    if without:
        found[0.0] = without
    for tier in sorted(runs.of(NVM), key=lambda tier: tier.fast_bytes):
        found.setdefault(tier.fast_bytes / MIB, []).append(tier.run)
    return found


def storage_bytes(run: LaunchRun) -> int:
    """Storage I/O of a run, without the requests to a swap area that swapd answers."""
    return run.io_bytes - (run.swap_bytes if run.mode == "tiers" else 0)


def figure_5(runs: Live, found: BySize, output: Path, progress: Progress | None) -> Figure:
    """Fig. 5 of S0: live, simulated on each recorded run on a swap file, and with swap off."""
    points = [
        mean_point(size, "swap on + NVM, live", [storage_bytes(run) / MIB for run in on])
        for size, on in found.items()
    ]
    for recorded in runs.recorded:
        points += _simulated(runs, recorded, output, progress)
    for off in runs.kills:
        points += [
            Point(size, f"swap off, {state(off)} ({off.name})", storage_bytes(off) / MIB)
            for size in (0, max(SIZES_MIB))
        ]
    return Figure(
        f"{NAME}-fig5",
        "S0 Fig. 5, live: storage I/O by size of the NVM cache",
        "NVM, MiB",
        "storage I/O of the whole run, MiB",
        tuple(points),
        config(runs),
    )


def _simulated(
    runs: Live, recorded: LaunchRun, output: Path, progress: Progress | None
) -> Iterator[Point]:
    """The I/O of a recorded run, less the swap I/O that an NVM of each size would absorb."""
    trace = swapped(recorded, output, progress)
    source = TraceSource(Path(trace.path).name, trace.path)
    variant, without = Variant.of(NVM, **runs.of(NVM)[0].options), Variant.of(FLASH)
    cells = run([source], [variant, without], SIZES_MIB, output / f"{NAME}-runs.parquet", progress)
    base = cells.counts(source, without, 0).slow_accesses
    for size in SIZES_MIB:
        absorbed = base - cells.counts(source, variant, size).slow_accesses
        left = recorded.io_bytes - absorbed * PAGE_BYTES
        yield Point(size, f"swap on + NVM, simulated ({recorded.name})", left / MIB)


def verdicts(runs: Live, found: BySize) -> Iterator[Verdict]:
    """The verdicts on ACC-S0-6; the first run of each size is a reading, and so is the second."""
    count = min(map(len, found.values()))
    curves = [
        {size: storage_bytes(of_size[number]) for size, of_size in found.items()}
        for number in range(count)
    ]
    idle = [tier.run.name for tier in runs.of(NVM) if not tier.counts.fast_reads]
    lacking = (
        f"the NVM of {idle[0]} served no read, so its size has no effect"
        if idle
        else FEW
        if count < RUNS_MIN
        else ""
    )
    sizes = ", ".join(format_figure(size) for size in found)
    rises = [
        Reading((("repeat", str(number)),), rise <= 0.001, rise)
        for number, curve in enumerate(curves, 1)
        if len(curve) > 1
        for rise in [max(after / max(1, before) - 1 for before, after in pairwise(curve.values()))]
    ]
    on = [run.name for of_size in found.values() for run in of_size]
    yield ruled(
        CHECKS["falling"],
        ", ".join(on),
        rises,
        lacking if rises else f"needs two sizes of the NVM or more; these have {sizes} MiB",
    )
    ratios = [
        Reading(choices, above and below, at)
        for (number, curve), off in product(enumerate(curves, 1), runs.kills)
        for ratio in [{size: io / max(1, storage_bytes(off)) for size, io in curve.items()}]
        for above in [all(of > 1 for size, of in ratio.items() if size < BELOW_MIB)]
        for below in [all(of <= 1 for size, of in ratio.items() if size >= FROM_MIB)]
        for at in [next((of for size, of in ratio.items() if size >= FROM_MIB), None)]
        for choices in [(("repeat", str(number)), ("swap off", f"{state(off)} ({off.name})"))]
    ]
    spared = [off.name for off in runs.kills if not off.kills]
    if not runs.kills:
        lacking = 'needs runs of the same plan with mode = "kill"'
    elif spared:
        lacking = f"the killer of {spared[0]} ended no application, so swap had nothing to save"
    elif not (any(0 < size < BELOW_MIB for size in found) and max(found) >= FROM_MIB):
        lacking = (
            f"needs an NVM below {BELOW_MIB} MiB and another of {FROM_MIB} MiB or more; these have "
            f"{sizes} MiB"
        )
    elif len(runs.kills) < RUNS_MIN:
        lacking = lacking or FEW
    data = ", ".join([*on, *(off.name for off in runs.kills)])
    yield ruled(CHECKS["crossing"], data, ratios, lacking)
