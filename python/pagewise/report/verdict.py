"""The box at the top: three findings with interval and proof, and settings to paste."""

from __future__ import annotations

from pagewise.report.inputs import Inputs, Result
from pagewise.report.model import Finding, Settings, Verdict
from pagewise.units import format_share


def verdict(inputs: Inputs, shown: set[str]) -> Verdict:
    """What the results say together; ``shown`` are the panels that can serve as evidence."""
    findings = [
        finding
        for finding in (skewed(inputs), single(inputs), choice(inputs))
        if finding and finding.evidence in shown
    ]
    return Verdict(findings, [settings for advice in inputs.advice for settings in pasted(advice)])


def skewed(inputs: Inputs) -> Finding | None:
    """How much the busiest tenth of pages takes."""
    shares = {name: analysis["top_share"]["0.1"] for name, analysis in inputs.analyses.items()}
    if not shares:
        return None
    name, share = max(shares.items(), key=lambda pair: inputs.analyses[pair[0]]["accesses"])
    return Finding(
        format_share(share),
        f"of accesses go to the busiest tenth of pages on {name}.",
        interval(shares),
        "skew",
    )


def single(inputs: Inputs) -> Finding | None:
    """How much is used only once."""
    shares = {
        name: analysis["single_access"]["pages"] for name, analysis in inputs.analyses.items()
    }
    if not shares:
        return None
    name, share = max(shares.items(), key=lambda pair: inputs.analyses[pair[0]]["accesses"])
    return Finding(
        format_share(share),
        f"of pages are accessed exactly once on {name}: keeping them in a fast tier is wasted.",
        interval(shares),
        "skew",
    )


def interval(shares: dict[str, float]) -> str:
    """The range over the recordings, or that there is none."""
    if len(shares) == 1:
        return "Exact count of one recording"
    low, high = min(shares.values()), max(shares.values())
    return (
        f"{format_share(low)} to {format_share(high)} over {len(shares)} recordings, exact counts"
    )


def choice(inputs: Inputs) -> Finding | None:
    """What to take, from the advice; without advice the sweep's best at its middle size."""
    for advice in inputs.advice:
        return advised(advice)
    return None


def advised(advice: Result) -> Finding:
    """The advised architecture and size, with the range over the latency sweep."""
    best = advice["recommendation"]
    return Finding(best["architecture"], best["statement"], best["interval"], "architectures")


def pasted(advice: Result) -> list[Settings]:
    """The settings of an advice, with their undo."""
    return [
        Settings(setting["title"], setting["apply"], setting["undo"], setting.get("interval", ""))
        for setting in advice.get("settings", [])
    ]
