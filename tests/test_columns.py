"""CSV files of others: which columns are not read, and the --map to try."""

import gzip
import random
import shlex
from pathlib import Path

import pytest
from commands import ran

import pagewise as pw
from pagewise.commands.columns import columns_not_read, columns_of
from pagewise.errors import UsageError
from pagewise.recording import ROLES

COMMANDS = {
    "analyze": ["analyze", "FILE"],
    "info": ["info", "FILE"],
    "misses": ["misses", "FILE", "--policy", "lru", "--frames", "10"],
    "simulate": [
        *["simulate", "FILE", "--architecture", "hybrid", "--fast-tier", "64KiB"],
        *["--fast", "4/5us", "--slow", "90/40us"],
    ],
    "advise": ["advise", "swap", "FILE", "--fast", "4/5us", "--slow", "90/40us"],
}
NOTE = "columns not read: kind, when, who; --map chooses columns"


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    """Block requests under names of which pagewise knows only two."""
    path = tmp_path / "requests.csv"
    lines = [f"{1000 * number},app,{'RW'[number % 2]},{8 * number},8" for number in range(100)]
    path.write_text("\n".join(["when,who,kind,lba,len", *lines, ""]))
    return path


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """Accesses to objects, whose `op_name` names no read or write."""
    path = tmp_path / "cache of objects.csv"
    lines = [f"{number},{number % 7:x}-b,getChunk.Permanent,40" for number in range(100)]
    path.write_text("\n".join(["op_time,block_id,op_name,block_id_size", *lines, ""]))
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_columns_that_are_not_read_are_named_once(
    name: str, requests: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def notes(*more: str) -> list[str]:
        words = [str(requests) if word == "FILE" else word for word in COMMANDS[name]]
        status, _, diagnostics = ran(*words, *more, capsys=capsys)
        assert status == (1 if name == "advise" else 0), diagnostics
        return [line for line in diagnostics.splitlines() if "columns not read" in line]

    assert notes() == [f"note: {requests}: {NOTE}"]
    assert notes("--map", "time=when,op=kind,sector=lba") == [], "the caller chose the columns"


def test_the_note_names_what_an_import_leaves_out(tmp_path: Path) -> None:
    names = [
        "time",
        "ts_ms",
        "op",
        "rw",
        "lba",
        "offset",
        "len",
        "id",
        "pid",
        "dev",
        "Queue",
        "x y",
    ]
    draws = random.Random(seed := 20261126)
    for _ in range(40):
        header = draws.sample(names, draws.randint(2, len(names)))
        values = ["R" if name in ("op", "rw") else "8" for name in header]
        path = tmp_path / "table.csv"
        path.write_text("\n".join(map(",".join, [header, values, values])) + "\n")
        try:
            report = pw.import_trace(path, tmp_path / "table.parquet", force=True)
        except pw.PagewiseError:
            assert columns_not_read(pw.read(path)) == [], seed
        else:
            assert columns_not_read(pw.read(path)) == report["unused_columns"], (seed, header)


def test_columns_of_compressed_files_are_found(requests: Path) -> None:
    packed = requests.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(requests.read_bytes()))
    assert columns_of(pw.read(packed)) == ["when", "who", "kind", "lba", "len"]


def test_other_files_have_no_columns(recording: Path, trace: Path, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(random.Random(1).choices(range(256), k=5000)))
    for path in (recording, trace, binary, tmp_path / "absent", tmp_path, "/dev/null", "-"):
        assert columns_not_read(pw.read(path)) == [], path


def test_a_file_without_a_readable_line_is_answered_with_a_map(
    objects: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "objects.parquet")
    tries = ["--as", "objects", "--map", "time=op_time,id=block_id"]
    for command in (["info", str(objects)], ["import", str(objects), "-o", output]):
        status, _, diagnostics = ran(*command, capsys=capsys)
        errors = diagnostics[diagnostics.index("pagewise: ") :].splitlines()
        words = ["pagewise", *command, *tries]
        assert status == 3 and len(errors) == 3, diagnostics
        assert errors[0].startswith(f"pagewise: {objects}:2: no line can be read as blockcsv")
        assert "its columns are op_time, block_id, op_name, block_id_size;" in errors[1]
        assert errors[2].strip() == shlex.join(words)
        status, text, _ = ran(*words[1:], capsys=capsys)
        assert status == 0 and "objects\t7\n" in text and "\npages\t" not in text, text


def test_a_file_without_a_readable_sector_is_answered_with_its_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "names.csv"
    path.write_text("time,op,sector,key\n1,R,here,a\n2,W,there,b\n")
    _, _, diagnostics = ran("info", path, capsys=capsys)
    assert "--as objects --map time=time,op=op,id=key\n" in diagnostics
    _, _, diagnostics = ran("info", path, "--map", "sector=sector", capsys=capsys)
    assert "pagewise list formats" in diagnostics, "the caller chose the columns"


def test_every_role_can_be_mapped_and_is_in_the_help(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, printed, _ = ran("import", "--help", capsys=capsys)
    text = " ".join(printed.split())
    assert [role for role in ROLES if role not in text] == []
    path = tmp_path / "requests.csv"
    path.write_text("when,kind,first,bytes\n1,R,8192,4096\n2,R,8192,8192\n")
    trace = pw.read(path, as_="block", map="time=when,op=kind,offset=first,size=bytes")
    assert pw.analyze(trace)["accesses"] == 3
    with pytest.raises(UsageError, match="no such role: 'place'"):
        pw.read(path, as_="block", map="time=when,place=first")
