"""`pagewise pagesize`: which page size a program wants, and whether it runs with it."""

from __future__ import annotations

import typer

from pagewise.commands import pagesize_apply, pagesize_check, pagesize_verify

EXAMPLES = (*pagesize_check.EXAMPLES, *pagesize_verify.EXAMPLES, *pagesize_apply.EXAMPLES)

app = typer.Typer(
    help="Say which page size a program wants, and whether it would run with it.",
    epilog="\n\n".join(f"Example: {example}" for example in EXAMPLES),
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Say which page size a program wants, and whether it would run with it."""


app.command("check", epilog=f"Example: {pagesize_check.EXAMPLES[0]}")(pagesize_check.check)
app.command("verify", epilog=f"Example: {pagesize_verify.EXAMPLES[0]}")(pagesize_verify.verify)
app.command("undo", epilog="Example: sudo pagewise pagesize undo")(pagesize_verify.undo)
app.command("apply", epilog=f"Example: {pagesize_apply.EXAMPLES[0]}")(pagesize_apply.apply)
