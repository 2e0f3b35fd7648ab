"""`pagewise misses`: policies with options, several traces, and its tables."""

import json
from pathlib import Path

import pytest
from commands import ran

import pagewise as pw
from pagewise.policies import policies_in
from pagewise.table_layout import fitting


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A second recording: page 1 is requested in turn with others."""
    path = tmp_path / "other.csv"
    lines = [f"{second}.0,out,1,{page:#x},D,anon" for second, page in enumerate([1, 2, 1, 3] * 5)]
    path.write_text("\n".join(["time_s,event,process,page,state,kind", *lines, ""]))
    return path


def test_options_belong_to_the_policy_before_them() -> None:
    text = "lru-k:k=3,tinylfu:window=20,sample=5,lru,lru,k=2"
    assert policies_in(text) == ["lru-k:k=3", "tinylfu:window=20,sample=5", "lru", "k=2"]
    assert policies_in(["lru", "lru"]) == ["lru"]


def test_options_are_listed_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    _, output, _ = ran("list", "policies", capsys=capsys)
    lines = [line.strip() for line in output.splitlines()]
    place = lines.index("lru-k\tthe page whose k-th last request is oldest leaves")
    assert lines[place + 1].startswith("lru-k k\twhich of a page's last requests counts")
    assert lines[place + 1].endswith("; default 2")
    _, output, _ = ran("list", capsys=capsys)
    assert "; default 2" not in output


def test_results_bear_the_options(trace: Path) -> None:
    misses = pw.misses(trace, policy="lru-k:k=1,lru-k,random:seed=7", frames=[1, 2])["misses"]
    assert list(misses) == ["lru-k:k=1", "lru-k", "random:seed=7"]
    assert misses["lru-k:k=1"] == pw.misses(trace, policy="lru", frames=[1, 2])["misses"]["lru"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("lru:k=2", "lru has no option k; it has no options"),
        ("lru-k:k=9", "lru-k: k is '9', expected from 1 to 4"),
        ("random:seed", "write random:OPTION=VALUE"),
        ("lru,k=2", "options are written NAME:OPTION=VALUE"),
    ],
)
def test_an_invalid_policy_option_is_refused(
    policy: str, expected: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--policy", policy, "--frames", "1"]
    status, _, diagnostics = ran("misses", trace, *arguments, capsys=capsys)
    assert status == 2 and expected in diagnostics.replace('"', "'"), diagnostics


def test_several_traces_give_a_list_of_results(
    trace: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--policy", "lru,opt", "--frames", "1,2", "--json"]
    status, output, _ = ran("misses", trace, other, *arguments, capsys=capsys)
    both = json.loads(output)
    assert (status, both["schema"]) == (0, "pagewise.misses-of-traces/1")
    for path, each in zip((trace, other), both["traces"], strict=True):
        _, output, _ = ran("misses", path, *arguments, capsys=capsys)
        assert json.loads(output) == each
    # The report accepts such a list, and draws each trace.
    pw.report([both], tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "small, lru" in html and "other, opt" in html


def test_a_table_has_the_share_of_misses_or_hits(
    other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # With two frames, LRU misses the first two of 20 requests, and then every second.
    arguments = [other, "--policy", "lru", "--frames", "2,8"]
    _, output, _ = ran("misses", *arguments, capsys=capsys)
    assert output.splitlines()[0] == "20 requests to 3 pages"
    assert "2 (8 KiB)\t55.0 %" in output and "8 (32 KiB)\t15.0 %" in output
    _, output, _ = ran("misses", *arguments, "--ratio", capsys=capsys)
    assert "2 (8 KiB)\t45.0 %" in output and "8 (32 KiB)\t85.0 %" in output


def test_several_traces_are_rows_of_a_table_for_each_size(
    trace: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--policy", "lru,random:seed=7", "--frames", "2,8"]
    _, output, _ = ran("misses", trace, other, *arguments, capsys=capsys)
    lines = output.splitlines()
    assert lines[:3] == ["trace\trequests\tpages", "small\t7\t4", "other\t20\t3"]
    titles = [line for line in lines if line.startswith("misses")]
    assert titles == [
        f"misses, of requests, with {size}" for size in ("2 frames (8 KiB)", "8 frames (32 KiB)")
    ]
    last = lines[lines.index(titles[1]) :]
    assert [line.split()[0] for line in last[-2:]] == ["small", "other"]
    assert last[1] == "trace\tlru\trandom seed=7"
    assert last[-1] == "other\t15.0 %\t15.0 %"


def test_traces_of_the_same_name_are_shown_by_path(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twin = tmp_path / trace.name
    twin.write_bytes(trace.read_bytes())
    _, output, _ = ran("misses", trace, twin, "--policy", "lru", "--frames", "1", capsys=capsys)
    assert str(trace) in output and str(twin) in output


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache trace: the object 1 is requested in turn with others."""
    path, output = tmp_path / "cache.csv", tmp_path / "cache.parquet"
    lines = [f"{second},{name}" for second, name in enumerate([1, 2, 1, 3] * 5)]
    path.write_text("\n".join(["when,name", *lines, ""]))
    pw.import_trace(path, output, as_="objects", map={"time": "when", "id": "name"})
    return output


def test_objects_are_not_shown_as_pages(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pw.misses(cache, policy="lru", frames=2)["kind"] == "objects"
    arguments = ["--policy", "lru", "--frames", "2,1000"]
    _, output, _ = ran("misses", cache, *arguments, capsys=capsys)
    assert output.splitlines()[0] == "20 requests to 3 objects"
    assert "objects\tlru" in output and "\n2\t55.0 %" in output and "KiB" not in output
    twin = cache.with_name("twin.parquet")
    twin.write_bytes(cache.read_bytes())
    _, output, _ = ran("misses", cache, twin, *arguments, capsys=capsys)
    assert "trace\trequests\tobjects" in output
    assert "misses, of requests, with room for 1,000 objects" in output and "MiB" not in output


def test_objects_have_no_memory_in_bytes(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["misses", cache, "--policy", "lru", "--frames", "10,64KiB"]
    status, _, diagnostics = ran(*words, capsys=capsys)
    assert status == 2 and "64KiB is no number of objects" in diagnostics


def test_traces_of_objects_and_of_pages_are_not_compared(
    cache: Path, other: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--policy", "lru", "--frames", "2"]
    for paths in ([cache, other], [other, trace, cache]):
        status, output, diagnostics = ran("misses", *paths, *arguments, capsys=capsys)
        assert (status, output) == (2, "")
        assert f"{cache} counts objects and {other} pages of 4 KiB" in diagnostics
        assert "give the traces of each kind to a command of their own" in diagnostics


def test_columns_that_do_not_fit_go_to_the_next_table() -> None:
    assert fitting([8, 8, 8], 0, 25) == 2
    assert fitting([8, 8, 8], 2, 25) == 3
    assert fitting([90, 10], 0, 25) == 1
