"""The command line: gathers the commands of the catalog, and turns errors into exit statuses.

0 fine, 1 a finding or threshold, 2 usage or a program that is missing, 3 unreadable input, 4 data
lost; 128 and the number of the signal that ended it: 130 after Ctrl-C, 143 after SIGTERM.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from inspect import cleandoc
from typing import Annotated

import typer
from typer.exceptions import TyperException

from pagewise import _core
from pagewise.commands import COMMANDS
from pagewise.commands.options import epilog
from pagewise.errors import PagewiseError
from pagewise.signals import Ended, status_of
from pagewise.terminal import leave_pipes, say

USAGE = 2
UNWRITABLE = 3

app = typer.Typer(
    name="pagewise",
    help="What should give when memory runs short: measured, simulated, advised from recordings.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Start here: pagewise demo. Every command explains itself: pagewise COMMAND --help. "
        "Recordings of your own machine: pagewise-agent record."
    ),
)

for _row in COMMANDS:
    if isinstance(_row.run, typer.Typer):
        app.add_typer(_row.run, name=_row.name, rich_help_panel=_row.panel)
    else:
        app.command(_row.name, rich_help_panel=_row.panel, epilog=epilog(_row.examples))(_row.run)


def unwrap(commands: typer.Typer) -> None:
    """Joins the lines of docstrings: the help keeps their ends, and wraps at others besides."""
    for command in commands.registered_commands:
        paragraphs = cleandoc((command.callback and command.callback.__doc__) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in commands.registered_groups:
        if group.typer_instance:
            unwrap(group.typer_instance)


unwrap(app)


def print_version(is_asked: bool) -> None:
    """Prints the version and leaves, if that was asked."""
    if is_asked:
        print(f"pagewise {_core.version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=print_version),
    ] = False,
) -> None:
    """Takes the options that belong to no command."""


def run(arguments: list[str] | None = None) -> int:
    """Runs the command that ``arguments`` (default: those of the process) name; its exit status."""
    try:
        status = app(args=arguments, prog_name="pagewise", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except (BrokenPipeError, SystemExit):
        # Outside its standalone mode only a console whose reader has gone makes typer exit.
        leave_pipes()
        return 0
    except PagewiseError as error:
        say(f"pagewise: {error}")
        if error.hint:
            say(f"  {error.hint}")
        return error.exit_status
    except TyperException as error:
        # Without a message the help was asked for by giving no argument, and is printed already.
        if message := error.format_message():
            context = getattr(error, "ctx", None)
            say(f"pagewise: {message}")
            say(f"  see: {context.command_path if context else 'pagewise'} --help")
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        return ended(Ended(signal.SIGINT))
    except Ended as error:
        return ended(error)
    except OSError as error:
        say(f"pagewise: {error.filename or 'input or output'}: {error.strerror or error}")
        leave_pipes()
        return UNWRITABLE


def ended(error: Ended) -> int:
    """Says which signal ended the command, where there is still somebody to say it to."""
    with suppress(OSError):
        say(f"pagewise: {error}")
    return status_of(error.number)
