"""How often pages leave memory, on a recording that is counted by hand."""

from pathlib import Path

import pytest

import pagewise as pw
from pagewise_studies.evictions import ALL, Evictions, evictions_of, table

# Page 1 leaves, returns twice in a row, so that it left clean in between, and leaves again. Page 2
# leaves once. The file page is read three times and leaves twice.
EVENTS = """\
time_s,event,process,page,state,kind
0.0,out,10,0x1,D,anon
0.1,request,10,0x100,,file
0.2,out,10,0x2,D,anon
0.3,in,10,0x1,,anon
0.4,evict,10,0x100,C,file
0.5,in,10,0x1,,anon
0.6,request,10,0x100,,file
0.7,evict,10,0x100,C,file
0.8,out,10,0x1,D,anon
0.9,request,10,0x100,,file
"""
ANONYMOUS = Evictions(pages=2, evictions=4, once=0.5, again=0.5, requests=2, served=0.5)
FILES = Evictions(pages=1, evictions=2, once=0.0, again=0.5, requests=3, served=1 / 3)
EVERY = Evictions(pages=3, evictions=6, once=1 / 3, again=0.5, requests=5, served=2 / 5)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "left.csv"
    path.write_text(EVENTS)
    return path


def test_evictions_and_requests_are_counted_by_class(recording: Path) -> None:
    assert evictions_of(recording) == {ALL: EVERY, "anonymous": ANONYMOUS, "file": FILES}


def test_an_imported_trace_has_the_same_evictions(recording: Path, tmp_path: Path) -> None:
    pw.import_trace(recording, tmp_path / "left.parquet")
    assert evictions_of(tmp_path / "left.parquet") == evictions_of(recording)


# Process 10 swaps out a page that process 11 maps too, and both swap it in, twice.
MAPPED_BY_TWO = "time_s,event,process,page,state,kind\n" + "".join(
    f"{time}.0,out,10,0x1,D,anon\n{time}.1,in,10,0x1,,anon\n{time}.2,in,11,0x1,,anon\n"
    for time in range(2)
)


def test_a_page_of_two_processes_leaves_as_often_as_it_is_swapped_out(tmp_path: Path) -> None:
    path = tmp_path / "shared.csv"
    path.write_text(MAPPED_BY_TWO)
    found = evictions_of(path)[ALL]
    assert (found.pages, found.evictions, found.requests) == (1, 2, 4)


def test_without_an_eviction_there_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "stays.csv"
    path.write_text("time_s,event,process,page,state,kind\n0,request,10,0x100,,file\n")
    assert evictions_of(path) == {}


def test_the_table_has_means_and_what_repeats_differ_by() -> None:
    other = Evictions(pages=5, evictions=20, once=0.0, again=0.75, requests=10, served=0.6)
    rows = table({"on": [{ALL: EVERY}, {ALL: other}]}).rows
    assert rows == [
        {
            "run": "on",
            "runs": 2,
            "pages of": "all",
            "pages": 4,
            "evictions": 13,
            "once": pytest.approx(1 / 6),
            "again": 0.625,
            "least": 0.5,
            "most": 0.75,
            "answerable": pytest.approx(0.5),
        }
    ]
