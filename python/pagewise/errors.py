"""Every exception that pagewise raises on purpose, in one family.

Each says what was wrong, where, and what to do about it; ``exit_status`` is what the command line
then returns. A traceback is only ever our own bug.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which an interrupt could meet while it loads
if TYPE_CHECKING:
    from typing import ClassVar


class PagewiseError(Exception):
    """Root of the family.

    ``path`` is the file concerned, ``position`` the place in it (``"byte 4096"``, ``"line 12"``),
    ``hint`` says what to do. Each is None where there is none.
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
    """The request makes no sense: an unknown name, a malformed size, an impossible combination."""

    exit_status = 2


class NothingRecorded(PagewiseError):
    """The recording is readable and holds no access, so there is nothing to conclude from it."""

    exit_status = 1


class UnreadableInput(PagewiseError):
    """A file is missing, truncated, corrupt or of no known format."""

    exit_status = 3


class DataLost(PagewiseError):
    """The recording lost more than the limit the caller set."""

    exit_status = 4


class UnwritableOutput(PagewiseError):
    """The operating system refused to write the result. Nothing half-written is left; of a capture
    something may be, which the hint tells."""

    exit_status = 3


class Missing(PagewiseError):
    """An optional program or package is needed for this and is not installed."""

    exit_status = 2


OF_CLUSTERS = "in the folder of pagewise's source: .venv/bin/python -m pip install '.[ray]'"
"""The hint where Ray or fsspec is missing. Never by the name pagewise, which another project has in
the registry."""
