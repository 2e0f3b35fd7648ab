"""The key of a cell: a hash over everything that its outcome depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from pagewise import _core


def canonical(value: object) -> str:
    """JSON with a single spelling per value: sorted names, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: object) -> str:
    """sha256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def file_digest(path: str | Path) -> str:
    """sha256 of a file's bytes, as `sha256sum` prints it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def this_build() -> str:
    """The version of the simulator, and a hash of the sources it was built from."""
    return f"{_core.version()}, build {_core.build()}"


def cell_key(
    *, trace_sha256: str, effective: Mapping[str, object], seed: int | None, build: str, schema: str
) -> str:
    """The key of one cell.

    ``effective`` is the request as the simulator understood it: architecture, every option with its
    value, the size, and the figures of both devices. ``build`` (`this_build`) identifies the
    simulator, so another build has other keys.
    """
    return digest(
        {
            "schema": schema,
            "pagewise": build,
            "trace_sha256": trace_sha256,
            "request": effective,
            "seed": seed,
        }
    )
