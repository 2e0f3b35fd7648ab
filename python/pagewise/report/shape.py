"""The shape that panels expect of a result, and where a result departs from it.

A shape is a `Plain` value or is made of shapes. ``{"name": shape}`` is an object with these fields
(and perhaps others), ``[shape]`` a list of any length, ``(shape, shape)`` a list of exactly these,
`Maybe` may also be null or absent, and `Keyed` is an object whose names are data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

BEYOND = 2**63
"""Bound of the absolute value of numbers."""
SHOWN = 40
"""How many characters of a wrong value a message repeats."""


@dataclass(frozen=True)
class Plain:
    """A single value: what it must be in words, and the test for it."""

    words: str
    holds: Callable[[object], bool]


@dataclass(frozen=True)
class Maybe:
    """A field that may be null or, unless it is needed, absent."""

    shape: Shape
    is_needed: bool = False


@dataclass(frozen=True)
class Keyed:
    """An object whose names are data: the shape of its values, and of its names."""

    shape: Shape
    name: Plain | None = None


Shape: TypeAlias = (
    Plain | Maybe | Keyed | Mapping[str, "Shape"] | list["Shape"] | tuple["Shape", ...]
)


@dataclass(frozen=True)
class Mismatch:
    """A departure: the field (``cells[3].io_time_s``), what was expected, and what was found."""

    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"field {self.field}: expected {self.expected}, found {self.found}"


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < BEYOND and math.isfinite(value)


def _is_at_least_0(value: object) -> bool:
    return _is_number(value) and isinstance(value, (int, float)) and value >= 0


def _is_share(value: object) -> bool:
    return _is_at_least_0(value) and isinstance(value, (int, float)) and value <= 1


NUMBER = Plain("a finite number", _is_number)
COUNT = Plain("a count", lambda value: isinstance(value, int) and _is_at_least_0(value))
POSITIVE = Plain("a number of 0 or more", _is_at_least_0)
SHARE = Plain("a share from 0 to 1", _is_share)
TEXT = Plain("text", lambda value: isinstance(value, str))
FLAG = Plain("true or false", lambda value: isinstance(value, bool))
SCALAR = Plain(
    "text or a finite number", lambda value: isinstance(value, (str, bool)) or _is_number(value)
)
ANYTHING = Plain("anything", lambda value: True)
DIGITS = Plain(
    "a count in digits",
    lambda value: (
        isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19
    ),
)


def departure(value: object, shape: Shape, field: str = "") -> Mismatch | None:
    """The first place where ``value`` departs from ``shape``; None if it fits."""
    match shape:
        case Maybe():
            return None if value is None else departure(value, shape.shape, field)
        case Keyed():
            return _keyed(value, shape, field)
        case dict():
            return _object(value, shape, field)
        case list():
            return _list(value, shape[0], field)
        case tuple():
            return _row(value, shape, field)
        case Plain():
            return None if shape.holds(value) else _mismatch(field, shape.words, value)
        case _:
            raise AssertionError(f"no shape: {shape!r}")


def _object(value: object, shape: Mapping[str, Shape], field: str) -> Mismatch | None:
    if not isinstance(value, Mapping):
        return _mismatch(field, "an object", value)
    for name, wanted in shape.items():
        inner = f"{field}.{name}".lstrip(".")
        if name not in value and not (isinstance(wanted, Maybe) and not wanted.is_needed):
            return Mismatch(inner, _named(wanted), "nothing")
        if found := departure(value.get(name), wanted, inner):
            return found
    return None


def _keyed(value: object, shape: Keyed, field: str) -> Mismatch | None:
    if not isinstance(value, Mapping):
        return _mismatch(field, "an object", value)
    for name, inner in value.items():
        if shape.name and not shape.name.holds(name):
            return _mismatch(field, f"{shape.name.words} as each name", name)
        if found := departure(inner, shape.shape, f"{field}.{str(name)[:SHOWN]}"):
            return found
    return None


def _list(value: object, shape: Shape, field: str) -> Mismatch | None:
    if not isinstance(value, (list, tuple)):
        return _mismatch(field, "a list", value)
    for index, inner in enumerate(value):
        if found := departure(inner, shape, f"{field}[{index}]"):
            return found
    return None


def _row(value: object, shapes: tuple[Shape, ...], field: str) -> Mismatch | None:
    if not isinstance(value, (list, tuple)) or len(value) != len(shapes):
        return _mismatch(field, f"a list of {len(shapes)}", value)
    for index, (inner, shape) in enumerate(zip(value, shapes, strict=True)):
        if found := departure(inner, shape, f"{field}[{index}]"):
            return found
    return None


def _mismatch(field: str, expected: str, value: object) -> Mismatch:
    return Mismatch(field or "of the whole", expected, _shown(value))


def _named(shape: Shape) -> str:
    """What a shape expects, in words."""
    if isinstance(shape, Maybe):
        return f"{_named(shape.shape)} or null"
    if isinstance(shape, Plain):
        return shape.words
    return "a list" if isinstance(shape, (list, tuple)) else "an object"


def _shown(value: object) -> str:
    """The value, shortened for a message."""
    if isinstance(value, int) and not -BEYOND < value < BEYOND:
        return "a number beyond 64 bits"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    written = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return written if len(written) <= SHOWN else f"{written[:SHOWN]}..."
