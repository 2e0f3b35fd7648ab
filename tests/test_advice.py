"""`pagewise advise swap`: sizes, ranges, references, and settings with an undo."""

import json
import subprocess
from pathlib import Path

import pytest

from pagewise import _core
from pagewise.advice import reference, stock_linux
from pagewise.advice.swap import advise_swap
from pagewise.cli import run
from pagewise.errors import UsageError

MIB = 2**20


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A phone whose apps want twice its memory."""
    path = tmp_path_factory.mktemp("advice") / "phone.parquet"
    parameters = {"apps": 8, "footprint_mib": 12, "memory_mib": 40, "libraries_mib": 4}
    _core.write_scenario(json.dumps(parameters | {"services_mib": 4}), str(path))
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


def test_the_reference_is_reached_and_not_by_the_next_smaller_size(advice: dict):
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


def test_references_are_told_apart(trace: Path, tmp_path: Path):
    assert reference.parse("2MiB").io_bytes == 2 * MIB
    result = tmp_path / "simulate.json"
    result.write_text(json.dumps({"slow": {"reads": 3, "writes": 4}}))
    assert reference.parse(str(result)).io_bytes == 7 * 4096
    log = Path(__file__).resolve().parents[1] / "examples" / "kill700b.visits.json"
    assert reference.parse(str(log)).io_bytes == 4_092_096 * 1024
    assert reference.parse(str(trace)).io_bytes > 0
    with pytest.raises(UsageError, match="no such file"):
        reference.parse("absent/result.json")


@pytest.mark.parametrize("fast", ["zram-lz4", "optane-ssd"])
@pytest.mark.parametrize("size", [None, 256 * MIB])
def test_every_setting_has_an_undo_and_is_valid_shell(fast: str, size: int | None):
    for setting in stock_linux.settings(fast, size):
        for text in (setting.apply, setting.undo):
            assert text.strip()
            checked = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True)
            assert checked.returncode == 0, checked.stderr


def test_sizes_in_the_settings_are_those_advised():
    texts = [setting.apply for setting in stock_linux.settings("zram-lz4", 256 * MIB)]
    assert "zram-size = 256" in texts[0]
    assert "--size 256MiB" in texts[1]
    assert str(round(256 * 1024 / stock_linux.COMPRESSION_RATIO)) in texts[2]


def test_only_memory_makes_zswap_the_hierarchical_architecture():
    assert stock_linux.availability("hierarchical", "zram-lz4") == "zswap"
    assert stock_linux.availability("hierarchical", "optane-ssd") is None
    assert stock_linux.availability("priority", "optane-ssd") == "swap priorities"
    assert stock_linux.availability("hybrid", "zram-lz4") is None


def test_the_command_prints_the_same_object_and_text(trace: Path, capsys: pytest.CaptureFixture):
    arguments = ["advise", "swap", str(trace), "--fast", "4/5us", "--slow", "90/40us"]
    assert run([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["schema"] == "pagewise.advice/1"
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert result["architecture"]["name"] in text
    assert "undo" in text
