"""A figure as data: a CSV file with the columns x, series, y, std, n, seed and config_hash."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pagewise.comparisons import StudyFigure
from pagewise.grids.key import digest
from pagewise.storage import write_text

COLUMNS = ("x", "series", "y", "std", "n", "seed", "config_hash")


@dataclass(frozen=True)
class Point:
    """One value: the mean of ``n`` runs and their standard deviation (0 for one run).

    ``seed`` is the seed of a single run, ``first-last`` for several runs, or empty for recordings.
    """

    x: float | str
    series: str
    y: float
    std: float = 0.0
    n: int = 1
    seed: str = ""


@dataclass(frozen=True)
class Figure:
    """A named set of points; ``config`` is everything that the points depend on.

    A page draws figures with the same ``chart`` as one chart with that title, in which the reader
    chooses a ``view``. It places charts with the same ``group`` together. ``is_joined``: the names
    on the x axis have an order, so lines join their points.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    points: tuple[Point, ...]
    config: Mapping[str, object] = field(repr=False)
    is_categorical: bool = False
    is_stacked: bool = False
    is_joined: bool = False
    has_log_y: bool = False
    chart: str = ""
    view: str = ""
    group: str = ""

    def to_json(self) -> StudyFigure:
        """The figure as results files and the report have it."""
        config_hash = self.config_hash()
        return {
            "name": self.name,
            "title": self.title,
            "x_label": self.x_label,
            "y_label": self.y_label,
            "is_categorical": self.is_categorical,
            "is_stacked": self.is_stacked,
            "is_joined": self.is_joined,
            "has_log_y": self.has_log_y,
            "chart": self.chart or self.title,
            "view": self.view,
            "group": self.group,
            "columns": list(COLUMNS),
            "rows": [
                [point.x, point.series, point.y, point.std, point.n, point.seed, config_hash]
                for point in self.points
            ],
        }

    def marked(self, mark: str) -> Figure:
        """The figure with ``mark`` behind the name of every series."""
        points = tuple(replace(point, series=point.series + mark) for point in self.points)
        return replace(self, points=points)

    def config_hash(self) -> str:
        """The first 16 hexadecimal digits of the sha256 of the configuration."""
        return digest(self.config)[:16]

    def to_csv(self) -> str:
        """The CSV file as text, with a header line."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(self.to_json()["rows"])
        return text.getvalue()

    def write(self, folder: Path) -> Path:
        """Writes ``NAME.csv`` into ``folder``."""
        path = folder / f"{self.name}.csv"
        write_text(path, self.to_csv())
        return path


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of at least one value."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def mean_point(
    x: float | str, series: str, values: Sequence[float], seeds: Sequence[int | None] = ()
) -> Point:
    """The mean of several values as a point; ``seeds`` are the seeds of their runs, if any."""
    mean, std = spread(values)
    known = [seed for seed in seeds if seed is not None]
    seed = "" if not known else str(known[0]) if len(known) == 1 else f"{known[0]}-{known[-1]}"
    return Point(x, series, mean, std, len(values), seed)
