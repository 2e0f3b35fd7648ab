"""`dumpsys meminfo` in `pressure`: dumps of a phone, and in a series with other snapshots."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pagewise
from pagewise.commands.pressure import SIZES_SHOWN, summary

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT.parent / "shared/data/formats/phone-logs"
KIB = 1024
SEED = ROOT / "fuzz/seeds/procfs/dumpsys"


def sizes_in(path: Path) -> list[int]:
    """The sizes that a naive search finds in the tables of dumps of one process."""
    return [int(size) * KIB for size in re.findall(r"^ +TOTAL +(\d+) ", path.read_text(), re.M)]


@pytest.mark.skipif(not LOGS.exists(), reason="no recordings of phones in ../shared")
def test_a_series_of_dumps_of_a_phone_has_the_largest_and_the_last_size() -> None:
    path = LOGS / "nexus5_dumpsys_meminfo_30fps480p.txt"
    sizes = sizes_in(path)
    found = pagewise.pressure(path)
    assert len(sizes) == 25 and found["rejected"] == 0
    (process,) = found["sizes"]
    assert (process["process"], process["pid"]) == ("org.mozilla.firefox", 2841)
    assert (process["largest_bytes"], process["last_bytes"]) == (max(sizes), sizes[-1])
    assert process["is_proportional"] and process["swapped_bytes"] == 0
    # Its other times are on another clock.
    times = [int(time) for time in re.findall(r"Realtime: (\d+)", path.read_text())]
    assert found["duration_s"] == pytest.approx((times[-1] - times[0]) / 1000)


@pytest.mark.skipif(not LOGS.exists(), reason="no recordings of phones in ../shared")
def test_a_dump_of_a_newer_phone_has_resident_memory() -> None:
    found = pagewise.pressure(LOGS / "memorylab_meminfo.txt")
    (process,) = found["sizes"]
    assert process["largest_bytes"] == 421296 * KIB and not process["is_proportional"]
    assert process["swapped_bytes"] == 162 * KIB


def test_dumps_stand_in_a_series_with_other_files() -> None:
    found = pagewise.pressure(SEED)
    assert found["rejected"] == 0
    assert found["least_free_bytes"] == 1036544 * KIB
    names = [size["process"] for size in found["sizes"]]
    assert names == ["system_server", "com.example.mail", "init"]
    server, mail, init = found["sizes"]
    assert server["largest_bytes"] == 396036 * KIB and server["swapped_bytes"] == 12345 * KIB
    assert mail["is_proportional"] and mail["largest_bytes"] == 186656 * KIB
    assert init["last_bytes"] == 2552 * KIB


def test_the_table_of_ps_is_read_as_it_is_printed_here(tmp_path: Path) -> None:
    command = ["ps", "-eo", "user,pid,ppid,rss,comm"]
    table = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    path = tmp_path / "series.txt"
    path.write_text(f"1764346400\nMemFree: 100 kB\nMemTotal: 200 kB\n{table}")
    found = pagewise.pressure(path)
    rows = [line.split() for line in table.splitlines()[1:]]
    assert found["rejected"] == 0 and found["least_free_bytes"] == 100 * KIB
    assert found["sizes"][0]["largest_bytes"] == max(int(row[3]) for row in rows) * KIB


def test_the_screen_lists_few_processes(tmp_path: Path) -> None:
    rows = "".join(f"  {1000 - at},000K: app{at} (pid {at + 1})\n" for at in range(40))
    path = tmp_path / "meminfo.txt"
    head = "Applications Memory Usage (in Kilobytes):\nUptime: 1 Realtime: 2\n"
    path.write_text(f"{head}Total PSS by process:\n{rows}")
    found = pagewise.pressure(path)
    assert [size["process"] for size in found["sizes"]] == [f"app{at}" for at in range(32)]
    assert any("PSS" in str(part) for part in summary(found))
    words = [sys.executable, "-m", "pagewise", "pressure", str(path)]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=120).stdout
    assert shown.count(" MiB") == 2 * SIZES_SHOWN and "app5" not in shown
