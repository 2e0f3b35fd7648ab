"""Sizes and times with units: how to parse and how to print them.

Sizes: ``256MiB`` (1024-based), ``1.2GB`` (1000-based), ``4096`` (bytes). Times: ``10s``,
``1500ms``, ``90us``, ``2min``; a bare number is seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, SupportsIndex

from pagewise.errors import UsageError

if TYPE_CHECKING:
    from pagewise.answers import Spread

PAGE_BYTES = 4096
"""Bytes of a page in every recording and simulator."""
MIB = 2**20
GIB = 2**30
LIMIT = 2**63
"""The bound of sizes in bytes and times in nanoseconds, which the core holds in 64 bits."""

SIZE_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
TIME_UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
DAYS_PER_YEAR = 365
YEARS_SHOWN = 1000
"""Longer lives are printed as this: no device is used that long."""
SHARE_SHOWN = 0.0005
"""Smaller shares would be printed as 0."""
DIGITS_MAX = 30
"""More digits than any quantity here needs."""
QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zA-Zµ]*)\s*")


def parse_size(text: str | SupportsIndex) -> int:
    """Bytes of a size such as ``256MiB``; integers, also those of numpy, are bytes."""
    if not isinstance(text, str):
        size_bytes = whole(text)
        if size_bytes < 0:
            raise UsageError(f"a size cannot be negative: {size_bytes}")
        return below_limit(size_bytes, f"{size_bytes} bytes", "size", "8 EiB")
    match = QUANTITY.fullmatch(text)
    factor = SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UsageError(
            f"not a size: {text!r}", hint="digits and a unit, as in 256MiB, 1.2GB or 4096"
        )
    return below_limit(times(match[1], factor), text, "size", "8 EiB")


def whole(value: object) -> int:
    """An integer of any type as a Python int."""
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise UsageError(
            f"not a size: {value!r}", hint="use a whole number, or text such as '256MiB'"
        ) from error


def parse_recorded_time(text: str | int | float) -> int:
    """Nanoseconds of a time since the first event; negative where the clock stepped back.

    Raises UsageError if it is no time.
    """
    written = f"{text:.9f}" if isinstance(text, float) else str(text)
    if not written.startswith("-"):
        return parse_time(written)
    try:
        return -parse_time(written[1:])
    except UsageError as error:
        raise UsageError(f"{written}: {error}", hint=error.hint) from error


def parse_time(text: str | int | float) -> int:
    """Nanoseconds of a time such as ``1500ms``; a bare number is seconds."""
    if isinstance(text, float):
        text = f"{text:.9f}"
    match = QUANTITY.fullmatch(str(text))
    factor = TIME_UNITS_NS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UsageError(f"not a time: {text!r}", hint="for example 10s, 1500ms or 2min")
    return below_limit(times(match[1], factor), str(text), "time", "292 years")


def times(digits: str, factor: int) -> int:
    """The number in ``digits`` times ``factor``; the limit if there are too many digits."""
    if len(digits) > DIGITS_MAX:
        return LIMIT
    return round(float(digits) * factor) if "." in digits else int(digits) * factor


def below_limit(value: int, text: str, what: str, limit: str) -> int:
    """The value, if 64 bits can hold it."""
    if value >= LIMIT:
        shown = text if len(text) <= DIGITS_MAX else f"{text[:DIGITS_MAX]}..."
        raise UsageError(f"{shown} is not a possible {what}: the limit is {limit}")
    return value


def parse_share(text: str | float) -> float:
    """A fraction from ``5%`` or ``0.05``."""
    try:
        value = (
            float(text[:-1]) / 100 if isinstance(text, str) and text.endswith("%") else float(text)
        )
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise UsageError(f"not a share: {text!r}", hint="for example 5% or 0.05")
    return value


def parse_frames(text: str | SupportsIndex) -> int:
    """Frames (pages of memory) from a count such as ``1000``, or a size such as ``64MiB``."""
    if not isinstance(text, str) or text.strip().isdecimal():
        return parse_size(text)
    size_bytes = parse_size(text)
    if 0 < size_bytes < PAGE_BYTES:
        raise UsageError(
            f"a memory of {text} holds no frame: a page has {PAGE_BYTES} bytes",
            hint="write a number of frames, or a size such as 64MiB; 0 is no memory",
        )
    return size_bytes // PAGE_BYTES


def format_size(size_bytes: float) -> str:
    """A size in the largest 1024-based unit that keeps it at 1 or more: ``256 MiB``."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(round(value, 1)) < 1024:
            return f"{value:.0f} {unit}" if value == round(value) else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def format_size_short(size_bytes: int) -> str:
    """A size as the kernel writes it, short enough for the label of a bar: ``64K``, ``2M``."""
    return format_size(size_bytes).replace(" ", "").removesuffix("iB")


def format_seconds(seconds: float | None) -> str:
    """A duration with a unit that fits: ``1.25 s``, ``340 ms``, ``3 min 20 s``."""
    if seconds is None:
        return "unknown"
    if seconds == 0:
        return "0 s"
    if seconds < 0:
        return f"-{format_seconds(-seconds)}"
    # Rounded first: 999.999 ms are 1 s.
    rounded = float(f"{seconds:.3g}")
    if rounded < 1e-3:
        return f"{seconds * 1e6:.3g} us"
    if rounded < 1:
        return f"{seconds * 1e3:.3g} ms"
    if rounded < 100:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s"


def format_share(share: float | None) -> str:
    """A fraction as a percentage with one decimal: ``28.4 %``."""
    if share is None:
        return "unknown"
    if 0 < share < SHARE_SHOWN:
        return "under 0.1 %"
    return f"{share * 100:.1f} %"


def format_number(value: float, digits: int = 2) -> str:
    """A figure without unit in ``digits`` significant digits, never with an exponent: ``1,300``."""
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def format_figure(value: float) -> str:
    """A figure in a table: at least three digits, without an exponent: ``52,596``."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def format_years(years: float | None) -> str:
    """A life in a fitting unit: ``3.2 years``, ``41 days``."""
    if years is None:
        return "unknown"
    if years >= YEARS_SHOWN:
        return f"over {YEARS_SHOWN:,} years"
    if years >= 1:
        return counted(format_number(years), "year")
    days = years * DAYS_PER_YEAR
    return counted(format_number(days), "day") if days >= 1 else "under a day"


def counted(number: str, unit: str) -> str:
    """A number with its unit: ``1 day``, ``1.2 days``."""
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"


def format_range(value: Spread, written: Callable[[float], str]) -> str:
    """A typical figure with its range, each with its unit: ``98 s (88 s to 110 s)``."""
    low, typical, high = map(written, (value["low"], value["typical"], value["high"]))
    return typical if low == high else f"{typical} ({low} to {high})"


def format_percent(share: float) -> str:
    """A share that may be far above 1, with three digits: ``54.6 %``, ``2,410 %``."""
    return f"{format_number(share * 100, 3)} %"


def format_count(count: int) -> str:
    """An integer with separators: ``1,401,661``."""
    return f"{count:,}"


def format_counted(count: int, noun: str) -> str:
    """A count of things: ``1 cell``, ``2,700 cells``, ``3 processes``."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{format_count(count)} {noun}{'' if count == 1 else plural}"
