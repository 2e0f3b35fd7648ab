#!/usr/bin/env python3
"""Writes the table of field numbers that the reader of Perfetto traces uses, or checks it.

    .venv/bin/python tools/perfetto_fields.py [--check]

The numbers come from the message descriptors in the Python package `perfetto`, which
pyproject.toml pins for the tests. A line of the table is a message, a field's number and its
name: `FtraceEvent` gives each kernel event its number, `TracePacket` each packet, and an event's
own lines its fields. `vmstat` and `meminfo` are the counters of `SysStats`, with the names of the
kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "crates/trace/src/system/formats/perfetto/fields.txt"

DECODED_WORDS = """
    print tracing_mark_write sched_switch sched_waking sched_wakeup sched_wakeup_new
    sched_blocked_reason block_bio_queue block_rq_issue block_rq_complete
    mm_filemap_add_to_page_cache mm_filemap_delete_from_page_cache rss_stat rss_stat_throttled
    oom_score_adj_update mark_victim lowmemory_kill signal_generate sched_process_exit
    sched_process_fork sched_process_exec task_newtask task_rename mm_vmscan_direct_reclaim_begin
    mm_vmscan_direct_reclaim_end mm_vmscan_memcg_reclaim_begin mm_vmscan_memcg_reclaim_end
    mm_vmscan_kswapd_wake mm_vmscan_kswapd_sleep mm_compaction_begin mm_compaction_end
    mm_event_record
"""
DECODED = frozenset(DECODED_WORDS.split())
"""Events whose fields are in the table; a test in Rust compares them with the decoders."""

MEMINFO_WORDS = """
    MemTotal MemFree MemAvailable Buffers Cached SwapCached Active Inactive Active(anon)
    Inactive(anon) Active(file) Inactive(file) Unevictable Mlocked SwapTotal SwapFree Dirty
    Writeback AnonPages Mapped Shmem Slab SReclaimable SUnreclaim KernelStack PageTables
    CommitLimit Committed_AS VmallocTotal VmallocUsed VmallocChunk CmaTotal CmaFree Gpu Zram Misc
    IonHeap IonHeapPool
"""
MEMINFO = MEMINFO_WORDS.split()
"""Lines of /proc/meminfo in the order of `MeminfoCounters`; the last five are Android's."""


def rows() -> Iterator[tuple[str, int, str]]:
    """Every row: message, number, name."""
    for field in protos.TracePacket.DESCRIPTOR.fields:
        yield "TracePacket", field.number, field.name
    events = protos.FtraceEvent.DESCRIPTOR.oneofs_by_name["event"].fields
    for field in events:
        yield "FtraceEvent", field.number, field.name
    for event in events:
        if event.name in DECODED:
            for field in event.message_type.fields:
                yield event.name, field.number, field.name
    counters = protos.DESCRIPTOR.enum_types_by_name
    names = [value.name for value in counters["MeminfoCounters"].values][1:]
    for number, (line, name) in enumerate(zip(MEMINFO, names, strict=True), 1):
        letters = "".join(letter for letter in line.lower() if letter.isalpha())
        pieces = name.removeprefix("MEMINFO_").lower().split("_")
        shortened = "".join(pieces).replace("slabreclaimable", "sreclaimable")
        shortened = shortened.replace("slabunreclaimable", "sunreclaim")
        assert letters.replace("committed", "commited") == shortened, (line, name)
        yield "meminfo", number, line
    for value in counters["VmstatCounters"].values[1:]:
        yield "vmstat", value.number, value.name.removeprefix("VMSTAT_").lower()


def table() -> str:
    """The whole file."""
    return "".join(f"{message} {number} {name}\n" for message, number, name in sorted(rows()))


def main() -> None:
    """Writes the table, or compares it."""
    if "--check" not in sys.argv[1:]:
        TABLE.write_text(table())
    elif TABLE.read_text() != table():
        sys.exit(f"{TABLE.relative_to(ROOT)} is out of date: run tools/perfetto_fields.py")


if __name__ == "__main__":
    main()
