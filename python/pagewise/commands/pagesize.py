"""`pagewise pagesize`: the best page size of a program, and whether the program runs with it."""

from __future__ import annotations

from typing import Any

import typer

from pagewise.commands import (
    pagesize_apply,
    pagesize_check,
    pagesize_choose,
    pagesize_verify,
)
from pagewise.commands.help import Group
from pagewise.commands.options import epilog

EXAMPLES = (
    *pagesize_choose.EXAMPLES,
    *pagesize_check.EXAMPLES,
    *pagesize_verify.EXAMPLES,
    *pagesize_apply.EXAMPLES,
)


class WithDefault(Group):
    """A group with a default command, for arguments that begin with no command's name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the name of the default command first."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [pagesize_choose.NAME, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=WithDefault,
    help="Choose the page size of a program, and check whether the program runs with it. Without a "
    "command name, runs choose.",
    epilog=epilog(EXAMPLES),
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Choose the page size of a program, and check whether the program runs with it."""


for name, command, examples in (
    (pagesize_choose.NAME, pagesize_choose.choose, pagesize_choose.EXAMPLES),
    ("check", pagesize_check.check, pagesize_check.EXAMPLES),
    ("verify", pagesize_verify.verify, pagesize_verify.EXAMPLES),
    ("undo", pagesize_verify.undo, ("sudo pagewise pagesize undo",)),
    ("apply", pagesize_apply.apply, pagesize_apply.EXAMPLES),
):
    app.command(name, epilog=epilog(examples))(command)
