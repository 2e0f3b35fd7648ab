"""How to make a program with glibc's malloc ask for huge pages, without changing the program.

Source: malloc/malloc.c of glibc 2.36. ``hugetlb=1`` advises the heap, and mapped blocks from 2 MiB
on. Blocks from 128 KiB to 2 MiB would be mapped without advice; with the largest threshold that
glibc accepts, they come from the heap instead.
"""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "GLIBC_TUNABLES"
TUNABLES = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432"


def asking(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a program asks for huge pages; keeps tunables that are set."""
    present = environment.get(VARIABLE)
    return {**environment, VARIABLE: f"{present}:{TUNABLES}" if present else TUNABLES}
