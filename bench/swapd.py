"""swapd beside a swap file: the times of faults, values, kills of the server, idle processor time.

    python bench/swapd.py [faults] [idle] [values] [kills] [--rounds 5] [--minutes 60] [--kills 200]
        [--on-disk | --compress lz4]

Needs root, FUSE, loop devices, gcc and memory cgroups of version 1, on a machine without another
swap area. `faults` runs one program on each area in turn: 400 MiB touched at random in a group of
100 MiB. It prints the median and the 99th percentile of its major faults, divided by those of the
swap file of the same round. `idle` prints the processor time of a swapd without requests, over
30 s. `values` runs a program of four threads for --minutes on swapd and counts wrong pages. `kills`
runs four programs until as many servers were killed by SIGKILL as --kills says; each successor
must say within a second of the kill that it serves. With --on-disk, `values` and `kills` put the
fast tier into a file of the same disk and encrypt both tiers; with --compress, they compress it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TypedDict

from guards import guard_of

ROOT = Path(__file__).parent.parent
AGENT = Path(sys.executable).parent / "pagewise-agent"
MEMORY = Path("/sys/fs/cgroup/memory")
LIBC = ctypes.CDLL(None, use_errno=True)
PREFERRED = 0x8000 | 32767
"""Flags of swapon: the highest priority."""
HANGS_AFTER_S = 600
MIB = 1 << 20
FAULTS = Path(__file__).parent / "faults.c"
VALUES = Path(__file__).parent / "values.c"
THREADS = 4
AREA_MIB = 1024
HELD_MIB = 400
LIMIT_MIB = 100
ACCESSES = 60_000
IDLE_S = 30
TARGETS = {
    ("fast tier", "p50"): 0.6,
    ("fast tier", "p99"): 1.0,
    ("slow tier", "p50"): 1.4,
}
"""At most this multiple of the swap file's figure."""
AREAS = {
    "fast tier": ["--fast", f"{AREA_MIB}MiB", "--policy", "hierarchical"],
    "fast tier on disk": [
        "--fast",
        f"{AREA_MIB}MiB",
        "--policy",
        "hierarchical",
        "--fast-on",
        "{}",
    ],
    "compressed lz4": ["--fast", "256MiB", "--policy", "hierarchical", "--compress", "lz4"],
    "compressed zstd": ["--fast", "256MiB", "--policy", "hierarchical", "--compress", "zstd"],
    "slow tier": ["--fast", "4KiB", "--policy", "flash"],
}
"""The options of each area; `{}` stands for a file of the fast tier."""
ON_DISK = ["--fast-on", "{}", "--encrypt"]


class Times(TypedDict):
    """What bench/faults.c prints: times in nanoseconds."""

    wrong: int
    faults: int
    p50: int
    p99: int
    p999: int


class Compared(TypedDict):
    """What bench/values.c prints."""

    wrong: int
    compared: int
    faults: int


@contextlib.contextmanager
def swapd(folder: Path, *words: str, mib: int = AREA_MIB) -> Iterator[subprocess.Popen[str]]:
    """A swapd with an area in use; it ends before the folder is removed."""
    socket = folder / "swapd.sock"
    command = [AGENT, "swapd", "--size", f"{mib}MiB", "--slow", folder / "slow", "--only-swap"]
    command += ["--json", "--priority", "32767", "--socket", socket, *placed(folder, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        late = time.monotonic() + HANGS_AFTER_S
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > late:
                raise RuntimeError("swapd did not start")
            time.sleep(0.01)
        yield process
    finally:
        process.terminate()
        output, _ = process.communicate(timeout=HANGS_AFTER_S)
    errors = json.loads(output)["errors"]
    assert not any(errors.values()), errors


def removed(folder: Path) -> None:
    """Removes a group, as soon as the kernel permits it."""
    late = time.monotonic() + HANGS_AFTER_S
    while True:
        try:
            return folder.rmdir()
        except OSError:
            if time.monotonic() > late:
                raise
        time.sleep(0.01)


@contextlib.contextmanager
def swap_file(folder: Path, size: int) -> Iterator[None]:
    """A swap file of this size, which the kernel fills first."""
    path = folder / "swap"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    path.chmod(0o600)
    subprocess.run(["mkswap", "-q", path], check=True)
    if LIBC.swapon(str(path).encode(), PREFERRED) != 0:
        raise OSError(ctypes.get_errno(), "swapon")
    try:
        yield
    finally:
        assert LIBC.swapoff(str(path).encode()) == 0, os.strerror(ctypes.get_errno())
        path.unlink()


def placed(folder: Path, words: Sequence[str]) -> list[str]:
    """The options with the path of the fast tier's file."""
    return [word.replace("{}", str(folder / "fast")) for word in words]


@contextlib.contextmanager
def group(limit_mib: int) -> Iterator[Path]:
    """A memory group with a limit, which swaps as readily as it can."""
    folder = MEMORY / f"pagewise-bench-{os.getpid()}-{time.monotonic_ns() % 10**9}"
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(limit_mib * MIB))
        (folder / "memory.swappiness").write_text("100")
        yield folder
    finally:
        removed(folder)


def started(program: Path, inside: Path, *numbers: int) -> subprocess.Popen[str]:
    """A program with its arguments in a group."""
    script = 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"'
    words = [program, *map(str, numbers)]
    return subprocess.Popen(
        ["sh", "-c", script, "sh", inside, *words], stdout=subprocess.PIPE, text=True
    )


def times(program: Path, seed: int) -> Times:
    """One run of the program on the area in use."""
    with group(LIMIT_MIB) as inside:
        process = started(program, inside, HELD_MIB, ACCESSES, seed)
        output, _ = process.communicate(timeout=HANGS_AFTER_S)
    found: Times = json.loads(output)
    assert found["faults"] > ACCESSES // 4, f"the area was hardly used: {found}"
    return found


def measure_faults(folder: Path, program: Path, rounds: int) -> bool:
    """Prints the times of faults on each area; returns whether every target holds."""
    runs: dict[str, list[Times]] = {"swap file": [], **{name: [] for name in AREAS}}
    for seed in range(rounds):
        with swap_file(folder, AREA_MIB * MIB):
            runs["swap file"].append(times(program, seed))
        for name, words in AREAS.items():
            with swapd(folder, *words):
                runs[name].append(times(program, seed))
    print(f"{rounds} rounds in turn, load {os.getloadavg()[0]:.1f}")
    print("area\twrong\tfaults\tp50 us\tp99 us\tp99.9 us\tp50 ratio\tp99 ratio")
    is_reached = True
    for name, found in runs.items():
        cells = [str(sum(run["wrong"] for run in found)), f"{found[-1]['faults']}"]
        cells += [f"{median(figures(found, key)) / 1000:.1f}" for key in ("p50", "p99", "p999")]
        for key in ("p50", "p99"):
            files = figures(runs["swap file"], key)
            ratios = [a / b for a, b in zip(figures(found, key), files, strict=True)]
            target = TARGETS.get((name, key))
            is_reached &= target is None or median(ratios) <= target
            limit = "" if target is None else f", at most {target}"
            cells.append(f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}{limit})")
        print("\t".join([name, *cells]), flush=True)
    return is_reached


def figures(runs: list[Times], key: str) -> list[int]:
    """One figure of every run."""
    return [int(run[key]) for run in runs]  # type: ignore[literal-required]


def measure_idle(folder: Path) -> bool:
    """Prints the processor time of an idle swapd; returns whether the target holds."""
    with swapd(folder, "--fast", "64MiB", "--policy", "adaptive") as process:
        time.sleep(5)
        before = processor_ticks(process.pid)
        time.sleep(IDLE_S)
        ticks = processor_ticks(process.pid) - before
    share = ticks / os.sysconf("SC_CLK_TCK") / IDLE_S
    print(f"idle: {share:.2%} of a processor over {IDLE_S} s (at most 0.1 %)", flush=True)
    return share <= 0.001


def processor_ticks(process: int) -> int:
    """Clock ticks of a process so far, in user and kernel mode."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def measure_kills(folder: Path, program: Path, kills: int, more: Sequence[str]) -> bool:
    """Kills servers while four programs run; returns whether no value was wrong and all took over
    in time."""
    draw = random.Random(1)
    errors = (folder / "errors.txt").open("w+")
    command = [AGENT, "swapd", "--size", f"{2 * AREA_MIB}MiB", "--slow", folder / "slow"]
    command += ["--fast", "128MiB", "--policy", "adaptive", "--verify", "--only-swap"]
    command += ["--priority", "32767", *placed(folder, more)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert server.stdout and "serving" in server.stdout.readline()
    serving, killed, runs, wrong, waits = server.pid, 0, 0, 0, []
    while killed < kills:
        with group(4 * LIMIT_MIB) as inside:
            programs = [
                started(program, inside, HELD_MIB, ACCESSES * 3, runs + each) for each in range(4)
            ]
            while killed < kills and any(each.poll() is None for each in programs):
                successor = guard_of(serving)
                time.sleep(draw.uniform(0.05, 0.5))
                begun, length = time.monotonic(), (folder / "errors.txt").stat().st_size
                os.kill(serving, signal.SIGKILL)
                while (folder / "errors.txt").stat().st_size == length:
                    if time.monotonic() > begun + HANGS_AFTER_S:
                        raise TimeoutError("no successor")
                    time.sleep(0.002)
                waits.append(time.monotonic() - begun)
                serving, killed = successor, killed + 1
            outputs = [each.communicate(timeout=HANGS_AFTER_S)[0] for each in programs]
        wrong += sum(json.loads(output)["wrong"] if output else 1 for output in outputs)
        runs += 4
    os.kill(serving, signal.SIGTERM)
    server.stdout.read()
    server.wait(HANGS_AFTER_S)
    errors.close()
    left = [line for line in Path("/proc/swaps").read_text().splitlines() if "/dev/loop" in line]
    left += [str(path) for path in Path("/run/pagewise").glob("swapd-*")]
    print(
        f"kills: {killed} servers killed, {wrong} wrong values in {runs} runs, takeover "
        f"{median(waits) * 1000:.0f} ms, at most {max(waits) * 1000:.0f} ms; "
        f"left: {left or 'nothing'}"
    )
    return wrong == 0 and not left and max(waits) <= 1


def measure_values(folder: Path, minutes: float, more: Sequence[str]) -> bool:
    """Four threads of one process compare their pages, with a new process every minute; returns
    whether every page was right."""
    program = folder / "values"
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-pthread", "-o", program, VALUES],
        check=True,
        timeout=HANGS_AFTER_S,
    )
    over = time.monotonic() + minutes * 60
    found: list[Compared] = []
    words = ["--fast", "128MiB", "--policy", "adaptive", "--verify", *more]
    with swapd(folder, *words, mib=2 * AREA_MIB):
        while time.monotonic() < over:
            seconds = max(1, min(60, round(over - time.monotonic())))
            numbers = [4 * HELD_MIB, THREADS, seconds, len(found)]
            with group(4 * LIMIT_MIB) as inside:
                process = started(program, inside, *numbers)
                output, _ = process.communicate(timeout=HANGS_AFTER_S)
            if not output:
                print(f"values: the program ended with status {process.returncode}")
                return False
            found.append(json.loads(output))
    wrong, compared, faults = (
        sum(each[name] for each in found) for name in ("wrong", "compared", "faults")
    )
    print(
        f"values: {wrong} wrong of {compared} pages, compared whole by {THREADS} threads of one "
        f"process; {len(found)} processes, {faults} major faults, {minutes:g} minutes"
    )
    return wrong == 0 and faults > 0


def main() -> int:
    """Runs the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", choices=["faults", "idle", "values", "kills", []])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--on-disk", action="store_true")
    parser.add_argument("--compress", choices=["lz4", "zstd"])
    arguments = parser.parse_args()
    more = ON_DISK if arguments.on_disk else []
    more = [*more, "--compress", arguments.compress] if arguments.compress else more
    parts = arguments.parts or ["faults", "idle"]
    # Ended from outside, it still removes what it made.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        folder = Path(name)
        program = folder / "faults"
        subprocess.run(["gcc", "-O2", "-Wall", "-o", program, FAULTS], check=True)
        reached = []
        if "faults" in parts:
            reached.append(measure_faults(folder, program, arguments.rounds))
        if "idle" in parts:
            reached.append(measure_idle(folder))
        if "values" in parts:
            reached.append(measure_values(folder, arguments.minutes, more))
        if "kills" in parts:
            reached.append(measure_kills(folder, program, arguments.kills, more))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
