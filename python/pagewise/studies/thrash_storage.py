"""What the recording of a run says about its storage: swap accesses and all block I/O, apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pagewise import questions
from pagewise.recording import Progress
from pagewise.studies.launch_runs import LaunchRun

Accesses = Literal["swap", "all storage"]
MAPPINGS: Mapping[Accesses, str] = {"swap": "swap", "all storage": "block"}


@dataclass(frozen=True)
class Storage:
    """The analyses of one run (docs/analyses.md), by what is counted; those recorded."""

    analyses: Mapping[Accesses, Mapping[str, Any]]

    def top_10(self, accesses: Accesses) -> float | None:
        """The share of accesses that fall on the busiest 10 % of pages."""
        return self.analyses[accesses]["top_share"]["0.1"] if accesses in self.analyses else None

    def pages_for_80(self, accesses: Accesses) -> float | None:
        """The smallest share of pages that takes 80 % of accesses."""
        return (
            self.analyses[accesses]["pages_for_80_percent"] if accesses in self.analyses else None
        )


def storage_of(
    runs: Sequence[LaunchRun], output: Path, progress: Progress | None
) -> dict[str, Storage]:
    """What each run's recording says, by the name of the run."""
    return {run.name: _storage(run, output, progress) for run in runs}


def _storage(run: LaunchRun, output: Path, progress: Progress | None) -> Storage:
    analyses: dict[Accesses, Mapping[str, Any]] = {}
    for accesses, mapping in MAPPINGS.items():
        trace = run.recording(output, mapping)
        if trace is None:
            continue
        analysis = questions.analyze(trace, progress=progress)
        if analysis["accesses"]:
            analyses[accesses] = analysis
    return Storage(analyses)
