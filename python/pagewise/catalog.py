"""The catalog of swap architectures: names by role."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pagewise import _core

if TYPE_CHECKING:
    from pagewise.types import ArchitectureRow


@cache
def _rows() -> tuple[ArchitectureRow, ...]:
    return tuple(_core.architectures())


def _with_role(role: str) -> tuple[str, ...]:
    return tuple(row["name"] for row in _rows() if row["role"] == role)


def names() -> tuple[str, ...]:
    """Every architecture, in the order of the catalog."""
    return tuple(row["name"] for row in _rows())


def decides_by_latency(name: str) -> bool:
    """Whether an architecture acts differently on devices with other latencies."""
    return any(row["decides_by_latency"] for row in _rows() if row["name"] == name)


def baseline() -> str:
    """The architecture to compare all others with: flash-only, without a fast tier."""
    (name,) = _with_role("baseline")
    return name


def systems() -> tuple[str, ...]:
    """The architectures that a machine can run."""
    return _with_role("system")


def bounds() -> tuple[str, ...]:
    """The lower bounds: architectures that know the future, so no machine can run them."""
    return _with_role("bound")
