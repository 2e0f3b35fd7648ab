"""Counts page faults and instructions of programs under lazy unmapping in the kernel, in a guest.

    python bench/kernel.py --programs churn,small [--blocks 200] [--json]

One guest of the kernel in build/kernel (`make kernel`) runs each program with the pool off, with
the pool on, and with the preload library; each without and with mTHP of 64 KiB; each with two fixed
thresholds of malloc, 128 KiB (glibc's) and 64 KiB (bionic's of S3), if its allocator heeds them.
Programs of this machine (numpy, java, redis, browsers) read its files over 9p, in a run before the
first that counts. The guest has one processor, and its clock counts its instructions, so neither
depends on the load of the host, and a run gives the same figures each time except for what the
kernel does at random. Browsers run without mTHP; `webkit` is also measured with glibc's own
threshold, which grows, and those that only start run three times. tools/bench_kernel_setup.sh
installs the programs.

A row: `name`, `pool` (off, on, library), `mthp`, `threshold_bytes`, `faults` (page-fault traps),
`instructions` (of the program, in user space and in the kernel; one per nanosecond of its CPU
time; of its work if it measures itself, else of the whole run), `peak_bytes` (resident),
`idle_bytes` (resident seven seconds after the work, for programs that say so),
`premapped_untouched` (pages mapped ahead that the program did not touch; premapping is off here, so
0 for the kernel, and null for the library, which does not count them), `round`.

In the row of a browser, faults and instructions are those of all its processes. For `webkit` they
are those of a swipe (the median): the faults of the web process, and the instructions of web
process, user interface and display from the input event to the last frame. `peak_bytes` is the
memory of all processes, `idle_bytes` that of the web process. Such a row also has `counters` (what
the pool did) and `output_sha256` (of the picture of the page), and for `webkit` `run_faults` and
`run_instructions` (of the whole run), `web_peak_bytes`, and `swipes`. Each swipe has `response_ns`
(from event to frame on the guest's clock, with the wait for the display's tick), `fault_ns` and
`call_ns` (in faults, and in calls about mappings; sampled) and `held_bytes` (in the pool then).

Prints JSON as an object with `rows` and `cases`: with `--cases`, whether each case of
tests/vm/lazy_unmap.c about freed memory holds. `pagewise study lazy-unmap` reads it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vm"))
import guest
import kernel_browsers as browsers
from kernel_programs import FIXED, PROGRAMS, SOURCES, Program

ROOT = Path(__file__).parents[1]
KERNEL = ROOT / "build" / "kernel"
LIBRARY = Path(sys.executable).parents[1] / "lib" / "libpagewise_lazy.so"
NAMED = {**{f"{threshold >> 10}KiB": threshold for threshold in FIXED}, "own": None}
"""Thresholds of malloc by name; `own` is glibc's, which grows."""
THRESHOLDS = tuple(NAMED.values())
POOLS = ("off", "on", "library")
SHOWN = ("faults", "instructions", "peak_bytes")
CASES = ("segv", "hole", "zeros")
"""Cases of tests/vm/lazy_unmap.c about freed memory and zeros."""
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


def runs(
    names: list[str],
    thresholds: Sequence[int | None] = THRESHOLDS,
    kinds: Sequence[str] = POOLS,
) -> Iterator[dict[str, Any]]:
    """Each run's settings, as the first fields of its row. Every other round is in reverse."""
    for name in names:
        program = PROGRAMS[name]
        has_library = LIBRARY.exists() and program.library_serves
        pools = [kind for kind in kinds if kind != "library" or has_library]
        chosen = [threshold for threshold in program.thresholds if threshold in thresholds]
        for turn in range(program.rounds):
            for mthp in program.mthp:
                for threshold in chosen:
                    for pool in reversed(pools) if turn % 2 else pools:
                        yield {
                            "name": name,
                            "pool": pool,
                            "mthp": mthp,
                            "threshold_bytes": threshold,
                            "round": turn,
                        }


def command(settings: dict[str, Any], built: str, blocks: int, *, is_first: bool = False) -> str:
    """The command of a run in the guest; `measured` leaves figures in /tmp/figures."""
    program = PROGRAMS[settings["name"]]
    wanted = program.once if is_first and program.once else program.command
    words = [] if settings["pool"] != "on" else ["lazy_unmap", "run"]
    words += [] if program.says_figures else ["measured", "/tmp/figures"]
    words += ["chroot", "/host", "/usr/bin/env"] if program.on_machine else ["env"]
    if program.is_browser:
        words.append(browsers.environment())
    if settings["pool"] == "library":
        path = str(LIBRARY) if program.on_machine else "/lib/libpagewise_lazy.so"
        words.append(f"LD_PRELOAD={path}")
    if settings["threshold_bytes"] is not None:
        words.append(f"GLIBC_TUNABLES=glibc.malloc.mmap_threshold={settings['threshold_bytes']}")
    words.append(wanted.format(built=built, blocks=blocks, idle=IDLE_S))
    return " ".join(words)


def script(settings: list[dict[str, Any]], built: dict[str, str], blocks: int) -> str:
    """The guest's script: run N leaves its figures in /result/N."""
    lines = ["mount -t tmpfs none /tmp"]
    if any(PROGRAMS[each["name"]].on_machine for each in settings):
        lines.append(MOUNT_SHARED)
    if any(PROGRAMS[each["name"]].is_browser for each in settings):
        lines.append(browsers.PREPARE)
    cached = set()
    for number, each in enumerate(settings):
        program = PROGRAMS[each["name"]]
        run = command(each, built.get(each["name"], ""), blocks)
        if program.on_machine and each["name"] not in cached:
            # Its files come from this machine once, before the first run that counts.
            cached.add(each["name"])
            first = command(each, built.get(each["name"], ""), blocks, is_first=True)
            group = "in_group " if program.is_browser else ""
            lines.append(f"{group}{first} >/dev/null || exit 3")
            lines.append(f"cat /host{LIBRARY} >/dev/null")
        lines.append(
            f"echo {'always' if each['mthp'] else 'never'}"
            " >/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"
        )
        if program.is_browser:
            lines += browsers.around(run, number)
            continue
        lines.append(f"{run} >/result/{number} || exit 3")
        if not program.says_figures:
            lines.append(f"cp /tmp/figures /result/{number}")
    return "\n".join(lines) + "\n"


def measure(
    settings: list[dict[str, Any]], blocks: int, cases: tuple[str, ...] = ()
) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    """The rows of one guest, and whether each case holds."""
    names = list(dict.fromkeys(each["name"] for each in settings))
    machine = MACHINE
    files: dict[str, Path | str] = {}
    if any(PROGRAMS[name].is_browser for name in names):
        browsers.write_pages()
        files |= browsers.FILES
        machine = replace(machine, memory_mib=browsers.MEMORY_MIB)
    if any(PROGRAMS[name].on_machine for name in names):
        machine = replace(machine, start=(*guest.own_start(machine), *SHARED))
    if any(PROGRAMS[name].is_browser for name in names):
        machine = replace(machine, start=(*machine.start, *browsers.CLOCK))
    # Not in /tmp, where the guest has its own files.
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as temporary:
        folder = Path(temporary)
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
        lines = "".join(
            f"lazy_unmap {case}; echo $? >/result/case-{case}\n" for case in cases
        ) + script(settings, built, blocks)
        answer = guest.boot(machine, lines, files, folder, timeout_s=BOOT_S)
        if answer.status != 0:
            raise SystemExit(f"kernel: a run failed: {answer.output}{answer.console[-1000:]}")
        rows = [
            each
            | (
                browsers.row(answer.results, number)
                if PROGRAMS[each["name"]].is_browser
                else row(each, (answer.results / str(number)).read_text())
            )
            for number, each in enumerate(settings)
        ]
        return rows, {
            case: (answer.results / f"case-{case}").read_text() == "0\n" for case in cases
        }


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
    """The medians over the rounds as Markdown, each beside the runs with the pool off."""
    lines = [
        "| program | threshold | mTHP | pool | faults | instructions | peak, MiB | idle, MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for each in rows:
        key = (each["name"], each["threshold_bytes"], each["mthp"], each["pool"])
        groups.setdefault(key, []).append(each)
    for (name, threshold, mthp, pool), found in groups.items():
        base = groups[name, threshold, mthp, "off"]
        faults, work, peak = (median_of(found, what) for what in SHOWN)
        idle = found[0]["idle_bytes"]
        lines.append(
            f"| {name} | {'own' if threshold is None else f'{threshold >> 10} KiB'} | "
            f"{'64 KiB' if mthp else 'no'} | {pool} | "
            f"{faults:,.0f} ({faults / median_of(base, 'faults'):.3f}x) | "
            f"{work / 1e6:,.1f} M ({work / median_of(base, 'instructions'):.3f}x) | "
            f"{peak / 2**20:.1f} | {'-' if idle is None else f'{idle / 2**20:.1f}'} |"
        )
    return "\n".join(lines)


def median_of(rows: list[dict[str, Any]], what: str) -> float:
    return statistics.median(row[what] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Lazy unmapping in the kernel, by counts.")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated names")
    parser.add_argument(
        "--thresholds", default=",".join(NAMED), help=f"of malloc, of: {', '.join(NAMED)}"
    )
    parser.add_argument("--pools", default=",".join(POOLS), help="kinds of pool; off is needed")
    parser.add_argument("--blocks", type=int, default=200, help="blocks of the churn programs")
    parser.add_argument("--cases", action="store_true", help="also run cases of the test")
    parser.add_argument("--json", action="store_true", help="print rows and cases as JSON")
    arguments = parser.parse_args()
    names = arguments.programs.split(",")
    if unknown := sorted(set(names) - set(PROGRAMS)):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(PROGRAMS)}")
    if unknown := sorted(set(arguments.thresholds.split(",")) - set(NAMED)):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(NAMED)}")
    if unknown := sorted(set(arguments.pools.split(",")) - set(POOLS)):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(POOLS)}")
    for name in names:
        if missing := PROGRAMS[name].missing():
            parser.error(f"{name} needs {', '.join(missing)}, which this machine does not have")
    if not (KERNEL / "bzImage").exists():
        raise SystemExit("kernel: no kernel with lazy unmapping in build/kernel: make kernel")
    if reason := guest.refusal(MACHINE):
        raise SystemExit(f"kernel: {reason}")
    thresholds = [NAMED.get(name) for name in arguments.thresholds.split(",")]
    settings = list(runs(names, thresholds, arguments.pools.split(",")))
    rows, cases = measure(settings, arguments.blocks, CASES if arguments.cases else ())
    if arguments.json:
        print(json.dumps({"rows": rows, "cases": cases}, indent=1))
        return
    print(table(rows), *(f"{case}: {holds}" for case, holds in cases.items()), sep="\n")


if __name__ == "__main__":
    main()
