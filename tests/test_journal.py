"""The journal of a grid survives a kill at any byte."""

import multiprocessing
from pathlib import Path

import pytest

from pagewise.errors import UnwritableOutput
from pagewise.grids.journal import RemoteJournal, decode, encode, open_journal

CELLS = {"a" * 64: '{"io_time_s":1.5}', "b" * 64: '{"note":"line\\nbreak"}', "c" * 64: "{}"}


def test_a_torn_tail_is_ignored_at_every_length():
    whole = encode(CELLS)
    ends = [len(encode(dict(list(CELLS.items())[:count]))) for count in range(4)]
    for length in range(len(whole) + 1):
        cells, sound_bytes = decode(whole[:length])
        assert len(cells) == sum(end <= length for end in ends[1:])
        assert sound_bytes == max(end for end in ends if end <= length)


def test_a_flipped_byte_ends_what_is_believed():
    whole = bytearray(encode(CELLS))
    whole[len(whole) // 2] ^= 1
    cells, _ = decode(bytes(whole))
    assert len(cells) < len(CELLS)
    assert all(CELLS[key] == outcome for key, outcome in cells.items())


def test_what_was_appended_is_there_for_the_next_run_and_the_torn_rest_is_cut_off(tmp_path: Path):
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


def _open(results: str, answers: "multiprocessing.Queue[str]") -> None:
    try:
        with open_journal(results):
            answers.put("opened")
    except UnwritableOutput as error:
        answers.put(str(error))


def test_a_second_run_of_the_same_results_is_kept_out(tmp_path: Path):
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
    pytest.importorskip("fsspec", reason="fsspec comes with pagewise[ray]")
    address = "memory://grids/shared.parquet.journal"
    one, other = RemoteJournal(address), RemoteJournal(address)
    one.append({"a": "{}"})
    other.append({"b": "{}"})
    assert RemoteJournal(address).finished == {"a": "{}", "b": "{}"}
    one.remove()
    assert RemoteJournal(address).finished == {}


def test_an_object_store_keeps_one_object_per_append():
    fsspec = pytest.importorskip("fsspec", reason="fsspec comes with pagewise[ray]")
    address = "memory://grids/results.parquet.journal"
    for key in CELLS:
        RemoteJournal(address).append({key: CELLS[key]})
    files = fsspec.filesystem("memory")
    assert len(files.ls("/grids/results.parquet.journal")) == len(CELLS)
    journal = RemoteJournal(address)
    assert journal.finished == CELLS
    journal.remove()
    assert not files.exists("/grids/results.parquet.journal")
