"""The names of a result's fields in the help text of the function that returns it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import is_typeddict

HOMES = ("pagewise.types", "pagewise.answers")
"""The modules of types that a function's module may import for its annotations only."""


def name_fields(function: Callable[..., object]) -> None:
    """Appends the fields of the function's result to its docstring: they stand only in the type."""
    returned = re.findall(r"\w+", str(function.__annotations__.get("return")))
    parts = [function.__doc__ or ""]
    for name in returned:
        layout = layout_of(name, function)
        if is_typeddict(layout):
            fields = f"Fields of {name}: {', '.join(layout.__annotations__)}."
            parts.append(textwrap.indent(textwrap.fill(fields, 90), "    "))
    function.__doc__ = "\n\n".join(part.rstrip() for part in parts)


def layout_of(name: str, function: Callable[..., object]) -> object:
    """What the name means in the annotations of the function; None for a name of no type."""
    if name in function.__globals__:
        return function.__globals__[name]
    homes = map(import_module, HOMES)
    return next((getattr(home, name) for home in homes if hasattr(home, name)), None)
