"""Checks that replay-kills names the processes that killd killed during the recording.

    python bench/kill_replay.py [--squeezes N] [--seed N] [--policies NAME,...] [--forks]
                                 [--keep FOLDER]

prints one row per squeeze. With --forks each squeeze has a server that shares its memory with idle
forks. Needs root and memory cgroups of version 1. Adds a swap file while policies that need swap
run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from recorded_squeezes import POLICIES, SqueezeOutcome, outcome, squeeze, with_server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--squeezes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument(
        "--forks", action="store_true", help="add a server with idle forks to each squeeze"
    )
    parser.add_argument("--keep", type=Path, help="a folder for the recordings and logs")
    arguments = parser.parse_args()
    policies = arguments.policies.split(",")
    outcomes: list[SqueezeOutcome] = []
    with tempfile.TemporaryDirectory(prefix="pagewise-squeezes-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        print(HEAD)
        for number in range(arguments.squeezes):
            seed, policy = arguments.seed + number, policies[number % len(policies)]
            drawn = squeeze(seed, policy)
            drawn = with_server(drawn) if arguments.forks else drawn
            outcomes.append(outcome(drawn, folder / f"{seed}-{policy}"))
            print(row(outcomes[-1]), flush=True)
    same = sum(run.is_same for run in outcomes)
    reconsidered = [run for run in outcomes if run.has_reconsidered]
    victims = sum(len(run.killed) for run in outcomes)
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    print(
        f"{same} of {len(outcomes)} squeezes: the replay names killd's victims and no other process"
    )
    print(
        f"{len(reconsidered)} squeezes in which killd found another holder of the memory than a "
        f"process, or killed in vain: {sum(run.is_same for run in reconsidered)} of them the same"
    )
    print(f"{victims} victims; load of the machine {load}")


HEAD = "seed  policy        kills   reclaim  limit  processes  oom  killd's victims / the replay's"


def row(run: SqueezeOutcome) -> str:
    """A line of the table."""
    members = (*run.squeeze.holders, *run.squeeze.growers)
    processes = sum(1 + member.forks for member in members)
    verdict = "the same" if run.is_same else f"{run.named}"
    verdict += ", killd reconsidered" if run.has_reconsidered else ""
    return (
        f"{run.squeeze.seed:>4}  {run.squeeze.policy:<12}  {run.squeeze.kills:<6}  "
        f"{run.squeeze.reclaim:<7}  {run.squeeze.limit_mib:>5}  {processes:>9}  "
        f"{run.oom_kills:>3}  {run.killed} / {verdict}"
    )


if __name__ == "__main__":
    main()
