"""Counts page faults and instructions of programs under lazy unmapping in the kernel, in a guest.

    python bench/kernel.py --programs churn,small [--blocks 200] [--json]

One guest of the kernel in build/kernel (`make kernel`) runs each program with the pool off, with
the pool on, and with the preload library; each without and with mTHP of 64 KiB; each with two fixed
thresholds of malloc, 128 KiB (glibc's) and 64 KiB (bionic's of S3), if its allocator heeds them.
Programs of this machine (numpy, java, redis) read its files over 9p, in a run before the first that
counts. The guest has one processor,
and its clock counts its instructions, so neither depends on the load of the host, and a run gives
the same figures each time except for what the kernel does at random.

A row: `name`, `pool` (off, on, library), `mthp`, `threshold_bytes`, `faults` (page-fault traps),
`instructions` (of the program, in user space and in the kernel; one per nanosecond of its CPU
time; of its work if it measures itself, else of the whole run), `peak_bytes` (resident),
`idle_bytes` (resident seven seconds after the work, for programs that say so),
`premapped_untouched` (pages mapped ahead that the program did not touch; premapping is off here, so
0 for the kernel, and null for the library, which does not count them).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vm"))
import guest
from kernel_programs import PROGRAMS, SOURCES, Program

ROOT = Path(__file__).parents[1]
KERNEL = ROOT / "build" / "kernel"
LIBRARY = Path(sys.executable).parents[1] / "lib" / "libpagewise_lazy.so"
THRESHOLDS = (128 << 10, 64 << 10)
IDLE_S = 7
"""Two seconds longer than the pool keeps memory that is not asked for."""
BOOT_S = 3600
MACHINE = guest.Machine(
    kernel=str(KERNEL / "root"),
    kernel_arguments="psi=1 transparent_hugepage=never",
    processors=1,
    memory_mib=1024,
    has_counted_clock=True,
)


SHARED = ("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap")
"""QEMU's options by which the guest sees this machine's files."""
MOUNT_SHARED = """
mkdir /host
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /host || exit 4
for folder in proc sys dev tmp; do mount --bind /$folder /host/$folder || exit 4; done
"""


def runs(names: list[str]) -> Iterator[dict[str, Any]]:
    """Each run's settings, as the first fields of its row."""
    for name in names:
        program = PROGRAMS[name]
        for mthp in (False, True):
            for threshold in THRESHOLDS if program.has_threshold else THRESHOLDS[:1]:
                for pool in ("off", "on", "library"):
                    if pool == "library" and not (LIBRARY.exists() and program.library_serves):
                        continue
                    yield {"name": name, "pool": pool, "mthp": mthp, "threshold_bytes": threshold}


def command(settings: dict[str, Any], built: str, blocks: int) -> str:
    """The command of a run in the guest; `measured` leaves figures in /tmp/figures."""
    program = PROGRAMS[settings["name"]]
    words = [] if settings["pool"] != "on" else ["lazy_unmap", "run"]
    words += [] if program.says_figures else ["measured", "/tmp/figures"]
    words += ["chroot", "/host", "/usr/bin/env"] if program.on_machine else ["env"]
    if settings["pool"] == "library":
        path = str(LIBRARY) if program.on_machine else "/lib/libpagewise_lazy.so"
        words.append(f"LD_PRELOAD={path}")
    words.append(f"GLIBC_TUNABLES=glibc.malloc.mmap_threshold={settings['threshold_bytes']}")
    words.append(program.command.format(built=built, blocks=blocks, idle=IDLE_S))
    return " ".join(words)


def script(settings: list[dict[str, Any]], built: dict[str, str], blocks: int) -> str:
    """The guest's script: run N leaves its figures in /result/N."""
    lines = ["mount -t tmpfs none /tmp"]
    if any(PROGRAMS[each["name"]].on_machine for each in settings):
        lines.append(MOUNT_SHARED)
    cached = set()
    for number, each in enumerate(settings):
        if PROGRAMS[each["name"]].on_machine and each["name"] not in cached:
            # Its files come from this machine once, before the first run that counts.
            cached.add(each["name"])
            first = command(each, built.get(each["name"], ""), blocks)
            lines.append(f"{first} >/dev/null || exit 3")
            lines.append(f"cat /host{LIBRARY} >/dev/null")
        lines += [
            f"echo {'always' if each['mthp'] else 'never'}"
            " >/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
            f"{command(each, built.get(each['name'], ''), blocks)} >/result/{number} || exit 3",
        ]
        if not PROGRAMS[each["name"]].says_figures:
            lines.append(f"cp /tmp/figures /result/{number}")
    return "\n".join(lines) + "\n"


def measure(names: list[str], blocks: int) -> list[dict[str, Any]]:
    """The rows of one guest."""
    settings = list(runs(names))
    machine = MACHINE
    if any(PROGRAMS[name].on_machine for name in names):
        machine = replace(MACHINE, start=(*guest.own_start(MACHINE), *SHARED))
    # Not in /tmp, where the guest has its own files.
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as temporary:
        folder = Path(temporary)
        files: dict[str, Path | str] = {}
        built: dict[str, str] = {}
        for name in names:
            binary = PROGRAMS[name].build(name, folder)
            if binary is None:
                continue
            if PROGRAMS[name].on_machine:
                built[name] = str(binary)
            else:
                built[name] = f"bin/{binary.name}"
                files |= with_libraries(PROGRAMS[name], binary)
        for name, source in (
            ("measured", SOURCES / "measured.c"),
            ("lazy_unmap", ROOT / "tests" / "vm" / "lazy_unmap.c"),
        ):
            files[f"bin/{name}"] = guest.compiled(folder / name, source, "-static")
        if LIBRARY.exists():
            files |= guest.with_libraries(LIBRARY) | {"lib/libpagewise_lazy.so": LIBRARY}
        lines = script(settings, built, blocks)
        answer = guest.boot(machine, lines, files, folder, timeout_s=BOOT_S)
        if answer.status != 0:
            raise SystemExit(f"kernel: a run failed: {answer.output}{answer.console[-1000:]}")
        return [
            each | row(each, (answer.results / str(number)).read_text())
            for number, each in enumerate(settings)
        ]


def with_libraries(program: Program, binary: Path) -> dict[str, Path | str]:
    """A program of the guest's own, with its libraries unless it is static."""
    if "-static" in program.options:
        return {f"bin/{binary.name}": binary}
    return guest.with_libraries(binary)


def row(settings: dict[str, Any], output: str) -> dict[str, Any]:
    """The figures that a run printed, as the other fields of its row."""
    figures: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith("{"):
            figures |= json.loads(line)
    return {
        "faults": figures["traps"],
        "instructions": round(figures["cpu_s"] * 1e9),
        "peak_bytes": figures["peak_bytes"],
        "idle_bytes": figures.get("idle_bytes"),
        "premapped_untouched": None if settings["pool"] == "library" else 0,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown, each beside the run with the pool off."""
    lines = [
        "| program | threshold | mTHP | pool | faults | instructions | peak, MiB | idle, MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    same = ("name", "mthp", "threshold_bytes")
    for each in rows:
        base = next(
            other
            for other in rows
            if other["pool"] == "off" and all(other[key] == each[key] for key in same)
        )
        faults, work = each["faults"], each["instructions"]
        idle = each["idle_bytes"]
        lines.append(
            f"| {each['name']} | {each['threshold_bytes'] >> 10} KiB | "
            f"{'64 KiB' if each['mthp'] else 'no'} | {each['pool']} | "
            f"{faults:,} ({faults / base['faults']:.3f}x) | "
            f"{work / 1e6:,.1f} M ({work / base['instructions']:.3f}x) | "
            f"{each['peak_bytes'] / 2**20:.1f} | {'-' if idle is None else f'{idle / 2**20:.1f}'} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Lazy unmapping in the kernel, by counts.")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated names")
    parser.add_argument("--blocks", type=int, default=200, help="blocks of the churn programs")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    arguments = parser.parse_args()
    names = arguments.programs.split(",")
    if unknown := sorted(set(names) - set(PROGRAMS)):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(PROGRAMS)}")
    for name in names:
        if missing := PROGRAMS[name].missing():
            parser.error(f"{name} needs {', '.join(missing)}, which this machine does not have")
    if not (KERNEL / "bzImage").exists():
        raise SystemExit("kernel: no kernel with lazy unmapping in build/kernel: make kernel")
    if reason := guest.refusal(MACHINE):
        raise SystemExit(f"kernel: {reason}")
    rows = measure(names, arguments.blocks)
    print(json.dumps(rows, indent=1) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
