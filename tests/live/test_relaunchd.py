"""relaunchd on real applications, with a swap file of the test's own.

What it counts is compared with the page map. Needs root, memory cgroups and the freezer; a skipped
test says what is missing.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import AGENT, refusal
from groups import MIB, Group
from killd import asked
from relaunchd import HANGS_AFTER_S, LIMIT, Application, Relaunchd, freezer, swap_file

ROOT = Path(__file__).resolve().parents[2]
PAGES = 16 * 1024

pytestmark = pytest.mark.skipif(
    refusal("memory-cgroup", "swapon", "process-madvise") is not None,
    reason=str(refusal("memory-cgroup", "swapon", "process-madvise")),
)


@pytest.fixture(scope="module")
def swap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    # Not in /tmp, which may be in memory.
    folder = ROOT / "build" / f"relaunchd-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        with swap_file(folder, 512 * MIB) as path:
            yield path
    finally:
        folder.rmdir()


@pytest.fixture
def memory(swap: Path) -> Iterator[Group]:
    with Group(LIMIT) as group:
        yield group


@pytest.fixture
def notes(memory: Group) -> Iterator[Application]:
    application = Application(memory, freezer(1), PAGES)
    try:
        yield application
    finally:
        application.end()


def counted(daemon: Relaunchd, name: str) -> dict[str, object]:
    report = json.loads(asked(daemon.statistics))
    assert report["schema"] == "pagewise.relaunchd/1"
    found = next(row for row in report["applications"] if row["name"] == name)
    assert isinstance(found, dict)
    return found


def learned(daemon: Relaunchd, visits: int) -> None:
    """Waits until this number of visits has ended."""
    daemon.until(lambda: len(daemon.events("frozen")) >= visits)


# Nothing is paged out or made cold by relaunchd, so that the test decides what is in swap.
ONLY_PREFETCH = "page_out = false\ncold = false\n"


def test_the_second_visit_finds_what_the_first_used(notes: Application, tmp_path: Path) -> None:
    sums = [notes.visit(0, 6000, 2), notes.visit(8000, 9000), notes.visit(0, PAGES)]
    with Relaunchd(tmp_path, {"notes": notes.freezer}, ONLY_PREFETCH) as daemon:
        daemon.do("freeze", "notes")
        assert notes.is_frozen()
        notes.page_out()
        _, before = notes.anonymous()
        answer = daemon.do("thaw", "notes")
        assert not notes.is_frozen() and answer["prefetched_pages"] == 0
        assert notes.visit(0, 6000, 2) == sums[0]
        daemon.do("freeze", "notes")
        learned(daemon, 2)
        # What it read from swap, and what it allocated.
        first = notes.anonymous()[1] - before
        assert len(first) >= 3000
        missed = int(daemon.event("frozen", 1)["missed_pages"])
        assert 3000 <= missed <= len(first)
        notes.page_out()

        (out, _), faults = notes.anonymous(), notes.major_faults()
        answer = daemon.do("thaw", "notes")
        # Each page that the first visit used and that is in swap is read, and no other.
        assert answer["predicted_pages"] == len(first)
        assert answer["prefetched_pages"] == len(first & out)
        assert notes.visit(0, 6000, 2) == sums[0]
        faults = notes.major_faults() - faults
        assert notes.visit(8000, 9000) == sums[1]
        daemon.do("freeze", "notes")
        learned(daemon, 3)
        second = out & notes.anonymous()[1]
        # At most one of a hundred prefetched pages was read by a fault.
        assert faults <= len(first) // 100, (faults, len(first))
        visit = daemon.event("frozen", 2)
        assert int(visit["used_pages"]) == len(second & first)
        assert int(visit["missed_pages"]) == len(second - first) >= 1000
        row = counted(daemon, "notes")
        assert (row["visits"], row["state"]) == (2, "frozen")
        assert row["prefetched_pages"] == len(first & out)
        assert row["missed_pages"] == missed + len(second - first)
        assert float(str(row["prefetch_s"])) > 0
        daemon.do("thaw", "notes")
        assert notes.visit(0, PAGES) == sums[2]
        metrics = asked(daemon.metrics, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert 'pagewise_relaunchd_visits_total{app="notes"} 2\n' in metrics
    assert daemon.process.returncode == 0
    report = json.loads(daemon.output)
    assert report["applications"][0]["visits"] == 2
    assert not daemon.socket.exists() and not daemon.statistics.exists()


def visited(daemon: Relaunchd, notes: Application) -> set[int]:
    """Lets it learn from a visit to the first 6000 pages; then all pages are in swap.

    Returns what it learned.
    """
    daemon.do("freeze", "notes")
    notes.page_out()
    _, before = notes.anonymous()
    daemon.do("thaw", "notes")
    notes.visit(0, 6000)
    daemon.do("freeze", "notes")
    learned(daemon, 2)
    first = notes.anonymous()[1] - before
    notes.page_out()
    return first


def test_version_2_needs_no_requests(memory: Group, tmp_path: Path) -> None:
    notes = Application(memory, freezer(2), PAGES)
    try:
        total = notes.visit(0, 6000)
        with Relaunchd(tmp_path, {"notes": notes.freezer}, ONLY_PREFETCH) as daemon:
            assert daemon.event("found", 0)["frozen"] == "false"
            for round_ in range(1, 4):
                notes.set_frozen(True)
                learned(daemon, round_)
                assert counted(daemon, "notes")["state"] == "frozen"
                notes.page_out()
                notes.set_frozen(False)
                daemon.until(lambda round_=round_: len(daemon.events("thawed")) == round_)
                assert notes.visit(0, 6000) == total
            thaw = daemon.event("thawed", 2)
            assert thaw["by"] == "kernel" and int(thaw["prefetched_pages"]) >= 6000
            # Requests work as well.
            daemon.do("freeze", "notes")
            assert notes.is_frozen()
            learned(daemon, 4)
            assert int(str(daemon.do("thaw", "notes")["predicted_pages"])) >= 6000
            assert notes.visit(0, 6000) == total
            daemon.do("freeze", "notes")
        assert not notes.is_frozen()
    finally:
        notes.end()


def test_what_is_not_predicted_leaves_memory_and_keeps_its_content(
    notes: Application, tmp_path: Path
) -> None:
    total = notes.visit(0, PAGES)
    settings = "page_out = true\ncold = true\npage_out_delay_ms = 0"
    with Relaunchd(tmp_path, {"notes": notes.freezer}, settings) as daemon:
        daemon.do("freeze", "notes")
        # Half of its pages stay in memory: no visit shows whether it uses them.
        notes.page_out(PAGES // 2)
        daemon.do("thaw", "notes")
        notes.visit(0, 6000)
        daemon.do("freeze", "notes")
        learned(daemon, 2)
        assert int(daemon.event("frozen", 1)["page_out_pages"]) >= PAGES // 2
        daemon.until(lambda: notes.swapped() >= PAGES - 6000)
        own = range(notes.address, notes.address + 6000)
        assert len(notes.anonymous()[1] & set(own)) >= 5900
        assert int(daemon.event("frozen", 1)["cold_pages"]) >= 6000
        row = counted(daemon, "notes")
        assert int(str(row["paged_out_pages"])) >= PAGES // 2
        daemon.do("thaw", "notes")
        assert notes.visit(0, PAGES) == total


def test_nothing_stays_frozen_whatever_ends_relaunchd(notes: Application, tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with Relaunchd(tmp_path, {"notes": notes.freezer}) as daemon:
            daemon.do("freeze", "notes")
            assert notes.is_frozen()
            daemon.process.send_signal(number)
            daemon.process.wait(timeout=HANGS_AFTER_S)
        assert not notes.is_frozen() and daemon.events("released"), daemon.lines
    with Relaunchd(tmp_path, {"notes": notes.freezer}) as daemon:
        daemon.do("freeze", "notes")
        daemon.process.kill()
        daemon.process.wait(timeout=HANGS_AFTER_S)
    assert notes.is_frozen()
    with Relaunchd(tmp_path, {"notes": notes.freezer}) as daemon:
        assert not notes.is_frozen()
        assert "an earlier relaunchd was killed" in daemon.event("released", 0)["line"]
    # What another program froze stays as it was.
    notes.set_frozen(True)
    with Relaunchd(tmp_path, {"notes": notes.freezer}) as daemon:
        assert daemon.do("freeze", "notes")["why"] == "it was already frozen"
    assert notes.is_frozen()
    notes.set_frozen(False)
    assert notes.visit(0, 10)


def test_exec_makes_another_application_of_it(notes: Application, tmp_path: Path) -> None:
    with Relaunchd(tmp_path, {"notes": notes.freezer}, ONLY_PREFETCH) as daemon:
        assert visited(daemon, notes)
        assert int(str(daemon.do("thaw", "notes")["prefetched_pages"])) >= 6000
        # The same program with the same PID, while what was read for it before waits to be used.
        notes.tell("exec")
        notes.address = notes.started()
        daemon.do("freeze", "notes")
        learned(daemon, 3)
        visit = daemon.event("frozen", 2)
        assert (visit["used_pages"], visit["missed_pages"]) == ("0", "0")
        notes.page_out()
        answer = daemon.do("thaw", "notes")
        assert (answer["predicted_pages"], answer["prefetched_pages"]) == (0, 0)
        assert int(str(counted(daemon, "notes")["voided"])) >= 1


def test_an_application_that_exits_is_forgotten(notes: Application, tmp_path: Path) -> None:
    with Relaunchd(tmp_path, {"notes": notes.freezer}, ONLY_PREFETCH) as daemon:
        assert visited(daemon, notes)
        # It dies as soon as it is thawed: in version 1 a frozen process does not die before.
        notes.process.kill()
        daemon.do("thaw", "notes")
        notes.process.wait(timeout=HANGS_AFTER_S)
        daemon.do("freeze", "notes")
        learned(daemon, 3)
        assert daemon.event("frozen", 2)["processes"] == "0"
        assert daemon.do("thaw", "notes")["predicted_pages"] == 0
        # Its group goes, too, and comes back with another program.
        Group.remove(notes.freezer)
        refused = daemon.asked("thaw", "notes")
        assert refused.returncode == 3 and "does not exist: start the application" in refused.stderr
        daemon.until(lambda: daemon.events("gone"))
        assert counted(daemon, "notes")["state"] == "absent"
        notes.freezer.mkdir()
        daemon.until(lambda: len(daemon.events("found")) == 2)
        assert daemon.do("freeze", "notes")["is_frozen"]


def test_ten_thousand_mappings(notes: Application, tmp_path: Path) -> None:
    notes.tell("maps 10000")
    assert notes.answer() == "mapped 10000"
    total = notes.visit(0, 6000)
    with Relaunchd(tmp_path, {"notes": notes.freezer}, ONLY_PREFETCH) as daemon:
        daemon.do("freeze", "notes")
        notes.page_out_all()
        daemon.do("thaw", "notes")
        assert notes.visit(0, 6000) == total
        daemon.do("freeze", "notes")
        learned(daemon, 2)
        notes.page_out_all()
        faults = notes.major_faults()
        assert int(str(daemon.do("thaw", "notes")["prefetched_pages"])) >= 16_000
        assert notes.visit(0, 6000) == total
        assert notes.major_faults() - faults <= 160


def test_without_memory_nothing_is_prefetched(
    notes: Application, memory: Group, tmp_path: Path
) -> None:
    total = notes.visit(0, 6000)
    with Relaunchd(
        tmp_path, {"notes": notes.freezer}, ONLY_PREFETCH + "keep_free = '8MiB'"
    ) as daemon:
        visited(daemon, notes)
        limit = memory.folder / memory.limit
        limit.write_text(str(28 * MIB))
        answer = daemon.do("thaw", "notes")
        assert int(str(answer["prefetched_pages"])) < 6000
        assert f"memory is short in {memory.folder}: no room for" in str(answer["why"])
        limit.write_text(str(LIMIT))
        assert notes.visit(0, 6000) == total
        daemon.do("freeze", "notes")
        learned(daemon, 3)
        assert int(str(counted(daemon, "notes")["unaffordable_pages"])) > 0


def test_a_reload_keeps_what_was_learned(notes: Application, tmp_path: Path) -> None:
    with Relaunchd(tmp_path, {"notes": notes.freezer}, ONLY_PREFETCH) as daemon:
        visited(daemon, notes)
        text = daemon.settings.read_text()
        daemon.settings.write_text(text + "\nmore = 1\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.until(lambda: daemon.events("reload-refused"))
        assert "relaunchd.toml:" in daemon.event("reload-refused", 0)["line"]
        # Memory that must stay free, more than there is: nothing is prefetched.
        daemon.settings.write_text("keep_free = '900GiB'\n" + text)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.until(lambda: daemon.events("reload"))
        answer = daemon.do("thaw", "notes")
        assert int(str(answer["predicted_pages"])) >= 6000 and answer["prefetched_pages"] == 0
        assert "memory is short in" in str(answer["why"])
        daemon.do("freeze", "notes")
        # An application that the settings no longer have is thawed.
        other = "\n".join(text.split("[[app]]")[0:1]) + "[sockets]" + text.split("[sockets]")[1]
        daemon.settings.write_text(other)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.until(lambda: len(daemon.events("reload")) == 2)
        assert not notes.is_frozen()
        (released,) = daemon.events("released")
        assert released["app"] == "notes" and "no longer in the settings" in released["line"]


def test_a_dry_run_only_learns(notes: Application, tmp_path: Path) -> None:
    with Relaunchd(tmp_path, {"notes": notes.freezer}, "dry_run = true") as daemon:
        first = visited(daemon, notes)
        faults = notes.major_faults()
        answer = daemon.do("thaw", "notes")
        assert (answer["predicted_pages"], answer["prefetched_pages"]) == (len(first), 0)
        notes.visit(0, 6000)
        assert notes.major_faults() > faults
        row = counted(daemon, "notes")
        assert (row["cold_pages"], row["paged_out_pages"]) == (0, 0)


# relaunchd distinguishes the places of blocks of this many pages, and reads places within a stride
# of each other by address.
BLOCK, STRIDE = 64, 256
LENIENT = 128


class Reads:
    """The ranges that relaunchd reads, in order, by its system calls."""

    def __init__(self, daemon: Relaunchd, folder: Path) -> None:
        if shutil.which("strace") is None:
            pytest.skip("no strace, which shows in which order pages are read")
        self.log = folder / "strace.log"
        command = ["strace", "-f", "-v", "-e", "trace=process_madvise", "-e", "abbrev=none"]
        self.process = subprocess.Popen(
            [*command, "-o", self.log, "-p", str(daemon.process.pid)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        assert "attached" in self.process.stderr.readline()

    def ended(self) -> list[range]:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=HANGS_AFTER_S)
        lines = [line for line in self.log.read_text().splitlines() if "MADV_WILLNEED" in line]
        found = []
        for start, length in re.findall(r"iov_base=(0x\w+), iov_len=(\d+)", "".join(lines)):
            first = int(start, 16) // 4096
            found.append(range(first, first + int(length) // 4096))
        return found


def used_in_order(notes: Application, daemon: Relaunchd, blocks: list[int]) -> None:
    """Lets relaunchd learn from a visit that uses blocks in this order; then all are in swap."""
    daemon.do("freeze", "notes")
    notes.page_out()
    daemon.do("thaw", "notes")
    notes.visit_in_order(blocks)
    daemon.do("freeze", "notes")
    learned(daemon, 2)
    notes.page_out()


def shuffled(notes: Application) -> list[int]:
    return random.Random(7).sample(range(notes.pages // BLOCK), notes.pages // BLOCK)


def test_pages_are_read_in_the_order_in_which_a_visit_used_them(
    notes: Application, tmp_path: Path
) -> None:
    settings = ONLY_PREFETCH + "order = 'use'\n"
    with Relaunchd(tmp_path, {"notes": notes.freezer}, settings) as daemon:
        start = daemon.event("start", 0)
        if start["order"] != "use":
            pytest.skip(f"the kernel refuses the events of faults: {daemon.lines}")
        blocks = shuffled(notes)
        used_in_order(notes, daemon, blocks)
        frozen = daemon.event("frozen", 1)
        assert int(frozen["ordered_pages"]) >= 0.99 * PAGES and "lost_faults" not in frozen
        reads = Reads(daemon, tmp_path)
        answer = daemon.do("thaw", "notes")
        assert int(str(answer["prefetched_pages"])) >= PAGES
        ranges = reads.ended()
        # The place of each block of relaunchd: the pages that the visit used before it.
        places: dict[int, int] = {}
        uses = (notes.address + block * BLOCK + page for block in blocks for page in range(BLOCK))
        for place, page in enumerate(uses):
            places.setdefault(page // BLOCK, place)
        read = dict.fromkeys(page // BLOCK for pages in ranges for page in pages)
        order = [places[block] for block in read if block in places]
        assert len(order) == len(places)
        # What the program uses beside these pages moves places a little.
        latest = 0
        for place in order:
            assert place >= latest - STRIDE - LENIENT, order
            latest = max(latest, place)
        assert order != [places[block] for block in sorted(places)]
        assert int(daemon.event("thawed", 1)["ranges"]) == len(ranges) <= 3 * len(blocks)
        row = counted(daemon, "notes")
        assert row["prefetched_ranges"] == len(ranges)


def test_with_little_memory_the_pages_used_first_are_read(
    notes: Application, tmp_path: Path
) -> None:
    settings = ONLY_PREFETCH + "order = 'use'\nprefetch_max = '32MiB'\n"
    with Relaunchd(tmp_path, {"notes": notes.freezer}, settings) as daemon:
        if daemon.event("start", 0)["order"] != "use":
            pytest.skip(f"the kernel refuses the events of faults: {daemon.lines}")
        blocks = shuffled(notes)
        used_in_order(notes, daemon, blocks)
        assert daemon.do("thaw", "notes")["prefetched_pages"] == 32 * MIB // 4096
        before = notes.major_faults()
        notes.visit_in_order(blocks[: len(blocks) * 3 // 8])
        first = notes.major_faults() - before
        notes.visit_in_order(blocks[len(blocks) * 5 // 8 :])
        last = notes.major_faults() - before - first
        assert first * 4 < last, (first, last)


@pytest.mark.parametrize("why", ["settings", "refused"])
def test_without_the_order_of_use_pages_are_read_by_address(
    notes: Application, tmp_path: Path, why: str
) -> None:
    settings = ONLY_PREFETCH + ("order = 'use'\n" if why == "refused" else "")
    through = without_events() if why == "refused" else ()
    with Relaunchd(tmp_path, {"notes": notes.freezer}, settings, through) as daemon:
        assert daemon.event("start", 0)["order"] == "address"
        report = json.loads(asked(daemon.statistics))
        assert report["order"] == "address" and "order_source" not in report
        assert ("order_refused" in report) == (why == "refused")
        refused = [line for line in daemon.lines if "the order of use: pages are read" in line]
        assert len(refused) == (1 if why == "refused" else 0), daemon.lines
        used_in_order(notes, daemon, shuffled(notes))
        assert daemon.event("frozen", 1)["ordered_pages"] == "0"
        reads = Reads(daemon, tmp_path)
        assert int(str(daemon.do("thaw", "notes")["prefetched_pages"])) >= PAGES
        ranges = reads.ended()
        assert ranges == sorted(ranges, key=lambda read: read.start)
        assert len(ranges) == int(daemon.event("thawed", 1)["ranges"])


def without_events() -> tuple[str, ...]:
    """A command that runs another one with neither BPF nor tracefs."""
    if shutil.which("setpriv") is None or shutil.which("unshare") is None:
        pytest.skip("no setpriv and unshare (util-linux), which take BPF and tracefs away")
    script = (
        "mount -t tmpfs none /sys/kernel && "
        'exec setpriv --bounding-set -bpf,-perfmon,-sys_admin "$@"'
    )
    return ("unshare", "--mount", "sh", "-c", script, "sh")


def test_two_relaunchds_at_once_are_refused(notes: Application, tmp_path: Path) -> None:
    with Relaunchd(tmp_path, {"notes": notes.freezer}) as daemon:
        command = [AGENT, "relaunchd", "--config", daemon.settings]
        second = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
        assert second.returncode == 3
        assert "another program answers there" in second.stderr
        # With sockets of its own it would still watch the same group.
        other = tmp_path / "other.toml"
        other.write_text(
            f'[[app]]\nname = "n"\ncgroup = "{notes.freezer}"\n'
            f'[sockets]\ncontrol = "{tmp_path}/other.sock"\n'
        )
        command = [AGENT, "relaunchd", "--config", other]
        second = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
        assert second.returncode == 3
        assert "another relaunchd watches it" in second.stderr
        check = [AGENT, "relaunchd", "check", daemon.settings]
        answer = subprocess.run(check, capture_output=True, text=True, timeout=HANGS_AFTER_S)
        assert answer.returncode == 0, answer.stderr
        assert "watched by a running relaunchd" in answer.stdout
        assert daemon.do("freeze", "notes")["ok"]


def test_wrong_settings_and_requests_have_a_line(tmp_path: Path) -> None:
    def ran(*words: str | Path) -> tuple[int, str]:
        command = [AGENT, "relaunchd", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
        assert done.stderr.count("\n") == 1, done.stderr
        return done.returncode, done.stderr

    settings = tmp_path / "a.toml"
    for text, status, expected in [
        ("", 2, "a.toml: no application: add [[app]]"),
        ("gap_pages = -1\n", 2, "a.toml:1: gap_pages is -1, expected from 0 to 4096"),
        ('[[app]]\nname = "a"\n', 2, "a.toml:1: missing field `cgroup`"),
        (
            '[[app]]\nname = "a"\ncgroup = "/sys/fs/cgroup/freezer"\n',
            3,
            "is not a cgroup that can be frozen",
        ),
    ]:
        settings.write_text(text)
        for words in (["check", settings], ["--config", settings]):
            found = ran(*words)
            assert found[0] == status and expected in found[1], (text, found)
    assert ran("--config", tmp_path / "none.toml")[0] == 2
    status, text = ran("freeze", "a", "--socket", tmp_path / "none.sock")
    assert status == 3 and "start it: pagewise-agent relaunchd" in text
    (tmp_path / "file").write_text("mine")
    settings.write_text(
        f'[[app]]\nname = "a"\ncgroup = "/no/such"\n[sockets]\ncontrol = "{tmp_path}/file"\n'
    )
    status, text = ran("--config", settings)
    assert status == 3 and "a file that is not a socket has this path" in text
    assert (tmp_path / "file").read_text() == "mine"


def test_a_group_that_does_not_exist_is_awaited(tmp_path: Path) -> None:
    with Relaunchd(tmp_path, {"notes": Path("/no/such/group")}) as daemon:
        assert daemon.event("missing", 0)["app"] == "notes" and not daemon.events("gone")
        refused = daemon.asked("freeze", "notes")
        assert refused.returncode == 3
        assert "/no/such/group: it does not exist: start the application" in refused.stderr
        refused = daemon.asked("thaw", "mail")
        assert refused.returncode == 3
        assert 'there is no application "mail"; there are notes' in refused.stderr
