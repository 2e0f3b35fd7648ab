"""What bench/run.py writes when it runs one script of several."""

import importlib
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("run")


def test_what_was_not_measured_here_stays(run) -> None:
    names = (*run.SCRIPTS, *run.NAMED_ONLY)
    committed = run.DOCUMENT.read_text()
    assert run.document(committed, dict.fromkeys(names, "")) == committed
    second = run.SCRIPTS[1]
    written = run.document(
        committed, dict.fromkeys(names, "") | {second: f"\n## {second}\n\nnew\n"}
    )
    assert f"\n## {second}\n\nnew\n\n## " in written
    heads = [line for line in committed.splitlines() if line.startswith("## ")]
    assert [line for line in written.splitlines() if line.startswith("## ")] == heads
