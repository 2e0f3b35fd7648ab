"""A zram swap area of our own, and the page-out of a program into it."""

import contextlib
import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

CONTROL = Path("/sys/class/zram-control")
PROCESS_MADVISE = 440
PAGE_OUT = 21  # MADV_PAGEOUT
FIELDS = ("orig_data_size", "compr_data_size", "mem_used_total", "mem_limit", "mem_used_max")
SAME_PAGES = 5
PRIORITY = 32767


class Range(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("address", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


class ZramArea:
    """A zram device, enabled as the swap area that the kernel fills first."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.folder = Path(f"/sys/block/zram{number}")

    def counts(self) -> dict[str, int]:
        """`mm_stat`."""
        values = [int(field) for field in (self.folder / "mm_stat").read_text().split()]
        return {**dict(zip(FIELDS, values, strict=False)), "same_pages": values[SAME_PAGES]}


@contextlib.contextmanager
def zram_area(algorithm: str, size: int) -> Iterator[ZramArea]:
    """A swap area on a new zram device, which is removed at the end."""
    area = ZramArea(int((CONTROL / "hot_add").read_text()))
    device = f"/dev/zram{area.number}"
    try:
        (area.folder / "comp_algorithm").write_text(algorithm)
        (area.folder / "disksize").write_text(str(size))
        subprocess.run(["mkswap", device], check=True, capture_output=True, timeout=60)
        subprocess.run(["swapon", "-p", str(PRIORITY), device], check=True, timeout=60)
        try:
            yield area
        finally:
            subprocess.run(["swapoff", device], check=True, timeout=300)
    finally:
        removed(area)


def removed(area: ZramArea) -> None:
    """Removes the device, as soon as nothing holds it open."""
    late = time.monotonic() + 30
    while True:
        try:
            (area.folder / "reset").write_text("1")
            (CONTROL / "hot_remove").write_text(str(area.number))
            return
        except OSError:
            if time.monotonic() > late:
                raise
        time.sleep(0.01)


def anonymous_ranges(process: int) -> list[tuple[int, int]]:
    """The addresses and sizes of the private mappings of a process that have no file."""
    found = []
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        fields = line.split()
        if fields[1].endswith("p") and (
            len(fields) == 5 or fields[5].startswith(("[heap", "[anon"))
        ):
            start, end = (int(part, 16) for part in fields[0].split("-"))
            found.append((start, end - start))
    return found


def page_out(process: int, ranges: list[tuple[int, int]]) -> float:
    """Pages out ranges of a process, and returns the CPU seconds that the kernel took for it."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    handle = os.pidfd_open(process)
    started = time.process_time()
    try:
        for address, size in ranges:
            wanted = Range(address, size)
            result = call(PROCESS_MADVISE, handle, ctypes.byref(wanted), 1, PAGE_OUT, 0)
            if result < 0:
                raise OSError(ctypes.get_errno(), "process_madvise")
    finally:
        os.close(handle)
    return time.process_time() - started
