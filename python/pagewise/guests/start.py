"""The files to start a guest with a page size, as text: for its kernel, QEMU and libvirt.

x86-64 has only base pages of 4 KiB, so larger pages are transparent huge pages of one size; arm64
uses a kernel with that base page. In both cases the guest gets only that size, unless a program
asks for another: Debian's kernels would give 2 MiB or 32 MiB pages to all programs.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from pagewise.advice.page_size import arm64, machines, mthp
from pagewise.advice.setting import Setting
from pagewise.guests.spec import BASE_PAGES, Guest
from pagewise.huge_pages.settings import GENERAL, SWITCHES
from pagewise.units import MIB, PAGE_BYTES

NONE_UNASKED = "transparent_hugepage=madvise"


@dataclass(frozen=True)
class Start:
    """How to start a guest. ``kernel`` is None if the file names no kernel for this size."""

    memory_bytes: int
    kernel: Path | None
    kernel_arguments: str
    tmpfiles: str | None
    has_host_huge_pages: bool

    @property
    def host_pages(self) -> int:
        """Huge pages that the host reserves for the guest; None without reserved pages."""
        return self.memory_bytes // machines.HUGE_BYTES if self.has_host_huge_pages else 0


def sizes(guest: Guest) -> list[int]:
    """The page sizes, in bytes, that the guest could have."""
    if guest.architecture == "x86-64":
        return list(mthp.USUAL)
    return sorted(guest.kernels) or list(BASE_PAGES[guest.architecture])


def start(guest: Guest, memory_bytes: int, page_bytes: int) -> Start:
    """How to start a guest whose workload has this memory and pages of this size."""
    is_mthp = guest.architecture == "x86-64"
    words = mthp.boot_arguments(page_bytes) if is_mthp and page_bytes > PAGE_BYTES else NONE_UNASKED
    # A multiple of the host's huge pages, if it reserves some.
    granule = machines.HUGE_BYTES if guest.has_host_huge_pages else MIB
    whole = -(-(memory_bytes + guest.system_memory_bytes) // granule) * granule
    return Start(
        memory_bytes=whole,
        kernel=guest.kernels.get(PAGE_BYTES if is_mthp else page_bytes),
        kernel_arguments=" ".join(filter(None, (guest.kernel_arguments, words))),
        tmpfiles=_tmpfiles(page_bytes) if is_mthp else None,
        has_host_huge_pages=guest.has_host_huge_pages,
    )


def _tmpfiles(page_bytes: int) -> str:
    """The tmpfiles.conf for a guest that boots with other kernel arguments."""
    if page_bytes == PAGE_BYTES:
        return f"w {SWITCHES}/{GENERAL} - - - - madvise"
    return mthp.tmpfiles(page_bytes)


def in_the_guest(guest: Guest, page_bytes: int) -> list[Setting]:
    """Settings for the size from inside the guest instead, with undo."""
    if page_bytes == PAGE_BYTES:
        return []
    if guest.architecture == "x86-64":
        return [mthp.by_tmpfiles(page_bytes), mthp.at_boot(page_bytes)]
    return arm64.kernel_16k() if page_bytes == 4 * PAGE_BYTES else arm64.kernel_64k()


def qemu_arguments(name: str, start: Start) -> str:
    """Lines for ``xargs -a FILE qemu-system-...``, which parses quotes as a shell does."""
    memory = f"{start.memory_bytes // MIB}M"
    words = machines.qemu_options(memory) if start.has_host_huge_pages else f"-m {memory}"
    lines = [f"-name {name}", words]
    if start.kernel is not None:
        lines += [
            f"-kernel {shlex.quote(str(start.kernel))}",
            f"-append {shlex.quote(start.kernel_arguments)}",
        ]
    return "\n".join(lines) + "\n"


def libvirt_domain(name: str, start: Start) -> str:
    """The elements of a libvirt domain that depend on the page size."""
    domain = ElementTree.Element("domain")
    ElementTree.SubElement(domain, "name").text = name
    memory = ElementTree.SubElement(domain, "memory", unit="MiB")
    memory.text = str(start.memory_bytes // MIB)
    if start.has_host_huge_pages:
        domain.append(ElementTree.fromstring(machines.LIBVIRT))
    if start.kernel is not None:
        system = ElementTree.SubElement(domain, "os")
        ElementTree.SubElement(system, "kernel").text = str(start.kernel)
        ElementTree.SubElement(system, "cmdline").text = start.kernel_arguments
    ElementTree.indent(domain)
    return ElementTree.tostring(domain, encoding="unicode") + "\n"


def set_aside(pages: int) -> str:
    """The shell line that adds ``pages`` to the host's reserve; a negative number removes them."""
    return f"echo $(( $(cat {machines.POOL}) {pages:+d} )) > {machines.POOL}"


def undo(start: Start) -> str:
    """How to undo the other files: a script with comments."""
    lines = ["# Without these files, the guest starts as before. What may remain:"]
    if start.host_pages:
        lines += ["# On the host, after the guest has ended, if you reserved pages for it:"]
        lines += [set_aside(-start.host_pages)]
    if start.tmpfiles is not None:
        lines += ["# In the guest, before its next start, if you installed tmpfiles.conf:"]
        lines += [f"rm {mthp.TMPFILES}"]
    return "\n".join(lines) + "\n"


def files(name: str, start: Start) -> dict[str, str]:
    """All files of a guest, by file name."""
    written = {
        "kernel-arguments": start.kernel_arguments + "\n",
        "qemu.args": qemu_arguments(name, start),
        "libvirt.xml": libvirt_domain(name, start),
        "undo": undo(start),
    }
    if start.tmpfiles is not None:
        written["tmpfiles.conf"] = start.tmpfiles + "\n"
    return written
