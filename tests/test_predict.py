"""Prediction of a visit from the visit before: figures counted by hand, for both forms of a run."""

import json
import struct
from pathlib import Path

import pytest
from run_folders import SECOND, write_run, zstd_frame

from pagewise import cli
from pagewise.errors import NothingRecorded, UnreadableInput
from pagewise.launch_runs import read_run
from pagewise_studies import predict

# Application a is the processes 10 and 11, application b is process 20. These pages come back at
# each visit of a: none at 0 s (cold), 1 2 5 7 at 2 s, 1 2 3 and 9 (of process 11) at 4 s, 3 5 at
# 6 s. At the visits of b come back: 1 at 3 s, 8 at 5 s. Page 2 of process 20 comes back during a
# visit of a, but belongs to b. Pages 1 and 7 of a leave between 2 and 4 s.
EVENTS = """\
time_s,event,process,page,state,kind
0.0,out,10,1,D,anon
2.1,in,10,1,,anon
2.2,in,10,2,,anon
2.2,in,10,2,,anon
2.3,in,10,7,,anon
2.3,in,10,5,,anon
2.4,in,20,2,,anon
3.1,in,20,1,,anon
3.5,out,10,1,D,anon
3.6,out,10,7,D,anon
4.1,in,10,3,,anon
4.2,in,10,1,,anon
4.3,in,10,2,,anon
4.4,in,11,9,,anon
5.1,in,20,8,,anon
6.0,out,10,9,D,anon
6.1,in,10,5,,anon
6.2,in,10,3,,anon
"""
VISITS = [
    {"round": number // 2, "app": "ab"[number % 2], "cold": number < 2,
     "start_s": float(number), "end_s": number + 0.9}
    for number in range(7)
]  # fmt: skip
PROCESSES = {10: "a", 11: "a", 20: "b"}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", VISITS, recording=EVENTS, processes=PROCESSES)


def test_shares_equal_the_figures_counted_by_hand(run_folder: Path, tmp_path: Path) -> None:
    a, b, again = predict.predictions(read_run(run_folder), tmp_path)
    # Of 1 2 5 7, pages 1 2 come back. Pages 3 and 9 are new; 9, of process 11, has no neighbour.
    assert (a.app, a.round, a.pages) == ("a", 3, 4)
    assert (a.recall, a.precision, a.adjacency) == (2 / 4, 2 / 4, 3 / 4)
    # 7 left and was not needed. 1 left, and so did 2, since it came back.
    assert (a.recall_all, a.precision_out) == (2 / 4, 2 / 3)
    # 3 came back at the last visit, 5 at the visit before that.
    assert (again.pages, again.recall, again.recall_all) == (2, 1 / 2, 1)
    assert (b.recall_all, b.precision_out) == (0, None)
    assert (b.app, b.pages, b.recall, b.precision, b.adjacency) == ("b", 1, 0, 0, 0)


def test_the_study_writes_table_verdicts_and_figures(run_folder: Path, tmp_path: Path) -> None:
    result = predict.study([run_folder], tmp_path, seed=1, progress=None)
    table = result["tables"][0]
    rows = {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["rows"]}
    assert (rows["all"]["visits"], rows["all"]["recall"], rows["all"]["pages"]) == (3, 1 / 3, 2)
    assert (rows["a"]["recall from"], rows["a"]["recall to"]) == (0.5, 0.5)
    assert rows["b"]["precision, of those out"] is None
    assert {verdict["verdict"] for verdict in result["verdicts"]} == {"does not hold"}
    assert (
        "all visits before together brought in 50 % of a visit's 2 pages"
        in result["verdicts"][0]["why"]
    )
    assert [figure["name"] for figure in result["figures"]] == [
        "predict-rounds-run",
        "predict-applications-run",
    ]
    assert predict.study([run_folder], tmp_path, seed=1, progress=None) == result


def test_processes_of_a_cut_recording_have_the_names_of_applications(tmp_path: Path) -> None:
    start_ns = 7 * SECOND
    folder = write_run(tmp_path / "run", VISITS, start_ns=start_ns)
    (folder / "run.pgr").write_bytes(cut(start_ns))
    a, b, _ = predict.predictions(read_run(folder), tmp_path)
    assert (a.pages, a.recall, a.adjacency, b.recall) == (4, 0.5, 0.75, 0)


def cut(start_ns: int) -> bytes:
    """`EVENTS` in the columns of the `pgw` format, packed."""
    names = [(0, 6, process, int.from_bytes(app.encode(), "little"))
             for process, app in PROCESSES.items()]  # fmt: skip
    rows, last = [], 0
    for line in EVENTS.splitlines()[1:]:
        time, event, process, page = line.split(",")[:4]
        at = round(float(time) * SECOND)
        rows.append((at - last, {"out": 1, "in": 4}[event], int(process), int(page)))
        last = at
    every = [*names, *rows]
    head = struct.pack("<QQQ", 0x31574750, len(every), start_ns)
    columns = [
        ("i", [row[0] for row in every]),
        ("B", [row[1] for row in every]),
        ("B", [0] * len(every)),
        ("I", [row[2] for row in every]),
        ("Q", [row[3] for row in every]),
        ("Q", [0] * len(every)),
        ("I", [0] * len(every)),
    ]
    body = head + b"".join(struct.pack(f"<{len(v)}{kind}", *v) for kind, v in columns)
    return zstd_frame(body)


def test_a_run_without_a_recording_is_refused_with_how_to_make_it(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", VISITS)
    with pytest.raises(UnreadableInput, match="nothing was recorded") as refusal:
        list(predict.predictions(read_run(folder), tmp_path))
    assert "--record" in str(refusal.value.hint)


def test_the_recording_of_another_run_is_refused(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run", VISITS, recording=EVENTS, processes=PROCESSES, start_ns=10**15
    )
    with pytest.raises(NothingRecorded, match="no page was swapped in during a visit"):
        list(predict.predictions(read_run(folder), tmp_path))


def test_losses_of_the_recording_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(
        tmp_path / "run", VISITS, recording=f"{EVENTS}nonsense\n", processes=PROCESSES
    )
    output = tmp_path / "out"
    assert cli.run(["study", "predict", str(folder), "-o", str(output), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["losses"]["run"][0]["count"] == 1
    assert "note: run lost 1 record" in err
    assert "- `run` lost 1 record: " in (output / "predict.md").read_text()


@pytest.mark.parametrize("file", ["predict.md", "predict.json"])
def test_a_file_that_the_study_did_not_make_is_left_alone(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(tmp_path / "run", VISITS, recording=EVENTS, processes=PROCESSES)
    output = tmp_path / "out"
    output.mkdir()
    foreign = output / file
    foreign.write_text('{"mine": true}')
    command = ["study", "predict", str(folder), "-o", str(output)]
    assert cli.run(command) == 2
    assert f"{foreign}: exists" in capsys.readouterr().err
    assert [path.name for path in output.iterdir()] == [file]
    assert foreign.read_text() == '{"mine": true}'
    foreign.unlink()
    assert cli.run(command) == 0 and cli.run(command) == 0
