"""Commands to paste are printed as in the JSON, on a terminal of any width; prose wraps."""

import dataclasses
import json
import math
import random
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import EVENTS
from scenarios import rounds, write_steps
from terminals import HUNG_S, ROOT, on_a_terminal

import pagewise as pw
from pagewise.advice.page_size import TARGETS
from pagewise.advice.setting import Setting
from pagewise.commands import COMMANDS, study
from pagewise.commands.info import command_of
from pagewise.table_layout import Column, layout, lines
from pagewise.wrapping import COMMAND, columns, wrapped

PAGEWISE = Path(sys.executable).with_name("pagewise")
RECORDINGS = {"STEADY": (300, 40), "BRIEF": (200, 20)}
"""Pages and rounds of a load that repeats: enough for a size, and too few."""
SWAP = "advise swap STEADY --fast zram-lz4 --slow ufs-3.1"
PAGE_SIZE = (
    "advise pagesize examples/page-size/photo.pwf --memory 80% --storage optane-ssd --target"
)
ADVICE = {
    "swap": SWAP,
    **{target: f"{PAGE_SIZE} {target}" for target in ("x86-mthp", "arm64-16k", "boot-line")},
    "pagesize": "pagesize examples/page-size/photo.pwf --storage optane-ssd --target x86-mthp",
}
"""Commands with settings in their advice."""
WIDTHS = [(name, 40) for name in ADVICE]
WIDTHS += [(name, columns) for name in ("swap", "pagesize") for columns in (80, 200)]
EXAMPLES = {line.split()[2]: line for line in study.EXAMPLES[::-1]}


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The recordings, and a block trace."""
    folder = tmp_path_factory.mktemp("recordings")
    found = {"BLOCKS": folder / "blocks.csv"}
    requests = [f'{number},other,"254,0",R,{number * 8},8\n' for number in range(100)]
    found["BLOCKS"].write_text("time_us,process,device,op,sector,sectors\n" + "".join(requests))
    for name, (pages, count) in RECORDINGS.items():
        steps = list(rounds(pages, count))
        seconds = 600 / len(steps)
        found[name] = folder / f"{name.lower()}.csv"
        write_steps(found[name], steps, lambda number, seconds=seconds: number * seconds)
    return found


def command_line(text: str, places: dict[str, Path]) -> list[str]:
    return [str(PAGEWISE), *(str(places.get(word, word)) for word in text.split())]


@pytest.fixture(scope="session")
def settings(places: dict[str, Path]) -> dict[str, list[dict[str, str]]]:
    """The settings in the JSON of each advice."""
    found = {}
    for name, text in ADVICE.items():
        command = [*command_line(text, places), "--json"]
        answer = json.loads(subprocess.check_output(command, cwd=ROOT, timeout=HUNG_S))
        found[name] = answer.get("advice", answer)["settings"]
        assert found[name], name
    return found


@pytest.mark.parametrize(("name", "columns"), WIDTHS)
@pytest.mark.slow
def test_lines_to_paste_are_not_wrapped(
    name: str,
    columns: int,
    places: dict[str, Path],
    settings: dict[str, list[dict[str, str]]],
) -> None:
    shown = on_a_terminal(command_line(ADVICE[name], places), columns)
    for setting in settings[name]:
        assert f"\n{setting['apply']}\nTo undo:\n{setting['undo']}\n" in shown, shown


@pytest.fixture(scope="session")
def every_setting(settings: dict[str, list[dict[str, str]]]) -> list[tuple[str, Setting]]:
    """The settings of each target for its largest size, and those of each advice."""
    by_target = [
        (target.name, setting)
        for target in TARGETS
        for setting in target.settings(target.sizes()[-1])
    ]
    by_command = [(name, Setting(**setting)) for name in ADVICE for setting in settings[name]]
    return by_target + by_command


def is_read_by_a_shell(script: str) -> bool:
    """Whether bash finds no error in it."""
    command = ["bash", "-n"]
    run = subprocess.run(command, input=script, text=True, capture_output=True, timeout=HUNG_S)
    return (run.returncode, run.stderr) == (0, "")


@pytest.mark.slow
def test_lines_to_paste_are_scripts_that_a_shell_reads(
    every_setting: list[tuple[str, Setting]],
) -> None:
    for name, setting in every_setting:
        for script in (setting.apply, setting.undo):
            assert is_read_by_a_shell(script), f"{name}: {script}"


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.slow
def test_lines_of_every_target_are_printed_as_they_are(
    columns: int, every_setting: list[tuple[str, Setting]]
) -> None:
    source = (
        "import json, sys; from pagewise.terminal import pasted, show;"
        "show(*pasted(json.load(open(sys.argv[1]))))"
    )
    found = [dataclasses.asdict(setting) for _, setting in every_setting]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(found, file)
        file.flush()
        shown = on_a_terminal([sys.executable, "-c", source, file.name], columns)
    for setting in found:
        assert f"\n{setting['apply']}\nTo undo:\n{setting['undo']}\n" in shown


HINTS = {
    "analyze": (["analyze", "EMPTY"], "pagewise info EMPTY"),
    "slice": (["slice", "TRACE", "--from", "1h", "-o", "OUT"], "pagewise info TRACE"),
    "capture": (["capture", "-o", "OUT", "--", "EMPTY"], "chmod +x EMPTY"),
    "info": (
        ["info", "examples/kills/grow.pgr"],
        "pagewise replay-kills examples/kills/grow.pgr --policy largest",
    ),
    "info of a foreign table": (
        ["info", "FOREIGN"],
        "pagewise import FOREIGN -o trace.parquet --as block --map "
        "time=COLUMN,op=COLUMN,sector=COLUMN",
    ),
    "study thrash": (["study", "thrash"], EXAMPLES["thrash"]),
    "study lazy-unmap": (["study", "lazy-unmap"], EXAMPLES["lazy-unmap"]),
    "advise pagesize": (
        [*PAGE_SIZE.replace("optane-ssd", "4/5us").split()[:-1]],
        "pagewise devices probe FOLDER",
    ),
    "pagesize": (
        ["pagesize", "examples/page-size/photo.pwf", "--storage", "4/5us"],
        "pagewise devices probe FOLDER",
    ),
}
"""Commands that print another command in a hint."""


@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.parametrize("name", HINTS)
@pytest.mark.slow
def test_commands_in_hints_can_be_pasted(name: str, columns: int, tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder; of a name that is longer than 40 letters"
    folder.mkdir()
    places = {"EMPTY": folder / "empty.csv", "TRACE": folder / "trace", "OUT": folder / "out"}
    places["FOREIGN"] = folder / "foreign.csv"
    places["FOREIGN"].write_text("foo,bar,baz\n1,2,3\n2,3,4\n")
    places["EMPTY"].write_text("time_s,event,process,page,state,kind\n")
    whole = folder / "small.csv"
    whole.write_text(EVENTS)
    pw.import_trace(whole, places["TRACE"])
    words, command = HINTS[name]
    for place, path in places.items():
        command = command.replace(place, shlex.quote(str(path)))
    shown = on_a_terminal(
        [PAGEWISE, *(str(places.get(word, word)) for word in words)], columns, has_errors=True
    )
    assert re.search(re.escape(command) + "[`\r\n]", shown), shown
    assert is_read_by_a_shell(command), command


@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.parametrize("recording", ["allocations/arrays.pgr", "page-size/photo.pwf"])
@pytest.mark.slow
def test_a_recorded_command_can_be_pasted(recording: str, columns: int) -> None:
    path = f"examples/{recording}"
    words = command_of(pw.info(ROOT / path))
    shown = on_a_terminal([PAGEWISE, "info", path], columns)
    assert words and f"command: {shlex.join(words)}\n" in shown, shown


@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.slow
def test_the_reserve_line_of_a_guest_can_be_pasted(columns: int, tmp_path: Path) -> None:
    spec, guests = tmp_path / "vms.toml", tmp_path / "a folder of guests"
    workload = ROOT / "examples" / "page-size" / "photo.pwf"
    spec.write_text(
        f'storage = "optane-ssd"\n[[vm]]\nname = "vm-1"\nworkload = "{workload}"\n'
        'memory = "60%"\nhost_huge_pages = true\n'
    )
    command = ["pagesize", "apply", str(spec), "-o", str(guests), "--force"]
    printed = subprocess.check_output([PAGEWISE, *command, "--json"], timeout=HUNG_S)
    (guest,) = json.loads(printed)["guests"]
    shown = on_a_terminal([PAGEWISE, *command], columns, has_errors=True)
    (reserve,) = (note for note in guest["notes"] if "nr_hugepages" in note)
    script = reserve.partition("start it: ")[2]
    assert script and script in shown
    scripts = [script, (guests / "vm-1/undo").read_text()]
    scripts += [setting[part] for setting in guest["settings"] for part in ("apply", "undo")]
    for script in scripts:
        assert is_read_by_a_shell(script), script


PROSE = {
    "advise": "advise swap BRIEF --fast zram-lz4 --slow ufs-3.1",
    "block trace": "advise swap BLOCKS --fast zram-lz4 --slow ufs-3.1",
    "replay-kills": "replay-kills examples/kills/grow.pgr --policy minfree",
    "pages of files": "advise swap examples/phone.perfetto-trace.gz --fast zram-lz4 --slow ufs-3.1",
    "fleet": "launches examples/s0-kill",
    "error": "simulate examples/phone-2g/phone-2g.pgr --architecture hierarchical "
    "--fast-tier 64MiB --fast 4/5us --slow no-device-of-this-name",
    "info": "info examples/kills/grow.pgr",
}
"""Commands that print sentences, in lines of their own or beside a name."""


@pytest.fixture(scope="session")
def piped(places: dict[str, Path]) -> dict[str, list[str]]:
    """The lines that each such command writes to pipes, which no width limits."""
    found = {}
    for name, text in PROSE.items():
        command = command_line(text, places)
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HUNG_S)
        found[name] = (run.stderr + run.stdout).splitlines()
    return found


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("name", PROSE)
@pytest.mark.slow
def test_prose_wraps_at_the_width_and_loses_no_word(
    name: str, columns: int, places: dict[str, Path], piped: dict[str, list[str]]
) -> None:
    shown = on_a_terminal(command_line(PROSE[name], places), columns, has_errors=True)
    longer = [line for line in shown.splitlines() if len(line) > columns]
    # A path or a command is never broken.
    assert all(COMMAND.search(line) or " " not in line.strip() for line in longer), longer
    words = " ".join(shown.split())
    for line in piped[name]:
        _, tab, text = line.partition("\t")
        if "\t" not in text:  # not a row of figures
            assert " ".join((text if tab else line).split()) in words, line


TABLES = {
    "devices": (2, "devices"),
    "processes": (1, "analyze examples/phone-1g/phone-1g.pgr --by process"),
    "misses": (1, "misses STEADY --policy lru,lru-k:k=3,s3-fifo,arc,lirs --frames 16MiB,1GiB"),
    "advice": (1, SWAP),
}
"""Commands with tables, and how many columns at the left are words."""


@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.slow
def test_figures_are_not_broken_across_lines(
    name: str, columns: int, places: dict[str, Path]
) -> None:
    words, text = TABLES[name]
    command = command_line(text, places)
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HUNG_S)
    shown = on_a_terminal(command, columns)
    _, *rows = [line.split("\t") for line in run.stdout.splitlines() if line.count("\t") > 1]
    assert rows, run.stdout
    for row in rows:
        for figure in row[words:]:
            whole = re.compile(rf"{re.escape(row[0])}(?!\S).*(?<!\S){re.escape(figure)}(?!\S)")
            found = [line for line in shown.splitlines() if whole.match(line)]
            assert found and max(map(len, found)) <= columns, (row, shown)


def test_columns_of_any_table_fit_and_lose_nothing() -> None:
    draws = random.Random(seed := 20261126)
    for _ in range(500):
        rows = draws.randint(0, 4)
        columns = [
            Column(
                draws.choice(["", "a", "two words", "lru-k\nk=3"]),
                [
                    " ".join("x" * draws.randint(1, 9) for _ in range(draws.randint(1, 3)))
                    for _ in range(rows)
                ],
                number < draws.randint(0, 3),
            )
            for number in range(draws.randint(1, 6))
        ]
        width = draws.randint(41, 90)
        tables = list(layout(columns, width))
        assert [column for table in tables for column, _ in table[1:]] == columns[1:], seed
        for table in tables:
            assert table[0][0] is columns[0], seed
            shown = [line for line, _ in lines(table)]
            assert all(len(line) <= width for line in shown), (seed, width, shown)
            for column, _ in table[1:]:
                for text in [] if column.is_words else column.cells:
                    assert any(text in line for line in shown), (seed, width, shown)


def test_a_long_name_leaves_room_for_its_figures() -> None:
    columns = [Column("process", ["n" * 100], True), Column("count", ["1,234,567"], False)]
    [table] = layout(columns, 40)
    assert [line for line, _ in lines(table)] == [
        "process" + " " * 28 + "count",
        "n" * 29 + "  1,234,567",
        *["n" * 29] * 2,
        "n" * 13,
    ]


def test_a_path_with_blanks_is_not_wrapped(tmp_path: Path) -> None:
    path = tmp_path / "a recording in a folder with many blanks" / "and a name.parquet"
    shown = on_a_terminal([PAGEWISE, "info", path], 40, has_errors=True)
    assert str(path) in shown


def test_wrapping_keeps_words_and_commands() -> None:
    draws = random.Random(seed := 20261125)
    for _ in range(2000):
        words = ["x" * draws.randint(1, 12) for _ in range(draws.randint(0, 12))]
        commands = draws.choice([[], ["`sync; a b c`"], ["see:", "cat 'a; b' 'c: d';", "x"]])
        position = draws.randint(0, len(words))
        words[position:position] = commands
        text = " " * draws.choice([0, 0, 2]) + " ".join(words)
        width, indent = draws.randint(1, 60), draws.choice([0, 0, 4])
        lines = wrapped(text, width, indent=indent)
        assert " ".join(" ".join(lines).split()) == " ".join(text.split()), seed
        assert all(command in "\n".join(lines) for command in commands), seed
        for number, line in enumerate(lines):
            has_room = len(line) + (indent if number == 0 else 0) <= width
            assert has_room or line.strip() in words, (seed, width, lines)


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("to see it: pagewise info 'a: b'; then it is known", ["pagewise info 'a: b'"]),
        ("pagewise list formats: every format that pagewise reads", ["pagewise list formats"]),
        ("on Android, and pagewise reads no trace of a phone", []),
        ("what pagewise's core wrote; cat x", ["cat x"]),
        ("(zcat x) | pagewise import - -o it's", ["pagewise import - -o it's"]),
        ("use `pagewise info`. Then pagewise knows", ["`pagewise info`"]),
    ],
)
def test_a_command_without_backticks_begins_and_ends_with_a_part_of_a_sentence(
    text: str, commands: list[str]
) -> None:
    assert COMMAND.findall(text) == commands


def test_a_word_that_is_too_long_beside_a_name_has_a_smaller_margin() -> None:
    digest = "0" * 64
    [(_, lines)] = columns([("does not answer", f"x.parquet  sha256 {digest}")], 80)
    assert lines == ["x.parquet  sha256", " " * 16 + digest]
    [(_, lines)] = columns([("does not answer", f"x.parquet  sha256 {digest}")], 60)
    assert lines == ["x.parquet  sha256", digest]


def test_a_long_name_leaves_the_other_values_beside_theirs() -> None:
    rows = [("kind", "swap"), ("n" * 50, "one two"), ("events", "1,234")]
    assert columns(rows, 80) == [
        ("kind    ", ["swap"]),
        ("n" * 50, ["", " " * 8 + "one two"]),
        ("events  ", ["1,234"]),
    ]
    assert columns(rows[1:2], 40) == [("n" * 50, ["", "    one two"])]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_errors_about_missing_arguments_break_no_command(columns: int) -> None:
    shown = on_a_terminal([PAGEWISE, "simulate", "x"], columns, has_errors=True)
    assert "`pagewise list architectures`" in shown and "`pagewise devices`" in shown, shown


def test_a_terminal_that_is_not_one_does_not_wrap() -> None:
    assert wrapped("a b c", math.inf) == ["a b c"]


def test_examples_of_commands_are_read_by_a_shell() -> None:
    for row in COMMANDS:
        for example in row.examples:
            assert is_read_by_a_shell(example), example
