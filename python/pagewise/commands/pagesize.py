"""`pagewise pagesize`: which page size a program wants, and whether it runs with it."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from pagewise.commands import (
    pagesize_apply,
    pagesize_check,
    pagesize_choose,
    pagesize_verify,
)

EXAMPLES = (
    *pagesize_choose.EXAMPLES,
    *pagesize_check.EXAMPLES,
    *pagesize_verify.EXAMPLES,
    *pagesize_apply.EXAMPLES,
)


class WithDefault(TyperGroup):
    """A group whose arguments belong to one of its commands where they begin with none's name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the name of that command first."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [pagesize_choose.NAME, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=WithDefault,
    help="Say which page size a program wants (choose, the command without a name), and whether it "
    "would run with it.",
    epilog="\n\n".join(f"Example: {example}" for example in EXAMPLES),
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Say which page size a program wants, and whether it would run with it."""


app.command(
    pagesize_choose.NAME,
    epilog="\n\n".join(f"Example: {example}" for example in pagesize_choose.EXAMPLES),
)(pagesize_choose.choose)
app.command("check", epilog=f"Example: {pagesize_check.EXAMPLES[0]}")(pagesize_check.check)
app.command("verify", epilog=f"Example: {pagesize_verify.EXAMPLES[0]}")(pagesize_verify.verify)
app.command("undo", epilog="Example: sudo pagewise pagesize undo")(pagesize_verify.undo)
app.command("apply", epilog=f"Example: {pagesize_apply.EXAMPLES[0]}")(pagesize_apply.apply)
