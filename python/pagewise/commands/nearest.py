"""The known names that resemble a misspelled one."""

from __future__ import annotations

import re
from difflib import get_close_matches

UNKNOWN = re.compile(
    r"""["'](?P<name>[^"'\n]{1,40})["'];[ ]
    (?:known[ ]are|there[ ]are:?|formats[ ]are|one[ ]of)[ ]
    (?P<known>[\w.-]+(?:,[ ][\w.-]+)*)""",
    re.VERBOSE,
)
"""An unknown name in an error, with the known names after it."""


def meant(error: str) -> str | None:
    """The question `Did you mean ...?` for an error that lists names.

    None if no name is similar, and for a list of several errors, to which it would not belong.
    """
    found = UNKNOWN.search(error)
    if found is None or "\n" in error:
        return None
    name, known = found["name"], found["known"].split(", ")
    begun = [each for each in known if plain(name) and plain(each).startswith(plain(name))]
    similar = begun[:3] or get_close_matches(name, known)
    return f"Did you mean {' or '.join(similar)}?" if similar else None


def plain(name: str) -> str:
    """The letters and digits of a name, in lower case."""
    return "".join(filter(str.isalnum, name)).lower()
