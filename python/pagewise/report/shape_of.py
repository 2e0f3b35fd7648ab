"""What the report checks of a result, from the result's JSON Schema.

Types and ranges are those of the schema. Which fields must be there is up to the caller: results of
an earlier pagewise lack some, and charts that need those are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pagewise.layouts import Schema
from pagewise.report.shape import (
    ANYTHING,
    COUNT,
    DIGITS,
    FLAG,
    NUMBER,
    POSITIVE,
    SCALAR,
    SHARE,
    TEXT,
    Keyed,
    Maybe,
    Plain,
    Shape,
)

PLAIN: Mapping[str, Plain] = {"string": TEXT, "boolean": FLAG}


@dataclass(frozen=True)
class Reader:
    """Turns schemas into shapes.

    ``needs`` are the fields that must be there, in words by the name of a type; a field with a ?
    may be null. Of a type that is not named, the schema says what must be there.
    """

    definitions: Mapping[str, Schema]
    needs: Mapping[str, str]

    def shape(self, schema: Schema) -> Shape:
        """The shape of one value."""
        if "$ref" in schema:
            name = str(schema["$ref"]).rpartition("/")[2]
            return self.fields(name, self.definitions[name])
        if words := schema.get("enum"):
            return Plain(" or ".join(words), lambda value: value in words)
        if alternatives := schema.get("anyOf") or schema.get("oneOf"):
            return self.one_of(alternatives)
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return self.one_of([{**schema, "type": kind} for kind in kinds])
        if kinds == "object":
            return self.keyed(schema)
        if kinds == "array":
            if "prefixItems" in schema:
                return tuple(map(self.shape, schema["prefixItems"]))
            return [self.shape(schema["items"])]
        if kinds in ("integer", "number"):
            return number(schema)
        return ANYTHING if kinds is None else PLAIN[kinds]

    def fields(self, name: str, schema: Schema) -> dict[str, Shape]:
        """The shape of an object with known fields."""
        words = self.needs.get(name)
        needed = schema.get("required", []) if words is None else words.split()
        # Which layout it is was decided before.
        known = {field: inner for field, inner in schema["properties"].items() if field != "schema"}
        return {
            field: self.field(
                self.shape(inner), is_needed=field in needed, may_be_null=f"{field}?" in needed
            )
            for field, inner in known.items()
        }

    def field(self, shape: Shape, *, is_needed: bool, may_be_null: bool) -> Shape:
        """A field that must be there, or need not."""
        inner = shape.shape if isinstance(shape, Maybe) else shape
        if is_needed and not isinstance(shape, Maybe):
            return inner
        return Maybe(inner, is_needed=is_needed or may_be_null)

    def keyed(self, schema: Schema) -> Shape:
        """An object whose names are data."""
        for values in schema.get("patternProperties", {}).values():
            return Keyed(self.shape(values), name=DIGITS)
        further = schema.get("additionalProperties")
        known: Schema = {} if further is None or isinstance(further, bool) else further
        return Keyed(self.shape(known))

    def one_of(self, alternatives: Sequence[Schema]) -> Shape:
        """A value of one of several types: null beside another, words, or any plain value."""
        others = [alternative for alternative in alternatives if alternative.get("type") != "null"]
        if len(others) > 1:
            words = all(alternative.get("type") == "string" for alternative in others)
            inner: Shape = TEXT if words else SCALAR
        else:
            inner = self.shape(others[0])
        return inner if len(others) == len(alternatives) else Maybe(inner)


def number(schema: Schema) -> Plain:
    """The shape of a number within its range."""
    if schema.get("minimum") != 0:
        return NUMBER
    if schema["type"] == "integer":
        return COUNT
    return SHARE if schema.get("maximum") == 1 else POSITIVE
