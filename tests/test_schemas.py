"""What commands print fits the schemas, and what follows from the definitions is up to date."""

import json
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commands import ran

import pagewise as pw
from pagewise import comparisons, layouts, probe
from pagewise.grids import results
from pagewise.grids.spec import parse
from pagewise_studies.figure import Figure, Point
from pagewise_studies.outcome import assemble
from pagewise_studies.table import Table
from pagewise_studies.verdict import Check, Reading, judge

ROOT = Path(__file__).parents[1]
GROW = ROOT / "examples" / "kills" / "grow.pgr"
ARRAYS = ROOT / "examples" / "allocations" / "arrays.pgr"
PHONE = ROOT / "examples" / "phone.perfetto-trace.gz"
DEVICES = ("--fast", "zram-lz4", "--slow", "ufs-3.1")
PAGES = 1200
ADDRESSES = "address\n" + "".join(f"{page * 4096}\n" for page in range(PAGES)) * 30
"""A program that goes over its pages thirty times, as a foreign file."""


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = tmp_path_factory.mktemp("references") / "loop.csv"
    text.write_text(ADDRESSES)
    pw.import_references(text, text.with_suffix(".pwf"))
    return text.with_suffix(".pwf")


COMMANDS = {
    "analyze": ["analyze", "TRACE", "--by", "process"],
    "analyze, larger pages": ["analyze", "TRACE", "--page-size", "16KiB"],
    "misses": ["misses", "TRACE", "--policy", "lru,lru-k:k=3", "--frames", "1,2"],
    "misses, of two traces": ["misses", "TRACE", "TRACE", "--policy", "lru", "--frames", "2"],
    "misses-of-traces": ["misses", "TRACE", "TRACE", "--policy", "lru", "--frames", "2"],
    "simulate": [
        "simulate",
        "TRACE",
        "--architecture",
        "adaptive",
        "--fast-tier",
        "1MiB",
        *DEVICES,
    ],
    "simulate, larger pages": [
        *("simulate", "TRACE", "--architecture", "priority", "--fast-tier", "1MiB", *DEVICES),
        *("--page-size", "16KiB"),
    ],
    "info": ["info", "TRACE"],
    "info, of a recording of kills": ["info", str(GROW)],
    "info, of a recording of allocations": ["info", str(ARRAYS)],
    "info, of references": ["info", "REFERENCES"],
    "allocations": ["info", str(ARRAYS)],
    "references": ["info", "REFERENCES"],
    "advice": ["advise", "swap", "TRACE", *DEVICES, "--memory", "1GiB", "--reference", "1MiB"],
    "advice, larger pages": ["advise", "swap", "TRACE", *DEVICES, "--page-size", "16KiB"],
    "advise-swap": ["advise", "swap", "TRACE", *DEVICES],
    "advise-pagesize": ["advise", "pagesize", "REFERENCES", "--target", "x86-mthp"],
    "replay-kills": ["replay-kills", str(GROW), "--policy", "minfree,largest"],
    "page-size": ["pagesize", "REFERENCES", "--target", "x86-mthp", "--memory", "80%"],
    "curves": [
        *("curves", "REFERENCES", "--frames", "64,128", "--tlb", "64", "--second-tlb", "1536x12"),
        *("--policy", "clock", "--read-ahead", "8"),
    ],
    "devices": ["devices"],
    "launches": ["launches", str(PHONE)],
    "launches, in two traces": ["launches", str(PHONE), str(PHONE)],
    "launches-compared": ["launches", str(PHONE), str(PHONE)],
    "kills": ["kills", str(PHONE)],
    "trace-kills": ["kills", str(PHONE)],
    "pressure": ["pressure", str(PHONE)],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_prints_fits_its_schema(
    name: str, trace: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"TRACE": str(trace), "REFERENCES": str(references)}
    words = [places.get(word, word) for word in COMMANDS[name]]
    status, text, errors = ran(*words, "--json", capsys=capsys)
    assert status in (0, 1), errors  # 1: the recording is too short for a size
    status, schema, _ = ran("schema", name.partition(",")[0], capsys=capsys)
    assert status == 0
    as_words = ran("schema", *name.partition(",")[0].split("-"), capsys=capsys)
    assert as_words == (0, schema, "")
    check(json.loads(text), json.loads(schema))


def check(result: Any, schema: dict[str, Any]) -> None:
    """The result fits, and has no field that the schema lacks."""
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(result, strict(schema), jsonschema.Draft202012Validator)


def strict(schema: Any) -> Any:
    """The schema, with only known fields allowed."""
    if isinstance(schema, list):
        return [strict(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return {name: strict(inner) for name, inner in schema.items()} | closed


def test_other_functions_fit_their_schemas(trace: Path, tmp_path: Path) -> None:
    recording = trace.with_suffix(".csv")
    check(pw.import_trace(recording, tmp_path / "t.parquet"), layouts.schema("import"))
    part = pw.slice_trace(trace, tmp_path / "part.parquet", start="0s", stop="1s")
    check(part, layouts.schema("slice"))
    text = tmp_path / "refs.csv"
    text.write_text(ADDRESSES)
    report = pw.import_references(text, tmp_path / "refs.pwf")
    check(report, layouts.schema("import-references"))
    check(pw.check_page_size([sys.executable]), layouts.schema("pagesize-check"))
    check(pw.report([trace], tmp_path / "report.html"), layouts.schema("report"))


def test_a_probe_fits_its_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = count(100.0)
    monkeypatch.setattr(probe, "mean_us", lambda *_: next(times))
    monkeypatch.setattr(shutil, "which", lambda _: "fio")
    result = probe.probe(tmp_path, tmp_path / "disk.toml", size="1MiB", seconds=1)
    assert result["bandwidth_mb_s"] and result["write_bandwidth_mb_s"]
    check(result, layouts.printed("devices-probe"))


def test_a_sweep_its_table_and_its_failures_fit_their_schemas(trace: Path, tmp_path: Path) -> None:
    spec = {
        "traces": [str(trace)],
        "sizes": ["1MiB"],
        "device": [{"fast": "4/5us", "slow": "90/40us"}],
        "architecture": [{"name": "hybrid", "options": {"entry_bit": 1, "readahead": "off"}}],
        "policy": [{"name": "lru-k", "options": {"k": 3}, "sizes": [2]}],
    }
    output = tmp_path / "results.parquet"
    run = pw.sweep(spec, output)
    check(run, layouts.schema("sweep"))
    assert run["cells"] == 2 and not run["failed"]
    rows = results.read(str(output))
    check({"cells": rows}, layouts.schema("sweep-table"))
    assert list(rows[0]) == list(layouts.schema("sweep-table")["$defs"]["SweepCell"]["properties"])
    for request in parse(spec).requests:
        failed = request.failed("a trace", "an error")
        check({**run, "failed": [failed]}, layouts.schema("sweep"))


def test_the_result_of_a_study_fits_its_schema(tmp_path: Path) -> None:
    check_ = Check("ACC-1", "part", "share", "a statement", "54 %", "a reason")
    figure = Figure("f", "F", "x", "y", (Point("a", "ours", 1.5), Point("b", "ours", 2)), {})
    result = assemble(
        "kill-anatomy",
        tmp_path,
        title="A study",
        figures=[figure],
        verdicts=[judge(check_, "data", [Reading((("choice", "1"),), True, 0.5)])],
        inputs={"schemas.py": Path(__file__)},
        arguments="",
        seeds=[1],
        seeded="nothing",
        tables=[Table("t", "T", "a note", [{"a": 1, "b": None, "c": "x"}], ("a",))],
        sensitivity=[
            {
                **dict.fromkeys(("workload", "architecture", "option", "value", "default"), "x"),
                **dict.fromkeys(("io_time_mean", "io_time_largest"), -0.5),
                **dict.fromkeys(("slow_accesses_mean", "fast_writes_mean"), 0.5),
            }
        ],
        losses={"run": [{"what": "events", "count": 2}]},
    )
    check(result, layouts.schema("study"))


def test_every_cell_that_the_report_draws_has_fields_of_the_table() -> None:
    for kind in (results.SimulatedCell, results.CountedCell):
        assert set(kind.__annotations__) <= set(comparisons.SweepCell.__annotations__)


def test_schemas_types_and_tables_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "schemas.py"), "--check"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", layouts.names())
def test_a_schema_is_valid(name: str) -> None:
    """Two structs of one result with a field of one name make it invalid; JSON shows only one."""
    jsonschema.Draft202012Validator.check_schema(layouts.schema(name))


def test_every_schema_is_listed_with_its_layout(capsys: pytest.CaptureFixture[str]) -> None:
    status, text, _ = ran("schema", capsys=capsys)
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    assert status == 0
    assert [row[0] for row in rows] == layouts.names()
    assert all(layout.startswith(f"pagewise.{name}/") for name, layout, _ in rows)
    status, _, errors = ran("schema", "no-such", capsys=capsys)
    assert status == 2 and "one of advice, " in errors


def test_results_are_found_by_the_name_of_their_command() -> None:
    for command, names in layouts.OF_COMMANDS.items():
        found = layouts.printed(command)
        results = [layouts.schema(name) for name in names]
        titles = [alternative["title"] for alternative in found.get("anyOf", [found])]
        assert titles == [result["title"] for result in results]
        for result in results:
            # Definitions of one name are the same in all results of a command.
            assert result.get("$defs", {}).items() <= found.get("$defs", {}).items()


def test_advise_pagesize_prints_the_advice_and_the_answer(
    references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text, _ = ran("advise", "pagesize", references, "--json", capsys=capsys)
    result, advice = json.loads(text), layouts.schema("advice-page-size")
    needed = {*advice["required"], "trace", "program", "assumed", "advice", "memories", "heat"}
    assert result.keys() == needed
    assert result["advice"].items() <= result.items()
    assert result["schema"] == advice["$id"]


def test_imports_fit_the_schema_of_the_command(tmp_path: Path) -> None:
    text = tmp_path / "refs.csv"
    text.write_text(ADDRESSES)
    check(pw.import_references(text, tmp_path / "refs.pwf"), layouts.printed("import"))


def test_types_of_results_load_from_the_package() -> None:
    assert "accesses" in pw.types.Analysis.__annotations__
    computed = {kind.__name__: kind for kind in layouts.LAYOUTS.values()}
    assert {name: getattr(pw.types, name) for name in computed} == computed
    assert computed.keys() <= set(dir(pw.types))
    with pytest.raises(AttributeError, match="Analyses"):
        _ = pw.types.Analyses
