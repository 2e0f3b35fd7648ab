"""One paper experiment or question each: inputs to tables. `STUDIES` is the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pagewise.studies import multiswap, nvm_cache, page_size, predict, thrash


@dataclass(frozen=True)
class Study:
    """A row of the catalog.

    A study of recordings: ``run(recordings, output, seeds=, progress=)`` gives the result, from the
    folder with the recordings. A study of launch runs (``of_runs``): ``run(folders, output, seed=,
    progress=)``, from the folders of the runs.
    """

    name: str
    summary: str
    run: Callable[..., dict[str, Any]]
    of_runs: bool = False


STUDIES = (
    Study(multiswap.NAME, "S1 Figs. 2-4: hierarchical against hybrid swap", multiswap.study),
    Study(
        nvm_cache.NAME, "S0 Figs. 1 and 5: swap on against off, and an NVM cache", nvm_cache.study
    ),
    Study(page_size.NAME, "S4: a page size for each virtual machine", page_size.study),
    Study(thrash.NAME, "S0 Figs. 1-3 on launch runs of real programs", thrash.study, of_runs=True),
    Study(
        predict.NAME, "pages of a launch foretold by the launch before", predict.study, of_runs=True
    ),
)
