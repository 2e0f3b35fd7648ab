"""Which swap architecture to take on two devices, how large its fast tier should be, and why.

Every architecture of the catalog (but the offline bound) runs at every size of a ladder up to the
footprint. The architecture with the lowest mean I/O time over the ladder is advised; sizes follow
the rules of `models.sizing`. I/O times are computed again from the counts for every combination of
the devices' low, typical and high latencies.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pagewise import _core, questions
from pagewise.advice import reference as references
from pagewise.advice import stock_linux
from pagewise.errors import NothingRecorded, UsageError
from pagewise.grids.cells import simulate_many
from pagewise.models import sizing
from pagewise.recording import PathLike, Progress, Trace, read
from pagewise.units import PAGE_BYTES

SCHEMA = "pagewise.advice/1"
BOUNDS = ("clairvoyant",)
"""Architectures that know the future: nobody can take them."""
ALONE = "flash"
FIGURES = ("low", "typical", "high")
EQUAL = 0.005
"""Mean I/O time this close to the lowest counts as equal: then what stock Linux has is advised."""


@dataclass(frozen=True)
class Devices:
    """Latencies of both devices and descriptions, as `pagewise devices --json` gives them."""

    fast: Mapping[str, Any]
    slow: Mapping[str, Any]

    def corners(self) -> list[tuple[str, str]]:
        """Every combination of a figure of the fast and of the slow device."""
        return list(itertools.product(FIGURES, FIGURES))

    def io_time_s(self, outcome: Mapping[str, Any], corner: tuple[str, str]) -> float:
        """Counts times latencies at one corner."""
        total_ns = 0
        for tier, device, figure in (
            ("fast", self.fast, corner[0]),
            ("slow", self.slow, corner[1]),
        ):
            counts = outcome[tier]
            total_ns += counts["reads"] * device["read_ns"][figure]
            total_ns += counts["writes"] * device["write_ns"][figure]
        return float(total_ns / 1e9)


TYPICAL = ("typical", "typical")
Outcomes = dict[str, dict[int, dict[str, Any]]]


def advise_swap(
    trace: PathLike | Trace,
    *,
    fast: str,
    slow: str,
    reference: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The advice as a ``pagewise.advice/1`` object: sizes in bytes, times in seconds, shares.

    ``fast`` and ``slow``: names of `pagewise devices` or READ/WRITE times. ``reference``: what the
    slow tier's I/O should come down to; see `advice.reference`.
    """
    recording = read(trace)
    footprint_bytes = questions.analyze(recording)["pages"] * PAGE_BYTES
    if not footprint_bytes:
        raise NothingRecorded(
            f"{recording.path}: no access is recorded, so there is nothing to advise on",
            path=recording.path,
            hint="pagewise info says what the recording holds",
        )
    sizes = sizing.ladder(footprint_bytes)
    outcomes, alone, devices = _simulate(recording, fast, slow, sizes, progress)
    shares = {name: _mean_share(devices, by_size, alone) for name, by_size in outcomes.items()}
    chosen = _choose(shares, fast)
    times = {size: devices.io_time_s(o, TYPICAL) for size, o in outcomes[chosen].items()}
    worth = sizing.worth_buying(times, devices.io_time_s(alone, TYPICAL))
    stock = _best_stock(devices, outcomes, fast, worth)
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "pagewise": _core.version(),
        "trace": Path(recording.path).name,
        "footprint_bytes": footprint_bytes,
        "fast": devices.fast,
        "slow": devices.slow,
        "alone": _alone(devices, alone),
        "architecture": {
            "name": chosen,
            "options": next(iter(outcomes[chosen].values()))["options"],
            "mean_io_share": shares[chosen],
            "stock_linux": stock_linux.availability(chosen, fast),
            "meanwhile": stock,
            "holds_in": _holds_in(devices, outcomes, chosen, alone),
        },
        "candidates": [
            _candidate(devices, name, outcomes[name], alone, shares)
            for name in sorted(shares, key=lambda name: shares[name])
        ],
        "worth": worth and _at_size(devices, outcomes, chosen, fast, worth, alone),
        "reference": None,
        "settings": [s.to_json() for s in stock_linux.settings(fast, worth, stock)],
        "notes": list(
            dict.fromkeys(note for o in outcomes[chosen].values() for note in o.get("notes", []))
        ),
    }
    if reference is not None:
        result["reference"] = _against(
            references.parse(reference), devices, outcomes, chosen, fast, alone
        )
    return result


def _simulate(
    recording: Trace, fast: str, slow: str, sizes: Sequence[int], progress: Progress | None
) -> tuple[Outcomes, dict[str, Any], Devices]:
    names = [
        row["name"]
        for row in json.loads(_core.architectures())
        if row["name"] not in (*BOUNDS, ALONE)
    ]
    cells = list(itertools.product(names, sizes))
    devices = {"fast": fast, "slow": slow}
    requests = [
        {"architecture": name, "fast_tier_bytes": size, **devices}
        for name, size in [(ALONE, 0), *cells]
    ]
    described = json.loads(_core.describe_request(json.dumps(requests[0])))
    answers = simulate_many(recording, requests, progress=progress)
    failed = next((answer["error"] for answer in answers if "error" in answer), None)
    if failed:
        raise UsageError(failed)
    alone, *found = (answer["outcome"] for answer in answers)
    outcomes: Outcomes = {name: {} for name in names}
    for (name, size), outcome in zip(cells, found, strict=True):
        outcomes[name][size] = outcome
    return outcomes, alone, Devices(described["fast"], described["slow"])


def _mean_share(
    devices: Devices,
    by_size: Mapping[int, Mapping[str, Any]],
    alone: Mapping[str, Any],
    corner: tuple[str, str] = TYPICAL,
) -> float:
    """Mean over the sizes of the I/O time as a share of the slow device's alone."""
    base = devices.io_time_s(alone, corner)
    return fmean(devices.io_time_s(o, corner) / base for o in by_size.values()) if base else 1.0


def _choose(shares: Mapping[str, float], fast: str) -> str:
    """The lowest mean share; of equals one that stock Linux has, then the first by name."""
    lowest = min(shares.values())
    equal = sorted(name for name, share in shares.items() if share <= lowest + EQUAL)
    stock = [name for name in equal if stock_linux.availability(name, fast)]
    return stock[0] if stock else min(equal, key=lambda name: shares[name])


def _best_stock(devices: Devices, outcomes: Outcomes, fast: str, size: int | None) -> str:
    """What stock Linux does best with a fast tier of this size; none: whatever its size."""
    stock = [name for name in outcomes if stock_linux.availability(name, fast)]

    def io_time_s(name: str) -> float:
        sizes = outcomes[name] if size is None else [size]
        return sum(devices.io_time_s(outcomes[name][size], TYPICAL) for size in sizes)

    return min(stock, key=io_time_s)


def _holds_in(
    devices: Devices, outcomes: Outcomes, chosen: str, alone: Mapping[str, Any]
) -> dict[str, int]:
    """In how many combinations of latencies the chosen architecture has the lowest mean share."""
    corners = devices.corners()
    wins = 0
    for corner in corners:
        shares = {
            name: _mean_share(devices, by_size, alone, corner) for name, by_size in outcomes.items()
        }
        wins += shares[chosen] <= min(shares.values()) + EQUAL
    return {"combinations": wins, "of": len(corners)}


def _alone(devices: Devices, alone: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "io_time_s": _range(devices.io_time_s(alone, corner) for corner in devices.corners())
        | {"typical": devices.io_time_s(alone, TYPICAL)},
        "io_bytes": (alone["slow"]["reads"] + alone["slow"]["writes"]) * PAGE_BYTES,
        "wear_slow": _wear(alone, "slow", devices.slow),
    }


def _candidate(
    devices: Devices,
    name: str,
    by_size: Mapping[int, Mapping[str, Any]],
    alone: Mapping[str, Any],
    shares: Mapping[str, float],
) -> dict[str, Any]:
    """One architecture's curve over the size of the fast tier."""
    base = devices.io_time_s(alone, TYPICAL)
    return {
        "architecture": name,
        "mean_io_share": shares[name],
        "sizes": [
            {
                "fast_tier_bytes": size,
                "io_time_s": devices.io_time_s(outcome, TYPICAL),
                "io_share": devices.io_time_s(outcome, TYPICAL) / base if base else 1.0,
                "slow_bytes": _slow_pages(outcome) * PAGE_BYTES,
                "fast_bytes_written": outcome["fast"]["writes"] * PAGE_BYTES,
                "wear_fast": (outcome.get("wear") or {}).get("fast"),
            }
            for size, outcome in by_size.items()
        ],
    }


def _at_size(
    devices: Devices,
    outcomes: Outcomes,
    chosen: str,
    fast: str,
    size: int,
    alone: Mapping[str, Any],
) -> dict[str, Any]:
    """What the advised architecture costs at one size, and what cheaper choices would cost more."""
    outcome = outcomes[chosen][size]
    corners = devices.corners()
    smaller = max((s for s in outcomes[chosen] if s < size), default=None)
    cheaper = outcomes[chosen][smaller] if smaller else alone
    stock = _best_stock(devices, outcomes, fast, size)
    return {
        "fast_tier_bytes": size,
        "io_time_s": _range(devices.io_time_s(outcome, corner) for corner in corners)
        | {"typical": devices.io_time_s(outcome, TYPICAL)},
        "io_share": _range(
            devices.io_time_s(outcome, c) / devices.io_time_s(alone, c)
            for c in corners
            if devices.io_time_s(alone, c)
        )
        | {
            "typical": devices.io_time_s(outcome, TYPICAL)
            / (devices.io_time_s(alone, TYPICAL) or 1.0)
        },
        "slow_bytes": _slow_pages(outcome) * PAGE_BYTES,
        "wear_fast": _wear(outcome, "fast", devices.fast),
        "wear_slow": _wear(outcome, "slow", devices.slow),
        "next_cheaper": {
            "fast_tier_bytes": smaller or 0,
            "regret": _regret(devices, cheaper, outcome),
        },
        "stock_linux": {
            "architecture": stock,
            "regret": _regret(devices, outcomes[stock][size], outcome),
        },
    }


def _against(
    reference: references.Reference,
    devices: Devices,
    outcomes: Outcomes,
    chosen: str,
    fast: str,
    alone: Mapping[str, Any],
) -> dict[str, Any]:
    """The smallest size whose slow-tier I/O stays at or below the reference from there on."""
    limit_pages = reference.io_bytes / PAGE_BYTES
    pages = {size: _slow_pages(outcome) for size, outcome in outcomes[chosen].items()}
    size = 0 if _slow_pages(alone) <= limit_pages else sizing.reaching(pages, limit_pages)
    return {
        "what": reference.what,
        "io_bytes": reference.io_bytes,
        "fast_tier_bytes": size,
        "at": _at_size(devices, outcomes, chosen, fast, size, alone) if size else None,
        "lowest_io_bytes": min(pages.values(), default=0) * PAGE_BYTES,
    }


def _slow_pages(outcome: Mapping[str, Any]) -> int:
    return int(outcome["slow"]["reads"] + outcome["slow"]["writes"])


def _regret(
    devices: Devices, choice: Mapping[str, Any], best: Mapping[str, Any]
) -> dict[str, float]:
    """How much more I/O time ``choice`` takes than ``best``, as a share of the latter."""

    def at(corner: tuple[str, str]) -> float:
        base = devices.io_time_s(best, corner)
        return devices.io_time_s(choice, corner) / base - 1 if base else 0.0

    return _range(map(at, devices.corners())) | {"typical": at(TYPICAL)}


def _wear(
    outcome: Mapping[str, Any], tier: str, device: Mapping[str, Any]
) -> dict[str, float] | None:
    """Share of the rated life used up per day, over the range of the rating; none where unknown."""
    typical = (outcome.get("wear") or {}).get(tier)
    cycles = device.get("rated_cycles")
    if typical is None or not cycles:
        return None
    return {
        "low": typical * cycles["typical"] / cycles["high"],
        "typical": typical,
        "high": typical * cycles["typical"] / cycles["low"],
    }


def _range(values: Any) -> dict[str, float]:
    found = list(values)
    return {"low": min(found, default=0.0), "high": max(found, default=0.0)}
