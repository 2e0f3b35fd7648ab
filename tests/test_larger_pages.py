"""Recordings of 4 KiB pages, analyzed with larger pages."""

import json
import os
from pathlib import Path

import pytest
from commands import ran

import pagewise as pw
from pagewise import _core
from pagewise.errors import UsageError
from pagewise.larger_pages import parse_page_size

EXAMPLE = Path(__file__).parents[1] / "examples" / "phone-2g" / "phone-2g.pgr"
DEVICES = {"fast": "zram-lz4", "slow": "ufs-3.1"}


@pytest.mark.parametrize("text", ["0", "2KiB", "12KiB", "2GiB", "4097"])
def test_an_invalid_page_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a page size"):
        parse_page_size(text)


@pytest.mark.parametrize("kind", ["recording", "trace"])
def test_events_are_counted_by_larger_pages(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    # Pages 1 and 2 of process 10 form one large page, pages 1 and 7 of process 20 two. Page 2
    # leaves with page 1; a page that leaves a second time, clean, is not written.
    path = request.getfixturevalue(kind)
    analysis = pw.analyze(path, page_size="16KiB")
    assert (analysis["accesses"], analysis["pages"], analysis["writes"]) == (6, 3, 3)
    assert analysis["page_bytes"] == 16384
    recorded = pw.analyze(path)
    assert recorded["page_bytes"] == 4096
    assert analysis["at_4_kib"] == {name: recorded[name] for name in analysis["at_4_kib"]}
    outcome = pw.simulate(path, architecture="flash", fast_tier=0, page_size="16KiB", **DEVICES)
    assert (outcome["slow"]["reads"], outcome["slow"]["writes"]) == (2, 3)
    assert outcome["slow"]["bytes_written"] == 3 * 16384
    recorded = pw.simulate(path, architecture="flash", fast_tier=0, **DEVICES)
    assert outcome["at_4_kib"] == {name: recorded[name] for name in outcome["at_4_kib"]}


def test_times_are_those_of_the_device_for_that_size() -> None:
    request = {"architecture": "flash", "fast_tier_bytes": 0, **DEVICES, "page_bytes": 16384}
    slow = _core.describe_request(json.dumps(request))["slow"]
    outcome = pw.simulate(EXAMPLE, architecture="flash", fast_tier=0, page_size=16384, **DEVICES)
    reads, writes = (outcome["slow"][name] for name in ("reads", "writes"))
    expected = reads * slow["read_ns"]["typical"] + writes * slow["write_ns"]["typical"]
    assert outcome["io_time_s"] == pytest.approx(expected / 1e9)
    assert outcome["at_4_kib"]["io_time_s"] > outcome["io_time_s"]


def test_the_page_size_of_the_recording_changes_nothing(trace: Path) -> None:
    assert pw.analyze(trace, page_size="4KiB") == pw.analyze(trace)
    arguments = {"architecture": "hybrid", "fast_tier": "8KiB", **DEVICES}
    assert pw.simulate(trace, page_size=4096, **arguments) == pw.simulate(trace, **arguments)


@pytest.mark.slow
def test_advice_is_on_larger_pages_beside_those_recorded() -> None:
    advice = pw.advise(EXAMPLE, page_size="16KiB", **DEVICES)
    today = advice["today"]
    assert advice["page_bytes"] == 16384 and today["fast_tier_bytes"] % 16384 == 0
    recorded = advice["at_4_kib"]
    for name, page_size in (("at 4 KiB", None), ("larger", "16KiB")):
        alone = pw.simulate(
            EXAMPLE, architecture="flash", fast_tier=0, page_size=page_size, **DEVICES
        )
        chosen = pw.simulate(
            EXAMPLE,
            architecture=today["architecture"],
            fast_tier=today["fast_tier_bytes"],
            page_size=page_size,
            **DEVICES,
        )
        result = recorded if page_size is None else advice
        assert result["alone"]["io_time_s"]["typical"] == pytest.approx(alone["io_time_s"]), name
        assert result["today"]["io_time_s"]["typical"] == pytest.approx(chosen["io_time_s"]), name
    assert recorded["footprint_bytes"] == pw.analyze(EXAMPLE)["pages"] * 4096
    assert "at_4_kib" not in pw.advise(EXAMPLE, **DEVICES)


def test_times_of_small_pages_are_refused_for_larger_pages(trace: Path) -> None:
    bare = {"fast": "4/5us", "slow": "ufs-3.1"}
    for ask in (
        lambda: pw.simulate(trace, architecture="flash", fast_tier=0, page_size="16KiB", **bare),
        lambda: pw.advise(trace, page_size="16KiB", **bare),
    ):
        with pytest.raises(UsageError, match=r"4/5us does not give the time of a 16 KiB page"):
            ask()


def test_a_pipe_is_refused_since_it_is_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "-"):
        with pytest.raises(UsageError, match="second pass"):
            pw.analyze(path, page_size="16KiB")
        with pytest.raises(UsageError, match="second pass"):
            pw.advise(path, page_size="16KiB", **DEVICES)


def test_a_trace_without_neighbours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "generated.parquet"
    _core.write_scenario(json.dumps({"apps": 2, "footprint_mib": 16, "memory_mib": 32}), path)
    with pytest.raises(UsageError, match="neighbouring pages are unknown"):
        pw.analyze(path, page_size="16KiB")


def test_a_block_request_is_one_access_to_each_larger_page(tmp_path: Path) -> None:
    path = tmp_path / "blocks.csv"
    # Sectors of 512 bytes: 64 KiB at once, then 4 KiB twice in a page of 16 KiB.
    path.write_text("ts,rw,lbn,n\n0,R,0,128\n1,W,1024,8\n2,W,1032,8\n")
    trace = pw.read(path, as_="block", map="time=ts,op=rw,sector=lbn,sectors=n")
    assert pw.analyze(trace)["accesses"] == 18
    analysis = pw.analyze(trace, page_size="16KiB")
    assert (analysis["accesses"], analysis["pages"], analysis["writes"]) == (6, 5, 2)


@pytest.mark.slow
def test_the_commands_show_both_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--page-size", "16KiB"]
    devices = ["--fast", "zram-lz4", "--slow", "ufs-3.1"]
    _, output, _ = ran("analyze", EXAMPLE, *size, capsys=capsys)
    rows = dict(line.split("\t", 1) for line in output.splitlines())
    assert "207,691 accesses move 811.3 MiB" in rows["pages of 4 KiB"]
    assert "57,380 accesses move 896.6 MiB" in rows["pages of 16 KiB"]
    simulate = ["simulate", EXAMPLE, "--architecture", "priority", "--fast-tier", "64MiB"]
    _, output, _ = ran(*simulate, *devices, *size, capsys=capsys)
    fields = [line.split("\t") for line in output.splitlines()]
    assert [row[:2] for row in fields if row[1:] and row[1].endswith("KiB")] == [
        [name, size] for name in ("priority", "flash-only") for size in ("4 KiB", "16 KiB")
    ]
    _, output, _ = ran("advise", "swap", EXAMPLE, *devices, *size, capsys=capsys)
    # The recording has too little evidence for a size, so only the slow device is compared.
    assert "pages of 16 KiB\tinstead of 4 KiB:" in output
    assert output.count(" instead of ") == 2 and "ufs-3.1 only" in output
