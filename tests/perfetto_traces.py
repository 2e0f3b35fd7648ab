"""Writes Perfetto traces with Google's bindings, and counts their events with the same."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

SECOND_NS = 1_000_000_000
BOOT_NS = 1000 * SECOND_NS
"""Time since boot at which the traces begin."""
WALL_NS = 1_700_000_000 * SECOND_NS
"""Wall clock at that time."""
DEVICE = 254 << 8 | 5
"""A device as Perfetto stores it (makedev(3)): 254:5."""


class Writer:
    """A trace, packet by packet."""

    def __init__(self) -> None:
        self.trace = protos.Trace()

    def packet(self, sequence: int = 1, time_ns: int | None = None) -> Any:
        """A new packet."""
        packet = self.trace.packet.add()
        packet.trusted_packet_sequence_id = sequence
        if time_ns is not None:
            packet.timestamp = time_ns
        return packet

    def begin(self, boot_ns: int = BOOT_NS) -> None:
        """Clocks and configuration, as at the beginning of a session."""
        clocks = self.packet().clock_snapshot.clocks
        for clock_id, time_ns in ((6, boot_ns), (1, WALL_NS), (3, boot_ns - 7), (5, boot_ns // 2)):
            clocks.add(clock_id=clock_id, timestamp=time_ns)
        self.packet().trace_config.duration_ms = 1000

    def bundle(self, cpu: int) -> Any:
        """A new bundle of kernel events."""
        bundle = self.packet(sequence=2).ftrace_events
        bundle.cpu = cpu
        return bundle

    def bytes(self) -> bytes:
        """The file."""
        data: bytes = self.trace.SerializeToString()
        return data


def event(bundle: Any, time_ns: int, tid: int, name: str, **fields: Any) -> Any:
    """Adds a kernel event."""
    added = bundle.event.add(timestamp=BOOT_NS + time_ns, pid=tid)
    message = getattr(added, name)
    message.SetInParent()
    for field, value in fields.items():
        setattr(message, field, value)
    return added


def phone() -> Writer:
    """A trace of a launch, a kill, reclaim and file I/O on two CPUs, out of order as Perfetto's."""
    writer = Writer()
    writer.begin()
    late = writer.bundle(1)
    event(late, 5_000_000, 42, "sched_waking", comm="app", pid=50, prio=120, target_cpu=1)
    event(late, 6_000_000, 42, "print", buf="S|42|launchingActivity#3|0\n")
    event(
        late,
        7_000_000,
        50,
        "mm_filemap_add_to_page_cache",
        i_ino=99,
        index=5,
        s_dev=DEVICE,
        pfn=1,
    )
    event(late, 8_000_000, 50, "mm_filemap_delete_from_page_cache", i_ino=99, index=5, s_dev=DEVICE)
    early = writer.bundle(0)
    compact = early.compact_sched
    compact.intern_table.extend(["app", "swapper/0"])
    compact.switch_timestamp.extend([BOOT_NS + 1_000_000, 500_000, 500_000])
    compact.switch_prev_state.extend([0, 2, 256])
    compact.switch_next_pid.extend([50, 0, 51])
    compact.switch_next_prio.extend([120, 120, 99])
    compact.switch_next_comm_index.extend([0, 1, 0])
    compact.waking_timestamp.extend([BOOT_NS + 1_200_000, 100])
    compact.waking_pid.extend([51, 52])
    compact.waking_target_cpu.extend([0, 1])
    compact.waking_prio.extend([99, 120])
    compact.waking_comm_index.extend([0, 0])
    compact.waking_common_flags.extend([1, 1])
    for number, (stage, extra) in enumerate(
        [("block_rq_issue", {"comm": "app", "bytes": 4096}), ("block_rq_complete", {})]
    ):
        event(
            early,
            2_010_000 + number,
            50,
            stage,
            dev=DEVICE,
            sector=80,
            nr_sector=8,
            rwbs="RA",
            **extra,
        )
    event(early, 3_000_000, 50, "rss_stat", member=1, size=40960, curr=1, mm_id=7)
    event(early, 3_100_000, 50, "mm_vmscan_direct_reclaim_begin", order=0, gfp_flags=1)
    event(early, 3_200_000, 50, "mm_vmscan_direct_reclaim_end", nr_reclaimed=32)
    event(early, 3_300_000, 60, "mm_vmscan_kswapd_wake", nid=0, order=0)
    event(early, 3_400_000, 60, "mm_vmscan_kswapd_sleep", nid=0)
    event(early, 3_500_000, 70, "print", buf="B|70|lmk,4242,8,905\n")
    event(early, 3_600_000, 70, "print", buf="E|70\n")
    event(early, 3_700_000, 70, "signal_generate", pid=4242, sig=9, comm="victim")
    event(early, 3_800_000, 4242, "sched_process_exit", comm="victim", pid=4242, tgid=4242)
    event(early, 3_900_000, 42, "oom_score_adj_update", comm="app", pid=50, oom_score_adj=-900)
    event(early, 3_950_000, 0, "cpu_idle", state=1, cpu_id=0)
    generic = event(early, 3_960_000, 60, "generic", event_name="mm_vmscan_lru_shrink_inactive")
    for name, value in (("nid", 0), ("nr_scanned", 32), ("nr_reclaimed", 30), ("reclaim_flags", 2)):
        generic.generic.field.add(name=name, int_value=value)
    tree = writer.packet(time_ns=BOOT_NS + 10).process_tree
    tree.processes.add(pid=50, ppid=1, cmdline=["com.example.app", "--x"], uid=10123)
    tree.threads.add(tid=51, tgid=50, name="worker")
    stats = writer.packet(time_ns=BOOT_NS + 20).process_stats
    stats.processes.add(
        pid=50, vm_rss_kb=100, rss_anon_kb=60, rss_file_kb=40, vm_swap_kb=7, oom_score_adj=0
    )
    system = writer.packet(time_ns=BOOT_NS + 30).sys_stats
    system.meminfo.add(key="MEMINFO_MEM_FREE", value=2048)
    system.vmstat.add(key="VMSTAT_PSWPIN", value=11)
    system.psi.add(resource="PSI_RESOURCE_MEMORY_SOME", total_ns=123_000)
    log = writer.packet(time_ns=BOOT_NS + 40).android_log
    log.events.add(
        pid=42,
        tid=43,
        timestamp=WALL_NS + 50,
        tag="lowmemorykiller",
        prio="PRIO_INFO",
        message="Kill 'victim' (4242), uid 10124, oom_score_adj 905",
    )
    return writer


def packed(data: bytes) -> bytes:
    """The trace as one packet, as Perfetto packs it."""
    trace = protos.Trace()
    trace.packet.add().compressed_packets = zlib.compress(data)
    packed_data: bytes = trace.SerializeToString()
    return packed_data


def unpacked(data: bytes) -> list[Any]:
    """Every packet of a file, also of packed ones."""
    trace = protos.Trace()
    trace.ParseFromString(data)
    packets = []
    for packet in trace.packet:
        if packet.HasField("compressed_packets"):
            packets += unpacked(zlib.decompress(packet.compressed_packets))
        else:
            packets.append(packet)
    return packets


def counted(data: bytes) -> dict[str, int]:
    """Kernel events by kind, as Google's bindings count them; compact ones under their names."""
    counts: Counter[str] = Counter()
    for packet in unpacked(data):
        if not packet.HasField("ftrace_events"):
            continue
        bundle = packet.ftrace_events
        counts.update(kind for added in bundle.event if (kind := added.WhichOneof("event")))
        counts["sched_switch"] += len(bundle.compact_sched.switch_timestamp)
        counts["sched_waking"] += len(bundle.compact_sched.waking_timestamp)
    return {name: count for name, count in counts.items() if count}


def write(path: Path, data: bytes) -> Path:
    """Writes a file and returns its path."""
    path.write_bytes(data)
    return path


def write_seeds() -> None:
    """Writes the seeds of the fuzzer."""
    folder = Path(__file__).resolve().parents[1] / "fuzz/seeds/perfetto"
    folder.mkdir(exist_ok=True)
    write(folder / "small", phone().bytes())
    write(folder / "packed", packed(phone().bytes()))


if __name__ == "__main__":
    write_seeds()
