"""The kernel's switches of transparent huge pages: reads, changes and restores them.

Source: Documentation/admin-guide/mm/transhuge.rst of Linux 6.18. Assumes sysfs at ``SWITCHES``.
Every user may read the switches, but only root may change them. Kernels before 6.8 have no switch
per size, and no kernel has one for two base pages (``hugepages-8kB``), which only shmem uses.

Before a change, the present values go to a file, and a separate process (`keeper`) waits to restore
them in case this process is killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from pagewise import signals
from pagewise.errors import PagewiseError, UnreadableInput, UnwritableOutput

SWITCHES = Path("/sys/kernel/mm/transparent_hugepage")
UNDO = Path("/run/pagewise/page-size-undo.json")
GENERAL = "enabled"
"""The general switch, which sizes on ``inherit`` follow and glibc reads."""
CHOSEN = re.compile(r"\[(\w+)\]")
FOLDER = re.compile(r"hugepages-(\d+)kB")


class Refused(PagewiseError):
    """The machine refuses a change of its switches, or another run is changing them."""

    exit_status = 3


def sizes(switches: Path = SWITCHES) -> list[int]:
    """Bytes of the anonymous huge pages that this kernel supports, ascending."""
    found = (FOLDER.fullmatch(path.parent.name) for path in switches.glob("hugepages-*/enabled"))
    return sorted(int(name[1]) * 1024 for name in found if name)


def switch(size_bytes: int) -> str:
    """The name of the switch of one size, below ``SWITCHES``."""
    return f"hugepages-{size_bytes // 1024}kB/enabled"


def present(switches: Path = SWITCHES) -> dict[str, str]:
    """The word that each switch is set to; empty if the kernel has no transparent huge pages."""
    paths = [switches / GENERAL, *sorted(switches.glob("hugepages-*/enabled"))]
    return {
        str(path.relative_to(switches)): _word(path.read_text()) for path in paths if path.exists()
    }


def only_advised(size_bytes: int, now: Mapping[str, str]) -> dict[str, str]:
    """The words that give pages of this size, and no other huge pages, to programs that ask."""
    wanted = {name: "never" for name in now} | {GENERAL: "madvise"}
    return wanted | {switch(size_bytes): "madvise"}


@contextmanager
def changed(
    wanted: Mapping[str, str], switches: Path = SWITCHES, undo: Path = UNDO
) -> Iterator[None]:
    """Sets the switches to these words inside the block, and restores them after it.

    A signal ends the block as an exception does, and then ends the process as usual. Raises Refused
    if the kernel refuses, or if another run is inside such a block.
    """
    with ExitStack() as unlocked, _locked(undo) as log, signals.obeyed_after() as ending:
        _put_back(log, switches)
        before = present(switches)
        _write_log(log, before)
        unlocked.callback(_keeper(switches, undo).wait)
        try:
            try:
                for name, word in wanted.items():
                    if before.get(name) != word:
                        _set(switches / name, word)
                yield
            finally:
                ending.hold()
        finally:
            # Inside the try block: a signal during the line above must restore the switches too.
            _put_back(log, switches)


def put_back(
    switches: Path = SWITCHES, undo: Path = UNDO, *, waits: bool = False
) -> dict[str, str]:
    """Restores the switches that a killed run left changed; returns those it set.

    If another run is in progress, waits for it with ``waits``, and raises Refused without.
    """
    if not undo.exists():
        return {}
    with _locked(undo, waits=waits) as log:
        return _put_back(log, switches)


def _keeper(switches: Path, undo: Path) -> subprocess.Popen[bytes]:
    """Starts the process that restores the switches once the lock is free.

    It has its own session and no pipe of ours, so it survives the end of the terminal."""
    words = ["-P", "-m", "pagewise.huge_pages.keeper", str(switches), str(undo)]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, *words],
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
        start_new_session=True,
    )


@contextmanager
def _locked(undo: Path, *, waits: bool = False) -> Iterator[TextIO]:
    """The log, open and locked. It stays as an empty file: a lock on a removed file is useless."""
    try:
        undo.parent.mkdir(mode=0o755, exist_ok=True)
        log = os.fdopen(
            os.open(undo, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+"
        )
    except OSError as error:
        raise Refused(
            f"{undo}: {error.strerror}", path=str(undo), hint="changing page sizes needs root"
        ) from error
    with log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                "another pagewise is changing the page sizes of this machine",
                path=str(undo),
                hint="wait until it has finished",
            ) from None
        yield log


def _write_log(log: TextIO, words: Mapping[str, str]) -> None:
    """Replaces the content of the log by these words; they are durable when it returns."""
    log.seek(0)
    log.truncate()
    json.dump(dict(words), log)
    log.flush()
    os.fsync(log.fileno())


def _put_back(log: TextIO, switches: Path) -> dict[str, str]:
    """Restores every switch that differs from the log, and empties the log."""
    log.seek(0)
    try:
        text = log.read()
        if not text:
            return {}
        logged = {str(name): str(word) for name, word in json.loads(text).items()}
    except (ValueError, AttributeError) as error:
        # The log is complete before the first change, so nothing was changed yet.
        raise UnreadableInput(
            f"{log.name}: incomplete; the run ended before it changed anything",
            path=log.name,
            hint="remove it",
        ) from error
    now = present(switches)
    changed = {name: word for name, word in logged.items() if now.get(name, word) != word}
    for name, word in changed.items():
        _set(switches / name, word)
    log.seek(0)
    log.truncate()
    return changed


def _set(path: Path, word: str) -> None:
    """Sets a switch to a word."""
    try:
        path.write_text(word)
    except OSError as error:
        raise UnwritableOutput(
            f"{path}: cannot be set to {word}: {error.strerror}", path=str(path)
        ) from error


def _word(text: str) -> str:
    """The selected word of ``always [madvise] never``."""
    found = CHOSEN.search(text)
    return found[1] if found else text.strip()
