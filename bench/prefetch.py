"""A plan of the launch lab with relaunchd and without, in turn.

    python bench/prefetch.py OUT [--plan phone-1g] [--repeats 5] [--emulate emmc-5.1]

Needs what the plan needs, as root (`make lab-setup`). OUT gets a folder per run; a complete run is
kept. Warm launches are compared application by application: the ratio of their medians, with the
95 % interval of a bootstrap over the launches. The first warm round, from which relaunchd learns,
does not count. With --emulate the swap area is swapd's flash policy on that device.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path
from statistics import median

import polars
from tiers import PLANS, made, plan_text

FASTER = 1.5
SLOWER_AT_MOST = 1.05
FAULTS_AT_MOST = 0.5
BYTES_AT_MOST = 1.25
DRAWS = 2000


def warm(folder: Path) -> polars.DataFrame:
    """The launches that count."""
    visits = polars.read_parquet(folder / "visits.parquet")
    return visits.filter(~polars.col("cold") & polars.col("answered") & (polars.col("round") > 1))


def interval(without: list[float], with_: list[float]) -> tuple[float, float, float]:
    """With divided by without: the ratio of the medians and its 95 % interval."""
    draw = random.Random(1)
    ratios = sorted(
        median(draw.choices(with_, k=len(with_))) / median(draw.choices(without, k=len(without)))
        for _ in range(DRAWS)
    )
    ratio = median(with_) / median(without)
    return ratio, ratios[int(0.025 * DRAWS)], ratios[int(0.975 * DRAWS)]


def compare(without: polars.DataFrame, with_: polars.DataFrame) -> bool:
    """Prints the table; returns whether every target holds."""
    print("application\twithout ms\twith ms\tratio\tinterval\tmajor faults\tbytes read")
    is_reached = True
    for name in [*sorted(without["app"].unique()), None]:
        parts = [
            table if name is None else table.filter(polars.col("app") == name)
            for table in (without, with_)
        ]
        times = [part["launch_s"].to_list() for part in parts]
        ratio, low, high = interval(*times)
        more = [
            parts[1][column].sum() / max(1, parts[0][column].sum())
            for column in ("major_faults", "swap_in_bytes")
        ]
        is_reached &= low <= SLOWER_AT_MOST
        if name is None:
            is_reached &= ratio <= 1 / FASTER
            is_reached &= more[0] <= FAULTS_AT_MOST and more[1] <= BYTES_AT_MOST
        cells = [f"{median(each) * 1000:.0f}" for each in times]
        cells += [f"{ratio:.2f}", f"{low:.2f} to {high:.2f}", *(f"{each:.2f}" for each in more)]
        print("\t".join([name or "all", *cells]), flush=True)
    return is_reached


def main() -> int:
    """Makes the runs and prints the table."""
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
    tables: dict[str, list[polars.DataFrame]] = {"without": [], "with": []}
    for repeat in range(arguments.repeats):
        for name, found in tables.items():
            plan = text.replace("\nmode", "\nprefetch = true\nmode") if name == "with" else text
            found.append(warm(made(arguments.out, f"{name}-{repeat}", plan, False)))
            print(f"{name}-{repeat}: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    reached = compare(*(polars.concat(found) for found in tables.values()))
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
