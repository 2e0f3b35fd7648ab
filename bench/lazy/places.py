"""Paths of the peers, the compiled programs and the results."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AGENT = ROOT / ".venv" / "bin" / "pagewise-agent"
PROGRAMS = Path(__file__).parent / "programs"
SYSTEM_PYTHON = "/usr/bin/python3"
"""Debian's own, which has numpy, WebKit's bindings and the malloc of the C library."""

BUILD = ROOT / "build" / "bench-lazy"
BINARIES = BUILD / "bin"
INPUTS = BUILD / "inputs"
RUNS = BUILD / "runs.jsonl"
RESULT = BUILD / "bench-lazy.json"
DOCUMENT = ROOT / "docs" / "bench-lazy.md"

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
MIMALLOC = BUILD / "mimalloc" / "cmeel.prefix" / "lib" / "libmimalloc.so.3"
SCUDO = Path("/usr/lib/llvm-16/lib/clang/16/lib/linux/libclang_rt.scudo_standalone-x86_64.so")

IDLE_S = 5.5
"""Idle time after the work: five seconds, and half a second for actions due at five."""
