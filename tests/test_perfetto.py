"""Perfetto traces, against Google's own bindings."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import perfetto_traces
import pytest
from perfetto_traces import counted, packed, phone

import pagewise

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT.parent / "shared/data/formats/perfetto/startup_part.perfetto-trace"


def info_of(path: Path, *options: str) -> dict:
    command = [sys.executable, "-m", "pagewise", "info", str(path), "--json", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.skipif(not SAMPLE.exists(), reason="the public sample is not on this machine")
def test_a_real_trace_has_the_counts_of_the_bindings() -> None:
    result = info_of(SAMPLE)
    expected = counted(SAMPLE.read_bytes())
    assert result["events"] == expected
    assert sum(expected.values()) > 20_000
    system = result["header"]["system"]
    assert system["packets"]["ftrace_events"] == 29
    assert system["facts"]["launch"] == 2
    assert system["unknown_fields"] == []
    assert system["clock_problems"] == {}


def test_a_written_trace_has_the_counts_of_the_bindings(tmp_path: Path) -> None:
    data = phone().bytes()
    forms = {
        "plain": data,
        "gz": gzip.compress(data),
        "packed": packed(data),
        "joined": data + packed(data),
    }
    for name, form in forms.items():
        path = perfetto_traces.write(tmp_path / name, form)
        result = info_of(path)
        plain = gzip.decompress(form) if name == "gz" else form
        assert result["events"] == counted(plain), name
        system = result["header"]["system"]
        times = 2 if name == "joined" else 1
        assert system["sessions"] == times
        for fact in ("launch", "lmkd_kill", "process", "meminfo", "vmstat", "pressure", "log_kill"):
            assert system["facts"][fact] == times, (name, fact)
        assert system["generic_events"] == {"mm_vmscan_lru_shrink_inactive": times}
        assert result["header"]["losses"] == []
        unanswered = [row["question"] for row in result["questions"] if not row["is_answered"]]
        assert unanswered == [
            "how long a launch ran, and how long it waited for a CPU or for I/O (launches)",
            "how long threads compacted memory (pressure)",
            "which addresses were used when, by DAMON (pressure)",
        ]
        if name == "plain":
            assert (result["accesses"], result["header"]["kind"]) == (1, "block")
            assert result["header"]["devices"] == ["254,5"]
            assert result["processes"][0]["name"] == "com.example.app"
            assert result["header"]["disordered"] == 0


def test_pages_of_files_become_a_swap_trace(tmp_path: Path) -> None:
    path = perfetto_traces.write(tmp_path / "trace", phone().bytes())
    result = info_of(path, "--as", "swap")
    assert dict(result["kinds"]) == {"request": 1, "evict": 1}
    assert result["header"]["files"][0]["inode"] == 99
    assert result["header"]["files"][0]["device"] == "254:5"
    writer = perfetto_traces.Writer()
    writer.begin()
    bundle = writer.bundle(0)
    perfetto_traces.event(
        bundle, 1, 5, "mm_filemap_add_to_page_cache", i_ino=1, index=2, s_dev=perfetto_traces.DEVICE
    )
    only_pages = perfetto_traces.write(tmp_path / "pages", writer.bytes())
    assert info_of(only_pages)["header"]["kind"] == "swap"


def test_losses_and_unknown_fields_are_counted(tmp_path: Path) -> None:
    writer = phone()
    writer.trace.packet[2].ftrace_events.lost_events = True
    # Perfetto marks the first packet of every sequence, before which nothing is known.
    writer.trace.packet[2].previous_packet_dropped = 1
    writer.trace.packet[3].previous_packet_dropped = 1
    for phase, overrun in (("START_OF_TRACE", 5), ("END_OF_TRACE", 12)):
        stats = writer.packet().ftrace_stats
        stats.phase = phase
        stats.cpu_stats.add(cpu=0, overrun=overrun, dropped_events=1)
    writer.packet().trace_stats.buffer_stats.add(chunks_overwritten=3)
    # Field 500 of a packet, and field 900 of an event, which no version of Perfetto has.
    unknown_packet = bytes.fromhex("0a03 a01f01")
    unknown_event = bytes.fromhex("0a07 0a05 1203 a23800")
    samples = every_sample(writer)
    for sample in samples.values():
        sample.MergeFromString(bytes.fromhex("a01f01"))  # field 500, a number
    # A number that does not end, in a process of ProcessStats and in ProcessStats itself.
    damaged = bytes.fromhex("0a06 4a04 0a02 0880  0a04 4a02 0880")
    data = writer.bytes() + unknown_packet + unknown_event + damaged
    result = info_of(perfetto_traces.write(tmp_path / "trace", data))
    losses = {loss["what"]: loss["count"] for loss in result["header"]["losses"]}
    assert losses == {
        "times that a CPU's ring buffer lost events": 1,
        "gaps in the packets of a writer": 1,
        "events that the kernel's ring buffers overwrote or dropped": 7,
        "chunks of packets that Perfetto's buffers overwrote": 3,
        "samples that are damaged": 1,
        "packets that are damaged": 1,
    }
    unknown = {
        (row["message"], row["number"]): row["count"]
        for row in result["header"]["system"]["unknown_fields"]
    }
    expected = {("TracePacket", 500): 1, ("FtraceEvent", 900): 1}
    assert unknown == expected | {(name, 500): 1 for name in samples}


def every_sample(writer: perfetto_traces.Writer) -> dict[str, Any]:
    """Adds a message of each type that samples of the system have, and returns them by name."""

    def packet() -> Any:
        return writer.packet(time_ns=perfetto_traces.BOOT_NS + 60)

    tree, stats = packet().process_tree, packet().process_stats
    system, log = packet().sys_stats, packet().android_log
    line = log.events.add(timestamp=perfetto_traces.WALL_NS + 60, tag="am_wtf")
    return {
        "ProcessTree": tree,
        "ProcessTree.Process": tree.processes.add(pid=50),
        "ProcessTree.Thread": tree.threads.add(tid=51),
        "ProcessStats": stats,
        "ProcessStats.Process": stats.processes.add(pid=50),
        "SysStats": system,
        "SysStats.MeminfoValue": system.meminfo.add(key="MEMINFO_MEM_FREE"),
        "SysStats.VmstatValue": system.vmstat.add(key="VMSTAT_PSWPIN"),
        "SysStats.PsiSample": system.psi.add(resource="PSI_RESOURCE_IO_SOME"),
        "AndroidLogPacket": log,
        "AndroidLogPacket.LogEvent": line,
        "AndroidLogPacket.LogEvent.Arg": line.args.add(int_value=1),
    }


def test_every_field_of_a_sample_in_the_bindings_is_known(tmp_path: Path) -> None:
    writer = perfetto_traces.Writer()
    writer.begin()
    for message in every_sample(writer).values():
        for field in message.DESCRIPTOR.fields:
            if field.message_type is None:
                is_text = field.cpp_type == field.CPPTYPE_STRING
                value = field.enum_type.values[0].number if field.enum_type else 1
                value = "text" if is_text else value
                if field.is_repeated:
                    getattr(message, field.name).append(value)
                else:
                    setattr(message, field.name, value)
            elif field.is_repeated:
                getattr(message, field.name).add()
            else:
                getattr(message, field.name).SetInParent()
    result = info_of(perfetto_traces.write(tmp_path / "trace", writer.bytes()))
    assert result["header"]["system"]["unknown_fields"] == []
    assert result["header"]["losses"] == []


def test_a_cut_file_keeps_what_came_before(tmp_path: Path) -> None:
    data = phone().bytes()
    # A cut within the first 256 KiB of compressed data would be an error, as for every format.
    long = data * 400
    for number, form in enumerate([data[:-20], gzip.compress(long)[:-30]]):
        result = info_of(perfetto_traces.write(tmp_path / f"cut{number}", form))
        losses = " ".join(loss["what"] for loss in result["header"]["losses"])
        assert "cut" in losses, losses
    assert info_of(tmp_path / "cut0")["events"] == counted(data)


def test_an_import_keeps_what_the_trace_has(tmp_path: Path) -> None:
    source = perfetto_traces.write(tmp_path / "trace", phone().bytes())
    target = tmp_path / "t.parquet"
    pagewise.import_trace([source], target)
    imported, direct = info_of(target), info_of(source)
    assert imported["events"] == direct["events"]
    assert imported["header"]["system"] == direct["header"]["system"]
    assert imported["questions"] == direct["questions"]


def test_the_table_of_fields_is_that_of_the_bindings() -> None:
    command = [sys.executable, str(ROOT / "tools/perfetto_fields.py"), "--check"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr


def test_every_kind_of_event_is_counted(tmp_path: Path) -> None:
    writer = perfetto_traces.Writer()
    writer.begin()
    bundle = writer.bundle(0)
    kinds = perfetto_traces.protos.FtraceEvent.DESCRIPTOR.oneofs_by_name["event"].fields
    for number, kind in enumerate(kinds):
        for repeat in range(number % 3 + 1):
            perfetto_traces.event(bundle, number * 10 + repeat, 1, kind.name)
    data = writer.bytes()
    result = info_of(perfetto_traces.write(tmp_path / "trace", data))
    assert result["events"] == counted(data)
    assert len(result["events"]) == len(kinds) > 590


@pytest.mark.slow
def test_memory_is_bounded_for_many_events(tmp_path: Path) -> None:
    writer = perfetto_traces.Writer()
    writer.begin()
    count = 50_000
    for number in range(80):
        compact = writer.bundle(number % 8).compact_sched
        compact.intern_table.append("app")
        start = perfetto_traces.BOOT_NS + number // 8 * perfetto_traces.SECOND_NS
        compact.switch_timestamp.extend([start] + [9_000] * (count - 1))
        compact.switch_next_pid.extend(range(count))
        for numbers in (
            compact.switch_prev_state,
            compact.switch_next_prio,
            compact.switch_next_comm_index,
        ):
            numbers.extend([0] * count)
    path = perfetto_traces.write(tmp_path / "trace", writer.bytes())
    # The peak as the process itself sees it: ru_maxrss would include that of this process.
    script = (
        "import json, pagewise, re, sys\n"
        "info = pagewise.info(sys.argv[1])\n"
        # Which sorts all events; info sorts only requests.
        "losses = pagewise.pressure(sys.argv[1])['losses']\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
        "system = info['header']['system']\n"
        "print(json.dumps([info['events'], system['clock_problems'], losses, int(peak)]))\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    events, problems, losses, peak_kib = json.loads(ended.stdout)
    assert events == {"sched_switch": 80 * count}
    assert (problems, losses) == ({}, [])
    assert peak_kib < 300 * 1024
