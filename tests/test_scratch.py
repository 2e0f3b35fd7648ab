"""The next process removes the temporary folders of a killed process, and no others."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import waiting

from pagewise import scratch
from pagewise.errors import UnwritableOutput
from pagewise.storage import replacing

HOLDING = """
import sys
from pathlib import Path
from pagewise.scratch import scratch, shared
from pagewise.storage import replacing
kind, place = sys.argv[1:]
if kind == "shared":
    (shared("together") / "file").write_text("half")
else:
    block = scratch() if kind == "scratch" else replacing(place + "/result")
    path = block.__enter__()
    (path / "file" if kind == "scratch" else path).write_text("half")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files, only for this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def holding(kind: str, place: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that uses a folder in ``place``."""
    pipe = subprocess.PIPE
    with waiting.running(
        [sys.executable, "-c", HOLDING, kind, str(place)],
        stdin=pipe,
        stdout=pipe,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
    ) as process:
        assert waiting.line_of(process.stdout) == "held\n"
        yield process


@pytest.mark.parametrize("kind", ["scratch", "shared", "replacing"])
def test_the_next_process_removes_what_a_killed_process_left(kind: str, place: Path) -> None:
    with holding(kind, place) as process:
        (held,) = place.iterdir()
        if kind == "replacing":
            with replacing(str(place / "other")) as aside:
                aside.write_text("whole")
            (place / "other").unlink()
        else:
            scratch.clear(place)
        assert list(place.iterdir()) == [held], "a folder in use was removed"
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert list(place.iterdir()) == [held]
    if kind == "replacing":
        with replacing(str(place / "result")) as aside:
            aside.write_text("whole")
        (place / "result").unlink()
    else:
        with scratch.scratch():
            pass
    assert list(place.iterdir()) == []


def test_only_our_own_folders_are_removed(place: Path) -> None:
    results, marked, open_to_all, linked = (
        place / f"pagewise-{name}" for name in ("results", "marked", "open", "link")
    )
    elsewhere = place / "elsewhere"
    for folder in (results, marked, open_to_all, elsewhere):
        folder.mkdir(mode=0o700)
        (folder / "file").write_text("mine")
    for folder in (open_to_all, elsewhere):
        (folder / scratch.MARK).symlink_to(f"pagewise on {os.uname().nodename}")
    open_to_all.chmod(0o777)
    (marked / scratch.MARK).symlink_to("pagewise on another machine")
    linked.symlink_to(elsewhere)
    (place / "pagewise-file").write_text("mine")
    before = sorted(place.rglob("*"))
    with scratch.scratch():
        pass
    assert sorted(place.rglob("*")) == before


def test_a_link_inside_is_removed_and_not_followed(place: Path) -> None:
    victim = place / "victim"
    victim.mkdir()
    (victim / "file").write_text("untouched")
    with holding("shared", place) as process:
        (place / "pagewise-together" / "link").symlink_to(victim)
        process.kill()
        process.wait(60)
    scratch.clear(place)
    assert [path.name for path in place.iterdir()] == ["victim"]
    assert (victim / "file").read_text() == "untouched"


def test_a_shared_folder_is_the_same_for_all(place: Path) -> None:
    with holding("shared", place):
        folder = scratch.shared("together")
        assert (folder / "file").read_text() == "half"
        assert scratch.shared("together") == folder
    scratch.clear(place)
    assert folder.exists(), "this process holds it"


def test_a_folder_that_others_can_write_to_is_refused(place: Path) -> None:
    folder = scratch.temporary() / "pagewise-open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UnwritableOutput, match="other users made it or may write to it"):
        scratch.shared("open")
    folder.rmdir()
    (place / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(place / "elsewhere")
    with pytest.raises(UnwritableOutput, match="other users"):
        scratch.shared("open")
