"""arm64 kernels with larger base pages, which are the page size of everything on the machine.

Source: arch/arm64/Kconfig of Linux 6.18; packages as Debian 13, Ubuntu 24.04 and RHEL 9 name them;
config.txt of the Raspberry Pi 5; the Android guide "Support 16 KB page sizes".
"""

from __future__ import annotations

from pagewise.advice.setting import Setting

CONFIG = "/boot/firmware/config.txt"
"""The boot configuration of the Raspberry Pi."""
BEFORE = ".before-page-size"
"""The suffix of the backup of a changed file. The first backup stays if lines are pasted twice."""
CHECK = "First check which programs would fail: pagewise pagesize check FOLDER --page-size"


def kernel_16k() -> list[Setting]:
    """Base pages of 16 KiB."""
    note = f"{CHECK} 16KiB. Needs a processor with 16 KiB pages (Cortex-A76, Neoverse, Apple)."
    return [
        Setting(
            title="Debian 13, or 12 with backports",
            note=note,
            apply="apt install linux-image-arm64-16k && reboot   # then: getconf PAGESIZE",
            undo="apt remove linux-image-arm64-16k 'linux-image-*-arm64-16k' && reboot",
        ),
        Setting(
            title="Raspberry Pi 5",
            note=note,
            # Under [all], since the lines above may be for one kind of board.
            apply=f"{_keep(CONFIG)}\n"
            f"sed -i '/^kernel=/d' {CONFIG}\n"
            f"printf '\\n[all]\\nkernel=kernel_2712.img\\n' >> {CONFIG} && reboot",
            undo=f"{_put_back(CONFIG)} && reboot",
        ),
        Setting(
            title="Your own kernel or Android",
            note=f"{note} Android also needs PRODUCT_MAX_PAGE_SIZE_SUPPORTED := 16384 and "
            "PRODUCT_NO_BIONIC_PAGE_SIZE_MACRO := true, and its kernel needs Kleaf "
            "--page_size=16k.",
            apply=f"{_keep('.config')}\n"
            "scripts/config -d ARM64_4K_PAGES -e ARM64_16K_PAGES && make olddefconfig",
            undo=_put_back(".config"),
        ),
    ]


def kernel_64k() -> list[Setting]:
    """Base pages of 64 KiB."""
    note = f"{CHECK} 64KiB. Each small file and stack takes 64 KiB too."
    return [
        Setting(
            title="Ubuntu 24.04 on arm64",
            note=note,
            apply="apt install linux-generic-64k && reboot   # then: getconf PAGESIZE",
            undo="apt remove linux-generic-64k 'linux-image-*-generic-64k' && reboot",
        ),
        Setting(
            title="RHEL 9 and its relatives on arm64",
            note=note,
            apply="dnf install kernel-64k && reboot",
            undo="dnf remove kernel-64k kernel-64k-core && reboot",
        ),
        Setting(
            title="Your own kernel",
            note=note,
            apply=f"{_keep('.config')}\n"
            "scripts/config -d ARM64_4K_PAGES -e ARM64_64K_PAGES && make olddefconfig",
            undo=_put_back(".config"),
        ),
    ]


def _keep(file: str) -> str:
    """A line that backs up a file before its first change."""
    return f"[ -e {file}{BEFORE} ] || cp {file} {file}{BEFORE}"


def _put_back(file: str) -> str:
    """A line that restores the backup of a file."""
    return f"mv {file}{BEFORE} {file}"
