"""One paper experiment or question each: inputs to tables. `STUDIES` is the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Study:
    """A row of the catalog: the module of its name has the function ``study``."""

    name: str
    summary: str
    of_runs: bool = False
    simulates: bool = False

    @property
    def run(self) -> Callable[..., dict[str, Any]]:
        """Loads the study, which the help need not.

        A study of recordings: ``run(recordings, output, seeds=, progress=)`` gives the result, from
        the folder with the recordings. A study of launch runs (``of_runs``): ``run(folders, output,
        seed=, progress=)``, from the folders of the runs, or the recordings of allocations.
        """
        module = import_module(f"{__name__}.{self.name.replace('-', '_')}")
        study: Callable[..., dict[str, Any]] = module.study
        return study

    @property
    def simulate(self) -> Callable[..., dict[str, Any]]:
        """Loads the simulated form, where there is one (``simulates``), called as a study of
        recordings is."""
        module = import_module(f"{__name__}.{self.name.replace('-', '_')}_simulated")
        simulated: Callable[..., dict[str, Any]] = module.simulated
        return simulated


STUDIES = (
    Study("multiswap", "S1 Figs. 2-4: hierarchical against hybrid swap"),
    Study("nvm-cache", "S0 Figs. 1 and 5: swap on against off, and an NVM cache"),
    Study("page-size", "S4: a page size for each virtual machine"),
    Study("thrash", "S0 Figs. 1-3 on launch runs of real programs", of_runs=True),
    Study("predict", "pages of a launch predicted from the launch before", of_runs=True),
    Study(
        "launch",
        "S2 Fig. 1: what a launch in short memory waits for; with --simulated also S0 Figs. 1-3, "
        "5 and S1 Fig. 5",
        of_runs=True,
        simulates=True,
    ),
    Study(
        "lazy-unmap", "S3: freed memory that stays mapped, on recorded allocations", of_runs=True
    ),
    Study("kill-anatomy", "S2: what a kill is made of, on real kills", of_runs=True),
)
