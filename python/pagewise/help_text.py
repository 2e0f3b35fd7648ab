"""The names of a result's fields in the help text of the function that returns it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import is_typeddict


def name_fields(function: Callable[..., object]) -> None:
    """Appends the fields of the function's result to its docstring: they stand only in the type."""
    returned = re.findall(r"\w+", str(function.__annotations__.get("return")))
    parts = [function.__doc__ or ""]
    for name in returned:
        layout = function.__globals__.get(name)
        if is_typeddict(layout):
            fields = f"Fields of {name}: {', '.join(layout.__annotations__)}."
            parts.append(textwrap.indent(textwrap.fill(fields, 90), "    "))
    function.__doc__ = "\n\n".join(part.rstrip() for part in parts)
