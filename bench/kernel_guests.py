"""Guests of kernels with lazy unmapping: their console, what the kernel complains of, its counters.

Shared by the kernel_*.py benches.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vm"))
import guest
import lazy_kernel

Machine = guest.Machine
with_libraries = guest.with_libraries
ROOT = Path(__file__).parents[1]
KERNEL = ROOT / "build" / "kernel"
CHECKED_KERNEL = ROOT / "build" / "kernel-checks"
"""Where CHECKS=1 kernel/build.sh leaves a kernel with kernel/config.debug."""
ARGUMENTS = (
    "no_timer_check printk.time=1 rcupdate.rcu_cpu_stall_suppress_at_boot=1"
    " rcupdate.rcu_cpu_stall_timeout=120"
)
"""An emulated guest on a busy machine fails the check of the timer, and is slow enough for reports
of stalled CPUs: none are made before the first process, and later only from 120 s on."""
MEMORY_MIB, SWAP_MIB = 1024, 384
MARK = "pagewise: messages of the kernel are seen"
"""Written to the kernel's log first: without it, the log of a guest would say nothing."""


@dataclass(frozen=True)
class Ran:
    """A guest that ended. ``status``: of its script; None if it panicked or hung."""

    status: int | None
    output: str
    files: Mapping[str, str]
    """Results by the name of their file in /result."""
    console: str

    def complaints(self) -> list[str]:
        """What the kernel complained of."""
        return lazy_kernel.complaints(self.console)

    def save(self, folder: Path) -> None:
        """Writes the results and the console to files, to be read when a row is not clean."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {**self.files, "console": self.console, "failure": self.output}.items():
            (folder / name).write_text(text)

    def counters(self, name: str) -> dict[str, int]:
        """A copy of /proc/vmstat."""
        return lazy_kernel.counters(self.files[name])


def machine(kernel: Path, **fields: object) -> guest.Machine:
    """A machine with the kernel that kernel/build.sh left in a folder."""
    if not (kernel / "bzImage").exists():
        raise SystemExit(f"no kernel in {kernel}: see kernel/build.sh")
    made = replace(guest.Machine(kernel=str(kernel.resolve() / "root")), **fields)  # type: ignore[arg-type]
    if reason := guest.refusal(made):
        raise SystemExit(reason)
    return made


def swapping_machine(kernel: Path) -> guest.Machine:
    """A machine of two processors that swaps and fills freed pages, for stress and selftests."""
    return machine(
        kernel,
        # Periodic ticks: with single ones, some guests with all checks waited for a tick for ever.
        kernel_arguments="psi=1 page_poison=1 transparent_hugepage=madvise nohz=off highres=off",
        processors=2,
        memory_mib=MEMORY_MIB,
        swap_mib=SWAP_MIB,
    )


def boot(
    machine: guest.Machine,
    script: str,
    files: Mapping[str, Path | str],
    timeout_s: float,
    options: tuple[str, ...] = (),
) -> Ran:
    """Runs a script in a guest, with more ``options`` of QEMU.

    Raises RuntimeError if the console of a guest that ended has no message of its kernel.
    """
    # Not in /tmp, where a guest that shares this machine's files has its own.
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as temporary:
        both = replace(machine, kernel_arguments=f"{machine.kernel_arguments} {ARGUMENTS}")
        start = (*guest.own_start(both), *options)
        lines = f"echo '<4>{MARK}' >/dev/kmsg\n{script}"
        try:
            answer = guest.boot(
                replace(both, start=start), lines, files, Path(temporary), timeout_s=timeout_s
            )
        except guest.GuestFailed as failure:
            return Ran(None, str(failure), {}, failure.console)
        if MARK not in answer.console:
            raise RuntimeError("the console of the guest has no messages of its kernel")
        results = {
            path.name: path.read_text(errors="replace")
            for path in answer.results.iterdir()
            if path.is_file()
        }
        return Ran(answer.status, answer.output, results, answer.console)


def static(name: str, source: str, *options: str) -> tuple[str, Path]:
    """A static program of a source of this repository, as an entry of a guest's files."""
    folder = ROOT / "build" / "kernel-programs"
    folder.mkdir(parents=True, exist_ok=True)
    return f"bin/{name}", guest.compiled(
        folder / name, ROOT / source, "-static", "-pthread", *options
    )
