"""Writes the man page and the shell completions of `pagewise` from its commands and options.

    python packaging/front_pages.py FOLDER

`pagewise-agent` writes its own (`pagewise-agent manual`, `pagewise-agent completions`). The
completions hold every name, so that a key press need not start Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from pagewise import _core
from pagewise.cli import app_of
from pagewise.commands import COMMANDS
from pagewise.commands.help import Row, commands_of, described, is_argument, term

MAN = "share/man/man1/pagewise.1"
BASH = "share/bash-completion/completions/pagewise"
ZSH = "share/zsh/vendor-completions/_pagewise"
FISH = "share/fish/vendor_completions.d/pagewise.fish"


@dataclass(frozen=True)
class HelpPage:
    """The help of one command. ``words`` are what the user types, as `pagewise advise swap`."""

    words: str
    paragraphs: list[str]
    arguments: list[Row]
    options: list[Row]
    switches: list[str]
    commands: list[Row]
    examples: list[str]


def main() -> None:
    """Writes the four files below the folder in the first argument, such as usr."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    pages = list(pages_of(typer.main.get_command(app_of(COMMANDS)), "pagewise", None))
    texts = {MAN: manual(pages), BASH: bash(pages), ZSH: zsh(pages), FISH: fish(pages)}
    for name, text in texts.items():
        path = Path(sys.argv[1], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def pages_of(command: Any, words: str, above: Any) -> Iterator[HelpPage]:
    """The page of a command, and those of its own commands."""
    context = typer.Context(command, info_name=words.rpartition(" ")[2], parent=above)
    params = [param for param in command.get_params(context) if not getattr(param, "hidden", False)]
    options = [param for param in params if not is_argument(param)]
    usage = [term(param) for param in params if is_argument(param)]
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    panels = commands_of(command, context) if names else {}
    yield HelpPage(
        words=words,
        paragraphs=[" ".join(text.split()) for text in (command.help or "").split("\n\n")],
        arguments=described([param for param in params if is_argument(param)], context)
        or [(name, "") for name in usage],
        options=described(options, context),
        switches=[name for param in options for name in [*param.opts, *param.secondary_opts]],
        commands=[row for rows in panels.values() for row in rows],
        examples=(command.epilog or "").splitlines(),
    )
    for name in names:
        yield from pages_of(command.get_command(context, name), f"{words} {name}", context)


def manual(pages: list[HelpPage]) -> str:
    """One man page: the program, then a section for each command."""
    first, *rest = pages
    lines = [
        f'.TH PAGEWISE 1 "" "pagewise {_core.version()}"',
        ".SH NAME",
        "pagewise \\- analyze, simulate and tune what Linux does when memory runs short",
        ".SH SYNOPSIS",
        "\\fBpagewise\\fR COMMAND [OPTION]... [ARGUMENT]...",
        ".SH DESCRIPTION",
        *body(first),
    ]
    for page in rest:
        lines += [f'.SH "{roff(page.words)}"', *body(page)]
    lines += [
        ".SH EXIT STATUS",
        "0 done, 1 a finding, a threshold or no answer, 2 wrong use or a missing program, "
        "3 unreadable input or output, 4 lost data, 128 plus the number of the signal that ended "
        "it.",
        ".SH SEE ALSO",
        "\\fBpagewise-agent\\fR(1)",
    ]
    return "\n".join(lines) + "\n"


def body(page: HelpPage) -> Iterator[str]:
    """The lines of a page below its heading."""
    for number, paragraph in enumerate(page.paragraphs):
        if number:
            yield ".PP"
        yield roff(paragraph)
    for title, rows in (
        ("Arguments", page.arguments),
        ("Options", page.options),
        ("Commands", page.commands),
    ):
        if rows:
            yield from (".PP", f"{title}:")
        for name, text in rows:
            yield from (".TP", f"\\fB{roff(name)}\\fR", roff(text))
    if page.examples:
        yield from (".PP", "Examples:", ".PP", ".nf", *map(roff, page.examples), ".fi")


def roff(text: str) -> str:
    """Text as roff reads it."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def bash(pages: list[HelpPage]) -> str:
    """Completions for bash: commands, options, else files."""
    cases = "\n".join(
        f"    {quoted(page.words)}) words={quoted(' '.join(next_words(page)))} ;;" for page in pages
    )
    return f"""\
_pagewise() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" command=pagewise word words
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$command $word" in
        {"|".join(quoted(page.words) for page in pages[1:])}) command="$command $word" ;;
        esac
    done
    case "$command" in
{cases}
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o bashdefault -o default -F _pagewise pagewise
"""


def zsh(pages: list[HelpPage]) -> str:
    """Completions for zsh: commands, options and files."""
    cases = "\n".join(
        f"    {quoted(page.words)}) names=({' '.join(map(quoted, next_words(page)))}) ;;"
        for page in pages
    )
    return f"""\
#compdef pagewise
local command=pagewise word
local -a names
for word in ${{words[2,CURRENT-1]}}; do
    case "$command $word" in
    {"|".join(quoted(page.words) for page in pages[1:])}) command="$command $word" ;;
    esac
done
case "$command" in
{cases}
esac
compadd -- $names
_files
"""


def fish(pages: list[HelpPage]) -> str:
    """Completions for fish: commands with their summaries, options with their texts."""
    lines = []
    for page in pages:
        words = page.words.split()[1:]
        seen = "".join(f"__fish_seen_subcommand_from {word}; and " for word in words)
        own = [name for name, _ in page.commands]
        none = f"not __fish_seen_subcommand_from {' '.join(own)}" if own else "true"
        when = quoted(seen + none)
        for name, text in page.commands:
            lines.append(f"complete -c pagewise -n {when} -f -a {name} -d {quoted(text)}")
        for name, text in page.options:
            for switch in name.split(" ")[0:2]:
                option = switch.rstrip(",")
                if option.startswith("--"):
                    long = option.split("/")[0].removeprefix("--")
                    lines.append(f"complete -c pagewise -n {when} -l {long} -d {quoted(text)}")
    return "\n".join(lines) + "\n"


def next_words(page: HelpPage) -> list[str]:
    """What may follow the words of a page."""
    return [*(name for name, _ in page.commands), *dict.fromkeys(page.switches)]


def quoted(text: str) -> str:
    """Text as one word of a shell. In fish and POSIX shells alike, only the quote needs care."""
    return "'" + text.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    main()
