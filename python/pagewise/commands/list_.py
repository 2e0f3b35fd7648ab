"""`pagewise list`: the names that commands accept, from the catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, NotRequired, TypedDict, cast

import typer

from pagewise import _core
from pagewise.commands.options import Json
from pagewise.errors import UsageError
from pagewise.recipes import RECIPES
from pagewise.shipped import examples_folder, lacking_package
from pagewise.studies import none_installed, studies
from pagewise.terminal import Verbatim, figures, say, show, show_json

FAMILIES = (
    "formats",
    "reference-formats",
    "policies",
    "kill-policies",
    "architectures",
    "allocators",
    "devices",
    "recipes",
    "studies",
    "examples",
)


class Option(TypedDict):
    """An option of a policy, with a summary, or of an architecture, with a meaning."""

    name: str
    default: str
    summary: NotRequired[str]
    meaning: NotRequired[str]


class Entry(TypedDict):
    """A row of any catalog."""

    name: str
    summary: str
    options: NotRequired[list[Option]]
    example: NotRequired[str]
    perfetto: NotRequired[str]
    trace_cmd: NotRequired[str]
    tracefs: NotRequired[str]
    logcat: NotRequired[str | None]
    procfs: NotRequired[str | None]
    bpftrace: NotRequired[str]


EXAMPLES = ("pagewise list architectures", "pagewise list recipes")


def run(
    family: Annotated[
        str | None,
        typer.Argument(
            metavar="[CATALOG]",
            help=f"What to list: {', '.join(FAMILIES)}. Default: everything.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List everything that commands accept by name, such as formats, policies and devices.

    If you name what to list, its options and examples are listed too. `list examples` has the paths
    of recordings of swap; README.md in their folder describes all examples.
    """
    if family is not None and family not in FAMILIES:
        raise UsageError(f"nothing to list under {family!r}", hint=f"one of {', '.join(FAMILIES)}")
    listed = [
        name for name in FAMILIES if family == name or (family is None and name != "examples")
    ]
    catalog = {name: rows(name) for name in listed}
    if family == "studies" and not catalog[family]:
        raise none_installed()
    if json:
        show_json({"schema": "pagewise.list/1", **catalog})
        return
    for name, entries in catalog.items():
        lines = [
            line for entry in entries for line in described(entry, has_options=family is not None)
        ]
        if lines:
            show(figures([name, ""], lines, words=2), "")
    for entry in catalog["recipes"] if family == "recipes" else ():
        texts = [f"# {entry['name']}: perfetto --txt -c CONFIG -o TRACE, with this CONFIG"]
        texts += entry["perfetto"].splitlines()
        texts += [f"# {entry['name']}: trace-cmd, or text of tracefs", entry["trace_cmd"]]
        texts.append(entry["tracefs"])
        others = [line for line in (entry["logcat"], entry["procfs"]) if line]
        if others:
            texts += [f"# {entry['name']}: a part of the answer, without a trace", *others]
        texts += [f"# {entry['name']}: bpftrace in short", f"bpftrace -e '{entry['bpftrace']}'", ""]
        show(*map(Verbatim, texts))
    examples = [entry["example"] for entry in catalog.get(family or "", ()) if "example" in entry]
    if examples:
        show("Examples:", *map(Verbatim, examples))
    if family == "examples" and (data := lacking_package()):
        say(f"note: more examples are in the package {data}, which is not installed")


def described(entry: Entry, *, has_options: bool) -> list[list[str]]:
    """The lines of an entry: its name and summary, and its options if asked for."""
    lines = [[entry["name"], entry["summary"]]]
    if has_options and "options" in entry:
        for option in entry["options"]:
            meaning = option["summary"] if "summary" in option else option["meaning"]
            name = f"{entry['name']} {option['name']}"
            lines.append([name, f"{meaning}; default {option['default']}"])
    return lines


def rows(family: str) -> Sequence[Entry]:
    """The catalog of one family; each row has a name, a summary and perhaps options."""
    if family == "studies":
        return [
            {"name": study.name, "summary": study.summary, "example": study.example}
            for study in studies()
        ]
    if family == "examples":
        return [
            {"name": path.parent.name, "summary": str(path)}
            for path in sorted(examples_folder().glob("*/*.pgr"))
            if path.stem == path.parent.name
        ]
    if family == "recipes":
        return [
            {
                "name": recipe.name,
                "summary": recipe.summary,
                "perfetto": recipe.perfetto(),
                "trace_cmd": recipe.trace_cmd(),
                "tracefs": recipe.tracefs(),
                "logcat": recipe.logcat(),
                "procfs": recipe.procfs(),
                "bpftrace": recipe.bpftrace,
            }
            for recipe in RECIPES
        ]
    listing: Mapping[str, Callable[[], Sequence[Mapping[str, object]]]] = {
        "formats": _core.formats,
        "reference-formats": _core.reference_formats,
        "policies": _core.policies,
        "kill-policies": _core.kill_policies,
        "architectures": _core.architectures,
        "allocators": _core.allocators,
        "devices": lambda: _core.devices()["devices"],
    }
    return cast("Sequence[Entry]", listing[family]())
