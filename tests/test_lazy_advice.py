"""Huge-page advice, which numpy gives for every large array, leaves freed memory reusable."""

import json
import mmap
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = Path(sys.prefix) / "lib" / "libpagewise_lazy.so"
PAGES = 1024
STANDS_ASIDE = (
    platform.libc_ver()[0] != "glibc"
    or mmap.PAGESIZE != 4096
    or resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
)

PROGRAM = f"""
import ctypes, json, mmap, resource
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
length = {PAGES} * mmap.PAGESIZE

def use(advice):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    address = libc.mmap(None, length, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if advice is not None:
        libc.madvise(address, length, advice)  # a kernel without huge pages refuses
    is_zero = ctypes.string_at(address, length) == bytes(length)
    ctypes.memset(address, 7, length)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    libc.munmap(address, length)
    return faults, is_zero

print(json.dumps([use(None), use(mmap.MADV_HUGEPAGE), use(None)]))
"""


@pytest.mark.skipif(
    not LIBRARY.exists() or STANDS_ASIDE,
    reason="needs the library (make build), glibc, pages of 4 KiB and unlimited address space",
)
def test_memory_advised_to_be_huge_is_kept_and_zeroed() -> None:
    ages = dict.fromkeys(("PAGEWISE_LAZY_LAZY_AFTER", "PAGEWISE_LAZY_DISCARD_AFTER"), "600s")
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **ages, "LD_PRELOAD": str(LIBRARY)},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    uses = json.loads(result.stdout)
    assert all(is_zero for _, is_zero in uses), result.stdout
    assert uses[-1][0] < PAGES / 2, result.stdout
