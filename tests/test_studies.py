"""The studies from inputs to verdicts, on small generated recordings."""

import json
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from commands import ran
from run_folders import MIB, rounds, write_run

from pagewise.errors import UsageError
from pagewise.grids.traces import TraceSource
from pagewise.launch_runs import read_run
from pagewise.studies import Study, studies
from pagewise.study_rows import ruling
from pagewise_studies import catalog, multiswap, nvm_cache, sensitivity, thrash
from pagewise_studies.text import markdown
from pagewise_studies.verdict import FAILS, HOLDS, NEEDS, UNMEASURED
from pagewise_studies.workloads import Workload

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SMALL = {"apps": 6, "footprint_mib": 8, "libraries_mib": 4, "services_mib": 4, "rounds": 3}
FIGURE_COLUMNS = ["x", "series", "y", "std", "n", "seed", "config_hash"]


def stand_in(name: str, memory_mib: int, seed: int = 9, **more: object) -> Workload:
    parameters = {**SMALL, "memory_mib": memory_mib, "seed": seed, **more}
    return Workload(name, (), (TraceSource(name, scenario=tuple(sorted(parameters.items()))),))


@pytest.fixture
def small(small_phones: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every workload and phone small, with three sizes of the fast tier."""

    def scenario(
        arrangement: str, schedule: str, order: str, memory_mib: int, seeds: range, **more: object
    ) -> Workload:
        parameters = {"arrangement": arrangement, "schedule": schedule, "order": order}
        parameters |= {**SMALL, "memory_mib": 24 if memory_mib == 600 else 40, **more}
        parameters["apps"] = more.get("apps", 12) // 2
        traces = tuple(
            TraceSource(
                f"{arrangement}-{schedule}-{order}-{memory_mib}-{sorted(more)}",
                scenario=tuple(sorted({**parameters, "seed": seed}.items())),
                seed=seed,
            )
            for seed in seeds
        )
        return Workload(arrangement, (("order", order), ("schedule", schedule)), traces)

    monkeypatch.setattr(multiswap, "scenario", scenario)
    monkeypatch.setattr(nvm_cache, "scenario", scenario)
    monkeypatch.setattr(
        multiswap,
        "scenarios",
        lambda seeds: [
            replace(found, choices=(("memory", f"{memory} MiB"), *found.choices))
            for memory in multiswap.MEMORIES_MIB
            for arrangement in multiswap.ARRANGEMENTS
            for found in [scenario(arrangement, "round-robin", "strict", memory, seeds)]
        ],
    )
    monkeypatch.setattr(multiswap, "SIZES_MIB", (1, 4, 16))
    monkeypatch.setattr(nvm_cache, "SIZES_MIB", (0, 1, 4, 16, 256))
    monkeypatch.setattr(sensitivity, "SIZES_MIB", (2,))


def recordings_of(study: Study, folder: Path) -> Path:
    """Small recordings for a study."""
    visits = rounds(2, 1.0, 1.0, bytes_in=MIB)
    for number in range(2):
        if study.name == nvm_cache.NAME:
            write_run(folder / "s0-swap" / f"on-{number}", visits, recording=returning(600, 300))
            write_run(folder / "s0-kill" / f"off-{number}", visits, mode="kill")
            continue
        for row in multiswap.ROWS:
            write_run(folder / row / f"on-{number}", visits, recording=returning(0, 2000))
    return folder


def returning(file_pages: int, anonymous_pages: int) -> str:
    """A recording of pages that leave memory and come back four times."""
    lines = ["time_s,event,process,page,state,kind"]
    for round_ in range(4):
        for page in range(file_pages):
            lines.append(f"{round_},request,10,{page},,file")
        lines += [f"{round_},out,10,{page},D,anon" for page in range(anonymous_pages)]
        lines += [f"{round_},evict,10,{page},C,file" for page in range(file_pages)]
        lines += [f"{round_},in,10,{page},,anon" for page in range(anonymous_pages)]
    return "\n".join(lines) + "\n"


SIMULATED = [study for study in studies() if study.name in (multiswap.NAME, nvm_cache.NAME)]


def test_every_row_of_the_catalog_names_its_module() -> None:
    for study in studies():
        assert study.name == sys.modules[study.run.__module__].NAME
        assert study.example.startswith(f"pagewise study {study.name}")


def test_every_row_of_the_catalog_is_an_entry_point() -> None:
    rows = [row for row in vars(catalog).values() if isinstance(row, Study)]
    assert rows and studies() == sorted(rows, key=lambda study: study.name)


def test_without_the_package_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_: ())
    for command in ("study multiswap", "list studies"):
        status, output, diagnostics = ran(*command.split(), capsys=capsys)
        assert (status, output) == (2, "")
        assert "make build" in diagnostics and "pip install ./studies" in diagnostics
    status, output, diagnostics = ran("list", capsys=capsys)
    assert (status, diagnostics) == (0, "") and "devices" in output and "studies" not in output


@pytest.mark.slow
@pytest.mark.parametrize(
    "study",
    [
        pytest.param(study, marks=pytest.mark.long if study.name == "multiswap" else ())
        for study in SIMULATED
    ],
    ids=lambda study: study.name,
)
def test_a_study_ends_in_figures_verdicts_and_a_sensitivity_table(small, tmp_path: Path, study):
    recordings = recordings_of(study, tmp_path / "runs")
    result = study.run(recordings, tmp_path, seeds=2, progress=None)
    assert json.loads((tmp_path / f"{study.name}.json").read_text()) == result
    for verdict in result["verdicts"]:
        assert verdict["verdict"] in (HOLDS, FAILS, NEEDS, UNMEASURED)
        assert verdict["why"]
        assert (verdict["verdict"] == NEEDS) == bool(verdict["needs"])
        assert (verdict["verdict"] == FAILS) == (0 == verdict["holding"] < verdict["readings"])
    for figure in result["figures"]:
        assert figure["columns"] == FIGURE_COLUMNS
        lines = (tmp_path / f"{figure['name']}.csv").read_text().splitlines()
        assert lines[0].split(",") == FIGURE_COLUMNS
        assert len(lines) == 1 + len(figure["rows"])
    assert result["sensitivity"]
    text = markdown(result)
    assert all(ruling(verdict) in text for verdict in result["verdicts"])

    again = study.run(recordings, tmp_path, seeds=2, progress=None)
    assert again == result


@pytest.mark.long
def test_every_acceptance_check_of_s0_and_s1_has_a_verdict(small, tmp_path: Path):
    names = set()
    for study in SIMULATED:
        recordings = recordings_of(study, tmp_path / "runs")
        result = study.run(recordings, tmp_path, seeds=1, progress=None)
        names |= {verdict["check"] for verdict in result["verdicts"]}
    folders = [
        write_run(tmp_path / f"thrash-{mode}-{number}", rounds(2, 1.0, bytes_in=MIB), mode=mode)
        for mode in ("swap-file", "kill")
        for number in range(2)
    ]
    result = thrash.study(folders, tmp_path, seed=1, progress=None)
    names |= {verdict["check"] for verdict in result["verdicts"]}
    expected = {f"ACC-S0-{n}" for n in range(1, 8)} | {f"ACC-S1-{n}" for n in range(1, 8)}
    assert names == expected


def test_the_runs_that_ship_have_their_visits_kills_and_swap():
    on, off = read_run(EXAMPLES / "phone-1g"), read_run(EXAMPLES / "kill-1g")
    assert [len(on.during(number, number)) for number in on.rounds()] == [9] * 5
    assert [len(off.during(number, number)) for number in off.rounds()] == [9] * 5
    assert on.unfinished is off.unfinished is None
    assert (on.kills, off.swap_bytes) == (0, 0)
    assert 0 < on.swap_bytes < on.io_bytes
    assert off.kills > 0


@pytest.mark.slow
def test_an_nvm_cache_absorbs_pages_that_leave_twice(small, tmp_path: Path) -> None:
    study = next(study for study in SIMULATED if study.name == nvm_cache.NAME)
    recordings = recordings_of(study, tmp_path / "runs")
    result = study.run(recordings, tmp_path, seeds=1, progress=None)
    rows = {
        row[1]: dict(zip(table["columns"], row, strict=True))
        for table in result["tables"]
        if table["name"] == "by-size"
        for row in table["rows"]
    }
    # 900 pages need 4 MiB. Without NVM there are 3600 reads and 1200 writes. With it, a page of
    # swap is written at its first page-out and read at its first return; a page of a file is read
    # at its first two requests.
    assert rows["clean pages admitted"]["256"] == (2 * 300 + 2 * 600) / 4800
    assert rows["clean pages not admitted"]["256"] == (2 * 300 + 4 * 600) / 4800
    assert rows["second eviction, just requested"]["256"] == (2 * 300 + 2 * 600) / 4800
    assert rows["first eviction, just requested"]["256"] == 600 / 4800
    left = next(table for table in result["tables"] if table["name"] == "evictions")
    assert [row[:5] for row in left["rows"]] == [
        ["swap on (on)", 2, "all", 900, 3600],
        ["swap on (on)", 2, "anonymous", 300, 1200],
        ["swap on (on)", 2, "file", 600, 2400],
    ]
    clean = next(row for row in result["verdicts"] if row["part"] == "clean pages")
    assert (clean["verdict"], clean["data"]) == (HOLDS, "on")


def test_a_plan_with_an_unrecorded_repeat_is_refused(small, tmp_path: Path) -> None:
    for number, recording in enumerate([returning(6, 3), None]):
        folder = tmp_path / "s0-swap" / f"on-{number}"
        write_run(folder, rounds(2, 1.0, 1.0), recording=recording)
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="on-1: the run has no recording"):
        nvm_cache.study(tmp_path, tmp_path / "out", seeds=1, progress=None)


def test_without_a_recorded_run_nvm_cache_says_what_it_needs(tmp_path: Path) -> None:
    write_run(tmp_path / "s0-kill" / "off", rounds(2, 1.0), mode="kill")
    with pytest.raises(UsageError, match="no recorded run with swap"):
        nvm_cache.study(tmp_path, tmp_path / "out", seeds=1, progress=None)
