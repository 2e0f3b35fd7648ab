"""The best swap architecture for two devices, the size of its fast tier, and the evidence.

Every architecture of the catalog, except the offline bound, runs at every size of a ladder up
to the footprint. Sizes follow the rules of `models.sizing`. The advice names the size worth buying
on stock Linux, where each size counts with the best that stock Linux has there, and the
architecture with the lowest mean I/O time over the ladder. I/O times are computed for every
combination of the devices' low, typical and high latencies. Most architectures act the same at all
latencies, so their counts are reused. An architecture that decides by latency is replayed at the
sizes that the advice prints.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pagewise import _core, catalog, questions, types
from pagewise.advice import evidence as evidences
from pagewise.advice import machine as machines
from pagewise.advice import memory as memories
from pagewise.advice import reference as references
from pagewise.advice import served, stock_linux
from pagewise.advice.costs import (
    AT,
    WRITE_AMPLIFICATION,
    Devices,
    Latencies,
    Outcome,
    slow_bytes,
)
from pagewise.advice.setting import Setting
from pagewise.advice.trial import Choice, Trial
from pagewise.advice.warnings import warnings
from pagewise.errors import UsageError
from pagewise.grids.simulations import MILLICELLS, SimulateRequest, Simulation, simulate_many
from pagewise.grids.traces import Numbered, numbered_meanwhile
from pagewise.larger_pages import (
    parse_page_size,
    refuse_times_of_small_pages,
    refuse_what_is_read_once,
)
from pagewise.models import sizing
from pagewise.recording import PathLike, Progress, Trace, read
from pagewise.units import PAGE_BYTES, format_range, format_share, format_size, parse_size

if TYPE_CHECKING:
    from pagewise.answers import Advice, AdviceAt4KiB, AtSize, Best, Machine, Moved, Today
    from pagewise.types import Analysis, Events

SCHEMA = "pagewise.advice/1"
PARTS = MILLICELLS
"""How many parts of progress make a cell."""


@dataclass(frozen=True)
class Question:
    """A recording, and the names of the two devices to replay it on."""

    recording: Numbered
    fast: str
    slow: str
    page_bytes: int = PAGE_BYTES

    def described(self, active_s: float | None) -> Devices:
        """Both devices with all their figures."""
        request = json.dumps(self.request(catalog.baseline(), 0))
        described = _core.describe_request(request)
        return Devices(described["fast"], described["slow"], active_s)

    def request(self, name: str, size: int, latencies: Latencies | None = None) -> SimulateRequest:
        """The request for one cell: an architecture with its default options at one size."""
        fast, slow = latencies or (self.fast, self.slow)
        return Simulation(name, size, fast, slow, page_bytes=self.page_bytes).to_json()

    def outcomes(
        self,
        cells: Sequence[tuple[str, int]],
        latencies: Sequence[Latencies] = (),
        marks: Sequence[int] = (),
        progress: Progress | None = None,
    ) -> list[Outcome]:
        """The outcomes of some architectures at some sizes.

        For architectures that decide by latency, includes outcomes at the other ``latencies``. With
        ``marks``, includes counts by slice.
        """
        deciding = [cell for cell in cells if catalog.decides_by_latency(cell[0])]
        elsewhere = list(itertools.product(deciding, latencies))
        requests = [self.request(*cell) for cell in cells]
        requests += [self.request(*cell, pair) for cell, pair in elsewhere]
        found = self._answers(requests, marks, progress)
        at: dict[tuple[str, int], dict[Latencies, types.Outcome]] = {}
        for (cell, pair), outcome in zip(elsewhere, found[len(cells) :], strict=True):
            at.setdefault(cell, {})[pair] = outcome
        return [
            {**outcome, AT: at.get(cell, {})}
            for cell, outcome in zip(cells, found[: len(cells)], strict=True)
        ]

    def _answers(
        self, requests: Sequence[SimulateRequest], marks: Sequence[int], progress: Progress | None
    ) -> list[types.Outcome]:
        """One outcome per request, in order. Raises UsageError if a request fails."""
        answers = simulate_many(self.recording, requests, marks=marks, progress=progress)
        return [_succeeded(answer) for answer in answers]


def advise_swap(
    trace: PathLike | Trace,
    *,
    fast: str | None = None,
    slow: str | None = None,
    reference: str | None = None,
    memory: str | int | None = None,
    compression: float | None = None,
    page_size: int | str | None = None,
    refuses: bool = True,
    progress: Progress | None = None,
) -> Advice:
    """The advice as a ``pagewise.advice/1`` object: sizes in bytes, times in seconds, shares.

    ``fast`` and ``slow`` are names from `pagewise devices` or READ/WRITE times. These two,
    ``memory`` and ``compression`` default to those of the recorded machine, if the recording has it
    (``machine``); ``defaults`` lists them with reasons. ``reference`` is the target for the slow
    tier's I/O: a size, or a file (see `docs/advise.md`). ``memory`` is the memory of the board
    (``"1GiB"``), of which a fast tier in memory takes a part. ``compression`` replaces the device's
    figure (2.5 bytes of pages per byte of memory, for example), and makes any fast device a tier in
    memory. ``page_size`` (``"16KiB"``) groups accesses into larger pages, which move as a whole.
    ``progress(done, total)`` counts thousandths of cells.

    A recording without accesses sizes swap on no device, and neither does a trace that is not of
    swap. Raises NothingRecorded for the former, and PagewiseError for the latter if a device is
    not given; the hint says what to record instead. With ``refuses=False`` both get an advice with
    the verdict, and example devices for those that are neither given nor recorded.

    ``today`` is the best on stock Linux at its size, or null; ``worth`` the best of all at its
    size; ``best`` the least I/O time at the size of ``today``. ``settings`` are for ``today``, and
    with swapd for ``best``, each with undo, and empty without evidence. Raises UsageError if a
    device is unknown.
    """
    recording = read(trace)
    given = machines.Options(fast, slow, memory, compression)
    page_bytes = parse_page_size(page_size)
    if page_bytes > PAGE_BYTES:
        refuse_what_is_read_once(recording)
    with numbered_meanwhile(recording, page_bytes=page_bytes) as found:
        held = found.trace.info()
        if refuses and None in (fast, slow):
            evidences.refuse_other_than_swap(held, recording.path)
        if refuses:
            evidences.refuse_without_accesses(held, recording.path)
        return _advised(found, held, recording, given, reference, page_bytes, progress)


def _advised(
    found: Numbered,
    held: Events,
    recording: Trace,
    given: machines.Options,
    reference: str | None,
    page_bytes: int,
    progress: Progress | None,
) -> Advice:
    """The advice on a recording.

    ``found`` has its numbered pages of this size, and ``held`` what it holds.
    """
    path = recording.path
    machine = machines.recorded(held["header"])
    is_sized = held["is_of_swap"] and held["accesses"] > 0
    options = machines.completed(machine, given, path, needs_devices=is_sized)
    refuse_times_of_small_pages(page_bytes, options.fast, options.slow)
    limit = None if options.memory is None else parse_size(options.memory)
    goal = None if reference is None else references.parse(reference)
    analysis = questions.analyze(found.trace)
    footprint_bytes = analysis["pages"] * page_bytes
    question = Question(found, options.fast, options.slow, page_bytes)
    devices = question.described(held["active_s"])
    source = options.compression_source
    board = memories.board(devices.fast, limit, options.compression, source)
    board = board and replace(board, has_zswap=machines.has_zswap(machine))
    sizes = sizing.ladder(footprint_bytes, page_bytes)
    trial = _tried(question, devices, board, sizes, evidences.marks(held), progress)
    chosen, stock = trial.chosen(), trial.chosen_stock()
    wanted = [chosen.size, trial.reaching(goal, chosen.name) if goal else None]
    trial = _replayed(question, trial, chosen.name, [size for size in wanted if size])
    for size in filter(None, wanted):
        cheaper = trial.next_cheaper(chosen.name, size)
        if cheaper and cheaper.name != chosen.name:
            trial = _replayed(question, trial, cheaper.name, [cheaper.size])
    worth, cost = _at_sizes(question, trial, [chosen, stock])
    evidence = evidences.weigh(trial, held, analysis)
    is_enough = evidence.verdict == evidences.ENOUGH
    place = _place(machine, analysis, devices)
    settings = stock_linux.settings(board, stock.size, stock.name, place) if is_enough else []
    settings = [_with_cost(setting, trial, stock.size) for setting in settings]
    best = _best(trial, stock.size or chosen.size, (machine, page_bytes))
    if is_enough and best and served.is_offered(machine, page_bytes):
        settings += _served(trial, best, place)
    today = _today(trial, stock.name, cost)
    advice: Advice = {
        "schema": SCHEMA,
        "pagewise": _core.version(),
        "trace": Path(path).name,
        "losses": analysis["losses"],
        "duration_s": held["duration_s"],
        "evidence": evidence.to_json(),
        "footprint_bytes": footprint_bytes,
        "page_bytes": page_bytes,
        "fast": devices.fast,
        "slow": devices.slow,
        "machine": machine,
        "defaults": [default.to_json() for default in options.defaults],
        "memory": board.to_json() if board else None,
        "write_amplification": WRITE_AMPLIFICATION,
        "alone": trial.slow_only(),
        "architecture": trial.described(chosen.name, stock.name),
        "worth": worth,
        "today": today,
        "best": best,
        "reference": trial.against(goal, chosen.name) if goal else None,
        "candidates": [
            trial.candidate(name) for name in sorted(trial.outcomes, key=trial.mean_share)
        ],
        "settings": [setting.to_json() for setting in settings],
        "warnings": warnings(trial, (stock if stock.size else chosen) if is_enough else None),
        "notes": list(dict.fromkeys(_notes(trial, chosen.name))),
    }
    if page_bytes != PAGE_BYTES:
        advice["at_4_kib"] = _at_4_kib(recording, question, today)
    return advice


def _succeeded(answer: types.Simulated) -> types.Outcome:
    """The outcome of a request. Raises UsageError if it failed."""
    outcome = answer.get("outcome")
    if outcome is None:
        raise UsageError(str(answer.get("error")))
    return outcome


def _with_cost(setting: Setting, trial: Trial, fast_tier_bytes: int | None) -> Setting:
    """The setting with a note on the I/O time of its architecture at this size."""
    if not setting.architecture or not fast_tier_bytes:
        return setting
    sizes = trial.candidate(setting.architecture)["sizes"]
    share = next(row["io_share"] for row in sizes if row["fast_tier_bytes"] == fast_tier_bytes)
    cost = (
        f"{setting.architecture.capitalize()} with {format_size(fast_tier_bytes)} takes "
        f"{format_share(share)} of the slow device's I/O time without a fast tier."
    )
    return replace(setting, note=f"{cost} {setting.note}")


def _at_4_kib(recording: Trace, question: Question, today: Today | None) -> AdviceAt4KiB:
    """The cost of flash-only, and of the choice for today, with the recorded pages."""
    cells = [(catalog.baseline(), 0)]
    cells += [(today["architecture"], today["fast_tier_bytes"])] if today else []
    with numbered_meanwhile(recording) as found:
        question = replace(question, recording=found, page_bytes=PAGE_BYTES)
        devices = question.described(None)
        alone, *taken = question.outcomes(cells, devices.other_latencies())

    def cost(outcome: Outcome) -> Moved:
        return {"io_time_s": devices.io_time(outcome), "slow_bytes": slow_bytes(outcome)}

    return {
        "footprint_bytes": found.size.pages * PAGE_BYTES,
        "alone": cost(alone),
        "today": cost(taken[0]) if taken else None,
    }


def _place(machine: Machine | None, analysis: Analysis, devices: Devices) -> stock_linux.Place:
    """Where settings are pasted. Any trace but a swap trace may have all its pages in swap."""
    swap = analysis["swap"]
    pages = swap["pages_in_swap_max"] if swap else analysis["pages"]
    return stock_linux.Place(machine, pages * analysis["page_bytes"], devices.fast["name"])


def _today(trial: Trial, stock: str, cost: AtSize | None) -> Today | None:
    """The best that stock Linux has, at its size; None if no size of it saves anything."""
    if cost is None:
        return None
    by = trial.availability(stock)
    return {"architecture": stock, "by": by, "can_run": True, **cost}


def _served(trial: Trial, best: Best, place: stock_linux.Place) -> list[Setting]:
    """Settings for swapd, if the best choice is none of stock Linux."""
    name, size = best["architecture"], best["fast_tier_bytes"]
    if trial.availability(name):
        return []
    options = trial.outcomes[name][size]["options"]
    found = served.settings(name, size, options, place, trial.board)
    return [_with_cost(setting, trial, size) for setting in found]


def _best(trial: Trial, size: int | None, place: tuple[Machine | None, int]) -> Best | None:
    """The least I/O time at this size, whether it can run or not; None without a size.

    ``place`` is the recorded machine and the size of its pages.
    """
    if size is None:
        return None
    name = trial.best_at(size)
    outcome = trial.outcomes[name][size]
    machine, page_bytes = place
    by = trial.availability(name)
    missing = None if by else served.missing(machine, page_bytes)
    by = by or (None if missing else served.NAME)
    return {
        "architecture": name,
        "by": by,
        "can_run": by is not None,
        "missing": missing,
        "fast_tier_bytes": size,
        "io_time_s": trial.devices.io_time(outcome),
        "io_share": trial.devices.io_share(outcome, trial.alone),
    }


def _notes(trial: Trial, chosen: str) -> Iterator[str]:
    """The assumptions behind the figures."""
    if trial.board is not None:
        ratio = format_range(trial.board.compression, lambda value: f"{value:g} to 1")
        yield f"compression {ratio}: {trial.board.source}"
    if trial.devices.life_years(trial.alone["wear"], "slow"):
        factor = format_range(WRITE_AMPLIFICATION, lambda value: f"{value:g}")
        yield (
            "life: if this traffic continues day and night, over the range of the rating and "
            f"of an assumed write amplification of {factor}"
        )
    for outcome in trial.outcomes[chosen].values():
        yield from outcome.get("notes", [])


def _tried(
    question: Question,
    devices: Devices,
    board: memories.Board | None,
    sizes: Sequence[int],
    marks: Sequence[int],
    progress: Progress | None,
) -> Trial:
    """The trial of every architecture at every size, and of flash-only."""
    names = catalog.systems()
    cells = list(itertools.product(names, sizes))
    cells = [(catalog.baseline(), 0), *cells]
    alone, *found = question.outcomes(cells, marks=marks, progress=progress)
    outcomes: dict[str, dict[int, Outcome]] = {name: {} for name in names}
    for (name, size), outcome in zip(cells[1:], found, strict=True):
        outcomes[name][size] = outcome
    return Trial(devices, board, alone, outcomes)


def _replayed(question: Question, trial: Trial, name: str, sizes: Sequence[int]) -> Trial:
    """The trial, with one architecture replayed at all latencies.

    Replays ``sizes`` and the next smaller ones only: if both devices have ranges, the whole ladder
    would take four times as long.
    """
    ladder = sorted(trial.outcomes[name])
    near = sorted({size for wanted in sizes for size in ladder[: ladder.index(wanted) + 1][-2:]})
    if not near or not catalog.decides_by_latency(name):
        return trial
    cells = [(name, size) for size in near]
    found = question.outcomes(cells, trial.devices.other_latencies())
    by_size = {**trial.outcomes[name], **dict(zip(near, found, strict=True))}
    return replace(trial, outcomes={**trial.outcomes, name: by_size})


def _at_sizes(question: Question, trial: Trial, choices: Sequence[Choice]) -> list[AtSize | None]:
    """The cost of each choice; None if it has no fast tier.

    A tier in memory is replayed once more, with what it holds beyond the memory it takes.
    """
    taken = [(each.name, each.size) for each in choices if each.size is not None]
    crowded: dict[tuple[str, int], Outcome] = {}
    if trial.board is not None:
        cells = [(name, trial.board.net_bytes(size)) for name, size in taken]
        found = question.outcomes(cells, trial.devices.other_latencies())
        crowded = dict(zip(taken, found, strict=True))
    return [
        trial.at_size(each.name, each.size, crowded.get((each.name, each.size)))
        if each.size is not None
        else None
        for each in choices
    ]
