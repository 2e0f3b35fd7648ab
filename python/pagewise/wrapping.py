"""Wraps prose at the width of a terminal, but never a command that someone may paste.

A command is what stands in backticks, or what begins with one of `PROGRAMS` and ends with the line.
A terminal breaks a long command by itself, which leaves it whole when it is copied.
"""

from __future__ import annotations

import re
from textwrap import wrap

PROGRAMS = (
    "pagewise",
    "pagewise-agent",
    ".venv/bin/python",
    "apt-get",
    "chmod",
    "cat",
    "echo",
    "make build",
)
"""How commands in messages begin, if they are not in backticks."""
COMMAND = re.compile(rf"`[^`\n]+`|(?<!\S)(?:{'|'.join(map(re.escape, PROGRAMS))}) .*")
GLUE = "\N{NO-BREAK SPACE}"
"""Stands for a space at which no line may end. Printable text has no other: `printable` spells it
out."""
NARROWEST = 20
"""Columns that text beside a name needs; on a narrower terminal it is below the name."""


def unbroken(text: str) -> str:
    """The text with `GLUE` for every space."""
    return text.replace(" ", GLUE)


def wrapped(text: str, width: float, *, indent: int = 0) -> list[str]:
    """The lines of a text, each at most ``width`` wide unless a word or a command is longer.

    Continued lines are indented as the line that they continue, by at least ``indent``.
    """
    lines = []
    for line in text.split("\n"):
        if len(line) + indent > width:
            line = COMMAND.sub(lambda found: unbroken(found[0]), line)
            lines += broken(line, int(width), indent)
        else:
            lines.append(line)
    return [line.replace(GLUE, " ") for line in lines]


def broken(line: str, width: int, indent: int) -> list[str]:
    """A line in parts. The first part has no ``indent``, but room for it."""
    own = len(line) - len(line.lstrip(" "))
    parts = wrap(
        line.strip(" "),
        max(width - indent - own, 1),
        break_long_words=False,
        break_on_hyphens=False,
    )
    margins = [" " * own] + [" " * (indent + own)] * len(parts)
    return [margin + part for margin, part in zip(margins, parts, strict=False)]


def columns(rows: list[tuple[str, str]], width: float) -> list[tuple[str, list[str]]]:
    """Names, padded to equal width, each with the lines of its text beside it."""
    names = max((len(name) for name, _ in rows), default=0) + 2
    if width - names < NARROWEST:
        below = [(name, wrapped(f"    {text}", width)) for name, text in rows]
        return [(name.rstrip(), ["", *lines]) for name, lines in below]
    return [(name.ljust(names), wrapped(text, width, indent=names)) for name, text in rows]
