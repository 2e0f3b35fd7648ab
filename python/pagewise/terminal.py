"""Output: results on standard output, progress and diagnostics on standard error.

Tables have aligned columns on a terminal, where prose wraps at its width and commands do not.
Elsewhere, tabs separate the cells for cut and awk, and no line is wrapped.

Names in recordings are hostile input. Nothing here interprets markup; escape sequences are removed,
and other control characters are spelled out. JSON keeps names as they are, escaped.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, TypeAlias

from pagewise.wrapping import QUOTED, unbroken, wrapped
from pagewise.wrapping import columns as beside

# rich would take a third of the time in which a command starts, so it loads only to print on a
# terminal.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from pagewise.answers import Setting
    from pagewise.recording import Progress


WIDTH, HEIGHT = 80, 25
"""The size of a terminal that does not say it."""


def leave_pipes() -> None:
    """Redirects broken pipes to /dev/null, so that the interpreter can flush and close them."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def console(*, stderr: bool = False) -> Console:
    """A console without markup, highlighting or emoji; it obeys NO_COLOR."""
    from rich.console import Console

    width = room(sys.stderr if stderr else sys.stdout)
    return Console(
        stderr=stderr,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
        width=None if width == math.inf else int(width),
        height=HEIGHT,  # rich uses the width only with a height
    )


def room(stream: IO[str] | None = None) -> float:
    """The width of a terminal (default: of standard output); unlimited elsewhere."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return math.inf
    try:
        asked = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        asked = 0
    try:
        return max(asked, 0) or os.get_terminal_size(stream.fileno()).columns or WIDTH
    except OSError:  # a terminal that is not a file of the kernel
        return WIDTH


def show(*parts: Part) -> None:
    """Prints the parts to standard output."""
    _print(sys.stdout, parts)


def say(message: str, *, path: str | None = None) -> None:
    """Prints a diagnostic to standard error, and never breaks the ``path`` in it."""
    message = printable(message)
    if path and " " in path:
        message = message.replace(printable(path), unbroken(printable(path)))
    _print(sys.stderr, [Prose(message)])


def show_aside(*parts: Part) -> None:
    """Prints the parts to standard error, because standard output belongs to another program."""
    _print(sys.stderr, parts)


def _print(stream: IO[str], parts: Iterable[Part]) -> None:
    """Prints the parts: verbatim text as it is, prose and tables at the width of a terminal.

    If the reader of the stream is gone (``| head``), discards the rest and exits with status 0.
    """
    lines = on_terminal if stream.isatty() else plain
    try:
        for part in parts:
            lines(stream, Prose(printable(part)) if isinstance(part, str) else part)
        stream.flush()
    except BrokenPipeError:
        leave_pipes()
        raise SystemExit(0) from None


def plain(stream: IO[str], part: Verbatim | Prose | Table) -> None:
    """Prints a part to a pipe or a file: no line wraps, and tabs separate the cells of tables."""
    if isinstance(part, Table):
        for line in part.lines():
            print(line, file=stream)
    elif isinstance(part, Prose):
        for line in wrapped(part.text, math.inf):
            print(line, file=stream)
    else:
        print(part.text, file=stream)


def on_terminal(stream: IO[str], part: Verbatim | Prose | Table) -> None:
    """Prints a part at the width of the terminal."""
    if isinstance(part, Verbatim):
        print(part.text, file=stream)
        return
    from rich.text import Text

    output, width = console(stderr=stream is sys.stderr), room(stream)
    lines: Iterable[Text]
    if isinstance(part, Prose):
        lines = map(Text, wrapped(part.text, width))
    elif part.columns:
        lines = part.text(int(width))
    else:
        lines = part.facts(width)
    for line in lines:
        output.print(line, soft_wrap=True)


def show_json(result: Mapping[str, object]) -> None:
    """Prints one object to standard output, and nothing else."""
    json.dump(result, sys.stdout, indent=2, ensure_ascii=True)
    sys.stdout.write("\n")
    sys.stdout.flush()


SEQUENCES = re.compile(
    r"""
    (?:\x1b\[|\x9b) [0-?]* [ -/]* [@-~]?                           # colours, the cursor
    | (?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])                          # links, titles
      (?: [^\x07\x1b\x9c\n]* (?:\x07|\x1b\\|\x9c) | [^\x1b\s]* )
    | \x1b [ -/]* [0-~]?                                            # modes, character sets
    | [\x80-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]     # direction of writing
    """,
    re.VERBOSE,
)
"""Escape sequences (ECMA-48) with their contents, and characters that change the writing direction.

The string of a command ends with the word if nothing else ends it. The same as `shown` in
crates/types/src/shown.rs."""


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters except tab and newline."""


def without_controls(text: str) -> str:
    """The text without escape sequences and control characters, for a page."""
    return CONTROLS.sub("", SEQUENCES.sub("", text))


def printable(text: object) -> str:
    """The text without escape sequences, with other control characters spelled out.

    A recording thus cannot control the terminal.
    """
    return "".join(
        character if character.isprintable() or character == "\n" else f"\\x{ord(character):02x}"
        for character in SEQUENCES.sub("", str(text))
    )


def cell(text: object) -> str:
    """The text on one line, without tabs."""
    return printable(text).replace("\n", "\\n")


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings; or, without headings, two columns: names and figures."""

    columns: Sequence[str]
    """Headings; only those of `Lines` may have several lines."""
    rows: Sequence[Sequence[str]]
    words: int
    """How many columns at the left are words; the others are figures."""

    def lines(self) -> Iterator[str]:
        """The rows with tabs between cells, headings first."""
        headings = [heading.replace("\n", " ") for heading in self.columns]
        for row in filter(None, [headings, *self.rows]):
            yield "\t".join(cell(text).strip() for text in row)

    def text(self, width: int) -> Iterator[Text]:
        """The lines in columns, with figures aligned right; several tables if one is too wide.

        In a table of names and texts no word is broken, since a name may be pasted.
        """
        from rich.text import Text

        from pagewise.table_layout import Column, layout
        from pagewise.table_layout import lines as lines_of

        if self.words == len(self.columns) == 2:
            yield from self.names(width)
            return
        cells = zip(*self.rows, strict=True) if self.rows else [[]] * len(self.columns)
        columns = [
            Column(heading if isinstance(heading, Lines) else cell(heading), texts, is_words)
            for heading, texts, is_words in zip(
                self.columns,
                [[cell(text) for text in column] for column in cells],
                [number < self.words for number in range(len(self.columns))],
                strict=True,
            )
        ]
        for number, placed in enumerate(layout(columns, width)):
            if number:
                yield Text()
            for line, is_heading in lines_of(placed):
                yield Text(line, "bold" if is_heading else "")

    def names(self, width: float) -> Iterator[Text]:
        """The lines of two columns of words: the heading, and names with texts beside them."""
        from rich.text import Text

        heading = [text.replace("\n", " ") for text in self.columns]
        rows = [(cell(name), quoted(text)) for name, text in [heading, *self.rows]]
        for number, (name, lines) in enumerate(beside(rows, width, commands=QUOTED)):
            for place, line in enumerate(lines):
                text = f"{name if place == 0 else ''}{line}".rstrip(" ")
                yield Text(text, "" if number else "bold")

    def facts(self, width: float) -> Iterator[Text]:
        """The lines of a table without headings on a terminal: names, and figures beside them."""
        from rich.text import Text

        rows = [(cell(name), quoted(text)) for name, text in self.rows]
        for name, lines in beside(rows, width):
            for number, line in enumerate(lines):
                yield Text.assemble((name if number == 0 else "", "dim"), line)


class Lines(str):
    """A heading that may have several lines."""


class Unbroken(str):
    """A text, such as a path, that is never wrapped beside a name."""


def quoted(text: str) -> str:
    """The cell of a text, in which no line ends if the text is `Unbroken`."""
    return unbroken(cell(text)) if isinstance(text, Unbroken) else cell(text)


def facts(rows: Sequence[tuple[str, str]]) -> Table:
    """Two columns without headings: names and figures."""
    return Table((), rows, words=2)


def figures(columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> Table:
    """A table whose first ``words`` columns are words; the others are figures, aligned right."""
    return Table(columns, rows, words)


@dataclass(frozen=True)
class Verbatim:
    """Text that is printed as it is, never wrapped or cut on a narrow terminal."""

    text: str


@dataclass(frozen=True)
class Prose:
    """Printable text that wraps at the width of a terminal."""

    text: str


Part: TypeAlias = str | Verbatim | Prose | Table
"""The parts that `show` prints."""

UNDO = "To undo:"
"""The line between a setting and its undo."""


def pasted(settings: Iterable[Setting]) -> Iterator[Part]:
    """The lines of settings and of their undo."""
    for setting in settings:
        yield ""
        yield f"{setting['title']}. {setting['note']}"
        yield Verbatim(setting["apply"])
        yield UNDO
        yield Verbatim(setting["undo"])


@contextmanager
def watched(label: str, *, counted: str = "", parts: int = 1) -> Iterator[Progress | None]:
    """A progress bar with the time left, on standard error, only if that is a terminal.

    With ``counted`` (``"cells"``), also shows how many are done, each of ``parts`` steps of
    progress.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    with Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[counted]}") if counted else TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[left]}"),
        console=console(stderr=True),
        transient=True,
    ) as bars:
        task = bars.add_task(printable(label), total=None, counted="", left="")

        def advance(done: int, total: int) -> None:
            of_all = f" of {total // parts}" if total else ""
            progress = f"{done // parts:,}{of_all} {counted}"
            left = "left" if total else ""  # a capture has no known end
            bars.update(task, completed=done, total=total or None, counted=progress, left=left)

        yield advance
