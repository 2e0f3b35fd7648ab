"""Launch plans of tests/vm/hold.c, for guests."""

from __future__ import annotations

import json

APPLICATION = """
[applications.{name}]
command = ["hold", "{mib}"]
interface = "line"
ready = "ready"
request = "visit {{round}}"
answer = "done"
"""


def plan(mode: str, order: list[str], mib: int = 40, budget: str = "48MiB", more: str = "") -> str:
    """A plan of applications of which only one fits into the budget."""
    text = f"""name = "guest"
order = {json.dumps(order)}
mode = "{mode}"
budget = "{budget}"
swap_size = "128MiB"
zram_size = "64MiB"
{more}"""
    return text + "".join(APPLICATION.format(name=name, mib=mib) for name in sorted(set(order)))


# relaunchd learns from the first warm visit, and predicts from the second on.
TIERS = plan(
    "tiers",
    ["first", "second"] * 3,
    more='prefetch = true\ntiers = { policy = "adaptive", fast = "8MiB", through = "fuse" }\n',
)
