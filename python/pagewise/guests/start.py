"""What a guest with a page size is started with: pure text, for its kernel, QEMU and libvirt.

x86-64 has base pages of 4 KiB alone, so larger ones are transparent huge pages of one size; arm64
takes a kernel with that base page. Either way the guest gets that size and no other unless a
program asks: Debian's kernels would give 2 MiB or 32 MiB to all by themselves.
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
    """How to start a guest. ``kernel`` is none where the file names none for this size."""

    memory_bytes: int
    kernel: Path | None
    kernel_arguments: str
    tmpfiles: str | None
    has_host_huge_pages: bool

    @property
    def host_pages(self) -> int:
        """Huge pages that the host sets aside for it; none where it has none of them."""
        return self.memory_bytes // machines.HUGE_BYTES if self.has_host_huge_pages else 0


def sizes(guest: Guest) -> list[int]:
    """Bytes of the pages that the guest could have."""
    if guest.architecture == "x86-64":
        return list(mthp.USUAL)
    return sorted(guest.kernels) or list(BASE_PAGES[guest.architecture])


def start(guest: Guest, memory_bytes: int, page_bytes: int) -> Start:
    """The start of a guest whose workload has this memory, with pages of this size."""
    is_mthp = guest.architecture == "x86-64"
    words = mthp.boot_arguments(page_bytes) if is_mthp and page_bytes > PAGE_BYTES else NONE_UNASKED
    # Whole huge pages of the host, where it sets some aside.
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
    """For a guest whose kernel arguments are its own."""
    if page_bytes == PAGE_BYTES:
        return f"w {SWITCHES}/{GENERAL} - - - - madvise"
    return mthp.tmpfiles(page_bytes)


def in_the_guest(guest: Guest, page_bytes: int) -> list[Setting]:
    """How to have the size from inside the guest instead, with undo."""
    if page_bytes == PAGE_BYTES:
        return []
    if guest.architecture == "x86-64":
        return [mthp.by_tmpfiles(page_bytes), mthp.at_boot(page_bytes)]
    return arm64.kernel_16k() if page_bytes == 4 * PAGE_BYTES else arm64.kernel_64k()


def qemu_arguments(name: str, start: Start) -> str:
    """Lines for ``xargs -a FILE qemu-system-...``, which understands the shell's quotes."""
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
    """The elements of a domain that the page size decides."""
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
    """The shell line that adds ``pages`` to those the host sets aside; negative takes them back."""
    return f"echo $(( $(cat {machines.POOL}) {pages:+d} )) > {machines.POOL}"


def undo(start: Start) -> str:
    """How to take back what the other files set up: a script with its comments."""
    lines = ["# Started without these files, the guest is as before. What may stay of them:"]
    if start.host_pages:
        lines += ["# On the host, after the guest has ended, if its pages were set aside for it:"]
        lines += [set_aside(-start.host_pages)]
    if start.tmpfiles is not None:
        lines += ["# In the guest, before its next start, if tmpfiles.conf was put there:"]
        lines += [f"rm {mthp.TMPFILES}"]
    return "\n".join(lines) + "\n"


def files(name: str, start: Start) -> dict[str, str]:
    """Everything that is written for a guest, by file name."""
    written = {
        "kernel-arguments": start.kernel_arguments + "\n",
        "qemu.args": qemu_arguments(name, start),
        "libvirt.xml": libvirt_domain(name, start),
        "undo": undo(start),
    }
    if start.tmpfiles is not None:
        written["tmpfiles.conf"] = start.tmpfiles + "\n"
    return written
