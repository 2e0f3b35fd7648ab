"""Figures are written as CSV with exactly the columns of the spec sheets."""

import csv
from pathlib import Path

from pagewise_studies.figure import Figure, Point, mean_point


def figure(**config: str) -> Figure:
    points = (Point(64, "hybrid", 1.5), mean_point(128, "hybrid, keep", [1.0, 2.0, 3.0], [0, 1, 2]))
    return Figure("fig2", "I/O time", "MiB", "seconds", points, config)


def test_the_csv_has_the_columns_and_reads_back(tmp_path: Path):
    path = figure(latencies="90/40").write(tmp_path)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["x", "series", "y", "std", "n", "seed", "config_hash"]
    assert rows[1] | {"config_hash": ""} == {
        "x": "128",
        "series": "hybrid, keep",
        "y": "2.0",
        "std": "1.0",
        "n": "3",
        "seed": "0-2",
        "config_hash": "",
    }


def test_the_hash_is_that_of_the_configuration():
    assert figure(a="1").config_hash() == figure(a="1").config_hash()
    assert figure(a="1").config_hash() != figure(a="2").config_hash()
