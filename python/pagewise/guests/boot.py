"""Boots a Debian kernel in a guest under QEMU, runs a script in it, and returns its results.

The guest has busybox, the given files, and an ext4 disk as its working directory. It is emulated,
because nested virtualisation is not available everywhere. Kernel and busybox are Debian packages.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagewise.errors import Missing, PagewiseError, UnreadableInput
from pagewise.guests.debian import package, unpacked

# The modules that every guest needs for its two disks.
DISK_MODULES = ("virtio_pci", "virtio_blk", "ext4")

# The first process of a guest. Its disks are vda, for the results as a tar file, vdb, for work, and
# vdc, for swap, if it has one.
INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod /modules/$module; done
mount -t ext4 /dev/vdb /disk
cd /disk
sh /script >/result/output 2>&1
echo $? >/result/status
tar -cf /dev/vda -C /result .
sync
poweroff -f
"""


ACCELERATOR = "tcg,thread=single"
"""Processors take turns in one thread. With a thread each, QEMU 7.2 may run an instruction that the
guest's kernel has just patched as it was before, and the kernel panics: seen once, as a tracepoint
was switched off. Turns cost a fifth of the time (101 and 120 s for test_swapd_zram.py)."""
FAILED_BOOT = re.compile(r"soft lockup - CPU|\[ +[01]\.\d{6}\] Kernel panic")
"""With Linux 6.1 under QEMU 7.2 and two processors, one may spin in the kernel's allocator forever,
and then the kernel panics. Rarely, a kernel panics in its own timers within two seconds, before it
runs the first process."""
BUSYBOX = "bin/busybox"
"""The program in Debian's package busybox-static."""
BOOTS_MAX = 3
"""The guest is booted again after these failures, at most this often in total."""
TOOL_TIMEOUT_S = 300
"""How long a tool on this machine may take."""


class GuestFailed(PagewiseError):
    """A guest did not boot, or did not finish its script; ``console`` is all that it printed."""

    def __init__(self, message: str, console: str = "", *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.console = console


class GuestHung(GuestFailed):
    """A guest did not finish its script in time."""


@dataclass(frozen=True)
class Emulator:
    """The QEMU program and options for an architecture."""

    program: str
    debian: str
    options: tuple[str, ...]
    console: str


EMULATORS = {
    # With newer processor models, newer kernels fail under emulation; so they do with cmpxchg16b
    # under QEMU 7.2.
    "amd64": Emulator(
        "qemu-system-x86_64", "qemu-system-x86", ("-M", "pc", "-cpu", "qemu64,-cx16"), "ttyS0"
    ),
    # The oldest model that supports base pages of 16 KiB.
    "arm64": Emulator(
        "qemu-system-aarch64", "qemu-system-arm", ("-M", "virt", "-cpu", "cortex-a76"), "ttyAMA0"
    ),
}


@dataclass(frozen=True)
class Machine:
    """A guest to boot. ``kernel``: a Debian package, one that depends on the newest kernel, the
    path of a package file (``.deb``), or the absolute path of a folder with the files of one.

    ``suite`` is the Debian suite of the package, such as ``trixie``; None for the machine's own.
    """

    architecture: str = "amd64"
    suite: str | None = None
    kernel: str = "linux-image-cloud-amd64"
    kernel_arguments: str = ""
    modules: tuple[str, ...] = ()
    processors: int = 2
    memory_mib: int = 512
    disk_mib: int = 512
    swap_mib: int = 0
    has_counted_clock: bool = False
    """Whether the guest's clock counts the instructions of its only processor, one per nanosecond,
    and skips idle time, so that the load of the host does not change its results. With QEMU 7.2 a
    second processor does not start with such a clock."""
    start: tuple[str, ...] = ()
    """QEMU options for memory, kernel and its arguments; if empty, derived from other fields."""


@dataclass(frozen=True)
class Answer:
    """The results of a guest: its script's exit status and output, ``/result``, and the console."""

    status: int
    output: str
    results: Path
    console: str


def require(machine: Machine) -> None:
    """Fetches what the guest needs. Raises Missing if this machine cannot boot it."""
    emulator = EMULATORS[machine.architecture]
    programs = {
        emulator.program: emulator.debian,
        "cpio": "cpio",
        "mkfs.ext4": "e2fsprogs",
        "setpriv": "util-linux",
    }
    for program, debian in programs.items():
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed", hint=f"apt-get install -y {debian}")
    package("busybox-static", machine.architecture)
    kernel_of(machine)


def boot(
    machine: Machine,
    script: str,
    files: Mapping[str, Path | str],
    folder: Path,
    timeout_s: float = 300,
    content: Path | None = None,
) -> Answer:
    """Runs ``script`` with ``sh`` as root in a guest with ``files``, which maps paths to contents.

    A Path is copied with its mode; a text becomes an executable file. ``content``: the folder that
    the disk is filled from; without it, the disk is empty. Keeps its own files in ``folder``.
    Raises GuestFailed with the end of the console if the guest does not finish the script, and
    GuestHung if it takes longer than ``timeout_s``.
    """
    initramfs = pack(machine, kernel_of(machine), {**files, "script": script}, folder)
    results, disk, swap = (folder / name for name in ("results.tar", "disk.ext4", "swap"))
    sizes = {results: 64, disk: machine.disk_mib}
    if machine.swap_mib:
        sizes[swap] = machine.swap_mib
    emulator = EMULATORS[machine.architecture]
    clock = ("-icount", "shift=0,sleep=off") if machine.has_counted_clock else ()
    # QEMU reads two commas as one that does not end the name.
    names = (str(path).replace(",", ",,") for path in sizes)
    drives = (f"file={name},format=raw,if=virtio,cache=unsafe" for name in names)
    command = [
        # The guest ends with this process, even by kill -9.
        *("setpriv", "--pdeathsig", "KILL", emulator.program, *emulator.options),
        *("-accel", ACCELERATOR, "-nodefaults", "-no-user-config"),
        *clock,
        *("-nographic", "-no-reboot", "-serial", "stdio"),
        *("-smp", str(machine.processors), "-initrd", initramfs),
        *(word for drive in drives for word in ("-drive", drive)),
        *(machine.start or own_start(machine)),
    ]
    for _ in range(BOOTS_MAX):
        for path, mib in sizes.items():
            path.unlink(missing_ok=True)
            path.touch()
            os.truncate(path, mib << 20)
        filled = ("-d", content) if content is not None else ()
        run("mkfs.ext4", "-q", "-F", *filled, disk)
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=timeout_s
            )
        except subprocess.TimeoutExpired as error:
            console = os.fsdecode(error.stdout or b"")
            raise GuestHung(
                f"the guest took longer than {timeout_s:.0f} s: {console[-2000:]}", console
            ) from error
        if FAILED_BOOT.search(ran.stdout) is None:
            break
    left = folder / "result"
    try:
        with tarfile.open(results) as archive:
            # Debian 12's Python 3.11.2 has no filters yet.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(left)
        status = int((left / "status").read_text())
    except (tarfile.TarError, OSError, ValueError) as error:
        message = f"the guest failed: {ran.stderr}{ran.stdout[-2000:]}"
        raise GuestFailed(message, ran.stdout) from error
    return Answer(status, (left / "output").read_text(errors="replace"), left, ran.stdout)


def run(*command: str | Path, **options: Any) -> None:
    """Runs a tool on this machine. Raises GuestFailed if it fails, with its messages, or takes too
    long."""
    try:
        subprocess.run(
            command, check=True, stderr=subprocess.PIPE, timeout=TOOL_TIMEOUT_S, **options
        )
    except subprocess.CalledProcessError as error:
        reason = os.fsdecode(error.stderr).strip()
        raise GuestFailed(f"{command[0]} failed: {reason[-500:]}") from error
    except subprocess.TimeoutExpired as error:
        raise GuestFailed(f"{command[0]} took longer than {TOOL_TIMEOUT_S} s") from error


def own_start(machine: Machine) -> tuple[str, ...]:
    """QEMU options for memory, kernel and its arguments."""
    append = f"{basic_arguments(machine)} {machine.kernel_arguments}"
    return ("-m", f"{machine.memory_mib}M", "-kernel", str(image(machine)), "-append", append)


def image(machine: Machine) -> Path:
    """The kernel image."""
    return part(kernel_of(machine), "boot/vmlinuz-*")


def part(kernel: Path, pattern: str) -> Path:
    """A file or folder of an unpacked kernel. Raises UnreadableInput if it has none."""
    found = next(kernel.glob(pattern), None)
    if found is None:
        raise UnreadableInput(
            f"{kernel.name}: no Debian package of a kernel, for it has no {pattern}",
            path=str(kernel),
            hint="build one with: make bindeb-pkg",
        )
    return found


def kernel_of(machine: Machine) -> Path:
    """The folder of the unpacked kernel."""
    if machine.kernel.endswith(".deb"):
        return unpacked(Path(machine.kernel))
    if machine.kernel.startswith("/"):
        return Path(machine.kernel)
    return package(machine.kernel, machine.architecture, machine.suite)


def basic_arguments(machine: Machine) -> str:
    """The arguments that make a kernel use the console, and end when it fails."""
    return f"console={EMULATORS[machine.architecture].console} panic=-1 softlockup_panic=1"


def pack(machine: Machine, kernel: Path, files: Mapping[str, Path | str], folder: Path) -> Path:
    """The guest's initramfs."""
    root = folder / "root"
    for name in ("bin", "dev", "disk", "modules", "proc", "result", "run", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    busybox = package("busybox-static", machine.architecture) / BUSYBOX
    for name, content in {"bin/busybox": busybox, "init": INIT, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copy(content, path)
        else:
            path.write_text(content)
            path.chmod(0o755)
    loaded = modules(kernel, (*DISK_MODULES, *machine.modules))
    for name, module in loaded.items():
        (root / "modules" / name).write_bytes(module)
    (root / "modules" / "order").write_text("\n".join(loaded) + "\n")
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = folder / "initramfs"
    with archive.open("wb") as output:
        run(*("cpio", "-o", "-H", "newc", "--quiet"), input=names.encode(), stdout=output, cwd=root)
    return archive


def modules(kernel: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Modules and their dependencies, in an order in which they load.

    Leaves out built-in modules. Raises GuestFailed for a module that the kernel does not have, or
    that is packed otherwise than by xz.
    """
    base = part(kernel, "**/lib/modules/*")

    def name(path: str) -> str:
        return Path(path).name.partition(".")[0].replace("-", "_")

    built_in = {name(path) for path in (base / "modules.builtin").read_text().split()}
    files = {name(str(path)): path for path in (base / "kernel").rglob("*.ko*")}
    found: dict[str, bytes] = {}

    def add(module: str) -> None:
        if module in built_in or module in found:
            return
        if module not in files:
            raise GuestFailed(f"{kernel.name} has no module {module}, which guests need")
        if files[module].suffix not in (".ko", ".xz"):
            raise GuestFailed(
                f"{files[module].name}: packed in a way that guests cannot load",
                hint="give a kernel whose modules end in .ko or .ko.xz",
            )
        packed = files[module].read_bytes()
        content = lzma.decompress(packed) if files[module].suffix == ".xz" else packed
        # A package has no modules.dep: its installation writes it from these fields.
        depends = re.search(rb"\0depends=([^\0]*)\0", content)
        for other in filter(None, depends.group(1).decode().split(",") if depends else ()):
            add(name(other))
        # ext4 asks for crc32c by the name of the algorithm, which may be built in.
        for algorithm in re.findall(rb"\0softdep=pre: crypto-(\w+)\0", content):
            generic = f"{algorithm.decode()}_generic"
            if generic in files:
                add(generic)
        found[module] = content

    for module in names:
        add(module)
    return found
