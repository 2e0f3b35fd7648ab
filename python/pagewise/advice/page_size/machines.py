"""Memory of a virtual machine in huge pages of its host, with QEMU and with libvirt.

Source: qemu(1) of QEMU 7.2, "Memory backing" of libvirt's domain format, hugetlbpage.rst of Linux
6.18. Translations of a guest go through both tables, so guest and host should both be large.
"""

from __future__ import annotations

from textwrap import indent

from pagewise.advice.setting import Setting

HUGE_BYTES = 2 << 20
"""Of a page that the host sets aside."""
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
BEFORE = "~/huge-pages-pool.before"
NOTE = (
    "On the host; MEMORY_MIB is the guest's memory, which the host then keeps set aside. "
    "The guest's own page size is another choice: take the advice for its target as well."
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
    """Options that give a guest of this memory (``4096M``) huge pages of 2 MiB of the host."""
    return (
        f"-m {memory} -machine memory-backend=ram -object memory-backend-memfd,id=ram,"
        f"size={memory},hugetlb=on,hugetlbsize=2M,prealloc=on"
    )


def qemu() -> list[Setting]:
    """Options of the command line."""
    return [
        Setting(
            title="QEMU with 2 MiB pages of the host",
            note=NOTE,
            apply=f"{RESERVE}\nqemu-system-x86_64 {qemu_options('${MEMORY_MIB}M')} ...",
            undo=f"{RELEASE}   # after the guest has ended; start it without the options",
        )
    ]


def libvirt() -> list[Setting]:
    """An element of the domain."""
    return [
        Setting(
            title="libvirt with 2 MiB pages of the host",
            note=NOTE,
            apply=f"{RESERVE}\n# to be put below <domain>:\n{indent(LIBVIRT, '#   ')}\n"
            "virsh edit DOMAIN",
            undo=f"virsh edit DOMAIN   # remove <memoryBacking>\n{RELEASE}",
        )
    ]
