"""What system traces answer, against a naive computation with Google's bindings."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import phone_oracle
import phone_traces
import pytest
from perfetto_traces import BOOT_NS, Writer, event
from phone_traces import EXAMPLE, LMKD, MS, SECOND, SYSTEM_SERVER, phone

import pagewise
from pagewise.commands.kills import would_have
from pagewise.commands.launches import further
from pagewise.commands.system_options import tell
from pagewise.types import PolicyReplay, TraceLaunch, Victim
from pagewise.units import format_seconds

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT.parent / "shared/data/formats/perfetto/startup_part.perfetto-trace"


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pagewise", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "COLUMNS": "80"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def near(seconds: float | None, nanoseconds: int) -> bool:
    return seconds is not None and abs(seconds * 1e9 - nanoseconds) < 2


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.slow if seed > 0 else ()) for seed in range(12)]
)
def test_launches_equal_the_naive_computation(tmp_path: Path, seed: int) -> None:
    data = phone(seed).bytes()
    found = pagewise.launches(written(tmp_path / "trace", data))
    facts = phone_oracle.read(data)
    assert len(found["launches"]) == len(facts.launches) == 5
    assert found["disordered"] == found["unfinished"] == found["cancelled"] == 0
    for launch, known in zip(found["launches"], facts.launches, strict=True):
        expected = phone_oracle.answer(facts, known)
        where = (seed, known["name"])
        assert launch["process"] == known["package"], where
        assert launch["pid"] == expected["pid"], where
        assert (launch["class"], launch["is_class_stated"]) == (known["class"], True)
        assert near(launch["start_s"], known["start"] - facts.begin)
        assert near(launch["duration_s"], known["end"] - known["start"])
        for name, side in (("main_thread", "main"), ("other_threads", "others")):
            times, own = launch[name], expected["times"][side]
            assert times is not None
            assert near(times["running_s"], own["running"]), where
            assert near(times["runnable_s"], own["runnable"]), where
            assert near(times["io_s"], own["io"]), where
            waits = own["io"] + own["other"] + own["D"]
            assert near(times["uninterruptible_s"], waits), where
            assert near(times["sleeping_s"], own["sleeping"]), where
            assert near(times["direct_reclaim_s"], own["reclaim"]), where
        parts, sides = launch["parts"], expected["times"].values()
        assert near(parts["cpu_s"], sum(side["running"] + side["runnable"] for side in sides))
        assert near(parts["refault_s"], sum(side["io"] for side in sides))
        assert near(parts["direct_reclaim_s"], sum(side["reclaim"] for side in sides))
        assert near(parts["kswapd_s"], expected["kswapd"]), where
        assert near(parts["kill_wait_s"], expected["kill_wait"]), where
        assert parts["swapin_s"] is None
        assert sum(part or 0 for part in parts.values()) == pytest.approx(launch["duration_s"])
        assert launch["cache_miss_bytes"] == expected["cache_bytes"], where
        assert launch["refault_bytes"] == expected["refault_bytes"], where
        files = {each["inode"]: each["bytes"] for each in launch["files"]}
        assert files == expected["files"]
        assert launch["kills"] == expected["kills"]
    assert [launch["kills_before"] for launch in found["launches"]] == [0, 0, 0, 0, 1]


def test_kills_tell_who_came_back_and_whether_memory_was_short(tmp_path: Path) -> None:
    made = phone(3)
    phone_traces.log_line(
        made,
        10 * SECOND + 105 * MS,
        "lowmemorykiller",
        "Kill 'com.example.mail' (3000), uid 13000, oom_score_adj 905 to free 250000kB rss, "
        "62500kB swap; reason: low watermark is breached",
    )
    found = pagewise.kills(written(tmp_path / "trace", made.bytes()))
    mail, music = found["kills"]
    assert (mail["process"], mail["pid"], mail["adj"]) == ("com.example.mail", 3000, 905)
    assert (mail["reason"], mail["killer"]) == ("low_mem", "lmkd")
    assert mail["sources"] == ["lmkd-slice", "sigkill", "lmkd-log"]
    assert mail["free_bytes"] == 40 << 20
    assert mail["resident_bytes"] == 250_000 << 10
    assert mail["death_s"] == pytest.approx(0.03)
    # Its new process is forked 20 ms after the launch at 14 s; the launch counts.
    assert mail["came_back_after_s"] == pytest.approx(3.9)
    assert mail["came_back_soon"]
    assert mail["needless"]["answer"] is False
    assert mail["late"]["answer"] is False
    # The feed had a higher adj and more memory.
    assert mail["wrong_victim"]["answer"] is True
    assert "com.example.feed" in mail["wrong_victim"]["why"]
    assert (music["process"], music["reason"]) == ("com.example.music", "low_swap_and_thrashing")
    assert (music["came_back_after_s"], music["came_back_soon"]) == (None, None)
    assert music["traced_for_s"] == pytest.approx(3, abs=0.01)
    assert music["needless"]["answer"] is False, "tasks stalled 5 s before"
    assert found["lacks"] == []
    replay = found["replay"]
    assert replay is not None
    assert [each["policy"] for each in replay["policies"]] == ["lmkd", "largest"]
    assert [each["process"] for each in replay["recorded"]] == [3000, 3100]
    assert replay["moments"] == 22


def test_a_kill_in_ample_memory_is_needless_and_one_in_a_freeze_late(tmp_path: Path) -> None:
    made = phone_traces.Phone(1, seconds=30)
    made.process(LMKD, "lmkd", adj=-1000, rss_kb=4000)
    made.process(3000, "com.example.mail", adj=905, rss_kb=250_000)
    made.process(3100, "com.example.music", adj=900, rss_kb=120_000)
    for second in range(30):
        frozen = max(0, second - 24)
        made.memory(second * SECOND, 800, 900 * frozen, 800 * frozen)
    made.kill(20 * SECOND, 3000, "om.example.mail", 8, 905)
    made.kill(27 * SECOND + MS, 3100, "m.example.music", 8, 900)
    early, late = pagewise.kills(written(tmp_path / "trace", made.bytes()))["kills"]
    assert early["needless"]["answer"] is True
    assert "2400 of 4096 MiB were available" in early["needless"]["why"]
    assert (early["late"]["answer"], early["wrong_victim"]["answer"]) == (False, False)
    assert (late["needless"]["answer"], late["late"]["answer"]) == (False, True)
    assert "80 %" in late["late"]["why"]


def test_the_screen_says_what_each_policy_would_have_done() -> None:
    shown = run("kills", str(EXAMPLE)).stdout.splitlines()
    at = "replayed at the trace's samples, would have killed"
    assert shown[-2:] == [
        f"lmkd, {at} no process",
        f"largest, {at} com.example.feed; kills that agree: 0 of 2",
    ]
    replay = pagewise.kills(EXAMPLE)["replay"]
    assert replay is not None
    largest = replay["policies"][1]
    decision = largest["decisions"][0]
    unnamed: Victim = {**decision["victims"][0], "name": ""}
    twice: PolicyReplay = {
        **largest,
        "decisions": [{**decision, "victims": [unnamed]}, decision],
        "victims_named": 1,
        "victims_not_named": 2,
        "false_alarms": 1,
        "missed_freezes": 1,
    }
    assert would_have(twice, 4) == (
        f"largest, {at} pid 3200 and 1 more; kills that agree: 1 of 3; false alarms: 1; "
        "missed freezes: 1 of 4"
    )


def test_the_screen_of_launches_says_more_of_the_slowest() -> None:
    found = pagewise.launches(EXAMPLE)["launches"]
    slowest = max(found, key=lambda launch: launch["duration_s"])
    main, others = slowest["main_thread"], slowest["other_threads"]
    assert main is not None and others is not None and main["runnable_s"] is not None
    assert others["runnable_s"] is not None
    ran = format_seconds(main["running_s"] + others["running_s"])
    ready = format_seconds(main["runnable_s"] + others["runnable_s"])
    line = f"com.example.mail: all threads ran {ran} and were ready without a CPU {ready}; "
    assert f"{line}swapped in: unknown; kills in the 10 s before: 1.\n" in (
        run("launches", str(EXAMPLE)).stdout
    )
    swapped: TraceLaunch = {**slowest, "swap_in_bytes": 3 << 20, "kills_before": None}
    assert further(swapped) == f"{line}swapped in: 3 MiB; kills in the 10 s before: unknown."
    of_log: TraceLaunch = {**slowest, "main_thread": None, "other_threads": None}
    assert further(of_log) == "com.example.mail: kills in the 10 s before: 1."


def test_a_trace_without_samples_says_what_it_lacks(tmp_path: Path) -> None:
    writer = Writer()
    writer.begin()
    bundle = writer.bundle(0)
    event(bundle, MS, LMKD, "print", buf=f"B|{LMKD}|lmk,3000,8,905\n")
    event(bundle, 2 * MS, LMKD, "print", buf=f"C|{LMKD}|kill_one_process|3000\n")
    event(bundle, 3 * MS, LMKD, "print", buf=f"C|{LMKD}|kill_one_process|0\n")
    event(bundle, 5 * SECOND, LMKD, "mark_victim", pid=77)
    path = written(tmp_path / "trace", writer.bytes())
    found = pagewise.kills(path)
    first, second = found["kills"]
    assert first["sources"] == ["lmkd-slice", "lmkd-counter"]
    assert (second["pid"], second["killer"], second["reason"]) == (77, "oom", "out_of_memory")
    for kill in (first, second):
        assert kill["free_bytes"] is None
        for name in ("needless", "late", "wrong_victim"):
            assert kill[name]["answer"] is None
            assert kill[name]["why"].startswith("cannot tell, because the trace lacks ")
    assert found["replay"] is None
    shown = run("kills", str(path))
    assert "cannot tell, because the trace lacks" in shown.stdout
    assert shown.returncode == 0


def test_pressure_has_the_intervals_of_the_trace(tmp_path: Path) -> None:
    data = phone(5).bytes()
    found = pagewise.pressure(written(tmp_path / "trace", data))
    facts = phone_oracle.read(data)
    expected = sum(end - begin for begin, end, _ in facts.reclaims)
    assert near(found["direct_reclaim_s"], expected)
    assert near(found["kswapd_s"], sum(end - begin for begin, end in facts.kswapd))
    again = sum(is_again for *_, is_again in facts.reads)
    assert found["refault_bytes"] == again * 4096
    by_kind: dict[str, list] = {}
    for interval in found["intervals"]:
        by_kind.setdefault(interval["kind"], []).append(interval)
    reclaims = by_kind["direct-reclaim"]
    assert len(reclaims) == 2
    assert {cause["pid"] for cause in reclaims[0]["processes"]} == {5020}
    assert reclaims[1]["processes"][0]["process"] == "system_server"
    assert len(by_kind["kswapd"]) == 2
    assert found["thrashing_by"] == "psi"
    (thrashing,) = by_kind["thrashing"]
    assert thrashing["stalled_share"] == pytest.approx(0.3)
    # The samples are 3 ms after each second; the stalls are between those at 8 and 13 s.
    assert thrashing["end_s"] - thrashing["start_s"] == pytest.approx(5)
    starts = [interval["start_s"] for interval in found["intervals"]]
    assert starts == sorted(starts)


@pytest.mark.slow
def test_parts_that_a_trace_lacks_are_null(tmp_path: Path) -> None:
    data = phone(2, has_reasons=False, has_wakes=False).bytes()
    found = pagewise.launches(written(tmp_path / "trace", data))
    facts = phone_oracle.read(data)
    for launch, known in zip(found["launches"], facts.launches, strict=True):
        main = phone_oracle.answer(facts, known)["times"]["main"]
        assert launch["parts"]["cpu_s"] is None
        assert launch["parts"]["refault_s"] is None
        times = launch["main_thread"]
        assert times is not None
        assert (times["runnable_s"], times["io_s"]) == (None, None)
        assert near(times["running_s"], main["running"])
    lacks = " ".join(found["lacks"])
    assert "sched_blocked_reason" in lacks
    assert "sched_waking" in lacks


@pytest.mark.slow
def test_waits_for_io_are_whole_beside_the_time_of_swap_ins(tmp_path: Path) -> None:
    """A swap-in from zram is no wait for I/O, and mm_event_record does not say where pages were."""
    made = phone(2)
    for number in range(4):
        times = {"type": 5, "count": 100, "avg_lat": 2500, "max_lat": 9000}
        made.emit(10 * SECOND + (100 + number) * MS, 1, 5020, "mm_event_record", **times)
    data = made.bytes()
    facts = phone_oracle.read(data)
    launches = pagewise.launches(written(tmp_path / "trace", data))["launches"]
    for launch, known in zip(launches, facts.launches, strict=True):
        sides = phone_oracle.answer(facts, known)["times"].values()
        parts = launch["parts"]
        assert near(parts["refault_s"], sum(side["io"] for side in sides))
        assert parts["swapin_s"] == (1 if launch["process"] == "com.example.browser" else 0)
        assert sum(part or 0 for part in parts.values()) == pytest.approx(launch["duration_s"])


@pytest.mark.slow
def test_launches_of_earlier_versions_are_cold_if_the_process_is_new(tmp_path: Path) -> None:
    made = phone(4)
    made.events = [
        (time, cpu, tid, name, fields | old(fields))
        for time, cpu, tid, name, fields in made.events
        if ":completed" not in fields.get("buf", "")
    ]
    found = pagewise.launches(written(tmp_path / "trace", made.bytes()))["launches"]
    assert [launch["class"] for launch in found] == ["cold", "cold", "warm", "cold", "cold"]
    assert not any(launch["is_class_stated"] for launch in found)


PACKAGES = {1: "camera", 2: "maps", 3: "warm", 4: "browser", 5: "mail"}


def old(fields: dict) -> dict:
    """The marker that Android 12 and earlier write in place of that of Android 13."""
    text = fields.get("buf", "")
    if "launchingActivity#" not in text:
        return {}
    letter, pid, _, cookie = text.strip().split("|")
    package = f"com.example.{PACKAGES[int(cookie)]}"
    return {"buf": f"{letter}|{pid}|launching: {package}|{cookie}\n"}


@pytest.mark.slow
def test_two_traces_are_compared_by_app(tmp_path: Path) -> None:
    def repeated(seed: int, slow: float) -> bytes:
        made = phone_traces.Phone(seed, seconds=40, slow=slow)
        made.process(SYSTEM_SERVER, "system_server", adj=-900, rss_kb=1000)
        for number in range(9):
            pid = 5000 + 10 * number
            made.launch(number, "com.example.app", pid, (4 * number + 2) * SECOND, "cold")
        made.launch(99, "com.example.only" + str(slow), 7000, SECOND, "cold")
        return made.bytes()

    before = written(tmp_path / "before", repeated(1, 1.0))
    slower = written(tmp_path / "slower", repeated(2, 3.0))
    compared = pagewise.compare_launches(before, slower)
    (change,) = compared["changes"]
    assert change["process"] == "com.example.app"
    assert (change["before"]["launches"], change["after"]["launches"]) == (9, 9)
    assert change["verdict"] == "slower"
    low, high, ratio = change["ratio_low"], change["ratio_high"], change["ratio"]
    assert low is not None
    assert high is not None
    assert ratio is not None
    assert 1 < low <= ratio <= high
    same = pagewise.compare_launches(before, before)["changes"]
    assert same[0]["ratio"] == 1
    assert [each["verdict"] for each in same] == ["no difference shown"] * 2
    assert compared["only_before"] == ["com.example.only1.0 (cold)"]
    shown = run("launches", str(before), str(slower))
    assert shown.returncode == 0, shown.stderr
    assert "slower" in shown.stdout
    empty = Writer()
    empty.begin()
    nothing = written(tmp_path / "nothing", empty.bytes())
    assert "no finished launch" in run("launches", str(before), str(nothing)).stderr


def hostile() -> dict[str, bytes]:
    """Traces that are cut, out of order, or say impossible things."""
    data = phone(9).bytes()
    traces = {f"cut{place}": data[: len(data) * place // 7] for place in range(1, 7)}
    odd = Writer()
    odd.begin()
    bundle = odd.bundle(0)
    for number in range(40):
        event(bundle, number, SYSTEM_SERVER, "print", buf=f"S|1858|launchingActivity#{number}|7\n")
    event(bundle, 1, SYSTEM_SERVER, "print", buf="F|1858|launchingActivity#99|7\n")
    event(bundle, 2, 5, "mm_vmscan_direct_reclaim_end", nr_reclaimed=1)
    event(bundle, 3, 5, "mm_vmscan_kswapd_sleep", nid=-7)
    event(bundle, 4, 5, "signal_generate", pid=-5, sig=9, comm='") Z ("')
    event(bundle, 5, LMKD, "print", buf="B|500|lmk,4294967295,-9999,2147483647\n")
    event(bundle, 6, 5, "sched_switch", prev_pid=-1, prev_state=2**40, next_pid=-2)
    event(bundle, 7, 5, "sched_process_exit", pid=0, tgid=0)
    event(bundle, 8, 5, "mm_filemap_add_to_page_cache", i_ino=2**64 - 1, index=2**64 - 1)
    event(bundle, 9, 5, "mm_filemap_delete_from_page_cache", i_ino=2**64 - 1, index=2**64 - 1)
    bundle.event.add(timestamp=2**64 - 1, pid=3).mark_victim.pid = 3
    bundle.event.add(timestamp=0, pid=3).mark_victim.pid = 3
    bundle.event.add(timestamp=2**63, pid=3).mark_victim.pid = 4
    tree = odd.packet(time_ns=BOOT_NS).process_tree
    for tid in range(5):
        tree.threads.add(tid=tid, tgid=(tid * 3) % 5)
        tree.processes.add(pid=tid, ppid=tid, cmdline=[""])
    system = odd.packet(time_ns=BOOT_NS).sys_stats
    system.psi.add(resource="PSI_RESOURCE_MEMORY_SOME", total_ns=2**64 - 1)
    system.meminfo.add(key="MEMINFO_MEM_FREE", value=2**64 - 1)
    traces["odd"] = odd.bytes()
    backwards = phone(9)
    backwards.events = [
        (10 * SECOND - time // 2, cpu, tid, name, fields)
        for time, cpu, tid, name, fields in backwards.events
    ]
    traces["backwards"] = backwards.bytes()
    return traces


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(f"cut{place}" for place in range(1, 7)), "odd", "backwards"])
def test_hostile_traces_are_answered(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, hostile()[name])
    for answer in (pagewise.launches, pagewise.kills, pagewise.pressure):
        found = answer(path)
        json.dumps(found, allow_nan=False)
    for launch in pagewise.launches(path)["launches"]:
        assert launch["duration_s"] >= 0
        assert sum(part or 0 for part in launch["parts"].values()) == pytest.approx(
            launch["duration_s"]
        )


def test_a_number_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    made = phone_traces.Phone(1, seconds=10)
    made.process(LMKD, "lmkd", adj=-1000, rss_kb=4000)
    made.process(3000, "com.example.mail", adj=905, rss_kb=1000)
    made.kill(2 * SECOND, 3000, "om.example.mail", 8, 905)
    made.launch(1, "com.example.maps", 3000, 4 * SECOND, "cold")
    data = made.bytes()
    path = written(tmp_path / "trace", data)
    (kill,) = pagewise.kills(path)["kills"]
    assert (kill["process"], kill["came_back_after_s"]) == ("com.example.mail", None)
    (launch,) = pagewise.launches(path)["launches"]
    assert (launch["process"], launch["pid"]) == ("com.example.maps", 3000)


def test_processes_beyond_the_limits_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    found = pagewise.pressure(EXAMPLE)
    assert (found["untracked"], found["left_out"]) == (0, 0)
    tell(found)
    assert not capsys.readouterr().err
    tell({**found, "untracked": 3000})
    assert "note: 3,000 processes, threads or ranges of pages" in capsys.readouterr().err


def test_bad_lines_are_shown_and_counted(tmp_path: Path) -> None:
    log = (ROOT / "fuzz/seeds/logcat/small").read_text()
    path = written(tmp_path / "log", f"{log}no line of a log\n".encode())
    whole = pagewise.kills(written(tmp_path / "whole", log.encode()))
    for command in ("launches", "kills", "pressure"):
        done = run(command, str(path))
        line = log.count("\n") + 1
        assert f"{path}:{line}: expected " in done.stderr and "no line of a log" in done.stderr
        assert "note: 1 line could not be read" in done.stderr
    found = pagewise.kills(path)
    assert found["rejected"] == len(found["rejects"]) == 1
    assert (whole["rejected"], whole["rejects"]) == (0, [])
    assert found["kills"] == whole["kills"]


@pytest.mark.slow
def test_a_trace_that_is_joined_with_itself_is_noted(tmp_path: Path) -> None:
    once = phone(3).bytes()
    assert pagewise.launches(written(tmp_path / "once", once))["repeated_packets"] == 0
    twice = written(tmp_path / "twice", once + once)
    assert pagewise.launches(twice)["repeated_packets"] > 0
    for command in ("launches", "kills", "pressure"):
        assert "packets are in the file twice" in run(command, str(twice)).stderr
    assert "was a file joined twice?" in run("info", str(twice)).stdout


def test_a_kill_from_before_the_first_kernel_event_has_a_time_below_0(tmp_path: Path) -> None:
    made = phone_traces.Phone(1, seconds=5)
    made.process(LMKD, "lmkd", adj=-1000, rss_kb=4000)
    made.kill(2 * SECOND, 3000, "om.example.mail", 8, 905)
    reason = "to free 5kB rss, 0kB swap; reason: low watermark is breached"
    message = f"Kill 'com.example.old' (77), uid 10001, oom_score_adj 905 {reason}"
    phone_traces.log_line(made, -3 * SECOND, "lowmemorykiller", message)
    path = written(tmp_path / "trace", made.bytes())
    early, later = pagewise.kills(path)["kills"]
    assert early["process"] == "com.example.old" and -3.1 < early["time_s"] <= -3
    assert later["time_s"] > 0
    assert "1 kill before the first kernel event: times below 0" in run("kills", str(path)).stdout
    report = tmp_path / "r.html"
    assert run("kills", str(path), "--report", str(report)).returncode == 0


def test_other_files_are_refused_with_what_was_expected(tmp_path: Path) -> None:
    for command in ("launches", "kills", "pressure"):
        ended = run(command, str(written(tmp_path / "text", b"no trace at all\n")))
        assert ended.returncode != 0
        assert "expected a system trace; formats are perfetto, tracedat" in ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("tag", ["lowmemorykiller", "lmkd"])
def test_a_log_has_the_kills_of_lmkd_under_either_tag(tmp_path: Path, tag: str) -> None:
    kill = "Kill 'com.example.mail' (3000), uid 10001, oom_score_adj 905 to free 9kB rss, 0kB swap"
    line = f"03-17 16:13:38.000   300   300 I {tag}: {kill}; reason: low watermark is breached\n"
    (found,) = pagewise.kills(written(tmp_path / "log", line.encode()))["kills"]
    assert (found["process"], found["pid"], found["adj"]) == ("com.example.mail", 3000, 905)
    assert found["sources"] == ["lmkd-log"]


LAUNCHING = f"S|{SYSTEM_SERVER}|launchingActivity#1|1"
STARTED = "START u0 {act=android.intent.action.MAIN cmp=com.example.maps/.Main} from uid 10001"
UNFINISHED = {
    "nothing": ([], "", None, None),
    "the marker of Android 12": (
        [(5, SYSTEM_SERVER, f"S|{SYSTEM_SERVER}|launching: com.example.warm|9")],
        "",
        "com.example.warm",
        3300,
    ),
    "a line of the log": ([], STARTED, "com.example.maps", None),
    "the process that resumes": (
        [(5, 3300, "B|3300|activityResume")],
        "",
        "com.example.warm",
        3300,
    ),
    "two processes": (
        [(5, 3300, "B|3300|activityResume"), (9, 3000, "B|3000|activityResume")],
        "",
        None,
        None,
    ),
    "another launch": (
        [
            (5, 3300, "B|3300|activityResume"),
            (700, SYSTEM_SERVER, f"S|{SYSTEM_SERVER}|launchingActivity#2|2"),
            (900, SYSTEM_SERVER, f"F|{SYSTEM_SERVER}|launchingActivity#2|2"),
        ],
        "",
        None,
        None,
    ),
}


@pytest.mark.parametrize("case", UNFINISHED)
def test_a_launch_that_never_ends_has_the_name_that_the_trace_has(
    tmp_path: Path, case: str
) -> None:
    marks, line, process, pid = UNFINISHED[case]
    made = phone_traces.Phone(1, seconds=4)
    made.process(SYSTEM_SERVER, "system_server", adj=-900, rss_kb=1000)
    made.process(3000, "com.example.mail", adj=0, rss_kb=1000)
    made.process(3300, "com.example.warm", adj=0, rss_kb=1000)
    made.mark(2 * SECOND, SYSTEM_SERVER, LAUNCHING)
    for after_ms, tid, text in marks:
        made.mark(2 * SECOND + after_ms * MS, tid, text)
    if line:
        phone_traces.log_line(made, 2 * SECOND + MS, "ActivityTaskManager", line)
    found = pagewise.launches(written(tmp_path / "trace", made.bytes()))
    assert (found["launches"], found["unfinished"]) == ([], 1)
    (launch,) = found["unfinished_launches"]
    assert (launch["process"], launch["pid"]) == (process, pid)
    assert launch["start_s"] == pytest.approx(2, abs=0.01)


def test_compaction_is_an_interval_of_each_thread_and_no_reclaim(tmp_path: Path) -> None:
    made = phone_traces.Phone(1, seconds=5)
    made.process(3000, "com.example.mail", adj=905, rss_kb=1000)
    made.process(61, "kcompactd0", adj=0, rss_kb=0)
    for start_ns, tid, length_ns in ((SECOND, 3000, 4 * MS), (3 * SECOND, 61, 6 * MS)):
        made.emit(start_ns, 1, tid, "mm_compaction_begin")
        made.emit(start_ns + length_ns, 1, tid, "mm_compaction_end")
    found = pagewise.pressure(written(tmp_path / "trace", made.bytes()))
    assert near(found["compaction_s"], 10 * MS)
    intervals = [each for each in found["intervals"] if each["kind"] == "compaction"]
    causes = [[cause["process"] for cause in each["processes"]] for each in intervals]
    assert causes == [["com.example.mail"], ["kcompactd0"]]
    assert [near(each["busy_s"], ms * MS) for each, ms in zip(intervals, (4, 6), strict=True)]
    assert found["direct_reclaim_s"] is None
    assert pagewise.pressure(EXAMPLE)["compaction_s"] is None


@pytest.mark.parametrize(
    "path",
    [
        ROOT / "fuzz/seeds/damo/small",
        pytest.param(
            SAMPLE.parents[1] / "damon/damo_perf.data.script",
            marks=pytest.mark.skipif(not SAMPLE.exists(), reason="is not on this machine"),
        ),
    ],
    ids=lambda path: path.name,
)
def test_info_of_regions_of_damon_names_the_command_that_maps_them(path: Path) -> None:
    shown = run("info", str(path)).stdout
    question = "which addresses were used when, by DAMON (pressure)"
    assert f"answers\t{question}\n" in shown and f"does not answer\t{question}" not in shown
    assert f"To see the answers: pagewise pressure {path}\n" in shown
    assert "every analysis" not in shown
    assert "pagewise kills" not in shown and "pagewise launches" not in shown


def test_info_of_a_phone_names_the_three_commands_also_after_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "phone", phone(7).bytes())
    commands = [
        f"To see the answers: pagewise {name} " for name in ("launches", "pressure", "kills")
    ]
    lines = run("info", str(path)).stdout.splitlines()
    assert [line for line in lines if line.startswith("To see")] == [
        f"{command}{path}" for command in commands
    ]
    imported = tmp_path / "t.parquet"
    pagewise.import_trace([path], imported)
    lines = run("info", str(imported)).stdout.splitlines()
    assert [line for line in lines if line.startswith("To see")] == [
        f"{command}phone" for command in commands
    ]


@pytest.mark.skipif(not SAMPLE.exists(), reason="the public sample is not on this machine")
def test_a_real_trace_that_is_cut_within_a_launch_says_so() -> None:
    found = pagewise.launches(SAMPLE)
    assert (found["launches"], found["unfinished"]) == ([], 1)
    (launch,) = found["unfinished_launches"]
    assert launch["process"] == "androidx.benchmark.integration.macrobenchmark.target"
    assert launch["pid"] == 7663
    assert "mm_filemap_add_to_page_cache" in " ".join(found["lacks"])


@pytest.mark.slow
def test_summaries_fit_one_screen(tmp_path: Path) -> None:
    path = written(tmp_path / "trace", phone(7).bytes())
    for command in ("launches", "kills", "pressure"):
        ended = run(command, str(path))
        assert ended.returncode == 0, ended.stderr
        assert len(ended.stdout.splitlines()) <= 25, ended.stdout
        printed = run(command, str(path), "--json").stdout
        assert json.loads(printed) == getattr(pagewise, command)(str(path))


@pytest.mark.slow
def test_the_trace_of_the_tutorial_is_what_its_script_writes() -> None:
    assert gzip.decompress(EXAMPLE.read_bytes()) == phone(7).bytes()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["launches", "kills", "pressure"])
def test_a_report_replaces_a_file_only_with_force_and_never_the_trace(
    tmp_path: Path, command: str
) -> None:
    trace = written(tmp_path / "trace", phone(7).bytes())
    report = written(tmp_path / "report.html", b"older")
    ended = run(command, str(trace), "--report", str(report))
    assert (ended.returncode, ended.stdout) == (2, ""), "refused before the work"
    assert "--force replaces it" in ended.stderr
    assert report.read_bytes() == b"older"
    ended = run(command, str(trace), "--report", str(report), "--force")
    assert ended.returncode == 0, ended.stderr
    assert report.read_bytes().startswith(b"<!")
    ended = run(command, str(trace), "--report", str(trace), "--force")
    assert ended.returncode == 2
    assert "is also an input" in ended.stderr
    assert trace.read_bytes() == phone(7).bytes()
    assert run(command, str(trace), "--force").returncode == 2


def test_a_report_on_a_pipe_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for trace in ("-", str(pipe)):
        ended = run("launches", trace, "--report", str(tmp_path / "report.html"))
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "a pipe" in ended.stderr


@pytest.mark.slow
def test_names_add_no_lines_to_sentences(tmp_path: Path) -> None:
    data = phone(7).bytes()
    name, forged = b"com.example.mail", b"com.x\n0 kills in"
    assert len(name) == len(forged)
    assert name in data
    path = str(written(tmp_path / "trace", data.replace(name, forged)))
    for command in ("launches", "kills", "pressure"):
        ended = run(command, path)
        assert ended.returncode == 0, ended.stderr
        assert not [line for line in ended.stdout.splitlines()[1:] if line.startswith("0 kills")]
        assert "com.x\\n0 kills in" in ended.stdout or command == "pressure"
