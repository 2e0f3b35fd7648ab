"""`pagewise export`: OpenMetrics, which the parser of Prometheus' library reads, and timelines."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import ran
from report_results import EVIL, analysis

import pagewise as pw
from pagewise.openmetrics import exposition

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PHONE = EXAMPLES / "phone-1g/phone-1g.pgr"
KILLS = EXAMPLES / "kills/grow.pgr"
TRACE = EXAMPLES / "phone.perfetto-trace.gz"
ASKED = {"architecture": "hierarchical", "fast_tier": "64MiB", "fast": "4/5us", "slow": "ufs-3.1"}


def parsed(text: str) -> dict[str, Any]:
    """The families of a text that is valid OpenMetrics."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def saved(folder: Path, name: str, result: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(result))
    return path


def results() -> dict[str, Any]:
    return {
        "analyze": pw.analyze(PHONE, by="process"),
        "misses": pw.misses(PHONE, policy="lru,arc", frames="64MiB,128MiB"),
        "simulate": pw.simulate(PHONE, **ASKED),
        "replay-kills": pw.replay_kills(KILLS, policy="largest,lmkd"),
        "launches": pw.launches(TRACE),
        "kills": pw.kills(TRACE),
        "pressure": pw.pressure(TRACE),
    }


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return results()


def test_every_number_of_a_result_is_a_gauge_with_its_meaning(made: dict[str, Any]) -> None:
    families = parsed(exposition(list(made.items())))
    slow = families["pagewise_simulate_slow_writes"]
    (sample,) = slow.samples
    assert (slow.type, slow.documentation) == ("gauge", "Pages written.")
    assert sample.value == made["simulate"]["slow"]["writes"]
    assert sample.labels == {"result": "simulate", "recording": "phone-1g.pgr"}
    time = families["pagewise_simulate_io_time_seconds"]
    assert (time.unit, time.samples[0].value) == ("seconds", made["simulate"]["io_time_s"])
    misses = {
        (sample.labels["misses"], sample.labels["misses_2"]): sample.value
        for sample in families["pagewise_misses_misses"].samples
    }
    assert misses == {
        (policy, frames): count
        for policy, counts in made["misses"]["misses"].items()
        for frames, count in counts.items()
    }
    launches = families["pagewise_launches_launches_duration_seconds"].samples
    assert [sample.value for sample in launches] == [
        launch["duration_s"] for launch in made["launches"]["launches"]
    ]
    assert launches[0].labels["process"] == made["launches"]["launches"][0]["process"]


def test_text_that_would_break_the_format_is_escaped() -> None:
    hostile = analysis('"}\\\n# EOF', 0.5)
    hostile["processes"][0] |= {"accesses": 10**400, "pages": float("inf")}
    families = parsed(exposition([('a"b\n', hostile), ("\ud800", analysis("b", 0.5))]))
    rows = families["pagewise_analyze_processes_accesses"].samples
    assert EVIL in {row.labels["name"] for row in rows}
    assert {row.labels["result"] for row in rows} == {'a"b\n', "?"}
    assert float("inf") in {
        row.value for row in families["pagewise_analyze_processes_pages"].samples
    }


def test_results_from_a_pipe_become_metrics(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, made: dict[str, Any]
) -> None:
    given = io.TextIOWrapper(io.BytesIO(json.dumps(made["simulate"]).encode()))
    monkeypatch.setattr(sys, "stdin", given)
    status, output, _ = ran("export", "--to", "openmetrics", "-", capsys=capsys)
    assert status == 0
    assert parsed(output)["pagewise_simulate_fast_reads"].samples[0].labels["result"] == "-"


def test_a_timeline_has_what_the_results_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: dict[str, Any]
) -> None:
    names = ("analyze", "replay-kills", "launches", "kills", "pressure")
    files = [saved(tmp_path, f"{name}.json", made[name]) for name in names]
    output = tmp_path / "out.json"
    status, _, diagnostics = ran("export", "--to", "perfetto", *files, "-o", output, capsys=capsys)
    assert (status, diagnostics) == (0, f"written: {output}\n")
    timeline = json.loads(output.read_text())
    assert timeline["otherData"]["results"] == [str(file) for file in files]
    events = timeline["traceEvents"]
    groups = {
        event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"
    }

    def of(file: Path, group: str) -> list[dict[str, Any]]:
        (pid,) = (pid for pid, name in groups.items() if name == f"{file}: {group}")
        return [event for event in events if event["pid"] == pid and event["ph"] != "M"]

    traffic = made["analyze"]["traffic"]
    counters = of(files[0], "accesses")
    assert {event["ph"] for event in counters} == {"C"}
    first = traffic["series"][0]
    own = [event["args"] for event in counters if event["name"] == first["name"]]
    assert [each["reads"] for each in own] == first["reads"]
    (kill,) = of(files[1], "recorded kills")
    recorded = made["replay-kills"]["recorded"][0]
    assert kill["ts"] == pytest.approx(recorded["time_s"] * 1e6)
    assert kill["name"] == f"kill of {recorded['name']} ({recorded['process']})"
    assert len(of(files[2], "launches")) == len(made["launches"]["launches"])
    assert len(of(files[3], "kills")) == len(made["kills"]["kills"])
    assert len(of(files[4], "pressure")) == len(made["pressure"]["intervals"])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "not JSON"),
        ("[1]", "not a result of pagewise (schema absent)"),
        (
            '{"schema": "pagewise.nothing/1"}',
            "not a result of pagewise (schema pagewise.nothing/1)",
        ),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_other_files_are_refused(
    content: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.json"
    file.write_text(content)
    status, output, diagnostics = ran("export", "--to", "openmetrics", file, capsys=capsys)
    assert (status, output) == (3, "") and why in diagnostics


def test_what_cannot_be_written_is_refused_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: dict[str, Any]
) -> None:
    file = saved(tmp_path, "a.json", made["simulate"])
    changed = saved(tmp_path, "b.json", {"schema": "pagewise.replay-kills/1", "memory": [{}]})
    for arguments, wanted, why in (
        ([file, file], 2, "given twice"),
        ([file, "-o", file, "--force"], 2, "is one of the results"),
        ([file, "--force"], 2, "--force needs -o"),
        ([file, "--to", "perfetto"], 2, "a result of simulate has no times"),
        ([changed, "--to", "perfetto"], 3, "b.json: "),
        ([tmp_path / "missing"], 3, "No such file"),
        (["/proc/kmsg"], 3, "a file of the kernel"),
    ):
        status, output, diagnostics = ran(
            "export", "--to", "openmetrics", *arguments, capsys=capsys
        )
        assert (status, output) == (wanted, "") and why in diagnostics, arguments
    existing = tmp_path / "out"
    existing.write_text("theirs")
    status, _, diagnostics = ran(
        "export", "--to", "openmetrics", file, "-o", existing, capsys=capsys
    )
    assert status != 0 and "exists" in diagnostics and existing.read_text() == "theirs"
