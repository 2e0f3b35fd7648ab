"""bench/run.py, when it runs only one of several scripts."""

import importlib
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("run")


def test_sections_that_were_not_measured_stay(run) -> None:
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
