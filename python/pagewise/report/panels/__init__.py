"""The catalog of panels, in the order of the page: one module and one row each.

A panel is a function of the inputs. It returns a Panel, or None if the inputs have no data for it.
"""

from __future__ import annotations

from collections.abc import Callable

from pagewise.report.inputs import Inputs
from pagewise.report.model import Panel
from pagewise.report.panels import (
    access_map,
    advice,
    architectures,
    data_quality,
    fleet,
    kill_replay,
    kills,
    launch,
    lazy_bench,
    lazy_unmap,
    method,
    page_size,
    papers,
    pareto,
    relaunch,
    reuse,
    skew,
    swap_traffic,
    system_trace,
    tiers,
    traffic,
)

PANELS: list[Callable[[Inputs], Panel | None]] = [
    data_quality.panel,
    fleet.panel,
    traffic.panel,
    skew.panel,
    reuse.panel,
    swap_traffic.panel,
    architectures.panel,
    pareto.panel,
    advice.panel,
    page_size.panel,
    access_map.panel,
    lazy_bench.panel,
    lazy_unmap.panel,
    kill_replay.panel,
    system_trace.panel,
    kills.panel,
    launch.panel,
    tiers.panel,
    relaunch.panel,
    papers.panel,
    method.panel,
]
