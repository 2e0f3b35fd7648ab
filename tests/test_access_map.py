"""Maps of accesses by time and address: in results, and in the report."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_results import EVIL, analysis

import pagewise as pw
from pagewise.report.heat import HeatRow, address_axis, heat_series
from pagewise.report.inputs import gather
from pagewise.report.panels import access_map

EXAMPLES = Path(__file__).parents[1] / "examples"
PHONE = EXAMPLES / "phone-1g/phone-1g.pgr"
PHOTO = EXAMPLES / "page-size/photo.pwf"


def naive(path: Path, tmp_path: Path, heat: Any) -> dict[str, dict[tuple[int, int], int]]:
    """The counts of each process and range of `heat`, from the rows of the trace file."""
    polars = pytest.importorskip("polars")
    trace = tmp_path / "trace.parquet"
    pw.import_trace(path, trace)
    header = pw.read(trace).header
    rows = polars.read_parquet(trace)
    bin_ns = round(heat["bin_s"] * 1e9)
    found: dict[str, dict[tuple[int, int], int]] = {}
    for space in heat["spaces"]:
        pid = int(space["name"].rsplit("(", 1)[1].rstrip(")"))
        numbers = [n for n, process in enumerate(header["processes"]) if process["pid"] == pid]
        # swap_out, swap_in, evict and request are accesses.
        own = rows.filter((polars.col("space") - 1).is_in(numbers) & (polars.col("event") < 4))
        address = own["address"].to_numpy() * 4096 // space["range_bytes"]
        since = own["time_ns"].to_numpy()
        places, counts = np.unique(
            np.stack([address.astype("i8"), since // bin_ns]), axis=1, return_counts=True
        )
        keys = ((int(range_), int(bin_)) for range_, bin_ in places.T)
        found[space["name"]] = dict(zip(keys, map(int, counts), strict=True))
    return found


def test_the_map_of_a_recording_has_the_counts_of_its_rows(tmp_path: Path) -> None:
    heat = pw.analyze(PHONE, by="process")["heat"]
    assert heat is not None and heat["bin_accesses"] is None and len(heat["spaces"]) == 8
    expected = naive(PHONE, tmp_path, heat)
    for space in heat["spaces"]:
        counts = {
            (int(row["first"], 16) // space["range_bytes"], bin_): count
            for row in space["ranges"]
            for bin_, count in enumerate(row["accesses"])
            if count
        }
        assert counts == expected[space["name"]]
        assert sum(counts.values()) == space["accesses"]
    shown = sum(space["accesses"] for space in heat["spaces"])
    assert shown + heat["left_out"] == pw.analyze(PHONE)["accesses"]


def test_maps_are_made_only_if_asked_for_and_not_of_samples() -> None:
    assert pw.analyze(PHONE)["heat"] is None
    assert pw.analyze(PHONE, by="process", sample="10%")["heat"] is None


def test_the_map_of_a_captured_program_has_the_references_that_missed_the_filter() -> None:
    counted = pw.curves(PHOTO, page_sizes="4KiB")
    heat = counted.heat
    assert heat is not None and heat["bin_s"] is None
    (program,) = heat["spaces"]
    assert (program["accesses"], heat["left_out"]) == (counted.steps, 0)
    bins = len(program["ranges"][0]["accesses"])
    assert (bins - 1) * (heat["bin_accesses"] or 0) <= counted.references
    panel = access_map.panel(gather([pw.page_size(PHOTO)]))
    assert panel is not None
    (chart,) = panel.charts
    assert chart.x.label == "accesses so far" and chart.title.startswith("Accesses of ")


def heat_of(*spaces: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"bin_s": 0.5, "bin_accesses": None, "spaces": list(spaces), "left_out": 0, **more}


def space(name: str, *accesses: list[int]) -> dict[str, Any]:
    ranges = [
        {"first": f"{place:x}000", "last": f"{place:x}fff", "accesses": counts}
        for place, counts in enumerate(accesses)
    ]
    total = sum(map(sum, accesses))
    return {"name": name, "accesses": total, "range_bytes": 4096, "ranges": ranges}


def test_a_map_has_a_cell_for_each_bin_and_range() -> None:
    heat = heat_of(space(EVIL, [8, 0], [1, 4]), space("quiet", [1, 0]), left_out=14)
    panel = access_map.panel(gather([{**analysis("busy", 0.5), "heat": heat}]))
    assert panel is not None
    busy, _ = panel.charts
    assert (busy.x.label, busy.x.high, busy.cell) == ("time", 1.0, (0.5, 1))
    cells = {series.name: series.points for series in busy.views[0].series}
    assert cells == {
        "no access": [(0.75, 0)],
        "up to a quarter of the most": [(0.25, 1)],
        "up to a half": [(0.75, 1)],
        "more than a half": [(0.25, 0)],
    }
    assert panel.finding == (
        f"On busy, {EVIL} has the most accesses, and a tenth of its ranges of addresses has "
        "61.5 % of them."
    )
    assert panel.notes[0].startswith("busy: 50.0 % of the accesses are to other address spaces")
    assert panel.tables[0].rows[1] == ("busy", "quiet", 1, 1, 4096)


@pytest.mark.parametrize(
    "heat",
    [
        None,
        heat_of(),
        heat_of({**space("no ranges"), "ranges": []}),
    ],
)
def test_results_without_a_map_have_no_panel(heat: Any) -> None:
    assert access_map.panel(gather([{**analysis("busy", 0.5), "heat": heat}])) is None
    earlier = analysis("busy", 0.5)
    del earlier["heat"]
    assert access_map.panel(gather([earlier])) is None


def test_a_map_without_an_access_and_with_ragged_rows_is_drawn() -> None:
    heat = heat_of(space("idle", [0, 0], [0]), bin_s=None, bin_accesses=4)
    panel = access_map.panel(gather([{**analysis("busy", 0.5), "heat": heat}]))
    assert panel is not None and panel.charts[0].x.high == 8
    rows = [HeatRow(f"{place:x}", "f", [None, 1.0]) for place in range(20)]
    assert sum(mark != "" for mark in address_axis(rows).names) == 7
    (series,) = heat_series(rows, 0, 1, "accesses")
    assert len(series.points) == 20
