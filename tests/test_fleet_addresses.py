"""Folders by fsspec address, in threads and one after the other: the same bytes everywhere."""

import json
import shutil
import sys
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import ran

from pagewise import storage
from pagewise.fleet import files_of, is_many
from pagewise.grids.run import sweep

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed; it comes with 'ray'")

COMMANDS = (
    "info",
    "analyze",
    "analyze --sample 8",
    "misses --policy lru,sieve --frames 4,8",
    "simulate --architecture hybrid --fast-tier 16KiB --fast 4/5us --slow ufs-3.1",
)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of 40 devices, some in a folder below, a hidden one, and a file that is none."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "below").mkdir()
    random = np.random.default_rng(1)
    for number in range(40):
        pages = map(int, random.integers(0, 30, 200))
        rows = (f"{time},in,1,{page},D,anon" for time, page in enumerate(pages))
        text = "\n".join(["time_s,event,process,page,state,kind", *rows, ""])
        place = folder / "below" if number % 10 == 0 else folder
        (place / f"device-{number:02}.csv").write_text(text)
    (folder / ".hidden.csv").write_text("time,id\n1,1\n")
    (folder / "note.bin").write_bytes(bytes(range(256)))
    (folder / "empty.csv").write_text("time,id\n")
    return folder


@pytest.fixture(scope="module")
def remote(local: Path) -> Iterator[str]:
    """The files of the folder, in fsspec's file system in memory."""
    files = fsspec.filesystem("memory")
    files.put(f"{local}/", "/fleet/", recursive=True)
    yield "memory://fleet"
    files.rm("/fleet", recursive=True)


def answer(command: str, place: str, *options: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints as JSON for a folder."""
    name, *more = command.split()
    status, output, _ = ran(name, place, *more, *options, "--json", capsys=capsys)
    assert status == 0 and json.loads(output)["traces"] >= 40
    return output


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_addresses_give_the_same_bytes_as_paths(
    command: str, local: Path, remote: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = answer(command, str(local), capsys=capsys).replace(str(local), "PLACE")
    in_memory = answer(command, remote, capsys=capsys)
    assert in_memory.replace("memory:///fleet", "PLACE") == expected
    by_file = answer(command, f"file://{local}", capsys=capsys)
    assert by_file.replace(f"file://{local}", "PLACE") == expected
    threads = answer(command, str(local), "--jobs", "3", capsys=capsys)
    assert threads.replace(str(local), "PLACE") == expected


def test_folders_patterns_and_files_at_addresses(local: Path, remote: str) -> None:
    def names(path: str) -> list[str]:
        return [each.rsplit("/", 1)[-1] for each in files_of(path)]

    assert all(map(is_many, (remote, f"{remote}/*.csv", f"{remote}/empty.csv")))
    assert files_of(remote)[0] == "memory:///fleet/below/device-00.csv"
    for end in ("", "/*.csv", "/**/*.csv", "/**/device-0*", "/below/*", "/device-[01]1.csv"):
        assert names(f"{remote}{end}") == names(f"{local}{end}"), end
        assert names(f"file://{local}{end}") == names(f"{local}{end}"), end
    assert names(f"{remote}/empty.csv") == names(f"file://{local}/empty.csv") == ["empty.csv"]
    assert names(f"{remote}/.hid*") == [".hidden.csv"]


def test_an_address_without_files_is_an_error(
    remote: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("memory://nowhere", f"{remote}/no-*", f"{remote}/absent.csv"):
        status, output, diagnostics = ran("analyze", place, capsys=capsys)
        assert (status, output) == (3, "") and f"{place}: no file found" in diagnostics
    status, _, diagnostics = ran("analyze", "unheard-of://bucket", capsys=capsys)
    assert status == 2 and "unheard-of" in diagnostics
    monkeypatch.setitem(sys.modules, "fsspec", None)
    status, _, diagnostics = ran("analyze", remote, capsys=capsys)
    assert status == 2 and "fsspec is needed for this address" in diagnostics


def test_a_copy_is_removed_and_takes_at_most_half_of_the_free_space(
    remote: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    address = f"{remote}/device-01.csv"
    status, _, _ = ran("analyze", address, capsys=capsys)
    assert status == 0 and list(tmp_path.iterdir()) == []
    size = fsspec.filesystem("memory").size("/fleet/device-01.csv")
    usage = namedtuple("usage", "total used free")
    for free, expected in ((2 * size, 0), (2 * size - 2, 3)):
        room = usage(2**40, 0, free)
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, room=room: room)
        status, _, diagnostics = ran("analyze", address, capsys=capsys)
        assert status == expected, diagnostics
        assert list(tmp_path.iterdir()) == []
    assert f"{storage.format_size(size - 1)}, half of what is free" in diagnostics


def test_an_error_names_the_address_and_not_the_copy(
    remote: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, output, diagnostics = ran("analyze", remote, "--json", capsys=capsys)
    for each in json.loads(output)["unreadable"]:
        assert each["trace"].startswith("memory:///fleet/")
        assert "/pagewise-" not in each["error"]
    assert "/pagewise-" not in diagnostics and "memory:///fleet/note.bin" in diagnostics


def test_a_hint_names_the_address_and_not_the_copy(capsys: pytest.CaptureFixture[str]) -> None:
    files = fsspec.filesystem("memory")
    files.pipe("/hints/bad.csv", b"time,id\nx,y\nz,w\n")
    status, _, diagnostics = ran("info", "memory://hints/bad.csv", capsys=capsys)
    files.rm("/hints", recursive=True)
    assert status == 3 and "pagewise info memory:///hints/bad.csv --as" in diagnostics
    assert "/pagewise-" not in diagnostics


class DriverError(Exception):
    """An error of a driver that is no OSError, such as that of botocore without credentials."""


def test_an_error_of_a_driver_is_an_answer(
    remote: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise DriverError("no credentials")

    driver = type(fsspec.filesystem("memory"))
    for method, place in (("find", remote), ("open", f"{remote}/device-01.csv")):
        with monkeypatch.context() as patched:
            patched.setattr(driver, method, refuse)
            status, output, diagnostics = ran("analyze", place, capsys=capsys)
        assert (status, output) == (3, "") and "no credentials" in diagnostics


def test_an_address_with_a_slash_at_the_end_is_a_folder(
    remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As over HTTP, where the page of a folder looks like a file.
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "isfile", lambda *_arguments: True)
    assert files_of(f"{remote}/")[0] == "memory:///fleet/below/device-00.csv"


def test_a_sweep_of_addresses_has_the_same_rows(local: Path, remote: str, tmp_path: Path) -> None:
    policy = [{"name": "lru", "sizes": [4, "50%"]}]
    outputs = []
    for number, place in enumerate((str(local), f"file://{local}", remote)):
        output = tmp_path / f"{number}.parquet"
        found = sweep({"traces": [f"{place}/*.csv", f"{place}/below/"], "policy": policy}, output)
        assert found["failed"] == [] and found["fleet"]["traces"] == 40
        assert "/pagewise-" not in json.dumps(found)
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]
