"""`simulate`, `sweep`, `launches`, `kills` and `pressure` with a folder or a pattern."""

import json
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from commands import ran
from phone_traces import phone

import pagewise as pw
from pagewise.commands.fleet_tables import lines, median_of
from pagewise.errors import UsageError
from pagewise.fleet import files_of, of_rows
from pagewise.grids.run import sweep
from pagewise.grids.spec import parse

TIERS = ("--architecture", "hybrid", "--fast-tier", "64KiB", "--fast", "4/5us", "--slow", "ufs-3.1")
PHONES = 5


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of 20 devices that swap, one in a folder below, and a file that is none."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "below").mkdir()
    random = np.random.default_rng(1)
    for number in range(20):
        lines = ["time_s,event,process,page,state,kind"]
        held: set[int] = set()
        for at, page in enumerate(map(int, random.integers(0, 60, 300))):
            event = "in" if page in held else "out"
            held.symmetric_difference_update({page})
            lines.append(f"{at},{event},1,{page},D,anon")
        place = folder / "below" if number == 7 else folder
        (place / f"device-{number:02}.csv").write_text("\n".join([*lines, ""]))
    (folder / "note.bin").write_bytes(bytes(range(256)))
    return folder


@pytest.fixture(scope="module")
def phones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Perfetto traces of a few phones, and a file that is none."""
    folder = tmp_path_factory.mktemp("phones")
    for seed in range(PHONES):
        (folder / f"{seed}.perfetto-trace").write_bytes(phone(seed).bytes())
    (folder / "note.txt").write_text("no trace\n")
    return folder


def test_simulate_has_a_spread_of_what_each_recording_costs(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output, diagnostics = ran("simulate", fleet, *TIERS, "--json", capsys=capsys)
    result = json.loads(output)
    assert (status, result["command"], result["traces"]) == (0, "simulate", 20)
    assert [Path(each["trace"]).name for each in result["unreadable"]] == ["note.bin"]
    assert "left out" in diagnostics
    request = {"fast_tier": "64KiB", "fast": "4/5us", "slow": "ufs-3.1"}
    for each in result["recordings"]:
        tiered = pw.simulate(each["trace"], architecture="hybrid", **request)
        flash = pw.simulate(
            each["trace"], architecture="flash", fast_tier=0, fast="4/5us", slow="ufs-3.1"
        )
        figures = each["figures"]
        assert figures["io_time_s"] == tiered["io_time_s"]
        assert figures["stall_time_s"] == tiered["stall_time_s"]
        assert figures["slow.writes"] == tiered["slow"]["writes"]
        assert figures["fast.reads"] == tiered["fast"]["reads"] > 0
        assert figures["io_time_share"] == tiered["io_time_s"] / flash["io_time_s"]
        assert figures["slow_writes_share"] == tiered["slow"]["writes"] / flash["slow"]["writes"]
        wear = tiered["wear"]["slow"]
        # Of the rated writes, with a write amplification of 2.
        assert wear is not None and figures["slow.life_days"] == pytest.approx(1 / (2 * wear))
    times = [each["figures"]["io_time_s"] for each in result["recordings"]]
    assert result["figures"]["io_time_s"]["median"] == median(times)
    status, output, _ = ran("simulate", fleet, *TIERS, capsys=capsys)
    assert status == 0 and output.startswith("20 recordings, 1 file left out\n")
    assert "I/O time, of flash-only\t" in output


def test_simulate_refuses_what_a_folder_or_a_recording_does_not_take(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single = fleet / "device-00.csv"
    for arguments, complaint in (
        (["simulate", single, *TIERS, "--report", tmp_path / "page.html"], "only for a folder"),
        (["simulate", single, *TIERS, "--jobs", "2"], "--engine, --address and --jobs"),
        (["simulate", single, *TIERS, "--force"], "--force needs --moves or --report"),
        (["simulate", fleet, *TIERS, "--moves", "moves.csv"], "--moves needs --as-recorded"),
        (["simulate", fleet, "--as-recorded"], "takes one recording"),
        (["simulate", fleet, *TIERS, "--option", "entry_bit=7"], "entry_bit"),
        (["analyze", fleet, "--engine", "abacus"], "no engine is called 'abacus'"),
        (["analyze", fleet, "--address", "ray://head:1"], "only with --engine ray"),
        (["launches", fleet, "--timeline", "all.json"], "--timeline"),
        (["launches", fleet, single], "two traces are compared"),
        (["kills", single, "--engine", "ray"], "--engine, --address and --jobs"),
    ):
        status, output, diagnostics = ran(*arguments, capsys=capsys)
        assert (status, output) == (2, ""), arguments
        assert complaint in diagnostics, diagnostics
    assert not (tmp_path / "page.html").exists()


def test_a_file_that_several_arguments_name_counts_once(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--policy", "lru", "--frames", "4", "--json")
    status, output, _ = ran("misses", fleet, f"{fleet}/*.csv", *options, capsys=capsys)
    assert (status, json.loads(output)["traces"]) == (0, 20)


def test_a_report_of_simulations_is_written(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    status, _, diagnostics = ran("simulate", fleet, *TIERS, "--report", page, capsys=capsys)
    assert status == 0 and str(page) in diagnostics
    assert "days of life of the slow device" in page.read_text()
    status, _, _ = ran("simulate", fleet, *TIERS, "--report", page, "--force", capsys=capsys)
    assert status == 0


def test_few_recordings_have_a_row_each(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = f"{fleet}/device-0[0-2]*"
    _, output, _ = ran("analyze", pattern, capsys=capsys)
    rows = [line.split("\t") for line in output.splitlines()]
    heading = next(row for row in rows if row[0] == "recording")
    for file in files_of(pattern):
        (row,) = (row for row in rows if row[0] == file)
        assert row[heading.index("accesses")] == str(pw.analyze(file)["accesses"])
    _, output, _ = ran("analyze", fleet, capsys=capsys)
    assert "recording\t" not in output


@pytest.mark.slow
def test_system_traces_have_a_spread(phones: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = {}
    for command in ("launches", "kills", "pressure"):
        status, output, _ = ran(command, phones, "--json", capsys=capsys)
        results[command] = json.loads(output)
        assert (status, results[command]["traces"]) == (0, PHONES)
        assert [Path(each["trace"]).name for each in results[command]["unreadable"]] == ["note.txt"]
        status, output, _ = ran(command, f"{phones}/*.perfetto-trace", capsys=capsys)
        assert status == 0 and output.startswith(f"{PHONES} recordings\n")
    traces = files_of(f"{phones}/*.perfetto-trace")
    for number, trace in enumerate(traces):
        launches, kills, pressure = pw.launches(trace), pw.kills(trace), pw.pressure(trace)
        of = {name: each["recordings"][number]["figures"] for name, each in results.items()}
        times = [launch["duration_s"] for launch in launches["launches"]]
        assert of["launches"]["launches"] == len(times) == 5
        assert of["launches"]["launch.median_s"] == median(times)
        assert of["launches"]["launch.max_s"] == max(times)
        cold = [launch for launch in launches["launches"] if launch["class"] == "cold"]
        assert of["launches"].get("cold.launches", 0) == len(cold)
        waits = [launch["parts"]["direct_reclaim_s"] for launch in launches["launches"]]
        share = sum(wait or 0 for wait in waits) / sum(times)
        assert of["launches"]["launch.direct_reclaim_share"] == pytest.approx(share)
        assert "launch.swapin_share" not in of["launches"]  # the trace does not have them
        found = kills["kills"]
        assert of["kills"]["kills"] == len(found) > 0
        per_hour = len(found) / kills["duration_s"] * 3600
        assert of["kills"]["kills.per_hour"] == pytest.approx(per_hour)
        soon = [back for kill in found if (back := kill["came_back_soon"]) is not None]
        share = sum(soon) / len(soon) if soon else None
        assert of["kills"].get("kills.came_back_share") == share
        answers = [kill["needless"]["answer"] for kill in found]
        known = [answer for answer in answers if answer is not None]
        assert of["kills"].get("kills.needless_share") == (
            sum(known) / len(known) if known else None
        )
        assert of["pressure"]["direct_reclaim_s"] == pressure["direct_reclaim_s"]
        assert of["pressure"].get("refault_bytes") == pressure["refault_bytes"]
        lasted = sum(
            each["end_s"] - each["start_s"]
            for each in pressure["intervals"]
            if each["kind"] == "thrashing"
        )
        assert of["pressure"]["thrashing_s"] == pytest.approx(lasted)


def test_a_report_of_system_traces_in_a_folder_is_about_all(
    phones: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, words in (
        ("launches", "median launch"),
        ("kills", "kills per hour"),
        ("pressure", "read again"),
    ):
        page = tmp_path / f"{command}.html"
        status, _, _ = ran(command, phones, "--report", page, capsys=capsys)
        text = page.read_text()
        assert status == 0 and words in text and "4.perfetto-trace" in text


def test_recordings_that_lost_records_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, bad in (("none", 0), ("two", 2), ("four", 4)):
        lines = ["time,id", *(f"{at},{at % 3}" for at in range(9)), *["soon,1"] * bad, ""]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    counted = ("misses", tmp_path, "--policy", "lru", "--frames", "1")
    for command in (["analyze", tmp_path], counted, ["simulate", tmp_path, *TIERS]):
        status, output, diagnostics = ran(*command, capsys=capsys)
        assert status == 0 and "lost records" not in output
        assert diagnostics == (
            f"note: 2 recordings lost records, such as {tmp_path / 'four.csv'} (4); "
            "`pagewise info FILE` lists them\n"
        )
        _, output, _ = ran(*command, "--json", "--jobs", "2", capsys=capsys)
        result = json.loads(output)
        assert [each["lost"] for each in result["recordings"]] == [4, 0, 2]
        assert not any("lost" in name for name in result["figures"])
    _, output, diagnostics = ran("info", tmp_path, capsys=capsys)
    assert "lost records\t0\t" in output and diagnostics == ""
    (tmp_path / "two.csv").unlink()
    _, _, diagnostics = ran("analyze", tmp_path, capsys=capsys)
    assert f"note: 1 recording lost records: {tmp_path / 'four.csv'} (4); " in diagnostics


def test_a_figure_that_a_recording_lacks_is_unknown() -> None:
    rows = [("a.csv", {"kswapd_s": 1.0}), ("b.csv", {"kswapd_s": 2.0, "direct_reclaim_s": 0.0})]
    table = lines(of_rows("pressure", rows, []))[-1]
    assert list(table.rows) == [["a.csv", "1 s", "unknown"], ["b.csv", "2 s", "0 s"]]
    medians = {"pages": 1.0}
    assert median_of({"traces": 1, "typical": "a.csv", "medians": medians}, "lost") == "unknown"


@pytest.mark.parametrize("command", ["info", "analyze", "simulate", "launches", "pressure"])
def test_an_unquoted_pattern_is_a_short_error(
    command: str, fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = files_of(f"{fleet}/*.csv")
    taken = 2 if command == "launches" else 1
    options = TIERS if command == "simulate" else ()
    status, output, diagnostics = ran(command, *files, *options, capsys=capsys)
    assert (status, output) == (2, "")
    shown = " ".join(files[taken : taken + 3])
    assert f"({shown} and {len(files) - taken - 3} more)" in diagnostics
    assert files[taken + 3] not in diagnostics
    assert "put the pattern in quotes, or name the folder" in diagnostics
    odd = tmp_path / "one two.csv"
    odd.write_text("")
    _, _, diagnostics = ran(command, *files[:taken], odd, *files[:3], *options, capsys=capsys)
    assert f"({odd} {files[0]} {files[1]} and 1 more)" in diagnostics
    _, _, diagnostics = ran(command, *files[:taken], "absent.csv", *options, capsys=capsys)
    assert "(absent.csv)" in diagnostics and "quotes" not in diagnostics


def test_a_folder_in_place_of_a_recording_has_a_next_step(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.pgr"
    for command in (
        ["import", fleet, "-o", output],
        ["import", fleet / "device-00.csv", fleet, "-o", output],
        ["advise", "swap", fleet],
        ["slice", fleet, "-o", output],
    ):
        status, _, diagnostics = ran(*command, capsys=capsys)
        assert status == 3 and f"{fleet}: is a folder, not a recording" in diagnostics
        assert f"name a recording in it; for all of them: pagewise analyze {fleet}" in diagnostics
    assert not output.exists()


GRID = {
    "traces": ["*.csv", "below"],
    "sizes": ["64KiB"],
    "device": [{"fast": "4/5us", "slow": "ufs-3.1"}],
    "architecture": [{"name": "hybrid"}],
    "policy": [{"name": "lru", "sizes": [16, "50%"]}, {"name": "sieve", "sizes": [16]}],
}


def test_a_sweep_takes_folders_and_patterns(fleet: Path, tmp_path: Path) -> None:
    places = [f"{fleet}/**/*.csv", str(fleet / "below"), str(fleet / "device-00.csv")]
    grid = parse({**GRID, "traces": places})
    names = [trace.name for trace in grid.traces]
    # A file that several entries name counts once, and names begin below the shared folder.
    assert len(names) == 20 and names[0] == "below/device-07.csv" and names[1] == "device-00.csv"
    result = sweep({**GRID, "traces": places}, tmp_path / "results.parquet")
    found = result["fleet"]
    assert (result["cells"], result["failed"], found["traces"]) == (80, [], 20)
    for each in found["recordings"]:
        counted = pw.misses(each["trace"], policy=["lru", "sieve"], frames=16)
        for policy in ("lru", "sieve"):
            ratio = counted["misses"][policy]["16"] / counted["requests"]
            assert each["figures"][f"miss_ratio.{policy}.16"] == ratio
        tiered = pw.simulate(
            each["trace"], architecture="hybrid", fast_tier="64KiB", fast="4/5us", slow="ufs-3.1"
        )
        label = "hybrid, fast tier 64 KiB"
        assert each["figures"][f"io_time_s.{label}"] == tiered["io_time_s"]
        assert each["figures"][f"slow_writes.{label}"] == tiered["slow"]["writes"]
    assert "miss_ratio.lru.percent=50" in found["figures"]


def test_a_pattern_counts_from_the_folder_of_the_spec_whatever_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "[b]"
    folder.mkdir()
    (folder / "a.csv").write_text("time,id\n1,1\n")
    spec = folder / "grid.toml"
    spec.write_text('traces = ["*.csv"]\n[[policy]]\nname = "lru"\nsizes = [4]\n')
    result = sweep(spec, tmp_path / "results.parquet")
    assert [each["trace"] for each in result["fleet"]["recordings"]] == [str(folder / "a.csv")]


def test_a_sweep_leaves_out_files_that_cannot_be_read(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, output = tmp_path / "grid.toml", tmp_path / "results.parquet"
    policies = (("lru", '[16, "50%"]'), ("fifo", "[16]"))
    lines = [f'traces = ["{fleet}"]']
    lines += [f'[[policy]]\nname = "{name}"\nsizes = {sizes}' for name, sizes in policies]
    spec.write_text("\n".join(lines))
    status, shown, diagnostics = ran("sweep", spec, "-o", output, capsys=capsys)
    assert status == 0 and shown.startswith(f"{output}: 60 cells, 60 run now")
    assert "20 recordings, 1 file left out" in shown
    assert "misses of lru, frames for 50 % of pages\t" in shown
    # Only one policy has the size of half the pages, so it is not the best of several there.
    assert "frames\tlru\tfifo\n16\t" in shown and "\n50 % of pages\t" not in shown
    assert "note.bin" in diagnostics
    before = output.read_bytes()
    _, shown, _ = ran("sweep", spec, "-o", output, "--json", capsys=capsys)
    result = json.loads(shown)
    assert (result["kept"], result["computed"]) == (60, 0)
    assert [Path(each["trace"]).name for each in result["fleet"]["unreadable"]] == ["note.bin"]
    assert output.read_bytes() == before


def test_a_sweep_of_nothing_readable_is_refused(fleet: Path, tmp_path: Path) -> None:
    output = tmp_path / "results.parquet"
    for traces, complaint in (
        ([f"{fleet}/no-*"], "no file found"),
        ([f"{fleet}/note*"], "no file can be read"),
    ):
        with pytest.raises(UsageError, match=complaint):
            sweep({**GRID, "traces": traces}, output)
    assert not output.exists()
    # A file that the spec names itself must be readable.
    with pytest.raises(UsageError, match=r"note\.bin"):
        sweep({**GRID, "traces": [str(fleet / "note.bin"), f"{fleet}/*.csv"]}, output)


def test_a_sweep_of_single_files_has_no_spread(fleet: Path, tmp_path: Path) -> None:
    result = sweep({**GRID, "traces": [str(fleet / "device-00.csv")]}, tmp_path / "r.parquet")
    assert "fleet" not in result
