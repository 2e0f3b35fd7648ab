"""The comparison of whole programs: differences, limits and the page."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from lazy.store import Measurement, Store
from programs import measure, summary
from programs.catalog import PROGRAMS
from programs.claims import claims, judges_cpu
from programs.document import document
from programs.modes import MODES
from programs.outcome import difference, outcome_text, short
from programs.places import SOURCES
from programs.program import MIB, Program
from programs.result import result

PROGRAM = Program(
    name="program",
    what="prints a number",
    words=["true"],
    expects="^worked",
    substitutions=[(r"process [0-9]+", "process NUMBER")],
    dropped="^debug",
    results=["file"],
)


def outcome(program: Program, folder: Path, text: str, end: str = "status 0") -> str:
    return outcome_text(program, folder, end, {"output": text.encode()}, False)


def test_normalisation_removes_only_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    first = outcome(PROGRAM, tmp_path, f"worked in {tmp_path}\nprocess 17\ndebug 1\n")
    assert first == outcome(PROGRAM, tmp_path, "worked in FOLDER\nprocess 4\ndebug 2\ndebug 3\n")
    assert first != outcome(PROGRAM, tmp_path, f"worked in {tmp_path}\nprocess x\ndebug 1\n")
    assert first != outcome(PROGRAM, tmp_path, f"worked in {tmp_path}\nprocess 17\n", "status 1")
    (tmp_path / "file").write_bytes(b"contend")
    assert first != outcome(PROGRAM, tmp_path, f"worked in {tmp_path}\nprocess 17\ndebug 1\n")


def test_order_counts_unless_lines_are_sorted(tmp_path: Path) -> None:
    texts = ("a\nb\n", "b\na\n")
    assert len({outcome(PROGRAM, tmp_path, text) for text in texts}) == 2
    is_sorted = replace(PROGRAM, is_sorted=True)
    assert len({outcome(is_sorted, tmp_path, text) for text in texts}) == 1


def test_a_process_that_remains_is_a_difference(tmp_path: Path) -> None:
    ends = {outcome_text(PROGRAM, tmp_path, "status 0", {}, is_left) for is_left in (False, True)}
    assert len(ends) == 2


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store that writes outcomes to a folder of the test."""
    for module in (measure, summary):
        monkeypatch.setattr(module, "OUTCOMES", tmp_path)
    monkeypatch.setitem(PROGRAMS, PROGRAM.name, PROGRAM)
    return Store(tmp_path / "runs.jsonl", "a build")


def add(store: Store, mode: str, number: int, text: str, **figures: float) -> None:
    """Adds a run whose outcome is `text`."""
    name = short(text)
    (store.path.parent / f"{name}.txt").write_text(text)
    defaults = {"cpu_s": 1.0, "peak_bytes": 100 * MIB, "charged_bytes": 100 * MIB, "wall_s": 1.0}
    service = {"is_loaded": mode != "stock", "served": 0}
    whole = {"outcome": name, "end": "status 0", **defaults, **service, **figures}
    key = (measure.fingerprint(PROGRAM), PROGRAM.name, mode, number)
    store.add(Measurement(*key, figures=whole, load=1.0))


def test_a_run_differs_if_no_stock_run_has_its_outcome(store: Store) -> None:
    add(store, "stock", 0, "worked\n")
    add(store, "stock", 1, "worked late\n")
    add(store, "fast", 0, "worked late\n")
    add(store, "guarded", 0, "worked\n")
    add(store, "guarded", 1, "failed\n")
    row = summary.summary(store, PROGRAM)
    assert [mode["differing_runs"] for mode in row["modes"]] == [0, 1]
    assert "-worked" in row["modes"][1]["difference"] and "+failed" in row["modes"][1]["difference"]
    verdicts = {claim.what: claim.is_reached for claim in claims([row])}
    assert verdicts["fast: programs that differ from stock"] is True
    assert verdicts["guarded: programs that differ from stock"] is False
    assert verdicts["thp: programs that differ from stock"] is None


def test_equal_failures_do_not_count_as_equal_outcomes(store: Store) -> None:
    for mode in ("stock", "fast"):
        add(store, mode, 0, "failed\n")
    row = summary.summary(store, PROGRAM)
    assert "lacks" in row["stock_fails"]
    assert claims([row])[0].is_reached is False


@pytest.mark.parametrize("must_be_served", [True, False, None])
def test_equal_outcomes_of_a_run_that_was_not_served_prove_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, must_be_served: bool | None
) -> None:
    program = replace(PROGRAM, is_served=must_be_served)
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", program)
    monkeypatch.setitem(PROGRAMS, program.name, program)
    for mode, served in (("stock", 0), ("fast", 7), ("guarded", 0), ("off", 0), ("off", 3)):
        add(store, mode, len(store.runs), "worked\n", served=served)
    row = summary.summary(store, program)
    judged = {
        claim.what.split(":")[0]: claim.is_reached
        for claim in claims([row])
        if "served" in claim.what
    }
    fast, guarded = {True: (True, False), False: (False, True), None: (None, None)}[must_be_served]
    assert judged == {"fast": fast, "guarded": guarded, "thp": None, "off": False}
    page = document(result(store, {}, "here", {"low": 1, "high": 2}))
    assert ("guarded: 0 of 1 runs served" in page) is (must_be_served is True)
    assert "off: 1 of 2 runs served, in 2 the library was loaded" in page and "**fast**" in page


def test_large_blocks_must_be_served() -> None:
    assert PROGRAM.must_be_served is None
    assert replace(PROGRAM, allocates_large=True).must_be_served is True
    assert replace(PROGRAM, allocates_large=True, is_served=False).must_be_served is False


@pytest.mark.parametrize(
    ("stock", "ours", "is_held"),
    [(10, 42, True), (10, 43, False), (200, 250, True), (200, 251, False)],
)
def test_the_larger_of_two_limits_bounds_peak_memory(stock: int, ours: int, is_held: bool) -> None:
    assert summary.is_held(stock * MIB, ours * MIB) is is_held


def test_cpu_time_is_judged_by_the_median_of_pairs(store: Store) -> None:
    for number, (stock, ours) in enumerate([(1.0, 1.02), (2.0, 2.04), (1.0, 3.0)]):
        add(store, "stock", number, "worked\n", cpu_s=stock)
        add(store, "fast", number, "worked\n", cpu_s=ours)
    row = summary.summary(store, PROGRAM)
    claim = claims([row])[-1]
    assert claim.is_reached and claim.measured.startswith("**1.02x**")
    assert not judges_cpu(row | {"allocates_large": True})
    assert not judges_cpu(row | {"stock_cpu_s": 0.1})


def test_a_single_run_has_no_interval_and_the_costliest_program_is_named(store: Store) -> None:
    add(store, "stock", 0, "worked\n", cpu_s=1.0)
    add(store, "fast", 0, "worked\n", cpu_s=5.0)
    load = {"low": 1, "high": 2}
    page = document(result(store, {}, "here", load))
    assert "| 5.00x | " in page and "- `fast`: 5.00x (program)" in page
    add(store, "stock", 1, "worked\n", cpu_s=1.0)
    add(store, "fast", 1, "worked\n", cpu_s=3.0)
    assert "| 4.00x (3.00 to 5.00) | " in document(result(store, {}, "here", load))


def test_the_page_names_differences_and_skipped_programs(store: Store) -> None:
    add(store, "stock", 0, "worked\n")
    add(store, "thp", 0, "failed\n")
    page = document(result(store, {"absent": "node is missing"}, "here", {"low": 1, "high": 2}))
    assert "**program**, thp: 1 of 1 runs differ" in page and "+failed" in page
    assert "| absent | node is missing |" in page
    assert "lines with `^debug` dropped" in page


def test_runs_of_a_program_are_found_again_by_another_process() -> None:
    code = "from programs.catalog import PROGRAMS; from programs.measure import fingerprint; "
    code += "print([fingerprint(program) for program in PROGRAMS.values()])"
    environment = os.environ | {"PYTHONPATH": str(SOURCES.parents[1])}
    lists = {
        subprocess.check_output([sys.executable, "-c", code], env=environment, timeout=60)
        for _ in range(2)
    }
    assert len(lists) == 1


def test_a_long_difference_is_cut() -> None:
    stock, ours = ("\n".join(f"{word}{at}" for at in range(90)) for word in "ab")
    lines = difference(stock, ours).splitlines()
    assert len(lines) == 41 and lines[-1].endswith("lines more")


def test_the_catalog_is_complete() -> None:
    assert set(MODES) == {"stock", "fast", "guarded", "thp", "off"}
    for program in PROGRAMS.values():
        named = [word for word in program.words if word.startswith("SOURCES/")]
        sources = [*(built.source for built in program.built), *named]
        for source in sources:
            assert (SOURCES / source.removeprefix("SOURCES/")).exists(), f"{program.name}: {source}"
        assert program.expects and program.limit_s <= 900
