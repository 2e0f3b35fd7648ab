"""Results that Python computes, as JSON Schemas: from TypedDicts whose fields have docstrings."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(layout: str, kind: type, known: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a result; ``known`` are the definitions of Rust, by name."""
    definitions: dict[str, Any] = {}
    schema = object_of(kind, known, definitions)
    if "schema" in schema["properties"]:
        schema["properties"]["schema"]["const"] = layout
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": kind.__name__}
    definitions = dict(sorted(definitions.items()))
    return {**head, **schema, "$defs": definitions, "$id": layout}


def object_of(kind: type, known: Mapping[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """One TypedDict."""
    words = docstrings(kind.__name__, sources(kind.__module__))
    properties, needed = {}, []
    inherited = of_bases(kind.__name__, sources(kind.__module__), known)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name in inherited:
            properties[name] = inherited[name]
            needed.append(name)
            continue
        if name not in words:
            raise SystemExit(f"{kind.__name__}.{name} has no docstring")
        is_optional = get_origin(hint) is NotRequired
        inner = get_args(hint)[0] if is_optional else hint
        properties[name] = {"description": words[name], **schema(inner, known, definitions)}
        needed += [] if is_optional else [name]
    description = " ".join((inspect.getdoc(kind) or "").split())
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "required": needed,
    }


def of_bases(
    name: str, classes: Mapping[str, ast.ClassDef], known: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields that a class has from definitions of Rust, which always have them."""
    fields: dict[str, Any] = {}
    for base in (base.id for base in classes[name].bases if isinstance(base, ast.Name)):
        if base in known:
            fields |= known[base]["properties"]
        elif base in classes:
            fields |= of_bases(base, classes, known)
    return fields


@cache
def sources(module: str) -> Mapping[str, ast.ClassDef]:
    """The classes of a module by name."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def docstrings(name: str, classes: Mapping[str, ast.ClassDef]) -> dict[str, str]:
    """The docstring below each field of a class and of those that it extends."""
    words: dict[str, str] = {}
    node = classes[name]
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            words |= docstrings(base.id, classes)
    for field, below in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            words[ast.unparse(field.target)] = " ".join(ast.literal_eval(below.value).split())
    return words


def schema(hint: Any, known: Mapping[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        ends = {name: end for name, end in asdict(arguments[1]).items() if end is not None}
        return {**schema(arguments[0], known, definitions), **ends}
    if origin in (Union, types.UnionType):
        return union([schema(argument, known, definitions) for argument in arguments])
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": schema(arguments[0], known, definitions)}
    if origin is tuple:
        items = [schema(argument, known, definitions) for argument in arguments]
        count = len(items)
        return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(arguments[1], known, definitions)}
    if is_typeddict(hint):
        refer(hint, known, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {} if hint is Any else {"type": PLAIN[hint]}


def union(alternatives: list[dict[str, Any]]) -> dict[str, Any]:
    """Several types as one; plain ones, and null beside one other, as a list of types."""
    *others, last = alternatives
    if all(alternative.keys() == {"type"} for alternative in alternatives):
        return {"type": [alternative["type"] for alternative in alternatives]}
    if last == {"type": "null"} and len(others) == 1 and "type" in others[0]:
        return {**others[0], "type": [others[0]["type"], "null"]}
    return {"anyOf": alternatives}


def refer(kind: type, known: Mapping[str, Any], definitions: dict[str, Any]) -> None:
    """Takes a type inside a result among the definitions, with all that it refers to."""
    name = kind.__name__
    if name in known:
        take(name, known, definitions)
    elif name not in definitions:
        definitions[name] = {}
        definitions[name] = object_of(kind, known, definitions)


def take(name: str, known: Mapping[str, Any], definitions: dict[str, Any]) -> None:
    """Takes a known definition, with all that it refers to."""
    if name not in definitions:
        definitions[name] = known[name]
        for reference in references(known[name]):
            take(reference, known, definitions)


def references(schema: Any) -> set[str]:
    """Names of the definitions that a schema refers to."""
    if isinstance(schema, list):
        return set().union(*map(references, schema))
    if not isinstance(schema, dict):
        return set()
    named = {schema["$ref"].rpartition("/")[2]} if "$ref" in schema else set()
    return named.union(*map(references, schema.values()))
