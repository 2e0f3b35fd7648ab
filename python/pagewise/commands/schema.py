"""`pagewise schema`: the fields of a result, as a JSON Schema."""

from __future__ import annotations

from typing import Annotated

import typer

from pagewise import layouts
from pagewise.commands.options import Json
from pagewise.terminal import figures, show, show_json

EXAMPLES = ("pagewise schema", "pagewise schema analyze", "pagewise schema advise swap")


def run(
    name: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="A result, or a command for all results that it prints; default: list all "
            "results.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the JSON Schema of a result: every field with its type, range and meaning.

    docs/results.md has the same as tables, and pagewise.types as Python types.
    """
    if name:
        show_json(layouts.printed("-".join(" ".join(name).split())))
        return
    known = {name: layouts.schema(name) for name in layouts.names()}
    if json:
        rows = [
            {"name": name, "layout": schema["$id"], "summary": summary(schema["description"])}
            for name, schema in known.items()
        ]
        show_json({"schema": "pagewise.schemas/1", "schemas": rows})
        return
    lines = [
        [name, schema["$id"], summary(schema["description"])] for name, schema in known.items()
    ]
    show(figures(["result", "layout", "what it is"], lines, words=3))


def summary(description: str) -> str:
    """The first sentence."""
    return " ".join(description.split()).partition(". ")[0].removesuffix(".") + "."
