"""Results as OpenMetrics, the text that Prometheus reads.

Every number of a result becomes a gauge, whose name is the path of its field
(``pagewise_simulate_slow_writes``) and whose help is the field's description. Times are in seconds.
Labels: ``result``, the name of the file; ``recording``; and for a row of a list or an entry of a
map the name of the list or map with its number or key, and the texts of the row. Lists of numbers,
such as curves, are left out. Source: OpenMetrics 1.0 (github.com/prometheus/OpenMetrics).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pagewise import layouts
from pagewise.layouts import Schema

Value = object
TEXT_MAX = 200
"""The most characters of a text that becomes a label."""
UNITS = (("_ns", 1e9), ("_us", 1e6), ("_ms", 1e3), ("_s", 1.0))
"""Endings of the names of times, and how many there are in a second."""
NO_METRICS = frozenset({"schema"})


@dataclass
class Family:
    """The samples of one metric."""

    name: str
    unit: str
    help: str
    samples: list[str] = field(default_factory=list)


def exposition(results: Sequence[tuple[str, Mapping[str, Value]]]) -> str:
    """The text for results with their names, which must differ."""
    families: dict[str, Family] = {}
    for name, result in results:
        kind = kind_of(result)
        schema = layouts.schema(kind)
        labels = {"result": name}
        recording = result.get("trace", result.get("recording"))
        if isinstance(recording, str):
            labels["recording"] = os.path.basename(recording)
        walk = Walk(families, schema.get("$defs", {}))
        walk.fields(result, schema, ("pagewise", kind.replace("-", "_")), labels)
    lines = []
    for family in families.values():
        lines.append(f"# TYPE {family.name} gauge")
        if family.unit:
            lines.append(f"# UNIT {family.name} {family.unit}")
        if family.help:
            lines.append(f"# HELP {family.name} {escaped(family.help)}")
        lines += family.samples
    return "\n".join([*lines, "# EOF", ""])


def kind_of(result: Mapping[str, Value]) -> str:
    """The name of a result, from its ``schema``; empty without one that is known."""
    kind = str(result.get("schema", "")).removeprefix("pagewise.").partition("/")[0]
    return kind if kind in layouts.names() else ""


@dataclass
class Walk:
    """Adds the numbers of a result to the families."""

    families: dict[str, Family]
    definitions: Mapping[str, Schema]

    def fields(
        self,
        values: Mapping[str, Value],
        schema: Schema,
        path: tuple[str, ...],
        labels: Mapping[str, str],
    ) -> None:
        """Adds the numbers of an object with named fields, or of a map."""
        schema = self.resolved(schema)
        known = schema.get("properties", {})
        others = schema.get("additionalProperties")
        of_key = others if isinstance(others, dict) else None
        for pattern in schema.get("patternProperties", {}).values():
            of_key = pattern
        for name, value in values.items():
            if name in NO_METRICS:
                continue
            if name in known:
                self.value(value, known[name], (*path, name), labels)
            elif of_key is not None:
                label = unused(path[-1], labels)
                self.value(value, of_key, path, {**labels, label: str(name)[:TEXT_MAX]})

    def value(
        self, value: Value, schema: Schema, path: tuple[str, ...], labels: Mapping[str, str]
    ) -> None:
        """Adds the numbers of a value."""
        schema = self.resolved(schema)
        if isinstance(value, (bool, int, float)):
            # An integer of hundreds of digits is no number of ours.
            with suppress(OverflowError):
                self.add(float(value), schema, path, labels)
        elif isinstance(value, Mapping):
            self.fields(value, schema, path, labels)
        elif isinstance(value, list):
            self.rows(value, schema.get("items", {}), path, labels)

    def rows(
        self, rows: list[Value], schema: Schema, path: tuple[str, ...], labels: Mapping[str, str]
    ) -> None:
        """Adds the numbers of the rows of a list."""
        for number, row in enumerate(rows):
            if isinstance(row, Mapping):
                own = {**labels, unused(path[-1], labels): str(number)}
                for name, text in row.items():
                    if isinstance(text, str) and len(text) <= TEXT_MAX:
                        own[unused(name, own)] = text
                self.fields(row, schema, path, own)

    def add(
        self, value: float, schema: Schema, path: tuple[str, ...], labels: Mapping[str, str]
    ) -> None:
        """Adds a number to its family."""
        name, unit = "_".join(path), "bytes" if path[-1].endswith("_bytes") else ""
        for ending, in_a_second in UNITS:
            if name.endswith(ending):
                name, unit = name.removesuffix(ending) + "_seconds", "seconds"
                value /= in_a_second
                break
        name = identifier(name)
        family = self.families.get(name)
        if family is None:
            words = " ".join(schema.get("description", "").split())
            family = self.families[name] = Family(name, unit, words)
        pairs = (f'{identifier(label)}="{escaped(text)}"' for label, text in labels.items())
        family.samples.append(f"{name}{{{','.join(pairs)}}} {written(value)}")

    def resolved(self, schema: Schema) -> Schema:
        """The schema that a reference or a choice with null stands for."""
        for _ in range(8):
            if "$ref" in schema:
                target = self.definitions.get(schema["$ref"].rpartition("/")[2], {})
                schema = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}  # type: ignore[typeddict-item]
                continue
            choices = [
                choice
                for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))
                if choice.get("type") != "null"
            ]
            if not choices:
                break
            words = schema.get("description")
            schema = {**choices[0], "description": words} if words else choices[0]
        return schema


def unused(name: str, labels: Mapping[str, str]) -> str:
    """A name of a label that is not in use: the name itself, or with a number."""
    numbered: Iterator[str] = (f"{name}_{number}" for number in range(2, len(labels) + 3))
    return next(each for each in (name, *numbered) if each not in labels)


def identifier(name: str) -> str:
    """A name with only what names of metrics and labels may have."""
    found = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return found if re.match("[a-zA-Z_]", found) else f"_{found}"


def escaped(text: str) -> str:
    """A text of a label or of help, on one line."""
    plain = text.encode("utf-8", "replace").decode("utf-8")
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def written(value: float) -> str:
    """A number without a needless fraction."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)
