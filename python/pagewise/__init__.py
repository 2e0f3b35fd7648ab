"""What should give when memory runs short: measured, simulated and advised from recordings.

The names and options are those of the command line::

    import pagewise as pw

    trace = pw.read("examples/swap700.pgw.zst")
    print(pw.analyze(trace)["single_access"])
    print(pw.misses(trace, policy=["lru", "s3-fifo"], frames=["64MiB"])["misses"])

Results are plain dictionaries with the field names of the ``--json`` output; events and other long
columns are Arrow streams that polars, pyarrow and duckdb take as they are. Whatever goes wrong
raises a :class:`pagewise.errors.PagewiseError`.
"""

from pagewise._core import version as _version
from pagewise.errors import (
    DataLost,
    Missing,
    PagewiseError,
    UnreadableInput,
    UnwritableOutput,
    UsageError,
)
from pagewise.grids.run import sweep
from pagewise.questions import analyze, misses, simulate
from pagewise.recording import Trace, import_trace, read, slice_trace
from pagewise.report import report

__version__ = _version()

__all__ = [
    "DataLost",
    "Missing",
    "PagewiseError",
    "Trace",
    "UnreadableInput",
    "UnwritableOutput",
    "UsageError",
    "analyze",
    "import_trace",
    "misses",
    "read",
    "report",
    "simulate",
    "slice_trace",
    "sweep",
]
