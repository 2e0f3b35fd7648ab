"""Wraps prose at the width of a terminal, but never a command that someone may paste.

A command is what stands in backticks, or what begins with one of `PROGRAMS` at the start of a line
or after `: `, `; ` or `| `. It ends before the next `: ` or `; ` outside quotes, or with the line.
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
QUOTED = re.compile(r"`[^`\n]+`")
"""A command or a name in backticks."""
BEGINS = r"(?<![^ ])(?<![^:;| ] )"
"""Matches at the start of a line, and after `: `, `; ` or `| `."""
WORDS = r"""(?:'[^'\n]*'|"[^"\n]*"|[^:;\n]|[:;](?![ ]|$))*"""
"""Matches up to `: ` or `; ` outside quotes, or the end of the line."""
COMMAND = re.compile(
    rf"{QUOTED.pattern}|{BEGINS}(?:{'|'.join(map(re.escape, PROGRAMS))}) {WORDS}", re.MULTILINE
)
GLUE = "\N{NO-BREAK SPACE}"
"""Stands for a space at which no line may end. Printable text has no other: `printable` spells it
out."""
NARROWEST = 20
"""Columns that text beside a name needs; beside a longer name, the text is below it."""
GAP = 2
"""Columns between a name and its text."""
BELOW = 4
"""Indent of texts below their names if no name has its text beside it."""


def unbroken(text: str) -> str:
    """The text with `GLUE` for every space."""
    return text.replace(" ", GLUE)


def glued(text: str, commands: re.Pattern[str] = COMMAND) -> str:
    """The text with `GLUE` for every space in its ``commands``."""
    return commands.sub(lambda found: unbroken(found[0]), text)


def wrapped(
    text: str, width: float, *, indent: int = 0, commands: re.Pattern[str] = COMMAND
) -> list[str]:
    """The lines of a text, each at most ``width`` wide unless a word or a command is longer.

    Continued lines are indented as the line that they continue, by at least ``indent``. What
    matches ``commands`` is never broken.
    """
    lines = []
    for line in text.split("\n"):
        if len(line) + indent > width:
            lines += broken(glued(line, commands), int(width), indent)
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
    margins = [own] + [indent + own] * len(parts)
    # A word that is too long beside a name may fit with a smaller margin.
    margins[1:] = [
        max(width - len(part), 0) if margin + len(part) > width else margin
        for margin, part in zip(margins[1:], parts[1:], strict=False)
    ]
    return [" " * margin + part for margin, part in zip(margins, parts, strict=False)]


def columns(
    rows: list[tuple[str, str]], width: float, *, commands: re.Pattern[str] = COMMAND
) -> list[tuple[str, list[str]]]:
    """Names, padded to equal width, each with the lines of its text beside it.

    A name that leaves its text fewer than `NARROWEST` columns, or less than half of the width, has
    the text below it. The other names thus keep theirs beside them.
    """
    longest = width - max(NARROWEST, width / 2) - GAP
    names = max((len(name) + GAP for name, _ in rows if len(name) <= longest), default=0)
    found = []
    for name, text in rows:
        if len(name) <= longest:
            beside = wrapped(text, width, indent=names, commands=commands)
            found.append((name.ljust(names), beside))
        else:
            below = " " * (names or BELOW) + text
            found.append((name, ["", *wrapped(below, width, commands=commands)]))
    return found
