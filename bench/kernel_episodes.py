"""Counts the processes killed in random episodes of memory pressure, with the pool on and off.

    python bench/kernel_episodes.py --pairs 100 [--seed 1] [--memory-mib 128] [--json FILE]

An episode (tests/vm/pressure_episodes.c) is one boot of a guest of the kernel in build/kernel, so
that no episode starts where another ended. A pair is the same seed with the pool on, without a
limit of its size, and off; every other pair starts with off. The guest's clock counts instructions,
so the load of the host changes nothing.

Prints the kills of each pair, and for all: the sums; a sign test of the pairs that differ; and the
mean difference (on - off) with an interval of 95 % by bootstrap of pairs. If no pool gave a page
back under pressure, the pairs are not measurable.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path
from statistics import mean

import kernel_guests
from kernel_guests import KERNEL

BOOT_S = 900
RESAMPLES = 20_000
SCRIPT = """
echo 0 >/proc/sys/vm/lazy_unmap_max_kbytes
pressure_episodes {pool} 1 {seed} >/result/episode || exit 3
cp /proc/vmstat /result/vmstat
"""


@dataclass(frozen=True)
class Episode:
    """What one boot counted."""

    killed: int
    oom_kills: int
    kept: int
    reclaimed: int
    held_at_oom: int


def episode(
    machine: kernel_guests.Machine, program: tuple[str, Path], pool: str, seed: int
) -> Episode:
    lines = SCRIPT.format(pool=pool, seed=seed)
    ran = kernel_guests.boot(machine, lines, dict([program]), BOOT_S)
    if ran.status != 0 or ran.complaints():
        raise SystemExit(f"seed {seed}, pool {pool}: status {ran.status}: {ran.console[-2000:]}")
    counted = ran.counters("vmstat")
    fields = dict(word.split("=") for word in ran.files["episode"].split())
    return Episode(
        int(fields["killed"]),
        counted["oom_kill"],
        counted["lazy_unmap_pages_kept"],
        counted["lazy_unmap_pages_reclaimed"],
        counted["lazy_unmap_pages_held_at_oom"],
    )


def sign_test(differences: Sequence[int]) -> float:
    """Two-sided probability of a split at least as uneven, if either sign is as likely."""
    more = sum(each > 0 for each in differences)
    less = sum(each < 0 for each in differences)
    both = more + less
    tail = sum(comb(both, each) for each in range(max(more, less), both + 1))
    return min(1.0, 2 * tail / 2**both)


def interval(differences: Sequence[int], seed: int = 1) -> tuple[float, float]:
    """95 % of the means of resampled pairs."""
    drawn = random.Random(seed)
    means = sorted(mean(drawn.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return means[RESAMPLES * 25 // 1000], means[RESAMPLES * 975 // 1000 - 1]


def summary(pairs: Sequence[tuple[Episode, Episode]]) -> str:
    """What the pairs show; each is the episode with the pool on, and off."""
    differences = [on.oom_kills - off.oom_kills for on, off in pairs]
    more, less = sum(each > 0 for each in differences), sum(each < 0 for each in differences)
    low, high = interval(differences)
    exercised = sum(on.kept > 0 for on, _ in pairs)
    reclaimed = sum(on.reclaimed > 0 for on, _ in pairs)
    lines = [
        f"pairs: {len(pairs)}; a pool kept pages in {exercised}, and gave some back in {reclaimed}",
        f"kills: on {sum(on.oom_kills for on, _ in pairs)}, "
        f"off {sum(off.oom_kills for _, off in pairs)}",
        f"pairs with kills: on {sum(on.oom_kills > 0 for on, _ in pairs)}, "
        f"off {sum(off.oom_kills > 0 for _, off in pairs)}",
        f"more with the pool in {more} pairs, less in {less}: "
        f"sign test p = {sign_test(differences):.3f}",
        f"mean difference: {mean(differences):+.3f} kills an episode "
        f"(95 %: {low:+.3f} to {high:+.3f})",
        f"pages in pools at an OOM kill: {sum(on.held_at_oom for on, _ in pairs)}",
    ]
    if not reclaimed:
        lines.append("not measurable: no pool gave a page back under pressure")
    return "\n".join(lines)


def as_json(memory_mib: int, seed: int, pairs: Sequence[tuple[Episode, Episode]]) -> str:
    """The counts of each pair, a pair in a line."""
    rows = [
        json.dumps({"seed": seed + at, "on": asdict(on), "off": asdict(off)})
        for at, (on, off) in enumerate(pairs)
    ]
    lines = ",\n  ".join(rows)
    return f'{{"memory_bytes": {memory_mib << 20}, "pairs": [\n  {lines}\n]}}\n'


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills under pressure, with the pool on and off.")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first pair")
    parser.add_argument("--memory-mib", type=int, default=128)
    parser.add_argument("--jobs", type=int, default=2, help="guests at once")
    parser.add_argument("--kernel", type=Path, default=KERNEL)
    parser.add_argument("--json", type=Path, help="a file for the counts of each pair")
    given = parser.parse_args()
    machine = kernel_guests.machine(
        given.kernel,
        kernel_arguments="psi=1 transparent_hugepage=never",
        processors=1,
        memory_mib=given.memory_mib,
        has_counted_clock=True,
    )
    program = kernel_guests.static("pressure_episodes", "tests/vm/pressure_episodes.c")

    def pair(number: int) -> tuple[Episode, Episode]:
        order = ("on", "off") if number % 2 else ("off", "on")
        found = {pool: episode(machine, program, pool, given.seed + number) for pool in order}
        return found["on"], found["off"]

    pairs = []
    with ThreadPoolExecutor(given.jobs) as guests:
        for number, (on, off) in enumerate(guests.map(pair, range(given.pairs))):
            print(f"seed {given.seed + number}: on {on}, off {off}", flush=True)
            pairs.append((on, off))
            if given.json:
                given.json.write_text(as_json(given.memory_mib, given.seed, pairs))
    print(summary(pairs))


if __name__ == "__main__":
    main()
