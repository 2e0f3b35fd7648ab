"""The error about arguments that no command takes, such as the files of an unquoted pattern."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from pagewise.units import format_count

EXTRA = re.compile(r"(Got unexpected extra argument\(s\)) \((.*)\)", re.DOTALL)
"""How typer reports arguments that a command does not take."""
SHOWN_MAX = 3
"""How many of the arguments the error shows."""
OF_FLEETS = "put the pattern in quotes, or name the folder"
"""What to do if the shell has replaced a pattern by the names of files."""


def shortened(message: str, words: Sequence[str]) -> tuple[str, str | None]:
    """An error of typer with the first few of the arguments that a command does not take, and what
    to do if these are files and the command takes a folder of them.

    ``words``: the command line, which begins with the name of the command. Other errors stay as
    they are.
    """
    match = EXTRA.fullmatch(message)
    if not match:
        return message, None
    extra = found_in(match[2], words)
    shown = " ".join(extra[:SHOWN_MAX])
    more = len(extra) - SHOWN_MAX
    text = f"{match[1]} ({shown}{f' and {format_count(more)} more' if more > 0 else ''})"
    is_of_files = takes_folders(words[0]) and os.path.exists(extra[0])
    return text, OF_FLEETS if is_of_files else None


def found_in(joined: str, words: Sequence[str]) -> list[str]:
    """The words of a command line that a text joins with blanks."""
    found, rest = [], f"{joined} "
    for word in words:
        if rest.startswith(f"{word} "):
            found.append(word)
            rest = rest[len(word) + 1 :]
    return joined.split(" ") if rest else found


def takes_folders(command: str) -> bool:
    """Whether a command takes a folder of recordings."""
    from pagewise.layouts import OF_COMMANDS

    return "fleet" in OF_COMMANDS.get(command, ())
