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
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "packaging")]
import deb  # noqa: E402 - a script of packaging/
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
    for text in (*licenses.GNU, "0. This License Agreement applies to any software library"):
        assert text in run.stdout


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


def test_the_agent_names_what_its_static_build_contains() -> None:
    text = licenses.FILES["pagewise-agent"].read_text()
    for row in (
        r"glibc +LGPL-2\.1-or-later",
        r"libelf +LGPL-3\.0-or-later",
        r"zlib +Zlib",
        r"BPF programs of pagewise-agent +BSD-2-Clause",
        r"Rust standard library +Apache-2\.0",
    ):
        assert re.search(f"(?m)^{row}$", text), row
    assert "Jean-loup Gailly" in text and "https://www.gnu.org/licenses/" in text


@pytest.mark.parametrize("program", licenses.FILES)
def test_the_apache_licence_is_printed_once(program: str) -> None:
    text = licenses.FILES[program].read_text()
    assert len(re.findall("(?m)^ *Apache License$", text)) == 1


@pytest.mark.parametrize("program", licenses.FILES)
def test_a_debian_package_names_the_texts_that_debian_has_and_contains_all_others(
    program: str, tmp_path: Path
) -> None:
    info = tmp_path / "rich-15.0.0.dist-info/licenses"
    info.mkdir(parents=True)
    (info / "LICENSE").write_text("Copyright (c) 2020 Will McGugan\n")
    text = licenses.FILES[program].read_text()
    shown = deb.copyright_text(text, tmp_path)
    assert "Copyright: The pagewise developers" in shown
    assert {*licenses.GNU, "Apache License 2.0"} == deb.COMMON.keys()
    for name in deb.COMMON.values():
        assert f"/usr/share/common-licenses/{name}" in shown
    for repeated in ("TERMS AND CONDITIONS FOR", "0. This License Agreement applies", "0. Definit"):
        assert repeated not in shown
    for part in ("zstd in zstd-sys", "LGPL-2.1-or-later", "Jean-loup Gailly", "Will McGugan"):
        assert part in shown
    (info / "LICENSE").unlink()
    with pytest.raises(SystemExit, match=r"rich-15\.0\.0.* no text of its licence"):
        deb.copyright_text(text, tmp_path)


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
