"""Escape sequences in names are never printed to a terminal; JSON keeps them."""

import json
from pathlib import Path

import pytest
from commands import ran

from pagewise.terminal import printable

# The cases of crates/types/src/shown.rs.
SEQUENCES = [
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x9b1;31mred\x9bm", "red"),
    ("\x1b[38:2::1:2:3 qx", "x"),
    ("\x1b]8;;http://a.b/\x1b\\link\x1b]8;;\x07", "link"),
    ("\x9d0;a title\x9cname", "name"),
    ("\x1bP1$q\x1b\\a\x98b\x9cc", "ac"),
    ("\x1b]8;;http://a.b/ is missing", " is missing"),
    ("\x1b]0;\x1b[31mred", "red"),
    ("\x1b(Ba\x1bcb\x1b", "ab"),
    ("\x1b[31", ""),
    ("a\u202eb\u2066c\u2069\u200f\u061cd\x85e", "abcde"),
    ("señal 名 [31m", "señal 名 [31m"),
    ("bell\x07 and\ttab", "bell\\x07 and\\x09tab"),
]
EVIL = "\x1b[31m\x1b]8;;http:a.b\x07evil\x1b]8;;\x07\u202e\x9b0m"
LEFT_OVER = ("\x1b", "\x9b", "\x07", "31m", "8;;", "0m", "\u202e")
TEXT = "".join(
    f" {EVIL}-7 [001] {second}.000000: block_rq_issue: 8,0 R 4096 () {8 * page} + 8 [{EVIL}]\n"
    for second, page in enumerate([1, 2, 1, 3])
)


@pytest.mark.parametrize(("text", "expected"), SEQUENCES)
def test_escape_sequences_are_removed_completely(text: str, expected: str) -> None:
    assert printable(text) == expected


@pytest.mark.parametrize(
    "command",
    [
        ["info", "FILE"],
        ["analyze", "FILE", "--by", "process"],
        ["misses", "FILE", "--policy", "lru", "--frames", "2"],
        ["import", "FILE", "-o", "OUT"],
        ["import", "FILE", "-o", "OUT", "--strict"],
        ["import", "absent/FILE", "-o", "OUT"],
        ["slice", "FILE", "-o", "OUT"],
        ["report", "FILE", "-o", "OUT"],
        ["report", "FILE", "-o", "FILE"],
        ["sweep", "FILE", "-o", "OUT"],
        ["capture", "-o", "OUT", "--", "FILE"],
        ["curves", "FILE", "--frames", "64"],
        ["replay-kills", "FILE", "--policy", "largest"],
        ["pagesize", "FILE"],
        ["pagesize", "apply", "FILE", "-o", "OUT"],
        ["advise", "swap", "FILE", "--fast", "4/5us", "--slow", "90/40us"],
    ],
)
def test_no_command_shows_what_a_terminal_obeys(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, output = tmp_path / f"{EVIL}.txt", tmp_path / f"{EVIL}.out"
    # A link that opens a web page, in an unreadable line.
    recording.write_text(f"# tracer: nop\n{TEXT} {EVIL}-7 [001] 9.0: block_rq_issue: {EVIL}\n")
    words = [word.replace("FILE", str(recording)).replace("OUT", str(output)) for word in command]
    _, shown, diagnostics = ran(*words, capsys=capsys)
    assert shown + diagnostics
    assert not [part for part in LEFT_OVER if part in shown + diagnostics], shown + diagnostics


def test_json_keeps_names_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = tmp_path / "trace.txt"
    recording.write_text(f"# tracer: nop\n{TEXT}")
    status, shown, _ = ran("info", recording, "--json", capsys=capsys)
    assert status == 0 and shown.isascii() and "\x1b" not in shown
    names = [process["name"] for process in json.loads(shown)["processes"]]
    assert names == [EVIL]


def test_the_command_that_reads_kills_shows_nothing_that_a_terminal_obeys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = tmp_path / f"{EVIL}.pgr"
    example = Path(__file__).parents[1] / "examples" / "kills" / "grow.pgr"
    recording.write_bytes(example.read_bytes())
    status, shown, diagnostics = ran("info", recording, capsys=capsys)
    assert status == 0 and "pagewise replay-kills" in shown
    assert not [part for part in LEFT_OVER if part in shown + diagnostics], shown + diagnostics
