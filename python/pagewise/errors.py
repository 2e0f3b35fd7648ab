"""The exceptions that pagewise raises on purpose.

Each says what was wrong, where, and what to do; ``exit_status`` is the exit status of the command
line. A traceback is always a bug in pagewise.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: an interrupt could arrive while typing loads
if TYPE_CHECKING:
    from typing import ClassVar


class PagewiseError(Exception):
    """The root of all exceptions.

    ``path`` is the file, ``position`` the place in it (``"byte 4096"``, ``"line 12"``), and
    ``hint`` says what to do. Each is None if it does not apply.
    """

    exit_status: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        position: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.position = position
        self.hint = hint


class UsageError(PagewiseError):
    """The request is not valid: an unknown name, a malformed size, an impossible combination."""

    exit_status = 2


class NothingRecorded(PagewiseError):
    """The recording is readable but has no accesses, so there is nothing to analyze."""

    exit_status = 1


class UnreadableInput(PagewiseError):
    """A file is missing, truncated, corrupt or of an unknown format."""

    exit_status = 3


class DataLost(PagewiseError):
    """The recording lost more than the limit that the caller set."""

    exit_status = 4


class UnwritableOutput(PagewiseError):
    """The operating system refused to write the result.

    No partial file is left, except of a capture; the hint then says what is left.
    """

    exit_status = 3


class Missing(PagewiseError):
    """An optional program or package that the request needs is not installed."""

    exit_status = 2


OF_CLUSTERS = "in the folder of pagewise's source: .venv/bin/python -m pip install '.[ray]'"
"""The hint if Ray or fsspec is missing. It installs from the source folder, since another project
has the name pagewise in the registry."""
