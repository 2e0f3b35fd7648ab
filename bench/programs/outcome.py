"""The outcome of a run as text: equal texts are equal outcomes."""

from __future__ import annotations

import difflib
import hashlib
import re
from pathlib import Path

from programs.program import Program

MARK = "---- "
DIFFERENCE_LINES = 40


def outcome_text(
    program: Program, folder: Path, end: str, streams: dict[str, bytes], is_left: bool
) -> str:
    """Exit status, both streams and result files of a run, after the program's normalisation."""
    parts = [f"{MARK}end\n{end}"]
    if is_left:
        parts.append(f"{MARK}processes\nsome were left when the program had ended")
    for name, content in streams.items():
        parts.append(f"{MARK}{name}\n{normalised(program, folder, content)}")
    for name in program.text_results:
        path = folder / name
        content = path.read_bytes() if path.exists() else b"(no such file)"
        parts.append(f"{MARK}{name}\n{normalised(program, folder, content)}")
    parts += [f"{MARK}{name}\n{digest(folder / name)}" for name in program.results]
    return "\n".join(parts) + "\n"


def normalised(program: Program, folder: Path, content: bytes) -> str:
    """A stream without the parts that differ between stock runs."""
    text = content.decode(errors="backslashreplace").replace(str(folder), "FOLDER")
    lines = text.splitlines()
    if program.dropped:
        lines = [line for line in lines if not re.search(program.dropped, line)]
    for pattern, replacement in program.substitutions:
        lines = [re.sub(pattern, replacement, line) for line in lines]
    return "\n".join(sorted(lines) if program.is_sorted else lines)


def digest(path: Path) -> str:
    """The size of a file and a hash of its content."""
    if not path.exists():
        return "(no such file)"
    content = path.read_bytes()
    return f"{len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}"


def short(text: str) -> str:
    """A short name for an outcome: a hash of its text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def difference(stock: str, other: str) -> str:
    """The first lines in which an outcome differs from the stock outcome."""
    lines = list(
        difflib.unified_diff(
            stock.splitlines(), other.splitlines(), "stock", "library", "", "", 1, ""
        )
    )
    more = (
        [f"... {len(lines) - DIFFERENCE_LINES} lines more"] if len(lines) > DIFFERENCE_LINES else []
    )
    return "\n".join(lines[:DIFFERENCE_LINES] + more)
