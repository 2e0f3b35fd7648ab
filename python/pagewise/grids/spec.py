"""The spec of a sweep: a TOML file, and the grid of cells that it spans.

::

    traces = ["phone-1g.parquet", "s3://recordings/phone-2g.parquet"]
    sizes = ["0", "64MiB", "256MiB"]
    seeds = [0, 1]                    # for generated traces; default [0]

    [[scenario]]                      # a generated trace; the parameters of docs/scenarios.md
    name = "rotation"
    memory_mib = 600

    [[device]]                        # names of `pagewise devices`, or READ/WRITE times
    fast = "4/5us"                    # or "ratios": nine devices, by how many times quicker
    slow = "ufs-3.1"

    [[architecture]]                  # of `pagewise list architectures`
    name = "hybrid"
    options = { entry_bit = [0, 1], flash_copy_on_promotion = "keep" }

    [[policy]]                        # of `pagewise list policies`, without devices
    name = "lru-k"
    options = { k = [2, 3] }
    sizes = [1000, "64MiB", "10%"]    # pages, bytes, or a share of the trace's distinct pages

A list of option values means one architecture or policy for each value. Paths are relative to the
folder of the spec; a folder or a pattern of traces stands for all files in it. ``sizes`` and
``device`` are for architectures.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape, has_magic
from pathlib import Path
from typing import TypeVar

from pagewise import _core
from pagewise.errors import UsageError
from pagewise.fleet import files_of, is_many
from pagewise.grids.policies import Replacement, parse_memory
from pagewise.grids.requests import Request
from pagewise.grids.simulations import Simulation
from pagewise.grids.traces import TraceSource, escaped
from pagewise.spec_files import Problems, read_toml, require_known, require_table, require_text
from pagewise.storage import exists, is_remote, local_path
from pagewise.units import LIMIT, parse_size

SCHEMA = "pagewise.sweep/1"
TOP_KEYS = {"schema", "traces", "sizes", "seeds", "scenario", "device", "architecture", "policy"}
POLICY_KEYS = {"name", "options", "sizes"}
ARCHITECTURE_KEYS = {"name", "profile", "options"}
DEVICE_KEYS = {"fast", "slow"}
TABLES = {"scenario", "device", "architecture", "policy"}
OF_ARCHITECTURES = ("sizes", "device", "architecture")
STAND_INS = ("4/5us", "90/40us")
RATIOS = "ratios"
"""The ratios of latencies for ``fast = "ratios"``, over which a conclusion must hold."""
Read = TypeVar("Read")


@dataclass(frozen=True)
class Grid:
    """Every combination of a trace and a request."""

    traces: tuple[TraceSource, ...]
    requests: tuple[Request, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.traces) * len(self.requests)


def load(path: str | Path) -> Grid:
    """The grid of a spec file. Raises UsageError that names every problem and its place."""
    problems = Problems(str(path))
    grid = draft(read_toml(Path(path)), problems, folder=Path(path).parent)
    problems.refuse()
    return grid


def parse(spec: Mapping[str, object], *, folder: Path = Path()) -> Grid:
    """The grid of a spec as a mapping; raises as `load` does."""
    problems = Problems()
    grid = draft(spec, problems, folder=folder)
    problems.refuse()
    return grid


def draft(spec: Mapping[str, object], problems: Problems, *, folder: Path = Path()) -> Grid:
    """The grid of the valid part of a spec; appends the problems of the rest to ``problems``."""
    with problems.at("the spec"):
        require_known(spec, TOP_KEYS, "the spec")
    with problems.at("schema"):
        if spec.get("schema", SCHEMA) != SCHEMA:
            raise UsageError(f"the spec is for {spec['schema']!r}, not for {SCHEMA!r}")
    seeds = _sound(spec, "seeds", lambda seed, _: [_seed(seed)], problems, default=[0])
    traces = _sound(
        spec, "traces", lambda name, place: _traces(str(name), folder, place), problems, default=[]
    )
    traces += _sound(
        spec,
        "scenario",
        lambda table, place: [_scenario(table, seed, place) for seed in seeds],
        problems,
        default=[],
    )
    with problems.at("the spec"):
        if not spec.get("traces") and not spec.get("scenario"):
            raise UsageError("the spec names neither traces nor scenarios")
    requests: list[Request] = [
        *(_simulations(spec, problems) if _has_architectures(spec) else ()),
        *_sound(spec, "policy", _replacements, problems, default=[]),
    ]
    return Grid(_once(traces), tuple(dict.fromkeys(requests)))


def _once(traces: Sequence[TraceSource]) -> tuple[TraceSource, ...]:
    """The traces without those whose address an earlier entry has, under whatever name."""
    found: dict[object, TraceSource] = {}
    for trace in traces:
        found.setdefault(trace.address or trace, trace)
    return tuple(found.values())


def _has_architectures(spec: Mapping[str, object]) -> bool:
    """Whether a spec has any part of architectures; a spec without policies must have one."""
    return any(name in spec for name in OF_ARCHITECTURES) or not spec.get("policy")


def _simulations(spec: Mapping[str, object], problems: Problems) -> list[Simulation]:
    # If every size or device is wrong, defaults stand in, so that architectures are checked too.
    sizes = _sound(spec, "sizes", lambda size, _: [_size(size)], problems) or [0]
    devices = _sound(spec, "device", _devices, problems) or [STAND_INS]
    return _sound(
        spec,
        "architecture",
        lambda table, place: _requests(table, place, sizes, devices),
        problems,
    )


def _sound(
    spec: Mapping[str, object],
    name: str,
    read: Callable[[object, str], Iterable[Read]],
    problems: Problems,
    *,
    default: list[object] | None = None,
) -> list[Read]:
    """The parsed entries of a list; appends the problems of the others."""
    entries: list[object] = []
    with problems.at("the spec"):
        entries = _list(spec, name, default=default)
    found: list[Read] = []
    for number, entry in enumerate(entries, start=1):
        place = f"[[{name}]] {number}" if name in TABLES else f"{name}, entry {number}"
        with problems.at(place):
            found += read(entry, place)
    return found


def _size(value: object) -> int:
    # It refuses values of other types.
    return parse_size(value)  # type: ignore[arg-type]


def _seed(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < LIMIT:
        raise UsageError(f"a seed must be a whole number from 0 to {LIMIT - 1}, not {value!r}")
    return value


def _traces(address: str, folder: Path, place: str) -> list[TraceSource]:
    """The trace at an address, or those in a folder or of a pattern, whose names begin below the
    folder that all share."""
    if not is_remote(address) and not address.startswith("file://"):
        is_pattern = has_magic(address) and not os.path.lexists(folder / address)
        address = str(Path(escape(str(folder)) if is_pattern else folder) / address)
    if not is_fleet(address):
        name = escaped(address.rsplit("/", 1)[-1])
        return [TraceSource(name=name, address=address, place=place)]
    files = files_of(address)
    folders = [file.split("/")[:-1] for file in files]
    first, last = min(folders), max(folders)
    pairs = zip(first, last, strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return [
        TraceSource(escaped("/".join(file.split("/")[shared:])), file, place=place, is_of_many=True)
        for file in files
    ]


def is_fleet(address: str) -> bool:
    """Whether an address in a spec is a folder or a pattern, not a single file.

    Elsewhere than on this machine, the address of a folder ends with a slash.
    """
    if not is_remote(address):
        return is_many(local_path(address))
    return address.endswith("/") or (has_magic(address) and not exists(address))


def _scenario(parameters: object, seed: int, place: str) -> TraceSource:
    given: dict[str, str | int | float] = {}
    for parameter, value in require_table(parameters, place).items():
        if not isinstance(value, (str, int, float)):
            raise UsageError(f"{parameter} must be a number or text, not {value}")
        given[parameter] = value
    name = str(given.pop("name", "scenario"))
    given["seed"] = seed
    return TraceSource(name=name, scenario=tuple(sorted(given.items())), seed=seed, place=place)


def _devices(device: object, place: str) -> list[tuple[str, str]]:
    """The pairs (fast, slow) of one ``[[device]]``."""
    require_known(device, DEVICE_KEYS, place)
    table = require_table(device, place)
    fast, slow = (require_text(table, name, place) for name in ("fast", "slow"))
    _core.device(slow)
    if fast == RATIOS:
        return [(times, slow) for times in _core.latency_ratios(slow)]
    _core.device(fast)
    return [(fast, slow)]


def _requests(
    architecture: object, place: str, sizes: Sequence[int], devices: Sequence[tuple[str, str]]
) -> list[Simulation]:
    """The requests that one ``[[architecture]]`` spans."""
    require_known(architecture, ARCHITECTURE_KEYS, place)
    table = require_table(architecture, place)
    profile = str(table["profile"]) if "profile" in table else None
    name = require_text(table, "name", place)
    return [
        Simulation(name, size, fast, slow, options, profile, place=place)
        for options in _options(table, place)
        for size in sizes
        for fast, slow in devices
    ]


def _replacements(policy: object, place: str) -> list[Replacement]:
    """The requests that one ``[[policy]]`` spans."""
    require_known(policy, POLICY_KEYS, place)
    table = require_table(policy, place)
    name = require_text(table, "name", place)
    given = table.get("sizes")
    if not isinstance(given, list) or not given:
        raise UsageError(
            f"{place} needs 'sizes', a list with at least one entry",
            hint="pages (1000), bytes ('64MiB') or a share of the trace's pages ('10%')",
        )
    sizes = [parse_memory(size) for size in given]
    return [
        Replacement(name, size, options, place)
        for options in _options(table, place)
        for size in sizes
    ]


def _options(table: Mapping[str, object], place: str) -> Iterator[tuple[tuple[str, str], ...]]:
    """Every combination of the option values of one table."""
    options = require_table(table.get("options", {}), f"{place}, options")
    names = sorted(options)
    choices = [
        value if isinstance(value, list) else [value] for value in (options[name] for name in names)
    ]
    for values in itertools.product(*choices):
        yield tuple((name, option_text(value)) for name, value in zip(names, values, strict=True))


def option_text(value: object) -> str:
    """An option's value as on the command line: true is ``yes``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _list(
    spec: Mapping[str, object], name: str, *, default: list[object] | None = None
) -> list[object]:
    value = spec.get(name, default)
    if not isinstance(value, list) or (not value and default is None):
        raise UsageError(f"the spec needs {name!r}, a list with at least one entry")
    return value
