"""A folder or a pattern of recordings: the spread of figures, outliers, and files left out."""

import json
import os
import threading
import time
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from commands import ran

import pagewise as pw
from pagewise.commands.fleets import tell_unreadable
from pagewise.engines.recordings import in_threads
from pagewise.errors import UnreadableInput, UsageError
from pagewise.fleet import Fleet, answer, files_of, is_many, outlying, summary
from pagewise.fleet_figures import Figures, best_policies, in_words, unit_of, written
from pagewise.grids.run import sweep

TRACES = 1000
ODD = "device-0123.csv"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of 1,000 devices with 80 to 119 accesses each; one has a hundred times as many."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "below").mkdir()
    random = np.random.default_rng(1)
    for number in range(TRACES):
        name = f"device-{number:04}.csv"
        accesses = int(random.integers(80, 120)) * (100 if name == ODD else 1)
        rows = (f"{time},{each}" for time, each in enumerate(random.integers(0, 40, accesses)))
        place = folder / "below" if number % 10 == 0 else folder
        (place / name).write_text("\n".join(["time,id", *rows, ""]))
    (folder / ".hidden.csv").write_text("time,id\n")
    return folder


def test_a_fleet_is_a_folder_or_a_pattern(fleet: Path, tmp_path: Path) -> None:
    assert len(files_of(str(fleet))) == TRACES
    assert len(files_of(f"{fleet}/*.csv")) == TRACES * 9 // 10
    assert len(files_of(f"{fleet}/**/device-00*.csv")) == TRACES // 10
    odd = tmp_path / "[a]*.csv"
    odd.write_text("time,id\n1,1\n")
    assert not is_many(str(odd)) and is_many(f"{tmp_path}/*") and is_many(str(tmp_path))
    folder = tmp_path / "[b]"
    folder.mkdir()
    (folder / "c.csv").write_text("")
    assert files_of(str(folder)) == [str(folder / "c.csv")]


@pytest.mark.slow
def test_a_thousand_recordings_have_a_spread(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output, _ = ran("analyze", fleet, "--json", capsys=capsys)
    result = json.loads(output)
    assert status == 0 and result["schema"] == "pagewise.fleet/1"
    assert (result["traces"], result["unreadable"]) == (TRACES, [])
    each = each_of(fleet)
    found = result["figures"]["accesses"]
    assert (found["min"], found["median"], found["max"]) == (min(each), median(each), max(each))
    assert found["p10"] == np.quantile(each, 0.1) and found["p90"] == np.quantile(each, 0.9)
    assert [outlier["trace"] for outlier in found["outliers"]] == [str(fleet / ODD)]
    assert [each["figures"]["accesses"] for each in result["recordings"]] == each_of(fleet)
    (odd,) = (each for each in result["recordings"] if each["trace"] == str(fleet / ODD))
    assert odd["outlying"]["accesses"] > 100
    status, output, _ = ran("analyze", fleet, capsys=capsys)
    assert status == 0 and output.startswith("1,000 recordings\n")
    unlike = output.partition("unlike the others")[2].splitlines()
    assert unlike[1].startswith(f"{fleet / ODD}\taccesses ")


def each_of(fleet: Path) -> list[int]:
    """The accesses of each recording, in the order of the files."""
    return [pw.analyze(path)["accesses"] for path in files_of(str(fleet))]


def test_misses_and_info_have_a_spread(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = f"{fleet}/device-00*.csv"
    arguments = ["--policy", "lru,fifo", "--frames", "10,20", "--json"]
    _, output, _ = ran("misses", pattern, *arguments, capsys=capsys)
    figures = json.loads(output)["figures"]
    counted = pw.misses(files_of(pattern), policy="lru", frames=10)["traces"]
    ratios = [result["misses"]["lru"]["10"] / result["requests"] for result in counted]
    assert figures["miss_ratio.lru.10"]["median"] == median(ratios)
    assert figures["miss_ratio.fifo.20"]["traces"] == len(ratios) == 90
    _, output, _ = ran("misses", pattern, *arguments, "--ratio", capsys=capsys)
    hits = json.loads(output)["figures"]
    assert hits["hit_ratio.lru.10"]["median"] == pytest.approx(1 - median(ratios))
    _, output, _ = ran("info", pattern, "--json", capsys=capsys)
    assert json.loads(output)["figures"]["events"]["traces"] == 90


def test_misses_counts_the_recordings_in_which_a_policy_is_best(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = f"{fleet}/device-00*.csv"
    policies = ["lru", "sieve", "opt"]
    counted = pw.misses(files_of(pattern), policy=policies, frames=10)["traces"]
    missed = [{name: each["misses"][name]["10"] for name in policies} for each in counted]
    best = [
        sum(each[name] <= min(each["lru"], each["sieve"]) for each in missed) for name in policies
    ]
    for option in ([], ["--ratio"]):
        arguments = ["--policy", ",".join(policies), "--frames", "10", *option]
        _, output, _ = ran("misses", pattern, *arguments, capsys=capsys)
        assert f"frames\tlru\tsieve\n10\t{best[0]}\t{best[1]}\n" in output
    assert best[0] + best[1] >= 90 and best[0] < 90
    _, output, _ = ran("misses", pattern, "--policy", "lru,opt", "--frames", 10, capsys=capsys)
    assert "misses least" not in output


def test_figures_that_are_best_count_ties_for_each_policy() -> None:
    names = ("miss_ratio.lru.8", "miss_ratio.lru-k:k=2.8", "miss_ratio.opt.8", "pages")
    rows = [dict(zip(names, row, strict=True)) for row in ((0.5, 0.5, 0.1, 1), (0.5, 0.4, 0.1, 2))]
    assert best_policies(rows) == {"8": {"lru": 1, "lru-k:k=2": 2}}


def test_figures_have_words_and_units() -> None:
    assert in_words("miss_ratio.lru-k:k=2.1024") == "misses of lru-k:k=2, 1024 frames"
    assert in_words("hit_ratio.tinylfu:window=1.8") == "hits of tinylfu:window=1, 8 frames"
    assert in_words("unheard.of") == "unheard.of"
    # The name has the letters of "ratio", but is none.
    assert unit_of("duration_s") == "seconds" and written("duration_s", 16.185) == "16.2 s"
    assert written("miss_ratio.lru.8", 0.25) == "25.0 %" and written("lost", 1000.4) == "1,000"


@pytest.mark.slow
def test_a_sample_says_how_far_it_may_be_off(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = f"{fleet}/device-00*.csv"
    status, output, diagnostics = ran("analyze", pattern, "--sample", "8", capsys=capsys)
    assert status == 0 and "pages in the sample" in output
    assert "may be off by" in diagnostics and "--sample 32k" in diagnostics
    options = ["--policy", "lru", "--frames", "10", "--sample", "32k"]
    _, output, diagnostics = ran("misses", pattern, *options, capsys=capsys)
    assert "error of miss ratios, +/-\t0.0 %" in output and "may be off" not in diagnostics
    tiers = ["--architecture", "flash", "--fast-tier", "0", "--fast", "4/5us", "--slow", "ufs-3.1"]
    status, output, diagnostics = ran("simulate", pattern, *tiers, "--sample", "8", capsys=capsys)
    assert status == 0 and "I/O times may be off by" in diagnostics
    assert "pages in the sample" in output and "error of the I/O time, +/-" in output


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "fleet" / "below").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    for place in ("fleet/a.csv", "fleet/below/b.csv", "other/c.csv"):
        (tmp_path / place).write_text("time,id\n1,1\n")
    fleet = tmp_path / "fleet"
    (fleet / "other").symlink_to(tmp_path / "other")
    for name in ("self", "again"):
        (fleet / name).symlink_to(fleet)
        (fleet / "below" / name).symlink_to(tmp_path)
    found = [str(Path(path).relative_to(fleet)) for path in files_of(str(fleet))]
    assert sorted(Path(path).name for path in found) == ["a.csv", "b.csv", "c.csv"]


def test_a_pattern_finds_a_file_once_through_a_link_to_a_folder_above(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,id\n1,1\n")
    (tmp_path / "self").symlink_to(tmp_path)
    assert files_of(f"{tmp_path}/**/*.csv") == [str(tmp_path / "a.csv")]


def test_a_link_to_nothing_is_no_silent_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("time,id\n1,1\n")
    (tmp_path / "b.csv").symlink_to(tmp_path / "absent")
    (tmp_path / "c.csv").symlink_to(tmp_path / "c.csv")
    for place in (tmp_path, f"{tmp_path}/*.csv", f"file://{tmp_path}"):
        status, output, diagnostics = ran("analyze", place, capsys=capsys)
        assert status == 0 and output.startswith("1 recording, 2 files left out\n")
        assert (
            f"left out 2 files, such as {str(place).partition('*')[0].rstrip('/')}/b.csv: is a link"
            in diagnostics
        )
    found = sweep(
        {"traces": [str(tmp_path)], "policy": [{"name": "lru", "sizes": [4]}]},
        tmp_path.parent / "links.parquet",
    )
    assert [Path(each["trace"]).name for each in found["fleet"]["unreadable"]] == ["b.csv", "c.csv"]
    (tmp_path / "a.csv").unlink()
    status, _, diagnostics = ran("analyze", tmp_path, capsys=capsys)
    assert status == 3 and "is a link to a file that does not exist" in diagnostics


def test_every_reason_for_leaving_out_files_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    reasons = [{"trace": f"{at}.csv", "error": f"{at}.csv: reason {at % 14}"} for at in range(17)]
    tell_unreadable(reasons)
    *lines, last = capsys.readouterr().err.splitlines()
    assert lines[0] == "note: left out 2 files, such as 0.csv: reason 0"
    assert [line.rpartition(" ")[2] for line in lines] == [str(at) for at in range(10)]
    assert last == "note: left out 4 more files for other reasons; --json lists all"
    tell_unreadable(reasons[:10])
    assert len(capsys.readouterr().err.splitlines()) == 10


def test_a_folder_that_may_not_be_read_is_no_silent_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = tmp_path / "refused"
    refused.mkdir()
    (tmp_path / "a.csv").write_text("time,id\n1,1\n")
    listed = os.scandir

    def scandir(place: str) -> object:
        if str(place) == str(refused):
            raise PermissionError(13, "Permission denied", str(place))
        return listed(place)

    monkeypatch.setattr(os, "scandir", scandir)  # root may read every folder
    assert files_of(str(tmp_path)) == [str(tmp_path / "a.csv"), str(refused)]


def test_an_interrupt_stops_the_recordings_that_other_threads_read(fleet: Path) -> None:
    path = str(fleet / "device-0001.csv")
    begun, stopped = threading.Event(), threading.Event()

    def figures_of(name: str) -> dict[str, float]:
        if name == "first":
            begun.wait(60)
            raise KeyboardInterrupt
        begun.set()
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                pw.info(path)
        except KeyboardInterrupt:
            stopped.set()
            raise
        return {}

    with pytest.raises(KeyboardInterrupt):
        list(in_threads(2, ["first", "second"], figures_of))
    assert stopped.is_set()
    assert pw.info(path)["header"]


def test_files_that_cannot_be_read_are_left_out(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.csv").write_text("time,id\n1,1\n2,1\n")
    (tmp_path / "note.bin").write_bytes(bytes(range(256)))
    (tmp_path / "empty.csv").write_text("time,id\n")
    status, output, diagnostics = ran("analyze", tmp_path, "--json", capsys=capsys)
    result = json.loads(output)
    assert (status, result["traces"]) == (0, 1)
    assert [Path(each["trace"]).name for each in result["unreadable"]] == ["empty.csv", "note.bin"]
    assert f"left out {tmp_path / 'empty.csv'}: has no accesses" in diagnostics
    assert f"left out {tmp_path / 'note.bin'}: " in diagnostics
    (tmp_path / "also-empty.csv").write_text("time,id\n")
    _, output, diagnostics = ran("analyze", tmp_path, capsys=capsys)
    assert output.startswith("1 recording, 3 files left out\n")
    assert f"left out 2 files, such as {tmp_path / 'also-empty.csv'}: has no acc" in diagnostics
    (tmp_path / "also-empty.csv").unlink()
    status, _, diagnostics = ran("analyze", f"{tmp_path}/no-*", capsys=capsys)
    assert status == 3 and "no file found" in diagnostics


@pytest.mark.parametrize("command", ["info", "analyze", "misses"])
@pytest.mark.parametrize("json", [[], ["--json"]])
def test_if_no_file_can_be_read_only_the_error_is_printed(
    command: str, json: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.bin").write_bytes(bytes(range(256)))
    (tmp_path / "words.csv").write_text("time,id\nsoon,one\n")
    more = ["--policy", "lru", "--frames", "1"] if command == "misses" else []
    status, output, diagnostics = ran(command, tmp_path, *more, *json, capsys=capsys)
    assert (status, output) == (3, "")
    first, *lines = diagnostics.splitlines()
    assert first == "pagewise: none of the files can be read:"
    assert lines[0].startswith(f"  {tmp_path / 'note.bin'}: ")
    why = "line 2: no line can be read" if command == "info" else "has no accesses"
    assert lines[1].startswith(f"  {tmp_path / 'words.csv'}: {why}")
    assert f"pagewise info {tmp_path / 'note.bin'}" in lines[-1]


def test_a_loss_limit_holds_for_each_recording_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, bad in (("none", 0), ("half", 2), ("most", 4)):
        lines = ["time,id", *(f"{at},1" for at in range(2)), *["soon,1"] * bad, ""]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    limit = ["--loss-limit", "60%"]
    status, output, diagnostics = ran("info", tmp_path, *limit, capsys=capsys)
    assert status == 4 and output.startswith("3 recordings")
    assert f"pagewise: {tmp_path / 'most.csv'}: 4 records lost, 66.7 % of all" in diagnostics
    assert "half.csv" not in diagnostics
    status, output, diagnostics = ran(
        "info", tmp_path, "--loss-limit", "10%", "--json", capsys=capsys
    )
    assert status == 4 and json.loads(output)["traces"] == 3
    assert "2 recordings lost more than the limit:" in diagnostics
    assert all(f"  {tmp_path / name}.csv: " in diagnostics for name in ("half", "most"))
    assert ran("info", tmp_path, "--loss-limit", "70%", capsys=capsys)[0] == 0


def test_the_error_about_many_files_is_short() -> None:
    def figures_of(path: str) -> Figures:
        number = int(path.removesuffix(".csv"))
        raise UnreadableInput(f"{path}:{number}: expected a time" if number < 20 else "is empty")

    with pytest.raises(UnreadableInput) as raised:
        summary("analyze", [f"{number}.csv" for number in range(1000)], figures_of)
    _, *lines = str(raised.value).splitlines()
    assert lines[0] == "  980 files, such as 20.csv: is empty"
    assert lines[1] == "  0.csv: line 0: expected a time"
    assert len(lines) == 11 and lines[-1] == "  11 more files for other reasons"


def test_an_error_about_no_file_keeps_a_hint_that_all_files_have() -> None:
    def figures_of(path: str) -> Figures:
        raise UsageError(f"{path}: needs more", hint="give a larger --memory-limit")

    with pytest.raises(UsageError) as raised:
        summary("analyze", ["a", "b"], figures_of)
    assert raised.value.hint == "give a larger --memory-limit"
    assert str(raised.value).splitlines()[1:] == ["  2 files, such as a: needs more"]


def test_a_mistake_in_the_request_is_an_error(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--policy", "lifo", "--frames", "1"]
    status, _, diagnostics = ran("misses", f"{fleet}/device-00*", *arguments, capsys=capsys)
    assert status == 2 and "lifo" in diagnostics


def of_values(*values: float) -> Fleet:
    """The spread of a figure that recordings a, b, c and so on have."""
    names = "abcdefghijklmnopqrstuvwxyz"[: len(values)]
    figures = dict(zip(names, values, strict=True))
    return summary("analyze", names, lambda name: {"events": figures[name]})


def test_the_score_is_the_distance_in_median_distances() -> None:
    found = of_values(10, 11, 12, 13, 100)
    # The median is 12, and the median distance 1.
    assert found["recordings"][-1]["outlying"] == {"events": pytest.approx(0.6745 * 88)}
    assert found["figures"]["events"]["outliers"] == [{"trace": "e", "value": 100}]
    assert [each["trace"] for each in outlying(found["recordings"])] == ["e"]
    below = of_values(-100, 11, 12, 13, 14)["recordings"][0]["outlying"]
    assert below == {"events": pytest.approx(0.6745 * -112)}


def test_one_that_differs_from_equal_values_is_an_outlier() -> None:
    # The mean distance is 8/10, so the score is 0.7979 * 8 / 0.8.
    found = of_values(*[1] * 9, 9)
    assert found["recordings"][-1]["outlying"] == {"events": pytest.approx(7.979)}
    assert found["figures"]["events"]["outliers_count"] == 1


def test_equal_values_have_no_outliers() -> None:
    for values in ((1, 1, 1, 9), (1, 1, 1), (4,)):
        found = of_values(*values)
        assert outlying(found["recordings"]) == []
        assert found["figures"]["events"]["outliers"] == []
    assert of_values(1, 1, 1, 9)["figures"]["events"]["median"] == 1
    assert of_values(4)["figures"]["events"]["p90"] == 4


def test_a_report_of_a_folder_is_written_beside_the_answer(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern, page = f"{fleet}/device-01*.csv", tmp_path / "fleet.html"
    status, output, diagnostics = ran("analyze", pattern, "--report", page, capsys=capsys)
    assert (status, output.splitlines()[0]) == (0, "90 recordings")
    assert str(page) in diagnostics and ODD in page.read_text()
    status, _, diagnostics = ran("analyze", pattern, "--report", page, capsys=capsys)
    assert status == 2 and "--force replaces it" in diagnostics
    status, _, _ = ran("info", pattern, "--report", page, "--force", capsys=capsys)
    assert status == 0 and "lost records" in page.read_text()


@pytest.mark.parametrize("command", ["info", "analyze", "misses"])
def test_a_report_is_refused_for_one_recording_and_in_place_of_one(
    command: str, fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--policy", "lru", "--frames", "1"] if command == "misses" else []
    path = tmp_path / "one.csv"
    path.write_bytes((fleet / "device-0001.csv").read_bytes())
    page = tmp_path / "page.html"
    status, _, diagnostics = ran(command, path, "--report", page, *more, capsys=capsys)
    assert status == 2 and f"pagewise report {path} -o {page}" in diagnostics
    for target in (path, fleet):
        status, _, diagnostics = ran(command, target, "--force", *more, capsys=capsys)
        assert status == 2 and "--force needs --report" in diagnostics
    before = path.read_bytes()
    options = ["--report", path, "--force"]
    status, _, diagnostics = ran(command, tmp_path, *options, *more, capsys=capsys)
    assert status == 2 and "is also an input" in diagnostics
    assert path.read_bytes() == before and not page.exists()


def test_a_pattern_with_links_to_folders_above_ends(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(".")
    (tmp_path / "c").mkdir()
    for name in ("file.csv", "c/file.csv", "c/other.txt"):
        (tmp_path / name).write_text("x\n")
    found = files_of(f"{tmp_path}/**/*.csv")
    assert found == [str(tmp_path / "c/file.csv"), str(tmp_path / "file.csv")]
    assert len(files_of(f"{tmp_path}/**")) == 3


def test_a_link_to_a_file_of_the_kernel_is_left_out(tmp_path: Path) -> None:
    link = tmp_path / "x"
    link.symlink_to("/proc/kmsg")
    assert "a file of the kernel" in str(answer(str(link), lambda _: {}))
