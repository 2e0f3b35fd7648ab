"""Help texts and the errors about missing arguments, for a terminal of any width.

Commands in backticks are never wrapped. Long examples break only after a backslash. So both can be
pasted. Below `NARROW` columns, descriptions of options are under their names.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from textwrap import fill
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from pagewise.commands.elsewhere import place_of
from pagewise.errors import UsageError
from pagewise.wrapping import GLUE, QUOTED, glued

WIDTH_MAX = 100
NARROW = 60
"""Terminals with fewer columns have no room for two columns of text."""
TERM_MAX = 30
"""Width of the column of options; a longer option has its own line."""
USAGE = 2
RANGE = re.compile(r"(\d+)<=x<=(\d+)")
FROM = re.compile(r"x>=(\d+)")
"""How typer writes a range of numbers."""
BEFORE_OPTION = re.compile(r" (?=--?[a-z])")

Row = tuple[str, str]


class Command(TyperCommand):
    """A command with plain-text help, which reports all missing arguments together."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help."""
        formatter.write(help_text(self, ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Takes the arguments; raises UsageError with all that are missing."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            missing = missing_of(self, ctx, given)
            if getattr(error, "param", None) not in missing:
                raise
            names = ", ".join(term(param) for param in missing)
            rows = [(term(param), param.help or "") for param in missing]
            hint = "\n".join([*listed(rows), f"  see: {ctx.command_path} --help"])
            raise UsageError(f"missing: {names}", hint=hint.strip()) from error


class Group(TyperGroup):
    """A group of commands with plain-text help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help."""
        formatter.write(help_text(self, ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Takes the arguments; without any, shows the help."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(help_text(self, ctx))
            raise typer.Exit(USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Finds the command; raises UsageError if it is elsewhere."""
        name = args[0]
        if ctx.parent is None and name not in self.commands and (place := place_of(name)):
            line = f"{place} {name}"
            raise UsageError(f"{name} is a command of {place}: {line}", hint=f"see: {line} --help")
        return super().resolve_command(ctx, args)


def missing_of(command: Command, ctx: Any, args: list[str]) -> list[Any]:
    """The required arguments and options that ``args`` lack."""
    options, _, _ = command.make_parser(ctx).parse_args(args=args)
    return [
        param
        for param in command.get_params(ctx)
        if param.required and param.value_is_missing(param.consume_value(ctx, options)[0])
    ]


def help_text(command: Command | Group, ctx: Any) -> str:
    """The help of a command or group."""
    params = [param for param in command.get_params(ctx) if not getattr(param, "hidden", False)]
    arguments = [param for param in params if is_argument(param)]
    options = [param for param in params if not is_argument(param)]
    metavars = [
        term(param) if param.required else f"[{term(param).strip('[]')}]" for param in arguments
    ]
    rest = ["COMMAND [ARGUMENT]..."] if isinstance(command, Group) else metavars
    lines = [" ".join(["Usage:", ctx.command_path, "[OPTIONS]", *rest]), ""]
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        lines += [wrapped(paragraph), ""]
    lines += section("Arguments", described(arguments, ctx))
    lines += section("Options", described(options, ctx))
    if isinstance(command, Group):
        for panel, rows in commands_of(command, ctx).items():
            lines += section(panel, rows)
    if command.epilog:
        lines.append("Examples:")
        for example in command.epilog.splitlines():
            lines += continued(example)
        lines.append("")
    return "\n".join(lines)


def is_argument(param: Any) -> bool:
    """Whether a parameter is positional."""
    return bool(param.param_type_name == "argument")


def term(param: Any) -> str:
    """An argument or option as written on the command line."""
    if is_argument(param):
        name = str(param.metavar or param.name.upper())
        return name if param.nargs == 1 or name.endswith("...") else f"{name}..."
    both = [sorted(names, key=len) for names in (param.opts, param.secondary_opts) if names]
    names = "/".join(", ".join(names) for names in both)
    if param.is_flag or param.count:
        return names
    choices = getattr(param.type, "choices", ())
    return f"{names} {param.metavar or '|'.join(map(str, choices)) or param.name.upper()}"


def described(params: Iterable[Any], ctx: Any) -> list[Row]:
    """Arguments or options with their descriptions."""
    records = ((term(param), param.get_help_record(ctx)) for param in params)
    return [(name, ranges_in_words(record[1])) for name, record in records if record]


def ranges_in_words(text: str) -> str:
    """A text of typer with its ranges of numbers in words: `1 to 9`, `1 or more`."""
    return FROM.sub(r"\1 or more", RANGE.sub(r"\1 to \2", text))


def commands_of(group: Group, ctx: Any) -> dict[str, list[Row]]:
    """The commands of a group with their first paragraphs, by heading."""
    panels: dict[str, list[Row]] = {}
    for name in group.list_commands(ctx):
        command: Any = group.get_command(ctx, name)
        if not command.hidden:
            rows = panels.setdefault(command.rich_help_panel or "Commands", [])
            rows.append((name, cleandoc(command.help or "").split("\n\n")[0]))
    return panels


def section(title: str, rows: list[Row]) -> list[str]:
    """A heading and its rows; empty without rows."""
    return [f"{title}:", *listed(rows), ""] if rows else []


def listed(rows: list[Row]) -> Iterator[str]:
    """Terms and their texts: side by side, or one below the other on a narrow terminal."""
    is_narrow = width() < NARROW
    longest = max((len(name) for name, _ in rows if len(name) <= TERM_MAX), default=0)
    indent = 6 if is_narrow else min(longest, TERM_MAX) + 4
    for name, text in rows:
        first = f"  {name}"
        if is_narrow or len(first) + 2 > indent:
            yield first
            first = ""
        if text:
            yield wrapped(text, first=first.ljust(indent), rest=" " * indent)
        elif first:
            yield first


def continued(example: str) -> Iterator[str]:
    """An example, indented; a long one continues on the next line after a backslash. Lines break
    only before options."""
    line, indent = "  ", " " * 6
    for part in BEFORE_OPTION.split(example):
        if line.strip() and len(line) + len(part) + len(" \\") > width():
            yield f"{line.rstrip()} \\"
            line = indent
        line += f"{part} "
    yield line.rstrip()


def wrapped(text: str, first: str = "", rest: str = "") -> str:
    """Text wrapped to the width of the terminal, but not within backticks."""
    filled = fill(
        glued(" ".join(text.split()), QUOTED),
        width(),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace(GLUE, " ")


def width() -> int:
    """Columns of the terminal, at most `WIDTH_MAX`."""
    return min(shutil.get_terminal_size().columns, WIDTH_MAX)
