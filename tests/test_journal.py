"""The journal of a grid survives a kill at any byte."""

import errno
import itertools
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from scenarios import SMALL

from pagewise.errors import UnwritableOutput
from pagewise.grids import results
from pagewise.grids.journal import HEADER, RemoteJournal, decode, encode, open_journal
from pagewise.grids.run import sweep

CELLS = {"a" * 64: '{"io_time_s":1.5}', "b" * 64: '{"note":"line\\nbreak"}', "c" * 64: "{}"}


def test_a_torn_tail_is_ignored_at_every_length():
    whole = encode(CELLS)
    # A line is complete with its last brace, even without the line break.
    ends = [len(encode(dict(list(CELLS.items())[:count]))) - 1 for count in range(1, 4)]
    for length in range(len(whole) + 1):
        assert len(decode(whole[:length])) == sum(end <= length for end in ends)


def test_damage_costs_only_the_lines_that_it_hits():
    whole = encode(CELLS)
    lines = [len(encode(dict([cell]))) for cell in CELLS.items()]
    starts = [sum(lines[:number]) for number in range(len(lines))]
    for place, bit in itertools.product(range(len(whole)), range(8)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        found = decode(bytes(damaged))
        hit = sum(start <= place for start in starts) - 1
        # A lost line break joins two lines.
        ends_line = place + 1 == starts[hit] + lines[hit]
        lost = {list(CELLS)[hit]} | ({list(CELLS)[hit + 1]} if ends_line and hit < 2 else set())
        assert set(CELLS) - set(found) <= lost and all(CELLS[key] == found[key] for key in found)


def test_a_later_run_finds_what_was_appended_around_a_torn_line(tmp_path: Path):
    results = str(tmp_path / "results.parquet")
    with open_journal(results) as journal:
        journal.append(CELLS)
    path = tmp_path / "results.parquet.journal"
    with open(path, "ab") as file:
        file.write(b"57 0badc0de {half a li")
    with open_journal(results) as journal:
        assert journal.finished == CELLS
        journal.append({"d": "{}"})
    with open_journal(results) as journal:
        assert journal.finished == {**CELLS, "d": "{}"}
        journal.remove()
    assert not path.exists()


def test_damage_to_the_header_costs_no_line(tmp_path: Path):
    results = str(tmp_path / "results.parquet")
    path = tmp_path / "results.parquet.journal"
    version = HEADER.index(b"1")
    for place, bit in itertools.product(range(len(HEADER)), range(8)):
        if place == version:
            continue
        damaged = bytearray(HEADER)
        damaged[place] ^= 1 << bit
        path.write_bytes(bytes(damaged) + encode(CELLS))
        with open_journal(results) as journal:
            # A lost line break joins the header and the first line.
            first = {"a" * 64} if place == len(HEADER) - 1 else set()
            assert set(CELLS) - set(journal.finished) <= first
        path.unlink()


def test_a_journal_of_another_version_is_refused(tmp_path: Path):
    path = tmp_path / "results.parquet.journal"
    path.write_bytes(HEADER.replace(b"1", b"2") + encode(CELLS))
    with pytest.raises(UnwritableOutput, match="not a journal"):
        open_journal(str(tmp_path / "results.parquet"))
    assert path.read_bytes().endswith(encode(CELLS))


@pytest.mark.parametrize("content", ["", "my notes\n", "57 0badc0de {}\n", "pagewise-journal 2\n"])
def test_a_file_that_is_not_a_journal_is_refused_and_unchanged(tmp_path: Path, content: str):
    path = tmp_path / "results.parquet.journal"
    path.write_text(content)
    before = path.stat()
    with pytest.raises(UnwritableOutput, match=r"results\.parquet\.journal: not a journal"):
        open_journal(str(tmp_path / "results.parquet"))
    assert path.read_text() == content and path.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("is_dangling", [False, True])
def test_a_link_is_not_followed(tmp_path: Path, is_dangling: bool):
    path, target = tmp_path / "results.parquet.journal", tmp_path / "notes"
    if not is_dangling:
        target.write_bytes(HEADER)
    path.symlink_to(target)
    with pytest.raises(UnwritableOutput, match="not a journal"):
        open_journal(str(tmp_path / "results.parquet"))
    assert path.is_symlink() and target.exists() != is_dangling


def test_a_journal_without_cells_is_removed(tmp_path: Path):
    with open_journal(str(tmp_path / "results.parquet")):
        assert (tmp_path / "results.parquet.journal").read_bytes() == HEADER
    assert not list(tmp_path.iterdir())


KILLED_AT = """
import os, signal, sys
from pagewise.grids import journal

left = int(sys.argv[2])
def trace(frame, event, _):
    global left
    if frame.f_code.co_filename != journal.__file__:
        return None
    left -= event == "line"
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return trace

sys.settrace(trace)
journal.open_journal(sys.argv[1])
"""


@pytest.mark.long
def test_a_kill_while_the_journal_is_made_does_not_stop_the_next_run(tmp_path: Path):
    path = tmp_path / "results.parquet"
    for count in itertools.count():
        command = [sys.executable, "-c", KILLED_AT, str(path), str(count)]
        status = subprocess.run(command, timeout=60).returncode
        with open_journal(str(path)) as journal:
            assert journal.finished == {}
        if status == 0:
            break
        assert status == -signal.SIGKILL
    # The last run has removed the folders of those that were killed.
    assert count > 10 and not list(tmp_path.iterdir())


def test_without_hard_links_a_journal_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    results = str(tmp_path / "results.parquet")
    with open_journal(results) as journal:
        journal.append(CELLS)
    with open_journal(results) as journal:
        assert journal.finished == CELLS
    assert [each.name for each in tmp_path.iterdir()] == ["results.parquet.journal"]


def test_a_file_that_appears_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, link = tmp_path / "results.parquet.journal", os.link

    def after_another(source: Path, target: Path) -> None:
        target.write_text("my notes")
        link(source, target)

    monkeypatch.setattr(os, "link", after_another)
    with pytest.raises(UnwritableOutput, match="not a journal"):
        open_journal(str(tmp_path / "results.parquet"))
    assert path.read_text() == "my notes" and list(tmp_path.iterdir()) == [path]


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """No file of this process may be longer than ``size``, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_names_the_journal_and_loses_no_cell(tmp_path: Path):
    results = str(tmp_path / "results.parquet")
    with (
        ExitStack() as limits,  # left last: the disk is still full when the journal is closed
        pytest.raises(UnwritableOutput, match=r"results\.parquet\.journal: File too large"),
        open_journal(results) as journal,
    ):
        journal.append(CELLS)
        size = (tmp_path / "results.parquet.journal").stat().st_size
        limits.enter_context(full_at(size + 10))
        journal.append({"d": "{}"})
    with open_journal(results) as journal:
        assert journal.finished == CELLS
        journal.append({"e": "{}"})
    with open_journal(results) as journal:
        assert journal.finished == {**CELLS, "e": "{}"}


def test_a_full_disk_names_the_results_and_keeps_every_cell(tmp_path: Path):
    path = tmp_path / "results.parquet"
    spec = {
        "scenario": [SMALL],
        "sizes": ["1MiB"],
        "device": [{"fast": "4/5us", "slow": "90/40us"}],
        "architecture": [{"name": "flash"}, {"name": "priority"}],
    }
    write = results.write

    def on_a_full_disk(*arguments: Any) -> None:
        with full_at(10):
            write(*arguments)

    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(UnwritableOutput, match=f"^{path}: File too large") as refused,
    ):
        patch.setattr(results, "write", on_a_full_disk)
        sweep(spec, path)
    assert (refused.value.path, refused.value.exit_status) == (str(path), 3)
    assert [each.name for each in tmp_path.iterdir()] == ["results.parquet.journal"]
    assert sweep(spec, path)["kept"] == 2 and path.exists()


def _open(results: str, answers: "multiprocessing.Queue[str]") -> None:
    try:
        with open_journal(results):
            answers.put("opened")
    except UnwritableOutput as error:
        answers.put(str(error))


def test_a_second_run_with_the_same_output_is_refused(tmp_path: Path):
    results = str(tmp_path / "results.parquet")
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    with open_journal(results):
        other = context.Process(target=_open, args=(results, answers))
        other.start()
        try:
            assert "another run" in answers.get(timeout=60)
        finally:
            other.kill()
            other.join(60)


def test_two_runs_into_one_object_store_keep_each_others_cells():
    pytest.importorskip("fsspec", reason="fsspec comes with the extra 'ray'")
    address = "memory://grids/shared.parquet.journal"
    first, other = RemoteJournal(address), RemoteJournal(address)
    first.append({"a": "{}"})
    other.append({"b": "{}"})
    assert RemoteJournal(address).finished == {"a": "{}", "b": "{}"}
    first.remove()
    assert RemoteJournal(address).finished == {}


def test_an_object_store_keeps_one_object_per_append():
    fsspec = pytest.importorskip("fsspec", reason="fsspec comes with the extra 'ray'")
    address = "memory://grids/results.parquet.journal"
    for key in CELLS:
        RemoteJournal(address).append({key: CELLS[key]})
    files = fsspec.filesystem("memory")
    assert len(files.ls("/grids/results.parquet.journal")) == len(CELLS)
    journal = RemoteJournal(address)
    assert journal.finished == CELLS
    journal.remove()
    assert not files.exists("/grids/results.parquet.journal")
