"""Zip archives by Python's zipfile, and references of drmemtrace, through the commands."""

import json
import struct
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

import pagewise
from pagewise.errors import UnreadableInput
from pagewise.references import references_info

ROOT = Path(__file__).resolve().parents[1]
SEEDS = ROOT / "fuzz/seeds"
SAMPLE = ROOT.parent / "shared/data/formats/memtrace/drmemtrace.simple_app.trace.zip"
"""A trace that DynamoRIO recorded, of version 4, from the tests of its repository (BSD licence)."""


def zipped(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def run(*arguments: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "pagewise", *arguments]
    return subprocess.run(command, input=data, capture_output=True, timeout=120)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_systrace_in_an_archive_is_read_as_the_systrace(tmp_path: Path, method: int) -> None:
    html = (SEEDS / "ftrace/systrace").read_bytes()
    (tmp_path / "trace.html").write_bytes(html)
    path = zipped(tmp_path / "s.zip", {"trace.html": html, "README.txt": b"notes"}, method)
    expected = pagewise.pressure(tmp_path / "trace.html")
    assert expected["events"] > 0
    assert {**pagewise.pressure(path), "trace": ""} == {**expected, "trace": ""}
    info = run("info", "-", "--json", data=path.read_bytes())
    assert json.loads(info.stdout)["header"]["format"] == "ftrace"


def test_an_archive_with_several_traces_says_which(tmp_path: Path) -> None:
    path = zipped(tmp_path / "two.zip", {"before.html": b"1", "after.html": b"2"})
    with pytest.raises(UnreadableInput, match=r"unpack the one that you mean \(before.html, after"):
        pagewise.pressure(path)
    damaged = path.read_bytes()[:-30]
    path.write_bytes(damaged)
    done = run("info", str(path))
    assert done.returncode == 3 and b"it is cut" in done.stderr


def entries(*rows: tuple[int, int, int]) -> bytes:
    return b"".join(struct.pack("<HHQ", *row) for row in rows)


def test_chunks_of_drmemtrace_are_one_trace(tmp_path: Path) -> None:
    """The markers at the ends of chunks are no references."""
    header, version, thread, process = (25, 0, 6), (28, 12, 6), (22, 4, 9), (24, 4, 9)
    first = entries(header, version, thread, process, (10, 4, 4096), (0, 8, 8192), (28, 21, 0))
    second = entries((28, 22, 7), (28, 2, 1), (28, 3, 0), (1, 8, 12288), (23, 4, 9), (26, 0, 0))
    path = zipped(tmp_path / "t.zip", {"chunk.0000": first, "chunk.0001": second})
    (tmp_path / "plain").write_bytes(first + second)
    reports = []
    for source in (path, tmp_path / "plain"):
        output = tmp_path / f"{source.name}.pwf"
        done = run("import", str(source), "--as", "refs", "-o", str(output), "--json")
        assert done.returncode == 0, done.stderr
        reports.append(json.loads(done.stdout))
        info = references_info(output)
        assert (info["instructions"], info["reads"], info["writes"]) == (1, 1, 1)
    assert reports[0] == reports[1]
    assert (reports[0]["format"], reports[0]["threads"], reports[0]["losses"]) == (
        "drmemtrace",
        1,
        [],
    )


@pytest.mark.skipif(not SAMPLE.exists(), reason="no recording of DynamoRIO in ../shared")
def test_the_counts_of_a_recording_of_dynamorio(tmp_path: Path) -> None:
    """By the types of its entries (`trace_type_t` in DynamoRIO's trace_entry.h).

    Reads are 0, writes 1, fetched instructions 10 to 16. Those of type 29 are not fetched again.
    """
    with zipfile.ZipFile(SAMPLE) as archive:
        data = b"".join(archive.read(name) for name in sorted(archive.namelist()))
    kinds = Counter(kind for kind, _, _ in struct.iter_unpack("<HHQ", data))
    instructions = sum(kinds[kind] for kind in range(10, 17))
    # It has no bundles, no prefetches and no entry of a later type that is a reference.
    assert set(kinds) <= {0, 1, *range(10, 17), *range(22, 27), 28, 29, 47}
    assert (instructions, kinds[0], kinds[1], kinds[29]) == (136_051, 31_507, 12_338, 361)
    output = tmp_path / "o.pwf"
    done = run("import", str(SAMPLE), "--as", "refs", "-o", str(output), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["instructions"], report["reads"], report["writes"]) == (
        instructions,
        kinds[0],
        kinds[1],
    )
    assert (report["format"], report["threads"]) == ("drmemtrace", kinds[22])
    assert (report["rejected"], report["losses"]) == (0, [])
    info = references_info(output)
    assert (info["instructions"], info["reads"], info["writes"]) == (
        instructions,
        kinds[0],
        kinds[1],
    )


def test_a_cut_trace_of_drmemtrace_names_the_loss_and_damage_is_an_error(tmp_path: Path) -> None:
    whole = (SEEDS / "drmemtrace/small").read_bytes()
    path, output = tmp_path / "cut", str(tmp_path / "o.pwf")
    path.write_bytes(whole[:-12])
    done = run("import", str(path), "--as", "refs", "-o", output)
    assert b"files without a footer" in done.stdout and done.returncode == 0
    path.write_bytes(whole[:-5])
    done = run("import", str(path), "--as", "refs", "-o", output, "--force")
    assert done.returncode == 3 and b"ends within a record" in done.stderr
    done = run("info", str(path))
    assert b"import them with --as refs" in done.stderr
