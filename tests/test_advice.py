"""`pagewise advise swap`: sizes, ranges, references, and settings with an undo."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scenarios import write_steps
from terminals import on_a_terminal

import pagewise as pw
from pagewise import _core
from pagewise.advice import evidence, reference, stock_linux
from pagewise.advice.costs import AT
from pagewise.advice.memory import Board, board
from pagewise.advice.swap import Question, advise_swap
from pagewise.advice.trial import Trial
from pagewise.cli import run
from pagewise.commands.advise import curves, described
from pagewise.errors import UsageError
from pagewise.grids.traces import numbered_meanwhile
from pagewise.launch_runs import read_run
from pagewise.terminal import show
from pagewise.units import format_share, format_size

MIB = 2**20
DEVICES = ["--fast", "4/5us", "--slow", "90/40us"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A phone whose apps want twice its memory."""
    path = tmp_path_factory.mktemp("advice") / "phone.parquet"
    parameters = {"apps": 8, "footprint_mib": 12, "memory_mib": 40, "libraries_mib": 4}
    _core.write_scenario(json.dumps(parameters | {"services_mib": 4, "rounds": 20}), str(path))
    return path


@pytest.fixture(scope="module")
def advice(trace: Path) -> dict:
    devices = {"fast": "zram-lz4", "slow": "emmc-5.1"}
    alone = advise_swap(trace, **devices)["alone"]
    return advise_swap(trace, **devices, reference=str(alone["io_bytes"] // 2))


def test_the_advised_architecture_is_the_best_of_the_candidates(advice: dict):
    shares = {row["architecture"]: row["mean_io_share"] for row in advice["candidates"]}
    assert shares[advice["architecture"]["name"]] <= min(shares.values()) + 0.005
    assert "clairvoyant" not in shares
    holds = advice["architecture"]["holds_in"]
    assert 1 <= holds["combinations"] <= holds["of"] == 9


def test_ranges_enclose_the_typical_figure(advice: dict):
    worth = advice["worth"]
    for value in (worth["io_time_s"], worth["io_share"], worth["next_cheaper"]["regret"]):
        assert value["low"] <= value["typical"] <= value["high"]
    assert worth["io_time_s"]["low"] < worth["io_time_s"]["high"]
    assert worth["io_time_s"]["typical"] < advice["alone"]["io_time_s"]["typical"]
    assert worth["next_cheaper"]["fast_tier_bytes"] < worth["fast_tier_bytes"]


def test_the_next_cheaper_choice_is_the_best_at_the_smaller_size(trace: Path):
    """`priority` is best at the larger size only, and `nvm-cache` is not on stock Linux."""
    with numbered_meanwhile(pw.read(trace)) as found:
        question = Question(found, "zram-lz4", "emmc-5.1")
        [outcome] = question.outcomes([("flash", 0)])
        devices = question.described(None)

    def slow_reads(reads: int) -> dict:
        return {**outcome, "slow": {**outcome["slow"], "reads": reads, "writes": 0}}

    by_size = {"priority": (90, 40), "hierarchical": (60, 50), "nvm-cache": (50, 30)}
    outcomes = {
        name: {size: slow_reads(reads) for size, reads in zip((MIB, 2 * MIB), each, strict=True)}
        for name, each in by_size.items()
    }
    limit = board(devices.fast, 64 * MIB, 3.0)
    trial = Trial(devices, limit, slow_reads(100), outcomes)
    assert trial.availability("nvm-cache") is None
    found = {
        (name, size): trial.at_size(name, size)["next_cheaper"]
        for name, size in (("priority", 2 * MIB), ("nvm-cache", 2 * MIB), ("priority", MIB))
    }
    for (name, size), other, smaller, more in (
        (("priority", 2 * MIB), "hierarchical", MIB, 60 / 40 - 1),
        (("nvm-cache", 2 * MIB), "nvm-cache", MIB, 50 / 30 - 1),
        (("priority", MIB), None, 0, 100 / 90 - 1),
    ):
        cheaper = found[name, size]
        assert (cheaper["architecture"], cheaper["fast_tier_bytes"]) == (other, smaller)
        assert cheaper["regret"]["typical"] == pytest.approx(more)


def test_an_architecture_that_decides_by_latency_is_replayed_at_each_latency(trace: Path):
    with numbered_meanwhile(pw.read(trace)) as found:
        question = Question(found, "dram", "ufs-3.1")
        devices = question.described(None)
        assert len(devices.other_latencies()) == len(devices.corners()) - 1
        adaptive, hybrid = question.outcomes(
            [("adaptive", 32768), ("hybrid", 32768)], devices.other_latencies()
        )
    assert set(adaptive[AT]) == set(devices.other_latencies()) and hybrid[AT] == {}
    for corner in devices.corners():
        fast, slow = devices.latencies(corner)
        alone = pw.simulate(trace, architecture="adaptive", fast_tier="32KiB", fast=fast, slow=slow)
        assert devices.io_time_s(adaptive, corner) == pytest.approx(alone["io_time_s"])
    assert devices.io_time_s(hybrid) == pytest.approx(hybrid["io_time_s"])


def test_the_advised_size_reaches_the_reference_and_the_next_smaller_does_not(advice: dict):
    found = advice["reference"]
    limit = advice["alone"]["io_bytes"] // 2
    assert found["io_bytes"] == limit
    curve = next(
        row["sizes"]
        for row in advice["candidates"]
        if row["architecture"] == advice["architecture"]["name"]
    )
    by_size = {row["fast_tier_bytes"]: row["slow_bytes"] for row in curve}
    size = found["fast_tier_bytes"]
    assert by_size[size] <= limit
    smaller = [other for other in by_size if other < size]
    assert not smaller or by_size[max(smaller)] > limit


def test_a_reference_is_a_size_a_run_a_result_or_a_recording(trace: Path, tmp_path: Path):
    assert reference.parse("2MiB").io_bytes == 2 * MIB
    result = tmp_path / "simulate.json"
    result.write_text(json.dumps({"slow": {"reads": 3, "writes": 4}}))
    assert reference.parse(str(result)).io_bytes == 7 * 4096
    run = Path(__file__).resolve().parents[1] / "examples" / "kill-1g"
    assert reference.parse(str(run)).io_bytes == read_run(run).io_bytes > 0
    assert reference.parse(str(trace)).io_bytes > 0
    with pytest.raises(UsageError, match="neither a file nor a size"):
        reference.parse("absent/result.json")


def boards(fast: str) -> Board | None:
    return board(_core.device(fast), None, None)


@pytest.mark.parametrize("fast", ["zram-lz4", "optane-ssd"])
@pytest.mark.parametrize("size", [None, 256 * MIB])
def test_every_setting_has_an_undo_and_is_valid_shell(fast: str, size: int | None):
    for setting in stock_linux.settings(boards(fast), size):
        for text in (setting.apply, setting.undo):
            assert text.strip()
            checked = subprocess.run(
                ["sh", "-n"], input=text, text=True, capture_output=True, timeout=300
            )
            assert checked.returncode == 0, checked.stderr


def test_settings_have_the_advised_sizes():
    texts = [setting.apply for setting in stock_linux.settings(boards("zram-lz4"), 256 * MIB)]
    assert "zram-size = 256" in texts[0]
    assert "--size 256MiB" in texts[1]
    assert str(round(256 * 1024 / 2.06)) in texts[2]


def test_a_cache_on_a_device_is_as_large_as_advised():
    writecache, cache, _ = stock_linux.settings(boards("optane-ssd"), 256 * MIB, "hierarchical")
    assert "'0 524288 linear /dev/FAST 0'" in writecache.apply
    # 8192 blocks of 64 sectors behind 4 MiB and 16 bytes a block of metadata.
    assert "'0 10240 linear /dev/FAST 0'" in cache.apply
    assert "'0 524288 linear /dev/FAST 10240'" in cache.apply
    assert "of 256 MiB" in writecache.note and "of 261 MiB" in cache.note


def test_zswap_and_dm_writecache_are_the_hierarchical_architecture():
    assert stock_linux.availability("hierarchical", boards("zram-lz4")) == "zswap"
    assert stock_linux.availability("hierarchical", boards("optane-ssd")) == "dm-writecache"
    assert stock_linux.availability("priority", boards("optane-ssd")) == "swap priorities"
    assert stock_linux.availability("hybrid", boards("zram-lz4")) is None


@pytest.mark.slow
def test_the_command_prints_the_same_object_and_text(trace: Path, capsys: pytest.CaptureFixture):
    arguments = ["advise", "swap", str(trace), "--fast", "zram-lz4", "--slow", "emmc-5.1"]
    assert run([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["schema"] == "pagewise.advice/1"
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert result["architecture"]["name"] in text
    assert "undo" in text


@pytest.fixture(scope="module")
def clocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 pages go out one after the other and come in again, twenty times in one second."""
    path = tmp_path_factory.mktemp("clocked") / "busy.csv"
    lines = ["time_s,event,process,page,state,kind"]
    for number in range(24_000):
        time, page = number / 24_000, number % 600
        is_in = number // 600 % 2
        lines.append(f"{time:.6f},{'in' if is_in else 'out'},1,{page},{'' if is_in else 'D'},anon")
    path.write_text("\n".join([*lines, "lost"]) + "\n")
    return path


def test_a_tier_in_memory_says_what_it_takes(clocked: Path):
    plain = pw.advise(clocked, fast="zram-lz4", slow="sd-a1")
    worth = plain["worth"]
    taken = worth["memory"]["taken_bytes"]["typical"]
    assert taken == pytest.approx(worth["fast_tier_bytes"] / 2.06)
    assert worth["memory"]["share_of_board"] is None
    assert 0 < worth["memory"]["net_bytes"] <= worth["fast_tier_bytes"] - taken
    # The part of the tier beyond the memory it takes saves at most as much as the whole tier.
    assert worth["memory"]["io_share_in_use"]["typical"] >= worth["io_share"]["typical"]
    given = pw.advise(clocked, fast="4/5us", slow="sd-a1", memory="1GiB", compression=4)
    assert given["memory"]["compression"]["typical"] == 4
    share = given["worth"]["memory"]["share_of_board"]["typical"]
    assert share == pytest.approx(given["worth"]["fast_tier_bytes"] / 4 / 2**30)
    assert pw.advise(clocked, fast="optane-ssd", slow="sd-a1")["worth"]["memory"] is None


def test_the_memory_of_the_board_limits_the_tier(clocked: Path, monkeypatch: pytest.MonkeyPatch):
    # Without evidence for a size, no warning names one.
    for name, value in {"REACCESSES_MIN": 0, "TRAFFIC_MIN_S": 0.0, "SHARE_MAX": 1.0}.items():
        monkeypatch.setattr(evidence, name, value)
    free = pw.advise(clocked, fast="zram-lz4", slow="sd-a1")["worth"]["fast_tier_bytes"]
    board = int(free / 2.06)
    advice = pw.advise(clocked, fast="zram-lz4", slow="sd-a1", memory=board)
    assert advice["worth"]["memory"]["taken_bytes"]["typical"] <= board / 2
    assert any("of memory" in sentence for sentence in advice["warnings"])
    tiny = pw.advise(clocked, fast="zram-lz4", slow="sd-a1", memory="8KiB")
    assert tiny["worth"] is None and tiny["today"] is None


@pytest.mark.parametrize("compression", [0.5, float("nan"), float("inf"), 1000.0])
def test_an_impossible_compression_is_refused(clocked: Path, compression: float):
    with pytest.raises(UsageError, match="is not possible"):
        advise_swap(clocked, fast="zram-lz4", slow="sd-a1", compression=compression)


def test_life_and_busy_time_follow_from_the_counts(clocked: Path):
    advice = pw.advise(clocked, fast="optane-ssd", slow="sd-a1")
    alone, slow = advice["alone"], advice["slow"]
    pages = 12_000
    seconds = pages * (slow["read_ns"]["typical"] + slow["write_ns"]["typical"]) / 1e9
    assert alone["busy_slow"]["typical"] == pytest.approx(seconds / advice["duration_s"])
    written = pages * 4096 / advice["duration_s"] * 86400 * 365
    capacity, cycles = slow["capacity"]["bytes"], slow["rated_cycles"]
    for figure, of_cycles, amplification in (
        ("low", "low", 5),
        ("typical", "typical", 2),
        ("high", "high", 1),
    ):
        years = capacity * cycles[of_cycles] / (written * amplification)
        assert alone["life_slow_years"][figure] == pytest.approx(years, rel=1e-6)
    assert re.fullmatch(
        r"sd-a1 without a fast tier cannot keep up: "
        r"its I/O takes [\d.,]+ \([\d.,]+ to [\d.,]+\) times the time of the recording",
        advice["warnings"][0],
    )


@pytest.mark.parametrize(("value", "is_noted"), [("drop", True), ("write", False)])
def test_victims_that_only_a_kernel_can_drop_are_noted(trace: Path, value: str, is_noted: bool):
    outcome = pw.simulate(
        trace,
        architecture="adaptive",
        fast_tier="4MiB",
        option={"victims_in_memory": value},
        fast="4/5us",
        slow="90/40us",
    )
    assert any("is for kernels" in note for note in outcome["notes"]) == is_noted


STOCK = ("priority", "hierarchical")


@pytest.fixture(scope="module")
def crossing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A load on which priority has the lower mean, but hierarchical wins at one size.

    After 350 other pages, 650 pages go round, which hierarchical serves only if they all fit.
    """
    hot = range(350, 1000)
    steps = [("out", page) for page in range(1000)]
    steps += [(event, page) for _ in range(30) for event in ("in", "out") for page in hot]
    path = tmp_path_factory.mktemp("crossing") / "crossing.csv"
    return write_steps(path, steps, lambda number: number / 100)


def shares_at(advice: dict, size: int) -> dict[str, float]:
    """The I/O share of each architecture at one size."""
    return {
        row["architecture"]: at["io_share"]
        for row in advice["candidates"]
        for at in row["sizes"]
        if at["fast_tier_bytes"] == size
    }


def test_the_choice_is_the_cheapest_of_stock_linux_at_its_size(advice: dict, crossing: Path):
    other = advise_swap(crossing, fast="optane-ssd", slow="ufs-3.1")
    means = {row["architecture"]: row["mean_io_share"] for row in other["candidates"]}
    assert means["priority"] < means["hierarchical"]
    assert other["today"]["architecture"] == "hierarchical"
    for found in (advice, other):
        today = found["today"]
        shares = shares_at(found, today["fast_tier_bytes"])
        assert shares[today["architecture"]] == min(shares[name] for name in STOCK)
        assert today["stock_linux"]["architecture"] == today["architecture"]
        assert found["architecture"]["meanwhile"] == today["architecture"]


def test_the_best_of_stock_linux_gets_its_own_size(advice: dict):
    today = advice["today"]
    assert today["architecture"] in STOCK
    sizes = {
        size["fast_tier_bytes"]: size["io_share"]
        for row in advice["candidates"]
        if row["architecture"] == today["architecture"]
        for size in row["sizes"]
    }
    assert today["io_share"]["typical"] == pytest.approx(sizes[today["fast_tier_bytes"]])
    size = str(round(today["fast_tier_bytes"] / MIB))
    assert any(size in setting["apply"] for setting in advice["settings"])


@pytest.mark.slow
def test_the_text_fits_80_columns_and_names_losses(clocked: Path, capsys: pytest.CaptureFixture):
    arguments = ["--fast", "zram-lz4", "--slow", "sd-a1", "--memory", "1GiB"]
    assert run(["advise", "swap", str(clocked), *arguments]) == 1  # a second is too short
    text, diagnostics = capsys.readouterr()
    command = [sys.executable, "-m", "pagewise", "advise", "swap", clocked, *arguments]
    shown = on_a_terminal(command, 80)
    table = shown[shown.index("I/O time by size") :].split("\n\n")[0]
    assert len(table.splitlines()) == 8 and max(map(len, table.splitlines())) <= 80
    assert "life of sd-a1" in text and "memory it takes" not in text  # no size without evidence
    assert "note: the recording lost 1 record (lines that could not be read: 1)" in diagnostics
    assert "warning: sd-a1 without a fast tier cannot keep up" in diagnostics


def test_a_setting_names_the_io_time_of_its_architecture(advice: dict):
    size = advice["today"]["fast_tier_bytes"]
    for name in ("priority", "hierarchical"):
        [row] = [row for row in advice["candidates"] if row["architecture"] == name]
        [share] = [at["io_share"] for at in row["sizes"] if at["fast_tier_bytes"] == size]
        cost = f"{name.capitalize()} with {format_size(size)} takes {format_share(share)} of"
        assert any(setting["note"].startswith(cost) for setting in advice["settings"])


def test_the_size_to_take_is_a_column_of_the_table(advice: dict):
    sizes = [row["fast_tier_bytes"] for row in advice["candidates"][0]["sizes"]]
    for size in sizes:
        other = {**advice, "today": {**advice["today"], "fast_tier_bytes": size}}
        table = curves(other)
        headers = [str(name) for name in table.columns]
        assert format_size(size) in headers and len(headers) <= 8
        assert headers[-1] == format_size(sizes[-1])


def test_lines_to_paste_are_never_wrapped(advice: dict, capsys: pytest.CaptureFixture):
    show(*described(advice))
    text = capsys.readouterr().out
    for setting in advice["settings"]:
        assert setting["apply"] in text and setting["undo"] in text


@pytest.mark.parametrize(
    "command",
    [
        ["analyze"],
        ["misses", "--policy", "lru", "--frames", "8"],
        ["simulate", "--architecture", "priority", "--fast-tier", "64KiB", *DEVICES],
        ["report", "-o", "OUT"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_that_reads_a_recording_reports_its_losses(
    clocked: Path, tmp_path: Path, capsys: pytest.CaptureFixture, command: list[str]
):
    output = str(tmp_path / "report.html")
    arguments = [output if word == "OUT" else word for word in command]
    assert run([*arguments, str(clocked), "--json"]) == 0
    text, diagnostics = capsys.readouterr()
    assert diagnostics.count("\n") == 1 and "lost 1 record (" in diagnostics
    losses = json.loads(text)["losses"]
    assert (losses["busy"] if isinstance(losses, dict) else losses)[0]["count"] == 1
