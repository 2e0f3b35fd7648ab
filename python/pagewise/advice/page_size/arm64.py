"""Kernels with larger base pages, which arm64 has: everything in the machine gets that size.

Source: arch/arm64/Kconfig of Linux 6.18; packages as Debian 13, Ubuntu 24.04 and RHEL 9 name them;
config.txt of the Raspberry Pi 5; the Android guide "Support 16 KB page sizes".
"""

from __future__ import annotations

from pagewise.advice.setting import Setting

CONFIG = "/boot/firmware/config.txt"
"""Of the Raspberry Pi."""
BEFORE = ".before-page-size"
"""What a file is kept as that was changed, once, so that lines pasted twice keep the first."""
CHECK = "Ask first which programs would fail: pagewise pagesize check FOLDER --page-size"


def kernel_16k() -> list[Setting]:
    """Base pages of 16 KiB."""
    note = f"{CHECK} 16KiB. Needs a processor that grants 16 KiB (Cortex-A76, Neoverse, Apple)."
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
            # Under [all], whatever kind of board the lines above it are for.
            apply=f"{_keep(CONFIG)}\n"
            f"sed -i '/^kernel=/d' {CONFIG}\n"
            f"printf '\\n[all]\\nkernel=kernel_2712.img\\n' >> {CONFIG} && reboot",
            undo=f"{_put_back(CONFIG)} && reboot",
        ),
        Setting(
            title="A kernel or Android of your own",
            note=f"{note} Android also wants PRODUCT_MAX_PAGE_SIZE_SUPPORTED := 16384 and "
            "PRODUCT_NO_BIONIC_PAGE_SIZE_MACRO := true, and its kernel Kleaf --page_size=16k.",
            apply=f"{_keep('.config')}\n"
            "scripts/config -d ARM64_4K_PAGES -e ARM64_16K_PAGES && make olddefconfig",
            undo=_put_back(".config"),
        ),
    ]


def kernel_64k() -> list[Setting]:
    """Base pages of 64 KiB."""
    note = f"{CHECK} 64KiB. Small files and stacks take 64 KiB each as well."
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
            title="A kernel of your own",
            note=note,
            apply=f"{_keep('.config')}\n"
            "scripts/config -d ARM64_4K_PAGES -e ARM64_64K_PAGES && make olddefconfig",
            undo=_put_back(".config"),
        ),
    ]


def _keep(file: str) -> str:
    """Keeps a file as it is before the first change."""
    return f"[ -e {file}{BEFORE} ] || cp {file} {file}{BEFORE}"


def _put_back(file: str) -> str:
    """Has the file as it was kept."""
    return f"mv {file}{BEFORE} {file}"
