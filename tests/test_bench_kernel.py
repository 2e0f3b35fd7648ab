"""The bench of lazy unmapping in the kernel: which runs it makes, and what it reads from them."""

import json
from pathlib import Path

import kernel
import kernel_browsers
import pytest

COUNTERS = "lazy_unmap_hit {}\nlazy_unmap_pages_premapped 0\n"
TREE = {"traps": 900, "tree_ns": 70_000, "cpu_s": 0.00005}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """What a guest leaves of run 0, as `kernel_browsers.around` writes it."""
    (tmp_path / "0.tree").write_text(json.dumps(TREE))
    (tmp_path / "0.peak").write_text("4096\n")
    (tmp_path / "0.before").write_text(COUNTERS.format(10))
    (tmp_path / "0.after").write_text(COUNTERS.format(15))
    return tmp_path


def test_every_other_round_of_a_browser_is_in_reverse() -> None:
    pools = [each["pool"] for each in kernel.runs(["firefox"])]
    assert pools == ["off", "on", "on", "off", "off", "on"]


def test_a_threshold_of_malloc_is_fixed_only_if_it_is_asked_for() -> None:
    for name, threshold in kernel.NAMED.items():
        (off, *_) = kernel.runs(["webkit"], [threshold])
        words = kernel.command(off, "", 1)
        assert ("GLIBC_TUNABLES" in words) == (name != "own")
        assert "lazy_unmap run" not in words and words.endswith("page.html 1 1 7")
    assert kernel.command(off, "", 1, is_first=True).endswith("page.html 0 0 0")
    assert kernel.command({**off, "pool": "on"}, "", 1).startswith("lazy_unmap run measured")


def test_a_browser_that_only_starts_is_counted_as_a_whole(results: Path) -> None:
    (results / "0").write_text("text of the browser\n")
    (results / "0.output").write_text("abc  -\n")
    row = kernel_browsers.row(results, 0)
    assert (row["faults"], row["instructions"], row["peak_bytes"]) == (900, 70_000, 4096)
    assert row["counters"] == {"hit": 5, "pages_premapped": 0}
    assert row["output_sha256"] == "abc" and row["idle_bytes"] is None


def test_a_swiped_browser_is_counted_by_the_median_of_its_swipes(results: Path) -> None:
    def swipe(traps: int) -> dict[str, object]:
        seconds = dict.fromkeys(("busy_s", "response_s", "fault_s", "call_s"), traps / 1e6)
        return {"traps": traps, "frames": 40, "held_bytes": None, **seconds}

    session = {"swipes": [swipe(10)], "timeline": swipe(20), "peak_bytes": 2048}
    lines = [json.dumps(session), json.dumps({"idle_bytes": 1024})]
    (results / "0").write_text("\n".join(lines))
    row = kernel_browsers.row(results, 0)
    assert (row["faults"], row["instructions"], row["idle_bytes"]) == (15, 15_000, 1024)
    assert (row["run_faults"], row["run_instructions"]) == (900, 70_000)
    assert [each["fault_ns"] for each in row["swipes"]] == [10_000, 20_000]
    assert row["output_sha256"] is None


def test_the_table_has_medians_beside_those_without_the_pool() -> None:
    rows = [
        {**each, "faults": faults, "instructions": 10, "peak_bytes": 1, "idle_bytes": None}
        for each, faults in zip(kernel.runs(["firefox"]), (10, 6, 4, 20, 30, 5), strict=True)
    ]
    off, on = kernel.table(rows).splitlines()[2:]
    assert off.startswith("| firefox | own | no | off | 20 (1.000x)")
    assert on.startswith("| firefox | own | no | on | 5 (0.250x)")
