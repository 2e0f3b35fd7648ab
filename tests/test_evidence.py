"""The evidence of a recording for a size: verdicts, halves, ranges and idle gaps."""

import json
from pathlib import Path

import jsonschema
import pytest
from scenarios import rounds, write_steps

import pagewise as pw
from pagewise import layouts
from pagewise.advice import evidence
from pagewise.cli import run
from pagewise.commands.advise import described
from pagewise.commands.demo import found as found_by_demo
from pagewise.errors import PagewiseError
from pagewise.terminal import show

EXAMPLES = Path(__file__).parent.parent / "examples"
DEVICES = ("--fast", "4/5us", "--slow", "90/40us")
HOUR_S = 3600.0


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A load that never changes, for ten minutes."""
    steps = list(rounds(600, 100))
    path = tmp_path_factory.mktemp("steady") / "steady.csv"
    return write_steps(path, steps, lambda number: 600 * number / len(steps))


def advise(path: Path) -> dict:
    return pw.advise(path, fast="4/5us", slow="90/40us")


def test_a_long_steady_recording_is_enough(steady: Path) -> None:
    advice = advise(steady)
    found = advice["evidence"]
    assert found["verdict"] == "enough" and found["remedy"] is None
    assert found["reaccesses"] == 2 * 600 * 100 - 600
    assert found["halves"]["first_bytes"] == found["halves"]["second_bytes"]
    size = advice["today"]["fast_tier_bytes"]
    assert found["range"]["low_bytes"] <= size <= found["range"]["high_bytes"]
    assert advice["settings"]


@pytest.mark.slow
def test_seconds_of_the_same_load_are_too_short(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    steps = list(rounds(600, 100))
    path = write_steps(tmp_path / "brief.csv", steps, lambda number: 7 * number / len(steps))
    assert run(["advise", "swap", str(path), *DEVICES]) == 1
    text = capsys.readouterr().out
    assert "evidence" in text and "too short" in text and "record about" in text
    assert "swapon" not in text and "fast tier  " not in text and "take " not in text
    assert run(["advise", "swap", str(path), *DEVICES, "--json"]) == 1
    advice = json.loads(capsys.readouterr().out)
    assert advice["settings"] == [] and advice["evidence"]["verdict"] == "too short"
    assert advice["today"]["fast_tier_bytes"] > 0
    on_a_small_board = [*DEVICES[:1], "zram-lz4", *DEVICES[2:], "--memory", "4MiB", "--json"]
    assert run(["advise", "swap", str(path), *on_a_small_board]) == 1
    advice = json.loads(capsys.readouterr().out)
    assert not any("fast tier of" in warning for warning in advice["warnings"])


def test_bursts_of_seconds_are_too_short_however_far_apart(tmp_path: Path) -> None:
    steps = list(rounds(600, 60))
    half = len(steps) // 2

    def time_of(number: int) -> float:
        if number < half - 6:
            return 3.5 * number / half
        if number < half + 6:
            return 3.5 + (number - half + 6) * 50
        return 603.5 + 3.5 * (number - half) / half

    found = advise(write_steps(tmp_path / "bursts.csv", steps, time_of))["evidence"]
    assert found["active_s"] > 600 and found["gaps"] == []
    assert found["traffic_s"] <= 9 and found["verdict"] == "too short"
    assert "most of them within" in found["reason"]


def test_few_reaccesses_are_too_short_however_long_they_took(tmp_path: Path) -> None:
    steps = list(rounds(100, 10))
    path = write_steps(tmp_path / "sparse.csv", steps, lambda number: HOUR_S * number / len(steps))
    assert advise(path)["evidence"]["verdict"] == "too short"


def test_halves_that_choose_different_sizes_are_unstable(tmp_path: Path) -> None:
    steps = [*rounds(100, 300), *rounds(3000, 10)]
    path = write_steps(tmp_path / "changing.csv", steps, lambda number: 600 * number / len(steps))
    advice = advise(path)
    found = advice["evidence"]
    assert found["verdict"] == "unstable" and advice["settings"] == []
    assert found["halves"]["first_bytes"] < found["halves"]["second_bytes"]
    assert found["halves"]["cost_share"] > evidence.SHARE_MAX
    low, high = found["range"]["low_bytes"], found["range"]["high_bytes"]
    assert low <= found["halves"]["first_bytes"] and high >= found["halves"]["second_bytes"]


@pytest.mark.parametrize(
    ("example", "verdict"),
    [
        pytest.param("phone-1g-long/phone-1g-long.pgr", "enough", marks=pytest.mark.long),
        ("kill-1g/kill-1g.blocks.csv.zst", "not swap"),
        ("phone-1g/phone-1g.pgr", "too short"),
        ("multiswap-3/multiswap-3.pgr", "unstable"),
    ],
)
@pytest.mark.slow
def test_the_examples_have_the_expected_verdicts(example: str, verdict: str) -> None:
    found = pw.advise(EXAMPLES / example, fast="zram-lz4", slow="ufs-2.1", memory="2GiB")
    assert found["evidence"]["verdict"] == verdict
    assert (found["settings"] != []) == (verdict == "enough")
    if verdict == "unstable":
        # Draws of slices choose smaller sizes than either half.
        halves = found["evidence"]["halves"]
        smaller = min(halves["first_bytes"], halves["second_bytes"])
        assert found["evidence"]["range"]["low_bytes"] < smaller


def test_the_recording_of_the_demo_is_enough() -> None:
    # The verdict of this example is tested above.
    assert found_by_demo(EXAMPLES)[0].name == "phone-1g-long.pgr"


@pytest.mark.parametrize("mapping", ["swap", "block"])
def test_block_requests_do_not_size_swap(
    mapping: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "blocks.csv"
    lines = [
        f"{number / 100:.2f},{'RW'[number // 600 % 2]},{number % 600 * 8},4096"
        for number in range(60_000)
    ]
    path.write_text("\n".join(["time,op,sector,size", *lines]) + "\n")
    assert run(["advise", "swap", str(path), "--as", mapping, *DEVICES]) == 1
    text = capsys.readouterr().out
    assert text.startswith("evidence") and "not swap" in text.splitlines()[0]
    assert "swapon" not in text


@pytest.fixture
def idle(tmp_path: Path) -> Path:
    """A recording of swap in which only processes end."""
    path = tmp_path / "idle.csv"
    path.write_text("time_s,event,process,page,state,kind\n0.5,exit,10,,,\n1.5,exit,11,,,\n")
    return path


@pytest.mark.parametrize("devices", [(), DEVICES[2:], DEVICES])
def test_without_an_access_the_advice_says_what_to_record(
    devices: tuple[str, ...], idle: Path, capsys: pytest.CaptureFixture
) -> None:
    assert run(["advise", "swap", str(idle), *devices]) == 1
    diagnostics = capsys.readouterr().err
    assert "idle.csv: no accesses were recorded" in diagnostics
    assert evidence.RECORD_SWAP in " ".join(diagnostics.split())
    for part in ("at least 60 s", "load that makes memory short", "with swap on", "agent record"):
        assert part in evidence.RECORD_SWAP
    given = dict(zip(("slow", "fast"), devices[::-2], strict=False))
    advice = pw.advise(idle, **given, refuses=False)
    assert advice["evidence"]["verdict"] == "too short" and advice["settings"] == []
    assert advice["evidence"]["reason"].startswith("no accesses were recorded; a size needs")
    assert [each["option"] for each in advice["defaults"]] == [
        f"--{name}" for name in ("fast", "slow") if name not in given
    ]
    assert all("only an example" in each["why"] for each in advice["defaults"])
    show(*described(advice))
    assert advice["evidence"]["remedy"] == evidence.RECORD_SWAP
    jsonschema.validate(advice, layouts.printed("advise-swap"))


def test_without_evidence_json_is_one_object(
    idle: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    blocks = tmp_path / "blocks.csv"
    blocks.write_text("time,op,sector,size\n0.1,R,8,4096\n0.2,W,16,4096\n")
    for path, verdict in ((idle, "too short"), (blocks, "not swap")):
        assert run(["advise", "swap", str(path), "--json"]) == 1
        advice = json.loads(capsys.readouterr().out)
        assert (advice["evidence"]["verdict"], advice["settings"]) == (verdict, [])
        jsonschema.validate(advice, layouts.printed("advise-swap"))


def test_pages_of_files_are_not_called_block_requests() -> None:
    trace = EXAMPLES / "phone.perfetto-trace.gz"
    with pytest.raises(PagewiseError, match="only pages of files are recorded"):
        pw.advise(trace)
    found = pw.advise(trace, refuses=False)["evidence"]
    assert (found["verdict"], found["reason"]) == ("not swap", evidence.OF_FILES)


def test_a_block_trace_without_devices_can_have_an_advice_with_its_verdict(tmp_path: Path) -> None:
    path = tmp_path / "blocks.csv"
    path.write_text("time,op,sector,size\n0.1,R,8,4096\n0.2,W,16,4096\n")
    with pytest.raises(PagewiseError, match="not swap") as refused:
        pw.advise(path)
    assert refused.value.exit_status == 1
    hint = str(refused.value.hint)
    assert hint.startswith("record at least 60 s") and "Android" in hint and "VM" in hint
    advice = pw.advise(path, refuses=False)
    found = advice["evidence"]
    assert (found["verdict"], found["remedy"], advice["settings"]) == ("not swap", hint, [])
    assert {each["option"] for each in advice["defaults"]} == {"--fast", "--slow"}
    jsonschema.validate(advice, layouts.printed("advise-swap"))
    objects = pw.read(path, as_="objects", map="id=sector")
    advice = pw.advise(objects, refuses=False)
    assert advice["evidence"]["remedy"] == evidence.RECORD_SWAP


@pytest.mark.slow
def test_idle_gaps_do_not_count_as_time(tmp_path: Path, steady: Path) -> None:
    steps = list(rounds(600, 100))

    def time_of(number: int) -> float:
        half = 2 * number // len(steps)
        return 600 * number / len(steps) + half * 50 * HOUR_S

    path = write_steps(tmp_path / "nights.csv", steps, time_of)
    held, plain = pw.info(path), pw.info(steady)
    (gap,) = held["gaps"]
    assert gap["to_s"] - gap["from_s"] == pytest.approx(50 * HOUR_S, abs=1)
    assert held["recordings"] == 2 and plain["recordings"] == 1
    assert held["active_s"] == pytest.approx(plain["duration_s"], abs=0.1)
    with_gap, without = (
        pw.advise(each, fast="optane-ssd", slow="ufs-3.1") for each in (path, steady)
    )
    for name in ("busy_slow", "life_slow_years"):
        assert with_gap["alone"][name] == pytest.approx(without["alone"][name], rel=1e-3)
    assert with_gap["evidence"]["halves"] == without["evidence"]["halves"]


def test_info_names_gaps_and_joined_recordings(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    steps = list(rounds(10, 2))
    path = write_steps(
        tmp_path / "night.csv", steps, lambda number: number + number // 20 * 6 * HOUR_S
    )
    assert run(["info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "idle gaps" in text and "6 h 0 min" in text and "2 recordings" in text
    path = write_steps(tmp_path / "pauses.csv", steps, lambda number: number + number // 10 * 100)
    assert run(["info", str(path)]) == 0
    text = capsys.readouterr().out
    found = [(gap["from_s"], gap["to_s"]) for gap in pw.info(path)["gaps"]]
    assert found == [(9, 110), (119, 220), (229, 330)]
    assert all(f"from {begin}" in text for begin in ("9 s", "1 min 59 s", "3 min 49 s"))


def test_gaps_after_a_step_back_have_the_times_that_slice_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    # Ten seconds at 1000 s, back to 20 s, and a gap from 29 s to 130 s.
    starts = (1000, 20, 130)
    steps = list(rounds(10, 3))[:30]
    path = write_steps(
        tmp_path / "joined.csv", steps, lambda number: starts[number // 10] + number % 10
    )
    trace, part = tmp_path / "joined.parquet", tmp_path / "part.parquet"
    pw.import_trace(path, trace)
    (gap,) = pw.info(trace)["gaps"]
    assert gap["to_s"] - gap["from_s"] == pytest.approx(101)
    assert (gap["recorded_from_s"], gap["recorded_to_s"]) == (-971, -870)
    assert run(["info", str(trace)]) == 0
    text = capsys.readouterr().out
    assert "at -16 min 11 s" in text and "steps back" in text
    for times, events in (("-971s", "-870s"), 1), (("-980s", "-971s"), 9), (("-870s", "0s"), 10):
        options = ["--from", times[0], "--to", times[1], "-o", str(part), "--force"]
        assert run(["slice", str(trace), *options]) == 0
        assert pw.info(part)["header"]["events"] == events
    # Written the other way round, the times that info prints cut out the last ten events.
    path = write_steps(
        tmp_path / "other.csv",
        (steps + steps)[:40],
        lambda number: (20, 1000, 100, 300)[number // 10] + number % 10,
    )
    trace = tmp_path / "other.parquet"
    pw.import_trace(path, trace)
    gap = pw.info(trace)["gaps"][1]
    assert (gap["recorded_from_s"], gap["recorded_to_s"]) == (89, 280)
    start, stop = gap["recorded_from_s"] + 1, gap["recorded_to_s"]
    pw.slice_trace(trace, part, start=start, stop=stop, force=True)
    assert pw.info(part)["header"]["events"] == 0
    pw.slice_trace(trace, part, start=start - 1, stop=stop + 1, force=True)
    assert pw.info(part)["header"]["events"] == 2


def test_slices_have_equal_active_time() -> None:
    info = {
        "active_s": 20.0,
        "gaps": [{"from_s": 5.5, "to_s": 105.5}, {"from_s": 110.0, "to_s": 210.0}],
        "header": {"events": 40},
    }
    marks = [mark / 1e9 for mark in evidence.marks(info)]
    assert marks[:5] == [1, 2, 3, 4, 5] and marks[5] == 106.0
    assert marks[-1] == 219.0 and len(marks) == evidence.SLICES - 1
    assert evidence.marks({**info, "active_s": None}) == [2 * part for part in range(1, 20)]


def test_best_is_given_at_the_size_of_today(steady: Path) -> None:
    advice = advise(steady)
    today, best = advice["today"], advice["best"]
    assert today["can_run"] and best["fast_tier_bytes"] == today["fast_tier_bytes"]
    assert best["io_share"]["typical"] <= today["io_share"]["typical"] + 1e-9
    assert best["can_run"] == (best["by"] is not None) == (best["missing"] is None)
