"""The kernel's switches of transparent huge pages: read, changed for a while, and put back.

Source: Documentation/admin-guide/mm/transhuge.rst of Linux 6.18. Assumes sysfs at ``SWITCHES``;
every user may read the switches, only root may change them. Kernels before 6.8 have no switch per
size, and no kernel has one for two base pages (``hugepages-8kB``), which only shmem uses.

Before a change the present values go to a file, and a separate process (`keeper`) waits to restore
them if this one is killed.
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
"""The switch that sizes on ``inherit`` follow, and that glibc asks."""
CHOSEN = re.compile(r"\[(\w+)\]")
FOLDER = re.compile(r"hugepages-(\d+)kB")


class Refused(PagewiseError):
    """The machine does not let its switches be changed, or another run changes them now."""

    exit_status = 3


def sizes(switches: Path = SWITCHES) -> list[int]:
    """Bytes of the anonymous huge pages that this kernel can give, ascending."""
    found = (FOLDER.fullmatch(path.parent.name) for path in switches.glob("hugepages-*/enabled"))
    return sorted(int(name[1]) * 1024 for name in found if name)


def switch(size_bytes: int) -> str:
    """The switch of one size, below ``SWITCHES``."""
    return f"hugepages-{size_bytes // 1024}kB/enabled"


def present(switches: Path = SWITCHES) -> dict[str, str]:
    """The word that each switch is at; nothing for a kernel without transparent huge pages."""
    paths = [switches / GENERAL, *sorted(switches.glob("hugepages-*/enabled"))]
    return {
        str(path.relative_to(switches)): _word(path.read_text()) for path in paths if path.exists()
    }


def only_advised(size_bytes: int, now: Mapping[str, str]) -> dict[str, str]:
    """The words that give pages of this size, and no other huge ones, to who asks by madvise."""
    wanted = {name: "never" for name in now} | {GENERAL: "madvise"}
    return wanted | {switch(size_bytes): "madvise"}


@contextmanager
def changed(
    wanted: Mapping[str, str], switches: Path = SWITCHES, undo: Path = UNDO
) -> Iterator[None]:
    """Has the switches at these words inside the block, and as before after it.

    A signal ends the block as an exception does, and then the process as it always would. Raises
    Refused where the kernel does, or where another run is inside such a block.
    """
    with ExitStack() as unlocked, _alone(undo) as log, signals.obeyed_after() as ending:
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
            # Even a signal that came before the line above was done finds this undone.
            _put_back(log, switches)


def put_back(
    switches: Path = SWITCHES, undo: Path = UNDO, *, waits: bool = False
) -> dict[str, str]:
    """Undoes what a killed run left changed; the switches it set, none if nothing was left.

    ``waits`` for a run that goes on, where Refused is raised otherwise.
    """
    if not undo.exists():
        return {}
    with _alone(undo, waits=waits) as log:
        return _put_back(log, switches)


def _keeper(switches: Path, undo: Path) -> subprocess.Popen[bytes]:
    """Starts the process that restores the switches once the lock is free.

    It has its own session, so the end of a terminal does not end it, and no pipe of ours."""
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
def _alone(undo: Path, *, waits: bool = False) -> Iterator[TextIO]:
    """The log, open and locked. The empty file stays: a lock on a removed file protects nothing."""
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
                "another pagewise changes the page sizes of this machine now",
                path=str(undo),
                hint="wait until it has finished",
            ) from None
        yield log


def _write_log(log: TextIO, words: Mapping[str, str]) -> None:
    """Replaces the log by these words, and returns when they are safe."""
    log.seek(0)
    log.truncate()
    json.dump(dict(words), log)
    log.flush()
    os.fsync(log.fileno())


def _put_back(log: TextIO, switches: Path) -> dict[str, str]:
    """Sets every switch that is not as logged, and empties the log."""
    log.seek(0)
    try:
        text = log.read()
        if not text:
            return {}
        logged = {str(name): str(word) for name, word in json.loads(text).items()}
    except (ValueError, AttributeError) as error:
        # It is written whole before the first change, so nothing was changed yet.
        raise UnreadableInput(
            f"{log.name}: cut off while it was written; nothing was changed then",
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
    """Turns one switch."""
    try:
        path.write_text(word)
    except OSError as error:
        raise UnwritableOutput(
            f"{path}: cannot be set to {word}: {error.strerror}", path=str(path)
        ) from error


def _word(text: str) -> str:
    """The chosen word of ``always [madvise] never``."""
    found = CHOSEN.search(text)
    return found[1] if found else text.strip()
