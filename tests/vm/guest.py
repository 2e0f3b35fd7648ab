"""Boots a Debian kernel in a guest under QEMU, runs a script in it, and returns its results.

The guest has busybox, the given files, and an empty ext4 disk as its working directory. It is
emulated, because nested virtualisation is not available everywhere. Kernel and busybox are Debian
packages that apt fetches into ``build/vm``, without a change to the machine's own packages.
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

CACHE = Path(__file__).parents[2] / "build" / "vm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# The modules that every guest needs for its two disks.
DISK_MODULES = ("virtio_pci", "virtio_blk", "ext4")

# The first process of a guest. Its disks are vda, for the results as a tar file, and vdb, for work.
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
BOOTS_MAX = 3
"""The guest is booted again after these failures, at most this often in total."""


@dataclass(frozen=True)
class Emulator:
    """The QEMU program and options for an architecture."""

    program: str
    options: tuple[str, ...]
    console: str


EMULATORS = {
    # With newer processor models, newer kernels fail under emulation; so they do with cmpxchg16b
    # under QEMU 7.2.
    "amd64": Emulator("qemu-system-x86_64", ("-M", "pc", "-cpu", "qemu64,-cx16"), "ttyS0"),
    # The oldest model that supports base pages of 16 KiB.
    "arm64": Emulator("qemu-system-aarch64", ("-M", "virt", "-cpu", "cortex-a76"), "ttyAMA0"),
}


@dataclass(frozen=True)
class Machine:
    """A guest to boot. ``kernel`` is a Debian package, or one that depends on the newest kernel.

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


def refusal(machine: Machine) -> str | None:
    """Why the machine cannot be booted here, as the reason of a skipped test; None if it can."""
    emulator = EMULATORS[machine.architecture].program
    programs = (emulator, "cc", "cpio", "mkfs.ext4", "dpkg-deb", "apt-get")
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        return f"{' and '.join(missing)} missing: tools/prerequisites.sh test"
    try:
        package("busybox-static", machine.architecture)
        package(machine.kernel, machine.architecture, machine.suite)
    except subprocess.CalledProcessError as error:
        return f"{machine.kernel} cannot be fetched: {error.stderr.strip()[-200:]}"
    except LookupError as error:
        return f"{machine.kernel} cannot be fetched: {error}"
    return None


def compiled(program: Path, source: Path, *options: str) -> Path:
    """Compiles a C source for a guest of this machine's architecture."""
    command = ["cc", "-std=gnu17", "-O2", "-o", program, source, *options]
    subprocess.run(command, check=True, timeout=300)
    return program


def boot(
    machine: Machine,
    script: str,
    files: Mapping[str, Path | str],
    folder: Path,
    timeout_s: float = 300,
) -> Answer:
    """Runs ``script`` with ``sh`` as root in a guest with ``files``, which maps paths to contents.

    A Path is copied with its mode; a text becomes an executable file. Keeps its own files in
    ``folder``. Raises RuntimeError with the end of the console if the guest does not finish the
    script, and ``subprocess.TimeoutExpired`` if it takes longer than ``timeout_s``.
    """
    kernel = package(machine.kernel, machine.architecture, machine.suite)
    initramfs = pack(machine, kernel, {**files, "script": script}, folder)
    results, disk = folder / "results.tar", folder / "disk.ext4"
    emulator = EMULATORS[machine.architecture]
    clock = ("-icount", "shift=0,sleep=off") if machine.has_counted_clock else ()
    drives = (f"file={path},format=raw,if=virtio,cache=unsafe" for path in (results, disk))
    command = [
        *(
            emulator.program,
            *emulator.options,
            "-accel",
            ACCELERATOR,
            "-nodefaults",
            "-no-user-config",
        ),
        *clock,
        *("-nographic", "-no-reboot", "-serial", "stdio"),
        *("-smp", str(machine.processors), "-initrd", initramfs),
        *(word for drive in drives for word in ("-drive", drive)),
        *(machine.start or own_start(machine)),
    ]
    for _ in range(BOOTS_MAX):
        for path, mib in ((results, 64), (disk, machine.disk_mib)):
            path.unlink(missing_ok=True)
            path.touch()
            os.truncate(path, mib << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True, timeout=300)
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s
        )
        if FAILED_BOOT.search(ran.stdout) is None:
            break
    left = folder / "result"
    try:
        with tarfile.open(results) as archive:
            # Debian 12's Python 3.11.2 has no filters yet.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(left)
        status = int((left / "status").read_text())
    except (tarfile.TarError, OSError) as error:
        raise RuntimeError(f"the guest failed: {ran.stderr}{ran.stdout[-2000:]}") from error
    return Answer(status, (left / "output").read_text(errors="replace"), left, ran.stdout)


def own_start(machine: Machine) -> tuple[str, ...]:
    """QEMU options for memory, kernel and its arguments."""
    append = f"{basic_arguments(machine)} {machine.kernel_arguments}"
    return ("-m", f"{machine.memory_mib}M", "-kernel", str(image(machine)), "-append", append)


def image(machine: Machine) -> Path:
    """The kernel image."""
    kernel = package(machine.kernel, machine.architecture, machine.suite)
    return next(kernel.glob("boot/vmlinuz-*"))


def basic_arguments(machine: Machine) -> str:
    """The arguments that make a kernel use the console, and end when it fails."""
    return f"console={EMULATORS[machine.architecture].console} panic=-1 softlockup_panic=1"


def with_libraries(program: Path) -> dict[str, Path | str]:
    """A program of this machine with the shared libraries it loads, as ``files`` of a guest."""
    listed = subprocess.run(
        ["ldd", program], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    libraries = re.findall(r"(/\S+) \(0x", listed)
    return {f"bin/{program.name}": program} | {path.lstrip("/"): Path(path) for path in libraries}


def pack(machine: Machine, kernel: Path, files: Mapping[str, Path | str], folder: Path) -> Path:
    """The guest's initramfs."""
    root = folder / "root"
    for name in ("bin", "dev", "disk", "modules", "proc", "result", "run", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    busybox = package("busybox-static", machine.architecture) / "bin" / "busybox"
    for name, content in {"bin/busybox": busybox, "init": INIT, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copy(content, path)
        else:
            path.write_text(content)
            path.chmod(0o755)
    loaded = modules(kernel, (*DISK_MODULES, *machine.modules))
    for name, content in loaded.items():
        (root / "modules" / name).write_bytes(content)
    (root / "modules" / "order").write_text("\n".join(loaded) + "\n")
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = folder / "initramfs"
    with archive.open("wb") as output:
        subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"],
            input=names.encode(),
            stdout=output,
            cwd=root,
            check=True,
            timeout=300,
        )
    return archive


def modules(kernel: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Modules and their dependencies, in an order in which they load.

    Leaves out built-in modules. Raises KeyError for a module that the kernel does not have.
    """
    base = next(kernel.glob("**/lib/modules/*"))

    def name(path: str) -> str:
        return Path(path).name.partition(".")[0].replace("-", "_")

    built_in = {name(path) for path in (base / "modules.builtin").read_text().split()}
    files = {name(str(path)): path for path in (base / "kernel").rglob("*.ko*")}
    found: dict[str, bytes] = {}

    def add(module: str) -> None:
        if module in built_in or module in found:
            return
        packed = files[module].read_bytes()
        content = lzma.decompress(packed) if files[module].suffix == ".xz" else packed
        # A package has no modules.dep: its installation writes it from this field.
        depends = re.search(rb"\0depends=([^\0]*)\0", content)
        for other in filter(None, depends.group(1).decode().split(",") if depends else ()):
            add(name(other))
        found[module] = content

    for module in names:
        add(module)
    return found


def package(name: str, architecture: str, suite: str | None = None) -> Path:
    """The unpacked files of a Debian package, or of the kernel that an empty package depends on."""
    apt = Apt(architecture, suite)
    folder = apt.folder / name
    if not folder.exists():
        fetched = apt.folder / "fetched"
        fetched.mkdir(parents=True, exist_ok=True)
        aside = folder.with_suffix(".part")
        shutil.rmtree(aside, ignore_errors=True)
        archive = apt.fetch(apt.newest(name), fetched)
        subprocess.run(
            ["dpkg-deb", "-x", archive, aside], check=True, capture_output=True, timeout=300
        )
        aside.rename(folder)
    return folder


@dataclass(frozen=True)
class Apt:
    """apt for an architecture, with separate lists, and the machine's or a suite's sources."""

    architecture: str
    suite: str | None

    @property
    def folder(self) -> Path:
        """The folder of its lists and packages."""
        return CACHE / "-".join(filter(None, (self.architecture, self.suite)))

    def newest(self, name: str) -> str:
        """The kernel package on which an empty package depends, or else the name."""
        self.run("apt-get", "-qq", "update")
        depends = self.run("apt-cache", "depends", name)
        kernel = re.search(r"Depends: (linux-image-\d\S+)", depends)
        return kernel.group(1) if kernel else name

    def fetch(self, name: str, folder: Path) -> Path:
        """Downloads a package; apt checks its hash."""
        for old in folder.glob(f"{name}_*.deb"):
            old.unlink()
        self.run("apt-get", "-qq", "download", name, folder=folder)
        return next(folder.glob(f"{name}_*.deb"))

    def run(self, command: str, *arguments: str, folder: Path = CACHE) -> str:
        """Runs a command of apt, and returns its output."""
        state = self.folder / "apt"
        (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (state / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        options = [
            f"APT::Architecture={self.architecture}",
            f"APT::Architectures={self.architecture}",
            f"Dir::State={state}",
            f"Dir::State::status={state / 'status'}",
            f"Dir::Cache={state / 'cache'}",
            # The user _apt may not have permission to write here.
            "APT::Sandbox::User=root",
        ]
        if self.suite is not None:
            sources = state / "sources.list"
            sources.write_text(f"deb [signed-by={KEYRING}] {mirror()} {self.suite} main\n")
            options += [f"Dir::Etc::SourceList={sources}", "Dir::Etc::SourceParts=/dev/null"]
        words = [command, *(word for option in options for word in ("-o", option)), *arguments]
        ran = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, check=True, timeout=300
        )
        return ran.stdout


def mirror() -> str:
    """The Debian mirror of this machine. Raises LookupError if it has none."""
    listed = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    found = subprocess.run(
        listed, capture_output=True, text=True, check=True, timeout=300
    ).stdout.split()
    debian = [address for address in found if address.rstrip("/").endswith("/debian")]
    if not debian:
        raise LookupError("apt knows no mirror of Debian")
    return debian[0]
