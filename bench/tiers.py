"""A plan of the launch lab on a swap file, on swapd with each policy, and without swap, in turn.

    python bench/tiers.py OUT [--plan phone-1g] [--fast 256MiB]... [--policy NAME]...
        [--emulate emmc-5.1] [--repeats 2]

Needs what the plan needs, as root (`make lab-setup`), on a machine without another swap area. OUT
gets a folder per run; a complete run is kept, so an interrupted series resumes. `pagewise study
multiswap --live` then compares the runs and leaves its result in OUT/study, with every row marked
if a run can carry no verdict; the exit status is 1 if a target is missed, not if it is undecided.
With --emulate the slow tier and files are as slow as that device, and the policy `flash` stands for
flash swap. `--policy kill` runs the plan with swap off and a killer at 40 % of anonymous memory.
Each --fast is another size of the fast tier.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from pagewise.commands.study import described
from pagewise.comparisons import StudyResult
from pagewise.terminal import show
from pagewise_studies import multiswap_live
from pagewise_studies.verdict import FAILS, NEEDS

ROOT = Path(__file__).parent.parent
AGENT = Path(sys.executable).parent / "pagewise-agent"
PLANS = ROOT / "lab" / "plans"
POLICIES = ("hierarchical", "hybrid", "nvm-cache", "adaptive")
FLASH = "flash"
"""Everything goes to the slow tier: the swap file of a machine with the emulated device."""
FILE, KILL = "swap-file", "kill"
SIZELESS = (FILE, KILL, FLASH)
"""Runs that have no fast tier, or do not use it."""


def plan_text(base: str, policy: str, fast: str, emulate: str | None) -> str:
    """The plan with this policy, with the swap file it has, or with a killer instead of swap."""
    text = (PLANS / f"{base}.toml").read_text()
    # The plan's own files stay in its folder.
    for key, file in (("include", "applications.toml"), ("file", "sessions.csv")):
        text = text.replace(f'{key} = "{file}"', f"{key} = {json.dumps(str(PLANS / file))}")
    mode = 'mode = "swap-file"'
    assert mode in text, f"{base} has no swap file"
    slow = f', emulate = {{ slow = "{emulate}" }}' if emulate else ""
    files = f'\nstorage = {{ files = "{emulate}" }}' if emulate else ""
    if policy == KILL:
        mode = 'mode = "kill"\nkill = { threshold = 0.4 }'
        text = "".join(line for line in text.splitlines(True) if not line.startswith("swap_size"))
    elif policy != FILE:
        mode = f'mode = "tiers"\ntiers = {{ policy = "{policy}", fast = "{fast}"{slow} }}'
    return text.replace('mode = "swap-file"', f"{mode}{files}")


def made(out: Path, name: str, text: str) -> Path:
    """The folder of a complete run, which is recorded, so that it can judge itself."""
    folder = out / name
    about = folder / "run.toml"
    if about.exists() and tomllib.loads(about.read_text())["run"]["finished"]:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    # `launch` looks for the applications in a folder `lab` beside the plan or above it.
    with contextlib.suppress(FileExistsError):
        (out / "lab").symlink_to(PLANS.parent)
    plan = out / f"{name}.toml"
    plan.write_text(text)
    command = [AGENT, "launch", plan, "-o", folder, "--record"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def studied(study: Callable[..., StudyResult], folders: list[Path], out: Path) -> int:
    """Prints what the study of these runs finds; 1 if it misses a target of ours, 0 otherwise, also
    if the runs do not decide a target."""
    output = out / "study"
    output.mkdir(exist_ok=True)
    result = study(folders, output, seed=1, progress=None, allow_invalid=True)
    show(*described(result))
    ours = [row for row in result["verdicts"] if not row["check"].startswith("ACC-")]
    return int(any(row["verdict"] in (FAILS, NEEDS) for row in ours))


def main() -> int:
    """Makes the runs and prints the study's tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--plan", default="phone-1g")
    parser.add_argument("--fast", action="append")
    parser.add_argument("--emulate")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--policy", action="append")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    policies = arguments.policy or ((FLASH, *POLICIES) if arguments.emulate else POLICIES)
    sizes = arguments.fast or ["256MiB"]
    runs = [(policy, size) for policy in (FILE, *policies) for size in sizes]
    folders = []
    for repeat in range(arguments.repeats):
        for policy, size in runs:
            if policy in SIZELESS and size != sizes[0]:
                continue
            is_named = len(sizes) > 1 and policy not in SIZELESS
            name = f"{policy}-{size}-{repeat}" if is_named else f"{policy}-{repeat}"
            text = plan_text(arguments.plan, policy, size, arguments.emulate)
            folders.append(made(arguments.out, name, text))
            print(f"{name}: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return studied(multiswap_live.live, folders, arguments.out)


if __name__ == "__main__":
    sys.exit(main())
