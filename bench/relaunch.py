"""A plan of the launch lab with relaunchd and without, in turn.

    python bench/relaunch.py OUT [--plan phone-1g] [--repeats 5] [--emulate emmc-5.1]

Needs what the plan needs, as root (`make lab-setup`). OUT gets a folder per run; a complete run is
kept. `pagewise study relaunch` then compares the warm launches application by application, and
leaves its result in OUT/study; the exit status is 1 if a target is missed. With --emulate the swap
area is swapd's flash policy on that device.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tiers import PLANS, made, plan_text, studied

from pagewise_studies import relaunch


def main() -> int:
    """Makes the runs and prints the study's tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--plan", default="phone-1g")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--emulate")
    arguments = parser.parse_args()
    assert (PLANS / f"{arguments.plan}.toml").exists(), f"no plan {arguments.plan}"
    arguments.out.mkdir(parents=True, exist_ok=True)
    policy = "flash" if arguments.emulate else "swap-file"
    text = plan_text(arguments.plan, policy, "4KiB", arguments.emulate)
    folders = []
    for repeat in range(arguments.repeats):
        for name in ("without", "with"):
            plan = text.replace("\nmode", "\nprefetch = true\nmode") if name == "with" else text
            folders.append(made(arguments.out, f"{name}-{repeat}", plan))
            print(f"{name}-{repeat}: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return studied(relaunch.study, folders, arguments.out)


if __name__ == "__main__":
    sys.exit(main())
