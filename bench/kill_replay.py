"""Checks that replay-kills names the processes that killd killed during the recording.

    python bench/kill_replay.py [--squeezes N] [--seed N] [--policies NAME,...] [--keep FOLDER]

prints one row per squeeze. Needs root and memory cgroups of version 1. Adds a swap file while
policies that need swap run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from recorded_squeezes import POLICIES, Outcome, outcome, squeeze


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--squeezes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--keep", type=Path, help="a folder for the recordings and logs")
    arguments = parser.parse_args()
    policies = arguments.policies.split(",")
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="pagewise-squeezes-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        print(HEAD)
        for number in range(arguments.squeezes):
            seed, policy = arguments.seed + number, policies[number % len(policies)]
            outcomes.append(outcome(squeeze(seed, policy), folder / f"{seed}-{policy}"))
            print(row(outcomes[-1]), flush=True)
    same = sum(run.is_same for run in outcomes)
    victims = sum(len(run.killed) for run in outcomes)
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    print(
        f"{same} of {len(outcomes)} squeezes: the replay names killd's victims and no other process"
    )
    print(f"{victims} victims; load of the machine {load}")


HEAD = "seed  policy        kills   reclaim  limit  members  oom  killd's victims / the replay's"


def row(run: Outcome) -> str:
    """A line of the table."""
    members = len(run.squeeze.holders) + len(run.squeeze.growers)
    verdict = "the same" if run.is_same else f"{run.named}"
    return (
        f"{run.squeeze.seed:>4}  {run.squeeze.policy:<12}  {run.squeeze.kills:<6}  "
        f"{run.squeeze.reclaim:<7}  {run.squeeze.limit_mib:>5}  {members:>7}  {run.oom_kills:>3}  "
        f"{run.killed} / {verdict}"
    )


if __name__ == "__main__":
    main()
