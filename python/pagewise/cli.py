"""The command line: collects the commands of the catalog, and turns errors into exit statuses.

0 success, 1 a finding or a threshold, 2 usage or a missing program, 3 unreadable input, 4 lost
data; 128 plus the number of an ending signal: 130 after Ctrl-C, 143 after SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated

import typer
from typer.exceptions import TyperException

from pagewise import _core
from pagewise.commands import COMMANDS
from pagewise.commands import Command as Row
from pagewise.commands.extra import shortened
from pagewise.commands.help import USAGE, Command, Group, ranges_in_words
from pagewise.commands.nearest import meant
from pagewise.commands.options import epilog
from pagewise.errors import PagewiseError, UsageError
from pagewise.signals import Ended, status_of
from pagewise.terminal import leave_pipes, say, show_json

UNWRITABLE = 3


def app_of(rows: Iterable[Row], *, is_listing: bool = False) -> typer.Typer:
    """The command line with these commands, or only a listing of their names and summaries."""
    app = typer.Typer(
        name="pagewise",
        cls=Group,
        help="Simulate, compare and recommend what a Linux machine does when memory runs short."
        "\n\n`pagewise COMMAND --help` explains a command. "
        "`pagewise-agent record` makes recordings.",
        no_args_is_help=True,
        invoke_without_command=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=epilog(["pagewise demo"]),
        callback=options,
    )
    for row in rows:
        if is_listing:
            app.command(row.name, rich_help_panel=row.panel, help=row.summary)(nothing)
        elif isinstance(row.run, typer.Typer):
            app.add_typer(row.run, name=row.name, rich_help_panel=row.panel)
        else:
            examples = epilog(row.examples)
            app.command(
                row.name,
                rich_help_panel=row.panel,
                epilog=examples,
                context_settings=row.settings,
            )(row.run)
    dress(app)
    return app


def nothing() -> None:
    """Stands for a command in a listing."""


def dress(commands: typer.Typer) -> None:
    """Gives every command the help of `pagewise.commands.help`."""
    for command in commands.registered_commands:
        command.cls = Command
    for group in commands.registered_groups:
        if group.typer_instance:
            dress(group.typer_instance)


def print_licenses(is_asked: bool) -> None:
    """Prints the licences and exits, if requested."""
    if is_asked:
        from pagewise.licenses import text

        print(text(), end="")
        raise typer.Exit


def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="With --version: print the versions of the package, its core and pagewise-agent "
            "as one JSON object.",
        ),
    ] = False,
    licenses: Annotated[
        bool,
        typer.Option(
            "--licenses",
            help="Print the licences of pagewise and of all that it contains.",
            is_eager=True,
            callback=print_licenses,
        ),
    ] = False,
) -> None:
    """Takes the options before the name of a command."""
    if version and json:
        from pagewise.installed import versions

        show_json(versions())
    elif version:
        print(f"pagewise {_core.version()}")
    elif json:
        raise UsageError("--json before a command needs --version", hint="see: pagewise --help")
    elif context.invoked_subcommand is None:
        raise UsageError("missing: COMMAND", hint="see: pagewise --help")
    if version:
        raise typer.Exit


def run(arguments: list[str] | None = None) -> int:
    """Runs the command in ``arguments`` (default: sys.argv) and returns its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["help"]:
        words = [*(word for word in words[1:] if word != "help"), "--help"]
    # Loading all commands takes longer than most of them run.
    named = [row for row in COMMANDS if words[:1] == [row.name]]
    is_listing = not any(row.name in words for row in COMMANDS)
    try:
        app = app_of(named or COMMANDS, is_listing=is_listing)
        status = app(args=words, prog_name="pagewise", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except (BrokenPipeError, SystemExit):
        # With standalone_mode=False, typer exits only if the reader of the console is gone.
        leave_pipes()
        return 0
    except PagewiseError as error:
        say(f"pagewise: {error}", path=error.path)
        if error.hint:
            say(f"  {error.hint}", path=error.path)
        if question := meant(f"{error}; {error.hint or ''}"):
            say(f"  {question}")
        tell_missing_example(error.path)
        return error.exit_status
    except TyperException as error:
        context = getattr(error, "ctx", None)
        message, hint = shortened(error.format_message(), words)
        say(f"pagewise: {ranges_in_words(message)}")
        if hint:
            say(f"  {hint}")
        say(f"  see: {context.command_path if context else 'pagewise'} --help")
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        return ended(Ended(signal.SIGINT))
    except Ended as error:
        return ended(error)
    except OSError as error:
        where = str(error.filename or "input or output")
        say(f"pagewise: {where}: {error.strerror or error}", path=where)
        tell_missing_example(error.filename)
        leave_pipes()
        return UNWRITABLE


def tell_missing_example(path: object) -> None:
    """Prints where an example is, or which package has it, if the path of a missing file names one.

    Example: ``examples/page-size/photo.pwf`` in a folder that has no examples.
    """
    from pagewise.shipped import lacking_package, place_of

    place = place_of(path) if isinstance(path, str) else None
    if place is None:
        return
    if os.path.exists(place):
        say(f"  this example is {place}", path=str(place))
    elif data := lacking_package():
        say(f"  more examples are in the package {data}, which is not installed")


def ended(error: Ended) -> int:
    """Prints which signal ended the command, if standard error still works."""
    with suppress(OSError):
        say(f"pagewise: {error}")
    return status_of(error.number)
