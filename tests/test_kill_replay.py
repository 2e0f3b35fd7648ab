"""Replays of a recording against kill policies; examples/kills/grow.py made the recording."""

import json
from pathlib import Path

import pytest

import pagewise as pw
from pagewise import cli
from pagewise.commands.replay_kills import recorded_kills

RECORDING = Path(__file__).parents[1] / "examples" / "kills" / "grow.pgr"
MIB = 1 << 20
# Below 80 MiB, candidates of adj 800 and more; below 40 MiB, all.
LEVELS = {"minfree": {"minfree_levels": "10240:0,20480:800", "file_cache_counts": "false"}}


def test_a_killer_takes_the_child_when_its_level_is_reached() -> None:
    result = pw.replay_kills(
        RECORDING, policy="minfree,largest", options=LEVELS | {"largest": {"memory_percent": 1}}
    )
    minfree, largest = result["policies"]
    assert largest["decisions"] == []
    # The reasons for doing nothing cover the whole recording.
    assert largest["reasons"][0]["from_s"] == 0
    assert largest["reasons"][-1]["to_s"] == result["duration_s"]
    (decision,) = minfree["decisions"]
    (victim,) = decision["victims"]
    assert victim["adj"] == 800
    assert 60 * MIB < victim["resident_bytes"] < 80 * MIB
    # The victim is the child that its parent killed seconds later.
    assert decision["judgement"] == "needed"
    (kill,) = result["recorded"]
    assert kill["process"] == victim["process"] and not kill["is_of_kernel"]
    assert (kill["killer"], kill["killer_name"]) == (25233, "python3")
    assert decision["time_s"] < kill["time_s"] < decision["time_s"] + 10
    # The policy kills at the first moment below its level.
    below = [point for point in result["memory"] if point["time_s"] <= decision["time_s"]]
    assert result["total_bytes"] == 200 * MIB and len(below) > 3
    assert decision["available_bytes"] == below[-1]["available_bytes"]


def test_kills_without_a_moment_are_reported_as_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The recording is older than moments at kills, and killd did not make its kills.
    options = LEVELS | {"largest": {"memory_percent": 1}}
    result = pw.replay_kills(RECORDING, policy="minfree,largest", options=options)
    assert [kill["has_moment"] for kill in result["recorded"]] == [False]
    named = ("victims_named", "victims_not_named", "victims_unknown")
    counts = [[policy[name] for name in named] for policy in result["policies"]]
    # minfree kills the recorded victim earlier than it died.
    assert counts == [[1, 0, 0], [0, 0, 1]]
    command = ["replay-kills", str(RECORDING), "--policy", "largest"]
    assert cli.run([*command, "--option", "largest.memory_percent=1"]) == 0
    printed = capsys.readouterr()
    assert "1 of 1 kills fall between two recorded moments" in printed.err
    assert "which process largest would have killed then" in printed.err
    assert "0 of 0, 1 unknown" in printed.out
    table = "killed at\tvictim\tmemory\tadj\tavailable\tkiller\n"
    row = "5.07 s\tpython3 (25274)\t73.2 MiB\t800\t4.4 MiB\tpython3 (25233)\n"
    assert table + row in printed.out
    # Without the option, the policy kills the recorded victim, so nothing is unknown.
    assert cli.run(command) == 0
    printed = capsys.readouterr()
    assert "1 of 1" in printed.out and "between two recorded moments" not in printed.err


def test_recorded_kills_beyond_the_limit_are_counted() -> None:
    (kill,) = pw.replay_kills(RECORDING, policy="largest")["recorded"]
    of_kernel = {**kill, "is_of_kernel": True, "killer": None, "killer_name": None}
    unknown = {**kill, "name": None, "killer": None, "killer_name": None}
    _, rows, rest = recorded_kills([of_kernel, unknown, *[kill] * 20], 200 * MIB)
    assert rest == "and 2 more; --json has all"
    text = str(rows)
    assert "the kernel (out of memory)" in text and "unknown" in text and "process 25274" in text
    assert recorded_kills([], 200 * MIB) == []
    # 4.4 MiB were available: the machine itself was short of memory, or had plenty for its size.
    (*_, note) = recorded_kills([of_kernel], 40 * MIB)
    assert "memory cgroup" in str(note)


def test_info_describes_a_recording_of_kills(capsys: pytest.CaptureFixture[str]) -> None:
    info = pw.info(RECORDING)
    result = pw.replay_kills(RECORDING, policy="largest")
    assert (info["events"]["kill"], info["events"]["moment"]) == (1, result["moments"])
    # The recorder starts before the first moment and ends after the last.
    assert result["duration_s"] <= info["duration_s"] < result["duration_s"] + 1
    assert cli.run(["info", str(RECORDING)]) == 0
    printed = capsys.readouterr().out
    assert "kills, imported from recording" in printed
    assert "1, 0 of them by the kernel" in printed
    assert f"pagewise replay-kills {RECORDING} --policy largest" in printed
    assert "nothing to count" not in printed
    assert "processes\tnone with an event\n" in printed and "busiest first" not in printed


def test_with_a_shorter_window_the_same_decision_is_a_false_alarm() -> None:
    result = pw.replay_kills(RECORDING, policy=["minfree"], options=LEVELS, window="100ms")
    (minfree,) = result["policies"]
    assert minfree["false_alarms"] == 1
    assert minfree["decisions"][0]["judgement"] == "false-alarm"


def test_every_policy_of_the_catalog_replays(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["list", "kill-policies", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["kill-policies"]
    names = ",".join(row["name"] for row in rows)
    assert cli.run(["replay-kills", str(RECORDING), "--policy", names]) == 0
    result = capsys.readouterr().out
    assert all(row["name"] in result for row in rows)


@pytest.mark.parametrize(
    ("arguments", "status", "named"),
    [
        (
            [],
            2,
            "missing: --policy NAME[,NAME...]\n  --policy NAME[,NAME...]  Kill policies: minfree",
        ),
        (["--policy", "nope"], 2, "there are minfree, lmkd, largest, pressure, restart-cost"),
        (["--policy", "largest", "--option", "largest.percent=3"], 2, "memory_percent"),
        (["--policy", "largest", "--option", "lmkd.debug=1"], 2, "lmkd"),
        (["--policy", "largest", "--option", "memory_percent=3"], 2, "POLICY.NAME"),
        (["--policy", "largest", "--freeze-share", "2"], 2, "at most 1"),
        (["--policy", "largest", "--window", "soon"], 2, "not a time"),
    ],
)
def test_invalid_options_are_refused(
    arguments: list[str], status: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["replay-kills", str(RECORDING), *arguments]) == status
    assert named in capsys.readouterr().err


def test_a_file_without_kills_is_refused(
    tmp_path: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = RECORDING.read_bytes()
    for content in (b"", b"{}", whole[:20], trace.read_bytes()):
        path = tmp_path / "other.pgr"
        path.write_bytes(content)
        assert cli.run(["replay-kills", str(path), "--policy", "largest"]) == 3
        assert "other.pgr" in capsys.readouterr().err


def test_a_cut_recording_is_replayed_up_to_the_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cut.pgr"
    path.write_bytes(RECORDING.read_bytes()[:15_000])
    assert cli.run(["replay-kills", str(path), "--policy", "largest"]) == 0
    printed = capsys.readouterr()
    assert "the recording has no end" in printed.err and "largest" in printed.out


@pytest.mark.parametrize(
    ("policies", "is_warned"), [("minfree,lmkd", True), ("minfree", True), ("largest", False)]
)
def test_policies_that_need_watermarks_give_a_warning_without_them(
    policies: str, is_warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["replay-kills", str(RECORDING), "--policy", policies]) == 0
    errors = capsys.readouterr().err
    assert ("has neither watermarks nor the kernel's reserves" in errors) == is_warned
    assert ("lmkd lacks its rule" in errors) == ("lmkd" in policies)


def test_the_report_shows_the_replay(tmp_path: Path) -> None:
    result = pw.replay_kills(RECORDING, policy="minfree", options=LEVELS)
    page = tmp_path / "report.html"
    pw.report([result], page)
    text = page.read_text()
    assert "kill-replay-decisions" in text and "Would this killer have fired" in text
    assert "Recorded kills" in text and "python3 (25233)" in text


def test_the_command_warns_if_a_recording_has_no_weights(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = pw.replay_kills(RECORDING, policy="minfree", options=LEVELS)
    assert not result["has_weights"]
    (row,) = result["policies"]
    assert [victim["weight_bytes"] for victim in row["decisions"][0]["victims"]] == [None]
    assert cli.run(["replay-kills", str(RECORDING), "--policy", "minfree"]) == 0
    answer = capsys.readouterr().err
    assert (
        "no weights of processes" in answer
        and "`pagewise-agent record --kills` of pagewise" in answer
    )
