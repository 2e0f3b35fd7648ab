"""From what a spec calls a trace to a file on this machine."""

from __future__ import annotations

import json
from pathlib import Path

from pagewise import _core
from pagewise.errors import UnreadableInput
from pagewise.grids.key import digest, file_digest
from pagewise.grids.spec import TraceSource
from pagewise.storage import fetch, is_remote, local_path, refuse_endless


def materialize(source: TraceSource, folder: Path) -> Path:
    """The trace as a local file: itself, a copy in ``folder``, or generated into ``folder``.

    Several processes may ask for the same trace in the same folder at once.
    """
    if source.address is None:
        path = folder / f"{digest(source.scenario)}.parquet"
        if not path.exists():
            _core.write_scenario(json.dumps(dict(source.scenario)), str(path))
        return path
    if is_remote(source.address):
        path = folder / digest(source.address)
        if not path.exists():
            fetch(source.address, path)
        return path
    refuse_endless(local_path(source.address))
    return Path(local_path(source.address))


def content_digest(path: Path) -> str:
    """sha256 of the trace file."""
    try:
        return file_digest(path)
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path)) from error
