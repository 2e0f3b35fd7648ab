"""Instances of tracefs, and their text as Perfetto traces."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from perfetto_traces import Writer

TRACING = Path("/sys/kernel/tracing")
LINE = re.compile(
    r"^\s*.{1,16}-(\d+)\s+\[(\d+)\]\s+\S+\s+(\d+)\.(\d+): "
    r"(?:(\w+): (.*)|<stack trace>)$"
)
STATES = {"R": 0, "S": 1, "D": 2, "T": 4, "t": 8, "X": 16, "Z": 32, "P": 64, "I": 1026}
MEMBERS = {"MM_FILEPAGES": 0, "MM_ANONPAGES": 1, "MM_SWAPENTS": 2, "MM_SHMEMPAGES": 3}
SLEEPS_FOR_IO = {"io_schedule", "io_schedule_timeout", "mutex_lock_io"}
"""The functions in which a thread counts as waiting for I/O (``in_iowait`` of the kernel)."""
SWAP_FAULT = 5
"""Swap-ins in ``mm_event_record`` (include/linux/mm_event.h, Android's kernels 4.9 to 4.19)."""
BUNDLE_EVENTS = 10_000
"""Events after which each CPU begins a new bundle, as Perfetto does when it reads its buffers."""


@dataclass(slots=True)
class Entry:
    """A line of tracefs, or a marker."""

    tid: int
    cpu: int
    time_ns: int
    name: str
    text: str
    stack: list[str] = field(default_factory=list)
    """The functions that the thread was in, innermost first; empty if no trigger wanted them."""


@contextmanager
def tracing(events: Sequence[str], buffer_kib: int) -> Iterator[Path]:
    """An instance of tracefs that records these events (group/event) on the clock ``boot``, with a
    buffer of this size on each CPU; it is removed at the end."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with tracefs() as root:
        folder = root / f"instances/pagewise-test-{os.getpid()}"
        folder.mkdir()
        try:
            (folder / "trace_clock").write_text("boot")
            (folder / "buffer_size_kb").write_text(str(buffer_kib))
            for event in events:
                (folder / "events" / event / "enable").write_text("1")
            yield folder
        finally:
            (folder / "tracing_on").write_text("0")
            folder.rmdir()


@contextmanager
def tracefs() -> Iterator[Path]:
    """The folder of tracefs; one of ours if it is not mounted at its usual place."""
    if (TRACING / "instances").is_dir():
        yield TRACING
        return
    if "\ttracefs\n" not in Path("/proc/filesystems").read_text():
        pytest.skip("the kernel has no tracefs")
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tracefs", "pagewise-test", folder]
        done = subprocess.run(mount, capture_output=True, text=True, timeout=60)
        if done.returncode:
            pytest.skip(f"tracefs cannot be mounted: {done.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True, timeout=60)


def losses(folder: Path) -> list[str]:
    """The counts of events that the buffers of an instance lost, those that are not 0."""
    return [
        line
        for stats in folder.glob("per_cpu/cpu*/stats")
        for line in stats.read_text().splitlines()
        if line.startswith(("overrun", "dropped events")) and not line.endswith(" 0")
    ]


SWITCH = re.compile(r"\[(\d+)\] .* sched_switch: .*prev_pid=(\d+) .*next_pid=(\d+)")
MISSING_MAX = 0.05


def skip_if_switches_are_missing(text: str) -> None:
    """Skips the test if the kernel left switches out of the trace: threads that leave a CPU without
    having come to it. Seen on Linux 6.18, with those from one idle CPU."""
    last: dict[str, str] = {}
    count = missing = 0
    for cpu, left, came in SWITCH.findall(text):
        missing += last.get(cpu, left) != left
        last[cpu] = came
        count += 1
    if missing > count * MISSING_MAX:
        pytest.skip(f"not measurable: the kernel left out {missing} switches, and recorded {count}")


def entries(text: str) -> list[Entry]:
    """The events in the text of tracefs."""
    found: list[Entry] = []
    # A stack follows its event on the same CPU; events of other CPUs may stand between them.
    switched: dict[int, Entry] = {}
    stack: list[str] = []
    for line in text.splitlines():
        if line.startswith(" => "):
            stack.append(line.removeprefix(" => ").split("+")[0])
        elif matched := LINE.match(line):
            tid, cpu, seconds, fraction, name, rest = matched.groups()
            if name is None:
                stack = switched[int(cpu)].stack if int(cpu) in switched else []
                continue
            time_ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
            entry = Entry(int(tid), int(cpu), time_ns, name, rest)
            found.append(entry)
            if name == "sched_switch":
                switched[entry.cpu] = entry
    return found


def fields_of(text: str) -> dict[str, str]:
    """The fields of an event's text: values may have spaces, names have none."""
    parts = re.split(r"(?:^| )(\w+)=", text.replace(" ==>", ""))
    return {name: value.strip() for name, value in zip(parts[1::2], parts[2::2], strict=True)}


def state_of(letters: str) -> int:
    return STATES.get(letters[0], 0)


def hexadecimal(digits: str) -> int:
    return int(digits, 16)


def bytes_of(size: str) -> int:
    return int(size.removesuffix("B"))


def member_of(name: str) -> int:
    return MEMBERS.get(name, len(MEMBERS))


FieldRow = tuple[str, str, Callable[[str], Any]]
PID: FieldRow = ("pid", "pid", int)
COMM: FieldRow = ("comm", "comm", str)
ORDER: FieldRow = ("order", "order", int)
ADJ: FieldRow = ("oom_score_adj", "oom_score_adj", int)
NODE: FieldRow = ("nid", "nid", int)
RECLAIMED: FieldRow = ("nr_reclaimed", "nr_reclaimed", int)
FIELDS: dict[str, tuple[FieldRow, ...]] = {
    "sched_switch": (
        ("prev_pid", "prev_pid", int),
        ("prev_comm", "prev_comm", str),
        ("prev_state", "prev_state", state_of),
        ("next_pid", "next_pid", int),
        ("next_comm", "next_comm", str),
    ),
    "sched_waking": (PID, COMM),
    "sched_wakeup": (PID, COMM),
    "sched_wakeup_new": (PID, COMM),
    "sched_process_exit": (PID, COMM),
    "task_newtask": (PID, COMM, ("clone_flags", "clone_flags", hexadecimal), ADJ),
    "task_rename": (("newcomm", "newcomm", str), ADJ),
    "mm_vmscan_direct_reclaim_begin": (ORDER,),
    "mm_vmscan_direct_reclaim_end": (RECLAIMED,),
    "mm_vmscan_memcg_reclaim_begin": (ORDER,),
    "mm_vmscan_memcg_reclaim_end": (RECLAIMED,),
    "mm_vmscan_kswapd_wake": (NODE, ORDER),
    "mm_vmscan_kswapd_sleep": (NODE,),
    "signal_generate": (("sig", "sig", int), PID, COMM),
    "mark_victim": (PID,),
    "rss_stat": (
        ("mm_id", "mm_id", int),
        ("curr", "curr", int),
        ("member", "type", member_of),
        ("size", "size", bytes_of),
    ),
}
"""The fields of an event in Perfetto's message, each with its name in the text and its type."""
WAKES = ("sched_waking", "sched_wakeup", "sched_wakeup_new")
PAGE_CACHE = ("mm_filemap_add_to_page_cache", "mm_filemap_delete_from_page_cache")
FAULTS = ("page_fault_user", "page_fault_kernel")


def add(bundle: Any, entry: Entry, name: str, **fields: Any) -> None:
    """Adds an event at the time of an entry."""
    event = bundle.event.add(timestamp=entry.time_ns, pid=entry.tid)
    message = getattr(event, name)
    message.SetInParent()
    for key, value in fields.items():
        setattr(message, key, value)


def add_pages(bundle: Any, entry: Entry) -> None:
    """Adds an event of the page cache. Perfetto's bindings have no order, so a large folio is an
    event for each page."""
    page = re.search(r"dev (\d+):(\d+) ino (\w+) .*ofs=(\d+)(?: order=(\d+))?", entry.text)
    assert page, entry.text
    place = {"s_dev": int(page[1]) << 8 | int(page[2]), "i_ino": int(page[3], 16)}
    for number in range(1 << int(page[5] or 0)):
        add(bundle, entry, entry.name, index=int(page[4]) // 4096 + number, **place)


@dataclass
class Android:
    """Makes the events that only Android's kernels have from those of the running kernel.

    ``sched_blocked_reason``, at the wakeup of a thread: whether the thread waited for I/O, by the
    stack at which it was switched out. ``mm_event_record``, at the end of a swap-in: how long the
    fault took, from page_fault_user to the change of the process's count of swapped pages.
    """

    waiting: dict[int, Entry] = field(default_factory=dict)
    faults: dict[int, int] = field(default_factory=dict)
    reclaiming: set[int] = field(default_factory=set)

    def take(self, bundle: Any, entry: Entry, given: dict[str, str]) -> None:
        """Takes an event, after it was added to the bundle."""
        name, tid = entry.name, entry.tid
        if name == "sched_switch":
            previous = int(given["prev_pid"])
            if given["prev_state"].startswith("D") and entry.stack:
                self.waiting[previous] = entry
            elif given["prev_state"].startswith("S"):
                # A fault does not sleep interruptibly, so it ended.
                self.faults.pop(previous, None)
        elif name in WAKES and (wait := self.waiting.pop(int(given["pid"]), None)):
            is_io = not SLEEPS_FOR_IO.isdisjoint(wait.stack)
            add(bundle, entry, "sched_blocked_reason", pid=int(given["pid"]), io_wait=int(is_io))
        elif name.endswith("_reclaim_begin"):
            self.reclaiming.add(tid)
        elif name.endswith("_reclaim_end"):
            self.reclaiming.discard(tid)
        elif name in FAULTS:
            self.faults[tid] = entry.time_ns
        elif name == "rss_stat" and self.ends_swap_in(tid, given):
            took_us = (entry.time_ns - self.faults.pop(tid)) // 1000
            times = {"avg_lat": took_us, "max_lat": took_us}
            add(bundle, entry, "mm_event_record", type=SWAP_FAULT, count=1, **times)

    def ends_swap_in(self, tid: int, given: dict[str, str]) -> bool:
        """Whether a change of resident memory is the swap-in of a fault. A thread that reclaims may
        write pages of its own process to swap."""
        is_swap = given["type"] == "MM_SWAPENTS" and given["curr"] == "1"
        return is_swap and tid in self.faults and tid not in self.reclaiming


def perfetto(
    text: str,
    marks: Sequence[tuple[int, str]] = (),
    wakes: Sequence[str] = ("sched_waking",),
) -> bytes:
    """The text of tracefs as a Perfetto trace, without events that ``pagewise launches`` does not
    read.

    ``marks``: times in nanoseconds, and texts of Android's markers of system_server. ``wakes``:
    which of ``WAKES`` count as wakeups.
    """
    writer, android = Writer(), Android()
    bundles: dict[int, Any] = {}
    marked = [Entry(1, 0, time_ns, "tracing_mark_write", mark) for time_ns, mark in marks]
    ordered = sorted([*entries(text), *marked], key=lambda entry: entry.time_ns)
    for number, entry in enumerate(ordered):
        if number % BUNDLE_EVENTS == 0:
            bundles.clear()
        if entry.cpu not in bundles:
            bundles[entry.cpu] = writer.bundle(entry.cpu)
        bundle, name = bundles[entry.cpu], entry.name
        if name == "tracing_mark_write":
            add(bundle, entry, "print", buf=entry.text)
        elif name in PAGE_CACHE:
            add_pages(bundle, entry)
        elif (name in FIELDS and name not in WAKES) or name in wakes or name in FAULTS:
            given = fields_of(entry.text)
            if name in FIELDS:
                fields = {key: convert(given[source]) for key, source, convert in FIELDS[name]}
                is_rename = name == "task_rename"  # Not every kernel states the thread.
                of_thread = {"pid": int(given.get("pid", entry.tid))} if is_rename else {}
                add(bundle, entry, name, **fields, **of_thread)
            android.take(bundle, entry, given)
    return writer.bytes()


def taken_s() -> float:
    """Seconds of all CPUs that interrupts and the host took so far, in ticks of 10 ms. The
    scheduler's statistics may leave them out, and the events of the trace do not."""
    return sum(ticks()[5:8]) / os.sysconf("SC_CLK_TCK")


def stolen_s() -> float:
    """Seconds of all CPUs that the host of a virtual machine took so far, in ticks of 10 ms."""
    return ticks()[7] / os.sysconf("SC_CLK_TCK")


def ticks() -> list[int]:
    """The columns of /proc/stat for all CPUs: user, nice, system, idle, iowait, irq, softirq,
    steal, and two more."""
    return list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]))
