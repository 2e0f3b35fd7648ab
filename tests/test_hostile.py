"""Hostile input to commands: each ends with one clear line and the right status."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_results import everything
from waiting import killed_after, running

import pagewise as pw
from pagewise import cli

pytestmark = pytest.mark.slow

PAGEWISE = [sys.executable, "-m", "pagewise"]
DEVICES = ["--fast", "4/5us", "--slow", "90/40us"]
RESULTS = {result["schema"]: result for result in everything()}
WRONG = [float("nan"), float("inf"), "1000", "", None, -1, 1e300, 10**400, True, [], [1], {}]
ABSENT = object()


def ran(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command in a new process, as a shell does."""
    command = [*PAGEWISE, *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run(command, text=True, check=False, timeout=120, **streams)


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of shell, in which $P is the command; gives the status of the first in a pipe."""
    command = f"set -o pipefail; P='{' '.join(PAGEWISE)}'; {line}"
    return subprocess.run(
        ["bash", "-c", command], text=True, check=False, timeout=120, capture_output=True
    )


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The place of every value in a result; for lists, only the first element."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, (*path, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def shortened(value: Any) -> Any:
    """The result with at most two elements in each list, which is fast to copy."""
    if isinstance(value, dict):
        return {name: shortened(inner) for name, inner in value.items()}
    if isinstance(value, list) and all(isinstance(inner, (dict, list)) for inner in value):
        return [shortened(inner) for inner in value[:2]]
    return value


def with_wrong(result: Any, path: tuple[str | int, ...], wrong: object) -> Any:
    """A copy of the result with one value replaced or removed."""
    changed = json.loads(json.dumps(result))
    place = changed
    for step in path[:-1]:
        place = place[step]
    if wrong is ABSENT:
        del place[path[-1]]
    else:
        place[path[-1]] = wrong
    return changed


@pytest.mark.parametrize("schema", RESULTS)
def test_a_result_with_any_field_wrong_is_shown_or_refused_by_name(
    schema: str, tmp_path: Path
) -> None:
    from pagewise.report.inputs import gather
    from pagewise.report.panels import PANELS
    from pagewise.report.verdict import verdict

    original = shortened(RESULTS[schema])
    file = tmp_path / "result.json"
    refused = 0
    for path in places(original):
        for wrong in (*WRONG, ABSENT):
            file.write_text(json.dumps(with_wrong(original, path, wrong)))
            try:
                inputs = gather([file])
                panels = [panel for make in PANELS if (panel := make(inputs))]
                verdict(inputs, {panel.identifier for panel in panels})
            except pw.UnreadableInput as error:
                refused += 1
                assert str(error).startswith(str(file)), (path, wrong)
                assert path == ("schema",) or str(path[0]) in str(error), (path, wrong, error)
    assert refused > 50


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": "pagewise.misses/1"}', "field requests: expected a count, found nothing"),
        (
            '{"schema": "pagewise.misses/1", "requests": NaN, "pages": 1, "misses": {}}',
            "field requests: expected a count, found nan",
        ),
        (
            '{"schema": "pagewise.misses/1", "requests": 1, "pages": 1, '
            '"misses": {"lru": {"x": 1}}}',
            "field misses.lru: expected a count in digits as each name, found 'x'",
        ),
        (
            '{"schema": "pagewise.misses/1", "requests": 1' + "0" * 400 + "}",
            "field requests: expected a count, found a number beyond 64 bits",
        ),
        ('{"schema": "pagewise.sweep/1", "cells": [{"trace": 7}]}', "field cells[0].trace"),
        ('{"schema": "pagewise.analyze/1", "accesses": ' + "[" * 99_999, "not JSON"),
        ("{}", "schema absent"),
    ],
)
def test_report_names_file_and_field(tmp_path: Path, text: str, message: str) -> None:
    file, output = tmp_path / "result.json", tmp_path / "report.html"
    file.write_text(text)
    run = ran("report", file, "-o", output)
    assert (run.returncode, run.stdout) == (3, "")
    assert run.stderr.startswith(f"pagewise: {file}: ") and message in run.stderr
    assert len(run.stderr.splitlines()) <= 2
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["misses", "TRACE", "--policy", "lru", "--frames", "1" + "0" * 30], "not a possible size"),
        (["misses", "TRACE", "--policy", "lru", "--frames", "9" * 5000], "not a possible size"),
        (["misses", "TRACE", "--policy", "lru", "--frames", "5000000000"], "4,294,967,295"),
        (["misses", "TRACE", "--policy", "lru", "--frames", "100B"], "holds no frame"),
        (["misses", "TRACE", "--policy", "lru", "--frames", "1.5"], "holds no frame"),
        (["slice", "TRACE", "--from", "9" * 30, "-o", "OUT"], "not a possible time"),
        (["slice", "TRACE", "--to", "300000d", "-o", "OUT"], "not a possible time"),
        (
            ["simulate", "TRACE", "--architecture", "flash", "--fast-tier", "1e99GiB", *DEVICES],
            "digits and a unit, as in 256MiB",
        ),
        (
            ["simulate", "TRACE", "--architecture", "flash", "--fast-tier", "9" * 20, *DEVICES],
            "not a possible size: the limit is 8 EiB",
        ),
    ],
)
def test_impossible_numbers_are_usage_errors(
    trace: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    names = {"TRACE": str(trace), "OUT": str(tmp_path / "out.parquet")}
    run = ran(*(names.get(argument, argument) for argument in arguments))
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("pagewise: ") and message in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_memory_of_zero_frames_is_accepted(trace: Path) -> None:
    run = ran("misses", trace, "--policy", "lru", "--frames", "0", "--json")
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout)["misses"]["lru"]["0"] == json.loads(run.stdout)["requests"]


@pytest.mark.parametrize("command", ["--help", "advise swap --help", "list", "list --json"])
def test_a_missing_reader_ends_a_command_quietly(command: str) -> None:
    for line in (f"$P {command} | head -1 > /dev/null", f"$P {command} >&-"):
        run = shell(line)
        assert (run.returncode, run.stdout, run.stderr) == (0, "", ""), line


def test_a_full_disk_is_reported_once() -> None:
    run = shell("$P list --json > /dev/full")
    assert run.returncode == 3
    assert run.stderr == "pagewise: input or output: No space left on device\n"


def test_closed_diagnostics_change_nothing(trace: Path) -> None:
    run = shell(f"$P analyze {trace} --json 2>&-")
    assert run.returncode == 0 and json.loads(run.stdout)["pages"] == 4
    assert shell("$P analyze absent 2>&-").returncode == 3
    assert shell("$P analyze absent 2>&1 | true").returncode in (0, 3)
    assert shell(f"$P analyze {trace} --json <&-").returncode == 0


def test_without_arguments_the_help_is_printed_and_nothing_else() -> None:
    for arguments in ([], ["advise"]):
        run = ran(*arguments)
        assert (run.returncode, run.stderr) == (2, "")
        assert "Usage: pagewise" in run.stdout


@pytest.mark.parametrize("loaded", ["pagewise._core", "typer", "typer.core", "pagewise.commands"])
def test_an_interrupt_while_modules_load_ends_with_status_130(loaded: str) -> None:
    """The process reports each module that it loads; the interrupt arrives after this module."""
    command = [sys.executable, "-X", "importtime", "-m", "pagewise", "list"]
    with (
        running(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process,
        killed_after(120, process),
    ):
        for line in process.stderr:
            if line.rsplit("|", 1)[-1].strip() == loaded:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
        status = process.wait(timeout=60)
    assert "Traceback" not in rest
    assert status == 130, rest[-500:]


def test_names_of_files_may_be_any_bytes(recording: Path, tmp_path: Path) -> None:
    strange = tmp_path / os.fsdecode(b"a b\n\xff.csv")
    strange.write_bytes(recording.read_bytes())
    output, page = (tmp_path / os.fsdecode(b"\xfe" + end) for end in (b".parquet", b".html"))
    for command in (
        ["import", strange, "-o", output],
        ["info", output],
        ["analyze", output, "--by", "process", "--json"],
        ["simulate", output, "--architecture", "flash", "--fast-tier", "0", *DEVICES],
        ["report", strange, output, "-o", page, "--title", strange.name],
    ):
        run = ran(*command, encoding="utf-8", errors="surrogateescape")
        assert (run.returncode, run.stderr) == (0, ""), command
    assert "a b\n\ufffd.csv" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["report", "sweep"])
def test_an_input_without_an_end_is_refused(command: str, tmp_path: Path) -> None:
    spec = tmp_path / "grid.toml"
    spec.write_text(
        'traces = ["/dev/zero"]\nsizes = ["64MiB"]\n[[device]]\nfast = "4/5us"\nslow = "90/40us"\n'
        '[[architecture]]\nname = "priority"\n'
    )
    output = tmp_path / "output"
    run = ran(command, spec if command == "sweep" else "/dev/zero", "-o", output)
    status = 2 if command == "sweep" else 3
    assert "/dev/zero: not a regular file" in run.stderr and run.returncode == status, run.stderr


def in_little_memory(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the command with 4 GB of address space, so that it fails if it reads without end."""
    return shell(f"ulimit -v 4000000; $P {shlex.join(map(str, arguments))}")


def test_a_description_without_an_end_is_refused(trace: Path, tmp_path: Path) -> None:
    endless, run, pipe = tmp_path / "z.toml", tmp_path / "run", tmp_path / "pipe.toml"
    endless.symlink_to("/dev/zero")
    os.mkfifo(pipe)
    run.mkdir()
    (run / "run.toml").symlink_to("/dev/zero")
    simulate = ["simulate", trace, "--architecture", "flash", "--fast-tier", "0"]
    for command in (
        ["sweep", "/dev/zero", "-o", tmp_path / "q.parquet"],
        ["sweep", pipe, "-o", tmp_path / "q.parquet"],
        ["pagesize", "apply", "/dev/zero", "-o", tmp_path / "guests"],
        ["advise", "swap", trace, *DEVICES, "--reference", run],
        ["advise", "swap", trace, *DEVICES, "--reference", pipe],
        [*simulate, "--fast", endless, "--slow", "90/40us"],
        [*simulate, "--fast", "4/5us", "--slow", pipe],
    ):
        refused = in_little_memory(*command)
        assert refused.returncode in (2, 3), (command, refused.stderr)
        assert "not a regular file" in refused.stderr, (command, refused.stderr)
    assert {path.name for path in tmp_path.iterdir()} == {"z.toml", "run", "pipe.toml"}


@pytest.mark.parametrize("path", ["/proc/kmsg", "/sys/kernel/uevent_seqnum"])
def test_a_file_of_the_kernel_without_an_end_is_refused(path: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(f'traces = ["{path}"]\n[[policy]]\nname = "lru"\nsizes = [10]\n')
    for command in (["sweep", path], ["sweep", spec]):
        refused = in_little_memory(*command, "-o", tmp_path / "q.parquet")
        assert refused.returncode in (2, 3), refused.stderr
        assert f"{path}: a file of the kernel" in refused.stderr, refused.stderr


def test_a_description_of_many_megabytes_is_refused(trace: Path, tmp_path: Path) -> None:
    large = tmp_path / "large.toml"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    simulate = ["simulate", trace, "--architecture", "flash", "--fast-tier", "0"]
    for command in (
        ["sweep", large, "-o", tmp_path / "q.parquet"],
        [*simulate, "--fast", large, "--slow", "90/40us"],
    ):
        refused = in_little_memory(*command)
        assert refused.returncode in (2, 3), (command, refused.stderr)
        assert "larger than 4" in refused.stderr, (command, refused.stderr)


def test_a_terminal_without_a_character_gets_an_escape(recording: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    foreign = tmp_path / os.fsdecode("señal.csv".encode())
    foreign.write_bytes(recording.read_bytes())
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    report = ["report", foreign, "-o", tmp_path / "report.html"]
    for command in (["import", foreign, "-o", output], ["info", output], ["--help"], report):
        run = ran(*command, env={**os.environ, **plain})
        assert (run.returncode, run.stderr) == (0, ""), command
    assert "se\\xf1al.csv" in ran("info", output, env={**os.environ, **plain}).stdout


def test_nothing_recorded_is_a_finding(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("time_s,event,process,page,state,kind\n")
    run = ran("advise", "swap", empty, *DEVICES)
    assert (run.returncode, run.stdout) == (1, "")
    assert f"{empty}: no accesses were recorded" in run.stderr
    for command in (
        ["analyze", empty],
        ["misses", empty, "--policy", "lru", "--frames", "8"],
        ["simulate", empty, "--architecture", "adaptive", "--fast-tier", "64KiB", *DEVICES],
        ["report", empty, "-o", tmp_path / "report.html"],
        ["info", empty],
    ):
        assert cli.run([str(argument) for argument in command]) == 0, command


def test_the_file_of_reference_is_checked(trace: Path, tmp_path: Path) -> None:
    reference = tmp_path / "reference.json"
    for text in ('{"slow": 7}', '{"slow": {"reads": "x", "writes": 1}}', "{", '{"mode": 1}'):
        reference.write_text(text)
        run = ran("advise", "swap", trace, *DEVICES, "--reference", reference)
        assert (run.returncode, run.stdout) == (3, "")
        assert run.stderr.startswith(f"pagewise: {reference}: ")
    assert os.listdir(tmp_path) == ["reference.json"]
