"""Where the library, the compiled programs and the results are."""

from __future__ import annotations

from pathlib import Path

from lazy.places import AGENT, ROOT

__all__ = ["AGENT", "ROOT"]

LIBRARY = AGENT.parents[1] / "lib" / "libpagewise_lazy.so"
SOURCES = Path(__file__).parent / "sources"
BUILD = ROOT / "build" / "bench-programs"
BINARIES = BUILD / "bin"
INPUTS = BUILD / "inputs"
"""Input files of programs: written once, copied for each run."""
OUTCOMES = BUILD / "outcomes"
RUNS = BUILD / "runs.jsonl"
RESULT = BUILD / "bench-programs.json"
DOCUMENT = ROOT / "docs" / "bench-programs.md"
