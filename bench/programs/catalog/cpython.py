"""CPython's own tests, as Debian packages them. They run last because they take longest."""

from __future__ import annotations

from programs.catalog.runtimes import PYTHON
from programs.program import Program

TESTS = "/usr/lib/python3.11/test/test_gc.py"
QUICK_TESTS = ("test_mmap", "test_gc")
SLOW_TESTS = (
    *("test_threading", "test_subprocess", "test_signal"),
    *("test_multiprocessing_fork", "test_multiprocessing_spawn", "test_multiprocessing_forkserver"),
    "test_multiprocessing_main_handling",
)


def cpython(name: str) -> Program:
    """One file of CPython's own tests: compares the result of each test."""
    is_slow = name in SLOW_TESTS
    return Program(
        name=f"cpython {name}",
        what=f"`python3.11 -m test {name}`; each test's result from the XML report",
        words=[PYTHON, "SOURCES/cpython_tests.py", name],
        expects="^tests [0-9]{2}",
        version=[PYTHON, "--version"],
        needs=[PYTHON, TESTS],
        limit_s=900 if is_slow else 120,
        is_together=is_slow,
        is_served=True,
        is_quick=name == "test_mmap",
    )


PROGRAMS = tuple(cpython(name) for name in (*QUICK_TESTS, *SLOW_TESTS))
