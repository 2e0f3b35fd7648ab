"""Eviction policies as cells of a grid."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from test_sweep import SMALL

import pagewise as pw
from pagewise.errors import UsageError
from pagewise.grids import results
from pagewise.grids.policies import parse_memory
from pagewise.grids.run import sweep
from pagewise.grids.spec import load, parse
from pagewise.policies import written

SIZES: list[int | str] = [7, "1MiB", "10%"]
SPEC: dict[str, Any] = {
    "scenario": [SMALL],
    "policy": [
        {"name": "lru", "sizes": SIZES},
        {"name": "lru-k", "options": {"k": [1, 3]}, "sizes": SIZES},
        {"name": "random", "options": {"seed": [0, 1]}, "sizes": ["25%"]},
        {"name": "opt", "sizes": ["10%"]},
    ],
}
CELLS = 3 + 2 * 3 + 2 + 1
ARCHITECTURES = {
    "sizes": ["1MiB"],
    "device": [{"fast": "4/5us", "slow": "90/40us"}],
    "architecture": [{"name": "flash"}, {"name": "hybrid"}],
}


def rows_of(spec: dict[str, Any], output: Path) -> list[dict[str, Any]]:
    """The rows of a grid in which every cell succeeds."""
    assert sweep(spec, output)["failed"] == []
    return results.read(str(output))


def test_every_row_has_the_counts_of_misses(trace: Path, tmp_path: Path) -> None:
    rows = rows_of({**SPEC, "scenario": [], "traces": [str(trace)]}, tmp_path / "results.parquet")
    assert len(rows) == CELLS
    for row in rows:
        policy = written(row["policy"], json.loads(row["options"]))
        result = pw.misses(trace, policy=policy, frames=row["frames"])
        assert row["misses"] == result["misses"][policy][str(row["frames"])]
        assert (row["requests"], row["pages"]) == (result["requests"], result["pages"])
        assert row["miss_ratio"] == row["misses"] / row["requests"]
        outcome = json.loads(row["outcome"])
        assert outcome == {name: result[name] for name in outcome}
        assert row["architecture"] is None and row["fast_tier_bytes"] is None


def test_sizes_are_pages_bytes_or_a_share_of_the_pages(tmp_path: Path) -> None:
    rows = rows_of(SPEC, tmp_path / "results.parquet")
    lru = {row["size"]: row for row in rows if row["policy"] == "lru"}
    pages = lru["7"]["pages"]
    assert pages % 10, "the share must not be a whole number of pages"
    frames = {size: row["frames"] for size, row in lru.items()}
    assert frames == {"7": 7, "1MiB": 256, "10%": math.ceil(pages / 10)}
    # The rule of `pagewise analyze` for a share of pages, without rounding errors.
    assert parse_memory("10%").of(70) == 7
    assert parse_memory("0.1%").of(1001) == 2
    assert parse_memory("100%").of(1001) == 1001


def test_policies_can_be_added_to_architectures_and_only_new_cells_run(tmp_path: Path) -> None:
    output = tmp_path / "results.parquet"
    alone = rows_of(SPEC, output)
    report = sweep({**SPEC, **ARCHITECTURES}, output)
    assert (report["cells"], report["kept"], report["computed"]) == (CELLS + 2, CELLS, 2)
    both = results.read(str(output))
    assert [row for row in both if row["policy"]] == alone
    assert {row["architecture"] for row in both} == {None, "flash", "hybrid"}
    assert all(row["misses"] is None for row in both if row["architecture"])
    fresh = tmp_path / "fresh.parquet"
    sweep({**SPEC, **ARCHITECTURES}, fresh, jobs=1)
    assert fresh.read_bytes() == output.read_bytes()


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ({"name": "lru"}, r"\[\[policy\]\] 1 needs 'sizes'"),
        ({"name": "lru", "sizes": []}, "needs 'sizes'"),
        ({"sizes": [1]}, "needs 'name'"),
        ({"name": "lru", "sizes": [1], "size": 2}, "unknown entries: size"),
        ({"name": "lru", "sizes": ["64 parsecs"]}, "not a size"),
        ({"name": "lru", "sizes": ["101%"]}, "not a share: '101%'"),
        ({"name": "lru", "sizes": ["%"]}, "not a share"),
        ({"name": "lru", "sizes": ["9" * 5000 + "%"]}, "not a share: '9{30}'"),
        ({"name": "lru", "sizes": [2**32]}, "are more than 4,294,967,295"),
        ({"name": "lru", "sizes": ["100B"]}, "holds no frame"),
    ],
)
def test_an_invalid_request_is_refused(policy: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse({"scenario": [SMALL], "policy": [policy]})


def test_policies_and_options_are_checked_before_the_first_cell(tmp_path: Path) -> None:
    policies = [
        {"name": "mru", "sizes": [1]},
        {"name": "lru-k", "options": {"k": [2, 9]}, "sizes": [1]},
        {"name": "lru", "options": {"k": 2}, "sizes": [1]},
    ]
    with pytest.raises(UsageError) as refused:
        sweep({"scenario": [SMALL], "policy": policies}, tmp_path / "results.parquet")
    result, *problems = str(refused.value).splitlines()
    assert result == "3 problems; nothing was run"
    for number, (problem, what) in enumerate(
        zip(problems, ("mru", "from 1 to 4", "no option k"), strict=True), start=1
    ):
        assert problem.startswith(f"  [[policy]] {number}: ") and what in problem
    assert list(tmp_path.iterdir()) == []


def test_the_report_draws_the_policies_of_a_sweep(tmp_path: Path) -> None:
    output, html = tmp_path / "results.parquet", tmp_path / "report.html"
    sweep({**SPEC, "seeds": [0, 1], **ARCHITECTURES}, output)
    pw.report([output], html)
    text = html.read_text()
    assert "small (seed 1), lru-k:k=3" in text and "hybrid" in text


@pytest.mark.parametrize("name", ["sweep.toml", "policies.toml"])
def test_the_grids_of_the_examples_are_valid(name: str) -> None:
    grid = load(Path(__file__).parents[1] / "examples" / name)
    assert len(grid) > 10
    assert all(Path(str(source.address)).exists() for source in grid.traces)
    assert all(request.effective() for request in grid.requests)
