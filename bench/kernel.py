"""Counts page faults and instructions of programs under lazy unmapping in the kernel, in a guest.

    python bench/kernel.py --programs churn,small [--blocks 200] [--json]

One guest of the kernel in build/kernel (`make kernel`) runs each program with the pool off, with
the pool on, and with the preload library; each without and with mTHP of 64 KiB; each with two fixed
thresholds of malloc, 128 KiB (glibc's) and 64 KiB (bionic's of S3). The guest has one processor,
and its clock counts its instructions, so neither depends on the load of the host, and a run gives
the same figures each time except for what the kernel does at random.

A row: `name`, `pool` (off, on, library), `mthp`, `threshold_bytes`, `faults` (page-fault traps),
`instructions` (of the program, in user space and in the kernel; one per nanosecond of its CPU
time), `peak_bytes` (resident), `idle_bytes` (resident seven seconds after the work, for programs
that say so), `premapped_untouched` (pages mapped ahead that the program did not touch; premapping
is off here, so 0 for the kernel, and null for the library, which does not count them).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vm"))
import guest

ROOT = Path(__file__).parents[1]
KERNEL = ROOT / "build" / "kernel"
LIBRARY = Path(sys.executable).parents[1] / "lib" / "libpagewise_lazy.so"
SOURCES = ROOT / "bench" / "lazy" / "programs"
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


@dataclass(frozen=True)
class Program:
    """A program to measure: its source, its arguments, and whether it prints its own figures."""

    source: str
    arguments: str
    options: tuple[str, ...] = ()
    says_idle: bool = True


PROGRAMS = {
    "churn": Program("churn", "malloc {blocks} {idle}"),
    "churn-calloc": Program("churn", "calloc {blocks} {idle}"),
    # The preload library cannot serve a static program.
    "churn-static": Program("churn", "malloc {blocks} {idle}", ("-static",)),
    "small": Program("small", "replace 1 400000", says_idle=False),
    "exchange": Program("exchange", "turns 65536 1048576 16 20 1", says_idle=False),
}
POOLS = {"off": "env", "on": "lazy_unmap run", "library": "env LD_PRELOAD=/lib/libpagewise_lazy.so"}


def runs(names: list[str], blocks: int) -> Iterator[tuple[dict[str, Any], str]]:
    """Each run's settings, as the first fields of its row, and its command."""
    for name in names:
        program = PROGRAMS[name]
        words = program.arguments.format(blocks=blocks, idle=IDLE_S)
        for mthp in (False, True):
            for threshold in THRESHOLDS:
                for pool, starter in POOLS.items():
                    if pool == "library" and (not LIBRARY.exists() or "-static" in program.options):
                        continue
                    measured = "" if program.says_idle else "measured /tmp/figures "
                    yield (
                        {"name": name, "pool": pool, "mthp": mthp, "threshold_bytes": threshold},
                        f"{starter} {measured}bench-{name} {words}",
                    )


def script(commands: list[tuple[dict[str, Any], str]]) -> str:
    """The guest's script: run N leaves its output in /result/N."""
    lines = ["mount -t tmpfs none /tmp"]
    for number, (settings, command) in enumerate(commands):
        size = "always" if settings["mthp"] else "never"
        lines += [
            f"echo {size} >/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
            f"export GLIBC_TUNABLES=glibc.malloc.mmap_threshold={settings['threshold_bytes']}",
            f"{command} >/result/{number} || exit 3",
        ]
        if " measured " in command:
            lines.append(f"cp /tmp/figures /result/{number}")
    return "\n".join(lines) + "\n"


def measure(names: list[str], blocks: int) -> list[dict[str, Any]]:
    """The rows of one guest."""
    commands = list(runs(names, blocks))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files: dict[str, Path | str] = {}
        for name in names:
            program = PROGRAMS[name]
            binary = guest.compiled(
                folder / f"bench-{name}",
                SOURCES / f"{program.source}.c",
                *program.options,
                "-lm",
                "-pthread",
            )
            static = "-static" in program.options
            files |= {f"bin/{binary.name}": binary} if static else guest.with_libraries(binary)
        for name, source in (
            ("measured", SOURCES / "measured.c"),
            ("lazy_unmap", ROOT / "tests" / "vm" / "lazy_unmap.c"),
        ):
            files[f"bin/{name}"] = guest.compiled(folder / name, source, "-static")
        if LIBRARY.exists():
            files |= guest.with_libraries(LIBRARY) | {"lib/libpagewise_lazy.so": LIBRARY}
        answer = guest.boot(MACHINE, script(commands), files, folder, timeout_s=BOOT_S)
        if answer.status != 0:
            raise SystemExit(f"kernel: a run failed: {answer.output}{answer.console[-1000:]}")
        return [
            settings | row(settings, (answer.results / str(number)).read_text())
            for number, (settings, _) in enumerate(commands)
        ]


def row(settings: dict[str, Any], output: str) -> dict[str, Any]:
    """The figures that a run printed, as the other fields of its row."""
    figures: dict[str, Any] = {}
    for line in output.splitlines():
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
    if not (KERNEL / "bzImage").exists():
        raise SystemExit("kernel: no kernel with lazy unmapping in build/kernel: make kernel")
    if reason := guest.refusal(MACHINE):
        raise SystemExit(f"kernel: {reason}")
    rows = measure(names, arguments.blocks)
    print(json.dumps(rows, indent=1) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
