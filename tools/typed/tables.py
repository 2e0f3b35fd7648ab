"""JSON Schemas as tables of a page: a table for each result and for each type inside one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from typed.classes import Schema, definitions

HEAD = """# Results, field by field

What `pagewise` prints with `--json`, except the catalogs of `pagewise list`, and what the functions
of [the package](python.md) return. `pagewise schema NAME` prints the JSON Schema of a result or of
all results of a command; `pagewise.types` has them as Python types. Fields are
added, never renamed. A field marked * may be absent. `None` in Python is null in JSON.

Of `pagewise-agent`, only `killtrace` is here ([kills](#kills)). The fields of its other commands
stand on their pages: `record` and `doctor` in [recording.md](recording.md), `launch` in
[launch-lab.md](launch-lab.md), `lazy --stats` in [lazy-unmapping.md](lazy-unmapping.md), `swapd` in
[swapd-tiers.md](swapd-tiers.md#counts), `relaunchd` in [relaunchd.md](relaunchd.md#counters),
`pages` in [zram.md](zram.md#figures-of-pages---json), and the socket of `killd` in
[killd.md](killd.md#what-it-logs).

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
    names = {schema["title"]: name_of(schema) for schema in schemas}
    lines = [HEAD, *contents(names.values())]
    for schema in schemas:
        words = f"{words_of(schema)} Layout `{schema['$id']}`."
        lines += [f"## {name_of(schema)}", "", words, "", *table(schema)]
    inner = {
        name: schema
        for name, schema in definitions(schemas)
        if name not in names and "properties" in schema
    }
    lines += ["# Types inside results", ""]
    for name in sorted(inner):
        lines += [f"## {name}", "", words_of(inner[name]), "", *table(inner[name])]
    text = "\n".join(lines).rstrip() + "\n"
    for title, name in names.items():
        text = text.replace(f"](#{title.lower()})", f"](#{name})")
    return text


def name_of(schema: Schema) -> str:
    """The name of a result: analyze of pagewise.analyze/1."""
    return str(schema["$id"]).removeprefix("pagewise.").partition("/")[0]


def contents(names: Iterable[str]) -> Iterator[str]:
    """A line of links to the results."""
    links = ", ".join(f"[{name}](#{name})" for name in names)
    yield from textwrap.wrap(links, 98, break_long_words=False, break_on_hyphens=False)
    yield ""


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
        return " or ".join(kind_of(alternative) for alternative in alternatives)
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
