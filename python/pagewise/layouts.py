"""The JSON Schemas of results, which tools/schemas.py writes from their definitions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TypedDict

from pagewise.errors import UsageError

Schema = TypedDict(
    "Schema",
    {
        "$id": str,
        "$ref": str,
        "$defs": Mapping[str, "Schema"],
        "title": str,
        "description": str,
        "type": str | list[str],
        "enum": list[str],
        "const": str,
        "minimum": float,
        "maximum": float,
        "properties": Mapping[str, "Schema"],
        "patternProperties": Mapping[str, "Schema"],
        "additionalProperties": "bool | Schema",
        "required": list[str],
        "items": "Schema",
        "prefixItems": Sequence["Schema"],
        "anyOf": Sequence["Schema"],
        "oneOf": Sequence["Schema"],
    },
    total=False,
)
"""The words of JSON Schema that schemas of results use."""

FOLDER = resources.files(__package__).joinpath("schemas")
ENDING = ".json"
OF_COMMANDS = {
    "advise-pagesize": "advice-page-size",
    "advise-swap": "advice",
    "killtrace": "kills",
    "pagesize": "page-size",
}
"""The results of commands that have another name than their result."""


def names() -> list[str]:
    """The results that have a schema."""
    found = (file.name for file in FOLDER.iterdir())
    return sorted(name.removesuffix(ENDING) for name in found if name.endswith(ENDING))


def schema(name: str) -> Schema:
    """The schema of a result, by its name or that of its command, with hyphens for blanks.

    Raises UsageError for another name.
    """
    name = OF_COMMANDS.get(name, name)
    if name not in names():
        raise UsageError(f"no result is called {name!r}", hint=f"one of {', '.join(names())}")
    found: Schema = json.loads(FOLDER.joinpath(name + ENDING).read_text("utf-8"))
    return found
