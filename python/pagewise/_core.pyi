"""The compiled module: thin conversions around the Rust crates. Use the functions of `pagewise`.

Results are dictionaries with the field names of the ``--json`` outputs. ``format``, ``mapping``
(``swap``, ``block``, ``objects``) and ``columns`` (pairs of role and column) say how a foreign
recording is read. ``progress(done, total)`` is called from time to time; an exception stops the
work. Long calls release the interpreter lock. Errors are the exceptions of `pagewise.errors`.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, final

from pagewise import tables, types

_Path = str | os.PathLike[str]
_Progress = Callable[[int, int], object]

@final
class ArrowStream:
    """A table that can be read once through the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def columns(self) -> list[str]: ...

def schemas() -> dict[str, dict[str, Any]]: ...
def part_schemas() -> dict[str, Any]: ...
def version() -> str: ...
def build() -> str: ...
def stop_running(stop: bool) -> None: ...
def import_trace(
    inputs: Sequence[_Path],
    output: _Path,
    format: str | None,
    mapping: str | None,
    columns: Sequence[tuple[str, str]],
    *,
    strict: bool = False,
    force: bool = False,
    progress: _Progress | None = None,
) -> types.ImportReport: ...
def info(
    path: _Path,
    format: str | None,
    mapping: str | None,
    columns: Sequence[tuple[str, str]],
    *,
    progress: _Progress | None = None,
) -> tuple[str, types.Events | types.Allocations | types.References]: ...
def csv_columns(
    path: _Path, format: str | None, mapping: str | None
) -> tuple[list[str], list[str]] | None: ...
def number_trace(
    path: _Path,
    format: str | None,
    mapping: str | None,
    columns: Sequence[tuple[str, str]],
    *,
    output: _Path,
    page_bytes: int = 4096,
    progress: _Progress | None = None,
) -> tuple[bool, int, int]: ...
def slice_trace(
    path: _Path,
    output: _Path,
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
    force: bool = False,
    progress: _Progress | None = None,
) -> types.Header: ...
def events(
    path: _Path,
    format: str | None,
    mapping: str | None,
    columns: Sequence[tuple[str, str]],
) -> ArrowStream: ...
def column(
    path: _Path,
    format: str | None,
    mapping: str | None,
    columns: Sequence[tuple[str, str]],
    name: str,
    *,
    progress: _Progress | None = None,
) -> tuple[bytes, str]: ...
def kinds() -> list[str]: ...
def classes() -> list[str]: ...
def roles() -> list[str]: ...
def formats() -> list[types.CatalogRow]: ...
def import_references(
    path: _Path,
    output: _Path,
    format: str | None,
    *,
    strict: bool = False,
    force: bool = False,
    progress: _Progress | None = None,
) -> types.ImportReferences: ...
def references_info(path: _Path, *, progress: _Progress | None = None) -> types.References: ...
def capture_references(
    stream: int,
    shared: int,
    output: _Path,
    command: Sequence[str],
    architecture: str,
    status: Callable[[], int | None],
    *,
    follows_threads: bool = False,
    filter_blocks: int = 64,
    force: bool = False,
    progress: _Progress | None = None,
) -> types.CaptureReport: ...
def capture_shared_bytes() -> int: ...
def reference_formats() -> list[types.CatalogRow]: ...
def is_allocations(path: _Path) -> bool: ...
def allocations_info(path: _Path, *, progress: _Progress | None = None) -> types.Allocations: ...
def replay_allocations(
    path: _Path, requests: str, *, progress: _Progress | None = None
) -> list[types.AllocatorOutcome]: ...
def allocators() -> list[types.CatalogRow]: ...
def replay_kills(
    path: _Path, request: str, *, progress: _Progress | None = None
) -> types.ReplayKills: ...
def launches(path: _Path, *, progress: _Progress | None = None) -> types.TraceLaunches: ...
def trace_kills(path: _Path, *, progress: _Progress | None = None) -> types.TraceKills: ...
def pressure(path: _Path, *, progress: _Progress | None = None) -> types.TracePressure: ...
def kill_policies() -> list[types.PolicyRow]: ...
def analyze(
    path: _Path,
    format: str | None,
    mapping: str | None,
    columns: Sequence[tuple[str, str]],
    *,
    top_processes: int | None = None,
    page_bytes: int | None = None,
    sample_rate: float | None = None,
    sample_pages: int | None = None,
    memory_limit: int | None = None,
    progress: _Progress | None = None,
) -> types.Analysis: ...
def misses(
    path: _Path,
    format: str | None,
    mapping: str | None,
    columns: Sequence[tuple[str, str]],
    *,
    policies: Sequence[str],
    frames: Sequence[int],
    sample_rate: float | None = None,
    sample_pages: int | None = None,
    memory_limit: int | None = None,
    progress: _Progress | None = None,
) -> types.Misses: ...
def reference_curves(
    path: _Path, question: str, *, progress: _Progress | None = None
) -> tuple[types.CurveSummary, list[bytes]]: ...
def limited_faults(
    path: _Path, question: str, *, progress: _Progress | None = None
) -> types.LimitedFaultCounts: ...
def describe_policy(text: str) -> types.DescribedPolicy: ...
def policies() -> list[types.PolicyRow]: ...
def simulate(
    path: _Path,
    format: str | None,
    mapping: str | None,
    columns: Sequence[tuple[str, str]],
    request: str,
    *,
    sample_rate: float | None = None,
    sample_pages: int | None = None,
    memory_limit: int | None = None,
    progress: _Progress | None = None,
) -> types.Simulate: ...
def simulate_many(
    path: _Path,
    format: str | None,
    mapping: str | None,
    columns: Sequence[tuple[str, str]],
    requests: str,
    *,
    marks: Sequence[int] = ...,
    progress: _Progress | None = None,
) -> list[types.Simulated]: ...
def simulate_as_recorded(
    path: _Path,
    *,
    moves: _Path | None = None,
    force: bool = False,
    progress: _Progress | None = None,
) -> types.AsRecorded: ...
def simulate_zram(
    path: _Path,
    format: str | None,
    mapping: str | None,
    columns: Sequence[tuple[str, str]],
    request: str,
    *,
    progress: _Progress | None = None,
) -> list[types.ZramCounts]: ...
def describe_request(request: str) -> types.DescribedRequest: ...
def architectures() -> list[types.ArchitectureRow]: ...
def devices() -> types.Devices: ...
def device(text: str) -> types.Device: ...
def latency_ratios(slow: str) -> list[str]: ...
def lifecycle(
    lives: str, *, room_bytes: int, progress: _Progress | None = None
) -> list[types.Lifecycle]: ...
def write_table(path: _Path, text: str) -> None: ...
def read_table(path: _Path) -> tables.Table: ...
def write_scenario(parameters: str, path: _Path) -> None: ...
def write_without_singles(source: _Path, path: _Path) -> None: ...
