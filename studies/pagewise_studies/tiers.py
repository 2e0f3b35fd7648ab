"""Launch runs on a swap area of two tiers, beside what the simulator gives for the same requests.

`pagewise-agent swapd` leaves its counts (swapd.json), its recording (swapd.pgr) and its moves
(moves.csv) in the folder of a run in mode ``tiers`` (docs/launch-lab.md). *Simulated* counts are of
the requests that this very run made. *Predicted* counts are of a recorded run on a swap file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pagewise import _core
from pagewise.errors import UnreadableInput, UsageError
from pagewise.launch_runs import LaunchRun
from pagewise.questions import simulate, simulate_as_recorded
from pagewise.recording import Progress, Trace, import_trace, read
from pagewise.scratch import scratch
from pagewise.storage import read_text
from pagewise.types import AsRecorded
from pagewise.units import format_size
from pagewise_studies.live_runs import read_comparable
from pagewise_studies.runs import Counts

TIERS, FILE = "tiers", "swap-file"
KILLS = ("kill", "minfree")
"""Modes without swap."""
FREE = {
    *("mode", "tiers", "kill", "minfree", "balloon", "swap_size", "swappiness"),
    *("zram_size", "compressor", "seed"),
}
"""Entries of a plan in which runs may differ whose swap is compared; repeats have other seeds."""
COUNTS, RECORDING, MOVES = "swapd.json", "swapd.pgr", "moves.csv"
AGAIN = "run the plan again with `pagewise-agent launch`, or leave this folder out"
FLAG_ZEROS, FLAG_DIRTY = 128, 1
ENTERS, LEAVES = frozenset({"write_fast", "promote"}), frozenset({"demote", "demote_write", "free"})
"""Moves after which a slot has a frame of the fast tier, and after which it has none."""
TIER = ("fast", "slow")
SAMPLES = 200
"""Points of a curve over time."""


@dataclass(frozen=True)
class Occupancy:
    """Pages in the fast tier, and pages that only the slow tier has, at a time of the run."""

    at_s: float
    fast_pages: int
    slow_pages: int


@dataclass(frozen=True)
class TierRun:
    """A run on two tiers. ``waits_us`` has quantiles of the time of a read by tier.

    What needs the recording of swapd is None or empty without it.
    """

    run: LaunchRun
    policy: str
    options: Mapping[str, str]
    fast_bytes: int
    counts: Counts
    waits_us: Mapping[str, Mapping[str, float]]
    again: AsRecorded | None = None
    simulated: Counts | None = None
    predicted: Mapping[str, Counts] | None = None
    """By the name of the recorded run."""
    occupancy: Sequence[Occupancy] = ()
    variant: str = ""
    """The options in which runs of this policy differ, such as ``promote_at=swapout``."""

    @property
    def kind(self) -> str:
        """The policy and its variant."""
        return f"{self.policy} {self.variant}".rstrip()

    @property
    def label(self) -> str:
        """The policy, its variant and the size of the fast tier."""
        return f"{self.kind}, {format_size(self.fast_bytes)}"

    @property
    def used_pages_max(self) -> int | None:
        """The most pages in the area; None if it was not recorded."""
        return max((each.fast_pages + each.slow_pages for each in self.occupancy), default=None)


@dataclass(frozen=True)
class Live:
    """Runs of one plan: on two tiers, on a swap file, and without swap but with a killer."""

    tiers: Sequence[TierRun]
    files: Sequence[LaunchRun]
    kills: Sequence[LaunchRun]

    @property
    def runs(self) -> list[LaunchRun]:
        """Every run."""
        return [*(tier.run for tier in self.tiers), *self.files, *self.kills]

    def of(self, policy: str) -> list[TierRun]:
        """The runs on two tiers with this policy."""
        return [tier for tier in self.tiers if tier.policy == policy]

    @property
    def recorded(self) -> list[LaunchRun]:
        """The recorded runs on the swap file."""
        return [run for run in self.files if run.recording_path("swap")]


def read_live(
    folders: Sequence[Path], output: Path, progress: Progress | None, *, allow_invalid: bool
) -> Live:
    """The runs in ``folders``, with their simulations."""
    runs = read_comparable(folders, FREE, allow_invalid=allow_invalid)
    modes = (TIERS, FILE, *KILLS)
    by_mode = {mode: [run for run in runs if run.mode == mode] for mode in modes}
    if other := [run for run in runs if run.mode not in by_mode]:
        raise UsageError(
            f"{other[0].folder}: a run in mode {other[0].mode!r} has neither two tiers nor a swap "
            "file nor a killer",
            path=str(other[0].folder),
            hint=f"give runs in the modes {', '.join(by_mode)} (docs/launch-lab.md)",
        )
    emulating = {str(_tiers(run).get("emulate")): run for run in by_mode[TIERS]}
    if len(emulating) > 1:
        first, second, *_ = emulating.values()
        raise UsageError(
            f"{first.folder} and {second.folder} emulate different devices",
            path=str(second.folder),
            hint="give runs with the same tiers.emulate",
        )
    if not by_mode[TIERS]:
        raise UsageError(
            "none of these runs has a swap area of two tiers",
            hint='give runs of a plan with mode = "tiers" (docs/launch-lab.md)',
        )
    traces = {
        run.name: (run.plan.get("seed"), swapped(run, output, progress))
        for run in by_mode[FILE]
        if run.recording_path("swap")
    }
    tiers = []
    for run in by_mode[TIERS]:
        same = {
            name: trace for name, (seed, trace) in traces.items() if seed == run.plan.get("seed")
        }
        tiers.append(tier_run(run, same, output, progress))
    return Live(
        with_variants(tiers), by_mode[FILE], [run for mode in KILLS for run in by_mode[mode]]
    )


def with_variants(tiers: Sequence[TierRun]) -> list[TierRun]:
    """The runs with the options in which those of the same policy differ."""
    common: dict[str, set[tuple[str, str]]] = {}
    for tier in tiers:
        own = set(tier.options.items())
        common[tier.policy] = common.get(tier.policy, own) & own
    return [
        replace(tier, variant=" ".join(sorted(map("=".join, own - common[tier.policy]))))
        for tier in tiers
        for own in [set(tier.options.items())]
    ]


def _tiers(run: LaunchRun) -> Mapping[str, object]:
    """The entry of the plan with the tiers."""
    tiers = run.plan.get("tiers")
    return tiers if isinstance(tiers, dict) else {}


def tier_run(
    run: LaunchRun, traces: Mapping[str, Trace], output: Path, progress: Progress | None
) -> TierRun:
    """A run on two tiers, simulated on its own requests and on ``traces`` of the swap file."""
    found = _served(run)
    recording = run.folder / RECORDING
    if not recording.is_file():
        return found
    again = simulate_as_recorded(recording, progress=progress)
    requests = run.imported(recording, output, progress=progress)

    def counted(trace: Trace) -> Counts:
        times = again["latencies"]
        result = simulate(
            trace,
            architecture=found.policy,
            fast_tier=found.fast_bytes,
            # Policies that weigh the tiers do so by the times of this run.
            fast=f"{times['fast_read_ns']}/{times['fast_write_ns']}ns",
            slow=f"{times['slow_read_ns']}/{times['slow_write_ns']}ns",
            option={**found.options, "ranges": "no"},
            progress=progress,
        )
        fast, slow = result["fast"], result["slow"]
        return Counts(fast["reads"], fast["writes"], slow["reads"], slow["writes"])

    return TierRun(
        run=run,
        policy=found.policy,
        options=found.options,
        fast_bytes=found.fast_bytes,
        counts=found.counts,
        waits_us=found.waits_us,
        again=again,
        simulated=counted(requests),
        predicted={name: counted(trace) for name, trace in traces.items()},
        occupancy=list(_occupancy(run, requests)),
    )


def served_files(live: Live) -> dict[str, Path]:
    """The files of swapd that a study of these runs rests on."""
    return {
        f"{tier.run.name}/{name}": tier.run.folder / name
        for tier in live.tiers
        for name in (COUNTS, RECORDING, MOVES)
        if (tier.run.folder / name).is_file()
    }


def _served(run: LaunchRun) -> TierRun:
    """What swapd counted."""
    path = run.folder / COUNTS
    try:
        served = json.loads(read_text(path))
        errors = {name: count for name, count in served["errors"].items() if count}
        waits = {tier: times for tier, times in served["wait_us"].items() if times}
        found = TierRun(
            run=run,
            policy=str(served["policy"]),
            options=dict(served["options"]),
            fast_bytes=int(served["fast_bytes"]),
            counts=Counts(
                *(int(served[tier][what]) for tier in TIER for what in ("reads", "writes"))
            ),
            waits_us=waits,
        )
        takeovers = int(served["takeovers"])
    except UnreadableInput as error:
        raise UnreadableInput(str(error), path=str(path), hint=AGAIN) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableInput(
            f"{path}: not the counts of swapd: {error}", path=str(path), hint=AGAIN
        ) from error
    if errors or takeovers:
        what = f"swapd was killed {takeovers} times" if takeovers else f"errors: {errors}"
        raise UnreadableInput(f"{path}: {what}", path=str(path), hint=AGAIN)
    return found


def _occupancy(run: LaunchRun, trace: Trace) -> Iterator[Occupancy]:
    """The pages of each tier over time, from the recorded requests and the decided moves."""
    import numpy

    times, kinds, slots = (trace.column(name) for name in ("time_ns", "kind", "address"))
    offset_ns = (trace.header["start_ns"] or 0) - run.start_ns
    out, void = (_core.kinds().index(name) for name in ("swap_out", "void"))
    ends = numpy.unique(numpy.linspace(0, len(times), SAMPLES + 1, dtype=int))[1:]
    used: set[int] = set()
    fast: set[int] = set()
    moves = _moves(run.folder / MOVES)
    ahead = next(moves, None)
    begin = 0
    for end in ends.tolist():
        for kind, slot in zip(kinds[begin:end].tolist(), slots[begin:end].tolist(), strict=True):
            if kind == out:
                used.add(slot)
            elif kind == void:
                used.discard(slot)
        while ahead is not None and ahead[0] < end:
            _, slot, move = ahead
            if move in ENTERS:
                fast.add(slot)
            elif move in LEAVES:
                fast.discard(slot)
            ahead = next(moves, None)
        begin = end
        yield Occupancy((offset_ns + int(times[end - 1])) / 1e9, len(fast), len(used - fast))


def _moves(path: Path) -> Iterator[tuple[int, int, str]]:
    """The event, slot and name of each move."""
    try:
        with path.open() as file:
            next(file, None)
            for line in file:
                event, slot, move = line.split(",")
                yield int(event), int(slot), move.rstrip()
    except (OSError, ValueError) as error:
        raise UnreadableInput(
            f"{path}: not the moves of swapd: {error}", path=str(path), hint=AGAIN
        ) from error


def swapped(run: LaunchRun, output: Path, progress: Progress | None) -> Trace:
    """The page-outs and page-ins of a recorded run on a swap file, as a swap area sees them.

    The recording of the lab also has pages of files, and pages of zeros, which no area sees.
    """
    import numpy

    trace = run.recording(output, progress=progress)
    assert trace is not None, "asked only for recorded runs"
    path = Path(trace.path).with_suffix(".area.parquet")
    if path.exists():
        return read(path)
    names = numpy.array(_core.kinds())[trace.column("kind")]
    flags = trace.column("flags")
    kept = numpy.isin(names, ("swap_out", "swap_in")) & (flags & FLAG_ZEROS == 0)
    columns = (trace.column("time_ns"), names, trace.column("page"), flags)
    with scratch() as folder:
        text = folder / "area.csv"
        with text.open("w") as file:
            file.write("time_s,event,process,page,state,kind\n")
            for time_ns, name, page, flag in zip(
                *(column[kept].tolist() for column in columns), strict=True
            ):
                state = "" if name == "swap_in" else "D" if flag & FLAG_DIRTY else "C"
                at = f"{time_ns // 10**9}.{time_ns % 10**9:09}"
                file.write(f"{at},{name.removeprefix('swap_')},1,{page},{state},anon\n")
        import_trace(text, path, progress=progress)
    return read(path)
