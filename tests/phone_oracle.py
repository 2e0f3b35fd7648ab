"""What launches did, computed slowly from a Perfetto trace with Google's bindings.

Every thread's life is a list of times and states; what a launch did is the sum of the overlaps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from phone_traces import unpacked

PAGE = 4096


@dataclass
class Facts:
    """What the trace says, as lists in the order of time."""

    lives: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)
    """Begin, end and state of every thread."""
    processes: dict[int, int] = field(default_factory=dict)
    """Process of each thread."""
    names: dict[int, str] = field(default_factory=dict)
    launches: list[dict[str, Any]] = field(default_factory=list)
    reclaims: list[tuple[int, int, int]] = field(default_factory=list)
    reads: list[tuple[int, int, int, bool]] = field(default_factory=list)
    """Time, thread, inode, and whether the page was there before."""
    kills: dict[int, int] = field(default_factory=dict)
    """Time of the kill by pid."""
    deaths: dict[int, int] = field(default_factory=dict)
    kswapd: list[tuple[int, int]] = field(default_factory=list)
    begin: int = 0


def kernel_events(data: bytes) -> list[tuple[int, int, Any]]:
    """Time, thread and event of every kernel event."""
    found = []
    for packet in unpacked(data):
        if packet.HasField("ftrace_events"):
            found += [(each.timestamp, each.pid, each) for each in packet.ftrace_events.event]
    return sorted(found, key=lambda each: each[0])


def read(data: bytes) -> Facts:
    """Reads a trace."""
    facts = Facts()
    changes: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for packet in unpacked(data):
        if packet.HasField("process_tree"):
            for process in packet.process_tree.processes:
                facts.names[process.pid] = process.cmdline[0]
            for thread in packet.process_tree.threads:
                facts.processes[thread.tid] = thread.tgid
    events = kernel_events(data)
    facts.begin = events[0][0]
    begun: dict[str, int] = {}
    reclaiming: dict[int, int] = {}
    gone: set[tuple[int, int]] = set()
    awake = None
    for time, tid, each in events:
        kind = each.WhichOneof("event")
        message = getattr(each, kind)
        if kind == "sched_switch":
            if message.prev_pid:
                state = {0: "runnable", 1: "sleeping", 2: "D"}[message.prev_state]
                changes[message.prev_pid].append((time, state))
            if message.next_pid:
                changes[message.next_pid].append((time, "running"))
        elif kind == "sched_waking":
            if not changes[message.pid] or changes[message.pid][-1][1] in ("sleeping", "D"):
                changes[message.pid].append((time, "runnable"))
        elif kind == "sched_blocked_reason":
            place = next(
                place
                for place in reversed(range(len(changes[message.pid])))
                if changes[message.pid][place][1] == "D"
            )
            begin, _ = changes[message.pid][place]
            changes[message.pid][place] = (begin, "io" if message.io_wait else "other")
        elif kind == "task_newtask":
            is_thread = bool(message.clone_flags & 0x10000)
            facts.processes[message.pid] = tid if is_thread else message.pid
        elif kind == "task_rename":
            facts.names.setdefault(message.pid, message.newcomm)
        elif kind == "mm_vmscan_direct_reclaim_begin":
            reclaiming[tid] = time
        elif kind == "mm_vmscan_direct_reclaim_end":
            facts.reclaims.append((reclaiming.pop(tid), time, tid))
        elif kind == "mm_vmscan_kswapd_wake":
            awake = time
        elif kind == "mm_vmscan_kswapd_sleep":
            facts.kswapd.append((awake, time))
        elif kind == "mm_filemap_delete_from_page_cache":
            gone.add((message.i_ino, message.index))
        elif kind == "mm_filemap_add_to_page_cache":
            page = (message.i_ino, message.index)
            facts.reads.append((time, tid, message.i_ino, page in gone))
            gone.discard(page)
        elif kind == "sched_process_exit":
            facts.deaths[message.tgid] = time
        elif kind == "signal_generate" and message.sig == 9:
            facts.kills.setdefault(message.pid, time)
        elif kind == "print":
            text = message.buf.strip()
            if text.startswith("S|") and "launchingActivity#" in text:
                begun[text.split("|")[2]] = time
            elif text.startswith("F|") and "launchingActivity#" in text:
                name = text.split("|")[2]
                facts.launches.append({"name": name, "start": begun[name], "end": time})
            elif ":completed-" in text:
                name, class_, package = text.split("|")[2].split(":")
                launch = next(each for each in facts.launches if each["name"] == name)
                launch |= {"class": class_.removeprefix("completed-"), "package": package}
            elif "|lmk," in text:
                facts.kills[int(text.split(",")[1])] = time
    for tid, found in changes.items():
        ends = [time for time, _ in found[1:]] + [events[-1][0]]
        facts.lives[tid] = [
            (time, end, state) for (time, state), end in zip(found, ends, strict=True)
        ]
    return facts


def overlap(begin: int, end: int, launch: dict[str, Any]) -> int:
    """How much of a time lies in a launch."""
    return max(0, min(end, launch["end"]) - max(begin, launch["start"]))


def process_of(facts: Facts, package: str, launch: dict[str, Any]) -> int:
    """The pid of a package: the one that ran during the launch."""
    pids = [
        pid
        for pid, name in facts.names.items()
        if name in (package, package[-15:]) and facts.processes.get(pid) == pid
    ]
    return max(
        pids,
        key=lambda pid: sum(
            overlap(begin, end, launch)
            for begin, end, state in facts.lives.get(pid, [])
            if state == "running"
        ),
    )


def answer(facts: Facts, launch: dict[str, Any]) -> dict[str, Any]:
    """What a launch did, in nanoseconds and bytes."""
    pid = process_of(facts, launch["package"], launch)
    times: dict[str, dict[str, int]] = {
        side: dict.fromkeys(("running", "runnable", "io", "other", "D", "sleeping", "reclaim"), 0)
        for side in ("main", "others")
    }
    own = [tid for tid, process in facts.processes.items() if process == pid]
    for tid in own:
        side = times["main" if tid == pid else "others"]
        for begin, end, state in facts.lives.get(tid, []):
            side[state] += overlap(begin, end, launch)
        for begin, end, of in facts.reclaims:
            side["reclaim"] += overlap(begin, end, launch) if of == tid else 0
    reads = [
        (inode, is_again)
        for time, tid, inode, is_again in facts.reads
        if tid in own and launch["start"] <= time <= launch["end"]
    ]
    files: dict[int, int] = defaultdict(int)
    for inode, _ in reads:
        files[inode] += PAGE
    kswapd = sum(
        overlap(begin, end, launch)
        for tid, lives in facts.lives.items()
        if facts.names.get(tid, "").startswith("kswapd")
        for begin, end, state in lives
        if state == "running"
    )
    killed = [time for time in facts.kills.values() if launch["start"] <= time <= launch["end"]]
    waits = sum(
        overlap(time, facts.deaths[pid], launch)
        for pid, time in facts.kills.items()
        if pid in facts.deaths
    )
    return {
        "pid": pid,
        "times": times,
        "cache_bytes": PAGE * len(reads),
        "refault_bytes": PAGE * sum(is_again for _, is_again in reads),
        "files": dict(files),
        "kswapd": kswapd,
        "kills": len(killed),
        "kill_wait": waits,
    }
