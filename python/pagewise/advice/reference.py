"""The target for the slow tier's I/O: a size, or the I/O of a run without swap."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

from pagewise import questions
from pagewise.errors import UnreadableInput, UsageError
from pagewise.launch_runs import read_run
from pagewise.report.shape import COUNT, Maybe, Shape, departure
from pagewise.storage import refuse_endless
from pagewise.units import PAGE_BYTES, parse_size

if TYPE_CHECKING:
    from pagewise.types import TierCounts


@dataclass(frozen=True)
class Reference:
    """A target of ``io_bytes`` of storage I/O; ``what`` says where it comes from."""

    io_bytes: int
    what: str


def parse(text: str) -> Reference:
    """The reference that ``--reference`` names.

    A folder is a run of the launch lab (the target is all its storage I/O), a JSON file an output
    of `pagewise simulate --json` (the slow tier's reads and writes), and another file a recording
    (one page per access). Anything else must be a size.
    """
    path = Path(text)
    if not path.exists():
        try:
            return Reference(parse_size(text), "a given amount")
        except UsageError as error:
            raise UsageError(
                f"--reference {text}: neither a file nor a size",
                hint="give a file, or a size such as 4GiB",
            ) from error
    if path.is_dir():
        run = read_run(path)
        what = f"all storage I/O of the run {run.name}, which had {run.kills} kills"
        return Reference(run.io_bytes, what)
    refuse_endless(path)
    found = _json(path)
    if found is None:
        accesses = questions.analyze(path)["accesses"]
        return Reference(accesses * PAGE_BYTES, f"the accesses of {path.name}")
    _check(path, found, {"slow": {"reads": COUNT, "writes": COUNT}, "page_bytes": Maybe(COUNT)})
    result = cast("SlowTier", found)
    pages = result["slow"]["reads"] + result["slow"]["writes"]
    page_bytes = result.get("page_bytes") or PAGE_BYTES
    return Reference(pages * page_bytes, f"the slow tier of {path.name}")


class SlowTier(TypedDict):
    """What a target needs of a simulation."""

    slow: TierCounts
    page_bytes: NotRequired[int | None]


def _json(path: Path) -> dict[str, object] | None:
    """The object in a JSON file; None if the file is anything else."""
    try:
        with open(path, "rb") as file:
            if file.read(1) != b"{":
                return None
            file.seek(0)
            result: dict[str, object] = json.load(file)
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{path}: not a JSON object: {error}", path=str(path)) from error
    return result


def _check(path: Path, result: dict[str, object], shape: Shape) -> None:
    if wrong := departure(result, shape):
        raise UnreadableInput(f"{path}: {wrong}", path=str(path))
