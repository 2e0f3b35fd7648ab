"""The licences that the programs print are those of what they contain."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from report_results import analysis

import pagewise as pw
from pagewise.licenses import parts

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import licenses  # noqa: E402 - a script of tools/

AGENT = Path(sys.executable).with_name("pagewise-agent")


def test_the_texts_are_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools/licenses.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "run `cargo fetch`" in run.stderr:
        pytest.skip("cargo has not fetched the crates of every platform: cargo fetch")
    assert run.returncode == 0, run.stderr


def test_pagewise_prints_the_licences_of_its_parts() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pagewise", "--licenses"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == licenses.FILES["pagewise"].read_text()
    for part in ("ECharts", "parquet", "arrow-array", "zstd in zstd-sys", "Apache License 2.0"):
        assert part in run.stdout


def test_the_report_lists_the_parts_with_their_licences(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    pw.report([analysis("phone", 0.5)], page)
    listed = re.findall(r"<li>([^<]+): ([^<:]+)</li>", page.read_text())
    assert listed == parts() and len(listed) > 40
    assert ("ECharts 6.1.0", "Apache-2.0") in listed


@pytest.mark.skipif(not AGENT.exists(), reason="the agent is not built: make build")
def test_the_agent_prints_the_licences_of_its_parts() -> None:
    run = subprocess.run([AGENT, "--licenses"], capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == licenses.FILES["pagewise-agent"].read_text()
    assert "libbpf in libbpf-sys" in run.stdout and "arrow-array" not in run.stdout


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("MIT OR Apache-2.0", ["Apache-2.0"]),
        ("MIT/Apache-2.0", ["Apache-2.0"]),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", ["Apache-2.0", "Unicode-3.0"]),
        ("Unlicense OR MIT", ["MIT"]),
        ("LGPL-2.1-only OR BSD-2-Clause", ["BSD-2-Clause"]),
        ("Apache-2.0 WITH LLVM-exception", ["Apache-2.0 WITH LLVM-exception"]),
    ],
)
def test_the_preferred_licence_is_chosen(expression: str, wanted: list[str]) -> None:
    package = {"name": "a", "version": "1", "license": expression}
    assert licenses.chosen(package) == wanted


@pytest.mark.parametrize("expression", ["GPL-2.0", "MIT AND GPL-3.0", None])
def test_a_licence_that_is_not_accepted_stops_the_program(expression: str | None) -> None:
    with pytest.raises(SystemExit, match="a 1"):
        licenses.chosen({"name": "a", "version": "1", "license": expression})
