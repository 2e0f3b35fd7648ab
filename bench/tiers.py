"""A plan of the launch lab on a swap file and on swapd with each policy, in turn.

    python bench/tiers.py OUT [--plan phone-1g] [--fast 256MiB] [--emulate emmc-5.1] [--repeats 2]

Needs what the plan needs, as root (`make lab-setup`), on a machine without another swap area. OUT
gets a folder per run; a complete run is kept, so an interrupted series resumes. For each policy it
prints the pages that the slow tier read and wrote, what simulating the swap file's recording with
the same options predicts, and what the simulator's own rules make of the very requests that
swapd had; the pages written to the fast tier, and the median launch. Runs of the same repeat are
compared. With --emulate the slow tier and files are as slow as that device, and launches are
compared with those of the policy `flash`. Each recording of swapd is decided again (`pagewise
simulate --as-recorded`), which must give the same moves.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import polars
from relaunch import AGENT, ROOT

import pagewise as pw
from pagewise import _core
from pagewise.commands.study import described
from pagewise.comparisons import StudyResult
from pagewise.terminal import show
from pagewise_studies.verdict import FAILS, NEEDS

PLANS = ROOT / "lab" / "plans"
DIRTY, OF_ZEROS = 1, 128
"""Flags of events in a trace file."""
POLICIES = ("hierarchical", "hybrid", "nvm-cache", "adaptive")
FLASH = "flash"
"""Everything goes to the slow tier: the swap file of a machine with the emulated device."""
FILE = "swap-file"
# Where decisions weigh latencies, those of the run; the counts depend on nothing else of a device.
PREDICTED_WITHIN = 0.10
TARGETS = [
    ("slow I/O of adaptive", "adaptive", "hierarchical", "slow", 0.92),
    ("fast writes of hybrid", "hybrid", "hierarchical", "fast_writes", 0.5),
]
"""A figure of the first policy is at most this multiple of the second's."""


@dataclass
class Run:
    """The figures of one run."""

    slow: int
    fast_writes: int
    launch_s: float
    predicted: int | None = None
    simulated: int | None = None


def plan_text(base: str, policy: str, fast: str, emulate: str | None) -> str:
    """The plan with this policy, or with the swap file it has."""
    text = (PLANS / f"{base}.toml").read_text()
    include = json.dumps(str(PLANS / "applications.toml"))
    text = text.replace('include = "applications.toml"', f"include = {include}")
    if policy == FILE:
        return text
    slow = f', emulate = {{ slow = "{emulate}" }}' if emulate else ""
    files = f'\nstorage = {{ files = "{emulate}" }}' if emulate else ""
    tiers = f'tiers = {{ policy = "{policy}", fast = "{fast}"{slow} }}'
    assert 'mode = "swap-file"' in text, f"{base} has no swap file"
    return text.replace('mode = "swap-file"', f'mode = "tiers"\n{tiers}{files}')


def made(out: Path, name: str, text: str, is_recorded: bool) -> Path:
    """The folder of a complete run."""
    folder = out / name
    about = folder / "run.toml"
    if about.exists() and tomllib.loads(about.read_text())["run"]["finished"]:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    plan = out / f"{name}.toml"
    plan.write_text(text)
    command = [AGENT, "launch", plan, "-o", folder, *(["--record"] if is_recorded else [])]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def studied(study: Callable[..., StudyResult], folders: list[Path], out: Path) -> int:
    """Prints what the study of these runs finds; 1 if it misses a target of ours, 0 otherwise."""
    output = out / "study"
    output.mkdir(exist_ok=True)
    result = study(folders, output, seed=1, progress=None)
    show(*described(result))
    ours = [row for row in result["verdicts"] if not row["check"].startswith("ACC-")]
    return int(any(row["verdict"] in (FAILS, NEEDS) for row in ours))


def launches(folder: Path) -> float:
    """The median of the warm launches."""
    visits = polars.read_parquet(folder / "visits.parquet")
    return float(visits.filter(~polars.col("cold"))["launch_s"].median())  # type: ignore[arg-type]


def of_swap(folder: Path) -> Path:
    """The page-outs and page-ins of a run on the swap file, without pages of files and of zeros.

    The recording of the lab has every source. A swap area sees neither of those.
    """
    swapped = folder / "swapped.parquet"
    if swapped.exists():
        return swapped
    trace = pw.read(folder / "recording.pgr")
    names = np.array(_core.kinds())[trace.column("kind")]
    flags, pages, times = (trace.column(name) for name in ("flags", "page", "time_ns"))
    is_kept = np.isin(names, ("swap_out", "swap_in")) & (flags & OF_ZEROS == 0)
    lines = ["time_s,event,process,page,state,kind"]
    for time_ns, name, page, flag in zip(
        times[is_kept].tolist(),
        names[is_kept].tolist(),
        pages[is_kept].tolist(),
        flags[is_kept].tolist(),
        strict=True,
    ):
        state = "" if name == "swap_in" else "D" if flag & DIRTY else "C"
        seconds = f"{time_ns // 10**9}.{time_ns % 10**9:09}"
        lines.append(f"{seconds},{name.removeprefix('swap_')},1,{page},{state},anon")
    (folder / "swapped.csv").write_text("\n".join(lines) + "\n")
    pw.import_trace([folder / "swapped.csv"], swapped)
    return swapped


def of_tiers(folder: Path, recording: Path) -> Run:
    """The figures of a run on swapd, and what the recording of the swap file predicts."""
    served = json.loads((folder / "swapd.json").read_text())
    assert not any(served["errors"].values()), served["errors"]
    again = pw.simulate_as_recorded(folder / "swapd.pgr")
    assert again["identical"], again["first_difference"]
    times = again["latencies"]

    def simulated(trace: Path) -> int:
        found = pw.simulate(
            trace,
            architecture=served["policy"],
            fast_tier=served["fast_bytes"],
            fast=f"{times['fast_read_ns']}/{times['fast_write_ns']}ns",
            slow=f"{times['slow_read_ns']}/{times['slow_write_ns']}ns",
            option={**served["options"], "ranges": "no"},
        )
        return found["slow"]["reads"] + found["slow"]["writes"]

    return Run(
        slow=served["slow"]["reads"] + served["slow"]["writes"],
        fast_writes=served["fast"]["writes"],
        launch_s=launches(folder),
        predicted=simulated(recording),
        simulated=simulated(folder / "swapd.pgr"),
    )


def of_file(folder: Path) -> Run:
    """The figures of a run on the swap file."""
    visits = polars.read_parquet(folder / "visits.parquet")
    moved = visits["swap_in_bytes"].sum() + visits["swap_out_bytes"].sum()
    return Run(slow=moved // 4096, fast_writes=0, launch_s=launches(folder))


def ratios(runs: dict[str, list[Run]], name: str, other: str, what: str) -> list[float]:
    """The figure of one divided by that of the other, repeat by repeat."""
    pairs = zip(runs[name], runs[other], strict=True)
    return [getattr(a, what) / getattr(b, what) for a, b in pairs]


def main() -> int:
    """Makes the runs and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--plan", default="phone-1g")
    parser.add_argument("--fast", default="256MiB")
    parser.add_argument("--emulate")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--policy", action="append", choices=(FLASH, *POLICIES))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    policies = arguments.policy or ((FLASH, *POLICIES) if arguments.emulate else POLICIES)
    baseline = FLASH if FLASH in policies else FILE
    runs: dict[str, list[Run]] = {name: [] for name in (FILE, *policies)}
    for repeat in range(arguments.repeats):
        recording = Path()
        for policy in runs:
            text = plan_text(arguments.plan, policy, arguments.fast, arguments.emulate)
            folder = made(arguments.out, f"{policy}-{repeat}", text, policy == FILE)
            print(f"{folder.name}: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
            if policy == FILE:
                recording = of_swap(folder)
                runs[policy].append(of_file(folder))
            else:
                runs[policy].append(of_tiers(folder, recording))
    print(
        "swap\tslow I/O pages\tlive over predicted\tlive over simulated\tfast writes\t"
        f"median launch ms\tbeside {baseline}"
    )
    is_reached = True
    for name, found in runs.items():
        errors = [run.slow / run.predicted - 1 for run in found if run.predicted]
        is_reached &= all(abs(error) <= PREDICTED_WITHIN for error in errors)
        spread = ", ".join(f"{error:+.1%}" for error in errors) or "-"
        alike = [run.slow / run.simulated - 1 for run in found if run.simulated]
        same = ", ".join(f"{error:+.2%}" for error in alike) or "-"
        slow = ", ".join(str(run.slow) for run in found)
        writes = ", ".join(str(run.fast_writes) for run in found)
        times = ", ".join(f"{run.launch_s * 1000:.0f}" for run in found)
        beside = ", ".join(f"{ratio:.2f}x" for ratio in ratios(runs, name, baseline, "launch_s"))
        print(f"{name}\t{slow}\t{spread}\t{same}\t{writes}\t{times}\t{beside}", flush=True)
    for what, name, other, figure, most in TARGETS:
        if name in runs and other in runs:
            found = ratios(runs, name, other, figure)
            is_reached &= median(found) <= most
            print(f"{what}: {', '.join(f'{r:.2f}x' for r in found)} of {other}, at most {most}x")
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
