"""The box at the top: three findings with interval and proof, and settings to paste."""

from __future__ import annotations

from pagewise.report.inputs import Inputs, Result, recording_name
from pagewise.report.model import Finding, Settings, Verdict
from pagewise.units import format_share, format_size


def verdict(inputs: Inputs, shown: set[str]) -> Verdict:
    """What the results say together; ``shown`` are the panels that can serve as evidence."""
    findings = [
        finding
        for finding in (skewed(inputs), single(inputs), choice(inputs, shown))
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
    low, high = format_share(min(shares.values())), format_share(max(shares.values()))
    span = low if low == high else f"{low} to {high}"
    return f"{span} over {len(shares)} recordings, exact counts"


def choice(inputs: Inputs, shown: set[str]) -> Finding | None:
    """What to take, from the advice; without advice the sweep's best at its middle size."""
    evidence = "architectures" if "architectures" in shown else "advice"
    if inputs.advice:
        return advised(inputs.advice[0], evidence)
    return None


def advised(advice: Result, evidence: str) -> Finding:
    """The advised architecture and size, with the range over the latency sweep."""
    name, worth = advice["architecture"]["name"], advice["worth"]
    if worth is None:
        statement = f"No fast tier saves I/O time on {recording_name(advice['trace'])}."
        return Finding("no fast tier", statement, "At every simulated size", evidence)
    share, holds = worth["io_share"], advice["architecture"]["holds_in"]
    regret = worth["next_cheaper"]["regret"]["typical"]
    return Finding(
        f"{name}, {format_size(worth['fast_tier_bytes'])}",
        f"brings the I/O time of {recording_name(advice['trace'])} to "
        f"{format_share(share['typical'])} of the slow device alone; "
        f"the next cheaper choice costs {format_share(regret)} more.",
        f"{format_share(share['low'])} to {format_share(share['high'])} over all latencies; "
        f"best in {holds['combinations']} of {holds['of']} combinations",
        evidence,
    )


def pasted(advice: Result) -> list[Settings]:
    """The settings of an advice, with their undo."""
    worth = advice["worth"]
    interval = ""
    if worth is not None and (saved := worth.get("stock_linux")):
        regret = saved["regret"]
        interval = (
            f"Stock Linux gives {saved['architecture']}, whose I/O time differs by "
            f"{format_share(regret['typical'])} from the advised one's at this size, "
            f"{format_share(regret['low'])} to {format_share(regret['high'])} over the devices' "
            "latencies."
        )
    return [
        Settings(
            setting["title"], f"{setting['note']} {interval}", setting["apply"], setting["undo"]
        )
        for setting in advice["settings"]
    ]
