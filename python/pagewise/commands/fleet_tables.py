"""The tables of a folder of recordings: spread of figures, outliers, groups, every recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

from pagewise.fleet import Fleet, FleetTrace, Spread, outlying, why_none_unlike
from pagewise.fleet_figures import best_policies, in_words, telling, written
from pagewise.groups import FleetGroup
from pagewise.terminal import Lines, Part, facts, figures
from pagewise.units import format_count, format_counted, format_seconds

OUTLYING_SHOWN = 10
"""How many recordings that are unlike the others get a line each."""
FIGURES_SHOWN = 3
"""How many figures such a line has."""
FIGURES_OF_GROUPS = 10
"""How many figures of groups are shown, those that differ most first."""
EVERY_MAX = 12
"""The most recordings of which each has a row; --json and the report have all of more."""
UNKNOWN = "unknown"
"""What stands for a figure that a recording does not have."""
HEADING_WIDTH = 14
"""The width at which headings of figures are wrapped."""


def lines(result: Fleet) -> list[Part]:
    """A table of the figures, and the recordings that are unlike the others: those of their group
    if there are groups, which then come first."""
    is_compared = why_none_unlike(result) is None
    rows = [
        [
            in_words(name),
            *(written(name, value) for value in values(spread)),
            *([outliers_of(name, spread)] if is_compared else []),
        ]
        for name, spread in result["figures"].items()
    ]
    titles = ["figure", "min", "10 %", "median", "90 %", "max"]
    titles += ["outliers"] if is_compared else []
    parts: list[Part] = [headline(result), "", figures(titles, rows, words=1), *best(result)]
    compared = [*unlike(result), *alike(result)]
    if has_groups(result):
        compared = [*alike(result), *unlike(result)]
    return [*parts, *compared, *every(result)]


def outliers_of(name: str, spread: Spread) -> str:
    """The number of outliers by a figure; empty for those of samples, which are not compared."""
    return "" if name.startswith("sample.") else format_count(spread["outliers_count"])


def has_groups(result: Fleet) -> bool:
    """Whether groups of recordings were found."""
    groups = result.get("groups")
    return groups is not None and bool(groups["found"])


def unlike(result: Fleet) -> list[Part]:
    """The recordings that are unlike the others, if there are any."""
    found = outlying(result["recordings"])
    if not found:
        return []
    words = f"{format_count(len(found))} unlike the others"
    words += " of their group" if has_groups(result) else ""
    shown = f"{words}, the farthest first:"
    if len(found) > OUTLYING_SHOWN:
        shown = f"{words}; the farthest {OUTLYING_SHOWN} (--json has all):"
    return ["", shown, facts([differing(each) for each in found[:OUTLYING_SHOWN]])]


def alike(result: Fleet) -> list[Part]:
    """Groups of recordings that are alike, with the figures that set them apart; or why there are
    none, if recordings were compared."""
    groups = result.get("groups")
    if not groups or groups["apart"] is None:
        return []
    if not groups["found"]:
        return ["", f"No groups of recordings that are alike: {groups['why']}."]
    found = groups["found"]
    names = telling([each["medians"] for each in found])
    shown = names[:FIGURES_OF_GROUPS]
    rows = [["recordings", *(format_count(each["traces"]) for each in found)]]
    rows += [[in_words(name), *(median_of(each, name) for each in found)] for name in shown]
    title = f"{len(found)} groups of recordings that are alike ({groups['why']}), by median:"
    if len(shown) < len(names):
        title = f"{title[:-1]}; {format_counted(len(names) - len(shown), 'more figure')} in --json:"
    titles = ["figure", *(f"group {number}" for number in range(1, len(found) + 1))]
    typical = [(f"typical of group {at}", each["typical"]) for at, each in enumerate(found, 1)]
    return ["", title, figures(titles, rows), facts(typical)]


def median_of(group: FleetGroup, name: str) -> str:
    """The median of a figure in a group."""
    value = group["medians"].get(name)
    return UNKNOWN if value is None else written(name, value)


def every(result: Fleet) -> list[Part]:
    """A row for each recording, if there are few."""
    recordings = result["recordings"]
    if not 1 < len(recordings) <= EVERY_MAX:
        return []
    names = list(result["figures"])
    rows = [
        [
            each["trace"],
            *(
                written(name, each["figures"][name]) if name in each["figures"] else UNKNOWN
                for name in names
            ),
        ]
        for each in recordings
    ]
    headings = [Lines("\n".join(wrap(in_words(name), HEADING_WIDTH))) for name in names]
    return ["", figures(["recording", *headings], rows)]


def best(result: Fleet) -> list[Part]:
    """In how many recordings each policy misses least; nothing for fewer than two policies."""
    counts = best_policies([each["figures"] for each in result["recordings"]])
    policies = list(dict.fromkeys(policy for row in counts.values() for policy in row))
    if len(policies) < 2:
        return []
    rows = [
        [frames, *(format_count(row.get(policy, 0)) for policy in policies)]
        for frames, row in counts.items()
    ]
    title = "recordings in which a policy misses least; equal policies count each:"
    return ["", title, figures(["frames", *policies], rows)]


def headline(result: Fleet) -> str:
    """How many recordings there are, and how much they hold."""
    text = format_counted(result["traces"], "recording")
    if left_out := len(result["unreadable"]):
        text += f", {format_counted(left_out, 'file')} left out"
    held = [each["figures"] for each in result["recordings"]]
    if events := total(held, "events"):
        text += f"; together {format_count(round(events))} events"
        if seconds := total(held, "duration_s"):
            text += f" and {format_seconds(seconds)}"
    return text


def total(held: Sequence[Mapping[str, float]], name: str) -> float:
    """The sum of a figure over the recordings that have it."""
    return sum(each.get(name, 0) for each in held)


def values(spread: Spread) -> tuple[float, ...]:
    """The values of a row of the table."""
    return spread["min"], spread["p10"], spread["median"], spread["p90"], spread["max"]


def differing(recording: FleetTrace) -> tuple[str, str]:
    """A recording, its group, and the figures by which it is unlike the others, the farthest
    first."""
    scores = recording["outlying"]
    names = sorted(scores, key=lambda name: -abs(scores[name]))
    words = [f"{in_words(name)} {written(name, recording['figures'][name])}" for name in names]
    more = f"; {len(words) - FIGURES_SHOWN} more" if len(words) > FIGURES_SHOWN else ""
    number = recording.get("group")
    group = "" if number is None else f"group {number}: "
    return recording["trace"], group + "; ".join(words[:FIGURES_SHOWN]) + more
