"""Transparent huge pages of one size: for a process, for a machine, and from boot on.

Source: Documentation/admin-guide/mm/transhuge.rst of Linux 6.18 (a switch per size since 6.8,
``thp_anon=`` since 6.12), the glibc manual on tunables (2.35), tmpfiles.d(5).
"""

from __future__ import annotations

from pagewise.advice.setting import Setting
from pagewise.huge_pages import glibc, settings
from pagewise.huge_pages.settings import SWITCHES
from pagewise.units import PAGE_BYTES, format_size_short

PMD_BYTES = 2 << 20
"""The size that kernels enable by default, and may prefer to a smaller size."""
USUAL = (PAGE_BYTES, *(16 * 1024 << step for step in range(8)))
"""Sizes of a kernel with base pages of 4 KiB: 4 KiB, and 16 KiB to 2 MiB; never 8 KiB."""
BEFORE = "~/huge-pages.before"
TMPFILES = "/etc/tmpfiles.d/pagewise-page-size.conf"
GRUB = "/etc/default/grub.d/pagewise-page-size.cfg"

# Only once, so that pasting the lines twice keeps the first record.
RECORD = (
    f"[ -e {BEFORE} ] || grep -H . {SWITCHES}/enabled {SWITCHES}/hugepages-*/enabled > {BEFORE}"
)
PUT_BACK = (
    f"sed 's/:.*\\[\\(.*\\)\\].*/ \\1/' {BEFORE} |\n"
    'while read -r file word; do echo "$word" > "$file"; done\n'
    f"rm {BEFORE}"
)
NONE_OTHER = f"for file in {SWITCHES}/hugepages-*/enabled; do echo never > $file; done"


def sizes(is_here: bool) -> list[int]:
    """The page sizes of this kernel if ``is_here``, else the usual ones."""
    return [PAGE_BYTES, *settings.sizes()] if is_here else list(USUAL)


def for_process(size_bytes: int) -> Setting:
    """Settings for one program, without changing it."""
    return Setting(
        title="For one process, until the next restart",
        note="glibc's malloc asks for huge pages by madvise (glibc 2.35); other programs get "
        "this size too if they ask. Programs with another malloc gain nothing.",
        apply=f"""\
{RECORD}
{NONE_OTHER}
echo madvise > {SWITCHES}/{settings.GENERAL}
echo madvise > {SWITCHES}/{settings.switch(size_bytes)}
{glibc.VARIABLE}={glibc.TUNABLES} \\
  COMMAND""",
        undo=PUT_BACK,
    )


def for_machine(size_bytes: int) -> Setting:
    """Settings for all programs, until the next restart."""
    return Setting(
        title="For all programs, until the next restart",
        note="To see how many pages the kernel could provide, read anon_fault_alloc and "
        "anon_fault_fallback in hugepages-*/stats/.",
        apply=f"""\
{RECORD}
{NONE_OTHER}
echo always > {SWITCHES}/{settings.switch(size_bytes)}""",
        undo=PUT_BACK,
    )


def tmpfiles(size_bytes: int) -> str:
    """The systemd-tmpfiles lines that enable this size and disable the default one."""
    words = {PMD_BYTES: "never"} | {size_bytes: "always"}
    lines = [f"w {SWITCHES}/{settings.switch(size)} - - - - {word}" for size, word in words.items()]
    return "\n".join(lines)


def by_tmpfiles(size_bytes: int) -> Setting:
    """Settings for all programs, applied at every boot by systemd."""
    return Setting(
        title="For all programs, kept over restarts, with systemd",
        note="systemd-tmpfiles sets it early at every boot.",
        apply=f"""\
{RECORD}
cat > {TMPFILES} <<'END'
{tmpfiles(size_bytes)}
END
systemd-tmpfiles --create {TMPFILES}""",
        undo=f"rm {TMPFILES}\n{PUT_BACK}",
    )


def boot_arguments(size_bytes: int) -> str:
    """The kernel arguments for this size; they disable all other sizes."""
    return f"thp_anon={format_size_short(size_bytes)}:always"


def at_boot(size_bytes: int) -> Setting:
    """Settings for all programs, from the first program on."""
    return Setting(
        title="For all programs, from the first one on, with GRUB of Debian or Ubuntu",
        note="Needs Linux 6.12 and a restart; with another boot loader, add the words to its own.",
        apply=f"""\
cat > {GRUB} <<'END'
GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {boot_arguments(size_bytes)}"
END
update-grub""",
        undo=f"rm {GRUB} && update-grub",
    )


def whole_thp() -> list[Setting]:
    """Settings for 2 MiB pages on any version of Linux."""
    return [
        Setting(
            title="For one process, until the next restart",
            note="glibc's malloc asks for huge pages by madvise (glibc 2.35).",
            apply=f"""\
{RECORD}
echo madvise > {SWITCHES}/{settings.GENERAL}
{glibc.VARIABLE}={glibc.TUNABLES} \\
  COMMAND""",
            undo=PUT_BACK,
        ),
        Setting(
            title="For all programs, until the next restart",
            note="To exclude a program that loses by it, call prctl(PR_SET_THP_DISABLE) there.",
            apply=f"{RECORD}\necho always > {SWITCHES}/{settings.GENERAL}",
            undo=PUT_BACK,
        ),
    ]
