"""The HTML report: one self-contained file that opens without network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TYPE_CHECKING = False  # not from typing, which an interrupt could meet while it loads
if TYPE_CHECKING:
    from typing import Any

    from pagewise.recording import PathLike, Progress


def report(
    results: Sequence[PathLike | Mapping[str, Any]],
    output: PathLike,
    *,
    title: str | None = None,
    command: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Writes one HTML file about any mix of results and returns where it lies and how large it is.

    ``results``: JSON outputs of analyze, misses, simulate, study and advise (files, or the
    dictionaries themselves), results of a sweep, and recordings, which are analyzed on the fly.
    ``command`` is the exact command line, for the section on method. The file appears whole or not
    at all; an existing one is replaced only with ``force``.
    """
    from pagewise.report.build import build

    return build(results, output, title=title, command=command, force=force, progress=progress)
