"""The JSON Schemas of results, which tools/schemas.py writes from their definitions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TypedDict

from pagewise.answers import (
    Advice,
    AdvicePageSizeResult,
    CurvesResult,
    PageSize,
    PageSizeTrial,
    ReportResult,
)
from pagewise.comparisons import BenchLazy, StudyResult, SweepResult, SweepTable
from pagewise.errors import UsageError
from pagewise.fleet import Fleet
from pagewise.installed import Versions
from pagewise.measurements import Applied, CaptureResult, CheckResult, GuestTrial, Probed
from pagewise.system_traces import LaunchesCompared
from pagewise.zram_answer import ZramAdvice

Schema = TypedDict(
    "Schema",
    {
        "$schema": str,
        "$id": str,
        "$ref": str,
        "$defs": Mapping[str, "Schema"],
        "title": str,
        "description": str,
        "type": str | list[str],
        "enum": list[str],
        "const": str,
        "minimum": float,
        "maximum": float,
        "properties": Mapping[str, "Schema"],
        "patternProperties": Mapping[str, "Schema"],
        "additionalProperties": "bool | Schema",
        "required": list[str],
        "items": "Schema",
        "prefixItems": Sequence["Schema"],
        "anyOf": Sequence["Schema"],
        "oneOf": Sequence["Schema"],
    },
    total=False,
)
"""The words of JSON Schema that schemas of results use."""

LAYOUTS: Mapping[str, type] = {
    "pagewise.capture/1": CaptureResult,
    "pagewise.advice/1": Advice,
    "pagewise.advice-page-size/1": AdvicePageSizeResult,
    "pagewise.advice-zram/1": ZramAdvice,
    "pagewise.page-size/1": PageSize,
    "pagewise.pagesize-verify/1": PageSizeTrial,
    "pagewise.pagesize-guest/1": GuestTrial,
    "pagewise.pagesize-check/1": CheckResult,
    "pagewise.pagesize-apply/1": Applied,
    "pagewise.fleet/1": Fleet,
    "pagewise.curves/1": CurvesResult,
    "pagewise.launches-compared/1": LaunchesCompared,
    "pagewise.sweep/1": SweepResult,
    "pagewise.sweep-table/1": SweepTable,
    "pagewise.study/1": StudyResult,
    "pagewise.probe/1": Probed,
    "pagewise.report/1": ReportResult,
    "pagewise.bench-lazy/1": BenchLazy,
    "pagewise.version/1": Versions,
}
"""The types of results that Python computes, by the name and version of their layout."""

FOLDER = resources.files(__package__).joinpath("schemas")
ENDING = ".json"
OF_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "advise-pagesize": ("advice-page-size",),
    "advise-swap": ("advice",),
    "advise-zram": ("advice-zram",),
    "devices-probe": ("probe",),
    "import": ("import", "import-references"),
    "analyze": ("analyze", "fleet"),
    "info": ("info", "allocations", "references", "fleet"),
    "kills": ("trace-kills", "kills", "fleet"),
    "killtrace": ("kills",),
    "launches": ("launches", "launches-compared", "fleet"),
    "misses": ("misses", "misses-of-traces", "fleet"),
    "pagesize": ("page-size",),
    "pagesize-verify": ("pagesize-verify", "pagesize-guest"),
    "pressure": ("pressure", "fleet"),
    "simulate": ("simulate", "as-recorded", "fleet"),
}
"""The results of commands that have another name than their result, or more than one."""


def names() -> list[str]:
    """The results that have a schema."""
    found = (file.name for file in FOLDER.iterdir())
    return sorted(name.removesuffix(ENDING) for name in found if name.endswith(ENDING))


def printed(name: str) -> Schema:
    """The schema that each result of a command fits, by the name of the command or of one result.

    Blanks in the name of a command are hyphens. Raises UsageError for another name.
    """
    found = [schema(result) for result in OF_COMMANDS.get(name, (name,))]
    if len(found) == 1:
        return found[0]
    alternatives: list[Schema] = []
    definitions: dict[str, Schema] = {}
    for alternative in found:
        definitions |= alternative.pop("$defs", {})
        alternative.pop("$schema", None)
        alternative.pop("$id", None)
        alternatives.append(alternative)
    words = " or ".join(OF_COMMANDS[name])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": f"A result of `{name}`: {words}.",
        "anyOf": alternatives,
        "$defs": definitions,
    }


def schema(name: str) -> Schema:
    """The schema of a result, by the name of the result. Raises UsageError for another name."""
    if name not in names():
        raise UsageError(f"no result is called {name!r}", hint=f"one of {', '.join(names())}")
    found: Schema = json.loads(FOLDER.joinpath(name + ENDING).read_text("utf-8"))
    return found
