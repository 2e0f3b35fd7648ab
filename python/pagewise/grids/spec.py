"""What to run: a TOML file, and the cells it spans.

::

    traces = ["phone-1g.parquet", "s3://recordings/phone-2g.parquet"]
    sizes = ["0", "64MiB", "256MiB"]
    seeds = [0, 1]                    # for generated traces; default [0]

    [[scenario]]                      # a generated trace; the parameters of docs/scenarios.md
    name = "rotation"
    memory_mib = 600

    [[device]]                        # names of `pagewise devices`, or READ/WRITE times
    fast = "4/5us"                    # or "ratios": nine devices, each so many times quicker
    slow = "ufs-3.1"

    [[architecture]]                  # of `pagewise list architectures`
    name = "hybrid"
    options = { entry_bit = [0, 1], flash_copy_on_promotion = "keep" }

A list of option values means one architecture for each. Paths count from the spec's folder.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagewise import _core
from pagewise.errors import UsageError
from pagewise.spec_files import read_toml, require_known, require_table, require_text
from pagewise.storage import is_remote
from pagewise.units import LIMIT, parse_size

SCHEMA = "pagewise.sweep/1"
TOP_KEYS = {"schema", "traces", "sizes", "seeds", "scenario", "device", "architecture"}
ARCHITECTURE_KEYS = {"name", "profile", "options"}
DEVICE_KEYS = {"fast", "slow"}
RATIOS = "ratios"
"""Stands for fast devices at every ratio of latencies over which a conclusion must hold."""
OF_THE_REPLAY = ("readahead", "clean_evictions", "ranges")
"""Options that every architecture takes, because they belong to the replay of the trace."""


@dataclass(frozen=True)
class TraceSource:
    """A trace file by its address, or a scenario by its parameters; ``name`` is what results show.

    ``scenario`` holds ``(parameter, value)`` pairs, the seed among them.
    """

    name: str
    address: str | None = None
    scenario: tuple[tuple[str, Any], ...] = ()
    seed: int | None = None


@dataclass(frozen=True)
class Request:
    """One configuration of the simulator; ``options`` holds only what the spec sets."""

    architecture: str
    fast_tier_bytes: int
    fast: str
    slow: str
    options: tuple[tuple[str, str], ...] = ()
    profile: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The form in which the Rust side takes it."""
        options = dict(self.options)
        of_the_replay = {name: options.pop(name) for name in OF_THE_REPLAY if name in options}
        return {
            "architecture": self.architecture,
            "fast_tier_bytes": self.fast_tier_bytes,
            "fast": self.fast,
            "slow": self.slow,
            "options": options,
            "profile": self.profile,
            **of_the_replay,
        }


@dataclass(frozen=True)
class Grid:
    """Every trace meets every request."""

    traces: tuple[TraceSource, ...]
    requests: tuple[Request, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.traces) * len(self.requests)


def load(path: str | Path) -> Grid:
    """The grid of a spec file."""
    path = Path(path)
    spec = read_toml(path)
    try:
        return parse(spec, folder=path.parent)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", path=str(path), hint=error.hint) from error


def parse(spec: Mapping[str, Any], *, folder: Path = Path()) -> Grid:
    """The grid of a spec that is already a mapping."""
    require_known(spec, TOP_KEYS, "the spec")
    if spec.get("schema", SCHEMA) != SCHEMA:
        raise UsageError(f"this is a spec of {spec['schema']!r}, not of {SCHEMA!r}")
    seeds = [_seed(seed) for seed in _list(spec, "seeds", default=[0])]
    traces = [_trace(str(address), folder) for address in _list(spec, "traces", default=[])]
    for scenario in _list(spec, "scenario", default=[]):
        traces += [_scenario(scenario, seed) for seed in seeds]
    sizes = [parse_size(size) for size in _list(spec, "sizes")]
    devices = [pair for device in _list(spec, "device") for pair in _devices(device)]
    architectures = _list(spec, "architecture")
    requests = [
        Request(
            architecture=require_text(architecture, "name", "[[architecture]]"),
            fast_tier_bytes=size,
            fast=fast,
            slow=slow,
            options=options,
            profile=str(architecture["profile"]) if "profile" in architecture else None,
        )
        for architecture in architectures
        for options in _options(architecture)
        for size in sizes
        for fast, slow in devices
    ]
    if not traces:
        raise UsageError("the spec names neither traces nor scenarios")
    return Grid(tuple(dict.fromkeys(traces)), tuple(dict.fromkeys(requests)))


def _seed(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < LIMIT:
        raise UsageError(f"a seed is a whole number from 0 to {LIMIT - 1}, not {value!r}")
    return value


def _trace(address: str, folder: Path) -> TraceSource:
    if not is_remote(address) and not address.startswith("file://"):
        address = str(folder / address)
    return TraceSource(name=address.rsplit("/", 1)[-1], address=address)


def _scenario(parameters: Mapping[str, Any], seed: int) -> TraceSource:
    given = dict(require_table(parameters, "[[scenario]]"))
    for parameter, value in given.items():
        if not isinstance(value, (str, int, float)):
            raise UsageError(f"{parameter} of [[scenario]] is neither number nor text: {value}")
    name = str(given.pop("name", "scenario"))
    given["seed"] = seed
    return TraceSource(name=name, scenario=tuple(sorted(given.items())), seed=seed)


def _devices(device: object) -> list[tuple[str, str]]:
    """The pairs of one ``[[device]]``: fast, slow."""
    require_known(device, DEVICE_KEYS, "[[device]]")
    table = require_table(device, "[[device]]")
    fast, slow = (require_text(table, name, "[[device]]") for name in ("fast", "slow"))
    if fast != RATIOS:
        return [(fast, slow)]
    return [(times, slow) for times in json.loads(_core.latency_ratios(slow))]


def _options(architecture: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Every combination of the option values of one ``[[architecture]]``."""
    require_known(architecture, ARCHITECTURE_KEYS, "[[architecture]]")
    options = require_table(architecture.get("options", {}), "options of [[architecture]]")
    names = sorted(options)
    choices = [
        value if isinstance(value, list) else [value] for value in (options[name] for name in names)
    ]
    for values in itertools.product(*choices):
        yield tuple((name, option_text(value)) for name, value in zip(names, values, strict=True))


def option_text(value: object) -> str:
    """An option's value as the command line writes it: true is ``yes``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _list(spec: Mapping[str, Any], name: str, *, default: list[Any] | None = None) -> list[Any]:
    value = spec.get(name, default)
    if not isinstance(value, list) or (not value and default is None):
        raise UsageError(f"the spec needs {name!r}, a list with at least one entry")
    return value
