"""Builds and boots a kernel with each number of the patches in kernel/patches.

    python bench/kernel_each.py [--folder build/kernel] [--patches 4,5,6]

Builds the kernel with the first patch, then with the first two, and so on, in one tree, and boots
each in a guest; or with the given numbers of patches, in their order. The folder keeps the last
kernel: end with all patches. In the guest, plain memory
calls are checked, and every case of tests/vm/lazy_unmap.c runs. No process can turn the pool on
before the last patch, so until then each case must be refused.

A row: how many patches, compiler warnings, how many programs of the smoke test passed, how many
cases hold or are refused, complaints of the kernel.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import kernel_guests
from kernel_guests import ROOT, Ran
from lazy_kernel import CASES

BUILD_S, BOOT_S = 7200, 900
SMOKE = {
    "zeros": "lazy_unmap plain zeros",
    "churn": "churn malloc 60 0",
    "calls": "lazy_calls 1 300 1 2",
    "threads": "lazy_calls 2 150 3 2",
}
"""Programs that pass on any kernel."""
REFUSED = 2
"""Status of a case if the kernel does not know the pool's prctl."""


def script() -> str:
    commands = SMOKE | {f"case-{case}": f"lazy_unmap {case}" for case in CASES}
    return "".join(
        f"{command} >/result/{name} 2>&1; echo $? >/result/{name}.status\n"
        for name, command in commands.items()
    )


def build(folder: Path, patches: int) -> list[str]:
    """Builds with the first patches. Returns the compiler's warnings."""
    environment = os.environ | {"PATCHES": str(patches)}
    words = [ROOT / "kernel" / "build.sh", folder]
    # Its messages are not part of the table.
    subprocess.run(words, env=environment, stdout=sys.stderr, check=True, timeout=BUILD_S)
    log = (folder / "build.log").read_text(errors="replace")
    return [line for line in log.splitlines() if "warning:" in line]


def boot(folder: Path) -> Ran:
    machine = kernel_guests.machine(
        folder,
        kernel_arguments="transparent_hugepage=never",
        processors=1,
        has_counted_clock=True,
    )
    files = dict(
        (
            kernel_guests.static("lazy_unmap", "tests/vm/lazy_unmap.c"),
            kernel_guests.static("lazy_calls", "tests/lazy_calls.c"),
            kernel_guests.static("churn", "bench/lazy/programs/churn.c", "-lm"),
        )
    )
    return kernel_guests.boot(machine, script(), files, BOOT_S)


def passed(ran: Ran, names: list[str], status: int = 0) -> int:
    return sum(ran.files.get(f"{name}.status") == f"{status}\n" for name in names)


def row(patches: int, warnings: list[str], ran: Ran) -> str:
    cases = [f"case-{case}" for case in CASES]
    refused = passed(ran, cases, REFUSED)
    held = f"{passed(ran, cases)} of {len(cases)}" + (f", {refused} refused" if refused else "")
    smoke = f"{passed(ran, list(SMOKE))} of {len(SMOKE)}"
    return (
        f"| {patches} | {len(warnings)} | {'yes' if ran.status == 0 else 'no'} | {smoke} | {held} "
        f"| {len(ran.complaints())} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds and boots each prefix of the series.")
    parser.add_argument("--folder", type=Path, default=kernel_guests.KERNEL)
    parser.add_argument("--patches", help="comma-separated numbers of patches")
    given = parser.parse_args()
    folder = given.folder
    count = len(list((ROOT / "kernel" / "patches").glob("*.patch")))
    numbers = map(int, given.patches.split(",")) if given.patches else range(1, count + 1)
    print("| patches | warnings | boots | programs pass | cases hold | complaints |")
    print("|---|---|---|---|---|---|", flush=True)
    for patches in numbers:
        warnings = build(folder, patches)
        ran = boot(folder)
        print(row(patches, warnings, ran), flush=True)
        for line in (*warnings, *ran.complaints()):
            print(f"    {line}", flush=True)


if __name__ == "__main__":
    main()
