"""Tables: aligned on a terminal, and with tabs elsewhere, for cut and awk."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ran
from terminals import ROOT, on_a_terminal

PAGEWISE = Path(sys.executable).with_name("pagewise")
DEVICES = ["--fast", "4/5us", "--slow", "90/40us"]
PHOTO = ROOT / "examples" / "page-size" / "photo.pwf"
COMMANDS: dict[str, tuple[list[object], str]] = {
    "info": (["info", "TRACE"], "kind\tswap, imported from events"),
    "import": (["import", "RECORDING", "-o", "OUT"], "format\tevents"),
    "analyze": (["analyze", "TRACE"], "accesses\t7 (4 writes)"),
    "by process": (
        ["analyze", "TRACE", "--by", "process"],
        "process\tpid\taccesses\tpages\tbusiest tenth\taccessed once",
    ),
    "misses": (
        ["misses", "TRACE", "--policy", "lru,fifo", "--frames", "2"],
        "frames\tlru\tfifo",
    ),
    "simulate": (
        ["simulate", "TRACE", "--architecture", "priority", "--fast-tier", "8KiB", *DEVICES],
        "tier\tpages read\tpages written\tlife",
    ),
    "advise": (["advise", "swap", "TRACE", *DEVICES], "evidence\ttoo short: "),
    "list": (["list", "policies"], "policies\t"),
    "devices": (["devices"], "device\twhat\tread us\twrite us\tlarger reads\trated cycles"),
    "curves": (["curves", PHOTO, "--frames", "4MiB"], "page\tpages\tcold\tfaults in 4MiB"),
    "replay-kills": (
        ["replay-kills", ROOT / "examples/kills/grow.pgr", "--policy", "largest"],
        "policy\tdecisions\tvictims\t",
    ),
    "pagesize": (["pagesize", PHOTO, "--storage", "optane-ssd"], "storage\toptane-ssd"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_piped_tables_are_not_padded(
    name: str, recording: Path, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, line = COMMANDS[name]
    files = {"TRACE": trace, "RECORDING": recording, "OUT": tmp_path / "out.parquet"}
    _, output, _ = ran(*(files.get(str(word), word) for word in words), capsys=capsys)
    assert any(shown.startswith(line) for shown in output.splitlines()), output
    cells = [cell for shown in output.splitlines() if "\t" in shown for cell in shown.split("\t")]
    assert cells and all(cell == cell.strip() for cell in cells), output
    tables = [block for block in output.split("\n\n") if "\t" in block]
    for block in tables:
        widths = {shown.count("\t") for shown in block.splitlines() if "\t" in shown}
        assert len(widths) == 1, block


def test_cut_and_awk_read_the_columns(trace: Path) -> None:
    command = [PAGEWISE, "analyze", trace, "--by", "process"]
    piped = subprocess.run(command, stdout=subprocess.PIPE, timeout=300, check=True).stdout
    awk = ["awk", "-F\\t", '$1 == "accesses" { print $2 }']
    taken = subprocess.run(awk, input=piped, stdout=subprocess.PIPE, timeout=300, check=True)
    assert taken.stdout == b"7 (4 writes)\n"


def test_on_a_terminal_columns_are_aligned(trace: Path) -> None:
    shown = on_a_terminal([PAGEWISE, "analyze", trace, "--by", "process"], 80)
    assert "\t" not in shown
    lines = shown.splitlines()
    (header,) = (line for line in lines if line.startswith("process"))
    row = lines[lines.index(header) + 1]
    end = header.index("accesses") + len("accesses")
    assert row[end - 1] == "4" and row[end] == " " and row[end - 2] == " "


def test_only_one_module_draws_tables() -> None:
    package = ROOT / "python" / "pagewise"
    drawing = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"rich\.table|import.* table_layout|table_layout import", path.read_text())
    ]
    assert drawing == ["terminal.py"]
