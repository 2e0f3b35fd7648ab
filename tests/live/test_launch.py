"""Launch plans on the running kernel; each run must leave the machine as it was.

Needs root, a memory cgroup and a freezer; a skipped test says what is missing.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import polars
import pytest
from agent import AGENT, is_free, refusal
from waiting import is_running, running

import pagewise as pw

UNDO_LOG = Path("/run/pagewise/launch.undo")
MARK = f"pagewise-test-{os.getpid()}"

# Holds {mib} MiB and writes to each of its pages at every visit.
HOLD = """
import sys  # {mark}
held = bytearray({mib} << 20)
print("ready", flush=True)
for line in sys.stdin:
    for place in range(0, len(held), 4096):
        held[place] = (held[place] + 1) % 256
    print("done", flush=True)
"""

# Writes to {mib} MiB at every visit and gives them back before it answers.
BORROW = """
import sys  # {mark}
print("ready", flush=True)
for line in sys.stdin:
    borrowed = bytearray({mib} << 20)
    for place in range(0, len(borrowed), 4096):
        borrowed[place] = 1
    del borrowed
    print("done", flush=True)
"""

# Reports that it is ready, and never answers.
SILENT = """
import sys  # {mark}
print("ready", flush=True)
for line in sys.stdin:
    pass
"""


REFUSAL = refusal("memory-cgroup", "freezer", "swapon")
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))


def state() -> dict[str, object]:
    """The state of the machine that a run may change."""
    parameters = [
        Path("/proc/sys/vm/swappiness"),
        Path("/proc/sys/kernel/task_delayacct"),
        *Path("/sys/module/zswap/parameters").glob("*"),
    ]
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    groups = [Path(mount[1]) for mount in mounts if mount[2].startswith("cgroup")]
    return {
        "swap": [line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()],
        "parameters": {str(path): path.read_text() for path in parameters if path.exists()},
        "zram": sorted(path.name for path in Path("/sys/block").glob("zram*")),
        "groups": sorted(str(path) for mount in groups for path in mount.glob("pagewise-launch*")),
        "processes": marked_processes(),
        "undo_log": UNDO_LOG.exists(),
    }


def marked_processes() -> list[str]:
    """Running programs of the tests' plans."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if MARK.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:  # The process has ended.
            continue
    return found


@pytest.fixture
def machine() -> Iterator[None]:
    """Checks that the test leaves the machine as it was."""
    if not is_free():
        pytest.skip("another launch is running on this machine")
    before = state()
    yield
    assert state() == before


def line(program: str, **values: object) -> dict[str, object]:
    """An application with the interface line."""
    return {
        "command": [sys.executable, "-c", program.format(mark=MARK, **values)],
        "interface": "line",
        "ready": "ready",
        "request": "visit {round}",
        "answer": "done",
    }


def write(path: Path, applications: dict[str, dict[str, object]], **entries: object) -> Path:
    """Writes a plan file."""
    entries = {"name": path.stem, "order": list(applications)} | entries
    text = assignments(entries)
    for name, application in applications.items():
        text += [f"[applications.{name}]", *assignments(application)]
    path.write_text("\n".join(text) + "\n")
    return path


def assignments(entries: Mapping[str, object]) -> list[str]:
    """Lines of a TOML table; strings, lists and numbers of JSON are also valid TOML."""
    return [
        f"{name} = {{ {', '.join(assignments(value))} }}"
        if isinstance(value, Mapping)
        else f"{name} = {json.dumps(value)}"
        for name, value in entries.items()
    ]


def swapping(tmp_path: Path, mode: str = "swap-file", **entries: object) -> Path:
    """A plan of two applications, each about as large as their budget."""
    applications = {"first": line(HOLD, mib=40), "second": line(HOLD, mib=40)}
    memory = {"budget": "48MiB", "swap_size": "256MiB", "zram_size": "64MiB"}
    return write(tmp_path / "plan.toml", applications, mode=mode, **(memory | entries))


def launch(plan: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [AGENT, "launch", plan, "-o", plan.with_suffix(""), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def visits(plan: Path) -> polars.DataFrame:
    return polars.read_parquet(plan.with_suffix("") / "visits.parquet")


@pytest.mark.usefixtures("machine")
def test_applications_swap_and_answer(tmp_path: Path) -> None:
    plan = swapping(tmp_path, rounds=2)
    finished = launch(plan, "--json")
    assert finished.returncode == 0, finished.stderr
    table = visits(plan)
    assert table["app"].to_list() == ["first", "second"] * 2
    assert table["cold"].to_list() == [True, True, False, False]
    assert table["answered"].all() and (table["launch_s"] > 0).all()
    assert (table["end_s"] - table["start_s"] >= table["launch_s"]).all()
    # The second does not fit beside the first, so the first is swapped out and in.
    assert table["swap_out_bytes"][1] > 20 << 20 and table["swap_in_bytes"][2] > 20 << 20
    assert (table["memory_bytes"] <= 48 << 20).all()

    report = json.loads(finished.stdout)
    assert (report["visits"], report["answered"], report["cold"]) == (4, 4, 2)
    about = tomllib.loads((tmp_path / "plan" / "run.toml").read_text())
    assert about["run"]["finished"] and about["plan"]["swappiness"] == 100
    processes = polars.read_parquet(tmp_path / "plan" / "processes.parquet")
    assert set(processes["app"]) == {"first", "second"}
    left = {path.name for path in (tmp_path / "plan").iterdir()}
    assert left == {"visits.parquet", "processes.parquet", "run.toml", "logs"}


HAS_SWAP = len(Path("/proc/swaps").read_text().splitlines()) > 1
NO_TIERS = refusal("fuse-loop") or ("this machine has another swap area" if HAS_SWAP else None)
tiered = pytest.mark.skipif(NO_TIERS is not None, reason=str(NO_TIERS))


def in_tiers(tmp_path: Path, **entries: object) -> Path:
    """The plan of two applications, on a swap area of two tiers."""
    tiers = {"policy": "adaptive", "fast": "16MiB", "emulate": {"slow": "400/600us"}}
    return swapping(tmp_path, "tiers", tiers=tiers, **entries)


@pytest.mark.parametrize(
    ("is_recorded", "make"),
    [
        (False, swapping),
        (True, swapping),
        pytest.param(True, in_tiers, marks=[tiered, pytest.mark.long]),
    ],
)
@pytest.mark.usefixtures("machine")
def test_a_run_says_whether_it_can_carry_a_verdict(
    tmp_path: Path, is_recorded: bool, make: Callable[..., Path]
) -> None:
    if is_recorded and (reason := refusal("record --swap")):
        pytest.skip(reason)
    plan = make(tmp_path, rounds=2)
    finished = launch(plan, *["--record"] * is_recorded)
    assert finished.returncode == 0, finished.stderr
    about = tomllib.loads((tmp_path / "plan" / "run.toml").read_text())
    reasons, checks = about.get("invalid_because", []), about["checks"]
    assert about["valid"] == (reasons == [])
    # Other programs on this machine may be busy meanwhile.
    busy = [reason for reason in reasons if reason.startswith("other programs use ")]
    assert len(busy) == (checks["load_other"] > 0.1)
    assert 0 <= checks["steal_share"] < 1
    before, after = (about["counters"][when]["vmstat"] for when in ("before", "after"))
    pages = {name: after[name] - before[name] for name in ("pswpin", "pswpout")}
    assert min(pages.values()) > 5000, "the applications swap"
    blocks = {when: about["counters"][when]["block"] for when in ("before", "after")}
    assert any(
        device["write_ios"] > blocks["before"].get(name, {}).get("write_ios", 0)
        for name, device in blocks["after"].items()
    )
    if not is_recorded:
        assert "it was not recorded" in reasons and "swapin_ratio" not in checks
        return
    # So may their files be, and their writes that are under way at either end of the run.
    files = " disks are of other programs" if not busy else " disk"
    assert [reason for reason in reasons if files not in reason] == busy
    info = pw.info(tmp_path / "plan" / "recording.pgr")
    seen = dict(info["header"]["seen"])
    if make is swapping:
        assert checks["swapin_ratio"] == pytest.approx(seen["swap_read"] / pages["pswpin"])
    assert abs(checks["swapin_ratio"] - 1) <= 0.03 and abs(checks["swapout_ratio"] - 1) <= 0.03
    assert 0 <= checks["foreign_swapin_share"] <= 0.01
    assert 0 <= checks["foreign_swapout_share"] <= 0.01
    assert 0 <= checks["kernel_thread_share"] < 1


@pytest.mark.usefixtures("machine")
def test_a_run_notices_what_other_programs_read(tmp_path: Path) -> None:
    """Each reader of the file ends together with the shell that started it."""
    if reason := refusal("record --swap"):
        pytest.skip(reason)
    file, plan = tmp_path / "large", swapping(tmp_path, rounds=2)
    file.write_bytes(os.urandom(32 << 20))
    os.sync()
    read = f"dd if={file} of=/dev/null bs=1M iflag=direct status=none"
    if subprocess.run(["sh", "-c", read], capture_output=True, timeout=60).returncode != 0:
        pytest.skip("files here cannot be read past the page cache")
    loop = f"while test -e {file}; do sh -c '{read}; true'; done"
    with subprocess.Popen(["sh", "-c", loop]):
        try:
            finished = launch(plan, "--record")
        finally:
            file.unlink()
    assert finished.returncode == 0, finished.stderr
    about = tomllib.loads((tmp_path / "plan" / "run.toml").read_text())
    assert about["checks"]["foreign_read_share"] > 0.03 and not about["valid"]
    reasons = [reason for reason in about["invalid_because"] if "read from disks" in reason]
    assert len(reasons) == 1 and reasons[0].endswith(
        "% of the bytes read from disks are of other programs"
    )


@pytest.mark.long
@tiered
@pytest.mark.usefixtures("machine")
def test_applications_swap_to_two_tiers_and_the_desk_decides_the_moves_again(
    tmp_path: Path,
) -> None:
    plan = in_tiers(tmp_path, rounds=3)
    finished = launch(plan)
    assert finished.returncode == 0, finished.stderr
    table, folder = visits(plan), tmp_path / "plan"
    assert table["answered"].all()
    served = json.loads((folder / "swapd.json").read_text())
    assert served["policy"] == "adaptive" and not any(served["errors"].values())
    # The visits cover all but the pages that come back when the area is disabled.
    for column, count in (("fast_reads", "fast"), ("slow_reads", "slow")):
        assert 0 < table[column].sum() <= served[count]["reads"], column
    assert 0 < table["slow_writes"].sum() <= served["slow"]["writes"]
    again = pw.simulate_as_recorded(folder / "swapd.pgr", moves=tmp_path / "again.csv")
    assert again["identical"] and again["differing_moves"] == 0 and not again["is_cut"]
    assert (tmp_path / "again.csv").read_bytes() == (folder / "moves.csv").read_bytes()
    # What swapd did is what was decided, unless a move failed.
    assert again["failed_moves"] == 0
    for tier in ("fast", "slow"):
        assert again[tier]["reads"] == served[tier]["reads"], tier
        assert again[tier]["writes"] == served[tier]["writes"], tier


@pytest.mark.usefixtures("machine")
def test_files_are_read_as_slowly_as_from_the_storage(tmp_path: Path) -> None:
    plan = swapping(tmp_path, storage={"files": "4/4ms"})
    finished = launch(plan)
    if "no cgroup hierarchy with the controller blkio" in finished.stderr:
        pytest.skip("no blkio controller is mounted")
    assert finished.returncode == 0, finished.stderr
    assert visits(plan)["answered"].all()
    about = tomllib.loads((tmp_path / "plan" / "run.toml").read_text())
    reads = about["run"]["file_reads"]
    assert reads["wanted_us"] == 4000 and "storage" in about["plan"]
    # The throttle lets a few reads through at once when it begins.
    assert reads["measured_us"] > 0.8 * 4000 and reads["unslowed_us"] < 4000
    assert any("slow down reads of files to those of 4/4ms" in s for s in about["run"]["steps"])


@tiered
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.usefixtures("machine")
def test_swapd_ends_with_the_run(tmp_path: Path, number: signal.Signals) -> None:
    plan = in_tiers(tmp_path, rounds=1000)
    folder = plan.with_suffix("")
    with running([AGENT, "launch", plan, "-o", folder], stderr=subprocess.PIPE, text=True) as run:
        wait_for((folder / "visits.parquet").exists)
        (server,) = children(run.pid, b"swapd")
        run.send_signal(number)
        _, errors = run.communicate(timeout=120)
    assert run.returncode == (-number if number == signal.SIGKILL else 130), errors
    wait_for(lambda: not is_running(server))
    assert "/dev/loop" not in Path("/proc/swaps").read_text()


@tiered
@pytest.mark.usefixtures("machine")
def test_what_swapd_refuses_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    tiers = {"policy": "clairvoyant", "fast": "16MiB"}
    finished = launch(swapping(tmp_path, "tiers", tiers=tiers))
    assert finished.returncode == 3 and "must know the future" in finished.stderr
    assert not (tmp_path / "plan").exists()


PREFETCHING: dict[str, dict[str, object]] = {
    "swap-file": {"swap_size": "256MiB"},
    "zram": {"zram_size": "256MiB"},
    "tiers": {"swap_size": "256MiB", "tiers": {"policy": "adaptive", "fast": "16MiB"}},
}


@pytest.mark.parametrize("mode", ["swap-file", "zram", pytest.param("tiers", marks=tiered)])
@pytest.mark.usefixtures("machine")
def test_relaunchd_reads_what_a_visit_uses_before_it(tmp_path: Path, mode: str) -> None:
    # Each visit of the second application swaps out most of the first, and then leaves room to
    # read it back: relaunchd keeps 32 MiB of it free.
    if mode == "zram" and (missing := refusal("zram")):
        pytest.skip(missing)
    applications = {"first": line(HOLD, mib=60), "second": line(BORROW, mib=80)}
    memory = {"mode": mode, "budget": "110MiB", **PREFETCHING[mode]}
    plan = write(tmp_path / "plan.toml", applications, rounds=4, prefetch=True, **memory)
    finished = launch(plan)
    assert finished.returncode == 0, finished.stderr
    table = visits(plan)
    assert table["answered"].all(), [finished.stderr, *table.iter_rows(named=True)]
    pages = table["prefetched_pages"].to_list()
    # Its first warm visit teaches what it uses.
    assert pages[:4] == [0] * 4 and pages[4] > 2000 and pages[6] > 500, pages
    log = (tmp_path / "plan" / "relaunchd.log").read_text()
    assert log.count("event=frozen") == 8 and "by=command" in log
    left = {path.name for path in (tmp_path / "plan").iterdir()}
    assert left >= {"relaunchd.log", "relaunchd.toml"}


@pytest.mark.usefixtures("machine")
def test_the_killer_kills_the_application_used_longest_ago(tmp_path: Path) -> None:
    applications = {name: line(HOLD, mib=30) for name in ("a", "b", "c")}
    plan = write(
        tmp_path / "plan.toml",
        applications,
        order=["a", "b", "a", "c", "b"],
        mode="kill",
        budget="200MiB",
        # Two fit below the threshold, three do not.
        kill={"threshold": 0.45},
    )
    finished = launch(plan)
    assert finished.returncode == 0, finished.stderr
    table = visits(plan)
    assert table["killed"].to_list() == ["", "", "", "b", "a"]
    assert table["cold"].to_list() == [True, True, False, True, True]
    assert table["kills"].to_list() == [0, 0, 0, 1, 1] and table["answered"].all()


def scarce(tmp_path: Path, order: list[str], **entries: object) -> Path:
    """A plan in which three applications of 70 MiB do not fit.

    The balloon leaves 300 MiB. Two applications leave about 150 MiB free, three about 70 MiB. Below
    100 MiB the killer kills applications other than the visited one and the one visited before it.
    """
    return write(
        tmp_path / "plan.toml",
        {name: line(HOLD, mib=70) for name in ("a", "b", "c")},
        order=order,
        mode="minfree",
        budget="400MiB",
        balloon={"size": "100MiB"},
        **entries,
    )


@pytest.mark.parametrize(
    ("kills", "reclaim"),
    [
        ("serial", "first"),
        pytest.param("serial", "never", marks=pytest.mark.long),
        pytest.param("batch", "late", marks=pytest.mark.long),
    ],
)
@pytest.mark.usefixtures("machine")
def test_killd_spares_the_applications_used_last(tmp_path: Path, kills: str, reclaim: str) -> None:
    minfree = {"levels": "25600:900", "kills": kills, "reclaim": reclaim}
    # A visit takes more than a second, so that killd looks before the last one has ended.
    order, pause = ["a", "b", "c", "b", "c"], {"visit": "1s"}
    plan = scarce(tmp_path, order, minfree=minfree, pause=pause)
    finished = launch(plan)
    assert finished.returncode == 0, finished.stderr
    table = visits(plan)
    # The kill may be counted in this visit or a later one.
    assert "".join(table["killed"][2:]) == "a" and not any(table["killed"][:2])
    assert table["cold"].to_list() == [True, True, True, False, False]
    assert table["processor_s"][0] > 0 and (table["ready_s"] >= 0).all()
    folder = plan.with_suffix("")
    log = (folder / "killd.log").read_text()
    assert log.count("event=kill ") == 1 and 'why="free memory is below a level' in log
    [kill] = polars.read_parquet(folder / "kills.parquet").to_dicts()
    assert (kill["app"], f"event=kill process={kill['process']} " in log) == ("a", True)
    assert table["start_s"][2] < kill["at_s"] < table["end_s"][4]
    # Of 70 MiB, the application that starts in the meantime takes a part. On a busy machine a
    # killer that does not reclaim may stop waiting before any memory is back.
    if f"event=back process={kill['process']} " in log:
        assert kill["back_s"] > 0 and kill["freed_bytes"] > 35 << 20


@pytest.mark.usefixtures("machine")
def test_kill_policies_are_replayed_on_the_memory_of_the_run(tmp_path: Path) -> None:
    # The killer never kills. In the last visits, three applications of 70 MiB leave less than
    # 200 of 400 MiB.
    plan = write(
        tmp_path / "plan.toml",
        {name: line(HOLD, mib=70) for name in ("a", "b", "c")},
        order=["a", "b", "c", "b", "c"],
        mode="kill",
        budget="400MiB",
        kill={"threshold": 1.0},
        pause={"visit": "1s"},
    )
    finished = launch(plan, "--record")
    assert finished.returncode == 0, finished.stderr
    assert visits(plan)["kills"].sum() == 0
    recording = plan.with_suffix("") / "recording.pgr"
    command = [AGENT.with_name("pagewise"), "replay-kills", recording, "--json"]
    command += ["--policy", "minfree", "--option", "minfree.minfree_levels=51200:0"]
    replayed = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert replayed.returncode == 0, replayed.stderr
    result = json.loads(replayed.stdout)
    assert result["total_bytes"] == 400 << 20, "the memory of the run, not of the machine"
    assert result["policies"][0]["decisions"], replayed.stdout
    assert result["has_watermarks"] and "neither watermarks" not in replayed.stderr


@pytest.mark.usefixtures("machine")
def test_the_run_ends_if_killd_ends(tmp_path: Path) -> None:
    plan = scarce(tmp_path, ["a", "b"], rounds=1000)
    folder = plan.with_suffix("")
    with running([AGENT, "launch", plan, "-o", folder], stderr=subprocess.PIPE, text=True) as run:
        wait_for((folder / "visits.parquet").exists)
        for killer in children(run.pid, b"killd"):
            os.kill(killer, signal.SIGKILL)
        _, errors = run.communicate(timeout=120)
    assert run.returncode == 3 and "killd has ended during the run" in errors, errors
    assert visits(plan).height >= 1


@pytest.mark.usefixtures("machine")
def test_an_application_killed_by_the_oom_killer_is_counted_and_started_again(
    tmp_path: Path,
) -> None:
    applications = {"large": line(HOLD, mib=32), "small": line(HOLD, mib=16)}
    plan = write(
        tmp_path / "plan.toml",
        applications,
        order=["large", "small", "large"],
        mode="kill",
        # Less than both need, but the threshold is above what they can use.
        budget="48MiB",
        kill={"threshold": 1.0},
    )
    finished = launch(plan, "--json")
    assert finished.returncode == 0, finished.stderr
    table = visits(plan)
    assert table["kills"].to_list() == [0, 0, 0] and table["cold"].all()
    # The OOM killer's victim is the largest, which is frozen.
    assert table["oom_kills"].to_list()[:2] == [0, 1] and table["answered"].to_list()[1]
    assert json.loads(finished.stdout)["oom_kills"] == table["oom_kills"].sum()
    assert "the kernel's OOM killer killed 1" in finished.stderr
    assert "not ready in time" not in finished.stderr


@pytest.mark.long
@pytest.mark.usefixtures("machine")
def test_an_application_that_does_not_answer_is_started_again(tmp_path: Path) -> None:
    applications = {"silent": line(SILENT), "first": line(HOLD, mib=1)}
    plan = write(
        tmp_path / "plan.toml", applications, rounds=2, mode="no-limit", timeouts={"answer": "1s"}
    )
    finished = launch(plan)
    assert finished.returncode == 0, finished.stderr
    assert "silent cold not answered: no answer in time" in finished.stderr
    table = visits(plan)
    assert table["answered"].to_list() == [False, True, False, True]
    assert table["cold"].to_list() == [True, True, True, False]
    assert table["launch_s"].is_null().to_list() == [True, False, True, False]


@pytest.mark.long
@pytest.mark.usefixtures("machine")
def test_a_server_answers_over_http(tmp_path: Path) -> None:
    server = {
        "command": [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "{port}"],
        "interface": "http",
        "url": "http://127.0.0.1:{port}/?round={round}",
    }
    lost = server | {"url": "http://127.0.0.1:{port}/none", "ready_url": server["url"]}
    plan = write(
        tmp_path / "plan.toml", {"server": server, "lost": lost}, rounds=2, mode="no-limit"
    )
    finished = launch(plan)
    assert finished.returncode == 0, finished.stderr
    assert visits(plan)["answered"].to_list() == [True, False, True, False]
    assert visits(plan)["cold"].to_list() == [True, True, False, True]
    assert "status 404" in finished.stderr


@pytest.mark.skipif(
    shutil.which("chromium-headless-shell") is None, reason="chromium-headless-shell is missing"
)
@pytest.mark.usefixtures("machine")
def test_a_page_answers_over_devtools(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<script>function visit(round) { return new Promise((done, failed) =>"
        " setTimeout(round == 2 ? () => failed(new Error('no round 2')) : done, 50)) }</script>"
    )
    browser = {
        "command": [
            "chromium-headless-shell",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-agent={MARK}",
        ],
        "interface": "devtools",
        "page": str(page),
        "request": "visit({round})",
    }
    plan = write(tmp_path / "plan.toml", {"browser": browser}, rounds=4, mode="no-limit")
    finished = launch(plan)
    assert finished.returncode == 0, finished.stderr
    table = visits(plan)
    assert table["answered"].to_list() == [True, True, False, True]
    assert table["cold"].to_list() == [True, False, False, True]
    assert (table["launch_s"].drop_nulls() >= 0.05).all() and "no round 2" in finished.stderr


def wait_for(fact: Callable[[], bool]) -> None:
    late = time.monotonic() + 120  # a longer wait hangs
    while not fact() and time.monotonic() < late:
        time.sleep(0.02)
    assert fact()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.usefixtures("machine")
def test_killd_and_balloon_end_with_the_run(tmp_path: Path, number: signal.Signals) -> None:
    plan = scarce(tmp_path, ["a", "b", "c"], rounds=1000)
    folder = plan.with_suffix("")
    with running([AGENT, "launch", plan, "-o", folder], stderr=subprocess.PIPE, text=True) as run:
        wait_for((folder / "visits.parquet").exists)
        companions = children(run.pid, b"killd") + children(run.pid, b"balloon")
        assert len(companions) == 2
        run.send_signal(number)
        _, errors = run.communicate(timeout=120)
    assert run.returncode == (-number if number == signal.SIGKILL else 130), errors
    wait_for(lambda: not any(map(is_running, companions)))
    wait_for(lambda: not list(Path("/sys/fs/cgroup").glob(f"**/pagewise-balloon-{companions[1]}")))
    assert visits(plan).height >= 1


@pytest.mark.parametrize(
    ("mode", "number"),
    [
        ("swap-file", signal.SIGINT),
        ("swap-file", signal.SIGTERM),
        ("swap-file", signal.SIGKILL),
        ("zram+file", signal.SIGKILL),
        ("zswap", signal.SIGKILL),
    ],
)
@pytest.mark.usefixtures("machine")
def test_a_signal_keeps_the_visits_and_undoes_the_changes(
    tmp_path: Path, mode: str, number: signal.Signals
) -> None:
    for name in ("zram", "zswap"):
        if name in mode and (missing := refusal(name)):
            pytest.skip(missing)
    plan = swapping(tmp_path, mode, rounds=1000)
    folder = plan.with_suffix("")
    command = [AGENT, "launch", plan, "-o", folder]
    with running(command, stderr=subprocess.PIPE, text=True) as run:
        wait_for((folder / "visits.parquet").exists)
        assert len(marked_processes()) > 0 and str(folder) in Path("/proc/swaps").read_text()
        run.send_signal(number)
        # Waits for the guard, too: it has the same standard error.
        _, errors = run.communicate(timeout=60)
    assert run.returncode == (-number if number == signal.SIGKILL else 130), errors
    assert 1 <= visits(plan).height < 2000
    about = tomllib.loads((folder / "run.toml").read_text())["run"]
    expected = "running" if number == signal.SIGKILL else "interrupted"
    assert (about["finished"], about["reason"]) == (False, expected)
    assert not (folder / "swap").exists() and not (folder / "data").exists()


def children(run: int, word: bytes) -> list[int]:
    """The processes that a run started with this word on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            is_meant = word in path.read_bytes().split(b"\0")
            parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # The process has ended.
            continue
        if is_meant and parent == run:
            found.append(int(path.parent.name))
    return found


def guard_of(run: int) -> int:
    """The guard of a run."""
    [guard] = children(run, b"--guard")
    return guard


@pytest.mark.usefixtures("machine")
def test_a_run_killed_with_its_guard_is_undone_by_hand(tmp_path: Path) -> None:
    plan = swapping(tmp_path, rounds=1000)
    folder = plan.with_suffix("")
    with running([AGENT, "launch", plan, "-o", folder], stderr=subprocess.DEVNULL) as run:
        wait_for((folder / "visits.parquet").exists)
        os.kill(guard_of(run.pid), signal.SIGKILL)
        run.kill()
    # The guard shares the lock, and may die later.
    wait_for(is_free)
    other = swapping(tmp_path).rename(tmp_path / "other.toml")
    refused = launch(other)
    undone = subprocess.run([AGENT, "launch", "--undo"], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 3 and "pagewise-agent launch --undo" in refused.stderr
    assert (undone.returncode, undone.stderr) == (0, "") and "changes undone" in undone.stdout
    assert not other.with_suffix("").exists()


@pytest.mark.usefixtures("machine")
def test_a_zram_device_without_a_number_in_the_undo_log_is_removed() -> None:
    add = Path("/sys/class/zram-control/hot_add")
    if not add.exists():
        pytest.skip("the kernel cannot add zram devices")
    others = [path.name for path in Path("/sys/block").glob("zram*")]
    UNDO_LOG.write_text(json.dumps({"RemoveNewZram": {"others": others}}) + "\n")
    # Reading the file adds the device.
    added = f"zram{add.read_text().strip()}"
    assert Path("/sys/block", added).exists()
    undone = subprocess.run([AGENT, "launch", "--undo"], capture_output=True, text=True, timeout=60)
    assert (undone.returncode, undone.stderr) == (0, "")
    assert not Path("/sys/block", added).exists()


@pytest.mark.parametrize(
    ("entries", "command", "status", "message"),
    [
        ({}, "/no/such/program", 3, "first: /no/such/program: the program does not exist"),
        ({"budget": "9000GiB"}, None, 3, "must keep"),
        ({"swap_size": "9000GiB"}, None, 3, "does not fit"),
        ({"mode": "zram", "compressor": "none"}, None, 3, "cannot write none"),
        ({"budget": "lots"}, None, 2, "expected a size such as 650MiB"),
        ({"order": ["third"]}, None, 2, "[applications.third]"),
    ],
)
@pytest.mark.usefixtures("machine")
def test_a_plan_that_cannot_be_run_changes_nothing(
    tmp_path: Path, entries: dict[str, object], command: str | None, status: int, message: str
) -> None:
    plan = swapping(tmp_path, **entries)
    if command:
        plan.write_text(plan.read_text().replace(json.dumps(sys.executable), f'"{command}"', 1))
    finished = launch(plan)
    assert (finished.returncode, finished.stdout) == (status, "")
    assert message in finished.stderr and not plan.with_suffix("").exists()


@pytest.mark.usefixtures("machine")
def test_a_dry_run_shows_the_steps_but_does_not_run_them(tmp_path: Path) -> None:
    plan = swapping(tmp_path, "zram+file")
    finished = launch(plan, "--dry-run", "--json")
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert any("zram device of 64MiB" in step for step in report["steps"])
    assert any("swap of 256MiB" in step for step in report["steps"])
    assert not plan.with_suffix("").exists()


@pytest.mark.usefixtures("machine")
def test_a_folder_whose_file_system_supports_no_swap_file_is_refused(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        output = Path(folder, "run")
        command = [AGENT, "launch", swapping(tmp_path, swap_size="1MiB"), "-o", output]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert finished.returncode == 3 and not output.exists()
    assert "choose a folder on a disk" in finished.stderr


@pytest.mark.usefixtures("machine")
def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    plan = swapping(tmp_path)
    results = plan.with_suffix("")
    results.mkdir()
    (results / "visits.parquet").write_text("precious")
    finished = launch(plan)
    assert finished.returncode == 3 and "the folder is not empty" in finished.stderr
    assert (results / "visits.parquet").read_text() == "precious"
