"""Resident programs that repeat the same work under a memory budget, swapped to zram.

Each prints "ready", and answers each line "visit N" with "done". They run in their own cgroups
(version 1) on one processor, so that the kernel counts the CPU time of a request to the
nanosecond, with reclaim charged to them. Swap in memory does its transfers in that time.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "cpuacct")
MIB = 1 << 20
PROCESSOR = 0


class Residents:
    """Programs in the cgroups ``group``, ready for requests."""

    def __init__(self, group: str, programs: Sequence[subprocess.Popen[str]]) -> None:
        self.group = group
        self.programs = programs
        self.visits = 0
        for program in programs:
            _wait_for(program, "ready")

    def ask(self, requests: int) -> float:
        """Requests the next visits of each program in turn; returns the CPU seconds they took."""
        before = self._cpu_ns()
        for _ in range(requests):
            for program in self.programs:
                assert program.stdin
                program.stdin.write(f"visit {self.visits}\n")
                program.stdin.flush()
                _wait_for(program, "done")
            self.visits += 1
        return (self._cpu_ns() - before) / 1e9

    def leave(self, share: float) -> int:
        """Limits the programs to this share of the memory that they hold; returns the MiB."""
        folder = GROUPS / "memory" / self.group
        held = int((folder / "memory.usage_in_bytes").read_text())
        left = int(share * held) // MIB
        (folder / "memory.limit_in_bytes").write_text(str(left * MIB))
        return left

    def _cpu_ns(self) -> int:
        return int((GROUPS / "cpuacct" / self.group / "cpuacct.usage").read_text())


@contextmanager
def groups(budget_mib: int) -> Iterator[tuple[str, str]]:
    """Cgroups with a budget: their name, and the shell commands that enter them."""
    with ExitStack() as undo:
        name = f"pagewise-bench-{os.getpid()}"
        folders = [GROUPS / controller / name for controller in CONTROLLERS]
        for folder in folders:
            folder.mkdir()
            undo.callback(folder.rmdir)
        (folders[0] / "memory.limit_in_bytes").write_text(str(budget_mib * MIB))
        yield name, "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in folders)


@contextmanager
def residents(commands: Sequence[Sequence[str]], budget_mib: int) -> Iterator[Residents]:
    """Starts the programs in a shared budget, and ends them."""
    with groups(budget_mib) as (name, entries), ExitStack() as undo:
        programs = []
        for command in commands:
            words = ["taskset", "-c", str(PROCESSOR), "sh", "-c", f'{entries}exec "$@"', "sh"]
            program = subprocess.Popen(
                [*words, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            undo.callback(program.wait)
            undo.callback(program.kill)
            programs.append(program)
        yield Residents(name, programs)


def _wait_for(program: subprocess.Popen[str], word: str) -> None:
    assert program.stdout
    for line in program.stdout:
        if line.startswith(word):
            return
    raise RuntimeError(f"{program.args!r} ended before it printed {word!r}")


@contextmanager
def zram_area(mib: int) -> Iterator[None]:
    """A swap area in a zram device of its own, used before all others."""
    control = Path("/sys/class/zram-control")
    with ExitStack() as undo:
        # Reading the file adds a device.
        number = (control / "hot_add").read_text().strip()
        undo.callback((control / "hot_remove").write_text, number)
        device = f"/dev/zram{number}"
        Path(f"/sys/block/zram{number}/disksize").write_text(str(mib * MIB))
        undo.callback(Path(f"/sys/block/zram{number}/reset").write_text, "1")
        subprocess.run(["mkswap", "-q", device], check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["swapon", "-p", "32000", device], check=True)
        undo.callback(subprocess.run, ["swapoff", device], check=True)
        yield
