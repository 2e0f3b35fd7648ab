"""The command line: output, diagnostics and exit status."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ran
from conftest import ACCESSES, EVENTS, PAGES, WRITES
from scenarios import rounds, write_steps
from waiting import killed_after, running, within

import pagewise
import pagewise.commands
from pagewise.commands.options import name_values
from pagewise.errors import UsageError

PAGEWISE = [sys.executable, "-m", "pagewise"]
EXAMPLES = Path(__file__).parents[1] / "examples"
SEEDS = Path(__file__).parents[1] / "fuzz" / "seeds"
BLOCKS = str(EXAMPLES / "kill-1g" / "kill-1g.blocks.csv.zst")
DEVICES = ["--fast", "4/5us", "--slow", "90/40us"]
SIMULATE = ["simulate", "TRACE", "--architecture", "hybrid", "--fast-tier", "4KiB", *DEVICES]
ADVISE = ["advise", "swap", "TRACE", *DEVICES]


def test_json_is_one_object_and_nothing_else(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[object]] = [
        ["info", trace],
        ["analyze", trace, "--by", "process"],
        ["misses", trace, "--policy", "lru,opt", "--frames", "1,8KiB"],
        ["simulate", trace, "--architecture", "priority", "--fast-tier", "8KiB", *DEVICES],
        ["devices"],
        ["devices", "list"],
        ["list"],
        ["list", "policies"],
        ["list", "studies"],
    ]
    for command in commands:
        status, output, diagnostics = ran(*command, "--json", capsys=capsys)
        assert (status, diagnostics) == (0, ""), command
        assert isinstance(json.loads(output), dict), command
        status, text, diagnostics = ran(*command, capsys=capsys)
        assert (status, diagnostics) == (0, ""), command
        assert text and not text.startswith("{"), command


def test_objects_of_a_cache_are_not_called_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = tmp_path / "requests.txt"
    requests.write_text("a\nb\na\n")
    for command in ("info", "analyze"):
        status, text, _ = ran(command, requests, capsys=capsys)
        assert status == 0 and "objects\t2\n" in text and "pages\t" not in text, text


def test_info_of_a_file_without_a_readable_line_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("time_s,event,process,page,state,kind\nx,y\n")
    status, text, diagnostics = ran("info", path, capsys=capsys)
    assert status == 3 and "no line can be read as events" in diagnostics
    assert "events\t0\n" in text
    path.write_text("time_s,event,process,page,state,kind\n")
    assert ran("info", path, capsys=capsys)[0] == 0


def test_fields_that_others_rely_on(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, output, _ = ran("analyze", trace, "--json", capsys=capsys)
    analysis = json.loads(output)
    assert analysis["schema"] == "pagewise.analyze/1"
    assert (analysis["accesses"], analysis["pages"], analysis["writes"]) == (
        ACCESSES,
        PAGES,
        WRITES,
    )
    assert set(analysis["top_share"]) == {"0.01", "0.05", "0.1", "0.25", "0.5"}
    assert 0 < analysis["pages_for_80_percent"] <= 1
    assert set(analysis["single_access"]) >= {"pages", "accesses"}
    arguments = ["--policy", "lru", "--frames", "2,8KiB,1", "--json"]
    _, output, _ = ran("misses", trace, *arguments, capsys=capsys)
    misses = json.loads(output)
    assert misses["schema"] == "pagewise.misses/1"
    assert set(misses["misses"]["lru"]) == {"2", "1"}
    arguments = ["--architecture", "nvm-cache", "--fast-tier", "4KiB", "--fast", "4/5us"]
    _, output, _ = ran("simulate", trace, *arguments, "--slow", "hdd", "--json", capsys=capsys)
    outcome = json.loads(output)
    assert outcome["schema"] == "pagewise.simulate/1"
    assert outcome["architecture"] == "nvm-cache"
    assert set(outcome["fast"]) >= {"reads", "writes", "bytes_written"}
    assert set(outcome["slow"]) >= {"reads", "writes"}
    assert set(outcome["wear"]) == {"fast", "slow"}
    for name in ("options", "promotions", "demotions", "io_time_s", "stall_time_s"):
        assert name in outcome


ADVICE = {
    "": "schema pagewise trace losses duration_s evidence footprint_bytes page_bytes fast slow "
    "machine defaults memory write_amplification alone architecture worth today best reference "
    "candidates settings warnings notes",
    "evidence": "verdict reason remedy reaccesses active_s traffic_s gaps halves range",
    "evidence.halves": "first_bytes second_bytes cost_share",
    "evidence.range": "low_bytes high_bytes level",
    "fast": "name summary note read_ns write_ns transfer capacity rated_cycles compression",
    "alone": "io_time_s io_bytes wear_slow life_slow_years busy_slow",
    "architecture": "name options mean_io_share stock_linux holds_in meanwhile",
    "today": "architecture by can_run fast_tier_bytes io_time_s io_share slow_bytes wear_fast "
    "life_fast_years busy_fast wear_slow life_slow_years busy_slow memory next_cheaper stock_linux",
    "today.io_share": "low typical high",
    "today.next_cheaper": "architecture fast_tier_bytes regret",
    "best": "architecture by can_run missing fast_tier_bytes io_time_s io_share",
    "candidates.0": "architecture mean_io_share sizes",
    "candidates.0.sizes.0": "fast_tier_bytes io_share",
    "settings.0": "title note apply undo",
}
"""The fields of `advise swap --json` by their place. Others read them: fields may be added, but
none moves or is renamed."""


def test_no_field_of_an_advice_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = list(rounds(600, 100))
    path = write_steps(tmp_path / "steady.csv", steps, lambda number: 600 * number / len(steps))
    devices = ["--fast", "zram-lz4", "--slow", "ufs-3.1", "--memory", "1GiB"]
    status, output, _ = ran("advise", "swap", path, *devices, "--json", capsys=capsys)
    advice = json.loads(output)
    assert (status, advice["schema"]) == (0, "pagewise.advice/1")
    for place, fields in ADVICE.items():
        found = advice
        for name in filter(None, place.split(".")):
            found = found[int(name)] if name.isdigit() else found[name]
        assert set(fields.split()) <= set(found), place


def test_import_writes_a_trace_and_reports_counts(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.parquet"
    status, text, _ = ran("import", recording, "-o", output, capsys=capsys)
    assert status == 0 and "events" in text and output.exists()
    status, _, diagnostics = ran("import", recording, "-o", output, capsys=capsys)
    assert status != 0 and "exists" in diagnostics
    status, text, _ = ran("import", recording, "-o", output, "--force", "--json", capsys=capsys)
    assert status == 0 and json.loads(text)["accesses"] == ACCESSES
    part = tmp_path / "part.parquet"
    status, _, _ = ran("slice", output, "--from", "1s", "--to", "3s", "-o", part, capsys=capsys)
    assert status == 0 and part.exists()


def test_joined_slices_equal_the_trace_they_were_cut_from(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [tmp_path / f"{name}.parquet" for name in ("a", "b", "c")]
    # The slices overlap: both have the events from 1 s to before 2 s.
    for part, times in zip(parts, (["--to", "2s"], ["--from", "1s"]), strict=False):
        assert ran("slice", trace, *times, "-o", part, capsys=capsys)[0] == 0
    status, output, _ = ran("import", *parts[:2], "-o", parts[2], "--json", capsys=capsys)
    assert status == 0
    report = json.loads(output)
    assert report["skipped"] == {"events that an earlier slice has": 2}
    assert (report["accesses"], report["pages"]) == (ACCESSES, PAGES)
    whole, joined = (
        json.loads(ran("analyze", path, "--by", "process", "--json", capsys=capsys)[1])
        for path in (trace, parts[2])
    )
    for name in ("accesses", "writes", "pages", "processes", "swap"):
        assert joined[name] == whole[name]
    header = pagewise.read(parts[2]).header
    assert (header["start_ns"], header["processes"]) == (
        pagewise.read(trace).header["start_ns"],
        pagewise.read(trace).header["processes"],
    )
    for other in (trace, tmp_path / "small.csv"):
        (tmp_path / "small.csv").write_text(EVENTS)
        status, _, diagnostics = ran("import", parts[0], other, "-o", tmp_path / "d", capsys=capsys)
        assert status == 2 and "only slices of one trace can be joined" in diagnostics
        assert not (tmp_path / "d").exists()


def test_an_empty_slice_is_reported(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = tmp_path / "nothing.parquet"
    status, _, diagnostics = ran("slice", trace, "--from", "1h", "-o", nothing, capsys=capsys)
    assert status == 0 and "no events in that time" in diagnostics
    status, output, diagnostics = ran("analyze", nothing, capsys=capsys)
    assert status == 0 and "has no accesses" in diagnostics
    assert "accesses\t0" in output and "busiest" not in output


def test_unreadable_lines_are_reported_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, output = tmp_path / "bad.csv", tmp_path / "bad.parquet"
    bad.write_text(EVENTS + "5.0,jump,10,0x1,D,anon\n")
    status, _, diagnostics = ran("import", bad, "-o", output, capsys=capsys)
    assert status == 0 and f"{bad}:11: expected" in diagnostics
    assert "found `5.0,jump,10,0x1,D,anon`" in diagnostics
    limit = ["--loss-limit", "1%"]
    status, _, diagnostics = ran("import", bad, "-o", output, "--force", *limit, capsys=capsys)
    assert status == 4 and "lost" in diagnostics
    assert ran("info", output, *limit, capsys=capsys)[0] == 4
    assert ran("info", output, "--loss-limit", "50%", capsys=capsys)[0] == 0
    status, _, diagnostics = ran("import", bad, "-o", output, "--force", "--strict", capsys=capsys)
    assert status == 3 and "bad.csv:11" in diagnostics


def test_columns_that_are_not_read_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, output = tmp_path / "table.csv", tmp_path / "table.parquet"
    table.write_text("time,op,sector,ttl,Queue,size,\n1,R,8,5,3,4096,\n")
    arguments = ["import", table, "-o", output, "--force"]
    status, text, _ = ran(*arguments, capsys=capsys)
    assert status == 0 and "queue, ttl; --map chooses columns" in text
    chosen = [*arguments, "--map", "sector=sector", "--json"]
    status, text, _ = ran(*chosen, capsys=capsys)
    assert json.loads(text)["unused_columns"] == ["op", "queue", "size", "time", "ttl"]
    table.write_text("time,op,sector\n1,R,8\n")
    status, text, _ = ran(*arguments, capsys=capsys)
    assert status == 0 and "not read" not in text


def test_a_file_without_a_readable_line_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, output = tmp_path / "bad.csv", tmp_path / "bad.parquet"
    bad.write_text("time,op,sector\nsoon,R,here\nlater,W,there\n")
    status, _, diagnostics = ran("import", bad, "-o", output, capsys=capsys)
    assert status == 3, "a file without any event is not of this format"
    assert f"{bad}:2: no line can be read as blockcsv; expected" in diagnostics
    assert list(tmp_path.iterdir()) == [bad], "a trace file is left"


def test_results_of_a_sweep_are_not_taken_as_a_trace(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, results = tmp_path / "spec.toml", tmp_path / "results.parquet"
    spec.write_text(
        f"traces = ['{trace}']\nsizes = ['64KiB']\n[[device]]\nfast = '4/5us'\nslow = '90/40us'\n"
        "[[architecture]]\nname = 'flash'\n"
    )
    assert ran("sweep", spec, "-o", results, capsys=capsys)[0] == 0
    status, _, diagnostics = ran("info", results, capsys=capsys)
    assert status == 3 and "holds results of pagewise sweep, not a trace" in diagnostics
    assert "pagewise report" in diagnostics and "damaged" not in diagnostics


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["analyze", "absent"], 3, "absent"),
        (["analyze"], 2, "missing: TRACE\n  TRACE  A trace file"),
        (["misses"], 2, "missing: TRACE..., --policy NAME[:OPTION=VALUE,...][,...], --frames"),
        (["misses", "TRACE", "--frames", "1"], 2, "missing: --policy NAME[:OPTION"),
        (["import", "a.csv"], 2, "missing: -o, --output TRACE\n"),
        (["analyze", "TRACE", "--top", "3"], 2, "add --by process"),
        (["analyze", "TRACE", "--by", "process", "--top", "0"], 2, "not in the range 1 or more"),
        (["analyze", "TRACE", "--as", "swap"], 2, "is a trace file"),
        (["info", "TRACE", "--format", "events"], 2, "leave out --format, or import"),
        (["misses", "TRACE", "--policy", "lru", "--frames", "1", "--as", "objects"], 2, "--as"),
        ([*SIMULATE, "--as", "block"], 2, "leave out --as, or import the recording again"),
        ([*ADVISE, "--map", "id=a"], 2, "leave out --map, or import the recording again"),
        (["nonsense"], 2, "No such command"),
        (["misses", "TRACE", "--policy", "mru", "--frames", "1"], 2, "mru"),
        (["misses", "TRACE", "--policy", "lru", "--frames", "lots"], 2, "not a size"),
        (["analyze", "TRACE", "--by", "colour"], 2, "only by process"),
        (["list", "colours"], 2, "nothing to list"),
        (["slice", "TRACE", "--from", "soon", "-o", "x"], 2, "not a time"),
        (
            ["slice", "TRACE", "--from", "3s", "--to", "1s", "-o", "x"],
            2,
            "the time from 3s to 1s is empty",
        ),
        (["slice", "TRACE", "-o", "."], 2, "not a regular file: name another output"),
        (["slice", "TRACE", "-o", "TRACE", "--force"], 2, "an input as well: name another output"),
        (["slice", "TRACE", "-o", "-"], 2, '"-": name a file'),
        (["slice", "TRACE", "-o", ""], 2, '"": name a file'),
        (["slice", "TRACE", "-o", "absent/x"], 3, "absent/x: there is no folder absent"),
        (["report", "TRACE", "-o", "absent/report.html"], 3, "cannot write to the folder absent"),
        (["report", "TRACE", "-o", "absent/report.html"], 3, "that exists and that you may write"),
        (["report", "TRACE", "-o", "TRACE", "--force"], 2, "name another file for the report"),
        (["demo", "--report", "absent/report.html"], 3, "cannot write to the folder absent"),
        (["study", "multiswap", "--report", "absent/x.html"], 3, "to the folder absent"),
        (["study", "multiswap", "--report", "."], 2, "not a regular file"),
        (["study", "multiswap", "--report", "TRACE"], 2, " exists"),
        (["sweep", "SPEC", "-o", "absent/x"], 3, "cannot write to the folder absent"),
        (["report", "TRACE", "-o", "-"], 2, "'-' is not the name of a file"),
        (["report", "TRACE", "-o", ""], 2, "not a regular file"),
        (["report", "TRACE", "-o", "."], 2, "name another file"),
        (["info", "TRACE", "--map", "time=a,time=b"], 2, "two columns for time"),
        ([*SIMULATE, "--option", "a=1", "--option", "a=2"], 2, "option a is given twice"),
        ([*ADVISE, "--reference", "nonesuch"], 2, "nonesuch: neither a file nor a size"),
        (["devices", "probe", "absent"], 2, "not a folder"),
        (["advise", "swap", BLOCKS], 1, "not swap: block requests mix the I/O of files"),
        (
            ["advise", "swap", BLOCKS, "--fast", "1/1us"],
            1,
            "record at least 60 s of the load that makes",
        ),
        (
            ["simulate", "TRACE", "--fast", "4/5us"],
            2,
            "missing: --architecture NAME, --fast-tier SIZE, --slow DEVICE\n",
        ),
        (
            ["simulate"],
            2,
            "missing: TRACE, --architecture NAME, --fast-tier SIZE, --fast DEVICE, --slow DEVICE\n",
        ),
        (["simulate", "--as-recorded"], 2, "missing: TRACE\n"),
        ([*SIMULATE, "--architecture", ""], 2, "no architecture ''; known are"),
        (["simulate", "TRACE", "--as-recorded"], 3, "expected a recording of `pagewise-agent sw"),
        (["simulate", "absent", "--as-recorded", "--moves", "moves.csv"], 3, "absent"),
        ([*SIMULATE, "--moves", "moves.csv"], 2, "--moves needs --as-recorded"),
        ([*SIMULATE, "--as-recorded"], 2, "so it goes without --architecture, --fast-tier"),
        (
            ["record", "-o", "x"],
            2,
            "record is a command of pagewise-agent: pagewise-agent record\n",
        ),
        (["zram"], 2, "zram is a command of pagewise advise: pagewise advise zram\n"),
        (["probe", "."], 2, "probe is a command of pagewise devices: pagewise devices probe\n"),
        (["remote", "board", "record", "--ring", "10min", "-o", "kept"], 2, "takes no --ring"),
        (["remote", "board", "record", "--ring=10min"], 2, "docs/recording.md"),
        (["remote", "board", "record", "-o", "TRACE"], 2, "name another file: `remote` replaces"),
        (["remote", "board", "record", "-o", "absent/x"], 3, "cannot write to the folder absent"),
        ([*SIMULATE, "--slow", "ufs3.1"], 2, "\n  Did you mean ufs-3.1?\n"),
        ([*SIMULATE, "--fast", "zram"], 2, "\n  Did you mean zram-lz4 or zram-zstd?\n"),
        ([*SIMULATE, "--architecture", "hybird"], 2, "\n  Did you mean hybrid?\n"),
        (["misses", "TRACE", "--policy", "lru2", "--frames", "1MiB"], 2, "Did you mean lru"),
        (["list", "polices"], 2, "Did you mean policies"),
    ],
)
def test_a_refusal_has_its_status_and_reason(
    trace: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    status: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"TRACE": str(trace), "SPEC": str(EXAMPLES / "sweep.toml")}
    given = [files.get(argument, argument) for argument in arguments]
    code, output, diagnostics = ran(*given, capsys=capsys)
    assert (code, output) == (status, "")
    assert diagnostics.startswith("pagewise: ") and message in diagnostics
    assert "Traceback" not in diagnostics
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("row", pagewise.commands.COMMANDS, ids=lambda row: row.name)
def test_help_says_purpose_and_example(
    row: pagewise.commands.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output, _ = ran(row.name, "--help", capsys=capsys)
    assert status == 0
    assert "\nExamples:\n  pagewise " in output


def test_flash_only_has_the_replay_options_of_the_architecture(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recording = EXAMPLES / "phone-2g" / "phone-2g.pgr"
    arguments = ["--architecture", "flash", "--fast-tier", "0", "--option", "readahead=recorded"]
    _, output, _ = ran("simulate", recording, *arguments, *DEVICES, capsys=capsys)
    rows = [line.split() for line in output.splitlines()]
    slow, alone = (
        [row[1:3] for row in rows if row[:1] == [name]] for name in ("slow", "flash-only")
    )
    assert len(slow) == 1 and slow == alone


def test_simulate_shows_the_queue_and_the_pages_read_ahead(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recording = EXAMPLES / "phone-2g" / "phone-2g.pgr"
    plain = ["--architecture", "flash", "--fast-tier", "0", *DEVICES]
    asked = [*plain, "--option", "queueing=yes", "--option", "readahead=kernel"]
    _, output, _ = ran("simulate", recording, *asked, capsys=capsys)
    lines = [" ".join(line.split()) for line in output.splitlines()]
    assert any(re.match(r"queue time .*100\.0 % of flash-only", line) for line in lines)
    assert any(re.match(r"pages read ahead [\d,]+, .* % of them used", line) for line in lines)
    assert "queueing yes whether operations wait while the slow device is busy" in lines
    _, output, _ = ran("simulate", recording, *asked, "--json", capsys=capsys)
    found = json.loads(output)
    assert found["queue_time_s"] > 0
    assert found["readahead_pages"]["read"] > found["readahead_pages"]["used"] > 0
    _, output, _ = ran("simulate", recording, *plain, "--json", capsys=capsys)
    assert not {"queue_time_s", "readahead_pages"} & set(json.loads(output))


def test_the_format_of_an_early_recorder_says_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, trace = SEEDS / "pgw" / "small", tmp_path / "early.parquet"
    words = "pgw, the layout of an early recorder\n"
    _, output, _ = ran("import", recording, "-o", trace, capsys=capsys)
    assert f"format\t{words}" in output
    _, output, _ = ran("info", trace, capsys=capsys)
    assert f"kind\tswap, imported from {words}" in output
    _, output, _ = ran("list", "formats", capsys=capsys)
    assert "pgw\tthe layout of an early recorder: swap" in output


def test_names_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "[bold]\x1b[31m.json"
    output = tmp_path / "report.html"
    status, _, diagnostics = ran("report", report, "-o", output, capsys=capsys)
    assert status == 3 and "\x1b" not in diagnostics and "[bold]" in diagnostics


def test_option_pairs_are_parsed_or_refused() -> None:
    assert name_values(["a=1", " b = c=d "]) == {"a": "1", "b": "c=d"}
    with pytest.raises(UsageError, match="not NAME=VALUE"):
        name_values(["a"])


def test_a_closed_pipe_is_quiet(trace: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [*PAGEWISE, "analyze", str(trace), "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        timeout=300,
    )
    os.close(writer)
    assert (run.returncode, run.stderr) == (0, b"")


def reads(process: int, path: Path) -> bool:
    """Whether the process has the file open."""
    return any(link.resolve() == path for link in Path(f"/proc/{process}/fd").iterdir())


def test_an_interrupted_command_ends_with_status_130(tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    fifo = tmp_path / "endless"
    os.mkfifo(fifo)
    command = [*PAGEWISE, "import", str(fifo), "-o", str(output), "--format", "ids"]
    with (
        running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        killed_after(120, process),
    ):
        # Open for reading and writing, since opening it only for writing would wait for a reader.
        keeping = os.open(fifo, os.O_RDWR)
        with open(fifo, "wb", buffering=0) as pipe:
            assert within(60, lambda: reads(process.pid, fifo)), (
                "the command does not open its input"
            )
            os.close(keeping)
            try:
                for turn in range(200):
                    pipe.write(b"".join(b"%d\n" % number for number in range(20_000)))
                    if turn == 20:
                        process.send_signal(signal.SIGINT)
            except BrokenPipeError:
                pass
        assert process.wait(timeout=60) == 130
        assert b"Traceback" not in process.stderr.read()
    assert [path.name for path in tmp_path.iterdir()] == ["endless"]


@pytest.mark.parametrize("command", ["--help", "misses TRACE --policy lru --frames 1 --json"])
def test_a_question_imports_no_slow_module(trace: Path, command: str) -> None:
    code = (
        "import sys; from pagewise import cli;"
        "status = cli.run(sys.argv[1:]);"
        "heavy = {'scipy', 'numpy', 'jinja2', 'ray', 'pagewise_studies'} & set(sys.modules);"
        "sys.exit(status or ', '.join(heavy) or 0)"
    )
    arguments = command.replace("TRACE", str(trace)).split()
    subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=300
    )


def test_report_and_demo_write_a_report(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    status, output, _ = ran("report", trace, "-o", page, "--json", capsys=capsys)
    assert status == 0 and json.loads(output)["bytes"] == page.stat().st_size
    assert ran("report", trace, "-o", page, capsys=capsys)[0] == 2
    demo = tmp_path / "demo.html"
    arguments = ["--recordings", trace.parent, "--report", demo]
    for _ in range(2):
        status, output, diagnostics = ran("demo", *arguments, capsys=capsys)
        assert (status, diagnostics) == (0, "")
    assert "used once" in output and "adaptive" in output and "take" in output
    assert str(demo) in output.replace("\n", "")
    assert demo.stat().st_size > 500_000
    # The command above replaced its own report; it must not replace another file.
    before = page.read_bytes()
    arguments = ["--recordings", trace.parent, "--report", page]
    status, _, diagnostics = ran("demo", *arguments, capsys=capsys)
    assert status == 2 and "demo did not make it" in diagnostics
    assert page.read_bytes() == before
