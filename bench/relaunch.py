"""A plan of the launch lab with relaunchd and without, in turn.

    python bench/relaunch.py OUT [--plan phone-1g] [--repeats 5] [--emulate emmc-5.1]
        [--order use|address]... [--page-out]

Needs what the plan needs, as root (`make lab-setup`). OUT gets a folder per run; a complete run is
kept. `pagewise study relaunch` then compares the warm launches application by application, and
leaves its result in OUT/study; the exit status is 1 if a target is missed, not if it is undecided.
With --emulate the swap area is swapd's flash policy on that device. With --order, each order of
relaunchd's reads has runs of its own, in turn with the others and with those without relaunchd, and
a study of its own in OUT/order-ORDER. With --page-out, runs in which relaunchd pages out the pages
that it does not predict and makes the others cold take turns with the rest; their study is in
OUT/page-out.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tiers import PLANS, made, plan_text, studied

from pagewise_studies import relaunch

PAGE_OUT = "page-out"


def main() -> int:
    """Makes the runs and prints the study's tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--plan", default="phone-1g")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--emulate")
    parser.add_argument("--order", action="append", choices=["use", "address"], default=[])
    parser.add_argument("--page-out", action="store_true")
    arguments = parser.parse_args()
    assert (PLANS / f"{arguments.plan}.toml").exists(), f"no plan {arguments.plan}"
    arguments.out.mkdir(parents=True, exist_ok=True)
    policy = "flash" if arguments.emulate else "swap-file"
    text = plan_text(arguments.plan, policy, "4KiB", arguments.emulate)
    kinds = {"without": ""}
    for order in arguments.order:
        kinds[f"with-{order}"] = f'prefetch = true\nprefetch_order = "{order}"\n'
    if arguments.page_out:
        kinds[PAGE_OUT] = "prefetch = true\nprefetch_page_out = true\nprefetch_cold = true\n"
    if not arguments.order:
        kinds["with"] = "prefetch = true\n"
    folders: dict[str, list[Path]] = {name: [] for name in kinds}
    for repeat in range(arguments.repeats):
        for name, entries in kinds.items():
            plan = text.replace("\nmode", f"\n{entries}mode")
            folders[name].append(made(arguments.out, f"{name}-{repeat}", plan))
            print(f"{name}-{repeat}: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    without = folders.pop("without")
    status = 0
    for name, runs in folders.items():
        out = arguments.out
        if name == PAGE_OUT:
            out /= PAGE_OUT
        elif arguments.order:
            out /= name.replace("with", "order", 1)
        out.mkdir(exist_ok=True)
        status |= studied(relaunch.study, [*without, *runs], out)
    return status


if __name__ == "__main__":
    sys.exit(main())
