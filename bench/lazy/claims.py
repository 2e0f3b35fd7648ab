"""The required results, and whether they are reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lazy.allocators import ALLOCATORS, FIXED, GLIBC, HUGE
from lazy.parts.exchange import PROGRAMS as EXCHANGES
from lazy.parts.small import STEPS as SMALL
from lazy.summary import Measure, Spread, Summary, field, of_swipes

CPU, TRAPS, IDLE = field("cpu_s"), field("traps"), field("idle_bytes")
PEAK, STEPS_PER_S = field("peak_bytes"), field("steps_per_s")
MODES = ("fast", "guarded", "thp")
SWIPE_TRAPS = of_swipes(lambda swipe: swipe["traps"])
RESPONSE = of_swipes(lambda swipe: swipe["response_s"])
FAULT_SHARE = of_swipes(lambda swipe: swipe["fault_s"] / swipe["response_s"])
CALL_SHARE = of_swipes(lambda swipe: swipe["call_s"] / swipe["response_s"])
WEBKIT = ("swipe", "WebKitGTK")
MIMALLOCS = ("mimalloc 2.0", "mimalloc 3.4")
PAPER_FAULTS, PAPER_RESPONSE = 0.54, 0.94


@dataclass(frozen=True)
class Claim:
    """A figure with its target; ``is_reached`` is None if nothing was measured."""

    what: str
    target: str
    measured: str
    is_reached: bool | None


def claims(summary: Summary) -> list[Claim]:
    """All claims, in the order of the table."""
    return [
        *swipes(summary),
        *churn(summary),
        *exchange(summary),
        *small(summary),
        *idle(summary),
        *pressure(summary),
        *forks(summary),
    ]


def swipes(summary: Summary) -> Iterator[Claim]:
    """Traps with the browser profile, and the effect of only the anonymous pool."""
    for ours in ("browser", "browser thp"):
        for theirs, most in ((GLIBC, 0.10), (FIXED, 0.04), ("jemalloc", 0.04), ("scudo", 0.04)):
            yield at_most(summary, WEBKIT, "traps a swipe", ours, theirs, SWIPE_TRAPS, most)
    yield at_most(
        summary, WEBKIT, "traps a swipe (the paper)", "fast", FIXED, SWIPE_TRAPS, PAPER_FAULTS
    )
    yield at_most(
        summary, WEBKIT, "response time (the paper)", "fast", FIXED, RESPONSE, PAPER_RESPONSE
    )
    yield identity(summary)


def identity(summary: Summary) -> Claim:
    """The paper's bound: a program saves at most the time of the faults that it saves.

    The bound ignores the saved mapping calls, so their share is printed beside it.
    """
    traps = summary.ratio(*WEBKIT, "fast", FIXED, SWIPE_TRAPS)
    response = summary.ratio(*WEBKIT, "fast", FIXED, RESPONSE)
    fault_share = summary.spread(*WEBKIT, FIXED, FAULT_SHARE)
    call_share = summary.spread(*WEBKIT, FIXED, CALL_SHARE)
    what = "WebKitGTK: response time saved (the paper's bound), fast over glibc fixed"
    if not (traps and response and fault_share and call_share):
        return Claim(what, "the paper's bound", "not measured", None)
    by_faults = (1 - traps.typical) * fault_share.typical
    saved = Spread(1 - response.high, 1 - response.typical, 1 - response.low)
    return Claim(
        what,
        f"interval reaches down to {by_faults:.1%} "
        f"(mapping calls take another {call_share.typical:.1%})",
        f"**{saved.typical:.1%}** ({saved.low:.1%} to {saved.high:.1%})",
        saved.low <= by_faults,
    )


def churn(summary: Summary) -> Iterator[Claim]:
    """CPU time and traps of large blocks."""
    for ours in ("fast", "thp"):
        for theirs, most in ((GLIBC, 0.5), (FIXED, 0.2), ("scudo", 0.2)):
            yield at_most(summary, ("churn", "malloc"), "CPU", ours, theirs, CPU, most)
        yield at_most(summary, ("churn", "calloc"), "CPU", ours, "jemalloc", CPU, 0.27)
        for program in ("malloc", "calloc"):
            for theirs in (*MIMALLOCS, "tcmalloc"):
                yield at_most(summary, ("churn", program), "CPU", ours, theirs, CPU, 1.0)
    yield at_most(summary, ("churn", "malloc"), "CPU", "guarded", GLIBC, CPU, 0.75)
    for program in ("malloc", "calloc"):
        yield nearest(summary, program)


def exchange(summary: Summary) -> Iterator[Claim]:
    """Blocks that other threads free: peak memory and throughput."""
    for ours in MODES:
        for program in EXCHANGES:
            where = ("exchange", program)
            yield at_most(summary, where, "peak memory", ours, GLIBC, PEAK, 2.0)
            yield at_least(summary, where, "steps a second", ours, GLIBC, STEPS_PER_S, 0.8)
            yield at_most(summary, where, "CPU", ours, GLIBC, CPU, 1.25)


def small(summary: Summary) -> Iterator[Claim]:
    """Blocks that go to glibc cost the same as without the library."""
    for ours in MODES:
        for program in SMALL:
            yield at_most(summary, ("small", program), "CPU", ours, GLIBC, CPU, 1.05)


def nearest(summary: Summary, program: str) -> Claim:
    """Traps with huge pages, beside the peer without them that has fewest."""
    ratios = {
        theirs: ratio
        for theirs in small_page_peers(summary)
        if (ratio := summary.ratio("churn", program, "thp", theirs, TRAPS))
    }
    what = f"churn {program}: traps, thp over every peer without huge pages"
    if not ratios:
        return Claim(what, "at most 0.02x", "not measured", None)
    theirs, worst = max(ratios.items(), key=lambda pair: pair[1].typical)
    measured = f"{shown(worst)} ({theirs}, the worst of {len(ratios)})"
    return Claim(what, "at most 0.02x", measured, worst.typical <= 0.02)


def small_page_peers(summary: Summary) -> list[str]:
    """Peers whose memory held no huge page when it was sampled."""
    return [
        name
        for name, row in ALLOCATORS.items()
        if not row.is_ours
        and name not in HUGE
        and not any(summary.values("churn", "malloc", name, field("huge_bytes")))
    ]


def idle(summary: Summary) -> Iterator[Claim]:
    """Resident memory some seconds after the work."""
    for where in (("churn", "malloc"), ("churn", "calloc"), ("numpy", "numpy"), WEBKIT):
        yield at_most(summary, where, "idle resident memory", "fast", GLIBC, IDLE, 1.1)
    for theirs in (*MIMALLOCS, "tcmalloc", "glibc tuned"):
        yield at_most(
            summary, ("churn", "malloc"), "idle resident memory", "fast", theirs, IDLE, 0.4
        )


def pressure(summary: Summary) -> Iterator[Claim]:
    """The runs that survive the burst, and its cost."""
    where = ("pressure", "pressure")
    for ours in ("fast", "guarded", "faithful"):
        runs = summary.figures(*where, ours)
        alive = sum(run["has_survived"] and run["is_cleared"] for run in runs)
        yield Claim(
            f"pressure: runs survived, {ours}",
            "100 of 100",
            f"**{alive} of {len(runs)}**" if runs else "not measured",
            alive == len(runs) if runs else None,
        )
    for ours in ("fast", "guarded", "faithful"):
        yield at_most(summary, where, "time of the burst", ours, GLIBC, field("burst_s"), 1.05)


def forks(summary: Summary) -> Iterator[Claim]:
    """CPU time of the parent's next block."""
    where = ("forks", "forks")
    for ours in ("fast", "guarded"):
        yield at_most(summary, where, "CPU of the next block", ours, GLIBC, field("shared_s"), 1.2)


def at_most(
    summary: Summary,
    where: Sequence[str],
    what: str,
    ours: str,
    theirs: str,
    measure: Measure,
    most: float,
) -> Claim:
    """Ours over theirs, by medians over measurements in turn."""
    part, program = where
    ratio = summary.ratio(part, program, ours, theirs, measure)
    name = program if program in (part, "WebKitGTK") else f"{part} {program}"
    return Claim(
        f"{name}: {what}, {ours} over {theirs}",
        f"at most {most:g}x",
        shown(ratio) if ratio else "not measured",
        ratio.typical <= most if ratio else None,
    )


def at_least(
    summary: Summary,
    where: Sequence[str],
    what: str,
    ours: str,
    theirs: str,
    measure: Measure,
    least: float,
) -> Claim:
    """`at_most` for a figure of which more is better."""
    claim = at_most(summary, where, what, ours, theirs, measure, least)
    ratio = summary.ratio(*where, ours, theirs, measure)
    return replace(
        claim,
        target=f"at least {least:g}x",
        is_reached=ratio.typical >= least if ratio else None,
    )


def shown(ratio: Spread) -> str:
    return f"**{ratio.typical:.3g}x** ({ratio.low:.3g} to {ratio.high:.3g})"
