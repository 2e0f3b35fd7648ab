"""The grid that a spec file spans, and the faults for which it is refused."""

from datetime import date
from pathlib import Path

import pytest

from pagewise.errors import UnreadableInput, UsageError
from pagewise.grids.key import cell_key, digest
from pagewise.grids.simulations import Simulation
from pagewise.grids.spec import load, parse

SPEC = {
    "traces": ["a.parquet"],
    "sizes": ["0", "64MiB"],
    "device": [{"fast": "4/5us", "slow": "90/40us"}],
    "architecture": [
        {"name": "flash"},
        {"name": "hybrid", "options": {"entry_bit": [0, 1], "flash_copy_on_promotion": "keep"}},
    ],
}


def test_every_trace_meets_every_combination():
    grid = parse(SPEC)
    assert len(grid) == 2 * (1 + 2)
    assert (
        Simulation(
            "hybrid",
            64 * 2**20,
            "4/5us",
            "90/40us",
            (("entry_bit", "1"), ("flash_copy_on_promotion", "keep")),
        )
        in grid.requests
    )


def test_seeds_multiply_only_generated_traces():
    grid = parse({**SPEC, "seeds": [1, 2], "scenario": [{"name": "phone", "memory_mib": 600}]})
    names = [(trace.name, trace.seed) for trace in grid.traces]
    assert names == [("a.parquet", None), ("phone", 1), ("phone", 2)]
    assert dict(grid.traces[1].scenario) == {"memory_mib": 600, "seed": 1}


def test_paths_are_relative_to_the_folder_of_the_spec(tmp_path: Path):
    path = tmp_path / "grid.toml"
    path.write_text(
        'traces = ["a.parquet", "s3://bucket/b.parquet"]\nsizes = [4096]\n'
        '[[device]]\nfast = "dram"\nslow = "hdd"\n[[architecture]]\nname = "flash"\n'
    )
    addresses = [trace.address for trace in load(path).traces]
    assert addresses == [str(tmp_path / "a.parquet"), "s3://bucket/b.parquet"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sizes": []}, "sizes"),
        ({"size": ["1MiB"]}, "unknown entries: size"),
        ({"sizes": ["64 parsecs"]}, "not a size"),
        ({"sizes": [1.5]}, "not a size"),
        ({"seeds": ["a"]}, "seed must be a whole number"),
        ({"seeds": [-1]}, "seed must be a whole number"),
        ({"seeds": [2**63]}, "seed must be a whole number"),
        ({"scenario": [{"memory_mib": [1, 2]}]}, "memory_mib must be a number or text"),
        ({"scenario": [{"memory_mib": date(2026, 1, 1)}]}, "memory_mib must be"),
        ({"traces": []}, "neither traces nor scenarios"),
        ({"device": [{"fast": "dram"}]}, "needs 'slow'"),
        ({"device": [{"fast": "dram", "slow": "drum"}]}, "drum"),
        ({"architecture": [{"nam": "flash"}]}, "unknown entries: nam"),
        ({"schema": "pagewise.sweep/9"}, "pagewise.sweep/9"),
    ],
)
def test_an_invalid_spec_is_refused_with_the_name_of_its_fault(change: dict, complaint: str):
    with pytest.raises(UsageError, match=complaint):
        parse({**SPEC, **change})


def test_all_faults_of_a_spec_are_named_together_with_their_places():
    wrong = {
        "traces": ["a.parquet"],
        "seeds": [0, -1],
        "sizes": ["1MiB", "64 parsecs", 1.5],
        "scenario": [{"name": "good"}, 7],
        "device": [{"fast": "dram", "slow": "hdd"}, {"fast": "dram", "slow": "drum"}],
        "architecture": [{"name": "flash"}, {"nam": "flash"}, {"name": "x", "options": 1}],
        "machine": 1,
    }
    with pytest.raises(UsageError) as refused:
        parse(wrong)
    result, *problems = str(refused.value).splitlines()
    assert result == f"{len(problems)} problems; nothing was run"
    places = [
        "the spec has unknown entries: machine",
        "seeds, entry 2: ",
        "[[scenario]] 2: ",
        "sizes, entry 2: ",
        "sizes, entry 3: ",
        "[[device]] 2: ",
        "[[architecture]] 2 has unknown entries: nam",
        "[[architecture]] 3, options: ",
    ]
    assert len(problems) == len(places)
    for problem, place in zip(problems, places, strict=True):
        assert problem.startswith(f"  {place}"), problem


def test_a_profile_is_text_whatever_it_looks_like():
    grid = parse({**SPEC, "architecture": [{"name": "hybrid", "profile": 3}]})
    assert {request.profile for request in grid.requests} == {"3"}


def test_missing_and_broken_files_have_different_errors(tmp_path: Path):
    with pytest.raises(UnreadableInput):
        load(tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("traces = [")
    with pytest.raises(UsageError, match="not a TOML file"):
        load(broken)
    broken.write_text("traces = []")
    with pytest.raises(
        UsageError, match=r"broken\.toml: 4 problems; nothing was run\n  the spec n"
    ):
        load(broken)
    broken.write_text(
        'traces = ["a"]\nsizes = []\n[[device]]\nfast = "dram"\nslow = "hdd"\n'
        '[[architecture]]\nname = "flash"\n'
    )
    with pytest.raises(UsageError, match=r"broken\.toml: the spec needs 'sizes'"):
        load(broken)


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": [{"name": "flash", "options": "x"}]},
        {"architecture": ["flash"]},
        {"device": ["4/5us"]},
        {"scenario": [1]},
    ],
)
def test_an_entry_that_must_be_a_table_is_named(change: dict):
    spec = {
        "traces": ["t.parquet"],
        "sizes": ["0"],
        "device": [{"fast": "4/5us", "slow": "90/40us"}],
        "architecture": [{"name": "flash"}],
    }
    with pytest.raises(UsageError, match="is not a table"):
        parse({**spec, **change})


def test_ratios_stand_for_nine_fast_devices():
    grid = parse(
        {
            "traces": ["t.parquet"],
            "sizes": ["1MiB"],
            "device": [{"fast": "ratios", "slow": "90/40us"}],
            "architecture": [{"name": "flash"}],
        }
    )
    fast = [request.fast for request in grid.requests]
    assert len(fast) == 9
    assert (fast[0], fast[-1]) == ("18000/18000ns", "1800/14400ns")


def test_a_key_changes_with_every_input_and_with_nothing_else():
    inputs = {
        "trace_sha256": "00",
        "effective": {"architecture": "flash", "options": {"a": "1", "b": "2"}},
        "seed": None,
        "build": "0.1.0, build 00",
        "schema": "pagewise.sweep/1",
    }
    key = cell_key(**inputs)
    reordered = {"options": {"b": "2", "a": "1"}, "architecture": "flash"}
    assert cell_key(**{**inputs, "effective": reordered}) == key
    changed = [
        {"trace_sha256": "01"},
        {"effective": {"architecture": "flash", "options": {"a": "1", "b": "3"}}},
        {"seed": 0},
        {"build": "0.1.0, build 01"},
        {"schema": "pagewise.sweep/2"},
    ]
    keys = {cell_key(**{**inputs, **change}) for change in changed}
    assert len(keys) == len(changed)
    assert key not in keys


def test_the_digest_is_that_of_canonical_json():
    # printf '{"a":1,"b":[]}' | sha256sum
    assert digest({"b": [], "a": 1}).startswith("f87e4099")
