"""The skew of accesses with and without file pages, with `analyze` as the oracle."""

from pathlib import Path

import pytest

import pagewise as pw
from pagewise_studies.thrash_storage import of_pages

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

# Ten pages go to swap, and page 0 has three more accesses. A file page is requested five times.
EVENTS = "time_s,event,process,page,state,kind\n" + "\n".join(
    [f"{page},out,1,{page},D,anon" for page in range(10)]
    + ["11,in,1,0,,anon", "12,out,1,0,D,anon", "13,in,1,0,,anon"]
    + [f"{20 + time},request,1,7,,file" for time in range(5)]
    + ["30,evict,1,7,C,file", "31,exit,1,,,"]
)


def test_accesses_to_files_count_only_in_swap_and_files(tmp_path: Path) -> None:
    recording = tmp_path / "events.csv"
    recording.write_text(EVENTS)
    found = of_pages(pw.read(recording))
    swap, both = found["swap"], found["swap and files"]
    assert (swap["pages"], swap["accesses"]) == (10, 13)
    assert (swap["top_share"]["0.1"], swap["single_access"]["pages"]) == (4 / 13, 9 / 10)
    # 80 % of 13 accesses are 11: four to the first page, and one to each of seven others.
    assert swap["pages_for_80_percent"] == 8 / 10
    assert swap["single_out"] == {"pages": 9 / 10, "outs": 9 / 11}
    assert swap["top_10_percent_classes"] == {"anonymous": {"pages": 1, "accesses": 1}}
    # ceil(0.1 x 11) is two pages: the file page with five accesses, and the swapped page with four.
    assert (both["pages"], both["accesses"], both["top_share"]["0.1"]) == (11, 18, 9 / 18)
    assert both["top_10_percent_classes"] == {
        "anonymous": {"pages": 0.5, "accesses": 4 / 9},
        "file": {"pages": 0.5, "accesses": 5 / 9},
    }


def test_without_files_the_skew_equals_that_of_analyze() -> None:
    trace = pw.read(EXAMPLES / "phone-2g" / "phone-2g.pgr")
    found, expected = of_pages(trace), pw.analyze(trace)
    assert list(found) == ["swap"]
    for name, value in found["swap"].items():
        if name == "top_10_percent_classes":
            assert value.keys() == expected[name].keys()
            for kind, shares in value.items():
                assert shares == pytest.approx(expected[name][kind])
        else:
            assert value == expected[name], name


def test_no_events_give_no_accesses(tmp_path: Path) -> None:
    recording = tmp_path / "events.csv"
    recording.write_text("time_s,event,process,page,state,kind\n0.0,exit,1,,,\n")
    found = of_pages(pw.read(recording))
    assert [(kind, shares["accesses"]) for kind, shares in found.items()] == [("swap", 0)]
