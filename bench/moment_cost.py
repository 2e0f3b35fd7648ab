"""Measures the CPU time of a moment of `pagewise-agent record --kills` with a hundred processes.

    python bench/moment_cost.py [--agent PATH]... [--seconds N] [--rounds N]

A memory cgroup has 90 processes of 4 MiB, a server of 200 MiB with eight idle forks, and a program
that fills the group until the chosen share of memory is available. The recorder reports its own CPU
time. The rounds of several agents alternate. Needs root, cc and memory cgroups of version 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from killer_squeezes import AGENT, HANGS_AFTER_S, Program, Squeeze, Stage, compiled

LIMIT_MIB = 1000
CROWD = Program(("crowd", "90", "4096"))
SERVER = Program(("server", "200", "8"))
# Available memory in per cent of the limit. Weights of sharers are valid for a second if memory is
# short, else for ten seconds.
SHARES = {"short": 12, "ample": 35}
MOMENTS_PER_S = 5


def cost_ms(agent: Path, share: int, seconds: int, program: Path) -> tuple[float, int]:
    """Milliseconds of CPU time per moment, and the number of processes."""
    filler = Program(("hog", str(LIMIT_MIB * (100 - share) // 100 - 570)))
    squeeze = Squeeze(0, share, "plain", LIMIT_MIB, "largest", (CROWD, SERVER), filler)
    with Stage(squeeze, program) as stage, tempfile.TemporaryDirectory() as folder:
        for idle in (*squeeze.idle, filler):
            stage.start(idle, is_awaited=True)
        command = [agent, "record", "--kills", "--cgroup", stage.folder, "--for", f"{seconds}s"]
        answer = subprocess.run(
            [*command, "--json", "-o", Path(folder) / "cost.pgr"],
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds + HANGS_AFTER_S,
        )
        outcome = json.loads(answer.stdout)
        return outcome["cpu_s"] * 1e3 / (seconds * MOMENTS_PER_S), len(stage.processes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--agent", type=Path, action="append")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    agents: list[Path] = arguments.agent or [AGENT]
    with tempfile.TemporaryDirectory(prefix="moment-cost-") as temporary:
        program = compiled(Path(temporary))
        for name, share in SHARES.items():
            costs: dict[Path, list[float]] = {agent: [] for agent in agents}
            count = 0
            for _ in range(arguments.rounds):
                for agent in agents:
                    cost, count = cost_ms(agent, share, arguments.seconds, program)
                    costs[agent].append(cost)
            for agent, found in costs.items():
                print(
                    f"{name}: {count} processes, {median(found):.2f} ms per moment "
                    f"({min(found):.2f} to {max(found):.2f}), {agent}",
                    flush=True,
                )
    print("load of the machine", ", ".join(f"{average:.1f}" for average in os.getloadavg()))


if __name__ == "__main__":
    main()
