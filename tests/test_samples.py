"""Recordings larger than memory: samples of the pages, and limits of memory."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from commands import ran

import pagewise as pw
from pagewise import samples
from pagewise.errors import UsageError
from pagewise.samples import ENOUGH_PAGES, parse_sample

FRAMES = [1000, 3000]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200,000 requests of 20,000 objects, some of them busy."""
    random = np.random.default_rng(1)
    objects = (random.random(200_000) ** 3 * 20_000).astype(int)
    path = tmp_path_factory.mktemp("samples") / "objects.csv"
    rows = (f"{time},{each}" for time, each in enumerate(objects))
    path.write_text("\n".join(["time,id", *rows, ""]))
    return path


@pytest.fixture(scope="module")
def imported(foreign: Path) -> Path:
    path = foreign.with_suffix(".parquet")
    pw.import_trace(foreign, path)
    return path


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1%", {"sample_rate": 0.01}),
        (".5 %", {"sample_rate": 0.005}),
        (0.25, {"sample_rate": 0.25}),
        ("100%", {"sample_rate": 1.0}),
        ("32k", {"sample_pages": 32_000}),
        (5000, {"sample_pages": 5000}),
        (None, {}),
    ],
)
def test_a_sample_is_a_share_or_a_number_of_pages(
    text: str | float | None, size: dict[str, float]
) -> None:
    assert parse_sample(text) == size


@pytest.mark.parametrize("text", ["", "0%", "0", "101%", "-1%", "0.01", "1e3", "nan", "9" * 400])
def test_an_invalid_sample_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a sample"):
        parse_sample(text)


@pytest.fixture
def any_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share of the small recordings here stays as it is."""
    monkeypatch.setattr(samples, "ENOUGH_PAGES", 1)


@pytest.mark.usefixtures("any_are_enough")
@pytest.mark.parametrize("name", ["foreign", "imported"])
@pytest.mark.parametrize("sample", ["20%", "4k"])
def test_estimates_are_near_the_exact_figures(
    name: str, sample: str, request: pytest.FixtureRequest
) -> None:
    trace = request.getfixturevalue(name)
    exact, found = pw.analyze(trace), pw.analyze(trace, sample=sample)
    assert "sample" not in exact
    size, error = found["sample"], found["sample"]["error"]
    assert size["rate"] == pytest.approx(0.2, rel=0.1)
    assert found["accesses"] == exact["accesses"]
    assert found["pages"] == pytest.approx(exact["pages"], rel=0.1)
    for share, value in found["top_share"].items():
        assert value == pytest.approx(exact["top_share"][share], abs=0.03)
        assert 0 < error["top_share"][share] < 0.1
    policies = {"policy": "lru,fifo", "frames": FRAMES}
    exact_misses, misses = pw.misses(trace, **policies), pw.misses(trace, **policies, sample=sample)
    assert misses["requests"] == exact_misses["requests"]
    for policy, counts in misses["misses"].items():
        for frames, count in counts.items():
            off = abs(count - exact_misses["misses"][policy][frames]) / misses["requests"]
            assert off < 0.03, (policy, frames)
            assert 0 < misses["sample"]["error"][policy][frames] < 0.2


def test_a_number_of_pages_bounds_the_sample(imported: Path, foreign: Path) -> None:
    for trace in (imported, foreign):
        assert pw.analyze(trace, sample=500)["sample"]["pages"] == 500
        whole = pw.analyze(trace, sample=10**6)
        assert whole["sample"]["rate"] == 1
        assert whole["miss_ratio_curve"] == pw.analyze(trace)["miss_ratio_curve"]


TIERS = ["--fast-tier", "1MiB", "--fast", "4/5us", "--slow", "ufs-3.1"]
ASKED = {
    "analyze": [],
    "misses": ["--policy", "lru,arc", "--frames", "1000"],
    "simulate": ["--architecture", "hierarchical", *TIERS],
}


@pytest.mark.parametrize("command", ASKED)
def test_a_share_takes_enough_pages(
    command: str, foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(trace: Path, sample: str) -> dict[str, object]:
        words = [command, trace, *ASKED[command], "--sample", sample, "--json"]
        status, output, diagnostics = ran(*words, capsys=capsys)
        assert (status, diagnostics) == (0, "")
        return json.loads(output)

    # Hierarchical alone would refuse 1 %: its fast tier has no room for 64 pages of the sample.
    for share in ("1%", "0.0001%", "50%"):
        assert asked(foreign, share) == asked(foreign, str(ENOUGH_PAGES))
    assert asked(foreign, "99%")["sample"]["pages"] > ENOUGH_PAGES
    small = tmp_path / "small.csv"
    small.write_text("\n".join(["time,id", *(f"{at},{at % 70}" for at in range(999)), ""]))
    assert asked(small, "1%")["sample"]["rate"] == 1
    assert asked(small, "50")["sample"]["pages"] == 50


def test_a_share_of_a_pipe_stays_small(foreign: Path) -> None:
    def asked(share: str) -> subprocess.CompletedProcess[str]:
        words = ["analyze", "-", "--sample", share, "--json"]
        with foreign.open() as recording:
            return subprocess.run(
                [sys.executable, "-m", "pagewise", *words],
                check=False,
                stdin=recording,
                capture_output=True,
                text=True,
                timeout=120,
            )

    found = asked("10%")
    assert found.returncode == 0, found.stderr
    assert 0 < json.loads(found.stdout)["sample"]["pages"] < ENOUGH_PAGES / 4
    empty = asked("0.00001%")
    assert (empty.returncode, empty.stdout) == (3, "")
    assert "has no page in the sample" in empty.stderr
    assert "save the recording to a file" in " ".join(empty.stderr.split())


@pytest.mark.usefixtures("any_are_enough")
def test_the_text_has_the_errors(imported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, output, _ = ran("analyze", imported, "--sample", "20%", capsys=capsys)
    assert status == 0 and "+/-" in output and "of the pages (" in output
    arguments = ["--policy", "lru", "--frames", "1000", "--sample", "4k"]
    status, output, _ = ran("misses", imported, *arguments, capsys=capsys)
    assert status == 0 and "sample: " in output and "% +/- " in output
    status, output, _ = ran("misses", imported, imported, *arguments, capsys=capsys)
    assert status == 0 and "in the sample" in output


@pytest.mark.parametrize(
    "options",
    [
        ["--sample", "1%", "--page-size", "16KiB"],
        ["--sample", "1%", "--memory-limit", "1GiB"],
        ["--memory-limit", "1GiB", "--page-size", "16KiB"],
        ["--memory-limit", "1MiB"],
    ],
)
def test_options_that_exclude_each_other(
    options: list[str], imported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output, diagnostics = ran("analyze", imported, *options, capsys=capsys)
    assert (status, output) == (2, "")
    assert "--" in diagnostics


def test_what_needs_two_readings_refuses_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--sample", "32k"], ["--memory-limit", "1GiB"]):
        status, _, diagnostics = ran("analyze", "-", *options, capsys=capsys)
        assert status == 2 and "second pass" in diagnostics


@pytest.mark.parametrize("name", ["foreign", "imported"])
def test_results_within_a_limit_are_exact(name: str, request: pytest.FixtureRequest) -> None:
    trace = request.getfixturevalue(name)
    assert pw.analyze(trace, memory_limit="256MiB") == pw.analyze(trace)
    policies = {"policy": "lru,arc,random:seed=3", "frames": FRAMES}
    limited = pw.misses(trace, **policies, memory_limit="256MiB")
    assert limited == pw.misses(trace, **policies)


def test_a_small_limit_costs_passes_and_one_too_small_is_refused(imported: Path) -> None:
    pages = pw.analyze(imported)["pages"]

    def room(bytes_per_page: int) -> int:
        return (128 << 20) + pages * bytes_per_page

    policies = {"policy": "lru,arc", "frames": FRAMES}
    assert pw.misses(imported, **policies, memory_limit=room(16)) == pw.misses(imported, **policies)
    with pytest.raises(UsageError, match="give a larger --memory-limit"):
        pw.misses(imported, **policies, memory_limit=room(15))
    asked = {"architecture": "adaptive", "fast_tier": "1MiB", "fast": "4/5us", "slow": "ufs-3.1"}
    exact = pw.simulate(imported, **asked)
    assert exact["ranges"]
    assert pw.simulate(imported, **asked, memory_limit=room(32)) == exact
    with pytest.raises(UsageError, match="give a larger --memory-limit"):
        pw.simulate(imported, **asked, memory_limit=room(31))


def test_a_swap_recording_within_a_limit_is_exact(trace: Path) -> None:
    assert pw.analyze(trace, by="process", memory_limit="256MiB") == pw.analyze(trace, by="process")


@pytest.mark.parametrize("name", ["recording", "trace"])
def test_a_simulation_within_a_limit_is_exact(
    name: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = request.getfixturevalue(name)
    for architecture in ("hierarchical", "adaptive"):
        asked = {"architecture": architecture, "fast_tier": "1MiB", "fast": "4/5us"}
        limited = pw.simulate(trace, **asked, slow="ufs-3.1", memory_limit="256MiB")
        assert limited == pw.simulate(trace, **asked, slow="ufs-3.1")
    words = ["--fast-tier", "1MiB", "--fast", "4/5us", "--slow", "ufs-3.1"]
    limit = ["--memory-limit", "256MiB"]
    flash = ["--architecture", "flash"]
    status, output, _ = ran("simulate", trace, *flash, *words, *limit, capsys=capsys)
    assert (status, output) == ran("simulate", trace, *flash, *words, capsys=capsys)[:2]
    for refused, why in (
        ([*flash, "--option", "queueing=yes"], "queueing=yes takes memory for each event"),
        ([*flash, "--option", "readahead=kernel"], "readahead=kernel takes memory for each event"),
        (["--architecture", "clairvoyant"], "clairvoyant takes memory for each event"),
        ([*flash, "--page-size", "16KiB"], "larger pages have no limit"),
        ([*flash, "--sample", "10%"], "only one of --sample and --memory-limit"),
        ([*flash, "--memory-limit", "1MiB"], "give a larger --memory-limit"),
    ):
        status, output, diagnostics = ran(
            "simulate", trace, *words, *limit, *refused, capsys=capsys
        )
        assert (status, output) == (2, "") and why in " ".join(diagnostics.split())


def test_a_limit_counts_pages_once_for_each_process_that_accesses_them(tmp_path: Path) -> None:
    shared = tmp_path / "shared.csv"
    rows = (f"{process}.{page:02},{page},{process}" for process in range(300) for page in range(99))
    shared.write_text("\n".join(["time,id,process", *rows, ""]))
    assert pw.analyze(shared, by="process", memory_limit="133MiB")["top_processes"]
    assert pw.analyze(shared, memory_limit="129MiB")["pages"] == 99
    with pytest.raises(UsageError, match=r"leaves 0 MiB for --by process.* larger --memory-limit"):
        pw.analyze(shared, by="process", memory_limit="129MiB")


def test_a_policy_that_knows_the_future_has_no_limit(imported: Path) -> None:
    with pytest.raises(UsageError, match="leave it out, or use --sample"):
        pw.misses(imported, policy="lru,opt", frames=10, memory_limit="1GiB")
    assert pw.misses(imported, policy="lru,opt", frames=10, sample="10%")["sample"]["pages"]


@pytest.mark.usefixtures("any_are_enough")
def test_a_simulated_sample_is_near_the_exact_figures(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"architecture": "hierarchical", "fast_tier": "1MiB", "fast": "4/5us"}
    exact = pw.simulate(trace, **asked, slow="ufs-3.1")
    whole = pw.simulate(trace, **asked, slow="ufs-3.1", sample="100%")
    assert whole.pop("sample")["error"]["io_time_s"] == 0
    assert whole == exact
    words = ["--architecture", "flash", "--fast-tier", "0", "--fast", "4/5us", "--slow", "ufs-3.1"]
    status, output, _ = ran("simulate", trace, *words, "--sample", "50%", capsys=capsys)
    assert status == 0 and "+/-" in output and "of the pages (" in output
    for option, why in (
        (["--page-size", "16KiB"], "larger ones"),
        (["--option", "queueing=yes"], "queueing=yes needs all operations"),
        (["--option", "readahead=kernel"], "readahead=kernel needs the pages beside"),
    ):
        status, output, diagnostics = ran(
            "simulate", trace, *words, "--sample", "50%", *option, capsys=capsys
        )
        assert (status, output) == (2, "") and why in diagnostics


def test_numbering_on_disk_leaves_no_files(foreign: Path, tmp_path: Path) -> None:
    code = "import sys, pagewise as pw; pw.analyze(sys.argv[1], memory_limit='256MiB')"
    command = [sys.executable, "-c", code, str(foreign)]
    subprocess.run(command, check=True, env={"TMPDIR": str(tmp_path), "PATH": ""}, timeout=120)
    assert list(tmp_path.iterdir()) == []
    missing = {"TMPDIR": str(tmp_path / "missing"), "PATH": ""}
    failed = subprocess.run(
        command, check=False, env=missing, capture_output=True, text=True, timeout=120
    )
    assert failed.returncode == 1 and "TMPDIR" in failed.stderr


@pytest.mark.usefixtures("any_are_enough")
def test_the_json_of_a_sample_fits_its_schema(
    imported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["analyze", imported],
        ["misses", imported, "--policy", "lru,opt", "--frames", "0,1000"],
    ):
        _, output, _ = ran(*arguments, "--sample", "5%", "--json", capsys=capsys)
        schema = Path(pw.__file__).parent / "schemas" / f"{arguments[0]}.json"
        jsonschema.validate(json.loads(output), json.loads(schema.read_text()))
