"""Timelines of system traces, in the Trace Event Format."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import pagewise

ROOT = Path(__file__).resolve().parents[1]
PHONE = ROOT / "examples/phone.perfetto-trace.gz"


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pagewise", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("timeline") / "phone.json"
    done = run("launches", PHONE, "--timeline", path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"].startswith("pagewise.launches/")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def group_names(events: list[dict[str, Any]]) -> dict[int, str]:
    return {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}


def test_every_launch_kill_and_interval_is_on_the_timeline(written: dict[str, Any]) -> None:
    events = written["traceEvents"]
    names = group_names(events)
    counts = Counter(names[each["pid"]] for each in events if each["ph"] != "M")
    launches, kills = pagewise.launches(PHONE), pagewise.kills(PHONE)
    pressure = pagewise.pressure(PHONE)
    assert counts == {
        "launches": len(launches["launches"]),
        "kills": len(kills["kills"]),
        "pressure": len(pressure["intervals"]),
    }
    assert all(counts.values())
    begin_us = launches["begin_ns"] / 1e3
    slices = [each for each in events if names[each["pid"]] == "launches" and each["ph"] == "X"]
    for launch, event in zip(launches["launches"], slices, strict=True):
        assert event["name"] == f"{launch['process']} {launch['class']}"
        assert event["ts"] == pytest.approx(begin_us + launch["start_s"] * 1e6)
        assert event["dur"] == pytest.approx(launch["duration_s"] * 1e6)
        known = {name: value for name, value in launch["parts"].items() if value is not None}
        assert known.items() <= event["args"].items()


def test_slices_of_a_thread_follow_each_other(written: dict[str, Any]) -> None:
    ends: dict[tuple[int, int], float] = {}
    for event in written["traceEvents"]:
        if event["ph"] == "M":
            continue
        thread = (event["pid"], event["tid"])
        assert event["ts"] >= ends.get(thread, 0)
        ends[thread] = event["ts"] + event.get("dur", 0)
    assert len(ends) >= 5


def test_launches_of_an_app_that_overlap_have_threads_of_their_own() -> None:
    from pagewise.timelines import placed, slice_event

    tracks = [("launches", "mail", slice_event("mail", at, 2.0, {})) for at in (0, 1, 2, 2.5)]
    events = [event for event in placed(tracks, 0) if event["ph"] == "X"]
    assert [event["tid"] for event in events] == [1, 2, 1, 3]


def test_a_timeline_replaces_a_file_only_with_force(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text("mine")
    done = run("kills", PHONE, "--timeline", path)
    assert done.returncode == 2 and "--force replaces it" in done.stderr
    assert path.read_text() == "mine"
    assert run("kills", PHONE, "--timeline", path, "--force").returncode == 0
    assert json.loads(path.read_text())["traceEvents"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pressure", "-", "--timeline", "t.json"], "a pipe does not allow"),
        (["launches", PHONE, PHONE, "--timeline", "t.json"], "shows one trace"),
        (["kills", PHONE, "--timeline", "t", "--report", "t"], "is named twice"),
        (["kills", PHONE, "--force"], "--force needs --report or --timeline"),
    ],
)
def test_what_cannot_be_written_is_refused(
    words: list[object], message: str, tmp_path: Path
) -> None:
    words = [tmp_path / word if word in ("t", "t.json") else word for word in words]
    done = run(*words)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []
