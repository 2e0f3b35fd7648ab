"""JSON Schemas as Python source: one TypedDict for each object with known fields."""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

HEAD = '''"""Results field by field: the dictionaries that `pagewise` returns and prints as JSON.

Written by tools/schemas.py from the Rust structs of the results. Change those, then run it again.
Results that Python computes are defined in the modules named below.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
{imports}

_HOMES = {homes}
"""The modules of results that Python computes. They load on first use, because they extend the
types below."""


def __getattr__(name: str) -> type:
    if name not in _HOMES:
        raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
    found: type = getattr(_import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({{*globals(), *_HOMES}})
'''
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
INDENT = "    "
WIDTH = 100 - len(INDENT)


def source(schemas: Iterable[Schema], computed: Mapping[str, str]) -> str:
    """The module with the types of all schemas, and the names of the computed results with their
    modules. Two types of one name are an error."""
    classes: dict[str, str] = {}
    for name, schema in definitions(schemas):
        if schema.get("type") != "object" or "properties" not in schema:
            continue
        text = "\n".join(written(name, schema))
        if classes.setdefault(name, text) != text:
            raise SystemExit(f"two results have a type {name}: rename one by #[schemars(rename)]")
    imports = "\n".join(
        f"    from {module} import {name} as {name}" for name, module in computed.items()
    )
    head = HEAD.format(imports=imports, homes=dict(computed))
    return "\n\n\n".join([head.rstrip("\n"), *(classes[name] for name in sorted(classes))]) + "\n"


def definitions(schemas: Iterable[Schema]) -> Iterator[tuple[str, Schema]]:
    """The roots of all schemas by their titles, and their definitions by their names."""
    for schema in schemas:
        yield schema["title"], schema
        yield from schema.get("$defs", {}).items()


def written(name: str, schema: Schema) -> Iterator[str]:
    """One class; one with a field that is a word of Python, such as class, is written as a call."""
    needed = schema.get("required", ())
    kinds = {field: type_of(inner, schema) for field, inner in schema["properties"].items()}
    kinds = {
        field: kind if field in needed else f"NotRequired[{kind}]" for field, kind in kinds.items()
    }
    if any(map(keyword.iskeyword, kinds)):
        fields = ", ".join(f'"{field}": {quoted(kind)}' for field, kind in kinds.items())
        yield f'{name} = TypedDict("{name}", {{{fields}}})'
        yield from (line.removeprefix(INDENT) for line in documented(schema))
        return
    yield f"class {name}(TypedDict):"
    yield from documented(schema)
    for field, kind in kinds.items():
        yield f"{INDENT}{field}: {kind}"
        yield from documented(schema["properties"][field])


def documented(schema: Schema) -> Iterator[str]:
    """The description as a docstring."""
    if words := " ".join(str(schema.get("description", "")).split()).replace("\\", "\\\\"):
        lines = textwrap.wrap(f'"""{words}"""', WIDTH, break_long_words=False)
        yield from (f"{INDENT}{line}" for line in lines)
    elif "properties" in schema:
        raise SystemExit(f"a type has no description: {schema}")


def type_of(schema: Any, root: Schema) -> str:
    """A schema as a type."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2] if is_class(schema) else "Any"
    if "const" in schema or "enum" in schema:
        words = schema.get("enum", [schema.get("const")])
        return (
            "str" if "pagewise." in str(words[0]) else f"Literal[{', '.join(map(quoted, words))}]"
        )
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return union([type_of(alternative, root) for alternative in alternatives])
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    return union([of_kind(kind, schema, root) for kind in kinds]) or "Any"


def is_class(schema: Schema) -> bool:
    """Whether a reference is to one of the classes; others are put in their places before."""
    return str(schema["$ref"]).startswith("#/$defs/")


def of_kind(kind: str, schema: Schema, root: Schema) -> str:
    """A schema of one JSON type."""
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items", {})]
        inner = list(dict.fromkeys(type_of(item, root) for item in items))
        if "float" in inner:
            inner = [kind for kind in inner if kind != "int"]  # a float may be an int
        return f"list[{union(inner)}]"
    if kind == "object":
        values = [*schema.get("patternProperties", {}).values()]
        values = values or [schema.get("additionalProperties", {})]
        return f"dict[str, {type_of(values[0], root)}]"
    return PLAIN[kind]


def union(kinds: list[str]) -> str:
    """Types joined, literals as one."""
    literals = [kind[8:-1] for kind in kinds if kind.startswith("Literal[")]
    joined = [f"Literal[{', '.join(literals)}]"] if literals else []
    return " | ".join(joined + [kind for kind in kinds if not kind.startswith("Literal[")])


def quoted(word: object) -> str:
    """A word as Python source."""
    return f'"{word}"'
