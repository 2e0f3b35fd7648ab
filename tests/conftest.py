"""Inputs that many tests share: a recording to count by hand, and small simulated phones."""

import os
import signal
from pathlib import Path

import pytest

import pagewise as pw
from pagewise_studies import launch_phones

# Two processes; page 1 of process 10 leaves twice and returns once, page 2 leaves once, and so on.
EVENTS = """\
# a comment
time_s,event,process,page,state,kind
0.0,out,10,0x1,D,anon
0.5,out,10,0x2,D,anon
1.0,in,10,0x1,,anon
1.5,out,20,0x1,D,anon
2.0,out,10,0x1,C,anon
2.5,in,20,0x1,,anon
3.0,out,20,0x7,D,anon
4.0,exit,20,,,
"""
ACCESSES, PAGES, WRITES = 7, 4, 4

# In the background or under nohup, these signals are ignored here and in all child processes.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests in live/ as slow, since most take seconds, and those that are long."""
    live = Path(__file__).with_name("live")
    for item in items:
        if live in item.path.parents or item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording as CSV in the `events` format."""
    path = tmp_path_factory.mktemp("recording") / "small.csv"
    path.write_text(EVENTS)
    return path


@pytest.fixture(scope="session")
def trace(recording: Path) -> Path:
    """The recording as a trace file."""
    path = recording.with_suffix(".parquet")
    pw.import_trace(recording, path)
    return path


@pytest.fixture
def small_phones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated phones at a tenth of each size, with only one value for most choices."""
    monkeypatch.setattr(launch_phones, "APP_MIB", 12)
    monkeypatch.setattr(
        launch_phones,
        "PHONES",
        {"1 GB, 9 apps": (60, 9), "2 GB, 9 apps": (150, 9), "2 GB, 25 apps": (150, 25)},
    )
    library = {"name": "libraries", "mib": 6, "linked_percent": 50}
    monkeypatch.setattr(launch_phones, "LIBRARIES", library)
    monkeypatch.setattr(launch_phones, "SERVICES_MIB", 6)
    monkeypatch.setattr(launch_phones, "ORDERS", ("strict",))
    monkeypatch.setattr(launch_phones, "DEVICES", {"emmc-5.1": 250})
    needs = {app: need // 10 for app, need in launch_phones.NEEDS_KB.items()}
    monkeypatch.setattr(launch_phones, "NEEDS_KB", needs)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Adds each skipped test to the ledger that `make test` counts, as testkit does for Rust."""
    ledger = os.environ.get("PAGEWISE_SKIPPED")
    for report in terminalreporter.stats.get("skipped", []) if ledger else []:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        with open(str(ledger), "a") as file:
            file.write(f"Python: {report.nodeid}: {str(reason).removeprefix('Skipped: ')}\n")
