"""Runs the kernel's own selftests of mm with the pool on and off, and compares each result.

    CHECKS=1 kernel/build.sh build/kernel-checks
    python bench/kernel_selftests.py [--limit-s 120] [--tests cow,mremap_test]

Compiles tools/testing/selftests/mm of the source in build/kernel-checks statically, as far as it
can, and runs the programs in two guests: with vm.lazy_unmap=2, for all processes, and with 0. A
program's result is its status and its lines `ok`, `not ok` and `# SKIP`, without numbers, which
may be addresses. Prints a row a program, and each line that differs; all output is in
build/kernel-selftests. Programs that reached the limit of time are not compared.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kernel_guests
from kernel_guests import CHECKED_KERNEL, Ran

BUILD_S, BOOT_S = 1800, 600
LEFT_OUT = re.compile(r"huge(page|tlb)|_32$|^hmm|thuge|compaction")
"""Tests of hugetlb, of 32-bit programs and of a module, which the kernel here does not have."""
ARGUMENTS = {
    "gup_test": ("-u", "-a", "-ct -F 0x1 0 19 0x1000"),
    "ksm_tests": ("-M -p 10", "-U", "-Z -p 10 -z 0", "-Z -p 10 -z 1"),
    "transhuge-stress": ("-d 10",),
    "uffd-stress": ("anon 20 16", "shmem 20 16", "shmem-private 20 16"),
}
"""As in run_vmtests.sh. Programs that are not named here run once, without arguments."""
TIMED_OUT = "status 143"
"""Of a program that busybox' timeout ended: how far it came depends on the load of the machine."""


def build(kernel: Path) -> list[Path]:
    """The programs that could be built, for the source of a kernel."""
    source, objects, folder = kernel / "linux", kernel / "objects", kernel / "selftests"
    folder.mkdir(exist_ok=True)
    # Of this make, or of its parents, nothing is to reach the kernel's.
    environment = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    headers = ["make", "-s", "-C", source, f"O={objects}", "headers"]
    subprocess.run(headers, env=environment, check=True, timeout=BUILD_S)
    programs = [
        *("make", "-k", "-s", "-C", source / "tools/testing/selftests/mm", f"OUTPUT={folder}"),
        f"KHDR_INCLUDES=-D_GNU_SOURCE -isystem {objects}/usr/include",
        "EXTRA_CFLAGS=-static -w",
    ]
    with (kernel / "selftests.log").open("w") as log:
        # Some need libraries that this machine does not have; the others are built.
        subprocess.run(programs, env=environment, stdout=log, stderr=log, timeout=BUILD_S)
    return sorted(path for path in folder.iterdir() if os.access(path, os.X_OK) and path.is_file())


def commands(programs: list[Path]) -> dict[str, str]:
    """The commands, by name."""
    found = {}
    for program in programs:
        if LEFT_OUT.search(program.name):
            continue
        for number, arguments in enumerate(ARGUMENTS.get(program.name, ("",))):
            found[f"{program.name}-{number}" if number else program.name] = (
                f"/selftests/{program.name} {arguments}".strip()
            )
    return found


def script(pool: str, tests: dict[str, str], limit_s: int) -> str:
    lines = [
        "mount -t tmpfs none /tmp",
        "mkdir -p /dev/shm",
        "mount -t tmpfs none /dev/shm",
        "mkswap /dev/vdc >/dev/null && swapon /dev/vdc || exit 4",
        "mount -t debugfs none /sys/kernel/debug",
        "echo 1 >/proc/sys/vm/overcommit_memory",
        f"echo {2 if pool == 'on' else 0} >/proc/sys/vm/lazy_unmap",
        "hits() { sed -n 's/^lazy_unmap_hit //p' /proc/vmstat; }",
    ]
    for name, command in tests.items():
        lines += [
            f"echo 'selftest: {name}' >/dev/kmsg",
            "before=$(hits)",
            f"timeout -s TERM {limit_s} {command} >/result/{name} 2>&1 </dev/null",
            f"echo $? >/result/{name}.status",
            f"echo $(($(hits) - before)) >/result/{name}.hits",
        ]
    return "\n".join(lines) + "\n"


def result(ran: Ran, name: str) -> Counter[str]:
    """The status of a program and its lines of TAP, without numbers."""
    status = ran.files.get(f"{name}.status", "none").strip()
    lines = Counter([f"status {status}"])
    for line in ran.files.get(name, "").splitlines():
        if re.match(r"\s*(ok|not ok|\[(OK|FAIL|PASS|SKIP|RUN)\])", line):
            lines[re.sub(r"0x[0-9a-f]+|\d+", "N", line.strip())] += 1
    return lines


def summary(lines: Counter[str]) -> str:
    counts = [
        sum(count for line, count in lines.items() if re.match(start, line))
        for start in (r"(ok|\[OK|\[PASS)(?!.*SKIP)", r"(not ok|\[FAIL)(?!.*SKIP)", r".*SKIP")
    ]
    status = next(line for line in lines if line.startswith("status"))
    return f"{status}, {counts[0]} ok, {counts[1]} not ok, {counts[2]} skipped"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares selftests of mm, with the pool and not.")
    parser.add_argument("--tests", help="comma-separated names of programs")
    parser.add_argument("--limit-s", type=int, default=120, help="of each program")
    parser.add_argument("--kernel", type=Path, default=CHECKED_KERNEL)
    given = parser.parse_args()
    machine = kernel_guests.swapping_machine(given.kernel)
    programs = build(given.kernel.resolve())
    if given.tests:
        programs = [path for path in programs if path.name in given.tests.split(",")]
    tests = commands(programs)
    files: dict[str, Path | str] = {f"selftests/{path.name}": path for path in programs}
    with ThreadPoolExecutor(2) as guests:
        on, off = guests.map(
            lambda pool: kernel_guests.boot(
                machine,
                script(pool, tests, given.limit_s),
                files,
                BOOT_S + given.limit_s * len(tests),
            ),
            ("on", "off"),
        )
    for pool, ran in (("on", on), ("off", off)):
        ran.save(kernel_guests.ROOT / "build" / "kernel-selftests" / pool)
    print("| test | pool off | pool on | hits | same |")
    print("|---|---|---|---|---|")
    differences = []
    for name in tests:
        with_pool, without = result(on, name), result(off, name)
        hits = on.files.get(f"{name}.hits", "-").strip()
        is_cut = TIMED_OUT in with_pool or TIMED_OUT in without
        same = "timed out" if is_cut else "yes" if with_pool == without else "no"
        print(f"| {name} | {summary(without)} | {summary(with_pool)} | {hits} | {same} |")
        if same != "no":
            continue
        differences += [f"{name}, only off: {line}" for line in (without - with_pool)]
        differences += [f"{name}, only on: {line}" for line in (with_pool - without)]
    print("\n".join(differences))
    for pool, ran in (("on", on), ("off", off)):
        print(f"pool {pool}: guest's status {ran.status}, complaints: {len(ran.complaints())}")
        print("\n".join(ran.complaints()))


if __name__ == "__main__":
    main()
