"""How a program with glibc's malloc is made to ask for huge pages, without a change to it.

Source: malloc/malloc.c of glibc 2.36. ``hugetlb=1`` advises the heap, and blocks mapped by
themselves from the size of a large huge page (2 MiB) on. Blocks from 128 KiB up to there would be
mapped unadvised; with the greatest threshold that glibc takes they come from the heap.
"""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "GLIBC_TUNABLES"
TUNABLES = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432"


def asking(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a program asks; tunables that are set stay."""
    present = environment.get(VARIABLE)
    return {**environment, VARIABLE: f"{present}:{TUNABLES}" if present else TUNABLES}
