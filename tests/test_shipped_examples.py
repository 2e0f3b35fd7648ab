"""Examples: each is in one package, and a message names where a missing one is."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from commands import ran

import pagewise
from pagewise import shipped
from pagewise.cli import tell_missing_example

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "packaging"))
import examples_wheel  # noqa: E402 - a script of packaging/

PACKAGED = "phone-1g/phone-1g.pgr"
LEFT_OUT = "page-size/photo.pwf"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed package with one example; the caller is somewhere else."""
    folder = tmp_path / "site-packages/pagewise/examples"
    example = folder / PACKAGED
    example.parent.mkdir(parents=True)
    example.touch()
    monkeypatch.setattr(pagewise, "__file__", str(folder.with_name("__init__.py")))
    monkeypatch.chdir(tmp_path)
    return folder


def built(output: Path) -> Path:
    command = [sys.executable, ROOT / "packaging/examples_wheel.py", output]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (wheel,) = output.iterdir()
    return wheel


@pytest.mark.slow
def test_the_data_package_has_the_other_examples_and_the_same_bytes_twice(tmp_path: Path) -> None:
    first, second = built(tmp_path / "first"), built(tmp_path / "second")
    assert first.name == second.name and first.read_bytes() == second.read_bytes()
    assert first.name.startswith(examples_wheel.name().replace("-", "_"))
    with zipfile.ZipFile(first) as archive:
        names = {name for name in archive.namelist() if name.startswith("pagewise/")}
        for path in names:
            assert archive.read(path) == (ROOT / path.removeprefix("pagewise/")).read_bytes()
    assert f"pagewise/examples/{LEFT_OUT}" in names
    assert f"pagewise/examples/{PACKAGED}" not in names
    assert "pagewise/examples/page-size/vms-1.toml" in names


def test_a_missing_example_is_in_the_data_package(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, diagnostics = ran("info", f"examples/{LEFT_OUT}", capsys=capsys)
    assert status == 3
    assert f"in the package {examples_wheel.name()}, which is not installed" in diagnostics
    assert shipped.place_of(str(installed / LEFT_OUT)) == installed / LEFT_OUT
    _, listed, diagnostics = ran("list", "examples", capsys=capsys)
    assert str(installed) in listed and examples_wheel.name() in diagnostics


def test_an_example_elsewhere_is_named_by_its_path(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_missing_example(f"examples/{PACKAGED}")
    assert f"this example is {installed / PACKAGED}" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["own.pgr", "my/examples/own.pgr", "-", "", "examples\0", None])
def test_other_paths_name_no_package(
    path: str | None, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_missing_example(path)
    assert capsys.readouterr().err == ""


def test_the_source_tree_lacks_no_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert shipped.lacking_package() is None
    status, _, diagnostics = ran("info", "examples/absent.pwf", capsys=capsys)
    assert status == 3 and "package" not in diagnostics
