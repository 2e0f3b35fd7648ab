"""The script that cuts recorded runs into examples/ harms neither its source nor what is there."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from run_folders import rounds, write_run

from pagewise.errors import UsageError

SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "cut_recordings.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script with a cutter that fails."""
    spec = importlib.util.spec_from_file_location("cut_recordings", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CUT", ("false",))
    return module


def test_a_run_is_written_in_place_of_what_is_there(script: ModuleType, tmp_path: Path) -> None:
    run = write_run(tmp_path / "row" / "run-0", rounds(1, 1.0))
    output = write_run(tmp_path / "examples" / "row" / "run-0", rounds(2, 9.0))
    script.cut(run, tmp_path / "examples")
    for name in ("run.toml", "visits.parquet"):
        assert (output / name).read_bytes() == (run / name).read_bytes()
    assert list(output.parent.iterdir()) == [output]


def test_the_script_does_not_delete_its_own_source(script: ModuleType, tmp_path: Path) -> None:
    run = write_run(tmp_path / "row" / "run-0", rounds(1, 1.0))
    with pytest.raises(UsageError, match="already in"):
        script.cut(run, tmp_path)
    assert (run / "visits.parquet").is_file()


def test_a_run_that_did_not_judge_itself_is_refused(script: ModuleType, tmp_path: Path) -> None:
    run = write_run(tmp_path / "row" / "run-0", rounds(1, 1.0), invalid_because=None)
    with pytest.raises(UsageError, match="does not say whether"):
        script.cut(run, tmp_path / "examples")


def test_a_run_may_be_kept_without_its_recording(script: ModuleType, tmp_path: Path) -> None:
    run = write_run(tmp_path / "row" / "run-0", rounds(1, 1.0), recording="no recording")
    assert script.main(["--no-recording", "--to", str(tmp_path / "kept"), str(run)]) == 0
    kept = {path.name for path in (tmp_path / "kept" / "row" / "run-0").iterdir()}
    assert "visits.parquet" in kept
    assert not any(name.endswith(".pgr") for name in kept)


def test_after_a_failure_the_old_folder_is_there(
    script: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = write_run(tmp_path / "row" / "run-0", rounds(1, 1.0), recording="no recording")
    output = write_run(tmp_path / "examples" / "row" / "run-0", rounds(2, 9.0))
    before = (output / "visits.parquet").read_bytes()
    assert script.main(["--to", str(tmp_path / "examples"), str(run)]) == 3
    assert "not cut" in capsys.readouterr().err
    assert (output / "visits.parquet").read_bytes() == before
    assert list(output.parent.iterdir()) == [output]


def test_without_an_argument_the_script_prints_its_usage(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        script.main([])
    assert end.value.code == 2
    assert "usage:" in capsys.readouterr().err
