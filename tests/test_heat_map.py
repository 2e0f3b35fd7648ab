"""The accesses that DAMON found, as `pressure` shows them."""

import subprocess
import sys
from pathlib import Path

import pytest

import pagewise
from pagewise.commands.heat_map import LEVELS, levels
from pagewise.commands.pressure import summary
from pagewise.errors import UnreadableInput

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT.parent / "shared/data/formats/damon/damo_perf.data.script"


def line(time_s: float, start: int, end: int, accesses: int) -> str:
    return (
        f"  kdamond.0  4452 [000] {time_s:.6f}: damon:damon_aggregated: target_id=0 nr_regions=2 "
        f"{start}-{end}: {accesses}\n"
    )


def written(path: Path) -> Path:
    """A second in which the first MiB is hot in the second half, and the last page never."""
    lines = []
    for tenth in range(10):
        hot = 20 if tenth >= 5 else 1
        lines.append(line(10 + tenth / 10, 1 << 20, 2 << 20, hot))
        lines.append(line(10 + tenth / 10 + 0.00001, 1 << 40, (1 << 40) + 4096, 0))
    path.write_text("".join(lines))
    return path


def test_time_and_addresses_become_a_grid(tmp_path: Path) -> None:
    found = pagewise.pressure(written(tmp_path / "perf.txt"))
    heat = found["heat"]
    assert heat is not None and heat["regions"] == 20
    assert heat["start_s"] == 0 and heat["bin_s"] * len(heat["ranges"][0]["accesses"]) >= 0.9
    *hot, cold = heat["ranges"]
    assert (hot[0]["first"], hot[-1]["last"]) == ("100000", "1fffff")
    assert cold["first"] == "10000000000"
    for row in hot:
        known = [value for value in row["accesses"] if value is not None]
        assert known == [1.0] * 5 + [20.0] * 5
    assert {value for value in cold["accesses"] if value is not None} == {0.0}


def test_the_screen_shows_the_map_on_few_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "perf.txt")
    command = [sys.executable, "-m", "pagewise", "pressure", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "Accesses in 20 regions of DAMON" in done.stdout
    rows = done.stdout.split("Accesses in 20")[1].split("\n\n")[0].splitlines()[1:]
    assert 2 <= len(rows) <= 16
    first, last = rows[0], rows[-1]
    assert first.split()[0] == "100000" and first.rstrip().endswith("@")
    assert last.split()[0] == "10000000000" and set(last.split(maxsplit=1)[1]) <= {".", " "}


def test_any_access_shows_and_no_region_is_blank() -> None:
    rows = [{"target": "0", "first": "0", "last": "fff", "accesses": [None, 0.0, 0.01, 20.0]}]
    assert "".join(levels(rows, 20.0)) == f" {LEVELS[0]}{LEVELS[1]}{LEVELS[-1]}"  # type: ignore[arg-type]


def test_a_trace_without_regions_has_no_map() -> None:
    found = pagewise.pressure(ROOT / "fuzz/seeds/procfs/small")
    assert found["heat"] is None
    assert not any("DAMON" in str(part) for part in summary(found))


def test_records_of_damo_have_the_map_of_the_text_they_were_made_from(tmp_path: Path) -> None:
    # fuzz/seeds/damo: what damo 3.4.3 made of this text (2026-11-29) by parse_damon_trace,
    # write_json and write_json_compressed of its module _damo_records.
    expected = pagewise.pressure(ROOT / "tests/golden/damo-3.4.3.script")
    assert expected["heat"] is not None and expected["heat"]["regions"] == 12
    assert {row["target"] for row in expected["heat"]["ranges"]} == {"0", "1"}
    for name in ("small", "compressed"):
        record = ROOT / "fuzz/seeds/damo" / name
        found = pagewise.pressure(record)
        assert found["heat"] == expected["heat"] and found["losses"] == []
        assert (found["disordered"], found["duration_s"]) == (0, expected["duration_s"])
        info = pagewise.info(record)
        assert info["events"] == {"damon_aggregated": 12} and info["accesses"] == 0
    cut = tmp_path / "cut.json"
    cut.write_bytes((ROOT / "fuzz/seeds/damo/small").read_bytes()[:7000])
    found = pagewise.pressure(cut)
    assert 0 < (found["heat"] or {})["regions"] < 12
    assert [loss["what"] for loss in found["losses"]] == ["the end of the file: it is cut"]
    wrong = tmp_path / "wrong.json"
    wrong.write_bytes((ROOT / "fuzz/seeds/damo/small").read_bytes().replace(b": 0,", b"; 0,", 1))
    with pytest.raises(UnreadableInput, match="at byte"):
        pagewise.pressure(wrong)


def test_damos_sample_covers_its_own_regions(tmp_path: Path) -> None:
    if not SAMPLE.exists():
        pytest.skip("the public sample of damo is not on this machine")
    found = pagewise.pressure(SAMPLE)
    heat = found["heat"]
    assert heat is not None and heat["regions"] == 10_260
    assert int(heat["ranges"][0]["first"], 16) <= 94253027950592
    assert heat["ranges"][0]["target"] == "18446623435582458880"
    pagewise.report([dict(found)], tmp_path / "r.html")
    assert "system-trace-heat" in (tmp_path / "r.html").read_text()
    assert 0 < len(heat["ranges"]) <= 128
