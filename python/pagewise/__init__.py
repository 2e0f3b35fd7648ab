"""Simulates, compares and recommends what a Linux machine does when memory runs short.

The names and options are those of the command line::

    import pagewise as pw

    trace = pw.read("examples/phone-1g-long/phone-1g-long.pgr")
    print(pw.analyze(trace)["single_access"])
    print(pw.misses(trace, policy=["lru", "s3-fifo"], frames=["64MiB"])["misses"])

Results are plain dictionaries with the field names of the ``--json`` output, whose types are in
``pagewise.types``. Events are an Arrow stream, which polars, pyarrow and duckdb accept; single
columns and curves are numpy arrays. Every error is a :class:`pagewise.PagewiseError`. The interface
is ``__all__``, which docs/python.md lists; everything else may change.
"""

from __future__ import annotations

from importlib import import_module as _import_module

from pagewise.errors import (
    DataLost,
    Missing,
    NothingRecorded,
    PagewiseError,
    UnreadableInput,
    UnwritableOutput,
    UsageError,
)

# Imported at once: the function has the name of its package, and must replace it.
from pagewise.report import report

TYPE_CHECKING = False  # not from typing: an interrupt could arrive while typing loads
if TYPE_CHECKING:
    from typing import Any

    from pagewise import types as types
    from pagewise.advice.page_size.advise import advise_page_size
    from pagewise.advice.swap import advise_swap as advise
    from pagewise.binaries.check import check as check_page_size
    from pagewise.capture.run import capture as capture_references
    from pagewise.grids.run import sweep
    from pagewise.huge_pages.verify import verify as verify_page_size
    from pagewise.kill_replay import replay_kills
    from pagewise.lives import lifecycle
    from pagewise.page_size_answer import page_size
    from pagewise.questions import (
        analyze,
        devices,
        info,
        misses,
        simulate,
        simulate_as_recorded,
    )
    from pagewise.recording import Trace, import_trace, read, slice_trace
    from pagewise.reference_curves import curves
    from pagewise.references import import_references
    from pagewise.system_traces import compare_launches, kills, launches, pressure

    __version__: str

__all__ = [
    "DataLost",
    "Missing",
    "NothingRecorded",
    "PagewiseError",
    "Trace",
    "UnreadableInput",
    "UnwritableOutput",
    "UsageError",
    "advise",
    "advise_page_size",
    "analyze",
    "capture_references",
    "check_page_size",
    "compare_launches",
    "curves",
    "devices",
    "import_references",
    "import_trace",
    "info",
    "kills",
    "launches",
    "lifecycle",
    "misses",
    "page_size",
    "pressure",
    "read",
    "replay_kills",
    "report",
    "simulate",
    "simulate_as_recorded",
    "slice_trace",
    "sweep",
    "verify_page_size",
]

_HOMES = {
    "Trace": ("pagewise.recording", "Trace"),
    "advise": ("pagewise.advice.swap", "advise_swap"),
    "advise_page_size": ("pagewise.advice.page_size.advise", "advise_page_size"),
    "analyze": ("pagewise.questions", "analyze"),
    "capture_references": ("pagewise.capture.run", "capture"),
    "check_page_size": ("pagewise.binaries.check", "check"),
    "compare_launches": ("pagewise.system_traces", "compare_launches"),
    "curves": ("pagewise.reference_curves", "curves"),
    "devices": ("pagewise.questions", "devices"),
    "import_references": ("pagewise.references", "import_references"),
    "import_trace": ("pagewise.recording", "import_trace"),
    "info": ("pagewise.questions", "info"),
    "kills": ("pagewise.system_traces", "kills"),
    "launches": ("pagewise.system_traces", "launches"),
    "lifecycle": ("pagewise.lives", "lifecycle"),
    "misses": ("pagewise.questions", "misses"),
    "page_size": ("pagewise.page_size_answer", "page_size"),
    "pressure": ("pagewise.system_traces", "pressure"),
    "read": ("pagewise.recording", "read"),
    "replay_kills": ("pagewise.kill_replay", "replay_kills"),
    "simulate": ("pagewise.questions", "simulate"),
    "simulate_as_recorded": ("pagewise.questions", "simulate_as_recorded"),
    "slice_trace": ("pagewise.recording", "slice_trace"),
    "sweep": ("pagewise.grids.run", "sweep"),
    "verify_page_size": ("pagewise.huge_pages.verify", "verify"),
}
"""The module and the name of each attribute. They load on first use, so that the command line can
handle an interrupt before the compiled module is in memory."""


def __getattr__(name: str) -> Any:
    """Loads the version, the types of results, or a name of ``_HOMES``, on its first use."""
    if name == "__version__":
        return _import_module("pagewise._core").version()
    if name == "types":
        return _import_module("pagewise.types")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    globals()[name] = found = getattr(_import_module(module), attribute)
    if not isinstance(found, type):
        _import_module("pagewise.help_text").name_fields(found)
    return found


def __dir__() -> list[str]:
    """The names of ``__all__``, loaded or not, and the special names of every package."""
    special = (name for name in globals() if name.startswith("__") and name.endswith("__"))
    return sorted({*__all__, *special, "__version__"})
