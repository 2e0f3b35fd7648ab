"""The catalog of modes: how a command is started with and without the library."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from programs.places import AGENT


@dataclass(frozen=True)
class Mode:
    """One way to start a command."""

    name: str
    what: str
    prefix: Sequence[str] = ()
    """A prefix of the command."""
    variables: Mapping[str, str] = field(default_factory=dict)


def ours(name: str, what: str) -> Mode:
    return Mode(name, what, (str(AGENT), "lazy", "--mode", name, "--"))


STOCK, FAST, OFF = "stock", "fast", "off"

MODES = {
    mode.name: mode
    for mode in (
        Mode(STOCK, "started directly"),
        ours(FAST, "`pagewise-agent lazy --mode fast`"),
        ours("guarded", "`pagewise-agent lazy --mode guarded`"),
        ours("thp", "`pagewise-agent lazy --mode thp`"),
        Mode(
            OFF,
            "`pagewise-agent lazy` with `PAGEWISE_LAZY_SWITCH=off`",
            (str(AGENT), "lazy", "--"),
            {"PAGEWISE_LAZY_SWITCH": "off"},
        ),
    )
}


def environment(folder: str) -> dict[str, str]:
    """The environment of every program, independent of the caller's."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "USER": os.environ.get("USER", "root"),
    }
