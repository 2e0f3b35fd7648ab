"""The sampled pages of `pagewise-agent pages --json`, read from a file or taken on this machine."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from pagewise.errors import Missing, PagewiseError, UnreadableInput, UsageError
from pagewise.installed import agent
from pagewise.storage import parse_json

SCHEMA = "pagewise.pages/1"
ALGORITHM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
"""Names of algorithms. They are printed in commands to paste, so nothing else may pass."""
FILE_BYTES_MAX = 256 << 20
SAMPLE_S_MAX = 600
METADATA_BYTES = 24
"""Memory of zram for each page beside the pool: an entry of its table (16 bytes) and a handle of
zsmalloc (8 bytes), on 64-bit machines; drivers/block/zram/zram_drv.h of Linux 6.18."""
HOW = "make it with `pagewise-agent pages --all --json > pages.json`"


@dataclass(frozen=True)
class Algorithm:
    """An algorithm on some pages. ``sizes`` are compressed bytes and the share of pages below."""

    name: str
    pool_bytes: float
    pool_bytes_error: float | None
    us_compress: float
    us_decompress: float
    sizes: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Part:
    """The pages of a process, or of all."""

    name: str
    sampled: int
    anonymous_pages: int
    same_share: float
    algorithms: Mapping[str, Algorithm]


@dataclass(frozen=True)
class Idle:
    """The pages that no process accessed for some ``seconds``, as a share of all.

    ``pool_bytes``: of a page that is not same-filled, by the name of the algorithm.
    """

    seconds: float
    share: float
    same_share: float
    pool_bytes: Mapping[str, float]


@dataclass(frozen=True)
class Pages:
    """A sample. ``kernel_algorithms`` are those of the kernel's zram, None if unknown.

    ``idle`` is None if the sample does not distinguish idle pages.
    """

    source: str
    memory_bytes: int
    page_bytes: int
    kernel_algorithms: frozenset[str] | None
    has_recompression: bool
    has_writeback: bool
    total: Part
    idle: Idle | None
    processes: tuple[Part, ...]


def read_pages(path: str | None) -> Pages:
    """The sample in a file; without one, of all processes of this machine.

    Raises UnreadableInput if the file is not a result of `pagewise-agent pages`, and UsageError or
    Missing if the pages of this machine cannot be sampled.
    """
    if path is None:
        return parsed(_sampled(), "this machine")
    try:
        if os.path.getsize(path) > FILE_BYTES_MAX:
            raise UnreadableInput(f"{path}: larger than 256 MiB, so not sampled pages", path=path)
        text = Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        why = f"{path}: is no text, so not what `pagewise-agent pages` writes"
        raise UnreadableInput(why, path=path, hint=HOW) from error
    except OSError as error:
        raise UnreadableInput(f"{path}: cannot be read: {error}", path=path, hint=HOW) from error
    return parsed(text, path)


def _sampled() -> str:
    program = agent()
    if program is None:
        raise Missing("pagewise-agent is not installed", hint=f"give a file PAGES: {HOW}")
    if os.geteuid() != 0:
        hint = (
            f"make PAGES as root: `{quote(program)} pages --all --json > pages.json`; then "
            "`pagewise advise zram pages.json`"
        )
        raise UsageError("only root can read the pages of all processes", hint=hint)
    command = [program, "pages", "--all", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SAMPLE_S_MAX)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PagewiseError(f"pagewise-agent pages failed: {error}") from error
    if done.returncode != 0:
        raise PagewiseError(f"pagewise-agent pages failed: {done.stderr.strip()}")
    return done.stdout


def parsed(text: str, source: str) -> Pages:
    """The sample in a JSON text. Raises UnreadableInput, which says what was expected where."""
    found = parse_json(text, source, HOW)
    reader = _Reader(source)
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise reader.wrong("schema", f'expected "{SCHEMA}"')
    zram = reader.fields(found, "zram", "")
    names = zram.get("algorithms")
    offered = None
    if isinstance(names, list):
        offered = [name for name in names if isinstance(name, str) and ALGORITHM.fullmatch(name)]
    processes = found.get("processes")
    if not isinstance(processes, list):
        raise reader.wrong("processes", "expected a list")
    parts = [reader.part(each, f"processes[{at}]") for at, each in enumerate(processes)]
    total = reader.part(reader.fields(found, "total", ""), "total")
    if total.sampled and not any(part.sampled for part in parts):
        raise reader.wrong("processes", f"expected the {total.sampled} sampled pages of the total")
    return Pages(
        source=source,
        memory_bytes=int(reader.number(found, "memory_bytes", "", low=1)),
        page_bytes=int(reader.number(found, "page_bytes", "", low=4096, high=1 << 20)),
        kernel_algorithms=None if offered is None else frozenset(offered),
        has_recompression=zram.get("has_recompression") is True,
        has_writeback=zram.get("has_writeback") is True,
        total=total,
        idle=reader.idle(found),
        processes=tuple(parts),
    )


@dataclass(frozen=True)
class _Reader:
    """Reads fields of a JSON object; an error names the field."""

    source: str

    def wrong(self, field: str, expected: str) -> UnreadableInput:
        return UnreadableInput(
            f"{self.source}: {field}: {expected}", path=self.source, position=field, hint=HOW
        )

    def fields(self, held: Mapping[str, object], name: str, place: str) -> dict[str, object]:
        found = held.get(name)
        if not isinstance(found, dict):
            raise self.wrong(f"{place}{name}", "expected an object")
        return found

    def number(
        self,
        held: Mapping[str, object],
        name: str,
        place: str,
        low: float = 0,
        high: float = 2.0**60,
    ) -> float:
        found = held.get(name)
        if (
            isinstance(found, bool)
            or not isinstance(found, int | float)
            or not low <= found <= high
        ):
            raise self.wrong(f"{place}{name}", f"expected a number from {low:g} to {high:g}")
        return float(found)

    def part(self, held: object, place: str) -> Part:
        if not isinstance(held, dict):
            raise self.wrong(place, "expected an object")
        at = f"{place}."
        sampled = int(self.number(held, "pages_sampled", at))
        same = held.get("same_filled_share")
        share = self.number(held, "same_filled_share", at, high=1) if same is not None else 0.0
        pages = self.number(held, "pages_resident", at) + self.number(held, "pages_swapped", at)
        algorithms = self.fields(held, "algorithms", at)
        named = {
            name: self.algorithm(name, figures, f"{at}algorithms.{name}")
            for name, figures in algorithms.items()
            # Without pages that take memory there are no figures.
            if not (isinstance(figures, dict) and figures.get("bytes_per_page") is None)
        }
        return Part(str(held.get("name", "all")), sampled, int(pages), share, named)

    def idle(self, found: Mapping[str, object]) -> Idle | None:
        """The idle pages of all; older versions of `pagewise-agent pages` did not look for them."""
        about, total = found.get("idle"), self.fields(found, "total", "")
        held = total.get("idle")
        if held is None or not isinstance(about, dict) or about.get("seconds") is None:
            return None
        if not isinstance(held, dict):
            raise self.wrong("total.idle", "expected an object")
        at = "total.idle."
        same = held.get("same_filled_share")
        pool = {
            name: self.number(figures, "pool_bytes_per_page", f"{at}algorithms.{name}.", low=1)
            for name, figures in self.fields(held, "algorithms", at).items()
            if isinstance(figures, dict) and figures.get("pool_bytes_per_page") is not None
        }
        return Idle(
            seconds=self.number(about, "seconds", "idle."),
            share=self.number(held, "share", at, high=1),
            same_share=0.0 if same is None else self.number(held, "same_filled_share", at, high=1),
            pool_bytes=pool,
        )

    def algorithm(self, name: str, held: object, place: str) -> Algorithm:
        if not isinstance(held, dict):
            raise self.wrong(place, "expected an object")
        if not ALGORITHM.fullmatch(name):
            raise self.wrong(place, "expected the name of an algorithm, such as lz4")
        at = f"{place}."
        pool = self.number(held, "pool_bytes_per_page", at, low=1)
        error = None
        if held.get("pool_bytes_per_page_error") is not None:
            error = self.number(held, "pool_bytes_per_page_error", at)
        step = self.number(held, "size_step_bytes", at, low=1)
        shares = held.get("size_shares")
        is_list = isinstance(shares, list) and 0 < len(shares) <= 4096
        if not is_list or not all(
            isinstance(each, int | float) and 0 <= each <= 1 for each in shares or ()
        ):
            raise self.wrong(f"{at}size_shares", "expected shares from 0 to 1")
        sizes = [((at + 1) * step, each) for at, each in enumerate(shares or ()) if each > 0]
        return Algorithm(
            name=name,
            pool_bytes=pool,
            pool_bytes_error=error,
            us_compress=_finite(self.number(held, "us_compress", at)),
            us_decompress=_finite(self.number(held, "us_decompress", at)),
            sizes=tuple(sizes),
        )


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
