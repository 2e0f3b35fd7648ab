"""JSON Schemas as tables of a page: a table for each result and for each type inside one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from typed.classes import Schema, definitions

HEAD = """# Results, field by field

What `--json` prints and the functions of [the package](python.md) return. `pagewise schema NAME`
prints the JSON Schema of a result, and `pagewise.types` has the same as Python types. Fields are
added, never renamed. A field marked * may be absent.

A name tells its unit: `_s` are seconds, `_ns` nanoseconds, `_us` microseconds, `_bytes` bytes; a
share is a number from 0 to 1. All other whole numbers are counts. `tools/schemas.py` writes this
page.
"""
WORDS = {
    "string": "text",
    "integer": "count",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}


def page(schemas: Iterable[Schema]) -> str:
    """The whole page."""
    schemas = list(schemas)
    roots = {schema["title"] for schema in schemas}
    lines = [HEAD]
    for schema in schemas:
        layout = schema["$id"]
        name = layout.removeprefix("pagewise.").partition("/")[0]
        lines += [f"## {name}", "", f"{words_of(schema)} Layout `{layout}`.", "", *table(schema)]
    inner = {
        name: schema
        for name, schema in definitions(schemas)
        if name not in roots and "properties" in schema
    }
    lines += ["# Types inside results", ""]
    for name in sorted(inner):
        lines += [f"## {name}", "", words_of(inner[name]), "", *table(inner[name])]
    return "\n".join(lines).rstrip() + "\n"


def table(schema: Schema) -> Iterator[str]:
    """A row for each field."""
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    for field, inner in schema["properties"].items():
        mark = "" if field in schema.get("required", ()) else " *"
        yield f"| `{field}`{mark} | {kind_of(inner)} | {words_of(inner)} |"
    yield ""


def words_of(schema: Schema) -> str:
    """The description on one line."""
    return " ".join(str(schema.get("description", "")).split()).replace("|", "\\|")


def kind_of(schema: Any) -> str:
    """A schema in words; a type inside results as a link."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{word}`" for word in schema.get("enum", [schema.get("const")]))
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(kind_of(one) for one in alternatives)
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(of_kind(kind, schema) for kind in kinds) or "anything"


def of_kind(kind: str, schema: Schema) -> str:
    """A schema of one JSON type in words."""
    if kind == "number" and schema.get("maximum") == 1:
        return "share"
    if kind == "array":
        items = schema.get("prefixItems")
        if items:
            return f"[{', '.join(kind_of(item) for item in items)}]"
        return f"list of {kind_of(schema.get('items', {}))}"
    if kind == "object":
        values = [*schema.get("patternProperties", {}).values()]
        return f"{{name: {kind_of((values or [schema.get('additionalProperties', {})])[0])}}}"
    return WORDS[kind]
