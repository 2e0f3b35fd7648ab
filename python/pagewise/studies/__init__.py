"""One paper experiment each: inputs to tables. `STUDIES` is the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pagewise.studies import multiswap, nvm_cache


@dataclass(frozen=True)
class Study:
    """A row of the catalog: ``run(recordings, output, seeds=, progress=)`` gives the result."""

    name: str
    summary: str
    run: Callable[..., dict[str, Any]]


STUDIES = (
    Study(multiswap.NAME, "S1 Figs. 2-4: hierarchical against hybrid swap", multiswap.study),
    Study(
        nvm_cache.NAME, "S0 Figs. 1 and 5: swap on against off, and an NVM cache", nvm_cache.study
    ),
)
