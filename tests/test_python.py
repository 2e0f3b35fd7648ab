"""`import pagewise as pw`: the same questions and answers as on the command line."""

import subprocess
import sys
from pathlib import Path

import numpy
import polars
import pytest
from conftest import ACCESSES, EVENTS, PAGES, WRITES

import pagewise as pw
from pagewise import _core

KINDS = ["swap_out", "swap_out", "swap_in", "swap_out", "swap_out", "swap_in", "swap_out", "exit"]


def test_events_reach_polars_with_their_values(trace: Path) -> None:
    frame = polars.DataFrame(pw.read(trace))
    assert frame.columns == ["time_ns", "kind", "page", "process", "flags"]
    assert frame["kind"].cast(polars.String).to_list() == KINDS
    assert frame["time_ns"].to_list()[:4] == [0, 500_000_000, 1_000_000_000, 1_500_000_000]
    assert frame["page"].to_list()[:7] == [0, 1, 0, 2, 0, 2, 3]
    again = polars.DataFrame(pw.read(trace).events())
    assert frame.equals(again)


def test_a_stream_is_read_once(trace: Path) -> None:
    events = pw.read(trace).events()
    assert events.columns == ["time_ns", "kind", "page", "process", "flags"]
    events.__arrow_c_stream__()
    with pytest.raises(ValueError, match="already read"):
        events.__arrow_c_stream__()


def test_columns_as_arrays(trace: Path) -> None:
    recording = pw.read(trace)
    assert recording.column("time_ns").dtype == numpy.int64
    names = _core.kinds()
    assert [names[kind] for kind in recording.column("kind")] == KINDS
    with pytest.raises(pw.UsageError, match="no column"):
        recording.column("colour")


def test_a_foreign_recording_answers_like_its_trace(recording: Path, trace: Path) -> None:
    def answers(path: Path) -> list[object]:
        return [
            pw.analyze(path, by="process") | {"trace": None},
            pw.misses(path, policy="lru,opt", frames=[1, 2, 4]) | {"trace": None},
            pw.read(path).column("page").tolist(),
        ]

    assert answers(recording) == answers(trace)


def test_answers_have_the_figures_counted_by_hand(trace: Path) -> None:
    analysis = pw.analyze(trace)
    assert [analysis[name] for name in ("accesses", "pages", "writes")] == [ACCESSES, PAGES, WRITES]
    assert analysis["single_access"] == {"pages": 2 / 4, "accesses": 2 / 7}
    assert analysis["reaccess_share"] == 3 / 7
    misses = pw.misses(trace, policy=["lru", "fifo"], frames="4,1")
    assert misses["requests"] == ACCESSES and misses["pages"] == PAGES
    assert misses["misses"]["lru"] == {"4": PAGES, "1": 7}
    outcome = pw.simulate(trace, architecture="flash", fast_tier=0, fast="dram", slow="90/40us")
    # The copy of the clean page is still valid, so four of five page-outs are written.
    assert outcome["slow"]["reads"] == 2 and outcome["slow"]["writes"] == 4
    assert outcome["io_time_s"] == pytest.approx((2 * 90 + 4 * 40) * 1e-6)


def test_info_describes_a_slice(trace: Path, tmp_path: Path) -> None:
    info = pw.read(trace).info()
    assert info["header"]["format"] == "events"
    assert info["duration_s"] == 4.0
    part = tmp_path / "part.parquet"
    pw.slice_trace(trace, part, start="1s", stop="2500ms")
    assert pw.read(part).column("kind").size == 3
    with pytest.raises(pw.UsageError, match="the time from 3 to 1 is empty"):
        pw.slice_trace(trace, tmp_path / "none.parquet", start=3, stop=1)
    assert not (tmp_path / "none.parquet").exists()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"architecture": "raid"}, "no architecture"),
        ({"fast": "floppy"}, "no device"),
        ({"option": {"entry_bit": 7}}, "entry_bit"),
        ({"option": {"readahead": "maybe"}}, "readahead"),
        ({"option": {"readahead": "recorded"}}, "which faults read the device"),
        ({"option": {"queueing": "often"}}, "queueing cannot be 'often'; it is yes or no"),
        ({"option": {"queueing": "yes"}, "slow": "dram"}, "dram"),
        ({"profile": "faithful"}, "--option entry_bit=1"),
        ({"fast_tier": "much"}, "not a size"),
    ],
)
def test_invalid_requests_are_refused(
    trace: Path, request_: dict[str, object], message: str
) -> None:
    sensible: dict[str, object] = {
        "architecture": "hybrid",
        "fast_tier": "64KiB",
        "fast": "4/5us",
        "slow": "90/40us",
    }
    with pytest.raises(pw.UsageError, match=message):
        pw.simulate(trace, **(sensible | request_))  # type: ignore[arg-type]


def test_errors_have_path_position_and_hint(tmp_path: Path) -> None:
    with pytest.raises(pw.UnreadableInput) as caught:
        pw.analyze(tmp_path / "absent.parquet")
    assert caught.value.path == str(tmp_path / "absent.parquet")
    bad = tmp_path / "bad.csv"
    bad.write_text(EVENTS + "5.0,jump,10,0x1,D,anon\n")
    with pytest.raises(pw.UnreadableInput, match=r"bad\.csv:11") as strict:
        pw.import_trace(bad, tmp_path / "bad.parquet", strict=True)
    assert strict.value.position == "line 11"
    assert isinstance(strict.value, pw.PagewiseError)
    assert not (tmp_path / "bad.parquet").exists()
    report = pw.import_trace(bad, tmp_path / "bad.parquet")
    assert report["rejects"][0]["line"] == 11
    with pytest.raises(pw.PagewiseError, match="exists"):
        pw.import_trace(bad, tmp_path / "bad.parquet")
    with pytest.raises(pw.UsageError, match="no such mapping"):
        pw.read(bad, as_="pages")
    with pytest.raises(pw.UsageError, match="no such role"):
        pw.read(bad, map={"colour": "blue"})


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that takes long enough to be interrupted."""
    path = tmp_path_factory.mktemp("long") / "long.txt"
    path.write_text("".join(f"{number * 7919 % 50_021}\n" for number in range(400_000)))
    return path


def test_progress_is_reported_and_can_stop_the_work(long: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    pw.misses(
        long, policy="lru", frames=100, progress=lambda done, total: calls.append((done, total))
    )
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    output = tmp_path / "stopped.parquet"
    with pytest.raises(KeyboardInterrupt):
        pw.import_trace(long, output, progress=stop)
    assert list(tmp_path.iterdir()) == []


FED = """
import os, threading
import pagewise as pw
reading, writing = os.pipe()
os.dup2(reading, 0)
def feed():
    with open(writing, "w") as pipe:
        pipe.write("1\\n2\\n1\\n" * 100_000)
threading.Thread(target=feed).start()
print(pw.misses("-", policy="lru", frames=2)["requests"])
"""


def test_other_threads_run_meanwhile() -> None:
    # Another thread writes the recording; the question would wait for ever if no thread could run.
    run = subprocess.run([sys.executable, "-c", FED], capture_output=True, text=True, timeout=120)
    assert run.stdout == "300000\n", run.stderr


@pytest.mark.parametrize("name", ["analyze", "misses", "simulate", "info", "advise", "lifecycle"])
def test_help_names_the_fields_of_a_result(name: str) -> None:
    text = " ".join((getattr(pw, name).__doc__ or "").split())
    assert "Fields of" in text and " schema, " in text
