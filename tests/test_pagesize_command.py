"""`pagewise pagesize` on a trace of addresses, as a user would call it."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import pagewise as pw
from pagewise.capture.run import PLUGIN
from pagewise.cli import run
from pagewise.commands.pagesize import app
from pagewise.references import is_references

ADVISE = ["advise", "pagesize", "--memory", "80%", "--storage", "ufs-3.1"]
PIECES = 1200
"""Pieces of 512 bytes, each in its own page of 4 KiB: a footprint of 4.7 MiB."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that goes over its pieces thirty times."""
    folder = tmp_path_factory.mktemp("pagesize")
    text = "address\n" + "".join(f"{piece * 4096}\n" for piece in range(PIECES)) * 30
    (folder / "pieces.csv").write_text(text)
    path = folder / "pieces.pwf"
    assert run(["import", str(folder / "pieces.csv"), "--as", "refs", "-o", str(path)]) == 0
    return path


def answered(capsys: pytest.CaptureFixture[str], *words: object) -> dict:
    assert run(["pagesize", "--json", *map(str, words)]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_trace_is_answered_with_curve_choice_interval_and_snippet(trace, capsys):
    found = answered(capsys, "--storage", "optane-ssd", "--target", "x86-mthp", trace)
    assert found["schema"] == "pagewise.page-size/1"
    assert found["program"]["footprint_bytes"] == PIECES * 4096
    advice = found["advice"]
    # Larger pages hold the pieces too, and at 64 KiB the TLB covers all of them.
    assert advice["page_bytes"] > 4096 and advice["settings"]
    assert pw.page_size(trace, storage="optane-ssd", target="x86-mthp")["advice"] == advice
    assert advice["gain"]["low"] <= advice["gain"]["typical"] <= advice["gain"]["high"]
    asked = next(
        each for each in found["memories"] if each["memory_bytes"] == found["memory_bytes"]
    )
    assert len(asked["sizes_bytes"]) == len(asked["data_ns"]) > 4


def test_options_reach_the_model(trace, capsys):
    options = ("--model", "sampled", "--references", "cpu", "--first-touches", "counted")
    found = answered(
        capsys, *options, "--tlb-levels", 1, "--readahead", "32KiB", "--margin", 0, trace
    )
    assert found["assumed"]["terms"] == {
        "references": "cpu",
        "cold": "counted",
        "tlb_levels": 1,
        "readahead_bytes": 32768,
        "walk": "native",
        "walk_levels": 4,
        "cached_levels": 3,
    }
    assert (found["assumed"]["model"], found["assumed"]["margin"]) == ("sampled", 0)


def test_options_may_follow_the_trace(trace, capsys):
    assert answered(capsys, trace, "--memory", "2MiB")["memory_bytes"] == 2 << 20


def test_the_text_has_the_advice_and_the_curve(trace, tmp_path, capsys):
    page = tmp_path / "answer.html"
    assert run(["pagesize", "--memory", "2MiB", "--report", str(page), str(trace)]) == 0
    shown = capsys.readouterr().out
    assert "take" in shown and "translation" in shown and "32 KiB" in shown.splitlines()[-1]
    assert page.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--memory", "100KiB"], "too small"),
        (["--memory", "200%"], "more than the program uses"),
        (["--memory", "-5%"], "not a share"),
        (["--storage", "sd-a1"], "another size"),
        (["--margin", "3"], "not a share"),
        (["--target", "vax"], "vax"),
        (["--readahead", "48KiB"], "power of two"),
        (["--verify"], "needs the program"),
        (["--verify", "--from-reference", "5"], "measures the whole run"),
        (["--report", "office.pwf"], "must end in .html"),
        (["--keep", "office.pwf"], "is a trace;"),
    ],
)
def test_an_invalid_request_is_refused(trace, capsys, words, message):
    assert run(["pagesize", *words, str(trace)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(
    not PLUGIN.exists() or any(shutil.which(name) is None for name in ("qemu-x86_64", "xz")),
    reason="needs qemu-user, the capture plugin and xz",
)
def test_a_program_is_captured_and_its_trace_kept(tmp_path, capfd):
    trace = tmp_path / "xz.pwf"
    words = ["--max-refs", "20000000", "--keep", str(trace), "--", "xz", "-k", "-c", sys.executable]
    assert run(["pagesize", "--memory", "100%", "--json", *words]) == 0
    printed = capfd.readouterr()
    found = json.loads(printed.out)
    assert "\ufffd" not in printed.err and "x86_64" in printed.err
    assert found["trace"] == str(trace) and is_references(trace)
    assert found["program"]["references"] >= 20_000_000
    assert found["advice"]["page_bytes"] >= 4096


def test_no_input_is_replaced(trace, tmp_path, capsys):
    page, kept, older = (tmp_path / name for name in ("trace.html", "kept.pwf", "older.html"))
    page.hardlink_to(trace)
    older.write_text("mine")
    kept.write_text("mine")
    before = trace.read_bytes()
    for words, result in (
        (["--report", str(page), str(trace)], "is also an input"),
        (["--report", str(page), str(page)], "is also an input"),
        (["--report", str(page), "--", "cat", str(page)], "is also an input"),
        (["--keep", str(kept), "--", "cat"], " exists"),
        (["--report", str(older), str(trace)], " exists"),
    ):
        assert run(["pagesize", *words]) == 2, words
        assert result in capsys.readouterr().err
    assert run(["pagesize", "--force", "--report", str(page), str(trace)]) == 2
    assert "is also an input" in capsys.readouterr().err
    assert trace.read_bytes() == before and kept.read_text() == older.read_text() == "mine"
    result = ["--memory", "2MiB", "--force", "--report", str(older), str(trace)]
    assert run(["pagesize", *result]) == 0 and older.stat().st_size > 10_000


def test_every_command_reports_a_missing_program_in_the_same_words(tmp_path, capsys):
    trace = str(tmp_path / "t.pwf")
    for words in (
        ["capture", "-o", trace, "--"],
        ["pagesize", "--"],
        ["pagesize", "--keep", trace, "--"],
        [*ADVISE, "--"],
        ["pagesize", "verify", "--"],
    ):
        assert run([*words, "no-such-program", "word"]) == 2, words
        assert "no-such-program" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", [".", os.devnull, "pyproject.toml", "absent.pwf"])
@pytest.mark.parametrize("command", [["pagesize"], ADVISE])
def test_a_path_that_is_neither_trace_nor_program_is_refused_as_such(capsys, command, place):
    assert run([*command, place]) == 3
    assert f"{place}: neither a trace" in capsys.readouterr().err


@pytest.mark.parametrize("holds", [b"", b"PWRE", bytes(5000)])
def test_a_file_that_is_not_a_trace_is_refused_as_such(tmp_path, capsys, holds):
    path = tmp_path / "damaged.pwf"
    path.write_bytes(holds)
    assert run(["pagesize", str(path)]) == 3
    assert "damaged.pwf: neither a trace" in capsys.readouterr().err


def test_the_other_commands_of_the_group_keep_their_names(capsys):
    names = {command.name for command in app.registered_commands}
    assert {"check", "verify", "undo", "apply", "choose"} <= names
    assert run(["pagesize", "check", shutil.which("env") or "env", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)
