"""sqlite in a memory cgroup much smaller than its data, under load: does the OOM killer end it?

    python bench/small_groups.py [--limit 24MiB] [--runs 5] [--on swapd|swap-file|both]

Needs root, memory cgroups of version 1, sqlite3, and a machine without another swap area. Prints a
line per run: where it swapped, its exit status, how often the group was at its limit, and the time.
The OOM killer ended a run with the status 137. docs/swapd.md explains why it does on kernels
without multi-generational LRU, and what swapd does about it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pagewise.units import parse_size

AGENT = Path(sys.executable).parent / "pagewise-agent"
GROUPS = Path("/sys/fs/cgroup/memory")
SWAP_MIB = 512
LOADS = 3
SQL = """
create table numbers(id integer primary key, word text);
with recursive count(n) as (values(1) union all select n + 1 from count where n < 30000)
insert into numbers select n, printf('%08d', n * 7919 % 30000) || hex(zeroblob(400)) from count;
create index words on numbers(word);
update numbers set word = word || id where id % 3 = 0;
select sum(id * length(word)) from (select id, word from numbers order by word);
"""
# Moves the shell into the group, then becomes sqlite.
ENTER = 'echo $$ >"$0/cgroup.procs"; exec sqlite3 :memory: "$1"'


@contextmanager
def group(limit_bytes: int) -> Iterator[Path]:
    """A memory cgroup with this limit."""
    folder = GROUPS / f"pagewise-small-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(limit_bytes))
        yield folder
    finally:
        folder.rmdir()


@contextmanager
def load() -> Iterator[None]:
    """Programs that only compute."""
    shells = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(LOADS)]
    try:
        yield
    finally:
        for shell in shells:
            shell.kill()
            shell.wait()


def on_swap_file(folder: Path, command: list[str]) -> int:
    """The status of the command while a swap file is the machine's only area."""
    path = folder / "swap"
    with path.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)
        for _ in range(SWAP_MIB):
            file.write(bytes(1 << 20))
    subprocess.run(["mkswap", path], check=True, capture_output=True)
    subprocess.run(["swapon", path], check=True)
    try:
        status = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
        return 128 - status if status < 0 else status
    finally:
        subprocess.run(["swapoff", path], check=True)


def on_swapd(folder: Path, command: list[str]) -> int:
    """The status of the command on swapd with 16 MiB of memory in front of a file."""
    swapd = [AGENT, "swapd", "--size", f"{SWAP_MIB}MiB", "--fast", "16MiB", "--policy", "adaptive"]
    swapd += ["--slow", folder / "slow", "--only-swap", "--verify", "--json", "--", *command]
    ran = subprocess.run(swapd, capture_output=True, text=True)
    if ran.returncode in (2, 3):
        sys.exit(ran.stderr)
    return ran.returncode


WAYS = {"swapd": on_swapd, "swap-file": on_swap_file}


def main() -> None:
    """Makes the runs, each way in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--limit", default="24MiB")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--on", choices=[*WAYS, "both"], default="both")
    arguments = parser.parse_args()
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        sys.exit("this machine has another swap area: disable it first (swapoff)")
    limit = parse_size(arguments.limit)
    for number in range(arguments.runs):
        for name in WAYS if arguments.on == "both" else [arguments.on]:
            with tempfile.TemporaryDirectory(dir="/var/tmp") as path, group(limit) as here, load():
                command = ["sh", "-c", ENTER, str(here), SQL]
                begun = time.monotonic()
                status = WAYS[name](Path(path), command)
                took = time.monotonic() - begun
                full = (here / "memory.failcnt").read_text().strip()
            print(f"{name} {number}: status {status}, at the limit {full} times, {took:.1f} s")


if __name__ == "__main__":
    main()
