"""Memory of a virtual machine in huge pages of its host, for QEMU and libvirt.

Source: qemu(1) of QEMU 7.2, "Memory backing" of libvirt's domain format, hugetlbpage.rst of Linux
6.18. A guest's translations go through the tables of guest and host, so both should be large.
"""

from __future__ import annotations

from textwrap import indent

from pagewise.advice.setting import Setting

HUGE_BYTES = 2 << 20
"""Size of a page in the host's pool."""
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
BEFORE = "~/huge-pages-pool.before"
NOTE = (
    "Run this on the host. MEMORY_MIB is the guest's memory, which the host then reserves. "
    "The guest's own page size is a separate choice: get the advice for the guest's target too."
)
RESERVE = f"""\
MEMORY_MIB=4096
[ -e {BEFORE} ] || cat {POOL} > {BEFORE}
echo $(( $(cat {BEFORE}) + MEMORY_MIB / 2 )) > {POOL}"""
RELEASE = f"cat {BEFORE} > {POOL} && rm {BEFORE}"
LIBVIRT = """\
<memoryBacking>
  <hugepages>
    <page size="2048" unit="KiB"/>
  </hugepages>
</memoryBacking>"""


def qemu_options(memory: str) -> str:
    """QEMU options for a guest with this memory (``4096M``) in the host's 2 MiB pages."""
    return (
        f"-m {memory} -machine memory-backend=ram -object memory-backend-memfd,id=ram,"
        f"size={memory},hugetlb=on,hugetlbsize=2M,prealloc=on"
    )


def qemu() -> list[Setting]:
    """Settings for the command line of QEMU."""
    return [
        Setting(
            title="QEMU with 2 MiB pages of the host",
            note=NOTE,
            apply=f"{RESERVE}\nqemu-system-x86_64 {qemu_options('${MEMORY_MIB}M')} ...",
            undo=f"{RELEASE}   # after the guest has ended; start it without the options",
        )
    ]


def libvirt() -> list[Setting]:
    """Settings for a libvirt domain."""
    return [
        Setting(
            title="libvirt with 2 MiB pages of the host",
            note=NOTE,
            apply=f"{RESERVE}\n# put this below <domain>:\n{indent(LIBVIRT, '#   ')}\n"
            "virsh edit DOMAIN",
            undo=f"virsh edit DOMAIN   # remove <memoryBacking>\n{RELEASE}",
        )
    ]
