"""Makes Perfetto traces of phones whose threads follow a small simulated scheduler.

The phones are simulated, not recorded: CPUs with run queues, launches that read files and wait,
kswapd, direct reclaim, kills by lmkd. The same seed gives the same bytes.

    python tests/phone_traces.py    # writes the trace of the tutorial
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfetto_traces import BOOT_NS, DEVICE, WALL_NS, Writer, event, protos

MS = 1_000_000
SECOND = 1000 * MS
SYSTEM_SERVER, LMKD, ZYGOTE, KSWAPD = 1858, 500, 700, 60
EXAMPLE = Path(__file__).resolve().parents[1] / "examples/phone.perfetto-trace.gz"


@dataclass
class Thread:
    """A thread and what it does next."""

    tid: int
    comm: str
    cpu: int
    wake_ns: int
    """When the thread is ready; it sleeps until then."""
    until_ns: int
    """When the thread ends, or at most the end of the trace."""
    is_reader: bool = False
    waits_io: bool = False
    in_wait: bool = False


@dataclass
class Phone:
    """A trace in the making."""

    seed: int
    seconds: float = 20.0
    has_reasons: bool = True
    has_wakes: bool = True
    slow: float = 1.0
    """By how much waits for files are longer."""
    writer: Writer = field(default_factory=Writer)
    events: list[tuple[int, int, int, str, dict[str, Any]]] = field(default_factory=list)
    """Time, CPU, thread, name and fields of each kernel event."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.writer.begin()
        self.threads: list[Thread] = []
        self.pages: dict[int, list[int]] = {}

    def emit(self, time_ns: int, cpu: int, tid: int, name: str, **fields: Any) -> None:
        """Adds a kernel event."""
        self.events.append((time_ns, cpu, tid, name, fields))

    def mark(self, time_ns: int, tid: int, text: str) -> None:
        """Adds a marker of userspace."""
        self.emit(time_ns, 0, tid, "print", buf=f"{text}\n")

    def process(self, pid: int, name: str, *, adj: int, rss_kb: int, threads: int = 1) -> None:
        """A process that exists from the beginning."""
        tree = self.writer.packet(time_ns=BOOT_NS + MS).process_tree
        tree.processes.add(pid=pid, ppid=1, cmdline=[name], uid=10000 + pid)
        for number in range(threads):
            comm = name[-15:] if number == 0 else f"worker-{number}"
            tree.threads.add(tid=pid + number, tgid=pid, name=comm)
            self.threads.append(
                Thread(pid + number, comm, self.random.randrange(2), 2 * MS, self.end_ns())
            )
        self.sample(MS, pid, adj, rss_kb)

    def sample(self, time_ns: int, pid: int, adj: int, rss_kb: int) -> None:
        """A sample of the memory of a process."""
        stats = self.writer.packet(time_ns=BOOT_NS + time_ns).process_stats
        stats.processes.add(pid=pid, vm_rss_kb=rss_kb, vm_swap_kb=rss_kb // 4, oom_score_adj=adj)

    def memory(self, time_ns: int, free_mib: int, some_ms: int, full_ms: int) -> None:
        """A sample of the system's memory."""
        system = self.writer.packet(time_ns=BOOT_NS + time_ns).sys_stats
        for key, mib in (
            ("MEMINFO_MEM_TOTAL", 4096),
            ("MEMINFO_MEM_FREE", free_mib),
            ("MEMINFO_MEM_AVAILABLE", 3 * free_mib),
            ("MEMINFO_CACHED", 2 * free_mib),
            ("MEMINFO_SWAP_TOTAL", 2048),
            ("MEMINFO_SWAP_FREE", 512),
        ):
            system.meminfo.add(key=key, value=mib << 10)
        for resource, ms in (("SOME", some_ms), ("FULL", full_ms)):
            system.psi.add(resource=f"PSI_RESOURCE_MEMORY_{resource}", total_ns=ms * MS)

    def end_ns(self) -> int:
        """The end of the trace."""
        return round(self.seconds * SECOND)

    def launch(self, number: int, package: str, pid: int, start_ns: int, kind: str) -> int:
        """A launch; returns its end. A cold launch forks the process."""
        length = round(self.random.uniform(0.4, 0.9) * self.slow * SECOND)
        end_ns = start_ns + length
        self.mark(start_ns, SYSTEM_SERVER, f"S|{SYSTEM_SERVER}|launchingActivity#{number}|{number}")
        first_ns = start_ns + 20 * MS
        if kind == "cold":
            comm = package[-15:]
            new = {"clone_flags": 0x1200011, "oom_score_adj": -1000}
            self.emit(first_ns, 0, ZYGOTE, "task_newtask", pid=pid, comm="main", **new)
            self.emit(
                first_ns + 100_000, 0, pid, "task_rename", pid=pid, oldcomm="main", newcomm=comm
            )
            for tid in (pid + 1, pid + 2):
                new = {"clone_flags": 0x3D0F00, "oom_score_adj": 0}
                made_ns = first_ns + (tid - pid) * MS
                self.emit(made_ns, 0, pid, "task_newtask", pid=tid, comm="pool", **new)
            for tid in range(pid, pid + 3):
                ready_ns = first_ns + (tid - pid + 1) * MS + 300_000
                thread = Thread(
                    tid, comm if tid == pid else "pool", tid % 2, ready_ns, end_ns + SECOND
                )
                thread.is_reader = True
                self.threads.append(thread)
            self.mark(first_ns + 5 * MS, pid, f"B|{pid}|bindApplication")
        else:
            for thread in self.threads:
                if pid <= thread.tid < pid + 3:
                    thread.is_reader = True
        self.mark(first_ns + 30 * MS, pid, f"B|{pid}|activityStart")
        self.mark(first_ns + 40 * MS, pid, f"E|{pid}")
        self.mark(end_ns, SYSTEM_SERVER, f"F|{SYSTEM_SERVER}|launchingActivity#{number}|{number}")
        text = f"launchingActivity#{number}:completed-{kind}:{package}"
        self.mark(end_ns + MS, SYSTEM_SERVER, f"I|{SYSTEM_SERVER}|{text}")
        return end_ns

    def kill(self, time_ns: int, pid: int, comm: str, reason: int, adj: int) -> None:
        """A kill by lmkd, whose victim ends 30 ms later."""
        self.mark(time_ns, LMKD, f"B|{LMKD}|lmk,{pid},{reason},{adj}")
        self.emit(time_ns + MS, 0, LMKD, "signal_generate", pid=pid, sig=9, comm=comm)
        self.mark(time_ns + 2 * MS, LMKD, f"E|{LMKD}")
        death_ns = time_ns + 30 * MS
        for thread in self.threads:
            if thread.tid == pid:
                thread.until_ns = min(thread.until_ns, death_ns)
        self.emit(death_ns, 1, pid, "sched_process_exit", comm=comm, pid=pid, tgid=pid)

    def reclaim(self, time_ns: int, tid: int, length_ns: int) -> None:
        """Direct reclaim of a thread."""
        self.emit(time_ns, 1, tid, "mm_vmscan_direct_reclaim_begin", order=0, gfp_flags=0)
        self.emit(time_ns + length_ns, 1, tid, "mm_vmscan_direct_reclaim_end", nr_reclaimed=32)

    def kswapd(self, time_ns: int, length_ns: int) -> None:
        """kswapd is awake."""
        self.emit(time_ns, 1, KSWAPD, "mm_vmscan_kswapd_wake", nid=0, order=0)
        self.emit(time_ns + length_ns, 1, KSWAPD, "mm_vmscan_kswapd_sleep", nid=0)

    def run(self, cpu: int) -> None:
        """Simulates a CPU: who runs, who is ready, who waits."""
        now_ns, running = 2 * MS, 0
        comms = {thread.tid: thread.comm for thread in self.threads} | {0: f"swapper/{cpu}"}
        own = [thread for thread in self.threads if thread.cpu == cpu]
        woken: set[int] = set()
        while now_ns < self.end_ns():
            alive = [thread for thread in own if thread.until_ns > now_ns]
            for thread in sorted(alive, key=lambda each: (each.wake_ns, each.tid)):
                if thread.wake_ns + 1000 <= now_ns and thread.tid not in woken:
                    self.wake(thread, cpu)
                    woken.add(thread.tid)
            ready = [thread for thread in alive if thread.tid in woken]
            if not ready:
                later = [thread.wake_ns + 1000 for thread in alive]
                now_ns = max(now_ns + 1000, min(later, default=self.end_ns()))
                continue
            thread = self.random.choice(ready)
            self.switch(now_ns, cpu, (running, 0), thread.tid, comms)
            slice_ns = self.random.randrange(200_000, 5 * MS)
            if thread.is_reader:
                self.read(now_ns + slice_ns // 2, cpu, thread.tid)
            now_ns += slice_ns
            state = self.pause(thread, now_ns)
            if state:
                woken.discard(thread.tid)
            self.switch(now_ns, cpu, (thread.tid, state), 0, comms)
            running = 0
            now_ns += 1000

    def pause(self, thread: Thread, now_ns: int) -> int:
        """What a thread does after it ran, as the kernel's number of the state."""
        dice = self.random.random()
        thread.in_wait = False
        if dice < 0.2:
            return 0
        if dice < 0.6:
            thread.in_wait, thread.waits_io = True, self.random.random() < 0.8
            longest = 6 * self.slow if thread.waits_io else 2
            thread.wake_ns = now_ns + self.random.randrange(100_000, round(longest * MS))
            return 2
        idle = 20 if thread.is_reader else 200
        thread.wake_ns = now_ns + self.random.randrange(MS, idle * MS)
        return 1

    def wake(self, thread: Thread, cpu: int) -> None:
        """A thread is ready again."""
        fields = {"comm": thread.comm, "pid": thread.tid, "prio": 120, "target_cpu": cpu}
        if self.has_wakes:
            self.emit(thread.wake_ns, cpu, 0, "sched_waking", **fields)
        if thread.in_wait and self.has_reasons:
            wait = {"pid": thread.tid, "io_wait": int(thread.waits_io), "caller": 1}
            self.emit(thread.wake_ns + 500, cpu, 0, "sched_blocked_reason", **wait)

    def switch(
        self, now_ns: int, cpu: int, prev: tuple[int, int], next_tid: int, comms: dict[int, str]
    ) -> None:
        """A CPU changes from one thread to another."""
        tid, state = prev
        self.emit(
            now_ns,
            cpu,
            tid,
            "sched_switch",
            prev_pid=tid,
            prev_comm=comms[tid],
            prev_prio=120,
            prev_state=state,
            next_pid=next_tid,
            next_comm=comms[next_tid],
            next_prio=120,
        )

    def read(self, time_ns: int, cpu: int, tid: int) -> None:
        """A thread reads pages of a file, some of which leave memory later."""
        inode = 1000 + self.random.randrange(6)
        first = self.random.randrange(64) * 8
        for index in range(first, first + self.random.randrange(1, 8)):
            self.emit(
                time_ns,
                cpu,
                tid,
                "mm_filemap_add_to_page_cache",
                i_ino=inode,
                index=index,
                s_dev=DEVICE,
                pfn=1,
            )
        if self.random.random() < 0.3:
            gone = {"i_ino": inode, "index": first, "s_dev": DEVICE, "pfn": 1}
            self.emit(time_ns + 100, cpu, KSWAPD, "mm_filemap_delete_from_page_cache", **gone)

    def bytes(self) -> bytes:
        """The file: bundles of each CPU, so that events are out of order as in real traces."""
        for cpu in (0, 1):
            self.run(cpu)
        by_cpu: dict[int, list[tuple[int, int, str, dict[str, Any]]]] = {0: [], 1: []}
        for time_ns, cpu, tid, name, fields in self.events:
            by_cpu[cpu].append((time_ns, tid, name, fields))
        for cpu, found in by_cpu.items():
            found.sort(key=lambda each: each[0])
            for place in range(0, len(found), 500):
                bundle = self.writer.bundle(cpu)
                for time_ns, tid, name, fields in found[place : place + 500]:
                    event(bundle, time_ns, tid, name, **fields)
        return self.writer.bytes()


def phone(seed: int, **settings: Any) -> Phone:
    """Twenty seconds of a phone short of memory: five launches, two kills, one of which returns."""
    made = Phone(seed, **settings)
    made.process(SYSTEM_SERVER, "system_server", adj=-900, rss_kb=400_000, threads=3)
    made.process(LMKD, "/system/bin/lmkd", adj=-1000, rss_kb=4_000)
    made.process(ZYGOTE, "zygote64", adj=-1000, rss_kb=90_000)
    made.process(KSWAPD, "kswapd0", adj=0, rss_kb=0)
    made.process(3000, "com.example.mail", adj=905, rss_kb=250_000)
    made.process(3100, "com.example.music", adj=200, rss_kb=120_000)
    made.process(3200, "com.example.feed", adj=915, rss_kb=300_000)
    made.process(3300, "com.example.warm", adj=700, rss_kb=80_000, threads=3)
    for second in range(round(made.seconds)):
        is_short = 8 <= second < 13
        stalled = max(0, min(second, 13) - 8)
        made.memory(second * SECOND + 3 * MS, 40 if is_short else 400, 300 * stalled, 80 * stalled)
    made.launch(1, "com.example.camera", 5000, 2 * SECOND, "cold")
    made.launch(2, "com.example.maps", 5010, 4 * SECOND, "cold")
    made.launch(3, "com.example.warm", 3300, 6 * SECOND, "warm")
    made.launch(4, "com.example.browser", 5020, 10 * SECOND, "cold")
    made.kill(10 * SECOND + 100 * MS, 3000, "om.example.mail", 8, 905)
    made.launch(5, "com.example.mail", 5030, 14 * SECOND, "cold")
    made.kill(17 * SECOND, 3100, "m.example.music", 2, 200)
    made.kswapd(9 * SECOND, 400 * MS)
    made.kswapd(10 * SECOND + 50 * MS, 900 * MS)
    for number in range(6):
        tid = 5020 + number % 3
        made.reclaim(10 * SECOND + (150 + 40 * number) * MS, tid, (5 + number) * MS)
    made.reclaim(11 * SECOND, SYSTEM_SERVER, 7 * MS)
    return made


def unpacked(data: bytes) -> Iterator[Any]:
    """Every packet, also of packed ones."""
    trace = protos.Trace()
    trace.ParseFromString(data)
    for packet in trace.packet:
        if packet.HasField("compressed_packets"):
            yield from unpacked(zlib.decompress(packet.compressed_packets))
        else:
            yield packet


def log_line(made: Phone, time_ns: int, tag: str, message: str) -> None:
    """Adds a line of the log."""
    log = made.writer.packet(time_ns=BOOT_NS + time_ns).android_log
    log.events.add(
        pid=LMKD, tid=LMKD, timestamp=WALL_NS + time_ns, tag=tag, prio="PRIO_INFO", message=message
    )


if __name__ == "__main__":
    import gzip

    EXAMPLE.write_bytes(gzip.compress(phone(7).bytes(), 9, mtime=0))
