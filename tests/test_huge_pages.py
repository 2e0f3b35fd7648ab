"""The switches of huge pages, in a folder of fakes; tests/live has the real switches."""

import json
import os
import signal
from pathlib import Path

import pytest
from waiting import within

from pagewise.capture.run import capture, requesting
from pagewise.errors import UnreadableInput, UnwritableOutput, UsageError
from pagewise.huge_pages import glibc, settings
from pagewise.huge_pages.settings import Refused, changed, only_advised, present, put_back, sizes
from pagewise.huge_pages.verify import verify
from pagewise.signals import ENDING

WORDS = {
    "enabled": "always",
    "hugepages-16kB/enabled": "never",
    "hugepages-64kB/enabled": "never",
    "hugepages-2048kB/enabled": "inherit",
}
CHOSEN = only_advised(65536, WORDS)


@pytest.fixture
def switches(tmp_path: Path) -> Path:
    folder = tmp_path / "transparent_hugepage"
    for name, word in WORDS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # The kernel shows every word; a fake shows only the word written last.
        path.write_text(f"always inherit [{word}] other")
    (folder / "hugepages-8kB").mkdir()
    (folder / "hugepages-8kB" / "shmem_enabled").write_text("[never]")
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run" / "undo.json"


def test_sizes_are_those_of_anonymous_memory(switches: Path, tmp_path: Path) -> None:
    assert sizes(switches) == [16384, 65536, 2 << 20]
    assert present(switches) == WORDS
    assert (sizes(tmp_path / "none"), present(tmp_path / "none")) == ([], {})


def test_only_programs_that_ask_get_the_size_and_no_other_size() -> None:
    assert CHOSEN == {
        "enabled": "madvise",
        "hugepages-16kB/enabled": "never",
        "hugepages-64kB/enabled": "madvise",
        "hugepages-2048kB/enabled": "never",
    }


@pytest.mark.parametrize("ending", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_all_switches_are_restored(
    switches: Path, log: Path, ending: type[BaseException] | None
) -> None:
    def inside() -> None:
        with changed(CHOSEN, switches, log):
            assert present(switches) == CHOSEN
            assert json.loads(log.read_text()) == WORDS
            if ending is not None:
                raise ending

    if ending is None:
        inside()
    else:
        with pytest.raises(ending):
            inside()
    assert present(switches) == WORDS
    assert log.read_text() == ""
    assert put_back(switches, log) == {}


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_ends_the_block_first(switches: Path, log: Path, number: signal.Signals) -> None:
    obeyed = []
    before = signal.signal(number, lambda *_: obeyed.append(present(switches)))
    try:
        with changed(CHOSEN, switches, log):
            signal.raise_signal(number)
            pytest.fail("the block continues")
    finally:
        signal.signal(number, before)
    assert obeyed == [WORDS]


UNSEEN = [signal.SIGKILL, signal.SIGUSR1, signal.SIGALRM, signal.SIGSEGV]


@pytest.mark.parametrize("number", UNSEEN, ids=lambda number: number.name)
def test_the_switches_of_a_killed_run_are_restored(
    switches: Path, log: Path, number: signal.Signals
) -> None:
    child = os.fork()
    if child == 0:
        try:
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            with changed(CHOSEN, switches, log):
                if present(switches) == CHOSEN:
                    os.kill(os.getpid(), number)
        finally:
            os._exit(1)  # the child must not run the remaining tests too
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -number
    assert within(60, lambda: log.read_text() == "")
    assert present(switches) == WORDS


def test_the_keeper_has_nothing_to_do_after_a_run_that_ended_well(
    switches: Path, log: Path
) -> None:
    with changed(CHOSEN, switches, log):
        pass
    (switches / "enabled").write_text("[never]")
    assert put_back(switches, log) == {}  # the lock is free
    assert present(switches)["enabled"] == "never"


def test_undo_restores_what_a_killed_keeper_left(switches: Path, log: Path) -> None:
    log.parent.mkdir()
    log.write_text(json.dumps(WORDS))
    for name, word in CHOSEN.items():
        (switches / name).write_text(f"[{word}]")
    set_back = {name: word for name, word in WORDS.items() if CHOSEN[name] != word}
    assert put_back(switches, log) == set_back
    assert present(switches) == WORDS


def test_the_next_run_restores_first(switches: Path, log: Path) -> None:
    log.parent.mkdir()
    log.write_text(json.dumps(WORDS))
    (switches / "enabled").write_text("[never]")
    with changed(CHOSEN, switches, log):
        assert json.loads(log.read_text()) == WORDS
    assert present(switches) == WORDS


def test_a_second_run_is_refused(switches: Path, log: Path) -> None:
    with changed(CHOSEN, switches, log):
        for attempt in (lambda: put_back(switches, log), changed(CHOSEN, switches, log).__enter__):
            with pytest.raises(Refused, match="another pagewise"):
                attempt()
        assert present(switches) == CHOSEN


def test_a_switch_that_cannot_be_set_is_named(switches: Path, log: Path) -> None:
    missing = {**CHOSEN, "hugepages-32kB/enabled": "madvise"}
    with pytest.raises(UnwritableOutput, match="hugepages-32kB"), changed(missing, switches, log):
        pytest.fail("it was not refused")
    assert present(switches) == WORDS


@pytest.mark.parametrize("holds", [json.dumps(WORDS)[:-4].encode(), b"[1]", b"\xff"])
def test_an_incomplete_log_is_refused(switches: Path, log: Path, holds: bytes) -> None:
    log.parent.mkdir()
    log.write_bytes(holds)
    with pytest.raises(UnreadableInput, match="before it changed anything"):
        put_back(switches, log)


def test_a_folder_that_cannot_be_written_is_named(switches: Path) -> None:
    with pytest.raises(Refused), changed(CHOSEN, switches, Path("/proc/pagewise/undo.json")):
        pytest.fail("it was not refused")
    assert present(switches) == WORDS
    assert settings.UNDO.is_absolute()


def test_without_root_a_trial_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(settings, "sizes", lambda: [65536])
    with pytest.raises(Refused, match="needs root") as refused:
        verify(["true"], 65536)
    assert refused.value.exit_status == 3


@pytest.mark.parametrize("words", [{"enabled": "always"}, {"enabled": "never"}, {}])
def test_a_capture_is_refused_in_which_malloc_would_request_nothing(
    words: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "present", lambda: words)
    with pytest.raises(UsageError, match="set to madvise") as refused:
        capture(["true"], tmp_path / "t.pwf", requests_huge_pages=True)
    assert refused.value.hint == f"echo madvise > {settings.SWITCHES / 'enabled'}"
    assert not list(tmp_path.iterdir())


def test_a_capture_keeps_the_tunables_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "present", lambda: {"enabled": "madvise"})
    monkeypatch.delenv(glibc.VARIABLE, raising=False)
    assert requesting() == {glibc.VARIABLE: glibc.TUNABLES}
    monkeypatch.setenv(glibc.VARIABLE, "glibc.malloc.arena_max=1")
    assert requesting() == {glibc.VARIABLE: f"glibc.malloc.arena_max=1:{glibc.TUNABLES}"}
    # QEMU would take the rest for another variable.
    monkeypatch.setenv(glibc.VARIABLE, "glibc.cpu.hwcaps=-AVX2,-ERMS")
    with pytest.raises(UsageError, match="comma"):
        requesting()
