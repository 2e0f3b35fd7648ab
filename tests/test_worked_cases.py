"""The worked cases, which ship as `events` files, give the counts in their comments."""

import re
from pathlib import Path
from typing import Any

import pytest

import pagewise as pw

FOLDER = Path(__file__).parent.parent / "examples" / "worked-cases"

# `#   OPTION=VALUE ...  slow READS / WRITES  fast READS / WRITES`
CASE = re.compile(r"^#\s+((?:\w+=\w+ )+) +slow (\d+) / (\d+)  fast (\d+) / (\d+)$")


def cases() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.csv")):
        for line in path.read_text().splitlines():
            if match := CASE.match(line):
                options = dict(word.split("=") for word in match[1].split())
                counts = [int(count) for count in match.groups()[1:]]
                found.append(pytest.param(path, options, counts, id=f"{path.stem} {match[1]}"))
    return found


def test_every_published_case_ships() -> None:
    assert len(cases()) == 6


@pytest.mark.parametrize(("path", "options", "counts"), cases())
def test_the_counts_are_the_published_ones(
    path: Path, options: dict[str, str], counts: list[int]
) -> None:
    result = pw.simulate(
        path,
        architecture=path.stem,
        fast_tier=4096,
        fast="4/5us",
        slow="90/40us",
        option=options,
    )
    slow, fast = result["slow"], result["fast"]
    assert [slow["reads"], slow["writes"], fast["reads"], fast["writes"]] == counts
    if path.stem == "hybrid":
        assert (result["promotions"], result["demotions"]) == (2, 1)
