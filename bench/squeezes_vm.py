"""Random squeezes of bench/killer_squeezes.py in an emulated guest, for killd and for earlyoom.

    python bench/squeezes_vm.py [--squeezes N] [--seed S]

Both killers guard the whole guest (tests/vm/killers.py), whose memory takes the place of the
group's limit. Kinds of squeezes take turns; those with thousands of processes are left out. Prints
one row per squeeze and the totals of each killer.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

import killer_squeezes
from killer_squeezes import Program, Squeeze

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vm"))
import killers

# What is left of the guest's 512 MiB for programs.
LIMIT_MIB = 420
SHARED_FILE = "/result/shared-memory"
# A hog maps more than the guest has, which the kernel refuses by default.
OVERCOMMIT = "echo 1 >/proc/sys/vm/overcommit_memory\n"
# Programs have started after the first time; needless kills come within the second.
STARTED_S, QUIET_S = 3, 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--squeezes", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if reason := killers.refusal():
        raise SystemExit(f"squeezes_vm: {reason}")
    rare = killer_squeezes.RARE
    numbers = [number for number in range(2 * arguments.squeezes) if number % rare != rare - 1]
    squeezes = [
        killer_squeezes.drawn(arguments.seed, number, LIMIT_MIB)
        for number in numbers[: arguments.squeezes]
    ]
    cases = {f"squeeze-{squeeze.number:03}": script(squeeze) for squeeze in squeezes}
    totals: dict[str, Counter[str]] = {killer: Counter() for killer in killers.COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        found = killers.run(Path(folder), scripts={"overcommit": OVERCOMMIT, **cases})
        for squeeze, name in zip(squeezes, cases, strict=True):
            cells = [f"{squeeze.number:>3} {squeeze.kind:<11}"]
            for killer, total in totals.items():
                (seen,) = found.watched(name, killer)
                victims = Counter(killed(found, name, killer))
                total.update(counts(victims, bool(seen["crossed"]), seen["recovery_ms"]))
                words = " ".join(f"{victim} {count}" for victim, count in victims.items())
                cells.append(f"{killer}: {words or 'no kill'}, recovery {seen['recovery_ms']} ms")
            print("  ".join(cells), flush=True)
        print(f"protected programs of the guest that died: {found.text('broken') or 'none'}")
    for killer, total in totals.items():
        print(f"{killer}: " + ", ".join(f"{count} {name}" for name, count in total.items()))


def script(squeeze: Squeeze) -> str:
    """The lines of shell that run a squeeze with each killer."""
    idle = "".join(f"{command(program)} >/dev/null &\n" for program in squeeze.idle)
    body = (
        f"{idle}sleep {STARTED_S}\ncross {command(squeeze.hog)}\nsleep {QUIET_S}\n"
        f"rm -f {SHARED_FILE}"
    )
    return killers.case(f"squeeze-{squeeze.number:03}", killers.COMMANDS, 1, body)


def command(program: Program) -> str:
    """The command line of a program; its name tells a killer's log what it is."""
    right, idle, guarded = killers.SQUEEZED
    name = guarded if program.is_protected else right if program.is_right else idle
    file = "{tmpfs}/file"
    return " ".join([name, *(SHARED_FILE if word == file else word for word in program.words)])


def killed(found: killers.Findings, name: str, killer: str) -> list[str]:
    """The names of the processes that a killer killed, each process once."""
    text = found.text(f"{name}.{killer}.0.log")
    if killer == "killd":
        pairs = re.findall(r"^event=kill process=(\d+) .*?name=(\S+)", text, re.MULTILINE)
    else:
        pairs = re.findall(r"^sending SIG\w+ to process (\d+) .*?\"(.*?)\"", text, re.MULTILINE)
    return list(dict(pairs).values())


def counts(victims: Counter[str], has_crossed: bool, recovery_ms: float | None) -> dict[str, int]:
    """What the totals count of a squeeze."""
    right, _, guarded = killers.SQUEEZED
    kills = victims.total()
    needless = kills - victims[right] - victims[guarded]
    return {
        "squeezes": 1,
        "short of memory": has_crossed,
        "kills": kills,
        "of the right victim": victims[right],
        "needless": needless,
        "of protected programs": victims[guarded],
        "squeezes with a wrong victim": kills > victims[right],
        "recovered": recovery_ms is not None,
    }


if __name__ == "__main__":
    main()
