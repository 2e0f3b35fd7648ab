"""The command line: gathers the commands of the catalog, and turns errors into exit statuses.

0 fine, 1 a finding or threshold, 2 usage, 3 unreadable input, 4 data lost, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from pagewise import __version__
from pagewise.commands import COMMANDS
from pagewise.errors import PagewiseError
from pagewise.terminal import leave_pipe, say

INTERRUPTED = 130
USAGE = 2

app = typer.Typer(
    name="pagewise",
    help="What should give when memory runs short: measured, simulated, advised from recordings.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start here: pagewise demo. Every command explains itself: pagewise COMMAND --help.",
)

for _row in COMMANDS:
    if isinstance(_row.run, typer.Typer):
        app.add_typer(_row.run, name=_row.name, rich_help_panel=_row.panel)
    else:
        app.command(_row.name, rich_help_panel=_row.panel, epilog=_row.epilog())(_row.run)


def print_version(is_asked: bool) -> None:
    """Prints the version and leaves, if that was asked."""
    if is_asked:
        print(f"pagewise {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=print_version),
    ] = False,
) -> None:
    """Takes the options that belong to no command."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command that ``arguments`` (default: those of the process) name, and exits."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """The exit status of one command line."""
    try:
        status = app(args=arguments, prog_name="pagewise", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except BrokenPipeError:
        leave_pipe()
        return 0
    except PagewiseError as error:
        say(f"pagewise: {error}")
        if error.hint:
            say(f"  {error.hint}")
        return error.exit_status
    except TyperException as error:
        context = getattr(error, "ctx", None)
        say(f"pagewise: {error.format_message()}")
        say(f"  see: {context.command_path if context else 'pagewise'} --help")
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        say("pagewise: interrupted")
        return INTERRUPTED
    except OSError as error:
        say(f"pagewise: {error.filename or 'input or output'}: {error.strerror or error}")
        return 3
