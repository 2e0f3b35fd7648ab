"""Reference traces: import, info, and faults of files."""

import gzip
import json
from pathlib import Path

import pytest
from commands import ran

import pagewise
from pagewise import cli
from pagewise.references import import_references, references_info

LACKEY = """\
==7== Lackey, an example Valgrind tool
I  04001000,3
 L 1ffeffe7e0,8
 M 1ffeffe7fe,4
a line of the program
I  04001003,5
"""

ROOT = Path(__file__).parents[1]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "lackey.txt"
    path.write_text(LACKEY)
    return path


def test_references_are_imported_and_described(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = text.with_suffix(".pwf")
    arguments = ["import", text, "--as", "refs", "-o", trace]
    status, output, diagnostics = ran(*arguments, "--json", capsys=capsys)
    assert status == 0 and ":5: expected I, L, S or M" in diagnostics
    report = json.loads(output)
    assert (report["format"], report["references"], report["rejected"]) == ("lackey", 4, 1)
    # The two data references share a block until the modification crosses into the next block.
    assert (report["instructions"], report["reads"], report["writes"]) == (2, 1, 1)
    assert report["steps"] == 3
    status, output, _ = ran("info", trace, "--json", capsys=capsys)
    result = json.loads(output)
    assert status == 0 and result["schema"] == "pagewise.references/1"
    assert result["origin"]["command"] == [str(text)] and result["ending"]["stop"] == "end"
    assert all(result[field] == report[field] for field in ("references", "reads", "steps"))
    status, output, _ = ran("info", trace, capsys=capsys)
    assert status == 0 and "lackey.txt" in output and "the trace is complete" in output


def test_a_compressed_trace_is_read(text: Path, tmp_path: Path) -> None:
    trace = text.with_suffix(".pwf")
    import_references(text, trace)
    packed = tmp_path / "packed.pwf.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    result = {**references_info(packed), "file_bytes": trace.stat().st_size}
    assert result == references_info(trace)
    assert pagewise.info(packed) == references_info(packed)
    questions = {"page_sizes": ["4KiB"], "frames": ["64"]}
    of_both = [pagewise.curves(path, **questions) for path in (packed, trace)]
    assert of_both[0].references == of_both[1].references == 4


def test_a_refusal_names_the_place(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = text.with_suffix(".pwf")
    arguments = ["import", text, "--as", "refs", "-o", trace]
    status, _, diagnostics = ran(*arguments, "--strict", capsys=capsys)
    assert status == 3 and ":5: expected" in diagnostics and not trace.exists()
    assert ran(*arguments, "--format", "ids", capsys=capsys)[0] == 2
    assert ran(*arguments, "--map", "id=a", capsys=capsys)[0] == 2
    assert ran(*arguments, "--loss-limit", "1%", capsys=capsys)[0] == 4
    status, _, diagnostics = ran(*arguments, capsys=capsys)
    assert status == 2 and "--force" in diagnostics
    status, _, diagnostics = ran("analyze", trace, capsys=capsys)
    assert status == 3 and "memory references, not of pages" in diagnostics


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("one\ntwo\n", ":1: no line is a reference of the format lackey; expected I, L, S or M"),
        ("==7== Lackey\n", ": no line is a reference of the format lackey"),
        ("", " at byte 0: is empty"),
    ],
)
def test_a_file_without_references_is_refused(
    text: Path, content: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = text.with_suffix(".pwf")
    import_references(text, trace)
    before = trace.read_bytes()
    text.write_text(content)
    arguments = ["import", text, "--as", "refs", "--format", "lackey", "-o"]
    status, _, diagnostics = ran(*arguments, trace, "--force", capsys=capsys)
    assert status == 3 and f"{text}{complaint}" in diagnostics
    assert trace.read_bytes() == before
    assert ran(*arguments, text.with_suffix(".new"), capsys=capsys)[0] == 3
    assert set(text.parent.iterdir()) == {text, trace}


@pytest.mark.parametrize(
    "command",
    [
        ["info"],
        ["curves", "--frames", "100"],
        ["curves", "--frames", "100", "--policy", "clock"],
        ["pagesize", "--memory", "80%", "--storage", "optane-ssd"],
    ],
)
def test_a_file_cut_off_before_its_first_whole_frame_is_refused(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (ROOT / "examples" / "page-size" / "photo.pwf").read_bytes()
    trace = tmp_path / "cut.pwf"
    trace.write_bytes(whole[:5000])
    status, _, diagnostics = ran(command[0], trace, *command[1:], capsys=capsys)
    assert status == 3 and "cut off before its first complete frame" in diagnostics


def test_a_cut_file_is_readable_and_a_damaged_file_is_refused(text: Path) -> None:
    trace = text.with_suffix(".pwf")
    import_references(text, trace)
    whole = trace.read_bytes()
    trace.write_bytes(whole[:-1])
    result = references_info(trace)
    assert result["ending"] is None and result["steps"] == 3
    trace.write_bytes(whole[:-9] + b"damaged!!")
    status = cli.run(["info", str(trace)])
    assert status == 3
