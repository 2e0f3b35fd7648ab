"""Size, memory limit and algorithm of a zram swap area, from the machine's own pages.

The pool takes a share of each stored page. As it grows, it pushes other pages out of memory. Where
it takes more memory than it leaves, the pages in use no longer fit and swapping feeds itself: the
advice calls that point the collapse, and never makes a device larger. docs/zram.md has the reasons.
"""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from pagewise import _core, questions
from pagewise.advice import evidence as evidences
from pagewise.advice.memory import SHARE_MAX
from pagewise.advice.zram_pages import METADATA_BYTES, Algorithm, Pages, Part, read_pages
from pagewise.advice.zram_settings import settings
from pagewise.errors import UsageError
from pagewise.recording import PathLike, Progress, Trace, read
from pagewise.units import MIB, format_count, format_seconds, format_share, format_size, parse_size

if TYPE_CHECKING:
    from pagewise.types import Loss, ZramCounts
    from pagewise.zram_answer import ZramAdvice, ZramCandidate, ZramEvidence

SCHEMA = "pagewise.advice-zram/1"
PAGES_MIN = 1000
"""Fewest sampled pages for a size."""
ERROR_MAX = 0.05
"""Largest error of the pool's share, as two standard errors relative to it."""
SAMPLED_MIN = 0.25
"""Less anonymous memory, as a share of the board's, may not be that of the programs that matter."""
CARRIED_MIN = 0.05
"""Less says nothing about the programs that matter, and the verdict says so."""
LITTLE_MEMORY = "little memory"
"""The verdict about a sample of programs that hold less than `CARRIED_MIN`. It has settings."""
CPU_ERROR_MAX = 0.3
"""CPU times that differ by no more cannot rank algorithms: docs/zram.md has the errors."""
KERNEL_DEFAULT = "lzo-rle"
DISKSIZE_MAX = 2.0
"""Most bytes of pages for each byte of memory: pages that the sample did not see may compress
less."""
WHILE_THEY_RUN = "while the programs that matter run"
SAMPLE_MORE = (
    f"{WHILE_THEY_RUN}: `pagewise-agent pages --all --bytes 256MiB --cpu 30s --json > pages.json`"
)


def advise_zram(
    pages: str | None = None,
    trace: PathLike | Trace | None = None,
    *,
    memory: str | int | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> ZramAdvice:
    """The advice as a ``pagewise.advice-zram/1`` object: sizes in bytes, CPU time in microseconds.

    ``pages`` is a file of `pagewise-agent pages --json`; without it, root samples this machine.
    ``trace`` is a recording of swap, which is replayed into each device. ``memory`` (``"1GiB"``)
    replaces the memory of the sampled machine.

    Raises UnreadableInput for an invalid file, and UsageError for an impossible request.
    """
    found = read_pages(pages)
    memory_bytes = parse_size(memory) if memory is not None else found.memory_bytes
    if memory_bytes < 16 * MIB:
        raise UsageError("the memory is less than 16 MiB", hint="give a size such as 1GiB")
    candidates = [
        _candidate(found, algorithm, memory_bytes) for algorithm in found.total.algorithms.values()
    ]
    recording = None if trace is None else read(trace)
    nothing: ZramCounts | None = None
    losses: list[Loss] = []
    traffic: ZramEvidence | None = None
    if recording is not None:
        command = _command(pages, memory)
        traffic, losses = _traffic_evidence(recording, command)
        if traffic is None or traffic["verdict"] != evidences.NOT_SWAP:
            nothing = _replayed(found, candidates, recording, seed, progress)
    candidates, equals = _ranked(candidates)
    best = next((each for each in candidates if each["is_in_kernel"] is not False), None)
    evidence = _evidence(found, best, memory_bytes)
    if has_size(evidence) and traffic is not None:
        evidence = traffic
    is_enough = has_size(evidence)
    chosen = best if is_enough and best is not None and best["gain_bytes"] > 0 else None
    anonymous = found.total.anonymous_pages * found.page_bytes
    return {
        "schema": SCHEMA,
        "pagewise": _core.version(),
        "pages": Path(found.source).name,
        "trace": Path(recording.path).name if recording else None,
        "losses": losses,
        "memory_bytes": memory_bytes,
        "anonymous_bytes": anonymous,
        "same_filled_share": found.total.same_share,
        "evidence": evidence,
        "algorithm": chosen["algorithm"] if chosen else None,
        "disksize_bytes": chosen["disksize_bytes"] if chosen else None,
        "limit_bytes": chosen["limit_bytes"] if chosen else None,
        "collapse_bytes": best["collapse_bytes"] if is_enough and best else None,
        "nothing": nothing,
        "candidates": candidates,
        "settings": [each.to_json() for each in settings(chosen, found)] if chosen else [],
        "warnings": _warnings(found, chosen, best, candidates) if is_enough else [],
        "notes": _notes(found, memory_bytes, chosen, equals),
    }


def has_size(evidence: ZramEvidence) -> bool:
    """Whether the advice has a size, perhaps with a caution."""
    return evidence["verdict"] in (evidences.ENOUGH, LITTLE_MEMORY)


def pool_share(part: Part, algorithm: Algorithm, page_bytes: int, errors: float = 0.0) -> float:
    """Memory that a stored page takes, as a share of the page; ``errors`` standard errors more."""
    pool = algorithm.pool_bytes + errors * (algorithm.pool_bytes_error or 0.0)
    return ((1 - part.same_share) * pool + METADATA_BYTES) / page_bytes


def _candidate(found: Pages, algorithm: Algorithm, memory_bytes: int) -> ZramCandidate:
    share = pool_share(found.total, algorithm, found.page_bytes)
    worst = pool_share(found.total, algorithm, found.page_bytes, errors=2)
    collapse = 0 if worst >= 1 else int(SHARE_MAX * memory_bytes / worst)
    disksize = min(collapse, int(DISKSIZE_MAX * memory_bytes)) // MIB * MIB
    limit = min(int(disksize * worst) // MIB + 1, int(SHARE_MAX * memory_bytes) // MIB) * MIB
    gained_kib = (1 - share) * found.page_bytes / 1024
    both_us = (1 - found.total.same_share) * (algorithm.us_compress + algorithm.us_decompress)
    known = found.kernel_algorithms
    return {
        "algorithm": algorithm.name,
        "is_in_kernel": None if known is None else algorithm.name in known,
        "pool_share": share,
        "us_compress": algorithm.us_compress,
        "us_decompress": algorithm.us_decompress,
        "us_per_kib_gained": both_us / gained_kib if gained_kib > 0 else None,
        "collapse_bytes": collapse,
        "disksize_bytes": disksize,
        "limit_bytes": limit if disksize else 0,
        "gain_bytes": max(0, int(disksize * (1 - worst))),
        "replay": None,
        "cpu_s": None,
    }


def _ranked(candidates: list[ZramCandidate]) -> tuple[list[ZramCandidate], list[str]]:
    """The candidates, the best first and those that the kernel lacks last; and the names of those
    among which CPU time did not decide, the first included."""
    ordered: list[ZramCandidate] = []
    rest = sorted(candidates, key=_rank)
    equals: list[str] = []
    while rest:
        alike = [each for each in rest if _is_alike(rest[0], each)]
        ordered += sorted(alike, key=_rank_of_equals)
        rest = [each for each in rest if each not in alike]
        equals = equals or [each["algorithm"] for each in ordered]
    return ordered, equals


def _rank(candidate: ZramCandidate) -> tuple[bool, int, float, str]:
    """The kernel's own, the fewest pages that do not fit, and the least CPU time; without a
    recording, the least CPU time for the memory that is gained."""
    is_missing = candidate["is_in_kernel"] is False
    replay, price = candidate["replay"], candidate["us_per_kib_gained"]
    left, cpu = 0, math.inf if price is None else price
    if replay is not None:
        left, cpu = replay["slow_writes"] + replay["refused"], candidate["cpu_s"] or 0.0
    return (is_missing, left, cpu, candidate["algorithm"])


def _is_alike(best: ZramCandidate, other: ZramCandidate) -> bool:
    """Whether ``other`` ranks as ``best`` does, up to the error of CPU times."""
    *place, least, _ = _rank(best)
    *others, cpu, _ = _rank(other)
    return others == place and cpu <= least * (1 + CPU_ERROR_MAX)


def _rank_of_equals(candidate: ZramCandidate) -> tuple[int, bool, str]:
    """The most memory gained, and then the kernel's default."""
    name = candidate["algorithm"]
    return (-candidate["gain_bytes"], name != KERNEL_DEFAULT, name)


def _distribution(part: Part, algorithm: Algorithm) -> dict[str, object]:
    """The sizes of pages in the pool: compressed sizes, scaled to the mean that classes give."""
    mean = sum(size * share for size, share in algorithm.sizes)
    factor = algorithm.pool_bytes / mean if mean else 1.0
    largest = max((size for size, _ in algorithm.sizes), default=1.0)
    sizes = [(min(size * factor, max(largest, 1.0)), share) for size, share in algorithm.sizes]
    return {"same_filled_share": part.same_share, "pool_bytes": sizes}


def _replayed(
    found: Pages,
    candidates: list[ZramCandidate],
    recording: Trace,
    seed: int,
    progress: Progress | None,
) -> ZramCounts:
    """Adds what each device does with the recorded traffic; returns the traffic without zram."""
    algorithms, devices = [], []
    for number, candidate in enumerate(candidates):
        name = candidate["algorithm"]
        # Several processes have the same name; the largest comes first.
        owners: dict[str, object] = {}
        for part in reversed(found.processes):
            if name in part.algorithms and part.name:
                owners[part.name] = _distribution(part, part.algorithms[name])
        others = _distribution(found.total, found.total.algorithms[name])
        algorithms.append({"owners": owners, "others": others})
        size, limit = candidate["disksize_bytes"], candidate["limit_bytes"]
        devices.append({"disksize_bytes": size, "limit_bytes": limit, "algorithm": number})
    if not algorithms:
        algorithms.append({"owners": {}, "others": {"same_filled_share": 1.0, "pool_bytes": []}})
    devices.append({"disksize_bytes": 0, "limit_bytes": 0, "algorithm": 0})
    request = {"seed": seed, "algorithms": algorithms, "devices": devices}
    counts = _core.simulate_zram(
        *recording.arguments(), request=json.dumps(request), progress=progress
    )
    for candidate, replay in zip(candidates, counts, strict=False):
        candidate["replay"] = replay
        out_us = replay["compressed"] * candidate["us_compress"]
        candidate["cpu_s"] = (out_us + replay["decompressed"] * candidate["us_decompress"]) / 1e6
    return counts[-1]


def _command(pages: str | None, memory: str | int | None) -> str:
    """The command for this advice on a new recording."""
    words = ["pagewise", "advise", "zram", pages or "pages.json", evidences.RECORDING]
    return shlex.join(words if memory is None else [*words, "--memory", str(memory)])


def _traffic_evidence(recording: Trace, command: str) -> tuple[ZramEvidence | None, list[Loss]]:
    """What is wrong with the recording, None if nothing is; and what it lost.

    The remedy ends with ``command``.
    """
    held = recording.info()
    analysis = questions.analyze(recording)
    again, traffic_s = analysis["accesses"] - analysis["pages"], held["traffic_s"]
    verdict, reason, remedy = None, "", evidences.record_swap(command)
    if not held["is_of_swap"]:
        verdict = evidences.NOT_SWAP
        reason = evidences.not_swap_reason(held)
    elif again < evidences.REACCESSES_MIN or (
        traffic_s is not None and traffic_s < evidences.TRAFFIC_MIN_S
    ):
        verdict = "too short"
        needed = format_seconds(evidences.TRAFFIC_MIN_S)
        reason = (
            f"{format_count(again)} re-accesses in the recording; a size needs "
            f"{format_count(evidences.REACCESSES_MIN)} in {needed}"
        )
    if verdict is None:
        return None, analysis["losses"]
    wrong: ZramEvidence = {
        "verdict": verdict,
        "reason": reason,
        "remedy": remedy,
        "pages_sampled": 0,
        "pool_share_error": None,
    }
    return wrong, analysis["losses"]


def _evidence(found: Pages, best: ZramCandidate | None, memory_bytes: int) -> ZramEvidence:
    sampled = found.total.sampled
    carried = found.total.anonymous_pages * found.page_bytes / memory_bytes
    error = None
    if best is not None:
        algorithm = found.total.algorithms[best["algorithm"]]
        if algorithm.pool_bytes_error is not None:
            error = 2 * algorithm.pool_bytes_error / algorithm.pool_bytes
    verdict, remedy = evidences.ENOUGH, None
    reason = f"{format_count(sampled)} pages sampled"
    if error is not None:
        reason += f", the pool to within {100 * error:.1f} % (two standard errors)"
    if sampled < PAGES_MIN:
        verdict, remedy = "too few pages", f"sample {SAMPLE_MORE}"
        reason = f"{format_count(sampled)} pages sampled; a size needs {format_count(PAGES_MIN)}"
    elif best is None or error is None or error > ERROR_MAX:
        verdict, remedy = "unsure", f"sample more pages {SAMPLE_MORE}"
        reason += f"; a size needs at most {100 * ERROR_MAX:.0f} %"
    elif carried < CARRIED_MIN:
        verdict = LITTLE_MEMORY
        reason = (
            f"the sampled programs hold {format_share(carried)} of memory, so other pages may "
            "compress differently"
        )
        remedy = f"sample {WHILE_THEY_RUN}: `pagewise-agent pages --all --json > pages.json`"
    return {
        "verdict": verdict,
        "reason": reason,
        "remedy": remedy,
        "pages_sampled": sampled,
        "pool_share_error": error,
    }


def _warnings(
    found: Pages,
    chosen: ZramCandidate | None,
    best: ZramCandidate | None,
    candidates: list[ZramCandidate],
) -> list[str]:
    warnings = []
    if chosen is None and best is not None:
        warnings.append(
            f"zram gains nothing here: a stored page takes {format_share(best['pool_share'])} of "
            "its size, so the pages compress too little"
        )
    if chosen and (replay := chosen["replay"]):
        left = replay["slow_writes"] + replay["refused"]
        if left:
            warnings.append(
                f"{format_count(left)} page-outs of the recording do not fit a device of "
                f"{format_size(chosen['disksize_bytes'])}: they need a swap area behind it"
            )
    elsewhere = [each["algorithm"] for each in candidates if each["is_in_kernel"] is False]
    if chosen and elsewhere and found.kernel_algorithms is not None:
        warnings.append(f"the kernel's zram does not have {', '.join(elsewhere)}")
    return warnings


def _of_swapped(found: Pages, chosen: ZramCandidate | None) -> str:
    """How pages that go to swap may compress unlike the sampled ones."""
    taken = (
        "pages that go to swap are taken to compress as the sampled ones do, which were in memory"
    )
    idle = found.idle
    if idle is None or chosen is None or chosen["algorithm"] not in idle.pool_bytes:
        return taken
    pool = (1 - idle.same_share) * idle.pool_bytes[chosen["algorithm"]]
    return (
        f"{taken}; the kernel swaps out idle ones first: {format_share(idle.share)} were not "
        f"accessed for {format_seconds(idle.seconds)}, and these take "
        f"{format_share((pool + METADATA_BYTES) / found.page_bytes)} of their size in zram"
    )


def _notes(
    found: Pages, memory_bytes: int, chosen: ZramCandidate | None, equals: list[str]
) -> list[str]:
    half = format_size(SHARE_MAX * memory_bytes)
    notes = [
        f"the pool takes at most half of the memory ({half}): an assumption; beyond it, it takes "
        "more memory than it leaves",
        _of_swapped(found, chosen),
    ]
    if chosen and len(equals) > 1:
        notes.append(
            f"CPU times within {100 * CPU_ERROR_MAX:.0f} % of the least count as equal, since they "
            f"may be off by as much: between {', '.join(equals[:-1])} and {equals[-1]}, the memory "
            "gained decides"
        )
    anonymous = found.total.anonymous_pages * found.page_bytes
    if chosen and CARRIED_MIN <= anonymous / memory_bytes < SAMPLED_MIN:
        notes.append(
            f"the sampled programs hold {format_size(anonymous)}, "
            f"{format_share(anonymous / memory_bytes)} of the memory: sample while the programs "
            "that matter run, since other pages may compress differently"
        )
    if chosen:
        # The kernel's table is no part of TOTAL, and since Linux 6.12 pages of zeros none of DATA.
        pool = format_share(
            found.total.algorithms[chosen["algorithm"]].pool_bytes / found.page_bytes
        )
        notes.append(
            f"to check: once some 100 MiB are in zram, TOTAL of `zramctl` should be near {pool} of "
            "DATA, less pages of equal words (the sixth number of mm_stat)"
        )
    if found.has_writeback:
        notes.append(
            "the kernel's zram can write pages to a disk: `pagewise-agent swapd --through zram` "
            "chooses which"
        )
    return notes
