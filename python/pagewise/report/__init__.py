"""The HTML report: one self-contained file that opens without network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TYPE_CHECKING = False  # not from typing: an interrupt could arrive while typing loads
if TYPE_CHECKING:
    from pagewise.answers import ReportResult
    from pagewise.recording import PathLike, Progress


def report(
    results: Sequence[PathLike | Mapping[str, object]],
    output: PathLike,
    *,
    title: str | None = None,
    command: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> ReportResult:
    """Writes one HTML file about any mix of results; returns its path, size and panels.

    ``results`` are JSON outputs of analyze, misses, simulate, study and advise (files, or the
    dictionaries themselves), results of a sweep, and recordings, which are analyzed here.
    ``command`` is the command line to show in the section on method. The file is written completely
    or not at all; an existing file is replaced only with ``force``.
    """
    from pagewise.report.build import build

    return build(results, output, title=title, command=command, force=force, progress=progress)
